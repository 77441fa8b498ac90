package explain

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/references"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// runPath reports what is wrong with the run path, and with the file as it was edited.
func (c *Case) runPath() {
	c.safety()
	c.directories()
	c.ambiguity()
	c.byProcessor()
	c.loadedElsewhere()
	c.stack()
	if c.file.Shadow {
		c.say(finding.ShadowedRPath, c.normalize().And(" leaves DT_RUNPATH alone"),
			"the file has a DT_RPATH, %q, beside its DT_RUNPATH; the loader ignores it", c.file.RPath)
	}
	c.duplicates()
}

// duplicates reports each directory that is more than once in the run path, at its last entry.
func (c *Case) duplicates() {
	last := map[string]int{} // by key
	var again []string       // in the order in which they come again
	for i, e := range c.entries {
		if e.text == "" {
			continue
		}
		if _, known := last[e.key]; known && !slices.Contains(again, e.key) {
			again = append(again, e.key)
		}
		last[e.key] = i
	}
	for _, key := range again {
		dedupe := c.rules(0)
		dedupe.Rules.Dedupe = true
		c.of(&c.entries[last[key]], finding.DuplicateEntry, c.edit(dedupe).And(" keeps the first"),
			"names a directory that an earlier entry names")
	}
}

// directories reports what is wrong with each entry on its own.
func (c *Case) directories() {
	for i := range c.entries {
		e := &c.entries[i]
		if e.text == "" || e.stub {
			continue
		}
		fix := func() remedy.Remedy { return c.without(e.text) }
		if c.mangled(e) {
			continue
		}
		if token := runpath.UnknownToken(e.text); token != "" && c.Load.Interp != nil && c.Load.Interp.Kind == loader.GLibc &&
			(e.text[0] == '$' || !c.Loader.Files().IsDir(e.dir)) {
			c.of(e, finding.UnknownToken, fix(), runpath.NotAToken, token)
			continue
		}
		if !runpath.FromOrigin(e.text) {
			c.of(e, finding.RelativeEntry, c.replace(e, "$ORIGIN/"+strings.TrimPrefix(e.text, "./")), runpath.IsRelative)
			continue
		}
		if e.dir == "" || e.driver {
			continue
		}
		if why := c.leftover(e.text); why != "" {
			c.of(e, finding.BuildEntry, fix(), "is %s", why)
			continue
		}
		files := c.Loader.Files()
		host, _, err := files.Resolve(e.dir)
		there := err == nil && files.IsDir(e.dir)
		if where, how := c.writable(e.dir, host, there); where != "" {
			c.report(e.in(on(finding.WritableEntry, nil, nil, fix().And("; or take the write permission off the directory"),
				"entry %d, %s: %s", e.position, e.text, fmt.Sprintf(how, where))))
		}
		if c.ofNix() && strings.HasPrefix(e.text, "/") && isFHS(e.key) {
			c.of(e, finding.FHSEntry, fix().And("; add the package that brings the libraries to buildInputs"),
				"is a directory of the host's distribution, in a file built by Nix")
		}
		switch {
		case !there && err == nil:
			c.of(e, finding.DanglingEntry, fix(), "is a file, not a directory")
		case !there && !errors.Is(err, syscall.EACCES):
			c.of(e, finding.DanglingEntry, fix().And(", unless it is made at run time"), "does not exist")
		case there && !e.compat && c.Loader.Inside(host) != path.Dir(c.at) && !c.holdsAny(e):
			c.unused(e, host, fix)
		}
		c.keptReference(e, fix)
	}
}

// mangled reports an entry that is not what was meant.
func (c *Case) mangled(e *entry) bool {
	entries, ok := runpath.Meant(e.text)
	if !ok || e.dir != "" && c.Loader.Files().IsDir(e.dir) || runpath.TokenAt(e.text) != "" &&
		!strings.ContainsAny(e.text, ";, \t\r\n'\"") {
		return false
	}
	c.report(e.in(on(finding.MangledEntry, nil, nil, c.replace(e, entries...), "entry %d, %q, %s", e.position, e.text,
		runpath.Literally(entries))))
	return true
}

