package host

import (
	"debug/elf"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/ldcache"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/sysroot"
)

// Machine is a kind of program that the driver has libraries for.
type Machine struct {
	Name string // as uname -m and NVIDIA's packages call it
	ldcache.ABI
	triple string   // Debian's multiarch directory
	libs   []string // the distributions' library directories
}

// Machines are those that NVIDIA ships, or shipped, the driver for (the driver's README, "Minimum Requirements").
var Machines = []Machine{
	{"x86_64", ldcache.ABI{Machine: elf.EM_X86_64, Class: elf.ELFCLASS64}, "x86_64-linux-gnu",
		[]string{"/usr/lib64", "/lib64", "/usr/lib"}},
	{"i386", ldcache.ABI{Machine: elf.EM_386, Class: elf.ELFCLASS32}, "i386-linux-gnu",
		[]string{"/usr/lib32", "/lib32", "/usr/lib"}},
	{"aarch64", ldcache.ABI{Machine: elf.EM_AARCH64, Class: elf.ELFCLASS64}, "aarch64-linux-gnu",
		[]string{"/usr/lib64", "/lib64", "/usr/lib"}},
	{"ppc64le", ldcache.ABI{Machine: elf.EM_PPC64, Class: elf.ELFCLASS64, Flags: 2}, "powerpc64le-linux-gnu",
		[]string{"/usr/lib64", "/lib64", "/usr/lib"}},
	{"armv7l", ldcache.ABI{Machine: elf.EM_ARM, Class: elf.ELFCLASS32, Flags: 0x400}, "arm-linux-gnueabihf",
		[]string{"/usr/lib"}},
}

// MachineNamed returns the machine of a name.
func MachineNamed(name string) (Machine, error) {
	aliases := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "i686": "i386", "386": "i386", "arm": "armv7l"}
	if n, ok := aliases[name]; ok {
		name = n
	}
	var names []string
	for _, m := range Machines {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Machine{}, fmt.Errorf("there is no driver for the machine %q: %s", name, strings.Join(names, ", "))
}

// MachineOf returns the machine that a root's programs are for: this program's
// own for the running system, otherwise that of the root's shell or loader.
func MachineOf(root sysroot.Root) (Machine, error) {
	if !root.IsHost() {
		for _, pattern := range []string{"/bin/sh", "/usr/bin/env", "/sbin/ldconfig", "/usr/bin/bash",
			"/lib64/ld-linux*.so.*", "/lib/ld-linux*.so.*", "/lib/*/libc.so.6", "/usr/lib*/libc.so.6"} {
			found, _ := root.Glob(pattern)
			for _, name := range found {
				if im, f, err := OpenImage(root, name); err == nil {
					f.Close()
					for _, m := range Machines {
						if m.Machine == im.Machine && m.Class == im.Class {
							return m, nil
						}
					}
				}
			}
		}
	}
	return MachineNamed(runtime.GOARCH)
}

// LibraryDirs returns where distributions have the libraries of the machine's programs.
func (m Machine) LibraryDirs() []string { return append([]string{"/usr/lib/" + m.triple}, m.libs...) }

// Second returns the machine whose programs run beside m's own, as i386's on x86-64.
func (m Machine) Second() (Machine, bool) {
	if m.Machine != elf.EM_X86_64 {
		return Machine{}, false
	}
	other, err := MachineNamed("i386")
	return other, err == nil
}

// Starts reports whether a kernel of the machine starts programs of another one, without an emulator.
func (m Machine) Starts(other elf.Machine) bool {
	second, _ := m.Second()
	return other == m.Machine || other == second.Machine || m.Machine == elf.EM_AARCH64 && other == elf.EM_ARM
}

// Link returns the driver link of the machine below a prefix that stands for /run/opengl-driver.
func (m Machine) Link(prefix string) string {
	suffix := strings.TrimPrefix(path.Dir(driver.LinkFor(m.Machine)), path.Dir(driver.Link))
	return prefix + suffix + "/lib"
}

// HostDir is the subdirectory of a driver link for libraries of the host that are not
// the driver's. It is on no search path but those of the driver's own copies, so
// that the program's libX11.so.6 and not the host's is the one that it loads.
const HostDir = "host"

// Beside are the subdirectories that belong beside the one of the libraries, as /run/opengl-driver/share. There they
// are links into it, so that all of them are exchanged with it.
var Beside = []string{"etc", "share"}

// IsOwnName reports whether a name in a driver link is that of a subdirectory that hostDriver makes.
func IsOwnName(name string) bool {
	return name == HostDir || name == "vdpau" || name == "gbm" || slices.Contains(Beside, name)
}

// DefaultPrefix is where programs built with Nix look for the driver.
const DefaultPrefix = driver.Prefix

