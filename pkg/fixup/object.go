package fixup

import (
	"debug/elf"
	"errors"
	"path"
	"strings"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/tree"
)

// Object is what the index keeps of an ELF file.
type Object struct {
	Path   string      // as the walk has it; of a library outside of the tree, Real
	At     tree.Target // of a file of the tree
	Real   string      // absolute, free of symbolic links
	SameAs string      // another path of the same file, which was read before; nothing else is set
	// Links are the other hard links that lead to a file of the tree, Also those of them
	// that are in the tree: those whose SameAs is this one.
	Links int
	Also  []*Object

	Type   elf.Type
	OSABI  elf.OSABI
	ABI    loader.ABI
	LibC   LibC
	Interp string
	Soname string
	Needed []string
	Tag    elf.DynTag // DT_RUNPATH, DT_RPATH or DT_NULL
	List   string     // the run path
	Note   string     // the description of the resolution note
	PIE    bool       // DF_1_PIE: a program, though its type is ET_DYN
	// Uncommon is set where the loader does more for the file than to look for what
	// DT_NEEDED names: filters, audit modules, DF_1_NODEFLIB.
	Uncommon bool
	// Shadowed is set where there is a DT_RPATH beside the DT_RUNPATH.
	Shadowed bool
	// Needs are the symbol versions that the file needs, Defines those that it defines;
	// a file with no DT_VERDEF (Versioned is false) is taken to have every version.
	Needs     []elfimage.Version
	Defines   []elfimage.Version
	Versioned bool
	Notes     []elfimage.DlopenNote
	Literals  []string // names of libraries in read-only data, where they were asked for
	// NeedsDriver reports whether the file needs the GPU driver, where Sources asked.
	NeedsDriver bool

	// SkipReason says why no run path belongs in the file, Err what is wrong with it.
	SkipReason elfimage.Reason
	Err        error
}

// LibC is the C library that a file was linked against.
type LibC string

// The C libraries that can be distinguished by what a file needs.
const (
	UnknownLibC LibC = ""
	GLibC       LibC = "glibc"
	Musl        LibC = "musl"
)

// readObject reads what the index keeps. literals: see Sources.Literals.
func readObject(o *Object, im *elfimage.Image, literals func(*Object) func(name string) bool) {
	o.Type, o.OSABI = im.Type, im.OSABI
	o.ABI = loader.ABIOf(im)
	if o.SkipReason = im.SkipReason(); o.SkipReason != "" && o.SkipReason != elfimage.Loader {
		return
	}
	o.Err = o.read(im, literals)
}

func (o *Object) read(im *elfimage.Image, literals func(*Object) func(name string) bool) (err error) {
	if o.Interp, err = im.Interpreter(); err != nil {
		return err
	}
	if o.Needed, err = im.Needed(); err != nil {
		return err
	}
	if o.Soname, err = im.Soname(); err != nil {
		return err
	}
	if o.Tag, o.List, err = im.RunPath(); err != nil {
		return err
	}
	if _, o.Shadowed, err = im.Shadowed(); err != nil {
		return err
	}
	if o.Note, err = noteOf(im); err != nil {
		return err
	}
	if d, ok := im.Dyn(elf.DT_FLAGS_1); ok {
		o.PIE = elf.DynFlag1(d.Val)&elf.DF_1_PIE != 0
	}
	for _, d := range im.Dynamic {
		switch d.Tag {
		case elf.DT_AUXILIARY, elf.DT_FILTER, elf.DT_AUDIT, elf.DT_DEPAUDIT:
			o.Uncommon = true
		case elf.DT_FLAGS_1:
			o.Uncommon = o.Uncommon || elf.DynFlag1(d.Val)&elf.DF_1_NODEFLIB != 0
		}
	}
	// Version tables that contradict themselves count as none, as in the loader.
	if needs, err := im.VersionsNeeded(); err == nil {
		o.Needs = needs
	}
	if defines, ok, err := im.VersionsDefined(); ok && err == nil {
		o.Defines, o.Versioned = defines, true
	}
	if o.Notes, err = im.DlopenNotes(); err != nil {
		return err
	}
	o.LibC = libCOf(o)
	if literals == nil {
		return nil
	}
	wanted := literals(o)
	if wanted == nil {
		return nil
	}
	return im.LibraryNames(func(name string) bool {
		if name != o.Soname && wanted(name) {
			o.Literals = append(o.Literals, name)
		}
		return len(o.Literals) < maxLiterals
	})
}

// maxLiterals bounds the names that are kept of one file's read-only data.
const maxLiterals = 4096

// libCOf tells the C library from the loader that a program asks for, and from what
// everything that calls into it needs.
func libCOf(o *Object) LibC {
	if c := libCOfInterpreter(o.Interp); c != UnknownLibC {
		return c
	}
	for _, name := range o.Needed {
		switch {
		case name == "libc.so" || strings.HasPrefix(name, "libc.musl-"):
			return Musl
		case strings.HasPrefix(name, "libc.so.6"): // .6.1 on Alpha
			return GLibC
		}
	}
	if strings.HasPrefix(o.Soname, "libc.so.6") {
		return GLibC
	}
	return UnknownLibC
}

func libCOfInterpreter(interp string) LibC {
	name := path.Base(interp)
	switch {
	case strings.HasPrefix(name, "ld-musl-"):
		return Musl
	case strings.HasPrefix(name, "ld-linux"), strings.HasPrefix(name, "ld64.so."), name == "ld.so.1":
		return GLibC
	}
	return UnknownLibC
}

// LinkedOutside returns how many hard links outside of the tree lead to the file.
func (o *Object) LinkedOutside() int { return max(o.Links-len(o.Also), 0) }

// malformed reports whether an error is that an ELF file contradicts itself.
func malformed(err error) bool {
	var format *elfimage.FormatError
	return errors.As(err, &format)
}

// program reports whether the file has an interpreter to set.
func (o *Object) program() bool { return o.Interp != "" }

// lacks returns the versions that from needs of a library named name and that o does not define.
func (o *Object) lacks(from *Object, name string) []string {
	if !o.Versioned {
		return nil
	}
	var out []string
	for _, v := range from.Needs {
		if v.Library != name || v.Weak {
			continue
		}
		found := false
		for _, d := range o.Defines {
			if d.Hash == v.Hash && d.Name == v.Name {
				found = true
				break
			}
		}
		if !found {
			out = append(out, v.Name)
		}
	}
	return out
}

// compatible reports whether files of two OS ABIs go together as nixpkgs sees it:
// System V's goes with every other.
func compatible(a, b elf.OSABI) bool {
	return a == b || a == elf.ELFOSABI_NONE || b == elf.ELFOSABI_NONE
}
