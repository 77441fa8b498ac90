package host

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/explain/places"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/host/nixconf"
	"cuda-runpath/pkg/host/opened"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/starts"
	"cuda-runpath/pkg/sysroot"
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
	Source  string  `json:"source,omitempty"` // where the fact is from: a file, or a table with its origin
	// Error is what CUDA answers where this is in the way, one of forwardcompat.Errors; 0: not known.
	Error int `json:"error,omitempty"`
	remedy.Remedy
	// Of are the programs, modules and libraries that it is about, in what was named, of several.
	Of []string `json:"of,omitempty"`
	// Kind is explain's of what is wrong with the program, and Library the one that it is about.
	Kind    string `json:"-"`
	Library string `json:"-"`
}

// Diagnosis is what Doctor finds.
type Diagnosis struct {
	Machine string `json:"machine"`
	Program string `json:"program,omitempty"`
	Works   bool   `json:"works"` // nothing was found that keeps a CUDA program from working
	Facts   []Fact `json:"facts"`

	// Asks says that the program, or a library of it, asks for the driver; HostWorks that the host's own programs, which
	// do not look into the driver link, can work.
	Asks      bool `json:"-"`
	HostWorks bool `json:"-"`

	// parts are what none of several programs and packages brings for sure, where the program is one of these; else nil.
	parts      map[*loader.Object]bool
	driverless bool   // no driver was found
	clash      string // what is to be done before the host's driver can be loaded into the program; "" for nothing
}

// offer returns a fix that offers the host's driver: where there is none, that comes first.
func (d *Diagnosis) offer(fix string) string {
	if d.driverless {
		return "once the host has a driver: " + fix
	}
	return fix
}

// run returns how the program is started with the driver. A library is started by programs.
func (d *Diagnosis) run(load *loader.Load) string {
	if load.Main.File.Interp == "" {
		return "hostDriver run PROGRAM"
	}
	return remedy.Quote("hostDriver", "run", d.Program)
}

// add adds a fact; fix says in words what to do about it.
func (d *Diagnosis) add(subject string, v Verdict, source, fix, format string, args ...any) *Fact {
	return d.addRemedy(subject, v, source, remedy.Do(fix), format, args...)
}

// addRemedy adds a fact, and returns it, of which more may be known, until the next one is added.
func (d *Diagnosis) addRemedy(subject string, v Verdict, source string, r remedy.Remedy, format string,
	args ...any) *Fact {
	d.Facts = append(d.Facts, Fact{Subject: subject, Verdict: v, Text: fmt.Sprintf(format, args...),
		Source: source, Remedy: r})
	if v == Bad {
		d.Works = false
	}
	return &d.Facts[len(d.Facts)-1]
}

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
	if d.driverless = err != nil; d.driverless {
		fix := "install the distribution's NVIDIA driver package"
		if h.inContainer() {
			fix = startWithGPUs
		}
		d.add("driver libraries", Bad, "ld.so.cache, known directories", fix, "%v", err).Error = 35
		h.doctorRejected(d, drv)
	} else {
		h.doctorLibraries(d, drv, kernel, k)
	}
	cuda := h.doctorCUDA(d, drv)
	h.doctorDevices(d, k)
	gpus := h.doctorGPUs(d, drv)
	d.HostWorks = d.Works && h.hostFinds(m, drv)
	offered := h.doctorEnvironment(d, m)
	linkWorks := h.doctorLink(d, m, drv, kernel, prefix, program == "" && !offered)
	if program == "" {
		if err == nil {
			h.doctorGLIBC(d, m, drv, "")
		}
		h.doctorBuilds(d)
		h.doctorStarted(d)
		return d
	}
	ofHost := len(d.Facts)
	d.Works = true
	look := func(d *Diagnosis, its *explain.Case) {
		if glibc := h.doctorProgram(d, its, prefix, drv, gpus, cuda, linkWorks); err == nil && d.Asks {
			h.doctorGLIBC(d, m, drv, glibc)
		}
	}
	if system, problem := h.system(prefix, drv, gpus); problem != nil {
		d.add("program", Bad, program, "", "%v", problem)
	} else if place, problem := starts.PlaceOf(context.Background(), system.Loader, program); problem != nil {
		d.add("program", Bad, program, "", "%v", problem)
	} else if place != nil && (len(place.Starts)+len(place.Others) > 0 || system.Loader.Files().IsDir(program)) {
		d.place(system, place, look)
	} else if state, problem := starts.Begin(system.Loader, program, true); problem != nil {
		d.add("program", Bad, program, "", "%v", problem)
	} else {
		look(d, system.Case(state))
	}
	for i := range d.Facts[:ofHost] { // they keep other programs from working, if this one does not ask for the driver
		if f := &d.Facts[i]; f.Verdict == Bad && d.Asks {
			d.Works = false
		} else if f.Verdict == Bad {
			f.Verdict = Warning
		}
	}
	// it cannot be read: no fact of the host matters
	if its := d.Facts[ofHost:]; len(its) == 1 && its[0].Source == program {
		d.Facts = slices.Concat(its, d.Facts[:ofHost])
	}
	return d
}

