package host

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/starts"
	"cuda-runpath/pkg/sysroot"
)

// Compat is a compat package's directory, and what it does for a host.
type Compat struct {
	Dir     string
	Verdict forwardcompat.Help
	Reason  string
}

// CUDALibrary reads what a libcuda.so.1 says of itself: its note, the version in
// its name and, without a note, the compiler release named inside.
func CUDALibrary(root sysroot.Root, name string) (forwardcompat.CUDALibrary, error) {
	l := forwardcompat.CUDALibrary{Path: name}
	file, err := root.Resolve(name)
	if err != nil {
		return l, err
	}
	im, f, err := OpenImage(root, file)
	if err != nil {
		return l, err
	}
	defer f.Close()
	l.Version = VersionIn(file)
	if descriptors, err := im.NoteDescriptors(forwardcompat.NoteOwner, forwardcompat.NoteType); err == nil {
		if n := forwardcompat.FirstNote(descriptors); n != nil {
			l.Note, l.CUDA, l.CUDASource = n, n.CUDA, "the note .note.cuda.fwd_compatibility of "+file
			return l, nil
		}
	}
	if v := cudaInLibrary(root, file); v != "" {
		l.CUDA, l.CUDASource = v, "the compiler release named inside "+file
	} else if v := cudaOfBranch(l.Version); v != "" {
		l.CUDA, l.CUDASource = v, "table in NVIDIA's CUDA release notes, by driver branch"
	}
	return l, nil
}

// CUDA returns what is known of the driver's own libcuda.so.1.
func (h *Host) CUDA(d *Driver) forwardcompat.CUDALibrary {
	for _, lib := range d.Libraries {
		if lib.Name == cudaRow {
			l, _ := CUDALibrary(h.Root, lib.File)
			if l.Version == "" {
				l.Version = d.Version
			}
			if l.Version == "" {
				l.Version = h.Kernel().Version
			}
			if h.Kind(d) == Jetson {
				l.Tegra, l.L4T = l.Version == "", h.l4t()
			}
			return l
		}
	}
	return forwardcompat.CUDALibrary{}
}

// L4TRelease is the file in which a Jetson's BSP says which it is: "# R35 (release), REVISION: 4.1, …".
const L4TRelease = "/etc/nv_tegra_release"

// l4t returns the release of the BSP, 0 where none is told.
func (h *Host) l4t() (release int) {
	h.Saw(L4TRelease)
	b, _ := h.Root.ReadFile(L4TRelease, 4<<10)
	_, _ = fmt.Sscanf(string(b), "# R%d (release)", &release)
	return release
}

// Compat says what a compat package in a directory does for the host whose driver is d, and for the GPUs that the
// kernel lists.
func (h *Host) Compat(d *Driver, dir string) (Compat, error) {
	l, err := CUDALibrary(h.Root, path.Join(dir, driver.LibCUDA))
	if err != nil {
		return Compat{}, fmt.Errorf("no compat package in %s: %s: %w", dir, driver.LibCUDA, Reason(err))
	}
	v := forwardcompat.Judge(l, h.CUDA(d), h.pciGPUs().ForCompat())
	return Compat{dir, v.Help, v.Reason}, nil
}

// CompatJudge returns what says of a compat package, by its libcuda.so.1, what it
// does beside the driver of the system below root ("" for this one's); from, where not
// "", is the driver's directory. It says false where there is no driver. The driver is
// looked for when it is first asked.
func CompatJudge(root, from string) func(file string) (forwardcompat.Verdict, bool) {
	var mutex sync.Mutex
	known := map[string]forwardcompat.CUDALibrary{}
	return func(file string) (forwardcompat.Verdict, bool) {
		mutex.Lock()
		defer mutex.Unlock()
		h := &Host{Root: sysroot.Root{Dir: root}}
		if from != "" {
			h = &Host{From: []string{from}}
		}
		p, err := CUDALibrary(sysroot.Root{}, file)
		if err != nil {
			return forwardcompat.Verdict{}, false
		}
		m, err := MachineOf(h.Root)
		if err != nil {
			return forwardcompat.Verdict{}, false
		}
		m = (&Host{}).MachineOfProgram(file, m)
		own, ok := known[m.Name]
		if !ok {
			if d, err := h.Find(m); err == nil {
				own = h.CUDA(d)
			}
			known[m.Name] = own
		}
		var gpus []forwardcompat.GPU
		if from == "" { // else it is another host's driver, and so are the GPUs
			gpus = h.pciGPUs().ForCompat()
		}
		return forwardcompat.Judge(p, own, gpus), own.Path != ""
	}
}

// CompatSource is the source of a compat package's libraries.
const CompatSource = "compat package"

