package files

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"weak"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
)

// Tags of the dynamic section that debug/elf has no names for (elf.h of glibc).
const (
	dtAudit    elf.DynTag = 0x6ffffefc
	dtDepAudit elf.DynTag = 0x6ffffefb
)

// Properties of NT_GNU_PROPERTY_TYPE_0 notes (the x86-64 psABI, "Program Property").
const (
	ptGNUProperty    elf.ProgType = 0x6474e553
	propertyNote                  = 5 // NT_GNU_PROPERTY_TYPE_0
	propertyISA                   = 0xc0008002
	maxPropertyBytes              = 1 << 12
)

// properties reads what program headers say beside the dynamic section.
func (f *File) properties(im *elfimage.Image) {
	var property, note *elfimage.Prog
	for i := range im.Progs {
		switch p := &im.Progs[i]; p.Type {
		case ptGNUProperty:
			property = p
		case elf.PT_NOTE:
			if p.Align == 8 {
				note = p
			}
		case elf.PT_LOAD:
			if f.End == 0 || p.Vaddr < f.First {
				f.First = p.Vaddr
			}
			f.End = max(f.End, p.Vaddr+p.Memsz)
		}
	}
	if stack := im.Stack(); stack == nil && !slices.Contains(plainStacks, im.Machine) {
		f.ExecutableStack = fmt.Sprintf("it has no PT_GNU_STACK, and %v's default is an executable stack", im.Machine)
	} else if stack != nil && stack.Flags&elf.PF_X != 0 {
		f.ExecutableStack = "its PT_GNU_STACK has PF_X"
	}
	if property == nil {
		property = note // linkers of before PT_GNU_PROPERTY
	}
	if property == nil || im.Machine != elf.EM_X86_64 && im.Machine != elf.EM_386 || property.Filesz < 16 ||
		property.Filesz > maxPropertyBytes {
		return
	}
	b := make([]byte, property.Filesz)
	if _, err := im.ReadAt(b, int64(property.Off)); err != nil {
		return
	}
	align := 4
	if im.Is64() {
		align = 8
	}
	// As _dl_process_property_note of sysdeps/x86/dl-prop.h: the first such note counts.
	for len(b) >= 16 {
		namesz, descsz, kind := im.Order.Uint32(b), im.Order.Uint32(b[4:]), im.Order.Uint32(b[8:])
		if namesz != 4 || uint64(descsz) > uint64(len(b)-16) {
			return
		}
		desc := b[16 : 16+descsz]
		if kind == propertyNote && string(b[12:16]) == "GNU\x00" {
			for len(desc) >= 8 {
				kind, size := im.Order.Uint32(desc), im.Order.Uint32(desc[4:])
				if uint64(size) > uint64(len(desc)-8) {
					return
				}
				if kind == propertyISA && size == 4 {
					f.ISA = im.Order.Uint32(desc[8:])
					return
				}
				desc = desc[min(len(desc), 8+(int(size)+align-1)&^(align-1)):]
			}
			return
		}
		b = b[min(len(b), 16+(int(descsz)+align-1)&^(align-1)):]
	}
}

// plainStacks are the machines whose DEFAULT_STACK_PERMS is without PF_X (each machine's stackinfo.h).
var plainStacks = []elf.Machine{elf.EM_AARCH64, elf.EM_PPC64, elf.EM_RISCV, elf.EM_LOONGARCH, elf.EM_IA_64}

// Versions is what a file says about symbol versions.
type Versions struct {
	Needs   []elfimage.Version // DT_VERNEED
	Defines map[string]uint32  // DT_VERDEF, by name the hash, which linkers compute from it; nil where there is none
	Symbols bool               // there is a DT_VERSYM
	RELR    bool               // there is a DT_RELR
}

// Define reports whether a version is among those that the file defines. The loader compares both hash and name.
func (v *Versions) Define(want *elfimage.Version) bool {
	hash, ok := v.Defines[want.Name]
	return ok && hash == want.Hash
}

// dtRELR is DT_RELR, for which debug/elf has no name.
const dtRELR elf.DynTag = 36

// Versioned reports whether the file says which versions it defines: else it is taken to have every one.
func (f *File) Versioned() bool { return f.Versions.Defines != nil }

// Lacks returns the versions that another file needs of a library of a name and that this one
// does not define.
func (f *File) Lacks(by *File, name string) []string {
	return slices.Collect(f.lacking(by, name))
}

// Serves reports whether it lacks none.
func (f *File) Serves(by *File, name string) bool {
	for range f.lacking(by, name) {
		return false
	}
	return true
}

func (f *File) lacking(by *File, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range by.Versions.Needs {
			if v := &by.Versions.Needs[i]; v.Library == name && !v.Weak && f.Versioned() && !f.Versions.Define(v) &&
				!yield(v.Name) {
				return
			}
		}
	}
}

// Defines reports whether the file defines a symbol version, by its name.
func (f *File) Defines(version string) bool {
	_, ok := f.Versions.Defines[version]
	return ok
}

