package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
)

// hostFinds reports whether the loader of the host's own programs finds the driver by itself: in its cache, or where
// distributions have libraries.
func (h *Doctor) hostFinds(drv *host.Driver) bool {
	at, err := h.Root.Resolve(cmp.Or(h.LibraryOf(h.Machine, driver.LibCUDA), "/none"))
	return err == nil && slices.ContainsFunc(drv.Libraries, func(lib host.Library) bool { return lib.File == at })
}

// checkEnvironment says by which variable of this process's environment programs that start here get a libcuda.so.1,
// as nixGL, nix-gl-host and many by hand give it, and what that costs. It reports whether one does.
func (h *Doctor) checkEnvironment(d *Diagnosis) (offered bool) {
	if !h.Root.IsHost() {
		return false
	}
	loaded := &host.Host{CompatToo: true}
	for _, file := range loader.PreloadList(os.Getenv("LD_PRELOAD")) {
		_, err := loaded.ExamineCUDA(file, h.Machine)
		if !offered && path.IsAbs(file) && driver.Provides(path.Base(file)) && err == nil {
			offered = true
			d.add("LD_PRELOAD", Note, file, "",
				"programs started from here, and those that they start, load %s first, whatever their run paths say: those that "+
					"it does not fit fail", file)
		}
	}
	if file := loaded.ByLibraryPath(os.Getenv("LD_LIBRARY_PATH"), h.Machine); !offered && file != "" {
		offered = true
		d.add("LD_LIBRARY_PATH", Note, file, "",
			"programs started from here, and those that they start, find %s through it; everything else in %s also comes "+
				"before their own libraries", file, path.Dir(file))
	}
	return offered
}

func (h *Doctor) checkKernel(d *Diagnosis, k host.Kind) host.Kernel {
	const subject = "kernel module"
	kernel := h.Kernel()
	switch {
	case kernel.Disagree != "":
		d.add(subject, Warning, host.ProcVersion+", "+host.SysVersion, "reboot", "%s says %s, %s says %s", host.ProcVersion,
			kernel.Version, host.SysVersion, kernel.Disagree)
	case kernel.Version != "":
		d.add(subject, Good, kernel.Source, "", "nvidia %s", kernel.Version)
	case k == host.WSL:
		d.add(subject, Good, "/usr/lib/wsl/lib", "", "none needed: Windows' driver is used through /dev/dxg")
	case k == host.Jetson && h.Root.Exists("/sys/module/nvgpu"):
		d.add(subject, Good, "/sys/module/nvgpu", "", "nvgpu (Jetson)")
	default:
		fix := h.sudo("modprobe nvidia")
		if start := h.Container(); start != "" {
			fix = "load the module on the host, and " + start
		}
		d.add(subject, Bad, host.ProcVersion, fix, "not loaded: there is no %s", host.ProcVersion).Error = 100
	}
	return kernel
}

