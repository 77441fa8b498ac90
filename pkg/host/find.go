package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/host/ldconf"
	"cuda-runpath/pkg/ldcache"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/sysroot"
)

// Host is a system whose driver is looked for. A Host is for one goroutine.
type Host struct {
	Root sysroot.Root
	// From, where not empty, are the only directories to look in.
	From []string
	// Without are directories that are not looked in: those that are being made.
	Without []string

	// CompatToo means that a compat package's libraries count, too.
	CompatToo bool

	// Programs is by what programs, and the loader's cache, are looked at; where it is nil, one is made.
	Programs *loader.Loader

	// Inputs are what the answers so far depend on.
	Inputs []Input

	inputs   map[string]int    // where in Inputs a path is, if that has it
	verdicts map[string]string // by path: why it must not be relied on
}

// loader returns a loader of the host's programs, with what it has read kept.
func (h *Host) loader() (*loader.Loader, error) {
	if h.Programs == nil {
		o := loader.Options{NoTries: true}
		if !h.Root.IsHost() {
			o.Root = h.Root.Dir
		}
		l, err := loader.New(o)
		if err != nil {
			return nil, err
		}
		h.Programs = l
	}
	return h.Programs, nil
}

// Driver is the host's GPU driver for one machine.
type Driver struct {
	Machine   string    `json:"machine"`
	Version   string    `json:"version,omitempty"` // "" where no file bears one, as on Jetson and WSL
	Directory string    `json:"directory"`
	Source    string    `json:"source"`
	Libraries []Library `json:"libraries"`
	// Needs are the host's libraries, other than the driver's and the C library's, that the driver's need.
	Needs []Need `json:"needs"`
	// Others are further drivers that were found and not chosen.
	Others   []string   `json:"others"`
	Rejected []Rejected `json:"rejected"`
	// Looked are the directories where it was looked for, each with who has libraries there.
	Looked []string `json:"-"`
	// Vendors are the files by which loaders of OpenCL, Vulkan and EGL find the libraries; Optix is OptiX's data, or "".
	Vendors []*Vendor `json:"-"`
	Optix   string    `json:"-"`
}

// Link returns the driver link of the driver's programs below a prefix that stands for /run/opengl-driver.
func (d *Driver) Link(prefix string) string { return d.machine().Link(prefix) }

func (d *Driver) machine() Machine {
	m, _ := MachineNamed(d.Machine) // of which the name is
	return m
}

// Names returns the names of the driver's libraries, all that each has.
func (d *Driver) Names() map[string]bool {
	own := map[string]bool{}
	for _, lib := range d.Libraries {
		for _, name := range lib.Links {
			own[name] = true
		}
	}
	return own
}

// Need is a library of the host's that one of the driver's needs.
type Need struct {
	Soname string   `json:"soname"`
	Path   string   `json:"path,omitempty"` // "" where the host has none
	By     []string `json:"by"`             // sonames of those that need it
	// Needs are the sonames that it needs itself.
	Needs []string `json:"-"`
}

// ErrNoDriver means that the host has no libcuda.so.1 for the machine.
var ErrNoDriver = errors.New("no NVIDIA driver found")

// cudaRow is the row of libcuda.so.1 in the table of the driver's libraries.
const cudaRow = "libcuda.so"

// candidates are the files that stand for each library, in order of preference. However many there are, each is found
// once.
type candidates struct {
	of    map[string][]Library
	at    map[[2]string]int  // by library and file: which of those
	names map[[3]string]bool // those with the names that they have
}

func newCandidates() *candidates {
	return &candidates{map[string][]Library{}, map[[2]string]int{}, map[[3]string]bool{}}
}

// add adds a file, or its names to one that is known.
func (c *candidates) add(key string, lib Library) {
	links := lib.Links
	i, known := c.at[[2]string{key, lib.File}]
	if !known {
		i = len(c.of[key])
		c.at[[2]string{key, lib.File}] = i
		lib.Links = nil
		c.of[key] = append(c.of[key], lib)
	}
	for _, name := range links {
		if id := [3]string{key, lib.File, name}; !c.names[id] {
			c.names[id] = true
			c.of[key][i].Links = append(c.of[key][i].Links, name)
		}
	}
}

