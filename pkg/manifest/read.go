package manifest

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/references"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/starts"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/tree"

	"golang.org/x/sys/unix"
)

// generation is after how many files a new loader takes over, which has read nothing: what one has read it keeps.
const generation = 2048

// Reader reads the files of packages.
type Reader struct {
	root string   // that the paths are below, "" for this machine's
	args []argued // the longest first

	modules starts.Modules

	mu       sync.Mutex
	system   *explain.System
	left     int // of the generation
	packages map[string]*counted
	order    []string
	sum      Summary
}

// argued is a path of the command line.
type argued struct {
	named string
	real  string // absolute, links resolved, below the root
	dir   bool
}

// counted is a package while it is read.
type counted struct {
	Package
	refs   map[string]int
	absent map[string][]string // names that are not found → files
	cuda   map[string]int
	starts map[string]bool // programs that wrappers start
}

// NewReader returns a reader of some files and directories, which are below root, "" for this machine's.
func NewReader(root string, paths []string) (*Reader, error) {
	r := &Reader{root: root, packages: map[string]*counted{}}
	l, err := r.loader()
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		a := argued{named: p}
		if real, err := regular.Real(p); err == nil {
			st, err := os.Stat(real)
			a.real, a.dir = l.Path(real), err == nil && st.IsDir()
		}
		r.args = append(r.args, a)
	}
	slices.SortStableFunc(r.args, func(a, b argued) int { return len(b.named) - len(a.named) })
	return r, nil
}

func (r *Reader) loader() (*loader.Loader, error) {
	return loader.New(loader.Options{Root: r.root, CPU: "baseline", Opened: true, NoTries: true})
}

// look returns the system that the next file is looked at in.
func (r *Reader) look() *explain.System {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left--; r.left < 0 {
		l, err := r.loader()
		if err != nil && r.system != nil { // the root is gone, and so are the files
			return r.system
		}
		r.system, r.left = explain.New(l, explain.Options{}), generation-1
	}
	return r.system
}

// Walk reads the files, jobs at a time, and calls tell for each that is listed, in order. Where ctx is cancelled, it
// returns a [tree.Stopped].
func (r *Reader) Walk(ctx context.Context, jobs int, tell func(*File)) error {
	named := make([]string, 0, len(r.args))
	for _, a := range r.args {
		named = append(named, a.named)
	}
	slices.Sort(named)
	return tree.Walk(ctx, slices.Compact(named), tree.Options{Jobs: jobs, FollowArguments: true, AnyLinked: true,
		Link: r.link},
		func(f *tree.File) (*File, bool) {
			m := r.file(f)
			return m, m != nil
		},
		func(m *File) {
			r.count(m)
			tell(m)
		})
}

// place returns the package of a path that was walked, and its path in there.
func (r *Reader) place(walked string) (pkg, name string) {
	for _, a := range r.args {
		rest, in := strings.CutPrefix(walked, a.named)
		if !in || rest != "" && !strings.HasSuffix(a.named, "/") && rest[0] != '/' {
			continue
		}
		rest = strings.Trim(rest, "/")
		real := path.Join(a.real, rest)
		if object := store.Path(real); object != "" {
			return object, strings.TrimPrefix(strings.TrimPrefix(real, object), "/")
		}
		if !a.dir || a.real == "" {
			dir, base := path.Split(walked)
			return path.Clean(dir), base
		}
		return path.Clean(a.named), rest
	}
	return "", walked
}

// of returns what is counted of a package. r.mu is held.
func (r *Reader) of(pkg string) *counted {
	c := r.packages[pkg]
	if c == nil {
		c = &counted{Package: Package{Path: pkg, Name: NameOf(pkg), Kinds: map[Kind]int{}, Largest: []Sized{},
			CUDA: []Count{}, Stubs: []string{},
			NotFound: []Count{}, References: []PackageReference{}, Links: []Link{}}, refs: map[string]int{},
			absent: map[string][]string{}, cuda: map[string]int{}, starts: map[string]bool{}}
		r.packages[pkg], r.order = c, append(r.order, pkg)
	}
	return c
}

// link notes where a symbolic link leads, and counts what it refers to.
func (r *Reader) link(dir, name string) {
	at := strings.TrimSuffix(dir, "/") + "/" + name
	m := &File{}
	m.Package, m.Path = r.place(at)
	l := r.look().Loader
	f := l.Files().Open(r.at(m))
	target, err := os.Readlink(at)
	object := store.Path(target)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(m.Package)
	if f.ELF != nil || string(f.Ident[:2]) == "#!" {
		c.Links = append(c.Links, Link{m.Path, r.own(m, l.Path(f.Path))})
	}
	if err == nil && object != "" && object != m.Package {
		c.refs[object]++
	}
}

