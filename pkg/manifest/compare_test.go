package manifest

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/gpucode"
)

// lines are changes as text.
func lines(all []Change) (out []string) {
	for _, c := range all {
		at := c.Package
		if c.File != "" {
			at += "/" + c.File
		}
		out = append(out, fmt.Sprintf("%s: %s: %s", c.Kind, at, c.Text))
	}
	return out
}

// Another hash in the store is no change, whatever has it.
func TestHashesAreNoChange(t *testing.T) {
	a, b := example(t, "q"), example(t, "z")
	x, y := a.read(a.store("app-1.0"), a.store("cudnn-9.3-lib")), b.read(b.store("app-1.0"), b.store("cudnn-9.3-lib"))
	if x.Packages[0].Path == y.Packages[0].Path {
		t.Fatal("the hashes are the same")
	}
	if got := Compare(x, y); got != nil {
		t.Errorf("%q", lines(got))
	}
	if got := Compare(x, x); got != nil {
		t.Errorf("%q", lines(got))
	}
}

// Each change of a package is said, and what it is called.
func TestChanges(t *testing.T) {
	all := func(r *root, more ...string) []string {
		return append([]string{r.store("app-1.0")}, more...)
	}
	for name, c := range map[string]struct {
		change func(r *root)
		also   []string // packages that are read as well
		want   []string
	}{
		"the driver link is lost": {func(r *root) {
			r.put(r.store("app-1.0")+"/lib/libbig.so", lib("libbig.so").Needs("libcuda.so.1", "libcudnn.so.9",
				"libcudart.so.12", "libc.so.6").
				With(elf.DT_RUNPATH, r.store("cudnn-9.3-lib")+"/lib:"+r.store("cuda_cudart-12.4-lib")+"/lib"))
		}, nil, []string{"driver-link: app-1.0/lib/libbig.so: lost the driver link",
			"opened: app-1.0/lib/libbig.so: no longer opens libopt.so.1 by name"}},
		"a library from another package, and a reference": {func(r *root) {
			wheel := r.store("nvidia-cudnn-cu12-9.3")
			r.put(wheel+"/lib/libcudnn.so.9", lib("libcudnn.so.9"))
			big := lib("libbig.so").Needs("libcuda.so.1", "libcudnn.so.9", "libcudart.so.12", "libc.so.6").
				With(elf.DT_RUNPATH, link+":"+wheel+"/lib:"+r.store("cuda_cudart-12.4-lib")+"/lib")
			big.Dlopen = `[{"soname":["libopt.so.1"]}]`
			r.put(r.store("app-1.0")+"/lib/libbig.so", big)
		}, nil,
			[]string{"not-found: app-1.0/lib/libbig.so: no library that it loads lacks libabsent.so.1 any more",
				"other-package: app-1.0/lib/libbig.so: loads libcudnn.so.9 from another package: nvidia-cudnn-cu12-9.3, not cudnn-9.3-lib",
				"refers: app-1.0: now refers to nvidia-cudnn-cu12-9.3, which brings 1.0 kB into the closure: lib/libbig.so (run path)",
				"run-path: app-1.0/lib/libbig.so: run path: now has nvidia-cudnn-cu12-9.3/lib",
				"run-path: app-1.0/lib/libbig.so: run path: no longer has cudnn-9.3-lib/lib"}},
		"another version of one": {func(r *root) {
			newer := r.store("cudnn-9.10-lib")
			r.put(newer+"/lib/libcudnn.so.9", lib("libcudnn.so.9").Needs("libabsent.so.1"))
			big := lib("libbig.so").Needs("libcuda.so.1", "libcudnn.so.9", "libcudart.so.12", "libc.so.6").
				With(elf.DT_RUNPATH, link+":"+newer+"/lib:"+r.store("cuda_cudart-12.4-lib")+"/lib")
			big.Dlopen = `[{"soname":["libopt.so.1"]}]`
			r.put(r.store("app-1.0")+"/lib/libbig.so", big)
		}, nil, []string{"version: : cudnn-9.3-lib → cudnn-9.10-lib: loaded by 1 file",
			"refers: app-1.0: now refers to cudnn-9.10-lib"}},
		"a library is found no more": {func(r *root) {
			os.RemoveAll(r.dir + r.store("cudnn-9.3-lib"))
		}, nil, []string{"not-found: app-1.0/bin/app: no longer finds libcudnn.so.9",
			"not-found: app-1.0/lib/libbig.so: no longer finds libcudnn.so.9",
			"not-found: app-1.0/bin/app: no library that it loads lacks libabsent.so.1",
			"not-found: app-1.0/lib/libbig.so: no library that it loads lacks libabsent.so.1"}},
		"a stub": {func(r *root) {
			r.put(r.store("app-1.0")+"/bin/app",
				strings.ReplaceAll("#! /bin/sh -e\nexport LD_LIBRARY_PATH='APP/lib:STUBS/lib/stubs:CUDNN/lib'\nexec \"APP/bin/.app-wrapped\" \"$@\"\n", "APP", r.store("app-1.0")))
			text, _ := os.ReadFile(r.dir + r.store("app-1.0") + "/bin/app")
			r.put(r.store("app-1.0")+"/bin/app", strings.NewReplacer("STUBS", r.store("cuda_cudart-12.4-stubs"),
				"CUDNN", r.store("cudnn-9.3-lib")).Replace(string(text)))
		}, nil,
			[]string{"stub: app-1.0/bin/app: has a stub in its process now: cuda_cudart-12.4-stubs/lib/stubs/libcuda.so.1"}},
		"GPU code": {func(r *root) {
			r.put(r.store("app-1.0")+"/share/code.fatbin", fatbin(2e6, 80, 90, 120))
		}, nil, []string{"gpu-code-gone: app-1.0/share/code.fatbin: no code for 7.5 any more",
			"gpu-code-new: app-1.0/share/code.fatbin: now has code for 8.0, 8.6, 8.8, 8.9, 12.0, 12.1",
			"gpu-code-bytes: app-1.0/share/code.fatbin: +6.0 MB GPU code (0.0 → 6.0)",
			"size: app-1.0/share/code.fatbin: +6.0 MB"}},
		"a file is gone, one is new, one is broken": {func(r *root) {
			os.Rename(r.dir+r.store("app-1.0")+"/lib/libstub.so", r.dir+r.store("app-1.0")+"/lib/other.so")
			r.put(r.store("app-1.0")+"/share/code.fatbin", "\x7fELF")
		}, nil, []string{"file-added: app-1.0/lib/other.so: is new (library, ",
			"file-removed: app-1.0/lib/libstub.so: is gone (library, ",
			"file-kind: app-1.0/share/code.fatbin: is now malformed, not GPU code: ",
			"gpu-code-gone: app-1.0/share/code.fatbin: no code for 7.5, 9.0 any more"}},
		"what the file itself says": {func(r *root) {
			big := lib("libbig.so.2").Needs("libcuda.so.1", "libcudnn.so.9", "libcudart.so.12", "libm.so.6").
				With(elf.DT_RPATH, r.store("cudnn-9.3-lib")+"/lib:"+link+":"+r.store("cuda_cudart-12.4-lib")+"/lib")
			big.Dlopen = `[{"soname":["libopt.so.1"]}]`
			big.Resolution = "libcudnn.so.9\x00=" + r.store("cudnn-9.3-lib") + "/lib/libcudnn.so.9\x00\x00"
			r.put(r.store("app-1.0")+"/lib/libbig.so", big)
		}, nil,
			[]string{"run-path: app-1.0/lib/libbig.so: the entries of its run path are in another order: cudnn-9.3-lib/lib:/run/opengl-driver/lib:",
				"run-path: app-1.0/lib/libbig.so: its run path is a DT_RPATH now, not a DT_RUNPATH",
				"needed: app-1.0/lib/libbig.so: now needs libm.so.6",
				"needed: app-1.0/lib/libbig.so: no longer needs libc.so.6",
				"identity: app-1.0/lib/libbig.so: soname libbig.so.2, not libbig.so",
				"resolution-note: app-1.0/lib/libbig.so: has a resolution note now"}},
		"packages come and go": {func(r *root) {
			os.RemoveAll(r.dir + r.store("cuda_cudart-12.4-stubs"))
			r.put(r.store("new-1")+"/lib/liba.so", lib("liba.so"))
		}, []string{"cuda_cudart-12.4-stubs", "new-1"},
			[]string{"package-removed: cuda_cudart-12.4-stubs: is gone: it was ", "package-added: new-1: is new: "}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := example(t, "q"), example(t, "q")
			c.change(b)
			read := func(r *root) *Document {
				var more []string
				for _, also := range c.also {
					if _, err := os.Stat(r.dir + r.store(also)); err == nil {
						more = append(more, r.store(also))
					}
				}
				return r.read(all(r, more...)...)
			}
			got := lines(Compare(read(a), read(b)))
			for _, want := range c.want {
				i := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, want) })
				if strings.HasPrefix(want,
					"refers: app-1.0: now refers to cudnn-9.10-lib") { // another version is no new reference
					if i >= 0 {
						t.Errorf("%q", got[i])
					}
					continue
				}
				if i < 0 {
					t.Errorf("not said: %s\n%s", want, strings.Join(got, "\n"))
				}
			}
		})
	}
}