// Find returns the host's driver for a machine. Where there is none, the error
// wraps ErrNoDriver, and the Driver tells what was rejected.
func (h *Host) Find(m Machine) (*Driver, error) { return h.find(m, "") }

// FindAll returns the driver for a machine and, where the host has one, for the programs of the second kind that run
// there (i386 on x86-64). Where there is none for the first, it returns what Find does.
func (h *Host) FindAll(m Machine) ([]*Driver, error) {
	d, err := h.Find(m)
	all := []*Driver{d}
	if other, ok := m.Second(); ok && err == nil {
		if d, err = h.Find(other); err == nil {
			all = append(all, d)
		} else if errors.Is(err, ErrNoDriver) {
			err = nil
		}
	}
	return all, err
}

// Directory returns the directory of the driver that Find returns.
func (h *Host) Directory(m Machine) (string, error) {
	d, err := h.find(m, cudaRow)
	return d.Directory, err
}

// find is Find where only is "". Else only the libraries of that row of the table are looked at, which are none of
// those that it returns.
func (h *Host) find(m Machine, only string) (*Driver, error) {
	d := &Driver{Machine: m.Name, Libraries: []Library{}, Needs: []Need{}, Others: []string{}, Rejected: []Rejected{}}
	cache, places := h.places(m)
	found := newCandidates()
	for _, p := range places {
		d.Looked = append(d.Looked, fmt.Sprintf("%s (%s)", p.dir, p.source))
		h.look(p, m, only, found, d)
	}
	cudas := found.of[cudaRow]
	if len(cudas) == 0 {
		where := fmt.Sprintf("the loader's cache or any of %d known places; --from DIR names another", len(places))
		if len(h.From) > 0 {
			where = strings.Join(h.From, " or ")
		} else if dir := h.Outside(m); dir != "" {
			where += ": here, --from " + remedy.Quote(dir) + " names the machine's own"
		} else if h.inApptainer() {
			where += "; or " + h.Container()
		}
		return d, fmt.Errorf("%w: no libcuda.so.1 for %s in %s", ErrNoDriver, m.Name, where)
	}
	chosen := cudas[0]
	if loaded := h.Kernel(); loaded.Version != "" {
		for _, c := range cudas {
			if c.Version == loaded.Version {
				chosen = c
				break
			}
		}
	}
	for _, c := range cudas {
		if path.Dir(c.File) != path.Dir(chosen.File) || c.Version != chosen.Version {
			d.Others = append(d.Others, c.File)
		}
	}
	d.Version, d.Directory, d.Source = chosen.Version, path.Dir(chosen.Path), chosen.Source
	if only != "" {
		return d, nil
	}
	own := path.Dir(chosen.File)
	if !slices.ContainsFunc(places, func(p place) bool { at, _ := h.Root.Resolve(p.dir); return at == own }) {
		h.Saw(own)
		h.look(place{own, chosen.Source}, m, "", found, d) // where alternatives lead, as Debian's
	}
	for _, dir := range []string{d.Directory, own} {
		video := path.Join(dir, "vdpau") // libvdpau's own directory
		h.Saw(video)
		h.look(place{video, chosen.Source}, m, "", found, d)
	}
	d.Libraries = append(d.Libraries, h.complete(chosen, found)...)
	d.Vendors, d.Optix = h.vendors(d), h.optixData(d)
	d.Needs = append(d.Needs, h.needs(d, m, cache, places)...)
	return d, nil
}

// Damaged returns what should be among the driver's libraries and is not: files
// beside them, or of their version, that cannot be read or are cut off.
func (d *Driver) Damaged() []Rejected {
	dirs := map[string]bool{d.Directory: true}
	for _, lib := range d.Libraries {
		dirs[path.Dir(lib.Path)], dirs[path.Dir(lib.File)] = true, true
	}
	var all []Rejected
	for _, r := range d.Rejected {
		if v := VersionIn(r.Path); r.Damaged && (dirs[path.Dir(r.Path)] && (v == "" || v == d.Version) ||
			v != "" && v == d.Version) {
			all = append(all, r)
		}
	}
	return all
}

