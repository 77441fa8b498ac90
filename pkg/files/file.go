package files

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"weak"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/resolution"
)

// File is a file that was looked at: what the file system says of it, and what the loader of a program reads of it.
type File struct {
	Stat
	Head
	Segments
	Dynamic

	ELF *Header // nil where the file is no ELF file, or one that contradicts itself
	Err error   // why ELF is nil, or why what is in the file could not be read
	// InterpErr is Err for the kernel, which reads a program's PT_INTERP; nobody reads a library's.
	InterpErr error
	// Executes: a program that needs the C library alone, and calls its execv, as a compiled wrapper does.
	Executes bool
	Seen     any // what [Options.Look] returned

	*later
}

// Stat is what the file system says.
type Stat struct {
	Path  string      // on this machine, links resolved
	Mode  os.FileMode // permission and set-user-ID bits
	Size  int64
	Links int // how many names the file has (hard links)

	Errno    syscall.Errno // why it could not be opened; 0 where it was
	Dangling bool          // a symbolic link that leads nowhere
	capable  bool          // a program started from it has capabilities
	id       fileID
}

// Head is what the loader checks first: the ELF header, of whatever the file begins with.
type Head struct {
	Ident     [elf.EI_NIDENT]byte
	Type      elf.Type
	Machine   elf.Machine
	Flags     uint32 // e_flags
	Version   uint32
	Phentsize uint16
	Short     bool // the file is shorter than an ELF header
}

// Segments is what program headers say.
type Segments struct {
	Interp     string
	ISA        uint32 // GNU_PROPERTY_X86_ISA_1_NEEDED
	First, End uint64 // addresses of the first byte that is loaded, and of the end
	// ExecutableStack says why glibc makes the stack executable for the file, or refuses it; "" where it does not.
	ExecutableStack string
}

// Dynamic is what the dynamic section says.
type Dynamic struct {
	HasDynamic bool // there is one
	Needed     []string
	Soname     string
	Tag        elf.DynTag // DT_RUNPATH, DT_RPATH or DT_NULL
	List       string     // the run path
	RPath      string     // the DT_RPATH that a DT_RUNPATH beside it shadows
	Shadow     bool       // there is one
	Flags1     elf.DynFlag1
	// StaticTLS is how many bytes of thread-local data a library has that is to lie at a fixed place (DF_STATIC_TLS).
	StaticTLS uint64
	Asks      []Dep     // what is loaded for it, in order
	Audit     [2]string // DT_AUDIT, DT_DEPAUDIT
	Versions  Versions

	Note    resolution.Note // the resolution note, where the loader reads one
	NoteErr error           // why the loader reads no more of it, or nothing
	// Description is the resolution note as it stands in the file.
	Description string
}

// later is what is read of a file once it is asked for.
type later struct {
	dlopen sync.Once
	notes  []elfimage.DlopenNote
	names  sync.Once
	opens  []Literal

	// linkage is there as long as somebody looks at it: that of a large library has a hundred megabytes.
	linkage weak.Pointer[elfimage.Linkage]
	linkErr error
	linking sync.Mutex
	// Enough are the files that once had all symbols that this one refers to: see loader.Scope.Unbound.
	Enough atomic.Pointer[[]*File]
}

// Ask changes the libraries that a file needs, in a view of it that [Files.Edited] makes: names that are replaced, in
// DT_VERNEED too, and one that is added at the end, unless it is "".
func (f *File) Ask(replaced map[string]string, added string) {
	f.Needed, f.Asks, f.Versions.Needs = slices.Clone(f.Needed), slices.Clone(f.Asks), slices.Clone(f.Versions.Needs)
	rename := func(name *string) {
		if to, ok := replaced[*name]; ok {
			*name = to
		}
	}
	for i := range f.Needed {
		rename(&f.Needed[i])
	}
	for i := range f.Asks {
		rename(&f.Asks[i].Name)
	}
	for i := range f.Versions.Needs {
		rename(&f.Versions.Needs[i].Library)
	}
	if added != "" {
		f.Needed, f.Asks = append(f.Needed, added), append(f.Asks, Dep{elf.DT_NEEDED, added})
	}
}