// A file that is the same as another by its name in one document, and a file of its own in the other, is the same file.
func TestLinksAreNoChange(t *testing.T) {
	make := func(link func(old, new string) error) *Document {
		r := newRoot(t, "q")
		r.put("/opt/app/liba.so", lib("liba.so").Needs("libx.so"))
		if err := link(r.dir+"/opt/app/liba.so", r.dir+"/opt/app/libb.so"); err != nil {
			t.Fatal(err)
		}
		return r.read("/opt/app")
	}
	linked := make(os.Link)
	if linked.Files[1].SameAs == "" {
		t.Fatal("no link")
	}
	copied := make(func(old, new string) error {
		b, err := os.ReadFile(old)
		if err == nil {
			err = os.WriteFile(new, b, 0o644)
		}
		return err
	})
	for _, pair := range [][2]*Document{{linked, copied}, {copied, linked}} {
		for _, c := range Compare(pair[0], pair[1]) {
			if c.Kind != Size || c.File != "" { // of the package: a copy takes its own place
				t.Errorf("%q", lines([]Change{c}))
			}
		}
	}
}

// What is said agrees with what "runpath gpu --for" says of a GPU before and after.
func TestCodeChanges(t *testing.T) {
	gpu := func(containers ...string) *GPU {
		var f gpucode.File
		for _, text := range containers {
			var c gpucode.Container
			var b gpucode.Bundle
			for _, word := range strings.Fields(text) {
				if amd, ok := gpucode.ParseAMD(word); ok {
					b.Objects = append(b.Objects, gpucode.CodeObject{AMD: amd, Size: 1})
					continue
				}
				target, err := gpucode.ParseTargets(strings.TrimPrefix(word, "ptx"))
				if err != nil {
					t.Fatal(err)
				}
				kind := gpucode.Cubin
				if strings.HasPrefix(word, "ptx") {
					kind = gpucode.PTX
				}
				c.Entries = append(c.Entries, gpucode.Entry{Kind: kind, Arch: target[0].Arch})
			}
			if b.Objects != nil {
				f.Bundles = append(f.Bundles, b)
			} else {
				f.Containers = append(f.Containers, c)
			}
		}
		g := &GPU{Code: f.Sum().List()}
		eachGPU(func(name string, passes func(*gpucode.File) bool) {
			if passes(&f) {
				g.Runs = append(g.Runs, name)
			}
		})
		return g
	}
	none := &GPU{}
	for _, c := range []struct {
		a, b *GPU
		want string
	}{
		{gpu("7.5 8.0"), gpu("7.5 8.0"), "[]"},
		{gpu("7.5 8.0"), gpu("8.0"), "[[gpu-code-gone no code for 7.5 any more]]"},
		{gpu("7.0 7.5 8.6"), gpu("8.0"),
			"[[gpu-code-gone no code for 7.0, 7.5 any more] [gpu-code-new now has code for 8.0] [gpu-code-gone no code of its own for 8.6 any more: that for 8.0 runs there]]"},
		{gpu("7.5"), gpu("ptx7.0"),
			"[[gpu-code-new now has code for 7.0, 7.2, 8.0 … 12.1] [gpu-code-gone no code of its own for 7.5 any more: the driver compiles PTX for 7.0] [gpu-code-new now has PTX for 7.0]]"},
		{gpu("9.0 ptx9.0"), gpu("9.0"), "[[gpu-code-gone no code for 10.0 … 12.1 any more] [gpu-code-gone no PTX for 9.0 any more]]"},
		{none, gpu("9.0"), "[[gpu-code-new now has code for 9.0]]"},
		// Several containers: most of the library runs on 5.2 before, and a third of it after.
		{gpu("5.0 6.0", "5.0 6.0", "5.0 6.0"), gpu("5.2 6.0", "6.0", "6.0"),
			"[[gpu-code-gone no code for 5.0, 5.2 any more] [gpu-code-new has code for 5.2, in too little of it to run there]]"},
		{gpu("5.0 6.0", "6.0", "6.0"), gpu("6.0", "6.0", "6.0"), "[[gpu-code-gone the code that some of it had for 5.0 is gone]]"},
		{gpu("9.0"), gpu("9.0 9.0a"), "[[gpu-code-new now has code of its own for 9.0a]]"},
		{gpu("gfx900:xnack- gfx900"), gpu("gfx900"), "[[gpu-code-gone no code of its own for gfx900:xnack- any more: that for gfx900 runs there]]"},
		{gpu("gfx90a:xnack- gfx90a:xnack+"), gpu("gfx90a:xnack-"), "[[gpu-code-gone the code that some of it had for gfx90a:xnack+ is gone]]"},
		{gpu("gfx90a gfx1100"), gpu("gfx90a gfx908"), "[[gpu-code-gone no code for gfx1100 any more] [gpu-code-new now has code for gfx908]]"},
	} {
		if got := fmt.Sprint(codeChanges(c.a, c.b, Asked())); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	// Of a GPU that one document has not asked for nothing is said.
	if got := fmt.Sprint(codeChanges(gpu("7.5 8.0"), gpu("8.0 9.0"), []string{"8.0"})); got != "[[gpu-code-gone the code that some of it had for 7.5 is gone] [gpu-code-new now has code of its own for 9.0]]" {
		t.Error(got)
	}
}

// Each is paired once, with the first that is left; numbers in names count as numbers.
func TestMatch(t *testing.T) {
	of := func(words string) (all []*string) {
		for _, w := range strings.Fields(words) {
			all = append(all, &w)
		}
		return all
	}
	for _, c := range [][3]string{
		{"liba.so.1 liba.so.2", "liba.so.3 liba.so.4 liba.so.5", "liba.so.1>liba.so.3 liba.so.2>liba.so.4 >liba.so.5"},
		{"liba.so.1 liba.so.2", "liba.so.2", "liba.so.2>liba.so.2 liba.so.1>"},
		{"a b", "b c", "b>b >c a>"},
	} {
		var got []string
		for _, p := range match(of(c[0]), of(c[1]), func(s *string) string { return *s }, func(s *string) string { return general(*s) }) {
			word := func(s *string) string {
				if s == nil {
					return ""
				}
				return *s
			}
			got = append(got, word(p.a)+">"+word(p.b))
		}
		if s := strings.Join(got, " "); s != c[2] {
			t.Errorf("%s, %s: %s, not %s", c[0], c[1], s, c[2])
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"a-9", "a-10", -1}, {"a-09", "a-9", 0}, {"a-010", "a-9", 1}, {"a-1", "a-1b", -1}, {"a-2.5", "a-2.10", -1}, {"b-1", "a-2", 1}} {
		if got := natural(c.a, c.b); got != c.want || natural(c.b, c.a) != -c.want {
			t.Errorf("%s, %s: %d", c.a, c.b, got)
		}
	}
}

// Files that are called otherwise are told by their names, up to three of a package; of more, in the same words for each.
func TestManyFilesThatAreCalledOtherwise(t *testing.T) {
	for n := range 6 {
		var pairs []pair[File]
		for i := range n {
			pairs = append(pairs, pair[File]{&File{Path: fmt.Sprintf("lib/lib%d.so.1", i)}, &File{Path: fmt.Sprintf("lib/lib%d.so.2", i)}})
		}
		c := &comparison{}
		c.moved("app", pairs)
		if len(c.all) != n {
			t.Errorf("%d files: %q", n, lines(c.all))
		}
		for i, change := range c.all {
			was := fmt.Sprintf("was called lib%d.so.1", i)
			if n <= 3 && change.Text != was || n > 3 && (change.Text != "has other numbers in its name" || change.Details != was) {
				t.Errorf("%d files: %q, %q", n, change.Text, change.Details)
			}
		}
	}
}