// builds are the directories that only the build, or one user, has, and what they are. A file below such a directory
// may name it, because the build still runs or the file is that user's own.
var builds = []struct {
	dirs []string
	what string
	own  bool // also for files below it
}{
	{[]string{"/build", "/homeless-shelter", "/nix/var/nix/builds", "/private/tmp"},
		"a directory of the Nix build sandbox, left over", true},
	{[]string{"/tmp", "/var/tmp"}, "a temporary directory, left over from the build; anyone can create it", false},
	// Root, and the runners of GitHub, GitLab, Jenkins and conda-build, build here.
	{[]string{"/root", "/workspace", "/workspaces", "/github/workspace", "/github/home", "/__w", "/builds",
		"/var/lib/jenkins", "/var/jenkins_home", "/croot", "/opt/conda/conda-bld"},
		"a directory in which only builds run, left over", false},
}

// leftover says which of these kinds of directories an entry names; "" for any other.
func (c *Case) leftover(text string) string {
	for _, b := range builds {
		for _, dir := range b.dirs {
			if IsBelow(text, dir) && (b.own || !strings.HasPrefix(c.at, dir+"/")) {
				return b.what
			}
		}
	}
	for _, home := range []string{"/home/", "/Users/"} {
		if rest, ok := strings.CutPrefix(text, home); ok {
			user, _, _ := strings.Cut(rest, "/")
			if !strings.HasPrefix(c.at, home+user+"/") {
				return "a user's home directory, left over from the build"
			}
		}
	}
	return ""
}

func isFHS(key string) bool {
	return slices.ContainsFunc([]string{"/usr", "/lib", "/lib32", "/lib64", "/opt"},
		func(dir string) bool { return IsBelow(key, dir) })
}

// writable looks for a directory on the way that anyone can write to. That is the directory itself, or the one in
// which a missing one could be made.
func (c *Case) writable(dir, host string, there bool) (where, how string) {
	if there {
		inside := c.Loader.Inside(host)
		for d := inside; d != "/" && d != "."; d = path.Dir(d) {
			st, err := os.Stat(c.Loader.Host(d))
			if err != nil || st.Mode().Perm()&0o002 == 0 || st.Mode()&os.ModeSticky != 0 && d != inside {
				continue
			}
			return d, "anyone can write to %s"
		}
		return "", ""
	}
	for d := path.Dir(dir); d != "/" && d != "."; d = path.Dir(d) {
		at, _, err := c.Loader.Files().Resolve(d)
		if err != nil {
			continue
		}
		if st, err := os.Stat(at); err == nil && st.Mode().Perm()&0o002 != 0 {
			return d, "it does not exist, and anyone can create it in %s"
		}
		return "", ""
	}
	return "", ""
}

// holdsAny reports whether a directory holds anything that the loader looks for in it.
func (c *Case) holdsAny(e *entry) bool {
	names := c.Loader.Files().Names(e.dir)
	if names == nil {
		return true // it cannot be read, so nobody knows
	}
	for n, how := range c.asks {
		if how >= guessed && names[n] {
			return true
		}
	}
	// Libraries in hardware subdirectories count. So do plugins that a program finds by listing its own directories,
	// which the file does not tell.
	return names["glibc-hwcaps"]
}

func (c *Case) unused(e *entry, host string, fix func() remedy.Remedy) {
	more := ""
	own, ref := store.Path(c.at), store.Path(c.Loader.Inside(host))
	if ref != "" && ref != own {
		more = ", and keeps " + ref + " alive"
		if own != "" && c.Saved != nil && c.Loader.Files().IsDir("/nix/store") {
			if size, ok := c.Saved(own, ref); ok {
				more += fmt.Sprintf("; without it the closure of %s would be %s smaller, if nothing else in it refers there",
					path.Base(own), size)
			}
		}
	}
	c.of(e, finding.UnusedEntry, fix().And("; libraries opened by a name that is computed at run time are not seen here"),
		"holds nothing that the file asks for%s", more)
}