// file reads one file; nil where there is nothing to list of it. It runs in several goroutines.
func (r *Reader) file(f *tree.File) *File {
	m := &File{}
	m.Package, m.Path = r.place(f.Path)
	size, err := int64(0), f.Err
	if err == nil {
		size, err = f.Length()
	}
	if err != nil {
		m.Kind, m.Error = Unread, reason(err)
		return m
	}
	m.Size = size
	inStore := store.Path(m.Package) != ""
	same := f.SameAs != "" && !inStore
	if same {
		var pkg string
		if pkg, m.SameAs = r.place(f.SameAs); pkg != m.Package {
			m.SameAs, same = "", false
		}
	}
	r.mu.Lock()
	if c := r.of(m.Package); !same {
		c.Files++
		c.Bytes += size
	}
	r.mu.Unlock()
	listed, err := r.read(m, f, same)
	if !same {
		m.mode(f.Stat().Mode)
	}
	if err = f.Blame(err); err == nil && !same {
		err = m.refer(f, size)
	}
	var format *elfimage.FormatError
	switch {
	case errors.As(err, &format):
		m.Kind, m.Error = Malformed, err.Error()
	case err != nil:
		m.Kind, m.Error = Unread, reason(err)
	case !listed:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.of(m.Package).refer(m)
		return nil
	}
	return m
}

// mode notes what a file's mode says.
func (m *File) mode(mode uint32) {
	m.SetUID, m.SetGID = mode&unix.S_ISUID != 0, mode&unix.S_ISGID != 0
	switch can := mode&0o111 != 0; m.Kind {
	default:
		if !strings.Contains("/"+m.Path, "/bin/") {
			return
		}
		fallthrough
	case Program, Static, Wrapper:
		m.Executable = &can
	}
}

// reason is an error without the path that stands beside it.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}

// read reads what is in a file; listed reports whether the document has it.
func (r *Reader) read(m *File, f *tree.File, same bool) (listed bool, err error) {
	head := f.Head()
	if !f.ELF() {
		if bytes.HasPrefix(head, []byte("#!")) {
			return r.starts(m, r.look(), r.at(m)), nil
		}
		if !gpucode.IsFile(head) {
			return false, nil
		}
		if m.Kind = GPUCode; head[0] == '!' {
			m.Kind = Archive
		}
		if !same {
			err = m.gpu(f, head)
		}
		return err != nil || m.GPU != nil || same, err
	}
	im, err := elfimage.ParseHead(f, m.Size, head)
	if err != nil {
		return true, err
	}
	defer im.Release()
	m.Machine = im.Machine.String()
	m.Kind = kindOf(im)
	if !same {
		if m.BuildID, err = im.BuildID(); err != nil {
			return true, err
		}
		if err := m.gpu(f, head); err != nil {
			return true, err
		}
	}
	if !same {
		m.Flags = flagsOf(im)
	}
	if !im.Loadable() || m.Kind == Debug {
		return true, nil
	}
	system := r.look()
	system.Loader.Take(r.at(m), f.FD())
	return true, r.loads(m, system, same)
}

// kindOf tells what an ELF file is.
func kindOf(im *elfimage.Image) Kind {
	switch im.SkipReason() {
	case elfimage.Relocatable:
		return Object
	case elfimage.Detached:
		return Debug
	case elfimage.Static, elfimage.StaticPIE:
		return Static
	case elfimage.Loader:
		return Loader
	case elfimage.CUDACode, elfimage.AMDCode, elfimage.IntelCode:
		return GPUCode
	case "":
	case elfimage.NoDynamic:
		if im.Type == elf.ET_EXEC {
			return Static
		}
		return Shared
	default:
		return OtherELF
	}
	soname, _ := im.Soname()
	flags, _ := im.Dyn(elf.DT_FLAGS_1)
	if im.Type == elf.ET_EXEC || elf.DynFlag1(flags.Val)&elf.DF_1_PIE != 0 || im.Prog(elf.PT_INTERP) != nil &&
		soname == "" {
		return Program
	}
	return Shared
}

// at is the path of a file below the root.
func (r *Reader) at(m *File) string {
	p := path.Join(m.Package, m.Path)
	if store.Path(m.Package) != "" {
		return p
	}
	if abs, err := filepath.Abs(p); err == nil {
		p = abs
	}
	for _, a := range r.args {
		if path.Clean(a.named) == m.Package {
			return path.Join(a.real, m.Path)
		}
	}
	return p
}