// hostFinds reports whether the loader of the host's own programs finds the driver by itself: in its cache, or where
// distributions have libraries.
func (h *Host) hostFinds(m Machine, drv *Driver) bool {
	cache, _ := h.cache()
	at, err := h.Root.Resolve(cmp.Or(h.hostLibraries(m, cache, nil).find(driver.LibCUDA).path, "/none"))
	return err == nil && slices.ContainsFunc(drv.Libraries, func(lib Library) bool { return lib.File == at })
}

// doctorEnvironment says by which variable of this process's environment programs that start here get a libcuda.so.1,
// as nixGL, nix-gl-host and many by hand give it, and what that costs. It reports whether one does.
func (h *Host) doctorEnvironment(d *Diagnosis, m Machine) (offered bool) {
	if !h.Root.IsHost() {
		return false
	}
	row, _ := driver.Lookup(driver.LibCUDA)
	finds := func(file string) bool {
		// Whoever set the variable relies on it.
		lib, err := (&Host{wantCompat: true}).examine(file, row, m)
		return err == nil && lib.File != ""
	}
	for _, file := range loader.PreloadList(os.Getenv("LD_PRELOAD")) {
		if !offered && path.IsAbs(file) && driver.Provides(path.Base(file)) && finds(file) {
			offered = true
			d.add("LD_PRELOAD", Note, file, "",
				"programs that are started from here load %s first, whatever their run path says; those that they start do too, "+
					"and fail where it is not for them", file)
		}
	}
	for _, dir := range strings.FieldsFunc(os.Getenv("LD_LIBRARY_PATH"),
		func(r rune) bool { return r == ':' || r == ';' }) {
		if file := path.Join(dir, driver.LibCUDA); !offered && path.IsAbs(dir) && finds(file) {
			offered = true
			d.add("LD_LIBRARY_PATH", Note, file, "",
				"programs that are started from here, and those that they start, find %s by it; all else that is in %s comes "+
					"before their own libraries as well", file, dir)
		}
	}
	return offered
}

func (h *Host) exists(name string) bool {
	_, err := h.Root.Stat(name)
	return err == nil
}

func (h *Host) kind(drv *Driver) kind {
	switch {
	case strings.HasPrefix(drv.Directory, "/usr/lib/wsl/"), h.exists("/dev/dxg") && !h.exists(procVersion):
		return wsl
	case h.exists(l4tRelease), h.exists("/sys/module/nvgpu"), strings.HasSuffix(drv.Directory, "/tegra"):
		return jetson
	}
	return discrete
}

func (h *Host) doctorKernel(d *Diagnosis, k kind) Kernel {
	const subject = "kernel module"
	kernel := h.kernelVersion()
	switch {
	case kernel.Disagree != "":
		d.add(subject, Warning, procVersion+", "+sysVersion, "reboot", "%s says %s, %s says %s", procVersion, kernel.Version,
			sysVersion, kernel.Disagree)
	case kernel.Version != "":
		d.add(subject, Good, kernel.Source, "", "nvidia %s", kernel.Version)
	case k == wsl:
		d.add(subject, Good, "/usr/lib/wsl/lib", "", "none needed: Windows' driver is used through /dev/dxg")
	case k == jetson && h.exists("/sys/module/nvgpu"):
		d.add(subject, Good, "/sys/module/nvgpu", "", "nvgpu (Jetson)")
	default:
		fix := h.sudo("modprobe nvidia")
		if h.inContainer() {
			fix = "load the module on the host, and " + startWithGPUs
		}
		d.add(subject, Bad, procVersion, fix, "not loaded: there is no %s", procVersion).Error = 100
	}
	return kernel
}

