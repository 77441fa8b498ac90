package fixup

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/tree"
)

// BuildPath returns the path to walk for one that nixpkgs' program gets in a build. That program passes over missing
// paths and symbolic links, except links to a directory. This one follows such a link only within the package, which
// has nobody else's files. skipped says why there is nothing to walk.
func BuildPath(p string) (to, skipped string) {
	name := tree.Unslashed(p)
	st, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "does not exist"
	case err != nil || st.Mode()&fs.ModeSymlink == 0:
		return p, ""
	}
	if to = withinPackage(name); to == "" {
		skipped = "is a symbolic link, which is skipped: name what it leads to"
	}
	return to, skipped
}

// withinPackage returns the directory that a symbolic link leads to, if both are in the same store path; else "".
func withinPackage(link string) string {
	parent, err := regular.Real(path.Dir(link))
	if err != nil {
		return ""
	}
	to, err := regular.Real(link)
	if err != nil || !store.Contains(to) || store.Path(to) != store.Path(parent+"/") {
		return ""
	}
	if st, err := os.Stat(to); err != nil || !st.IsDir() {
		return ""
	}
	return to
}

// BuildInterpreters returns the interpreters of a bintools package of nixpkgs ($NIX_BINTOOLS): its own, and the
// 32-bit one that multilib toolchains also have.
func BuildInterpreters(bintools string) ([]Interpreter, error) {
	read := func(name string) (string, error) {
		b, err := regular.Read(path.Join(bintools, "nix-support", name), 1<<16)
		return strings.TrimSpace(string(b)), err
	}
	interp, err := read("dynamic-linker")
	if err != nil {
		return nil, fmt.Errorf("the interpreter of $NIX_BINTOOLS: %w", err)
	}
	libc, err := read("orig-libc")
	if err != nil {
		return nil, fmt.Errorf("the C library of $NIX_BINTOOLS: %w", err)
	}
	all := []Interpreter{{Path: interp, LibC: libc + "/lib"}}
	if interp, err := read("dynamic-linker-m32"); err == nil && interp != "" {
		if _, err := os.Stat(interp); err == nil {
			all = append(all, Interpreter{Path: interp})
		}
	}
	return all, nil
}

// OwnMachines are the machines whose programs run here; nil if that is not known.
func OwnMachines() []elf.Machine {
	switch runtime.GOARCH {
	case "amd64", "386":
		return []elf.Machine{elf.EM_X86_64, elf.EM_386}
	case "arm64", "arm":
		return []elf.Machine{elf.EM_AARCH64, elf.EM_ARM}
	}
	return nil
}

// asNixpkgs is a loader that sees files with the run paths that nixpkgs' program writes. They lead, in the order of
// the needs, to the first file of each name for the machine, whatever versions it defines.
func (r *Resolver) asNixpkgs(plans []*Plan) *loader.Loader {
	written := func(p *Plan) bool { return p.Skip == "" && p.Object.err == nil }
	return r.ix.edited(plans, written, func(p *Plan) State {
		var l runpath.List
		if p.Object.program() {
			l = append(l, r.first...)
		}
		for _, n := range p.Needs {
			if c, ok := r.firstOf(p, n); ok {
				l = append(l, c.Dir)
			}
		}
		l = unique(append(l, r.last...))
		s := State{Tag: elf.DT_RUNPATH, List: l.String(), Interpreter: p.State().Interpreter}
		if s.List == "" {
			s.Tag, s.List = p.Object.Tag, p.Object.List
		}
		return s
	})
}

// firstOf is the first file of a need's name for a file's machine, if the C library does not have it.
func (r *Resolver) firstOf(p *Plan, n *Need) (c Candidate, ok bool) {
	for _, name := range n.names {
		if libC, _ := r.inLibC(p, name); libC && !r.s.KeepLibC || strings.HasPrefix(name, "/") {
			return c, false
		}
		for c := range r.candidates(p, path.Base(name), everywhere) {
			if p.Object.abi.Refuses(c.object.abi) == "" && compatible(p.Object.ELF.OSABI, c.object.ELF.OSABI) {
				return c, true
			}
		}
	}
	return c, false
}