// BesidePrefix is where the driver is kept where another module owns the driver link: links among its packages lead
// there.
const BesidePrefix = "/run/hostDriver"

// StateDir is where what hostDriver makes lies on a disk: the copies of the driver to which links in /run lead, and the
// record of what was made.
const StateDir = "/var/lib/hostDriver"

// What makes an installation last: a line for systemd-tmpfiles, and a unit; and where the copy of hostDriver is that
// root starts, if the program itself is not one that only root can replace.
const (
	TmpfilesConf = "/etc/tmpfiles.d/hostDriver.conf"
	ServiceFile  = "/etc/systemd/system/hostDriver.service"
	Libexec      = "/usr/local/libexec/hostDriver"
)

// Generation is what the names of the directories begin with that "lib" of an installation is a link to.
const Generation = ".hostDriver-"

// KeptAs returns the name that a driver link's directory, /run/opengl-driver, has in the directory where its copies
// are.
func KeptAs(dir string) string {
	return strings.NewReplacer("%", "%25", "/", "%2f").Replace(strings.TrimPrefix(dir, "/run/"))
}

// OwnLink returns where a driver link's directory, /run/opengl-driver, leads if it is a link that hostDriver made: into
// StateDir, or to an installation. Else it is "".
func (h *Host) OwnLink(dir string) string {
	at, err := h.Root.Resolve(path.Dir(dir))
	if err != nil {
		return ""
	}
	target, err := h.Root.Readlink(dir)
	if err != nil {
		return ""
	}
	if !path.IsAbs(target) {
		target = path.Join(at, target)
	}
	if target == path.Join(StateDir, KeptAs(dir)) {
		return target
	}
	lib, err := h.Root.Readlink(path.Join(target, "lib"))
	if err == nil && path.Base(target) == KeptAs(dir) && strings.HasPrefix(lib, Generation) {
		return target
	}
	return ""
}

// LinkOwner returns what made a driver link, or the directory that it is in, a link into a Nix store, "" where it is
// none. The names are those of the packages in NixOS's hardware.graphics, nix-system-graphics' graphics.nix and Home
// Manager's gpu-libs-env.nix.
func (h *Host) LinkOwner(link string) string {
	target, err := h.Root.Readlink(path.Dir(link))
	switch {
	case err != nil || !store.Contains(target):
		return ""
	case h.Root.Exists("/etc/NIXOS"):
		return "NixOS"
	case strings.HasSuffix(target, "-non-nixos-gpu"):
		return "Home Manager's targets.genericLinux.gpu"
	case strings.HasSuffix(target, "-graphics-drivers"):
		return "nix-system-graphics"
	}
	return "another module"
}

// A place is a directory where a driver may be, and why it is looked at.
type place struct {
	dir    string
	source string
}

// known returns the places that distributions, installers and container runtimes
// use, the most usual first; patterns are those of path.Match.
func (m Machine) known() []place {
	multiarch := "/usr/lib/" + m.triple
	all := []place{
		{multiarch, "Debian and Ubuntu; NVIDIA container toolkit"},
		{multiarch + "/nvidia/current", "Debian's alternatives"},
		{multiarch + "/nvidia", "Jetson from L4T 36 on"},
		{multiarch + "/tegra", "Jetson"},
		{multiarch + "/tegra-egl", "Jetson"},
		{"/lib/" + m.triple, "Debian before the merge of /usr"},
	}
	for _, dir := range m.libs {
		all = append(all, place{dir, "Fedora, openSUSE, Arch, Gentoo; NVIDIA's installer"},
			place{dir + "/nvidia", "Fedora's and RHEL's older packages"})
	}
	all = append(all,
		place{"/usr/lib/nvidia", "Arch and others"},
		place{"/usr/lib/nvidia-[0-9]*", "Ubuntu up to 18.04"},
	)
	if m.Class == elf.ELFCLASS64 {
		all = append(all,
			place{"/usr/local/nvidia/lib64", "containers on Kubernetes"},
			place{"/home/kubernetes/bin/nvidia/lib64", "Container-Optimized OS"},
			place{"/opt/nvidia/lib64", "Bottlerocket and others"},
		)
	}
	return append(all,
		place{"/usr/local/nvidia/lib", "containers on Kubernetes"},
		place{"/run/nvidia/driver/usr/lib/" + m.triple, "NVIDIA's driver container"},
		place{"/run/nvidia/driver/usr/lib64", "NVIDIA's driver container"},
		place{"/usr/lib/" + m.triple + "/GL/nvidia-*/lib", "Flatpak"},
		place{"/var/lib/snapd/lib/gl", "snaps"},
		place{"/run/current-system/profile/lib", "nonguix, on Guix System"},
		place{driver.LinkFor(m.Machine), "NixOS"},
	)
}