// Unread returns what is known of a file of a path that could not be opened.
func Unread(host string, errno syscall.Errno) *File {
	return &File{Stat: Stat{Path: host, Errno: errno}, later: &later{}}
}

// There reports whether something has the name, though it may lead nowhere or not be opened.
func (f *File) There() bool {
	return f.Dangling || f.Errno != syscall.ENOENT && f.Errno != syscall.ENOTDIR
}

// absent is every file that a directory does not have.
var absent = Unread("", syscall.ENOENT)

// dangling is every symbolic link that leads nowhere.
var dangling = func() *File {
	f := Unread("", syscall.ENOENT)
	f.Dangling = true
	return f
}()

// Header is what is kept of a parsed image, which has buffers of its own.
type Header struct {
	Type    elf.Type
	Machine elf.Machine
	OSABI   elf.OSABI

	skip  elfimage.Reason
	notes bool
}

// SkipReason is [elfimage.Image.SkipReason].
func (h *Header) SkipReason() elfimage.Reason { return h.skip }

// Dep is a DT_NEEDED, DT_AUXILIARY or DT_FILTER, in the order of the dynamic section.
type Dep struct {
	Tag  elf.DynTag
	Name string
}

type fileID struct{ dev, ino uint64 }

// headSize is how many bytes of a file are read at once: a program's headers, symbols and
// strings, mostly, but not its dynamic section.
const headSize = 8 << 10

var heads = sync.Pool{New: func() any { return new([headSize]byte) }}

// parse reads an open file. The image, nil where there is none, can be read from until head
// is used again; it has section headers where the names in the file will be asked for.
func parse(host string, fd int, opened bool, room *[headSize]byte) (f *File, im *elfimage.Image) {
	f = Unread(host, 0)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Errno = errnoOf(err)
		return f, nil
	}
	if !f.stat(&st) {
		return f, nil
	}
	r := descriptor(fd)
	head := room[:min(f.Size, headSize)]
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		f.Err = ReadError(errnoOf(err))
		return f, nil
	}
	f.header(head)
	if f.Short || string(f.Ident[:len(elf.ELFMAG)]) != elf.ELFMAG {
		return f, nil
	}
	im, err := elfimage.ParseLoad(r, f.Size, head)
	if err != nil {
		f.Err = err
		return f, nil
	}
	if opened {
		im.ReadSections()
	}
	f.take(im, fd)
	return f, im
}

// take reads what an image says.
func (f *File) take(im *elfimage.Image, fd int) {
	f.Err = f.read(im)
	f.Executes = f.executes(im)
	f.capable = f.Interp != "" && f.Mode&0o111 != 0 && capable(fd)
	f.ELF = &Header{im.Type, im.Machine, im.OSABI, im.SkipReason(), hasNotes(im)}
}

func (f *File) executes(im *elfimage.Image) bool {
	if f.Interp == "" || slices.ContainsFunc(f.Needed, func(n string) bool { return n != "libc.so.6" && !MuslOnly(n) }) {
		return false
	}
	table, err := im.Read(im.StrOff, im.StrSize)
	return err == nil && bytes.Contains(table, []byte("execv\x00"))
}

// stat takes over a file's state, and reports whether it is a regular one.
func (f *File) stat(st *unix.Stat_t) bool {
	f.id = fileID{uint64(st.Dev), st.Ino}    //nolint:unconvert // Dev is 32 bits wide on MIPS
	f.Size, f.Links = st.Size, int(st.Nlink) //nolint:unconvert // it is 32 bits wide on some machines
	f.Mode = os.FileMode(st.Mode & 0o777)
	if st.Mode&unix.S_ISUID != 0 {
		f.Mode |= os.ModeSetuid
	}
	if st.Mode&unix.S_ISGID != 0 {
		f.Mode |= os.ModeSetgid
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return true
	case unix.S_IFDIR:
		f.Err = ReadError(syscall.EISDIR)
	default:
		f.Err = regular.ErrNotRegular
	}
	return false
}

