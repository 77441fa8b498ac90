package hosttest

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"

	"cuda-runpath/tests/tinyelf"
)

// A Tree is a host's files: a library, a text, or where a link leads ("-> …"), or "(device)"; a name that ends in "/"
// is a directory.
type Tree map[string]any

// Make makes them below a directory of the test's, which it returns.
func (files Tree) Make(t interface {
	Helper()
	TempDir() string
	Skip(args ...any)
	Fatalf(format string, args ...any)
}) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, what := range files {
		at := filepath.Join(root, name)
		dir := filepath.Dir(at)
		if strings.HasSuffix(name, "/") {
			dir = at
		}
		err := os.MkdirAll(dir, 0o755)
		if err == nil && dir != at {
			switch what := what.(type) {
			case tinyelf.Object:
				tinyelf.Put(t, at, what)
			case string:
				if target, ok := strings.CutPrefix(what, "-> "); ok {
					err = os.Symlink(target, at)
				} else if what == "(device)" {
					if err := Node(at); err != nil {
						t.Skip("no device nodes can be made here: ", err)
					}
				} else {
					tinyelf.Put(t, at, what)
				}
			}
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
	return root
}

// With returns the tree with more files.
func (files Tree) With(more Tree) Tree {
	all := Tree{}
	for _, f := range []Tree{files, more} {
		for name, what := range f {
			all[name] = what
		}
	}
	return all
}

// Version is a driver's.
const Version = "535.261.03"

// Lib is a library of a soname.
func Lib(soname string, needs ...string) tinyelf.Object {
	return tinyelf.Object{}.With(elf.DT_SONAME, soname).Needs(needs...)
}

// Core returns the driver's usual libraries in a directory, with the links of their sonames.
func Core(dir, version string) Tree {
	files := Tree{}
	for stem, needs := range map[string][]string{"libcuda": {"libc.so.6"}, "libnvidia-ml": nil,
		"libnvidia-ptxjitcompiler": nil} {
		files[dir+"/"+stem+".so."+version] = Lib(stem+".so.1", needs...)
		files[dir+"/"+stem+".so.1"] = "-> " + stem + ".so." + version
	}
	return files
}

// Copied returns a driver whose libraries load each other, so that what is offered of it are copies.
func Copied(dir, version string) Tree {
	return Core(dir, version).With(Tree{
		dir + "/libcuda.so." + version:             Lib("libcuda.so.1", "libnvidia-ptxjitcompiler.so.1"),
		dir + "/libnvidia-allocator.so." + version: Lib("libnvidia-allocator.so.1", "libcuda.so.1"),
		dir + "/libnvidia-allocator.so.1":          "-> libnvidia-allocator.so." + version,
	})
}

// Loaded is what the kernel says of the module of a version.
func Loaded(version string) Tree { return Tree{"sys/module/nvidia/version": version + "\n"} }
