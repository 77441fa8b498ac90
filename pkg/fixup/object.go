package fixup

import (
	"cmp"
	"debug/elf"
	"errors"
	"path"
	"strings"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/tree"
)

// Object is what the index keeps of an ELF file.
type Object struct {
	Path   string      // as the walk has it; of a library outside of the tree, Real
	at     tree.Target // of a file of the tree
	Real   string      // absolute, free of symbolic links
	SameAs string      // another path of the same file, which was read before and has its contents
	// links are the other hard links to a file of the tree. also are those in the tree, whose SameAs is this one.
	links int
	also  []*Object

	*files.File // what the loader knows of it; empty if it was not read
	abi         files.ABI
	LibC        LibC

	notes    []elfimage.DlopenNote
	literals []string // names of libraries in read-only data, if asked for
	// needsDriver reports whether the file needs the GPU driver, if Sources asked.
	needsDriver bool

	// skipReason says why no run path belongs in the file, and Err what is wrong with it.
	skipReason elfimage.Reason
	err        error
}

// LibC is the C library that a file was linked against.
type LibC string

// The C libraries that can be distinguished by what a file needs.
const (
	UnknownLibC LibC = ""
	GLibC       LibC = "glibc"
	Musl        LibC = "musl"
	Bionic      LibC = "Android's C library"
)

// unread is the object for a file that was not read.
var unread = &files.File{ELF: &files.Header{}}

// take reads what the index and the loader keep of an open file of the tree.
func (ix *Index) take(o *Object, f *tree.File) {
	im, err := elfimage.ParseHead(f, f.Size(), f.Head())
	if err != nil {
		o.err = err
		return
	}
	defer im.Release()
	o.abi = files.ABIOf(im)
	o.File = ix.files.Take(o.Real, f.FD(), f.Stat(), f.Head(), im)
	if o.examine(); o.err == nil && (o.skipReason == "" || o.skipReason == elfimage.Loader) {
		o.err = ix.read(o, im)
	}
}

// examine says what the file is, from what the loader reads of it.
func (o *Object) examine() {
	if o.skipReason = o.ELF.SkipReason(); o.skipReason == "" || o.skipReason == elfimage.Loader {
		if o.err = cmp.Or(o.File.Err, o.InterpErr); o.err == nil {
			o.LibC = libCOf(o)
		}
	}
}

// read reads what else was asked for in a file of the tree.
func (ix *Index) read(o *Object, im *elfimage.Image) (err error) {
	if o.notes, err = im.DlopenNotes(); err != nil {
		return err
	}
	var wanted func(name string) bool
	if ix.sources.Literals != nil {
		wanted = ix.sources.Literals(o)
	}
	if wanted != nil {
		err = im.LibraryNames(func(name string) bool {
			if name != o.Soname && wanted(name) {
				o.literals = append(o.literals, name)
			}
			return len(o.literals) < maxLiterals
		})
	}
	if err == nil && o.skipReason == "" && ix.sources.NeedsDriver != nil {
		o.needsDriver, err = ix.sources.NeedsDriver(im)
	}
	return err
}

// maxLiterals bounds the names that are kept from one file's read-only data.
const maxLiterals = 4096

// libCOf determines the C library from the loader that a program asks for, and from what everything that calls into
// it needs.
func libCOf(o *Object) LibC {
	if c := libCOfInterpreter(o.Interp); c != UnknownLibC {
		return c
	}
	if o.File.Android() {
		return Bionic
	}
	for _, name := range o.Needed {
		switch {
		case files.MuslOnly(name):
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
	case files.GLibCLoader(name):
		return GLibC
	}
	return UnknownLibC
}

// LinkedOutside returns how many hard links outside of the tree lead to the file.
func (o *Object) LinkedOutside() int { return max(o.links-len(o.also), 0) }

// malformed reports whether an error says that an ELF file contradicts itself.
func malformed(err error) bool {
	var format *elfimage.FormatError
	return errors.As(err, &format)
}

// program reports whether the file has an interpreter to set.
func (o *Object) program() bool { return o.Interp != "" }

// compatible reports whether files of two OS ABIs go together for nixpkgs, where System V's goes with every other.
func compatible(a, b elf.OSABI) bool {
	return a == b || a == elf.ELFOSABI_NONE || b == elf.ELFOSABI_NONE
}
