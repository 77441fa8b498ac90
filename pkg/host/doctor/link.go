package doctor

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"sort"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/nixconf"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
)

// checkLink says what the driver link holds, and returns whether it leads to the host's driver.
func (h *Doctor) checkLink(d *Diagnosis, drv *host.Driver, kernel host.Kernel, matters bool) bool {
	link := h.Machine.Link(h.Prefix)
	verdict := Warning
	if matters {
		verdict = Bad
	}
	install := d.offer(h.installing() + ", or start programs with: hostDriver run PROGRAM")
	entries, err := h.Root.ReadDir(link)
	if err != nil {
		d.add("driver link", verdict, link, install,
			"there is no %s, where programs from Nix find the driver", link)
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
	lib, err := h.ExamineCUDA(cuda, h.Machine)
	if err != nil {
		d.add("driver link", verdict, cuda, install, "%s: %v", cuda, err)
		return false
	}
	var stray []string
	for _, e := range entries {
		if !driver.Provides(e.Name()) && !host.IsOwnName(e.Name()) {
			stray = append(stray, e.Name())
		}
	}
	owner := h.LinkOwner(link)
	if owner == "" {
		h.checkInstallation(d, link, lib)
	}
	switch {
	case h.Root.IsHost() && plainfile.NoExec(at):
		d.add("driver link", verdict, at, install,
			"no library can be loaded from %s, because its file system is mounted noexec: --state-dir DIR of hostDriver "+
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
		d.add("driver link", Warning, link, "remove them, or: "+h.itself()+" install"+h.prefixFlag(),
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
func (h *Doctor) lacking(drv *host.Driver, link string) (names []string) {
	for _, lib := range drv.Libraries {
		if !h.Root.Exists(path.Join(link, lib.Soname)) {
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

// checkInstallation says what an installation loses by links, and by a boot.
func (h *Doctor) checkInstallation(d *Diagnosis, link string, lib host.Library) {
	if im, f, err := host.OpenImage(h.Root, lib.File); err == nil {
		_, list, err := im.RunPath()
		f.Close()
		if err == nil && list == "" {
			d.add("driver link", Warning, lib.File, h.itself()+" install"+h.prefixFlag(),
				"%s holds links, and through links a loader from Nix does not find what the driver's libraries open by name: "+
					"run-time compilation fails, and EGL and Vulkan miss parts of the driver", link).Error = 221
		}
	}
	if h.OwnLink(path.Dir(link)) != "" && h.Root.Exists(host.TmpfilesConf) && !h.Root.Exists(host.ServiceFile) {
		d.add("driver link", Warning, host.TmpfilesConf, h.itself()+" tmpfiles"+h.prefixFlag(),
			"nothing but the line for tmpfiles.d renews it: after an upgrade of the driver, the copies are still the "+
				"old one's")
	}
}

// checkStarted says whether the program that root's units and Nix's hook start is another one than this.
func (h *Doctor) checkStarted(d *Diagnosis) {
	const running, hook = "/proc/self/exe", "/etc/nix/" + nixconf.Hook
	if !h.Root.IsHost() || sameFile(host.Libexec, running) {
		return
	}
	for _, by := range []struct{ file, fix string }{{host.ServiceFile, "tmpfiles"}, {hook, "sandbox"}} {
		if b, err := h.Root.ReadFile(by.file, 1<<20); err == nil && bytes.Contains(b, []byte(host.Libexec)) &&
			h.Root.Exists(host.Libexec) {
			d.add("hostDriver", Note, by.file, h.itself()+" "+by.fix,
				"root starts %s, a copy of hostDriver that is older or newer than this program", host.Libexec)
		}
	}
}

// mostProgram bounds a copy of hostDriver, in bytes.
const mostProgram = 64 << 20

// sameFile reports whether two files of this machine have the same contents.
func sameFile(a, b string) bool {
	x, err := regular.Read(a, mostProgram)
	if err != nil {
		return false
	}
	y, err := regular.Read(b, mostProgram)
	return err == nil && bytes.Equal(x, y)
}

// installing returns what root is to run so that all programs find the driver.
func (h *Doctor) installing() string {
	link := h.Machine.Link(h.Prefix)
	install := h.itself() + " install" + h.prefixFlag()
	switch owner := h.LinkOwner(link); owner {
	case "":
		// which install leaves alone
		if target, err := h.Root.Readlink(path.Dir(link)); err == nil && h.OwnLink(path.Dir(link)) == "" {
			return fmt.Sprintf("remove %s, a link to %s, if nothing else needs it, then %s", path.Dir(link), target, install)
		}
		return install
	case "NixOS":
		return install
	default:
		return h.itself() + " install --beside, and hostDriverLinks among the packages of " + owner
	}
}

// prefixFlag is the flag by which hostDriver is told of the prefix, with a space before it; "" for the usual one.
func (h *Doctor) prefixFlag() string {
	if h.Prefix == host.DefaultPrefix {
		return ""
	}
	return " " + remedy.Quote("--prefix", h.Prefix)
}