func (h *Doctor) checkLibraries(d *Diagnosis, drv *host.Driver, kernel host.Kernel, k host.Kind) {
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
			if forwardcompat.Newer(kernel.Version, drv.Version) {
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
	if k == host.Discrete {
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
	h.checkRejected(d, drv)
	if len(drv.Others) > 0 {
		d.add("driver libraries", Note, "known directories", "", "other drivers are in %s", strings.Join(drv.Others, ", "))
	}
}

// checkRejected names each libcuda.so that is not used, and counts the other files.
func (h *Doctor) checkRejected(d *Diagnosis, drv *host.Driver) {
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

// checkCUDA returns the CUDA version that the driver supports, "" if that is not known.
func (h *Doctor) checkCUDA(d *Diagnosis, drv *host.Driver) string {
	own := h.CUDA(drv)
	if own.CUDA != "" {
		d.add("CUDA", Good, own.CUDASource, "", "the driver supports up to %s", own.CUDA)
	} else if drv.Directory != "" {
		d.add("CUDA", Note, drv.Directory, "", "the CUDA version that the driver supports cannot be read from it")
	}
	return own.CUDA
}

func (h *Doctor) checkDevices(d *Diagnosis, k host.Kind) {
	const subject = "device nodes"
	var nodes []string
	fixes := map[string]string{}
	maker := h.makesNodes(k)
	missing := func(fix, text string, verdict Verdict, answer int) {
		switch {
		case maker == "":
			d.add(subject, verdict, "/dev", fix, "%s", text).Error = answer
		case h.Container() == "":
			d.add(subject, Note, "/dev", "", "%s: %s when the first CUDA program starts", text, maker)
		default: // which of them the container may use, only an attempt would tell
			d.doubt(subject, "/dev", fix, "%s: %s if the container may use it", text, maker)
		}
	}
	switch k {
	case host.WSL:
		nodes = []string{"/dev/dxg"}
		fixes["/dev/dxg"] = "in Windows: wsl --update, then wsl --shutdown"
	case host.Jetson:
		nodes = []string{"/dev/nvhost-gpu", "/dev/nvhost-ctrl-gpu", "/dev/nvmap"}
	default:
		nodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}
		fixes["/dev/nvidiactl"], fixes["/dev/nvidia-uvm"] = h.sudo("nvidia-modprobe -c=0"), h.sudo("nvidia-modprobe -u -c=0")
		if start := h.Container(); start != "" { // where nobody may make devices
			fixes["/dev/nvidiactl"], fixes["/dev/nvidia-uvm"] = start, start
		}
		gpus, _ := h.Root.Glob("/dev/nvidia[0-9]*")
		if len(gpus) == 0 {
			missing(fixes["/dev/nvidiactl"], "there is no GPU: no /dev/nvidia0 or the like", Bad, 100)
		}
		nodes = append(nodes, gpus...)
	}
	majors := h.nvidiaMajors()
	good := 0
	for _, node := range nodes {
		at, err := h.Root.Resolve(node)
		if err != nil {
			verdict, fix := Bad, fixes[node]
			if k == host.Jetson && node != "/dev/nvmap" {
				verdict = Note // its name differs between L4T releases
			}
			answer := 0
			if node == "/dev/nvidia-uvm" {
				answer = 999
			}
			missing(fix, node+" is missing", verdict, answer)
			continue
		}
		info, err := h.Root.Lstat(at)
		switch {
		case err != nil:
			d.add(subject, Bad, node, "", "%v", host.Reason(err))
		case info.Mode()&fs.ModeCharDevice == 0:
			fix := h.sudo(remedy.Quote("rm", node))
			if fixes[node] != "" {
				fix += ", then " + fixes[node]
			}
			d.add(subject, Bad, node, fix, "%s is not a device", node)
		case len(majors) > 0 && !majors[major(info)]:
			fix := cmp.Or(fixes[node], fixes["/dev/nvidiactl"])
			d.add(subject, Bad, node, fix, "%s is not a device of NVIDIA's module", node).Error = 100
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

// groupOf returns the name of the group that may use a file, or "" where that is not a group to join.
func groupOf(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Gid == 0 || info.Mode().Perm()&0o060 != 0o060 {
		return ""
	}
	g, err := user.LookupGroupId(strconv.Itoa(int(st.Gid)))
	if err != nil {
		return ""
	}
	return g.Name
}

// makesNodes says in words who makes a device node that is missing, "" for nobody: libcuda.so.1 as root, else by starting
// nvidia-modprobe, where that is root's (NVIDIA's nvidia-modprobe, modprobe-utils/nvidia-modprobe-utils.c; its manual page).
func (h *Doctor) makesNodes(k host.Kind) string {
	const modprobe = "/usr/bin/nvidia-modprobe"
	info, err := h.Root.Stat(modprobe)
	switch {
	case k != host.Discrete || !h.Root.Exists(host.ProcVersion):
		return ""
	case h.AsRoot:
		return "the driver, started by root, makes it"
	case err == nil && info.Mode()&fs.ModeSetuid != 0 && h.Container() == "":
		return "the driver has " + modprobe + ", which is root's, make it"
	}
	return ""
}

// nvidiaMajors returns the major numbers of NVIDIA's devices; none where the kernel does not say.
func (h *Doctor) nvidiaMajors() map[uint32]bool {
	majors := map[uint32]bool{}
	text, _ := h.Root.ReadFile("/proc/devices", 1<<16)
	for line := range strings.Lines(string(text)) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && strings.HasPrefix(name, "nvidia") {
			majors[uint32(n)] = true
		}
	}
	return majors
}

// major returns the major number of a device.
func major(info fs.FileInfo) uint32 {
	st, _ := info.Sys().(*syscall.Stat_t)
	if st == nil {
		return 0
	}
	return unix.Major(uint64(st.Rdev))
}

// checkGLIBC compares what the driver's libraries need of glibc with what the
// program's loader is, or without a program the host's.
func (h *Doctor) checkGLIBC(d *Diagnosis, drv *host.Driver, have string) {
	const subject = "glibc"
	whose := "the program's"
	if have == "" {
		whose = "this host's"
		if d.Program != "" {
			return
		}
		if have = h.hostGLIBC(); have == "" {
			return
		}
	}
	need, by := "", ""
	for _, lib := range drv.Libraries {
		switch lib.Class {
		case driver.CUDA, driver.NVML, driver.Compiler:
			if v := h.needsGLIBC(lib.File); v != "" && (need == "" || forwardcompat.Newer(v, need)) {
				need, by = v, lib.File
			}
		}
	}
	switch {
	case need == "":
	case forwardcompat.Newer(need, have):
		d.add(subject, Bad, by, "build the program with a newer nixpkgs, whose glibc is at least "+need,
			"%s needs glibc %s, %s is %s", path.Base(by), need, whose, have)
	default:
		d.add(subject, Good, by, "", "the driver needs %s, %s is %s", need, whose, have)
	}
}

// needsGLIBC returns the newest version of glibc that a library's symbols ask for.
func (h *Doctor) needsGLIBC(file string) string {
	return h.newestGLIBC(file, (*elfimage.Image).VersionsNeeded)
}

// hostGLIBC returns the version of the host's own glibc: the newest that its libc.so.6 defines.
func (h *Doctor) hostGLIBC() string {
	return h.newestGLIBC(h.LibraryOf(h.Machine, "libc.so.6"),
		func(im *elfimage.Image) ([]elfimage.Version, error) {
			versions, _, err := im.VersionsDefined()
			return versions, err
		})
}

// newestGLIBC returns the newest of a file's versions that is one of glibc's releases
// (GLIBC_2.34, not GLIBC_PRIVATE), "" where there is none or the file cannot be read.
func (h *Doctor) newestGLIBC(name string, versions func(*elfimage.Image) ([]elfimage.Version, error)) (newest string) {
	im, f, err := host.OpenImage(h.Root, name)
	if err != nil {
		return ""
	}
	defer f.Close()
	all, _ := versions(im)
	for _, version := range all {
		if v, ok := strings.CutPrefix(version.Name, "GLIBC_"); ok && v != "" && v[0] <= '9' &&
			(newest == "" || forwardcompat.Newer(v, newest)) {
			newest = v
		}
	}
	return newest
}

const noVersion = "%s, which the program finds, may be of another version than the kernel module"

// compare says where a program finds another libcuda.so.1 than the host's driver, and its name has no version, as in an
// image that has one of its own in the place that a container's runtime mounts the host's beside.
func (h *Doctor) compare(d *Diagnosis, drv *host.Driver, kernel host.Kernel) {
	info, err := h.Root.Stat(d.own)
	if d.own == "" || err != nil || kernel.Version == "" || host.VersionIn(d.own) != "" {
		return
	}
	for _, lib := range drv.Libraries {
		if its, err := h.Root.Stat(lib.File); err == nil && os.SameFile(info, its) { // a runtime mounts one file twice
			return
		}
	}
	d.doubt(driver.LibCUDA, d.own, "", noVersion+", and it is not the driver's in %s", d.own, drv.Directory)
}

// outweigh says what a libcuda.so.1 means that a program finds where no known place has a driver.
func (h *Doctor) outweigh(d *Diagnosis, kernel host.Kernel) {
	version := host.VersionIn(d.own)
	if d.own == "" || version != "" && kernel.Version != "" && version != kernel.Version {
		return
	}
	for i := range d.Facts {
		f := &d.Facts[i]
		if f.Subject != "driver libraries" || f.Error != 35 {
			continue
		}
		f.Error, f.Remedy = 0, remedy.Remedy{}
		if f.Verdict = Note; version == "" || kernel.Version == "" {
			f.Verdict, f.unknown = Warning, true
			f.Text = fmt.Sprintf(noVersion, d.own)
		} else {
			f.Text += "; the program finds the loaded kernel module's by itself"
		}
	}
}

// checkLimit says where the address space that a process may have is smaller than what CUDA reserves, which is all
// memory of the host and of the GPUs (CUDA Programming Guide, "Unified Virtual Address Space").
func (h *Doctor) checkLimit(d *Diagnosis, drv *host.Driver) {
	var limit unix.Rlimit
	var info unix.Sysinfo_t
	if !h.Root.IsHost() || unix.Getrlimit(unix.RLIMIT_AS, &limit) != nil || limit.Cur == unix.RLIM_INFINITY ||
		unix.Sysinfo(&info) != nil {
		return
	}
	if limit.Cur < uint64(info.Totalram)*uint64(info.Unit)+h.GPUMemory(drv) {
		d.doubt("address space", "ulimit -v", "ulimit -v unlimited",
			"the address space is limited to %d GB, less than the memory of the host and its GPUs: CUDA may fail with 2",
			limit.Cur>>30)
	}
}
