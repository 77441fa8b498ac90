package host

import (
	"fmt"
	"path"
	"sort"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/forwardcompat"
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