// dynamicFlags are the dynamic entries that ask something of the loader, what they are called, and which bits of them do
// (gABI; glibc's elf.h).
var dynamicFlags = []struct {
	tag  elf.DynTag
	name string
	bits uint64 // 0: the entry itself does
}{
	{elf.DT_BIND_NOW, "BIND_NOW", 0}, {elf.DT_FLAGS, "BIND_NOW", uint64(elf.DF_BIND_NOW)},
	{elf.DT_FLAGS_1, "BIND_NOW", uint64(elf.DF_1_NOW)}, {elf.DT_SYMBOLIC, "SYMBOLIC", 0},
	{elf.DT_FLAGS, "SYMBOLIC", uint64(elf.DF_SYMBOLIC)}, {elf.DT_TEXTREL, "TEXTREL", 0},
	{elf.DT_FLAGS, "TEXTREL", uint64(elf.DF_TEXTREL)}, {elf.DT_FLAGS, "STATIC_TLS", uint64(elf.DF_STATIC_TLS)},
	{elf.DT_FLAGS_1, "GLOBAL", uint64(elf.DF_1_GLOBAL)}, {elf.DT_FLAGS_1, "NODELETE", uint64(elf.DF_1_NODELETE)},
	{elf.DT_FLAGS_1, "INITFIRST", uint64(elf.DF_1_INITFIRST)}, {elf.DT_FLAGS_1, "NOOPEN", uint64(elf.DF_1_NOOPEN)},
	{elf.DT_FLAGS_1, "INTERPOSE", uint64(elf.DF_1_INTERPOSE)}, {elf.DT_FLAGS_1, "NODEFLIB", uint64(elf.DF_1_NODEFLIB)},
	{elf.DT_FLAGS_1, "PIE", uint64(elf.DF_1_PIE)},
}