// Secure says by what a program that is started from the file gets more rights than
// its caller has, so that the kernel sets AT_SECURE; "" where it gets none
// (bprm_fill_uid in fs/exec.c, cap_bprm_creds_from_file in security/commoncap.c).
func (f *File) Secure() string {
	switch {
	case f.Mode&os.ModeSetuid != 0:
		return "set-user-ID"
	case f.Mode&os.ModeSetgid != 0 && f.Mode&0o010 != 0: // without it: mandatory locking, once
		return "set-group-ID"
	case f.capable:
		return "file capabilities"
	}
	return ""
}

// capable reports whether a program that is started from an open file gets capabilities
// from it.
func capable(fd int) bool {
	// struct vfs_ns_cap_data of linux/capability.h: magic and flags, then permitted and
	// inheritable, two words each in the versions from 2 on.
	var b [24]byte
	n, err := unix.Fgetxattr(fd, "security.capability", b[:])
	if err != nil || n < 12 {
		return false
	}
	le := binary.LittleEndian
	permitted := le.Uint32(b[4:])
	if n >= 20 {
		permitted |= le.Uint32(b[12:])
	}
	effective := le.Uint32(b[:]) & 1
	return effective != 0 || permitted != 0
}

// header reads what the loader checks first.
func (f *File) header(head []byte) {
	copy(f.Ident[:], head)
	h, isELF, whole := elfimage.DecodeHeader(head)
	f.Short = len(head) < elfimage.MinHeader || isELF && !whole
	f.Type, f.Machine, f.Version, f.Flags, f.Phentsize = h.Type, h.Machine, h.Version, h.Flags, h.Phentsize
}

func (f *File) read(im *elfimage.Image) (err error) {
	f.properties(im)
	f.Interp, f.InterpErr = im.Interpreter()
	f.HasDynamic = len(im.Dynamic) > 0
	if !f.HasDynamic {
		return nil
	}
	if err := f.readDeps(im); err != nil {
		return err
	}
	if f.Soname, err = im.Soname(); err != nil {
		return err
	}
	if f.Tag, f.List, err = im.RunPath(); err != nil {
		return err
	}
	if f.RPath, f.Shadow, err = im.Shadowed(); err != nil {
		return err
	}
	if d, ok := im.Dyn(elf.DT_FLAGS_1); ok {
		f.Flags1 = elf.DynFlag1(d.Val)
	}
	if d, ok := im.Dyn(elf.DT_FLAGS); ok && elf.DynFlag(d.Val)&elf.DF_STATIC_TLS != 0 {
		for i := range im.Progs {
			if p := &im.Progs[i]; p.Type == elf.PT_TLS {
				f.StaticTLS = p.Memsz
			}
		}
	}
	f.Versions = readVersions(im)
	note, err := im.ResolutionCache()
	if note != nil {
		f.Description = note.Description
		f.Note, f.NoteErr = resolution.Parse([]byte(note.Description))
	}
	return err
}