// WithCompat returns a driver in which a compat package's libraries stand in for
// those of the same name: libcuda.so.1, and what it opens.
func (h *Host) WithCompat(d *Driver, dir string) (*Driver, error) {
	c, found := *d, newCandidates()
	in := &Driver{}
	compat := *h
	compat.CompatToo = true
	compat.look(place{dir, CompatSource}, d.machine(), "", found, in)
	h.Inputs, h.verdicts = compat.Inputs, compat.verdicts
	if len(found.of[cudaRow]) == 0 {
		why := "it has none for " + d.Machine
		for _, r := range in.Rejected {
			why = r.Path + ": " + r.Reason
		}
		return nil, fmt.Errorf("no %s of a compat package in %s: %s", driver.LibCUDA, dir, why)
	}
	c.Libraries = nil
	for _, lib := range d.Libraries {
		if len(found.of[lib.Name]) == 0 {
			c.Libraries = append(c.Libraries, lib)
		}
	}
	for _, libs := range found.of {
		c.Libraries = append(c.Libraries, libs[0])
	}
	sort.Slice(c.Libraries, func(i, j int) bool { return c.Libraries[i].Soname < c.Libraries[j].Soname })
	cache, places := h.places(d.machine())
	c.Needs = h.needs(&c, d.machine(), cache, places)
	return &c, nil
}

// Wants is what a program asks of the driver.
type Wants struct {
	// Compat are the compat directories in its run path and in those of the libraries that it loads, in the
	// order of the load; RPath says that one is in a DT_RPATH, which comes before LD_LIBRARY_PATH.
	Compat []string
	RPath  bool

	load *process.State // nil where there is none
	by   *loader.Loader
}

// Wanted returns what a program of this machine wants. Of what a script starts, it is what its
// interpreter wants.
func Wanted(program string) (w Wants) {
	l, err := loader.New(loader.Options{Environment: loader.Environment{LibraryPath: os.Getenv("LD_LIBRARY_PATH")},
		NoTries: true})
	if err != nil {
		return w
	}
	h := &Host{}
	load, err := starts.Begin(l, program, true)
	if err != nil || load.Role == loader.Static {
		return w
	}
	w.load, w.by = load, l
	seen := map[string]bool{}
	for _, o := range load.Objects {
		if o.File == nil || o.File.List == "" {
			continue
		}
		for _, entry := range runpath.Parse(o.File.List) {
			dir, ok := load.Expand(o, entry)
			if dir = path.Clean(dir); !ok || seen[dir] || !h.IsCompat(dir) {
				continue
			}
			seen[dir] = true
			w.Compat = append(w.Compat, dir)
			w.RPath = w.RPath || o.File.Tag.String() == "DT_RPATH"
		}
	}
	return w
}

// Linked reports whether the program asks for libraries of the driver, and looks for all of them in its driver link
// or in those directories.
func (w Wants) Linked(link string) (linked bool) {
	if w.load == nil {
		return false
	}
	w.load.OpenAll(driverOnly, driver.Provides)
	its := explain.New(w.by, explain.Options{Layout: explain.Layout{DriverLink: link}}).Case(w.load)
	for _, o := range its.WithFailed() {
		if v := its.Verdict(o); v != nil {
			linked = v.Kind == explain.DriverAbsent || v.Origin == explain.FromCompat ||
				runpath.Key(path.Dir(o.Path)) == runpath.Key(link) && v.Good
			if !linked {
				return false
			}
		}
	}
	return linked
}

// driverOnly follows, of what a program may open later, what concerns the driver.
func driverOnly(_ *loader.Object, l files.Literal) bool { return l.Driver && l.Exact }

// CompatChoice says which compat packages a program may use.
type CompatChoice string

// The choices. Any other is the directory of a package, which is used where it helps.
const (
	CompatAuto   CompatChoice = "auto"   // those in the program's run path that help
	CompatAlways CompatChoice = "always" // the first in the program's run path, whatever the rule says
	CompatNever  CompatChoice = "never"  // none
)

// Choose returns the driver that a program is to have, and what was found of each package.
func (h *Host) Choose(d *Driver, dirs []string, choice CompatChoice) (*Driver, []Compat, error) {
	chosen, all := d, []Compat{}
	for _, dir := range dirs {
		h.Saw(path.Join(dir, driver.LibCUDA))
		c, err := h.Compat(d, dir)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, c)
		// One of which nothing is known stays first where the program names it first.
		wanted := choice == CompatAlways || choice != CompatNever && (c.Verdict.Use() || c.Verdict == forwardcompat.Unknown)
		if !wanted || chosen != d {
			continue
		}
		with, err := h.WithCompat(d, dir)
		if err != nil {
			return nil, nil, err
		}
		chosen = with
	}
	return chosen, all, nil
}

// ParseCompatChoice reads the value of --compat.
func ParseCompatChoice(s string) (CompatChoice, error) {
	switch c := CompatChoice(s); {
	case c == CompatAuto, c == CompatAlways, c == CompatNever:
		return c, nil
	case path.IsAbs(s):
		return CompatChoice(path.Clean(s)), nil
	}
	return "", errors.New("a compat directory is needed: an absolute path, auto, always or never")
}