// places lists the directories to look in, each once.
func (h *Host) places(m Machine) (*ldcache.Cache, []place) {
	var all []place
	seen := map[string]bool{}
	for _, dir := range h.Without {
		seen[path.Clean(dir)] = true
		if at, err := h.Root.Resolve(dir); err == nil {
			seen[at] = true
		}
	}
	add := func(p place) {
		dir := path.Clean(p.dir)
		h.Saw(dir)
		at, err := h.Root.Resolve(dir)
		if err != nil || seen[at] || seen[dir] {
			return
		}
		seen[at] = true
		h.Saw(at)
		all = append(all, place{dir, p.source})
	}
	cache, cacheErr := h.cache()
	if len(h.From) > 0 {
		for _, dir := range h.From {
			add(place{dir, "named by hand"})
		}
		return cache, all
	}
	// Before what the loader's cache says: WSL mounts the Windows driver here, and a Linux driver that was installed
	// beside it by mistake does not work.
	add(place{"/usr/lib/wsl/lib", "Windows' driver under WSL"})
	add(place{apptainerDir, "--nv of Apptainer and Singularity"}) // in LD_LIBRARY_PATH there
	if cacheErr == nil {
		for _, of := range []func(name string) bool{func(name string) bool { return name == driver.LibCUDA },
			driver.Provides} {
			for _, e := range cache.Entries {
				if e.Fits(m.ABI) && of(e.Soname) {
					add(place{path.Dir(e.Path), ldcache.Path})
				}
			}
		}
	}
	h.Saw(ldconf.Path)
	h.Saw(ldconf.Path + ".d")
	dirs, _ := ldconf.Dirs(h.Root, ldconf.Path)
	for _, dir := range dirs {
		add(place{dir, ldconf.Path})
	}
	for _, p := range m.known() {
		if strings.ContainsAny(p.dir, "*[") {
			h.Saw(path.Dir(p.dir))
			found, _ := h.Root.Glob(p.dir)
			// The newest of several drivers first.
			sort.SliceStable(found, func(i, j int) bool { return forwardcompat.Newer(digits(found[i]), digits(found[j])) })
			for _, dir := range found {
				add(place{dir, p.source})
			}
			continue
		}
		add(p)
	}
	return cache, all
}

// OnlyDriver reports whether a directory holds nothing but the driver's libraries, and directories: for the programs of
// this machine, which of another root see no links but those that lead to what is beside them.
func (h *Host) OnlyDriver(dir string) bool {
	entries, err := h.Root.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		if e.Type()&fs.ModeSymlink != 0 && !h.Root.IsHost() {
			if target, err := h.Root.Readlink(path.Join(dir, e.Name())); err != nil || strings.Contains(target, "/") {
				return true
			}
		}
		return !e.IsDir() && !driver.Provides(e.Name())
	})
}

// digits returns the numbers in a path, joined by points.
func digits(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' }), ".")
}

// cache reads the loader's cache of the system.
func (h *Host) cache() (*ldcache.Cache, error) {
	h.Saw(ldcache.Path)
	l, err := h.loader()
	if err != nil {
		return nil, err
	}
	return l.Cache(ldcache.Path)
}

// look examines every file of a directory that bears the name of one of the driver's libraries, or of those of one row.
func (h *Host) look(p place, m Machine, only string, found *candidates, d *Driver) {
	entries, err := h.Root.ReadDir(p.dir)
	if err != nil {
		return
	}
	// The soname's own link first: it is the name that outlives an upgrade.
	rank := func(name string) int {
		switch row, _ := driver.Lookup(name); {
		case name == row.Soname:
			return 0
		case VersionIn(name) != "":
			return 1
		}
		return 2
	}
	sort.SliceStable(entries, func(i, j int) bool { return rank(entries[i].Name()) < rank(entries[j].Name()) })
	for _, e := range entries {
		row, ok := driver.Lookup(e.Name())
		if !ok || only != "" && row.Name != only {
			continue
		}
		lib, err := h.examine(path.Join(p.dir, e.Name()), row, m)
		if errors.Is(err, errOtherMachine) {
			continue
		}
		if err != nil {
			d.Rejected = append(d.Rejected, Rejected{lib.Path, err.Error(), errors.As(err, new(damaged))})
			continue
		}
		if strings.HasPrefix(path.Base(path.Dir(lib.File)), Generation) {
			continue // hostDriver made it
		}
		lib.Source = p.source
		key := row.Name
		if strings.Contains(key, "*") {
			key = lib.Soname // one row stands for many libraries
		}
		found.add(key, lib)
	}
}