// readDeps reads what the dynamic section asks to load.
func (f *File) readDeps(im *elfimage.Image) error {
	n := 0
	for i := range im.Dynamic {
		if im.Dynamic[i].Tag == elf.DT_NEEDED {
			n++
		}
	}
	f.Needed, f.Asks = make([]string, 0, n), make([]Dep, 0, n)
	for _, d := range im.Dynamic {
		switch d.Tag {
		case elf.DT_NEEDED, elf.DT_AUXILIARY, elf.DT_FILTER:
			name, err := im.DynString(d)
			if err != nil {
				return err
			}
			f.Asks = append(f.Asks, Dep{d.Tag, name})
			if d.Tag == elf.DT_NEEDED {
				f.Needed = append(f.Needed, name)
			}
		case dtAudit, dtDepAudit:
			i := 0
			if d.Tag == dtDepAudit {
				i = 1
			}
			var err error
			if f.Audit[i], err = im.DynString(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// IsELF reports whether the file was read, and begins as an ELF file.
func (f *File) IsELF() bool { return string(f.Ident[:len(elf.ELFMAG)]) == elf.ELFMAG }

// IsNoELF reports whether the file was read, and does not begin as an ELF file.
func (f *File) IsNoELF() bool {
	return f.Errno == 0 && f.Err == nil && !f.IsELF()
}

// IsText reports whether the file begins as a text does: linker scripts have the names of libraries.
func (f *File) IsText() bool {
	return f.Size > 0 && !slices.ContainsFunc(f.Ident[:min(f.Size, elf.EI_NIDENT)],
		func(b byte) bool { return b < ' ' && b != '\n' && b != '\t' && b != '\r' || b >= 0x7f })
}

// IsLFSPointer reports whether the file stands for one that Git LFS has not fetched (docs/spec.md of git-lfs).
func (f *File) IsLFSPointer() bool {
	const first = "version https://git-lfs.github.com/spec/"
	if f.Size < int64(len(first)) || f.Size >= 1024 || string(f.Ident[:]) != first[:elf.EI_NIDENT] {
		return false
	}
	b, err := regular.Read(f.Path, 1024)
	return err == nil && strings.HasPrefix(string(b), first)
}

// Problem says in words why the file cannot be read, or "".
func (f *File) Problem() string {
	switch {
	case f.Errno == syscall.ENOENT:
		return "does not exist"
	case f.Errno != 0:
		return f.Errno.Error()
	case errors.Is(f.Err, ReadError(syscall.EISDIR)):
		return "is a directory"
	case f.Err != nil:
		return f.Err.Error()
	case f.IsNoELF():
		return string(elfimage.NotELF)
	case f.Short:
		return "file too short"
	}
	return ""
}

// Is reports whether two files are one, by whatever names they were opened.
func (f *File) Is(g *File) bool { return f.id == g.id }

// Same reports whether two files are one, or have the same contents.
func (f *File) Same(g *File) bool {
	if f.Path == g.Path || f.Is(g) {
		return true
	}
	return f.Size == g.Size && sameBytes(f.Path, g.Path)
}

func sameBytes(a, b string) bool {
	f, _, err := regular.Open(a)
	if err != nil {
		return false
	}
	defer f.Close()
	g, _, err := regular.Open(b)
	if err != nil {
		return false
	}
	defer g.Close()
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errx := io.ReadFull(f, x)
		m, erry := io.ReadFull(g, y)
		if n != m || string(x[:n]) != string(y[:m]) {
			return false
		}
		if errx != nil || erry != nil {
			return (errx == io.EOF || errx == io.ErrUnexpectedEOF) && (erry == io.EOF || erry == io.ErrUnexpectedEOF)
		}
	}
}

// ReadError is why a file that was opened could not be read.
type ReadError syscall.Errno

func (e ReadError) Error() string { return "cannot read file data: " + syscall.Errno(e).Error() }

// descriptor is an io.ReaderAt without os.File's registration with the poller.
type descriptor int

func (d descriptor) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pread(int(d), p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		default:
			n += m
		}
	}
	return n, nil
}

// ErrText says in words why a file cannot be opened; "" for 0.
func ErrText(e syscall.Errno) string {
	switch e {
	case 0:
		return ""
	case syscall.ENOENT:
		return "does not exist"
	case syscall.EACCES:
		return "may not be read"
	case syscall.ELOOP:
		return "is a symbolic link that leads to itself, or through too many others"
	case syscall.ENOTDIR:
		return "a part of the path is not a directory"
	}
	return e.Error()
}