// readVersions reads a file's symbol versions. Tables that contradict themselves count
// as none: what the loader does with them is undefined.
func readVersions(im *elfimage.Image) (v Versions) {
	if needs, err := im.VersionsNeeded(); err == nil {
		v.Needs = needs
	}
	if defined, ok, err := im.VersionsDefined(); ok && err == nil {
		v.Defines = make(map[string]uint32, len(defined))
		for _, d := range defined {
			v.Defines[d.Name] = d.Hash
		}
	}
	_, v.Symbols = im.Dyn(elf.DT_VERSYM)
	_, v.RELR = im.Dyn(dtRELR)
	return v
}

// A Literal is the name of a library among a file's constants.
type Literal struct {
	Name   string
	Path   string // the whole string, where it is a path; the name may be there by itself too
	Exact  bool   // the whole of a C string, not cut out of a longer one
	Driver bool   // driver.NeedsDriver of the name
}

// Literals returns the names of libraries in the file's read-only data, each once by itself and once in each path.
func (f *File) Literals() []Literal {
	f.names.Do(func() {
		f.Image(func(im *elfimage.Image) {
			f.readLiterals(im)
			f.dlopen.Do(func() { f.readNotes(im) }) // who asks for one asks for the other
		})
	})
	return f.opens
}

// maxLiterals bounds the names of a file.
const maxLiterals = 4096

func (f *File) readLiterals(im *elfimage.Image) {
	seen := map[string]int{}
	im.LibraryPaths(func(text string, exact bool) bool {
		name, at := text, ""
		if text[0] != '$' && strings.Contains(text, "/") {
			name, at = path.Base(text), text
		}
		if i, ok := seen[text]; ok {
			f.opens[i].Exact = f.opens[i].Exact || exact
		} else {
			seen[text] = len(f.opens)
			f.opens = append(f.opens, Literal{name, at, exact, driver.NeedsDriver(name)})
		}
		return len(f.opens) < maxLiterals
	})
}

// Notes returns the file's .note.dlopen notes.
func (f *File) Notes() []elfimage.DlopenNote {
	f.dlopen.Do(func() {
		if f.ELF != nil && f.ELF.notes {
			f.Image(f.readNotes)
		}
	})
	return f.notes
}

func (f *File) readNotes(im *elfimage.Image) { f.notes, _ = im.DlopenNotes() }

// readOpened reads what Literals and Notes return.
func (f *File) readOpened(im *elfimage.Image) {
	f.names.Do(func() { f.readLiterals(im) })
	f.dlopen.Do(func() { f.readNotes(im) })
}

func hasNotes(im *elfimage.Image) bool {
	for _, p := range im.Progs {
		if p.Type == elf.PT_NOTE && p.Filesz > 32 {
			return true
		}
	}
	return im.HasSections() // one of them may be a note
}

// Image opens the file again, and lets its image be used, unless another file has taken its place.
func (f *File) Image(use func(*elfimage.Image)) { f.reopen(elfimage.ParseHead, use) }

// reopen parses the file again, if it is still the same, for use.
func (f *File) reopen(parse func(io.ReaderAt, int64, []byte) (*elfimage.Image, error), use func(*elfimage.Image)) {
	if f.ELF == nil {
		return
	}
	fd, err := (&Place{Host: f.Path, Mode: unix.S_IFREG}).open()
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	//nolint:unconvert // Dev is 32 bits wide on MIPS
	if unix.Fstat(fd, &st) != nil || (fileID{uint64(st.Dev), st.Ino}) != f.id {
		return // another file has taken its place
	}
	r := descriptor(fd)
	pooled := heads.Get().(*[headSize]byte)
	defer heads.Put(pooled)
	head := pooled[:min(st.Size, headSize)]
	if elfimage.ReadFull(r, head, 0) != nil {
		return
	}
	if im, err := parse(r, st.Size, head); err == nil {
		use(im)
		im.Release()
	}
}

// Linkage returns what the loader binds the file's symbols by; an error where that cannot be known. It is read again
// once nobody has it any more.
func (f *File) Linkage() (*elfimage.Linkage, error) {
	f.linking.Lock()
	defer f.linking.Unlock()
	if l := f.linkage.Value(); l != nil || f.linkErr != nil {
		return l, f.linkErr
	}
	var read *elfimage.Linkage
	f.linkErr = errors.New("the symbols cannot be read")
	f.reopen(elfimage.ParseLoad, func(im *elfimage.Image) {
		if l, known, err := im.Linkage(); err != nil {
			f.linkErr = err
		} else if known {
			read, f.linkErr = l, nil
		}
	})
	f.linkage = weak.Make(read)
	return read, f.linkErr
}

// Calls reports whether the file calls a function of another one by a name, as far as its symbols show.
func (f *File) Calls(function string) bool {
	l, err := f.Linkage()
	return err == nil && slices.ContainsFunc(l.References, func(r elfimage.Reference) bool { return r.Name == function })
}

// Android reports whether the file is for Android, whose C library gives its symbols the version LIBC
// (bionic/libc/libc.map.txt) and is called libc.so, as musl's may be.
func (f *File) Android() bool {
	return slices.ContainsFunc(f.Versions.Needs, func(v elfimage.Version) bool { return v.Name == "LIBC" })
}