// jetsonDirs are where L4T keeps its libraries, below the multiarch directory.
var jetsonDirs = []string{"tegra", "tegra-egl", "nvidia"}

// apptainerDir is where Apptainer and Singularity mount the driver's libraries with --nv.
const apptainerDir = "/.singularity.d/libs"

// besides returns the version of what belongs to a libcuda.so.1 without one, among files that may be beside it: the
// loaded kernel module's, else the one that the links by soname agree on. It is "" where files have none, and where
// they are not for it: under WSL, which has Windows' libcuda.so.1, a Linux driver's packages may be beside that.
func (h *Host) besides(chosen Library, dirs map[string]bool, found *candidates) (version string) {
	at := path.Dir(chosen.File)
	if chosen.Version != "" || at != apptainerDir && !slices.Contains(jetsonDirs, path.Base(at)) {
		return ""
	}
	if loaded := h.Kernel().Version; loaded != "" {
		return loaded
	}
	for _, libs := range found.of {
		for _, lib := range libs {
			if lib.Version == "" || !dirs[path.Dir(lib.Path)] || path.Base(lib.Path) != lib.Soname {
				continue
			}
			if version != "" && version != lib.Version {
				return ""
			}
			version = lib.Version
		}
	}
	return version
}

// complete returns the libraries that belong to the chosen libcuda.so.1: those of
// its version, and of those without a version the ones that are beside it or,
// where it has none itself, beside others of the set.
func (h *Host) complete(chosen Library, found *candidates) []Library {
	dirs := map[string]bool{path.Dir(chosen.Path): true, path.Dir(chosen.File): true}
	var set []Library
	for _, libs := range found.of {
		for _, lib := range libs {
			if lib.Version == chosen.Version && chosen.Version != "" {
				dirs[path.Dir(lib.Path)], dirs[path.Dir(lib.File)] = true, true
			}
		}
	}
	if at := path.Base(path.Dir(chosen.File)); slices.Contains(jetsonDirs, at) { // L4T spreads it over sister directories
		for _, sister := range jetsonDirs {
			dirs[path.Join(path.Dir(path.Dir(chosen.File)), sister)] = true
		}
	}
	version := h.besides(chosen, dirs, found)
	for _, libs := range found.of {
		for _, lib := range libs {
			beside := dirs[path.Dir(lib.Path)] || dirs[path.Dir(lib.File)]
			if lib.Name == chosen.Name && lib.File != chosen.File {
				continue
			}
			if lib.Version == chosen.Version && lib.Version != "" || beside && (lib.Version == "" || lib.Version == version) {
				set = append(set, lib)
				break
			}
		}
	}
	sort.Slice(set, func(i, j int) bool { return set[i].Soname < set[j].Soname })
	return set
}

// needs follows DT_NEEDED from the driver's libraries into the host's own.
func (h *Host) needs(d *Driver, m Machine, cache *ldcache.Cache, places []place) []Need {
	own := d.Names()
	libraries := h.hostLibraries(m, cache, places)
	found := map[string]*Need{}
	asked := map[[2]string]bool{} // what by whom
	var order []string
	var follow func(by string, sonames []string)
	follow = func(by string, sonames []string) {
		for _, s := range sonames {
			if own[s] || asked[[2]string{s, by}] {
				continue
			}
			asked[[2]string{s, by}] = true
			if n, ok := found[s]; ok {
				n.By = append(n.By, by)
				continue
			}
			n := &Need{Soname: s, By: []string{by}}
			found[s] = n
			order = append(order, s)
			lib := libraries.find(s)
			n.Path, n.Needs = lib.path, lib.needs
			follow(s, n.Needs)
		}
	}
	for _, lib := range d.Libraries {
		follow(lib.Soname, lib.Needs)
		for _, s := range lib.Opens { // what is not there, it does without
			if libraries.find(s).path != "" || s == GLVNDEGL {
				follow(lib.Soname, []string{s})
			}
		}
	}
	all := make([]Need, 0, len(order))
	for _, s := range order {
		all = append(all, *found[s])
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Soname < all[j].Soname })
	return all
}

