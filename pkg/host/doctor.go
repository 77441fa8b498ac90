package host

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/scripts"
	"cuda-runpath/pkg/store"
)

// Verdict says whether a fact is in the way.
type Verdict string

// The verdicts.
const (
	Good    Verdict = "ok"
	Note    Verdict = "note"    // worth knowing
	Warning Verdict = "warning" // some programs will not work
	Bad     Verdict = "bad"     // a CUDA program cannot work
)

// Fact is one line of a diagnosis.
type Fact struct {
	Subject string  `json:"subject"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	Source  string  `json:"source"` // where the fact is from: a file, or a table with its origin
	// Error is what CUDA answers where this is in the way, one of driver.Errors; 0: not known.
	Error int `json:"error,omitempty"`
	remedy.Remedy
}

// Diagnosis is what Doctor finds.
type Diagnosis struct {
	Machine string `json:"machine"`
	Program string `json:"program,omitempty"`
	Works   bool   `json:"works"` // nothing was found that keeps a CUDA program from working
	Facts   []Fact `json:"facts"`
}

// add adds a fact; fix says in words what to do about it.
func (d *Diagnosis) add(subject string, v Verdict, source, fix, format string, args ...any) {
	d.addRemedy(subject, v, source, remedy.Do(fix), format, args...)
}

func (d *Diagnosis) addRemedy(subject string, v Verdict, source string, r remedy.Remedy, format string, args ...any) {
	d.Facts = append(d.Facts, Fact{Subject: subject, Verdict: v, Text: fmt.Sprintf(format, args...), Source: source, Remedy: r})
	if v == Bad {
		d.Works = false
	}
}

// answers says of the last fact which error CUDA answers for it.
func (d *Diagnosis) answers(code int) { d.Facts[len(d.Facts)-1].Error = code }

// kind is the way in which a host reaches its GPU.
type kind int

const (
	discrete kind = iota // the nvidia kernel module and its device nodes
	wsl                  // Windows' driver through /dev/dxg
	jetson               // L4T's nvgpu
)

// Doctor says whether a CUDA program can work on the host and, where program is
// not "", whether that one can. program is a path inside the root.
func (h *Host) Doctor(m Machine, program, prefix string) *Diagnosis {
	d := &Diagnosis{Machine: m.Name, Program: program, Works: true, Facts: []Fact{}}
	drv, err := h.Find(m)
	k := h.kind(drv)
	kernel := h.doctorKernel(d, k)
	if err != nil {
		d.add("driver libraries", Bad, "ld.so.cache, known directories", "install the distribution's NVIDIA driver package, or the container toolkit in a container", "%v", err)
		d.answers(35)
		h.doctorRejected(d, drv)
	} else {
		h.doctorLibraries(d, drv, kernel, k)
	}
	cuda := h.doctorCUDA(d, drv)
	h.doctorDevices(d, k)
	gpus := h.doctorGPUs(d, drv)
	linkWorks := h.doctorLink(d, m, drv, kernel, prefix, program == "")
	glibc := ""
	if program != "" {
		glibc = h.doctorProgram(d, program, prefix, drv, gpus, cuda, linkWorks)
	}
	if err == nil {
		h.doctorGLIBC(d, m, drv, glibc)
	}
	if program == "" {
		h.doctorBuilds(d)
	}
	return d
}

func (h *Host) exists(name string) bool {
	_, err := h.Root.Stat(name)
	return err == nil
}

func (h *Host) kind(drv *Driver) kind {
	switch {
	case strings.HasPrefix(drv.Directory, "/usr/lib/wsl/"), h.exists("/dev/dxg") && !h.exists(procVersion):
		return wsl
	case h.exists("/etc/nv_tegra_release"), h.exists("/sys/module/nvgpu"), strings.HasSuffix(drv.Directory, "/tegra"):
		return jetson
	}
	return discrete
}

func (h *Host) doctorKernel(d *Diagnosis, k kind) Kernel {
	const subject = "kernel module"
	kernel := h.kernelVersion()
	switch {
	case kernel.Disagree != "":
		d.add(subject, Warning, procVersion+", "+sysVersion, "reboot", "%s says %s, %s says %s", procVersion, kernel.Version, sysVersion, kernel.Disagree)
	case kernel.Version != "":
		d.add(subject, Good, kernel.Source, "", "nvidia %s", kernel.Version)
	case k == wsl:
		d.add(subject, Good, "/usr/lib/wsl/lib", "", "none needed: Windows' driver is used through /dev/dxg")
	case k == jetson && h.exists("/sys/module/nvgpu"):
		d.add(subject, Good, "/sys/module/nvgpu", "", "nvgpu (Jetson)")
	default:
		fix := "sudo modprobe nvidia"
		if h.inContainer() {
			fix = "load the module on the host, and start the container with its GPUs (podman: --device nvidia.com/gpu=all; docker: --gpus all)"
		}
		d.add(subject, Bad, procVersion, fix, "not loaded: there is no %s", procVersion)
		d.answers(100)
	}
	return kernel
}

func (h *Host) inContainer() bool {
	return h.exists("/.dockerenv") || h.exists("/run/.containerenv") || h.exists("/run/systemd/container")
}

func (h *Host) doctorLibraries(d *Diagnosis, drv *Driver, kernel Kernel, k kind) {
	version := drv.Version
	if version == "" {
		version = "of unknown version"
	}
	have := map[string]bool{}
	for _, lib := range drv.Libraries {
		have[lib.Name] = true
	}
	d.add("driver libraries", Good, drv.Source, "", "%s, %d libraries in %s", version, len(drv.Libraries), drv.Directory)
	if drv.Version != "" && kernel.Version != "" {
		if drv.Version == kernel.Version {
			d.add("versions", Good, kernel.Source, "", "kernel module and libraries match")
		} else {
			fix := "reboot, or without one: sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia nvidia_uvm"
			if newerVersion(kernel.Version, drv.Version) {
				fix = "install the libraries of driver " + kernel.Version
			}
			d.add("versions", Bad, kernel.Source+", "+drv.Directory, fix,
				"the kernel module is %s, the libraries are %s: CUDA refuses that (upgraded without a reboot?)", kernel.Version, drv.Version)
			d.answers(803)
		}
	}
	var lacks []string
	for _, n := range drv.Needs {
		if n.Path == "" {
			lacks = append(lacks, n.Soname+" (for "+strings.Join(n.By, ", ")+")")
		}
	}
	if len(lacks) > 0 {
		d.add("driver libraries", Note, "DT_NEEDED", "", "this host lacks %s", few(lacks))
	}
	if k == discrete {
		for _, want := range []struct{ name, what, pkg string }{
			{"libnvidia-ml.so", "NVML (nvidia-smi, NCCL)", "libnvidia-ml1"},
			{"libnvidia-ptxjitcompiler.so", "the PTX compiler (Triton, numba, code for a newer GPU than it was built for)", "libnvidia-ptxjitcompiler1"},
		} {
			if !have[want.name] {
				d.add("driver libraries", Warning, drv.Directory, "install it with the driver (Debian: "+want.pkg+")", "no %s, so no %s", want.name, want.what)
			}
		}
	}
	h.doctorRejected(d, drv)
	if len(drv.Others) > 0 {
		d.add("driver libraries", Note, "known directories", "", "other drivers are in %s", strings.Join(drv.Others, ", "))
	}
}

// doctorRejected names each libcuda.so that is not used, and counts the other files.
func (h *Host) doctorRejected(d *Diagnosis, drv *Driver) {
	rest := 0
	broken := map[string]bool{}
	for _, r := range drv.Damaged() {
		broken[r.Path] = true
		d.add("driver libraries", Warning, r.Path, "install the driver again", "%s cannot be used: %s", r.Path, r.Reason)
	}
	for _, r := range drv.Rejected {
		if broken[r.Path] {
			continue
		}
		if row, _ := driver.Lookup(path.Base(r.Path)); row.Soname == driver.LibCUDA {
			d.add("driver libraries", Note, r.Path, "", "%s is not used: %s", r.Path, r.Reason)
		} else {
			rest++
		}
	}
	if rest > 0 {
		d.add("driver libraries", Note, "hostDriver find --verbose", "", "%d other files with the names of the driver's libraries are not used", rest)
	}
}

// doctorCUDA returns the CUDA version that the driver supports, "" if that is not known.
func (h *Host) doctorCUDA(d *Diagnosis, drv *Driver) string {
	own := h.cuda(drv)
	if own.CUDA != "" {
		d.add("CUDA", Good, own.CUDASource, "", "the driver supports up to %s", own.CUDA)
	} else if drv.Directory != "" {
		d.add("CUDA", Note, drv.Directory, "", "the CUDA version that the driver supports cannot be read from it")
	}
	return own.CUDA
}

func (h *Host) doctorDevices(d *Diagnosis, k kind) {
	const subject = "device nodes"
	var nodes []string
	fixes := map[string]string{}
	switch k {
	case wsl:
		nodes = []string{"/dev/dxg"}
		fixes["/dev/dxg"] = "in Windows: wsl --update, then wsl --shutdown"
	case jetson:
		nodes = []string{"/dev/nvhost-gpu", "/dev/nvhost-ctrl-gpu", "/dev/nvmap"}
	default:
		nodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}
		fixes["/dev/nvidiactl"] = "sudo nvidia-modprobe -c=0"
		fixes["/dev/nvidia-uvm"] = "sudo nvidia-modprobe -u -c=0"
		gpus, _ := h.Root.Glob("/dev/nvidia[0-9]*")
		if len(gpus) == 0 {
			d.add(subject, Bad, "/dev", "sudo nvidia-modprobe -c=0 (in a container: start it with its GPUs)", "there is no GPU: no /dev/nvidia0 or the like")
			d.answers(100)
		}
		nodes = append(nodes, gpus...)
	}
	good := 0
	for _, node := range nodes {
		at, err := h.Root.Resolve(node)
		if err != nil {
			verdict, fix := Bad, fixes[node]
			if k == jetson && node != "/dev/nvmap" {
				verdict = Note // its name differs between L4T releases
			}
			d.add(subject, verdict, "/dev", fix, "%s is missing", node)
			continue
		}
		info, err := os.Lstat(h.Root.Path(at))
		switch {
		case err != nil:
			d.add(subject, Bad, node, "", "%v", Reason(err))
		case h.Root.IsHost() && info.Mode()&fs.ModeCharDevice == 0:
			d.add(subject, Bad, node, fixes[node], "%s is not a device", node)
		case h.Root.IsHost() && unix.Access(node, unix.R_OK|unix.W_OK) != nil,
			!h.Root.IsHost() && info.Mode().Perm()&0o006 != 0o006:
			fix := "sudo chmod a+rw " + node
			if group := groupOf(info); group != "" {
				fix = "sudo usermod -a -G " + group + " \"$USER\", then log in again"
			}
			d.add(subject, Bad, node, fix, "you may not read and write %s (%v)", node, info.Mode().Perm())
		default:
			good++
		}
	}
	if good > 0 && good == len(nodes) {
		d.add(subject, Good, "/dev", "", "%s: present and usable", strings.Join(nodes, " "))
	}
}

// doctorLink says what the driver link holds, and returns whether it leads to the host's driver.
func (h *Host) doctorLink(d *Diagnosis, m Machine, drv *Driver, kernel Kernel, prefix string, matters bool) bool {
	link := m.Link(prefix)
	verdict := Warning
	if matters {
		verdict = Bad
	}
	install := "sudo hostDriver install" + prefixFlag(prefix) + ", or start programs with: hostDriver run PROGRAM"
	entries, err := h.Root.ReadDir(link)
	if err != nil {
		d.add("driver link", verdict, link, install, "%s does not exist: programs built with Nix find no driver", link)
		return false
	}
	cuda := path.Join(link, driver.LibCUDA)
	at, err := h.Root.Resolve(cuda)
	if err != nil {
		what := "holds no " + driver.LibCUDA
		if target, lerr := os.Readlink(h.Root.Path(cuda)); lerr == nil {
			what = fmt.Sprintf("holds a dangling %s: %s is gone (was the driver upgraded?)", driver.LibCUDA, target)
		}
		d.add("driver link", verdict, link, install, "%s %s", link, what)
		return false
	}
	row, _ := driver.Lookup(driver.LibCUDA)
	lib, err := h.examine(cuda, row, m)
	if err != nil {
		d.add("driver link", verdict, cuda, install, "%s: %v", cuda, err)
		return false
	}
	var stray []string
	for _, e := range entries {
		if !driver.Provides(e.Name()) && e.Name() != HostDir {
			stray = append(stray, e.Name())
		}
	}
	managed := store.Contains(at)
	switch {
	case kernel.Version != "" && lib.Version != "" && lib.Version != kernel.Version:
		fix := install
		if managed {
			fix = "reboot: nixos-rebuild switch has installed a newer driver than the loaded kernel module's"
		}
		d.add("driver link", verdict, cuda, fix, "%s leads to driver %s, but the kernel module is %s", link, lib.Version, kernel.Version)
		return false
	case len(stray) > 0 && !managed:
		sort.Strings(stray)
		d.add("driver link", Warning, link, "remove them, or: sudo hostDriver install"+prefixFlag(prefix), "%s holds libraries that are not the driver's and hide the programs' own: %s", link, few(stray))
	default:
		d.add("driver link", Good, cuda, "", "%s holds %d names; %s leads to %s", link, len(entries), driver.LibCUDA, at)
	}
	return true
}

func prefixFlag(prefix string) string {
	if prefix == DefaultPrefix {
		return ""
	}
	return " " + remedy.Quote("--prefix", prefix)
}

func few(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}

// doctorProgram says what the program would load; it returns the version of its
// loader's glibc, "" if it has none or it is not known.
func (h *Host) doctorProgram(d *Diagnosis, program, prefix string, drv *Driver, gpus []gpu, cuda string, linkWorks bool) (glibc string) {
	const subject = "program"
	root := h.Root.Dir
	if h.Root.IsHost() {
		root = ""
	}
	program = h.doctorScript(d, program)
	l, err := loader.New(loader.Options{Root: root, LibraryPath: h.libraryPath(), NoTries: true})
	var load *loader.Load
	if err == nil {
		load, err = l.Load(program)
	}
	if err != nil {
		d.add(subject, Bad, program, "", "%v", err)
		return ""
	}
	if load.Static {
		d.add(subject, Bad, program, "", "is static: it loads no libraries, and so no driver")
		return ""
	}
	if load.Interp.Kind == loader.Musl {
		d.add(subject, Bad, load.Interp.Path, "build it against glibc: NVIDIA's driver needs it", "its loader is musl's")
	} else if load.Interp.Version.Minor < 99 {
		glibc = load.Interp.Version.String()
	}
	search := "see where it is looked for: " + remedy.Quote("runpath", "explain", program)
	for _, missing := range load.Missing() {
		if !driver.Provides(missing.Name) {
			d.add(subject, Bad, missing.NeededBy.Path, search, "%s, which it needs, is not found", missing.Name)
		}
	}
	if load.Err != "" {
		d.add(subject, Bad, program, search, "does not start: %s", load.Err)
	}
	// What it may open later counts as far as the driver is concerned.
	load.DlopenAll(func(_ *loader.Object, l loader.Literal) bool { return l.Driver && l.Exact },
		func(name string) bool { return name == driver.LibCUDA })
	h.doctorRuntime(d, load, drv, cuda)
	h.doctorLibCUDA(d, load, prefix, drv, gpus, linkWorks)
	h.doctorGPUCode(d, load, gpus, cuda)
	return glibc
}

// doctorScript returns the program that runs in the place of a script.
func (h *Host) doctorScript(d *Diagnosis, file string) string {
	read := func(file string) ([]byte, error) {
		f, err := h.Root.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		head := make([]byte, 2)
		if n, _ := io.ReadFull(f, head); string(head[:n]) != "#!" {
			return nil, nil
		}
		rest, err := io.ReadAll(io.LimitReader(f, 1<<20))
		return append(head, rest...), err
	}
	find := func(name string) string {
		if !h.Root.IsHost() {
			return ""
		}
		at, _ := exec.LookPath(name)
		return at
	}
	program, via := scripts.Program(file, read, find)
	if len(via) > 0 {
		d.add("program", Note, strings.Join(via, ", "), "", "a script: what it runs is %s, which is looked at here", program)
	}
	return program
}

// libraryPath is LD_LIBRARY_PATH where the host looked at is the one that this program runs on.
func (h *Host) libraryPath() string {
	if h.Root.IsHost() {
		return os.Getenv("LD_LIBRARY_PATH")
	}
	return ""
}

// doctorRuntime compares the CUDA version that the program was built for with the driver's.
func (h *Host) doctorRuntime(d *Diagnosis, load *loader.Load, drv *Driver, cuda string) {
	built, from := "", ""
	for _, o := range load.Objects {
		if strings.HasPrefix(o.Name, "libcudart.so.") || strings.HasPrefix(path.Base(o.Path), "libcudart.so.") {
			built, from = strings.TrimPrefix(path.Base(o.Name), "libcudart.so."), o.Name
			if o.File != nil {
				// The file's name has the whole version: libcudart.so.12.4.127.
				if v := strings.TrimPrefix(filepath.Base(o.File.Path), "libcudart.so."); strings.Count(v, ".") >= 1 {
					built, from = v, o.Path
				}
			}
			break
		}
	}
	if built == "" {
		d.add("CUDA runtime", Note, load.Main.Path, "", "it does not use libcudart.so: the CUDA version that it was built for is unknown")
		return
	}
	if cuda == "" {
		d.add("CUDA runtime", Note, from, "", "built for CUDA %s", built)
		return
	}
	major := func(v string) string { m, _, _ := strings.Cut(v, "."); return m }
	short := built
	if parts := strings.Split(built, "."); len(parts) > 2 {
		short = strings.Join(parts[:2], ".")
	}
	compat := "upgrade the driver, or on a data-centre GPU build the program with a cuda_compat package"
	switch {
	case newerVersion(major(built), major(cuda)):
		least := ""
		if v := leastDriver(major(built)); v != "" {
			least = " (it needs " + v + " or newer)"
		}
		d.add("CUDA runtime", Bad, from, compat, "built for CUDA %s, the driver supports %s: a compat package is needed%s", short, cuda, least)
		d.answers(35)
	case strings.Contains(short, ".") && newerVersion(short, cuda):
		d.add("CUDA runtime", Note, from, "", "built for CUDA %s, the driver supports %s: works by minor version compatibility, but not PTX code", short, cuda)
	default:
		d.add("CUDA runtime", Good, from, "", "built for CUDA %s, and the driver supports %s: no compat package is needed", short, cuda)
	}
}

// doctorLibCUDA says which libcuda.so.1 the program loads.
func (h *Host) doctorLibCUDA(d *Diagnosis, load *loader.Load, prefix string, drv *Driver, gpus []gpu, linkWorks bool) {
	const subject = "libcuda.so.1"
	layout := explain.Layout{}
	if prefix != DefaultPrefix {
		layout.DriverLink = prefix + "/lib"
	}
	run := remedy.Quote("hostDriver", "run", d.Program) + ", or for all programs: sudo hostDriver install" + prefixFlag(prefix)
	var found, absent *loader.Object
	needsIt := false
	for _, o := range load.Objects {
		if path.Base(o.Name) == driver.LibCUDA || path.Base(o.Path) == driver.LibCUDA {
			if o.Found() && found == nil {
				found = o
			} else if !o.Found() && absent == nil {
				absent = o
			}
		}
		needsIt = needsIt || driver.NeedsDriver(path.Base(o.Name))
	}
	switch {
	case found == nil && absent == nil && !needsIt:
		d.add(subject, Note, load.Main.Path, "", "neither it nor its libraries need the driver")
		return
	case found == nil:
		by, linked := load.Main.Path, false
		if absent != nil {
			var asker *loader.Object
			asker, linked = layout.Asker(load, absent)
			by = asker.Path
		}
		fix := remedy.Do(run)
		switch add := layout.Edit(h.Root.Path(by), "autoAddDriverRunpath"); {
		case absent != nil && strings.Contains(absent.Name, "/"):
			fix = absent.ByName()
		case linkWorks:
			fix = add
		case !linked: // the driver link, wherever it leads, is not where this program looks
			fix = remedy.Run("hostDriver", "run", "--method", "library-path", d.Program).And("; or for good: " + add.Fix + ", then hostDriver run or install")
		}
		d.addRemedy(subject, Bad, by, fix, "not found, where %s looks for it", by)
		if absent == nil || !absent.Certain() { // else the program does not start
			d.answers(35)
		}
		return
	}
	how := string(found.Rule)
	if found.Entry != "" {
		how += " entry " + found.Entry
	}
	if found.NeededBy != nil {
		how += " of " + found.NeededBy.Path
	}
	file := found.Path
	if found.File != nil {
		file = found.File.Path
	}
	inside := strings.TrimPrefix(file, strings.TrimSuffix(h.Root.Path("/"), "/"))
	version := VersionIn(file)
	switch {
	case (driver.StubDirs{}).Contains(path.Dir(found.Path)), (driver.StubDirs{}).Contains(path.Dir(file)):
		d.addRemedy(subject, Bad, how, found.OffTheSearch(layout.ReplaceStubs), "%s is a stub: cuInit will return 34 (CUDA_ERROR_STUB_LIBRARY)", found.Path)
		d.answers(34)
	case h.isCompat(path.Dir(found.Path)) || h.isCompat(path.Dir(inside)):
		h.doctorCompat(d, found, load, drv, gpus, how)
	case len(drv.Libraries) > 0 && drv.Version != "" && version != "" && version != drv.Version:
		d.add(subject, Bad, how, run, "%s is driver %s, the host's is %s", found.Path, version, drv.Version)
		d.answers(803)
	default:
		d.add(subject, Good, how, "", "%s%s", found.Path, resolved(found.Path, inside))
		if load.Interp.Store && found.File != nil && found.File.List == "" && found.Rule != loader.ByEnv {
			d.add("PTX compiler", Warning, found.Path, "sudo hostDriver install --copy"+prefixFlag(prefix)+", or: "+remedy.Quote("hostDriver", "run", load.Main.Path),
				"%s opens libnvidia-ptxjitcompiler.so.1 by its bare name, which a loader from Nix does not find: code that is compiled at run time fails", path.Base(found.Path))
		}
	}
}

func resolved(name, file string) string {
	if name == file || file == "" {
		return ""
	}
	return ", which is " + file
}

// doctorCompat says what a compat package's libcuda.so.1, which the program loads, does here.
func (h *Host) doctorCompat(d *Diagnosis, found *loader.Object, load *loader.Load, drv *Driver, gpus []gpu, how string) {
	const subject = "compat package"
	dir := path.Dir(found.Path)
	c, err := h.Compat(drv, dir)
	if err != nil {
		d.add(subject, Bad, how, "", "%v", err)
		return
	}
	fix := found.OffTheSearch(func(file string) remedy.Remedy {
		return remedy.Run("runpath", "edit", "--remove-entry", found.Entry, file)
	})
	verdict := map[driver.Help]Verdict{driver.Helps: Good, driver.NotNeeded: Note, driver.Harms: Bad, driver.Unknown: Note}[c.Verdict]
	if verdict != Bad {
		fix = remedy.Remedy{}
	}
	hidden := ""
	if c.Verdict == driver.Harms {
		hidden = "; hostDriver run starts the program without it"
	}
	d.addRemedy(subject, verdict, how+"; "+c.Source, fix, "%s %s: %s%s", found.Path, helpWords(c.Verdict), c.Reason, hidden)
	switch {
	case verdict == Bad:
		d.answers(803)
	case c.Verdict == driver.Helps && slices.ContainsFunc(gpus, func(g gpu) bool { return strings.Contains(g.name, "GeForce") }):
		d.add(subject, Bad, "nvidia-smi", "use a newer driver", "compat packages are for data-centre GPUs, and this one is %s", gpus[0].name)
		d.answers(804)
	}
}

func helpWords(h driver.Help) string {
	switch h {
	case driver.Helps:
		return "helps"
	case driver.NotNeeded:
		return "is not needed"
	case driver.Harms:
		return "harms"
	}
	return "is used; whether it helps is unknown"
}

// doctorGLIBC compares what the driver's libraries need of glibc with what the
// program's loader is, or without a program the host's.
func (h *Host) doctorGLIBC(d *Diagnosis, m Machine, drv *Driver, have string) {
	const subject = "glibc"
	whose := "the program's"
	if have == "" {
		whose = "this host's"
		if d.Program != "" {
			return
		}
		if have = h.hostGLIBC(m); have == "" {
			return
		}
	}
	need, by := "", ""
	for _, lib := range drv.Libraries {
		switch lib.Class {
		case driver.CUDA, driver.NVML, driver.Compiler:
			if v := h.needsGLIBC(lib.File); v != "" && (need == "" || newerVersion(v, need)) {
				need, by = v, lib.File
			}
		}
	}
	switch {
	case need == "":
	case newerVersion(need, have):
		d.add(subject, Bad, by, "build the program with a newer nixpkgs, whose glibc is at least "+need, "%s needs glibc %s, %s is %s", path.Base(by), need, whose, have)
	default:
		d.add(subject, Good, by, "", "the driver needs %s, %s is %s", need, whose, have)
	}
}

// needsGLIBC returns the newest version of glibc that a library's symbols ask for.
func (h *Host) needsGLIBC(file string) string {
	return h.newestGLIBC(file, func(im *elfimage.Image) ([]elfimage.Version, error) { return im.VersionsNeeded() })
}

// hostGLIBC returns the version of the host's own glibc: the newest that its libc.so.6 defines.
func (h *Host) hostGLIBC(m Machine) string {
	cache, _ := h.cache()
	name, _ := h.hostLibrary("libc.so.6", m, cache, nil)
	if name == "" {
		return ""
	}
	return h.newestGLIBC(name, func(im *elfimage.Image) ([]elfimage.Version, error) {
		versions, _, err := im.VersionsDefined()
		return versions, err
	})
}

// newestGLIBC returns the newest of a file's versions that is one of glibc's releases
// (GLIBC_2.34, not GLIBC_PRIVATE), "" where there is none or the file cannot be read.
func (h *Host) newestGLIBC(name string, versions func(*elfimage.Image) ([]elfimage.Version, error)) (newest string) {
	f, err := h.Root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	im, err := elfimage.Parse(f, info.Size())
	if err != nil {
		return ""
	}
	all, err := versions(im)
	if err != nil {
		return ""
	}
	for _, version := range all {
		if v, ok := strings.CutPrefix(version.Name, "GLIBC_"); ok && v != "" && v[0] <= '9' && (newest == "" || newerVersion(v, newest)) {
			newest = v
		}
	}
	return newest
}