// startWithGPUs is what brings the driver and the devices into a container.
const startWithGPUs = "start the container with its GPUs (podman: --device nvidia.com/gpu=all; docker: --gpus all)"

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
			fix := "reboot, or without one: " + h.sudo("rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia") + " && " +
				h.sudo("modprobe nvidia nvidia_uvm")
			if newerVersion(kernel.Version, drv.Version) {
				fix = "install the libraries of driver " + kernel.Version
			}
			d.add("versions", Bad, kernel.Source+", "+drv.Directory, fix,
				"the kernel module is %s, the libraries are %s: CUDA refuses that (upgraded without a reboot?)", kernel.Version,
				drv.Version).Error = 803
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
		for _, want := range []struct {
			name, what, pkg string
			error           int
		}{
			{"libnvidia-ml.so", "NVML (nvidia-smi, NCCL)", "libnvidia-ml1", 0},
			{"libnvidia-ptxjitcompiler.so", "PTX compiler (Triton, numba, code for a newer GPU than it was built for)",
				"libnvidia-ptxjitcompiler1", 221},
		} {
			if !have[want.name] {
				d.add("driver libraries", Warning, drv.Directory, "install it with the driver (Debian: "+want.pkg+")",
					"no %s, so no %s", want.name, want.what).Error = want.error
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
		d.add("driver libraries", Note, "hostDriver find --verbose", "",
			"%d other files with the names of the driver's libraries are not used", rest)
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
		fixes["/dev/nvidiactl"], fixes["/dev/nvidia-uvm"] = h.sudo("nvidia-modprobe -c=0"), h.sudo("nvidia-modprobe -u -c=0")
		if h.inContainer() { // where nobody may make devices
			fixes["/dev/nvidiactl"], fixes["/dev/nvidia-uvm"] = startWithGPUs, startWithGPUs
		}
		gpus, _ := h.Root.Glob("/dev/nvidia[0-9]*")
		if len(gpus) == 0 {
			d.add(subject, Bad, "/dev", fixes["/dev/nvidiactl"], "there is no GPU: no /dev/nvidia0 or the like").Error = 100
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
			if node == "/dev/nvidia-uvm" && !h.inContainer() && h.makesNodes() {
				d.add(subject, Note, "/dev", "",
					"%s is missing: the driver has %s, which is root's, make it when the first CUDA program starts", node,
					nvidiaModprobe)
				continue
			}
			f := d.add(subject, verdict, "/dev", fix, "%s is missing", node)
			if node == "/dev/nvidia-uvm" {
				f.Error = 999
			}
			continue
		}
		info, err := h.Root.Lstat(at)
		switch {
		case err != nil:
			d.add(subject, Bad, node, "", "%v", Reason(err))
		case info.Mode()&fs.ModeCharDevice == 0:
			fix := h.sudo(remedy.Quote("rm", node))
			if fixes[node] != "" {
				fix += ", then " + fixes[node]
			}
			d.add(subject, Bad, node, fix, "%s is not a device", node)
		case h.Root.IsHost() && unix.Access(node, unix.R_OK|unix.W_OK) != nil,
			!h.Root.IsHost() && info.Mode().Perm()&0o006 != 0o006:
			fix := h.sudo("chmod a+rw " + node)
			if group := groupOf(info); group != "" {
				fix = h.sudo("usermod -a -G "+group) + " \"$USER\", then log in again"
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

// nvidiaModprobe is what libcuda.so.1 starts where a device node is not there (its manual page, nvidia-modprobe(1)).
const nvidiaModprobe = "/usr/bin/nvidia-modprobe"

// makesNodes reports whether that can make them: it does so as root.
func (h *Host) makesNodes() bool {
	info, err := h.Root.Stat(nvidiaModprobe)
	return err == nil && info.Mode()&fs.ModeSetuid != 0
}

// sudo returns a command for root as the user can start it.
func (h *Host) sudo(command string) string {
	if h.AsRoot {
		return command
	}
	return "sudo " + command
}

// itself begins a command of hostDriver for root.
func (h *Host) itself() string { return h.sudo(remedy.Quote(cmp.Or(h.Program, "hostDriver"))) }

// doctorLink says what the driver link holds, and returns whether it leads to the host's driver.
func (h *Host) doctorLink(d *Diagnosis, m Machine, drv *Driver, kernel Kernel, prefix string, matters bool) bool {
	link := m.Link(prefix)
	verdict := Warning
	if matters {
		verdict = Bad
	}
	install := d.offer(h.installing(m, prefix) + ", or start programs with: hostDriver run PROGRAM")
	entries, err := h.Root.ReadDir(link)
	if err != nil {
		d.add("driver link", verdict, link, install,
			"%s does not exist, where programs built with Nix look for the driver", link)
		return false
	}
	cuda := path.Join(link, driver.LibCUDA)
	at, err := h.Root.Resolve(cuda)
	if err != nil {
		what := "holds no " + driver.LibCUDA
		if target, lerr := h.Root.Readlink(cuda); lerr == nil {
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
		if !driver.Provides(e.Name()) && !IsOwnName(e.Name()) {
			stray = append(stray, e.Name())
		}
	}
	owner := h.LinkOwner(link)
	if owner == "" {
		h.doctorInstallation(d, link, lib)
	}
	switch {
	case h.Root.IsHost() && opened.NoExec(at):
		d.add("driver link", verdict, at, install,
			"%s is on a file system mounted noexec, from which no library can be loaded: --state-dir DIR of hostDriver "+
				"install names another place", at)
		return false
	case kernel.Version != "" && lib.Version != "" && lib.Version != kernel.Version:
		fix := install
		if owner == "NixOS" {
			fix = "reboot: nixos-rebuild switch has installed a newer driver than the loaded kernel module's"
		}
		d.add("driver link", verdict, cuda, fix, "%s leads to driver %s, but the kernel module is %s", link, lib.Version,
			kernel.Version)
		return false
	case len(stray) > 0 && owner == "":
		sort.Strings(stray)
		d.add("driver link", Warning, link, "remove them, or: "+h.itself()+" install"+prefixFlag(prefix),
			"%s holds libraries that are not the driver's and hide the programs' own: %s", link, few(stray))
	default:
		if owner != "" {
			owner = " (made by " + owner + ")"
		}
		if lacks := h.lacking(drv, link); len(lacks) > 0 {
			d.add("driver link", Warning, link, install, "%s leads to %s%s, but lacks %d of the driver's %d libraries: %s", link,
				at, owner, len(lacks), len(drv.Libraries), few(lacks))
			return true
		}
		d.add("driver link", Good, cuda, "", "%s holds %d names; %s leads to %s%s", link, len(entries),
			driver.LibCUDA, at, owner)
	}
	return true
}

// lacking returns the names by which the driver's libraries are asked for that a driver link does not have, those that
// most programs need first.
func (h *Host) lacking(drv *Driver, link string) (names []string) {
	for _, lib := range drv.Libraries {
		if !h.exists(path.Join(link, lib.Soname)) {
			names = append(names, lib.Soname)
		}
	}
	rank := func(name string) int {
		row, _ := driver.Lookup(name)
		return slices.Index([]driver.Class{driver.Graphics, driver.Compiler, driver.NVML, driver.CUDA}, row.Class)
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(b) - rank(a) })
	return names
}

// doctorInstallation says what an installation loses by links, and by a boot.
func (h *Host) doctorInstallation(d *Diagnosis, link string, lib Library) {
	prefix := strings.TrimSuffix(path.Dir(link), "-32")
	if im, f, err := OpenImage(h.Root, lib.File); err == nil {
		_, list, err := im.RunPath()
		f.Close()
		if err == nil && list == "" {
			d.add("driver link", Warning, lib.File, h.itself()+" install"+prefixFlag(prefix),
				"%s holds links, by which a loader from Nix does not find what the driver's libraries open by name: code that is "+
					"compiled at run time fails, and EGL and Vulkan do not find the rest of the driver", link).Error = 221
		}
	}
	if h.OwnLink(path.Dir(link)) != "" && h.exists(TmpfilesConf) && !h.exists(ServiceFile) {
		d.add("driver link", Warning, TmpfilesConf, h.itself()+" tmpfiles"+prefixFlag(prefix),
			"of what makes it again only the line for tmpfiles.d is left: after an upgrade of the driver, the copies are "+
				"those of the old one")
	}
}

// doctorStarted says whether the program that root's units and Nix's hook start is another one than this.
func (h *Host) doctorStarted(d *Diagnosis) {
	const running, hook = "/proc/self/exe", "/etc/nix/" + nixconf.Hook
	if !h.Root.IsHost() || sameFile(Libexec, running) {
		return
	}
	for _, by := range []struct{ file, fix string }{{ServiceFile, "tmpfiles"}, {hook, "sandbox"}} {
		if b, err := h.Root.ReadFile(by.file, 1<<20); err == nil && bytes.Contains(b, []byte(Libexec)) && h.exists(Libexec) {
			d.add("hostDriver", Note, by.file, h.itself()+" "+by.fix,
				"%s, the copy of hostDriver that root starts, is of another time than this program", Libexec)
		}
	}
}

// sameFile reports whether two files of this machine have the same contents.
func sameFile(a, b string) bool {
	x, err := os.ReadFile(a)
	if err != nil {
		return false
	}
	y, err := os.ReadFile(b)
	return err == nil && bytes.Equal(x, y)
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

// place says what the starts of a directory, or those by an interpreter, would load, each fact once with those that it
// is about. What nothing opens for sure is in nobody's way.
func (d *Diagnosis) place(system *explain.System, place *starts.Place, look func(*Diagnosis, *explain.Case)) {
	at := map[string]int{}
	sum := places.Summarize(system, runtime.GOMAXPROCS(0), place, func(its *explain.Case) {
		name := its.Start.Name()
		one := &Diagnosis{Program: its.Start.File, Works: true, driverless: d.driverless, parts: its.Parts()}
		look(one, its)
		asks := its.NeedsDriver(nil)
		d.Asks = d.Asks || one.Asks
		for _, f := range one.Facts {
			if !asks && f.Verdict != Bad && f.Verdict != Warning {
				continue
			}
			if !asks && f.Verdict == Bad { // which has nothing to do with the driver
				f.Verdict = Warning
			}
			key := fmt.Sprint(f.Subject, f.Text)
			i, known := at[key]
			if !known {
				i = len(d.Facts)
				at[key], d.Facts = i, append(d.Facts, f)
			}
			if d.Facts[i].Of = append(d.Facts[i].Of, name); f.Verdict == Bad {
				d.Facts[i].Verdict, d.Facts[i].Error = Bad, cmp.Or(d.Facts[i].Error, f.Error)
			}
			d.Works = d.Works && f.Verdict != Bad
		}
	})
	by := ""
	if sum.Interpreter != "" {
		by = " with " + sum.Interpreter
	}
	which := ""
	if len(sum.Asking) > 0 {
		which = " (" + few(sum.Asking) + ")"
	}
	d.add("starts", Note, place.Path, "",
		"programs, modules and libraries looked at%s: %d; of these ask for the driver: %d%s", by, sum.Starts,
		len(sum.Asking), which)
	if len(sum.Optional) > 0 {
		d.add("driver libraries", Note, place.Path, "", "opened by name only, and not here: %s",
			strings.Join(sum.Optional, ", "))
	}
	if parts := sum.Toolkits(); len(parts) > 0 {
		d.add("CUDA toolkit", Note, place.Path, "", "%s", strings.Join(parts, ", "))
	}
}

// unless returns a verdict on what an object brings; where that is a part that nothing opens for sure, none that is in
// the way.
func (d *Diagnosis) unless(v Verdict, o ...*loader.Object) Verdict {
	if v == Bad && slices.ContainsFunc(o, func(o *loader.Object) bool { return d.parts[o] }) {
		return Warning
	}
	return v
}

// doctorProgram says what the program would load; it returns the version of its
// loader's glibc, "" if it has none or it is not known.
func (h *Host) doctorProgram(d *Diagnosis, its *explain.Case, prefix string, drv *Driver, gpus []gpu, cuda string,
	linkWorks bool) (glibc string) {
	const subject = "program"
	load, program := its.Load, its.State.Start.File
	if len(its.State.Start.Via) > 0 {
		d.add(subject, Note, strings.Join(its.State.Start.Via, ", "), "",
			"a script or wrapper that runs %s, which is examined instead", program)
	}
	if load.Role == loader.Static {
		d.add(subject, Note, program, "", "is static: it loads no libraries, and so no driver; it cannot use CUDA")
		return ""
	}
	if load.Interp.Kind == loader.Musl {
		d.add(subject, Bad, load.Interp.Path, "build it against glibc: NVIDIA's driver needs it", "its loader is musl's")
	} else if load.Interp.Version != loader.Newest {
		glibc = load.Interp.Version.String()
	}
	found := its.Conclusions
	if d.parts != nil {
		found = its.OfTheLoad
	}
	for _, c := range found() {
		from, fix, about, verdict := load.Main.Path, c.Remedy, subject, Warning
		if c.By != nil {
			from = c.By.Path
		}
		switch {
		// said of the driver; a note
		case c.Verdict != nil, c.Severity == explain.Note && c.ID != explain.UnreadNote && c.ID != explain.OpenFails:
			continue
		case c.ID == explain.Unresolved, c.ID == explain.UnresolvedIndirect:
			fix = fix.And("; where it is looked for: " + remedy.Quote("runpath", "explain", program))
		case slices.Contains(explain.OfNotes, c.ID):
			about = "resolution note"
		}
		switch {
		case c.Stops(), c.ID == explain.Ambiguous && c.Severity == explain.Error &&
			slices.ContainsFunc(its.Verdicts(), func(v *explain.Verdict) bool {
				// another than the driver link's is loaded
				return v.Soname == driver.LibCUDA && c.Library == driver.LibCUDA && !v.Good
			}):
			verdict = Bad
		case c.Severity == explain.Note:
			verdict = Note
		}
		f := d.addRemedy(about, d.unless(verdict, c.Object, c.By), from, fix, "%s", c.Message)
		f.Kind, f.Library = c.ID, c.Library
	}
	d.Asks = its.NeedsDriver(nil) || slices.ContainsFunc(apis, func(a api) bool {
		by, _, certain := a.askedBy(load)
		return by != nil && certain
	})
	if its.NeedsDriver(nil) {
		doctorRuntime(d, load, cuda)
	}
	h.doctorClash(d, its, drv)
	h.doctorDriver(d, its, drv.machine(), prefix, linkWorks)
	if drv.Directory != "" {
		h.doctorInterfaces(d, load, drv, prefix)
	}
	h.doctorGPUCode(d, load, gpus, cuda)
	return glibc
}

// doctorRuntime compares the CUDA version that the program was built for with the driver's.
func doctorRuntime(d *Diagnosis, load *loader.Load, cuda string) {
	const runtime = "libcudart.so."
	built, from := "", ""
	for _, o := range load.WithFailed() {
		if strings.HasPrefix(path.Base(o.Name), runtime) || strings.HasPrefix(path.Base(o.Path), runtime) {
			built, from = strings.TrimPrefix(path.Base(o.Name), runtime), o.Name
			// The file's name has the whole version: libcudart.so.12.4.127.
			if o.File != nil && strings.Contains(strings.TrimPrefix(path.Base(o.File.Path), runtime), ".") {
				built, from = strings.TrimPrefix(path.Base(o.File.Path), runtime), o.Path
			}
			break
		}
	}
	if built == "" && d.parts != nil { // others of the place use it
		return
	}
	if built == "" {
		d.add("CUDA runtime", Note, load.Main.Path, "",
			"it does not use libcudart.so: the CUDA version that it was built for is unknown")
		return
	}
	if cuda == "" {
		d.add("CUDA runtime", Note, from, "", "built for CUDA %s", built)
		return
	}
	major := func(v string) string { m, _, _ := strings.Cut(v, "."); return m }
	parts := strings.Split(built, ".")
	short := strings.Join(parts[:min(2, len(parts))], ".")
	compat := "upgrade the driver, or on a data-centre GPU build the program with a cuda_compat package"
	switch {
	case newerVersion(major(built), major(cuda)):
		least := ""
		if v := leastDriver(major(built)); v != "" {
			least = " (it needs " + v + " or newer)"
		}
		d.add("CUDA runtime", Bad, from, compat, "built for CUDA %s, the driver supports %s: a compat package is needed%s",
			short, cuda, least).Error = 35
	case strings.Contains(short, ".") && newerVersion(short, cuda):
		d.add("CUDA runtime", Note, from, "",
			"built for CUDA %s, the driver supports %s: works by minor version compatibility, but not PTX code", short, cuda)
	default:
		d.add("CUDA runtime", Good, from, "", "built for CUDA %s, and the driver supports %s: no compat package is needed",
			short, cuda)
	}
}

// system is what concludes of starts beside this host's driver.
func (h *Host) system(prefix string, drv *Driver, gpus []gpu) (*explain.System, error) {
	l, err := h.loader()
	if err != nil {
		return nil, err
	}
	beside := sync.OnceValue(func() forwardcompat.CUDALibrary {
		if own := h.cuda(drv); own.Path != "" {
			return own
		}
		whole := *h
		whole.Without = nil
		link, _ := whole.Find(drv.machine()) // what the driver link has is no source to install from, and what programs load
		return whole.cuda(link)
	})
	layout := explain.Layout{
		CompatVerdict: func(file string) (forwardcompat.Verdict, bool) {
			lib, err := cudaLibraryAt(sysroot.Root{}, file)
			return forwardcompat.Judge(lib, beside(), kinds(gpus)), err == nil
		},
		Unfit: func(file string) string {
			if version := VersionIn(file); len(drv.Libraries) > 0 && drv.Version != "" && version != "" &&
				version != drv.Version {
				return fmt.Sprintf("driver %s, the host's is %s", version, drv.Version)
			}
			return ""
		},
	}
	if prefix != DefaultPrefix {
		layout.DriverLink = prefix + "/lib"
	}
	return explain.New(l, explain.Options{Layout: layout, Symbols: true}), nil
}

// doctorClash says what the host's driver needs of a library that the program brings in an older version: then it
// cannot be loaded into that process, however it is offered.
func (h *Host) doctorClash(d *Diagnosis, its *explain.Case, drv *Driver) {
	if !its.NeedsDriver(nil) {
		return
	}
	for _, o := range its.Objects[1:] {
		if !o.Found() || o.File == nil || d.clash != "" || loader.OfGLibc(o.Name) || driver.Provides(path.Base(o.Name)) {
			continue
		}
		for _, lib := range drv.Libraries {
			if lib.Class != driver.CUDA && lib.Class != driver.NVML && lib.Class != driver.Compiler {
				continue
			}
			if lacks := h.lacksVersions(lib.File, o); lacks != "" && d.clash == "" {
				d.clash = fmt.Sprintf("build the program with a newer %s, or let it take the host's", o.Name)
				d.add(path.Base(o.Name), Bad, lib.File, d.clash,
					"the host's %s needs %s of %s, which the program's, %s, does not define: the driver cannot be loaded into it, "+
						"by hostDriver run or otherwise",
					path.Base(lib.File), lacks, o.Name, o.Path)
			}
		}
	}
}

// lacksVersions returns the versions that a file needs of a library by the name of an object, and that the object does
// not define.
func (h *Host) lacksVersions(file string, o *loader.Object) string {
	im, f, err := OpenImage(h.Root, file)
	if err != nil {
		return ""
	}
	defer f.Close()
	all, _ := im.VersionsNeeded()
	var lacks []string
	for _, v := range all {
		if v.Library == o.Name && !o.File.Defines(v.Name) && !slices.Contains(lacks, v.Name) {
			lacks = append(lacks, v.Name)
		}
	}
	return few(lacks)
}

// doctorDriver says of each library of the driver which one the program loads.
func (h *Host) doctorDriver(d *Diagnosis, its *explain.Case, m Machine, prefix string, linkWorks bool) {
	load, all := its.Load, its.Verdicts()
	switch {
	case !its.NeedsDriver(nil):
		d.add(driver.LibCUDA, Note, load.Main.Path, "",
			"neither it nor its libraries ask for CUDA or its driver; what it opens otherwise, as an interpreter does, is not "+
				"known")
	case len(all) == 0 && d.parts == nil: // the toolkit's libraries open it
		all = append(all, its.Verdict(its.Find(driver.LibCUDA)))
	}
	for _, v := range all {
		if d.parts != nil && v.Optional() { // said once of all
			continue
		}
		h.doctorLibrary(d, its, v, m, prefix, linkWorks)
	}
}

// doctorLibrary says what a verdict on a library of the driver means on this host.
func (h *Host) doctorLibrary(d *Diagnosis, its *explain.Case, v *explain.Verdict, m Machine, prefix string,
	linkWorks bool) {
	load, o, subject := its.Load, v.Object, path.Base(v.Soname)
	from, fix, bad := load.Main.Path, v.Remedy, Bad
	if o.Found() {
		from = o.How(nil)
	} else if o.NeededBy != nil {
		from = o.NeededBy.Path
	}
	run := d.run(load)
	install := h.installing(m, prefix)
	switch {
	case v.Origin == explain.FromCompat:
		subject = "compat package"
		if v.Good {
			bad = Note
		}
		if v.Help == forwardcompat.Helps {
			bad = Good
		}
	case v.Good && o.Found():
		is := o.Path
		if file := load.Inside(o.File.Path); file != "" && file != is {
			is += ", which is " + file
		}
		d.add(subject, Good, from, "", "%s", is)
		if load.Interp.Store && o.File.List == "" && o.Rule != loader.ByEnv && subject == driver.LibCUDA {
			d.add("PTX compiler", Warning, o.Path, h.itself()+" install"+prefixFlag(prefix)+", or: "+run,
				"%s opens libnvidia-ptxjitcompiler.so.1 by its bare name, which a loader from Nix does not find: code that is "+
					"compiled at run time fails", path.Base(o.Path))
		}
		return
	case v.Kind == explain.DriverBeforeCompat:
		bad = Warning
	case v.Kind == "":
		bad = Note
	case v.Kind == explain.LoadError && o.Certain():
		return // said of the program
	case o.Found() && v.Kind != explain.UnfitDriver:
	case strings.Contains(o.Name, "/"):
	case v.Kind == explain.NoDriverLink && v.Command == nil: // nobody edits the file
		fix = v.Remedy
		if !linkWorks {
			fix = fix.And("; for all programs: " + install)
		}
	case v.Kind == explain.NoDriverLink && linkWorks:
		fix = remedy.Run(v.Command...)
	case v.Kind == explain.NoDriverLink:
		fix = remedy.Do(d.offer(run + "; or for good: " + remedy.Quote(v.Command...) + ", then " + install))
	case o.Found() && path.Dir(o.Path) != m.Link(prefix): // by a directory in which another driver is
		fix = remedy.Do(run + ", or remove that driver")
	default:
		fix = remedy.Do(d.offer(run + ", or for all programs: " + install))
	}
	if d.clash != "" && bad == Bad && !o.Found() {
		fix = remedy.Do("%s", remedy.Text(d.clash))
	}
	text := v.Text
	if subject == path.Base(v.Soname) { // else that says which one it is about
		text = strings.TrimLeft(strings.TrimPrefix(text, v.Soname), ": ")
	}
	bad = d.unless(bad, o)
	f := d.addRemedy(subject, bad, from, fix, "%s", text)
	f.Kind, f.Library = v.Kind, path.Base(o.Name)
	if bad == Bad && (o.Found() || !o.Certain()) { // else the program does not start
		f.Error = v.Answer
	}
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
		d.add(subject, Bad, by, "build the program with a newer nixpkgs, whose glibc is at least "+need,
			"%s needs glibc %s, %s is %s", path.Base(by), need, whose, have)
	default:
		d.add(subject, Good, by, "", "the driver needs %s, %s is %s", need, whose, have)
	}
}

// needsGLIBC returns the newest version of glibc that a library's symbols ask for.
func (h *Host) needsGLIBC(file string) string {
	return h.newestGLIBC(file, (*elfimage.Image).VersionsNeeded)
}

// hostGLIBC returns the version of the host's own glibc: the newest that its libc.so.6 defines.
func (h *Host) hostGLIBC(m Machine) string {
	cache, _ := h.cache()
	return h.newestGLIBC(h.hostLibraries(m, cache, nil).find("libc.so.6").path,
		func(im *elfimage.Image) ([]elfimage.Version, error) {
			versions, _, err := im.VersionsDefined()
			return versions, err
		})
}

// newestGLIBC returns the newest of a file's versions that is one of glibc's releases
// (GLIBC_2.34, not GLIBC_PRIVATE), "" where there is none or the file cannot be read.
func (h *Host) newestGLIBC(name string, versions func(*elfimage.Image) ([]elfimage.Version, error)) (newest string) {
	im, f, err := OpenImage(h.Root, name)
	if err != nil {
		return ""
	}
	defer f.Close()
	all, _ := versions(im)
	for _, version := range all {
		if v, ok := strings.CutPrefix(version.Name, "GLIBC_"); ok && v != "" && v[0] <= '9' &&
			(newest == "" || newerVersion(v, newest)) {
			newest = v
		}
	}
	return newest
}