func (c *Case) keptReference(e *entry, fix func() remedy.Remedy) {
	object := store.Path(e.key)
	if object == "" || object == store.Path(c.at) {
		return
	}
	name := store.Name(object)
	if !buildTools().MatchString(name) || c.holdsAny(e) && !strings.HasSuffix(name, "-stubs") ||
		NamedElsewhere(c.file.Path, object, references.RunPath) {
		return
	}
	c.of(e, finding.KeptReference, fix(), "is the only reference in this file to %s, which is needed only to build", object)
}

// libraries reports what is wrong with the libraries that are found at start.
func (c *Case) libraries() {
	c.starts()
	if c.Load.Role == loader.Program && c.foreign() {
		c.say(finding.FHSInterpreter, remedy.Do("add autoPatchelfHook to nativeBuildInputs"),
			"the program asks for the loader %s, which is not Nix's", c.file.Interp)
	}
	for _, u := range c.Load.Main.Uses {
		if u.Again {
			continue
		}
		for _, t := range u.To.Tried {
			if t.List != c.Load.Main || !t.Alien {
				continue
			}
			f := on(finding.WrongMachine, nil, nil, c.without(t.Entry), "%s, in the run path, is passed over for %s: %s", t.Path,
				u.Name, t.Why)
			f.Library, f.Entry = u.Name, &t.Entry
			c.report(f)
		}
	}
	c.libc()
}

// foreign reports whether a program of a Nix package names a loader that is not Nix's.
func (c *Case) foreign() bool { return store.Contains(c.at) && !store.Contains(c.file.Interp) }

// elsewhere reports whether the file is for another system: another machine, Android, or musl without its loader
// here. A package may hold such a variant beside the one in use.
func (c *Case) elsewhere() bool {
	in := c.Load.Interp
	return c.file.Android() || !in.Found && (in.Kind == loader.Musl || !c.native())
}

func (c *Case) native() bool {
	if os := c.file.ELF.OSABI; os != elf.ELFOSABI_NONE && os != elf.ELFOSABI_LINUX || c.file.Android() {
		return false
	}
	switch m := c.file.ELF.Machine; runtime.GOARCH {
	case "amd64":
		return m == elf.EM_X86_64 || m == elf.EM_386
	case "arm64":
		return m == elf.EM_AARCH64
	}
	return true
}

// buildTools are outputs that a program needs only while it is built. The run-time libraries are in outputs of their
// own (gcc-13.3.0-lib, cuda_cudart-12.4-lib).
var buildTools = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^(gcc|clang|llvm|rustc|go|ghc|cuda_nvcc|binutils)(-wrapper|-unwrapped)?-[0-9][0-9.]*(-unwrapped|-dev)?$` +
			`|-stubs$|-dev$`)
})

// NamedElsewhere reports whether a file names a store path outside of one place, or cannot be read.
func NamedElsewhere(file, object string, place references.Place) bool {
	f, st, err := regular.Open(file)
	if err != nil {
		return true
	}
	defer f.Close()
	head := make([]byte, min(st.Size(), elfimage.HeadSize))
	if elfimage.ReadFull(f, head, 0) != nil {
		return true
	}
	all, err := references.Find(f, st.Size(), head)
	return err != nil || slices.ContainsFunc(all, func(r references.Reference) bool {
		return r.Object == object && r.Place != place
	})
}

// IsBelow reports whether a path is a directory's or lies below it.
func IsBelow(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// Noted returns the store paths that only the file's resolution note names.
func (c *Case) Noted() (named []string) {
	for _, e := range c.file.Note {
		for _, p := range e.Places {
			object := store.Path(strings.TrimLeft(string(p), "=?"))
			if object != "" && object != store.Path(c.at) && !slices.Contains(named, object) &&
				!strings.Contains(c.file.List, object) &&
				!NamedElsewhere(c.file.Path, object, references.ResolutionNote) {
				named = append(named, object)
			}
		}
	}
	return named
}

// Request identifies an object's request for a library, by its file, and by where that was found if its run path
// depends on it.
func (c *Case) Request(o *loader.Object, name string) [2]string {
	file := o.File.Path
	if strings.Contains(o.File.List, "ORIGIN") {
		dir, _ := c.Load.Expand(o, "$ORIGIN")
		if host, _, err := c.Loader.Files().Resolve(dir); err == nil {
			file += "\x00" + host
		}
	}
	return [2]string{file, name}
}