// A hostLibraries finds libraries as the host's own loader would. Directories are listed once: many of them may be
// asked for many libraries.
type hostLibraries struct {
	h     *Host
	m     Machine
	cache *ldcache.Cache      // nil where there is none
	in    map[string][]string // by name: the directories that have it, in order
	known map[string]hostLibrary
}

type hostLibrary struct {
	path  string // "" where the host has none
	needs []string
}

func (h *Host) hostLibraries(m Machine, cache *ldcache.Cache, places []place) *hostLibraries {
	l := &hostLibraries{h, m, cache, map[string][]string{}, map[string]hostLibrary{}}
	var dirs []string
	for _, p := range places {
		dirs = append(dirs, p.dir)
	}
	for _, dir := range slices.Concat(dirs, []string{"/usr/lib/" + m.triple, "/lib/" + m.triple}, m.libs) {
		entries, _ := h.Root.ReadDir(dir)
		for _, e := range entries {
			l.in[e.Name()] = append(l.in[e.Name()], dir)
		}
	}
	return l
}

// find returns where a library is, and what it needs.
func (l *hostLibraries) find(soname string) hostLibrary {
	lib, ok := l.known[soname]
	if !ok {
		lib = l.look(soname)
		l.known[soname] = lib
	}
	return lib
}

func (l *hostLibraries) look(soname string) hostLibrary {
	var tries []string
	if l.cache != nil && !strings.Contains(soname, "/") {
		if e, ok := l.cache.Resolve(soname, l.m.ABI, ldcache.Processor{}); ok {
			tries = append(tries, e.Path)
		}
	}
	for _, dir := range l.in[soname] {
		tries = append(tries, path.Join(dir, soname))
	}
	h := l.h
	for _, name := range tries {
		at, err := h.Root.Resolve(name)
		if err != nil {
			continue
		}
		im, f, err := OpenImage(h.Root, at)
		if err != nil {
			continue
		}
		needed, err := im.Needed()
		f.Close()
		if err != nil || im.Machine != l.m.Machine || im.Class != l.m.Class || h.trusted(at) != nil {
			continue
		}
		h.Saw(path.Dir(at))
		return hostLibrary{name, withoutLibc(needed)}
	}
	return hostLibrary{}
}

// LibraryOf returns where the loader of the host's own programs finds a library, by its cache or where distributions
// have libraries; "" where it does not.
func (h *Host) LibraryOf(m Machine, soname string) string {
	cache, _ := h.cache()
	return h.hostLibraries(m, cache, nil).find(soname).path
}

func addOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// An Input is a file or directory that an answer depends on, as it was then. Of libraries these are their directories,
// whose time tells of a file that comes, goes or is put in another one's place, which is how packages, installers and
// container runtimes upgrade a driver: whoever wrote into a library would break the programs that have it mapped.
// Looked at themselves are libcuda.so.1, for runtimes that mount another one over it, what was rejected, for it may be
// mended where it is, and files that are copied: a stale copy would end up beside links to new files.
type Input struct {
	Path string
	ID   string
}

// Saw remembers what a path looks like now, so that a later start can tell
// whether the same answer still holds without looking again.
func (h *Host) Saw(name string) {
	// Copies of a host share the map, and each has inputs of its own.
	if i, ok := h.inputs[name]; ok && i < len(h.Inputs) && h.Inputs[i].Path == name {
		return
	}
	if h.inputs == nil {
		h.inputs = map[string]int{}
	}
	h.inputs[name] = len(h.Inputs)
	h.Inputs = append(h.Inputs, Input{name, h.Identity(name)})
}

