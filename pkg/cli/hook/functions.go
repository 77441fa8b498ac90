package hook

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/regular"
)

// Functions that packages call by hand.

// arguments reads those of a function of nixpkgs': the one flag that it knows, and paths.
func arguments(function, flag string, args []string) (given bool, paths []string, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "--") {
		switch args[0] {
		case "--":
			return given, args[1:], nil
		case flag:
			given = true
		default:
			takes := "paths alone"
			if flag != "" {
				takes = flag + " and paths"
			}
			return false, nil, fmt.Errorf("%s: unknown argument %s; it takes %s", function, args[0], takes)
		}
		args = args[1:]
	}
	return given, args, nil
}

// onFiles runs a tool on files. Links are followed, since packages pass $out/lib/*.so; files that are not ELF are
// skipped, and what is not there is a warning, unless cudaRunpathStrict is set.
func (b *build) onFiles(function string, args []string) error {
	tool, flag := nixpkgsFunctions[function], ""
	if tool == "autoAddDriverRunpath" {
		flag = "--force-rpath"
	}
	forced, named, err := arguments(function, flag, args)
	if err != nil {
		return err
	}
	if tool == "addCudaCompatRunpath" {
		directory, err := b.compat()
		if err != nil {
			return err
		}
		if directory == "" {
			b.note(b.noCompat())
			return nil
		}
	}
	var files []string
	for _, name := range named {
		file, err := regular.Real(name)
		switch {
		case err == nil:
			files = append(files, file)
		case b.isTrue("cudaRunpathStrict"):
			return fmt.Errorf("%s: %s does not exist", function, name)
		default:
			b.note(fmt.Sprintf("warning: %s: %s does not exist", function, name))
		}
	}
	if len(files) == 0 {
		return nil
	}
	w := walk{tools: []string{tool}}
	if w.args, err = b.edits(tool); err != nil {
		return err
	}
	var more []string
	if forced {
		more = []string{flag}
	}
	var failed error
	for some := range commandLines(files) {
		if err := b.tool(tool, nil, b.command(w, some, more...)); err != nil {
			failed = err
		}
	}
	return failed
}

// commandLines yields files in parts that fit into one command line each: Linux takes 128 KiB in any case, with the
// environment (execve(2)).
func commandLines(files []string) iter.Seq[[]string] {
	const most = 64 << 10
	return func(yield func([]string) bool) {
		for len(files) > 0 {
			n, size := 0, 0
			for n < len(files) && (n == 0 || size+len(files[n]) < most) {
				size += len(files[n]) + 9 // a NUL, and the pointer to it
				n++
			}
			if !yield(files[:n]) {
				return
			}
			files = files[n:]
		}
	}
}

// patchOutputs is nixpkgs' entry of postFixupHooks.
func (b *build) patchOutputs() error {
	if b.isTrue("dontAutoPatchelf") {
		return nil
	}
	var paths []string
	for _, name := range b.names {
		if _, err := os.Stat(b.outputs[name]); err == nil && name != "debug" {
			paths = append(paths, b.outputs[name])
		}
	}
	if len(paths) == 0 {
		b.note("autoPatchelf: no outputs to look at")
		return nil
	}
	// The note comes in the same edit, where it is kept right at the end of fixup.
	var more []string
	tools, err := b.editing(func(string) {})
	if err != nil {
		return err
	}
	if b.wantsNotes() && (len(tools) > 0 || b.brings("elf", "")) {
		more = []string{resolutionNote}
	}
	return b.patch(append([]string{"--"}, paths...), more...)
}

// patchLate runs autoPatchelf where cudaRunpathHook is to and the functions that the hook brings are not there: a phase
// set it, or nixpkgs' own are.
func (b *build) patchLate() error {
	if !b.brings("settings", "") || !b.isTrue("cudaRunpathAutoPatchelf") || b.brings("autoPatchelf", "") {
		return nil
	}
	if len(b.settings["autoPatchelfLibs"].values) == 0 {
		b.settings["autoPatchelfLibs"] = setting{attributes: "a", values: b.inputLibraries("")}
	}
	return b.patchOutputs()
}