// flagsOf returns what a file asks of the loader and the kernel, each once, in the order of the names.
func flagsOf(im *elfimage.Image) (flags []string) {
	if stack := im.Stack(); stack != nil && stack.Flags&elf.PF_X != 0 {
		flags = append(flags, "executable stack")
	}
	if im.Prog(elf.PT_GNU_RELRO) != nil {
		flags = append(flags, "RELRO")
	}
	for _, f := range dynamicFlags {
		if d, is := im.Dyn(f.tag); is && (f.bits == 0 || d.Val&f.bits != 0) {
			flags = append(flags, f.name)
		}
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

// splitVersion splits a symbol version into its family and its number, which is "" where there is none: GLIBC and 2.27,
// GLIBC_ABI_DT_RELR and none.
func splitVersion(name string) (family, number string) {
	family = strings.TrimRight(name, "0123456789.")
	if number = strings.Trim(name[len(family):], "."); number == "" || family == "" {
		return name, ""
	}
	return strings.TrimRight(family, "_"), number
}

// needsVersions returns of each family the highest version that a file needs of libraries that are neither in its package
// nor in a store.
func needsVersions(m *File, needs []elfimage.Version) (all []string) {
	highest := map[string]string{}
	for _, v := range needs {
		i := slices.IndexFunc(m.Loads, func(l Library) bool { return l.Name == v.Library })
		if i >= 0 && m.Loads[i].Path != nil {
			at := cmp.Or(m.Loads[i].Resolved, *m.Loads[i].Path)
			if !path.IsAbs(at) || store.Path(at) != "" {
				continue
			}
		} else if i >= 0 && store.Path(m.Package) != "" && m.Loads[i].Rule != string(loader.NotFound) {
			continue // the program's glibc
		}
		if family, _ := splitVersion(v.Name); !v.Weak && natural(highest[family], v.Name) < 0 {
			highest[family] = v.Name
		}
	}
	return slices.Sorted(maps.Values(highest))
}

// gpu reads a file's code for GPUs.
func (m *File) gpu(f *tree.File, head []byte) error {
	code, err := gpucode.Read(f, m.Size, head)
	if err != nil || len(code.Containers)+len(code.Bundles) == 0 {
		return err
	}
	m.GPU = &GPU{Bytes: code.Bytes(), Thinned: code.ThinnedFor(), sum: code.Sum()}
	m.GPU.Code = m.GPU.sum.List()
	eachGPU(func(name string, passes func(*gpucode.File) bool) {
		if passes(code) {
			m.GPU.Runs = append(m.GPU.Runs, name)
		}
	})
	for i := range code.Containers {
		if d := code.Containers[i].Damage; d != nil {
			m.GPU.Damaged = append(m.GPU.Damaged, d.Error())
		}
	}
	for i := range code.Bundles {
		if d := code.Bundles[i].Damage; d != nil {
			m.GPU.Damaged = append(m.GPU.Damaged, d.Error())
		}
	}
	return nil
}

// refer lists the store paths that a file names, its own package's left out.
func (m *File) refer(f *tree.File, size int64) error {
	all, err := references.Find(f, size, f.Head())
	if err != nil {
		return err
	}
	for i := range all {
		x := &all[i]
		if x.Object != "" && x.Object == m.Package {
			continue
		}
		at := slices.IndexFunc(m.References, func(r Reference) bool { return r.Object == x.Object })
		if at < 0 {
			at = len(m.References)
			m.References = append(m.References, Reference{Object: x.Object})
		}
		r := &m.References[at]
		r.Times += x.Times
		if !slices.Contains(r.Places, x.Place) {
			r.Places = append(r.Places, x.Place)
		}
	}
	for i := range m.References {
		slices.Sort(m.References[i].Places)
	}
	return nil
}

// loads reads what the loader reads of a file, and what it finds.
func (r *Reader) loads(m *File, system *explain.System, same bool) error {
	at := r.at(m)
	f := system.Loader.Files().Open(at)
	if f.Err != nil {
		return f.Err
	}
	if f.ELF == nil { // it is gone
		return errors.New("is by now another file")
	}
	if same {
		if !runpath.HasOrigin(f.List + " " + strings.Join(f.Needed, " ")) {
			return nil
		}
	} else {
		m.Soname, m.Interpreter, m.Needed = f.Soname, f.Interp, f.Needed
		defer func() { m.Versions = needsVersions(m, f.Versions.Needs) }() // once it is known what it loads
		if f.Tag != 0 {
			m.Tag, m.RunPath = f.Tag.String(), runpath.Parse(f.List)
		}
		if m.ResolutionNote = f.Note; f.NoteErr != nil {
			m.NoteError = f.NoteErr.Error()
		}
		m.driver = runpath.List(m.RunPath).Has(driver.LinkFor(f.ELF.Machine))
	}
	if m.Kind == Loader || m.Kind == Static || f.Executes && r.starts(m, system, at) {
		return nil
	}
	state, err := r.modules.Begin(system.Loader, at, starts.Wrappers)
	if err != nil {
		var not *loader.NotLoadable
		if errors.As(err, &not) {
			return nil
		}
		return err
	}
	r.process(m, system.Case(state))
	return nil
}

// starts reads a file as a wrapper, and reports whether it is one.
func (r *Reader) starts(m *File, system *explain.System, at string) bool {
	state, err := r.modules.Begin(system.Loader, at, starts.Wrappers)
	if err != nil || len(state.Start.Via) == 0 {
		return false
	}
	m.Kind, m.Starts, m.Sets = Wrapper, r.own(m, state.Start.File), state.Start.Set
	r.process(m, system.Case(state))
	return true
}

// own returns a path as the document of a file has it: without the package's where it is in there.
func (r *Reader) own(m *File, p string) string {
	return strings.TrimPrefix(p, path.Dir(r.at(&File{Package: m.Package, Path: "x"}))+"/")
}

// process reads what is in a process.
func (r *Reader) process(m *File, its *explain.Case) {
	if its.Role == loader.Static {
		return
	}
	its.Follow()
	s := its.Load
	link := its.Link(s.Main.File.ELF.Machine)
	listed := func(o *loader.Object) bool { // the driver link is searched for what it needs
		return o.File != nil && runpath.Parse(o.File.List).Has(link)
	}
	driven := func(by, o *loader.Object) string {
		v := its.Verdict(o)
		if v == nil {
			return ""
		}
		if v.Origin == explain.FromNowhere && (listed(by) || listed(s.Main)) {
			return string(explain.FromDriver)
		}
		return string(v.Origin)
	}
	for _, u := range its.Asks(s.Main) {
		l := Library{Name: u.Name, Rule: string(u.To.Rule), Error: u.To.Err, Driver: driven(s.Main, u.To)}
		if u.To.Found() && strings.Contains(u.To.Path, "/") {
			at := r.own(m, u.To.Path)
			if l.Path = &at; u.To.File != nil {
				if real := s.Inside(u.To.File.Path); store.Path(real) != store.Path(u.To.Path) {
					l.Resolved = r.own(m, real)
				}
			}
		}
		if u.Cause.Certain() {
			if u.Cause != loader.Needed {
				l.Cause = string(u.Cause)
			}
			m.Loads = append(m.Loads, l)
		} else {
			if l.Cause = string(u.Cause); l.Error == "" && u.To.Found() {
				l.Error = u.To.Fails()
			}
			m.Opens = append(m.Opens, l)
		}
	}
	for _, o := range s.Objects[1:] {
		by := o.NeededBy
		if !o.Found() && o.Certain() && !o.Cause.Optional() && by != nil && by != s.Main &&
			driven(by, o) == "" && !slices.Contains(m.Absent, o.Name) {
			m.Absent = append(m.Absent, o.Name)
		}
		v, at := its.Verdict(o), r.own(m, o.Path)
		if v != nil && v.Origin == explain.FromStub && !slices.Contains(m.Stubs, at) {
			m.Stubs = append(m.Stubs, at)
		}
	}
	m.CUDA, m.Stops = its.CUDAMajors(), s.Stops()
}