// Identity says which file a path leads to and in which state it is: a change of
// contents, of a directory's entries or of a link on the way gives another one.
func (h *Host) Identity(name string) string {
	switch {
	case name == pciSlots, name == procGPUs: // whose times say nothing
		entries, _ := h.Root.ReadDir(name)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	case strings.HasPrefix(name, procGPUs+"/"): // the rest changes with its use, as the UUID, which is not known before
		return h.model(name)
	case strings.HasPrefix(name, "/sys/"), strings.HasPrefix(name, "/proc/"):
		b, err := h.Root.ReadFile(name, 4<<10)
		if err != nil {
			return "none"
		}
		return string(b)
	}
	if h.Root.IsHost() {
		return stateOf(name, syscall.Stat)
	}
	info, err := h.Root.Stat(name)
	return stateOf(name, func(_ string, st *syscall.Stat_t) error {
		if err == nil {
			*st = *info.Sys().(*syscall.Stat_t)
		}
		return err
	})
}

func stateOf(name string, stat func(string, *syscall.Stat_t) error) string {
	var st syscall.Stat_t
	if stat(name, &st) != nil {
		return "none"
	}
	b := make([]byte, 0, 64)
	for _, n := range []uint64{st.Dev, st.Ino, uint64(st.Size), uint64(st.Mtim.Nano()), uint64(st.Ctim.Nano())} {
		b = append(strconv.AppendUint(b, n, 36), ' ')
	}
	return string(b)
}

// LinkIdentity is the same for the very entry of a name on this machine, a link or a file.
func LinkIdentity(at string) string { return stateOf(at, syscall.Lstat) }

// LinkServes reports whether the driver link below a prefix leads to the host's driver,
// in copies that find each other, and to nothing that this host's kernel module refuses.
func (h *Host) LinkServes(m Machine, prefix string) bool {
	cuda := path.Join(m.Link(prefix), driver.LibCUDA)
	other := *h
	other.CompatToo = true
	lib, err := other.ExamineCUDA(cuda, m)
	if err != nil {
		return false
	}
	// The driver's own file has no run path by which it finds its compilers.
	if d, err := h.Excluding(m, prefix).Find(m); err == nil {
		for _, own := range d.Libraries {
			if own.File == lib.File {
				return false
			}
		}
	}
	loaded := h.Kernel().Version
	return loaded == "" || lib.Version == "" || lib.Version == loaded || h.IsCompat(path.Dir(lib.File))
}

// Excluding returns the host without the driver link below a prefix among the
// places to look in, as far as it is not the host's own (NixOS makes one in its store):
// what hostDriver made itself is no source for hostDriver.
func (h *Host) Excluding(m Machine, prefix string) *Host {
	link := m.Link(prefix)
	if at, err := h.Root.Resolve(link); err == nil && store.Contains(at) {
		return h
	}
	other := *h
	other.Without = append(append([]string{}, h.Without...), link)
	if second, ok := m.Second(); ok {
		other.Without = append(other.Without, second.Link(prefix))
	}
	return &other
}

// InPlace reports whether the driver link holds a driver that was made for it, with
// run paths of its own, and is the loaded kernel module's: nothing is left to do.
func (h *Host) InPlace(m Machine, prefix string) bool {
	at, err := h.Root.Resolve(path.Join(m.Link(prefix), driver.LibCUDA))
	if err != nil || !store.Contains(at) {
		return false
	}
	loaded := h.Kernel().Version
	return loaded == "" || VersionIn(at) == "" || VersionIn(at) == loaded
}

// MachineOfProgram returns the machine that a program is for, m for a script or
// anything else that does not tell.
func (h *Host) MachineOfProgram(program string, m Machine) Machine {
	l, err := h.loader()
	if err != nil {
		return m
	}
	abi, _ := l.Files().Open(program).ABI()
	for _, other := range Machines {
		if other.Machine == abi.Machine && other.Class == abi.Class {
			return other
		}
	}
	return m
}