// patch is nixpkgs' function autoPatchelf [--no-recurse] [--] PATH…
func (b *build) patch(args []string, more ...string) error {
	const function = "autoPatchelf"
	flat, paths, err := arguments(function, "--no-recurse", args)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return errors.New(function + ": no path is given")
	}
	// nixpkgs' function appends each setting to a global array, and packages fill those.
	var lists [7][]string
	for i, names := range [][]string{
		{"ignoreMissingDepsArray", "autoPatchelfIgnoreMissingDeps"}, {"appendRunpathsArray", "appendRunpaths"},
		{"runtimeDependenciesArray", "runtimeDependencies"}, {"patchelfFlagsArray", "patchelfFlags"},
		{"autoPatchelfFlagsArray", "autoPatchelfFlags"}, {"autoPatchelfLibs"}, {"extraAutoPatchelfLibs"},
	} {
		if lists[i], err = b.list(names...); err != nil {
			return err
		}
	}
	// Here an empty element is /lib, as with nixpkgs' hook.
	if lists[2], err = b.elements("runtimeDependenciesArray", "runtimeDependencies"); err != nil {
		return err
	}
	ignore, appended, runtime, patchelf, own, libs, extra := lists[0], lists[1], lists[2], lists[3], lists[4],
		lists[5], lists[6]
	if slices.Contains(ignore, "1") {
		b.note(
			"warning: autoPatchelf: autoPatchelfIgnoreMissingDeps = true is deprecated: write [ \"*\" ], or better the names")
		ignore = []string{"*"}
	}
	for i := range runtime {
		runtime[i] += "/lib"
	}
	flags, err := b.patchFlags(flat)
	if err != nil {
		return err
	}
	flags = slices.Concat(flags, more, own)
	// The interpreter and the C library: the standard environment's, else the hook's.
	var variables []string
	if b.text("NIX_BINTOOLS") == "" {
		bintools := b.given("bintools")
		asks := func(flag string) bool { return strings.HasPrefix(flag, "--interpreter") }
		switch {
		case len(bintools) > 0:
			variables = []string{"NIX_BINTOOLS=" + bintools[len(bintools)-1]}
		case !slices.ContainsFunc(flags, asks):
			return errors.New(
				"autoPatchelf: nothing says which interpreter and C library programs get: $NIX_BINTOOLS is not set. " +
					"Add autoPatchelfHook to nativeBuildInputs, which brings one, or autoPatchelfFlags = [ \"--interpreter=PATH\" ]")
		}
	}
	argv := slices.Concat([]string{b.binary(function)}, b.common()[:2], []string{"--ignore-missing"}, ignore, []string{"--paths"}, paths,
		[]string{"--libs"}, libs, extra,
		[]string{"--runtime-dependencies"}, runtime, []string{"--append-rpaths"}, appended, flags,
		[]string{"--extra-args"}, patchelf)
	return b.tool(function, variables, argv)
}

// patchFlags are autoPatchelf's flags that settings and our other hooks ask for.
func (b *build) patchFlags(flat bool) (flags []string, err error) {
	if flat {
		flags = append(flags, "--no-recurse")
	}
	if b.isTrue("autoPatchelfRelativeRpaths") {
		flags = append(flags, "--relativize-rpath")
	}
	if b.isTrue("cudaOpened") {
		flags = append(flags, "--opened")
	}
	// stdenv's audit of run paths has been before
	if top := b.text("NIX_BUILD_TOP"); top != "" && !b.isTrue("noAuditTmpdir") {
		flags = append(flags, "--temporary", top)
	}
	tools, err := b.editing(func(string) {})
	if err != nil {
		return nil, err
	}
	together := false
	for _, tool := range tools {
		if tool != "addCudaCompatRunpath" {
			flags = append(flags, "--expect-driver")
		}
		own, err := b.flags(tool)
		if err != nil {
			return nil, err
		}
		if len(own) == 0 { // else flags of its own ask for more
			flags, together = append(flags, "--tool", tool), true
		}
	}
	if together {
		places, err := b.places()
		if err != nil {
			return nil, err
		}
		flags = append(flags, places...)
		if position := b.text("driverLinkPosition"); position != "" {
			flags = append(flags, "--position", position)
		}
	}
	return flags, nil
}

// directories prints each directory below paths that holds shared objects, with a NUL behind it.
func directories(out io.Writer, args []string) error {
	flat, paths, err := arguments("addAutoPatchelfSearchPath", "--no-recurse", args)
	if err != nil {
		return err
	}
	var found []string
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if name := e.Name(); !e.IsDir() && (strings.HasSuffix(name, ".so") || strings.Contains(name, ".so.")) {
				found = append(found, filepath.Dir(path))
			}
			if e.IsDir() && flat && path != root {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("addAutoPatchelfSearchPath: %w", err)
		}
	}
	slices.Sort(found)
	for _, directory := range slices.Compact(found) {
		if _, err := io.WriteString(out, directory+"\x00"); err != nil {
			return err
		}
	}
	return nil
}
