package host

import (
	"bytes"
	"regexp"
	"strings"
	"sync"

	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/sysroot"
)

// Where the kernel module tells its version.
const (
	ProcVersion = "/proc/driver/nvidia/version"
	SysVersion  = "/sys/module/nvidia/version"
)

// Kernel is what the kernel says of the driver's module.
type Kernel struct {
	Version string `json:"version"` // "" where the module is not loaded
	Source  string `json:"source"`
	// Disagree is the version of the second source, where it is another one.
	Disagree string `json:"disagree,omitempty"`
}

// Kind is the way in which a host reaches its GPU.
type Kind int

// The kinds.
const (
	Discrete Kind = iota // the nvidia kernel module and its device nodes
	WSL                  // Windows' driver through /dev/dxg
	Jetson               // L4T's nvgpu
)

// Kind returns the kind of a host whose driver is drv.
func (h *Host) Kind(drv *Driver) Kind {
	switch {
	case strings.HasPrefix(drv.Directory, "/usr/lib/wsl/"), h.Root.Exists("/dev/dxg") && !h.Root.Exists(ProcVersion):
		return WSL
	case h.Root.Exists(L4TRelease), h.Root.Exists("/sys/module/nvgpu"), strings.HasSuffix(drv.Directory, "/tegra"):
		return Jetson
	}
	return Discrete
}

// NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jun  3 …
// NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (…)
var nvrmVersion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Kernel Module\b.*?\s([1-9][0-9]{2,3}\.[0-9]+(?:\.[0-9]+)?)\s`)
})

func (h *Host) Kernel() Kernel {
	h.Saw(SysVersion)
	var fromProc, fromSys string
	if b, err := h.Root.ReadFile(ProcVersion, 64<<10); err == nil {
		line, _, _ := bytes.Cut(b, []byte("\n"))
		if m := nvrmVersion().FindSubmatch(append(line, '\n')); m != nil {
			fromProc = string(m[1])
		}
	}
	if b, err := h.Root.ReadFile(SysVersion, 4<<10); err == nil {
		if v := strings.TrimSpace(string(b)); driverVersion().MatchString(v) {
			fromSys = v
		}
	}
	switch {
	case fromProc != "" && fromSys != "" && fromProc != fromSys:
		return Kernel{fromProc, ProcVersion, fromSys}
	case fromProc != "":
		return Kernel{fromProc, ProcVersion, ""}
	case fromSys != "":
		return Kernel{fromSys, SysVersion, ""}
	}
	return Kernel{}
}

// The compiler inside libcuda.so.1 names the toolkit that it belongs to; that is
// the CUDA version that cuDriverGetVersion reports (535.261.03: 12.2).
var compilerRelease = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Cuda compilation tools, release ([0-9]{1,2}\.[0-9]{1,2}), V[0-9.]+`)
})

// cudaInLibrary returns the CUDA version that a libcuda.so.1 says it is of, or "".
func cudaInLibrary(root sysroot.Root, file string) string {
	f, err := root.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	best := ""
	// In pieces that overlap by more than the text has; the pattern begins with text, which most of the file does not
	// hold.
	const overlap = 128
	buf := make([]byte, 1<<20)
	for at := int64(0); ; at += int64(len(buf) - overlap) {
		n, err := f.ReadAt(buf, at)
		for _, m := range compilerRelease().FindAllSubmatch(buf[:n], -1) {
			if v := string(m[1]); best == "" || forwardcompat.Newer(v, best) {
				best = v
			}
		}
		if err != nil {
			return best
		}
	}
}

// branches says which CUDA version each driver branch supports, the newest first.
// Source: NVIDIA's "CUDA Toolkit Release Notes", table "CUDA Toolkit and
// Corresponding Driver Versions", column for Linux.
var branches = []struct{ driver, cuda string }{
	{"580", "13.0"}, {"575", "12.9"}, {"570", "12.8"}, {"565", "12.7"}, {"560", "12.6"}, {"555", "12.5"}, {"550", "12.4"},
	{"545", "12.3"},
	{"535", "12.2"}, {"530", "12.1"}, {"525", "12.0"}, {"520", "11.8"}, {"515", "11.7"}, {"510", "11.6"},
	{"495", "11.5"}, {"470", "11.4"}, {"465", "11.3"}, {"460", "11.2"}, {"455", "11.1"}, {"450", "11.0"},
	{"440", "10.2"}, {"418", "10.1"}, {"410", "10.0"}, {"396", "9.2"}, {"390", "9.1"}, {"384", "9.0"},
}

// cudaOfBranch returns the CUDA version of a driver's branch, or "" for an unknown one.
func cudaOfBranch(version string) string {
	branch, _, _ := strings.Cut(version, ".")
	for _, b := range branches {
		if b.driver == branch {
			return b.cuda
		}
	}
	return ""
}
