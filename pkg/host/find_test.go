package host

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
)

type tree = hosttest.Tree

const version = hosttest.Version

var lib, core, loaded = hosttest.Lib, hosttest.Core, hosttest.Loaded

// on returns the host that files make.
func on(t *testing.T, files tree) *Host {
	t.Helper()
	return &Host{Root: sysroot.Root{Dir: files.Make(t)}}
}

var coreNames = []string{"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"}

// Where each kind of host has its driver, and what is found there. The directory is the one that is named; that the
// host's own loader takes it too is for tests/host, with ldconfig and the real files.
func TestFind(t *testing.T) {
	i386 := tinyelf.Object{Class: elf.ELFCLASS32, Machine: elf.EM_386}.With(elf.DT_SONAME, "libcuda.so.1")
	arm := func(soname string) tinyelf.Object {
		return tinyelf.Object{Machine: elf.EM_AARCH64}.With(elf.DT_SONAME, soname)
	}
	store := "/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-graphics-drivers"
	const l4t = "/usr/lib/aarch64-linux-gnu/"
	versioned := func(dir, version string) tree { // L4T's
		files := tree{l4t[1:] + dir + "/libcuda.so.1.1": arm("libcuda.so.1"), l4t[1:] + dir + "/libcuda.so.1": "-> libcuda.so.1.1"}
		for _, name := range []string{"libnvidia-ml", "libnvidia-ptxjitcompiler"} {
			files[l4t[1:]+dir+"/"+name+".so."+version] = arm(name + ".so.1")
			files[l4t[1:]+dir+"/"+name+".so.1"] = "-> " + name + ".so." + version
		}
		return files
	}
	for name, c := range map[string]struct {
		files     tree
		machine   string // x86_64 where it is not said
		directory string // "": no driver is found
		version   string
		names     []string
		others    string // further drivers
		rejected  string // part of the reason why a file is not used
	}{
		"Debian": {files: core("usr/lib/x86_64-linux-gnu/nvidia/current", version).With(tree{
			"usr/lib/x86_64-linux-gnu/libcuda.so.1": "-> /etc/alternatives/cuda", "etc/alternatives/cuda": "-> /usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1"}),
			directory: "/usr/lib/x86_64-linux-gnu", version: version, names: coreNames},
		"Fedora, with 32 bits": {files: core("usr/lib64", version).With(tree{"usr/lib/libcuda.so.1": i386}), directory: "/usr/lib64", version: version, names: coreNames},
		"its 32 bits":          {files: core("usr/lib64", version).With(tree{"usr/lib/libcuda.so.1": i386}), machine: "i386", directory: "/usr/lib", names: []string{"libcuda.so.1"}},
		"Arch":                 {files: core("usr/lib", version).With(tree{"usr/lib64": "-> lib"}), directory: "/usr/lib64", version: version, names: coreNames},
		"Ubuntu's old layout":  {files: core("usr/lib/nvidia-390", "390.157").With(core("usr/lib/nvidia-1080", version)), directory: "/usr/lib/nvidia-1080", version: version, names: coreNames, others: "/usr/lib/nvidia-390/libcuda.so.390.157"},
		"WSL": {files: core("usr/lib/x86_64-linux-gnu", version).With(tree{"usr/lib/wsl/lib/libcuda.so.1": lib("libcuda.so.1"), "usr/lib/wsl/lib/libcuda.so.1.1": lib("libcuda.so.1"), "usr/lib/wsl/lib/libnvidia-ml.so.1": lib("libnvidia-ml.so.1")}),
			directory: "/usr/lib/wsl/lib", names: coreNames[:2], others: "/usr/lib/x86_64-linux-gnu/libcuda.so." + version},
		"Jetson": {machine: "aarch64", directory: "/usr/lib/aarch64-linux-gnu/tegra", names: []string{"libEGL_nvidia.so.0", "libcuda.so.1", "libnvrm_gpu.so"}, files: tree{
			"usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1": arm("libcuda.so.1"), "usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1": "-> libcuda.so.1.1",
			"usr/lib/aarch64-linux-gnu/tegra/libnvrm_gpu.so": arm("libnvrm_gpu.so"), "usr/lib/aarch64-linux-gnu/tegra-egl/libEGL_nvidia.so.0": arm("libEGL_nvidia.so.0")}},
		// L4T 39, where ld.so.conf.d/000-nvidia-gpu-libs.conf says which of two drivers is the board's (Thor's; Orin's is nvgpu).
		"Jetson, L4T 39": {machine: "aarch64", directory: "/opt/nvidia/l4t-gpu-libs/openrm", names: []string{"libcuda.so.1", "libnvcuvid.so.1"}, files: tree{
			"opt/nvidia/l4t-gpu-libs/openrm/libcuda.so.1.1": arm("libcuda.so.1"), "opt/nvidia/l4t-gpu-libs/openrm/libcuda.so.1": "-> libcuda.so.1.1",
			"opt/nvidia/l4t-gpu-libs/openrm/libnvcuvid.so.1": arm("libnvcuvid.so.1"), "opt/nvidia/l4t-gpu-libs/nvgpu/libcuda.so.1": arm("libcuda.so.1"),
			"etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n", "etc/ld.so.conf.d/000-nvidia-gpu-libs.conf": "/opt/nvidia/l4t-gpu-libs/openrm\n"}},
		// Names as in meta-tegra's recipes: of what stands beside the libcuda.so.1.1, much has a version.
		"Jetson, JetPack 6": {machine: "aarch64", directory: l4t + "nvidia", names: []string{"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"}, files: versioned("nvidia", "540.4.0")},
		"Jetson, R32":       {machine: "aarch64", directory: l4t + "tegra", names: []string{"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"}, files: versioned("tegra", "440.18")},
		"Jetson, two versions, of which one is loaded": {machine: "aarch64", directory: l4t + "nvidia", names: []string{"libcuda.so.1", "libnvidia-ptxjitcompiler.so.1"}, files: versioned("nvidia", "540.4.0").With(loaded("540.5.0")).With(tree{
			l4t[1:] + "nvidia/libnvidia-ptxjitcompiler.so.540.5.0": arm("libnvidia-ptxjitcompiler.so.1")})},
		"Jetson, two versions": {machine: "aarch64", directory: l4t + "nvidia", names: []string{"libcuda.so.1"}, files: versioned("nvidia", "540.4.0").With(tree{
			l4t[1:] + "nvidia/libnvidia-ml.so.540.5.0": arm("libnvidia-ml.so.1"), l4t[1:] + "nvidia/libnvidia-ml.so.1": "-> libnvidia-ml.so.540.5.0"})},
		"Jetson, and another driver's library elsewhere": {machine: "aarch64", directory: l4t + "tegra", names: []string{"libcuda.so.1"}, files: tree{
			l4t[1:] + "tegra/libcuda.so.1": arm("libcuda.so.1"), "usr/lib64/libnvidia-ml.so.1": "-> libnvidia-ml.so.540.4.0", "usr/lib64/libnvidia-ml.so.540.4.0": arm("libnvidia-ml.so.1")}},
		// Windows' libcuda.so.1.1 has no version either, and what a Linux driver's packages put beside it is not for it.
		"WSL, and Linux' driver in it": {files: tree{"usr/lib/wsl/lib/libcuda.so.1.1": lib("libcuda.so.1"), "usr/lib/wsl/lib/libcuda.so.1": "-> libcuda.so.1.1", "sys/module/nvidia/version": version + "\n",
			"usr/lib/wsl/lib/libnvidia-ptxjitcompiler.so.1": "-> libnvidia-ptxjitcompiler.so." + version, "usr/lib/wsl/lib/libnvidia-ptxjitcompiler.so." + version: lib("libnvidia-ptxjitcompiler.so.1")},
			directory: "/usr/lib/wsl/lib", names: coreNames[:1]},
		"Apptainer": {files: tree{".singularity.d/libs/libcuda.so.1": lib("libcuda.so.1"), ".singularity.d/libs/libnvidia-ml.so.1": lib("libnvidia-ml.so.1"),
			".singularity.d/libs/libnvidia-ptxjitcompiler.so." + version: lib("libnvidia-ptxjitcompiler.so.1")}.With(loaded(version)).With(core("usr/lib64", "525.60.13")),
			directory: "/.singularity.d/libs", names: coreNames, others: "/usr/lib64/libcuda.so.525.60.13"},
		"Debian's alternatives, Tesla": {files: core("usr/lib/x86_64-linux-gnu/nvidia/tesla-535", version).With(tree{"usr/lib/x86_64-linux-gnu/libcuda.so.1": "-> /usr/lib/x86_64-linux-gnu/nvidia/tesla-535/libcuda.so.1"}),
			directory: "/usr/lib/x86_64-linux-gnu", version: version, names: coreNames},
		"Kubernetes": {files: core("usr/local/nvidia/lib64", version), directory: "/usr/local/nvidia/lib64", version: version, names: coreNames},
		"NVIDIA's container toolkit": {files: tree{"usr/lib64/libcuda.so." + version: lib("libcuda.so.1"), "usr/lib64/libcuda.so.470.57.02": "", "usr/lib64/libcuda.so.1": "-> libcuda.so.470.57.02"},
			directory: "/usr/lib64", version: version, names: coreNames[:1], rejected: "an empty file, such as a container's runtime leaves"},
		"NixOS": {files: core(store[1:]+"/lib", version).With(tree{"run/opengl-driver": "-> " + store}), directory: "/run/opengl-driver/lib", version: version, names: coreNames},
		"Guix System, by nonguix": {files: core("gnu"+store[4:]+"/lib", version).With(tree{"run/current-system/profile": "-> /gnu" + store[4:]}),
			directory: "/run/current-system/profile/lib", version: version, names: coreNames},
		"ld.so.conf": {files: core("opt/driver", version).With(tree{"etc/ld.so.conf": "include ld.so.conf.d/*.conf\ninclude /etc/ld.so.conf\n", "etc/ld.so.conf.d/a.conf": "/opt/driver\n"}), directory: "/opt/driver", version: version, names: coreNames},
		"two, and one that the kernel module belongs to": {files: core("usr/lib64", version).With(core("opt/driver", "545.23.06")).With(loaded("545.23.06")).With(tree{"etc/ld.so.conf": "/usr/lib64\n/opt/driver\n"}),
			directory: "/opt/driver", version: "545.23.06", names: coreNames, others: "/usr/lib64/libcuda.so." + version},
		"a stub and a compat package first": {files: core("usr/lib64", version).With(core("usr/local/cuda/lib64/stubs", version)).With(core("usr/local/cuda/compat", "545.23.06")).With(tree{
			"etc/ld.so.conf": "/usr/local/cuda/lib64/stubs\n/usr/local/cuda/compat\n"}), directory: "/usr/lib64", version: version, names: coreNames, rejected: "a stub for linking"},
		"a compat package":               {files: core("usr/local/cuda/compat", "545.23.06").With(tree{"etc/ld.so.conf": "/usr/local/cuda/compat\n"}), rejected: "a compat package's"},
		"a link that leads into one":     {files: core("cuda/compat", version).With(tree{"usr/lib64/libcuda.so.1": "-> /cuda/compat/libcuda.so.1"}), rejected: "a compat package's"},
		"a link that leads into stubs":   {files: core("cuda/lib/stubs", version).With(tree{"usr/lib64/libcuda.so.1": "-> /cuda/lib/stubs/libcuda.so.1"}), rejected: "a stub"},
		"none":                           {files: tree{"usr/lib64/": nil}},
		"a script":                       {files: tree{"usr/lib64/libcuda.so.1": "#!/bin/sh\n"}, rejected: "not an ELF file"},
		"a dangling link":                {files: tree{"usr/lib64/libcuda.so.1": "-> libcuda.so." + version}, rejected: "a dangling link to libcuda.so." + version},
		"a link out of the tree":         {files: tree{"usr/lib64/libcuda.so.1": "-> ../../../../../../../../../../../bin/sh"}, rejected: "a dangling link"},
		"a link to itself":               {files: tree{"usr/lib64/libcuda.so.1": "-> libcuda.so.1"}, rejected: "too many levels of symbolic links"},
		"a directory":                    {files: tree{"usr/lib64/libcuda.so.1/": nil}, rejected: "not a regular file"},
		"a library cut off":              {files: tree{"usr/lib64/libcuda.so.1": string(lib("libcuda.so.1").Bytes()[:200])}, rejected: "not used"},
		"another library under its name": {files: tree{"usr/lib64/libcuda.so.1": lib("libnvidia-ml.so.1")}, rejected: `its soname is "libnvidia-ml.so.1"`},
		"one for another machine":        {files: tree{"usr/lib64/libcuda.so.1": arm("libcuda.so.1")}},
		"a cache that is none":           {files: core("usr/lib64", version).With(tree{"etc/ld.so.cache": "glibc-ld.so.cache1.1\xff\xff\xff\xff" + strings.Repeat("\x00", 100)}), directory: "/usr/lib64", version: version, names: coreNames},
		"a cache that is a directory":    {files: core("usr/lib64", version).With(tree{"etc/ld.so.cache/": nil}), directory: "/usr/lib64", version: version, names: coreNames},
	} {
		if c.machine == "" {
			c.machine = "x86_64"
		}
		m, err := MachineNamed(c.machine)
		if err != nil {
			t.Fatal(err)
		}
		d, err := on(t, c.files).Find(m)
		if (err == nil) != (c.directory != "") {
			t.Errorf("%s: %v, rejected: %v", name, err, d.Rejected)
			continue
		}
		var names []string
		for _, l := range d.Libraries {
			names = append(names, l.Soname)
		}
		if d.Directory != c.directory || d.Version != c.version || !slices.Equal(names, c.names) {
			t.Errorf("%s: %s %q: %q", name, d.Directory, d.Version, names)
		}
		if got := strings.Join(d.Others, " "); c.directory != "" && got != c.others {
			t.Errorf("%s: the others are %q", name, got)
		}
		if got := fmt.Sprint(d.Rejected); c.rejected != "" && c.rejected != "not used" && !strings.Contains(got, c.rejected) || c.rejected == "" && len(d.Rejected) > 0 || c.rejected != "" && len(d.Rejected) == 0 {
			t.Errorf("%s: rejected: %s", name, got)
		}
	}
}

// Which libcuda.so.1 a program finds by LD_LIBRARY_PATH. Who may replace it is no question: it is loaded anyway.
func TestByLibraryPath(t *testing.T) {
	h := on(t, core("a/driver", version).With(core("a/compat", version)).With(core("a/stubs", version)).With(tree{"a/text/libcuda.so.1": "text",
		"a/arm/libcuda.so.1": tinyelf.Object{Machine: elf.EM_AARCH64}.With(elf.DT_SONAME, "libcuda.so.1"), "a/anybodys/libcuda.so.1": lib("libcuda.so.1")}))
	if err := os.Chmod(filepath.Join(h.Root.Dir, "a/anybodys"), 0o777); err != nil {
		t.Fatal(err)
	}
	m, _ := MachineNamed("x86_64")
	for list, want := range map[string]string{
		"/a/driver": "/a/driver", "/none:/a/arm:/a/text;/a/driver:/a/anybodys": "/a/driver", "/a/anybodys": "/a/anybodys",
		"": "", "a/driver": "", "/a/compat": "", "/a/stubs": "", "/a/arm": "",
	} {
		if got := h.ByLibraryPath(list, m); got != strings.TrimPrefix(want+"/libcuda.so.1", "/libcuda.so.1") {
			t.Errorf("%q: %q", list, got)
		}
	}
}

// What somebody else could exchange is no driver.
func TestWhoElseCanWrite(t *testing.T) {
	// grant lets user 1234 write a file, as far as a mask does (acl(5), linux/posix_acl_xattr.h).
	grant := func(name string, mask uint16) error {
		b := binary.LittleEndian.AppendUint32(nil, 2)
		for _, e := range []aclEntry{{0x01, 6, ^uint32(0)}, {aclUser, 6, 1234}, {aclGroupObj, 4, ^uint32(0)}, {aclMask, mask, ^uint32(0)}, {aclOther, 4, ^uint32(0)}} {
			b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, e.tag), e.perm), e.id)
		}
		return syscall.Setxattr(name, "system.posix_acl_access", b, 0)
	}
	file := "usr/lib64/libcuda.so." + version
	for name, c := range map[string]struct {
		change func(at func(string) string) error
		why    string // "": it is used all the same
		root   bool   // only root can make this
	}{
		"the directory":                {func(at func(string) string) error { return os.Chmod(at("usr/lib64"), 0o777) }, "anyone can write /usr/lib64", false},
		"a directory above it":         {func(at func(string) string) error { return os.Chmod(at("usr"), 0o777) }, "anyone can write /usr", false},
		"the file":                     {func(at func(string) string) error { return os.Chmod(at(file), 0o646) }, "anyone can write the file", false},
		"a FIFO":                       {func(at func(string) string) error { os.Remove(at(file)); return syscall.Mkfifo(at(file), 0o644) }, "not a regular file", false},
		"somebody else's file":         {func(at func(string) string) error { return os.Chown(at(file), 1234, 0) }, "the file belongs to user 1234", true},
		"a group's file":               {func(at func(string) string) error { os.Chmod(at(file), 0o664); return os.Chown(at(file), 0, 1234) }, "group 1234 can write the file", true},
		"a file of the system's group": {func(at func(string) string) error { os.Chmod(at(file), 0o664); return os.Chown(at(file), 0, 50) }, "", true},
		"a user of its access list":    {func(at func(string) string) error { return grant(at(file), 6) }, "user 1234 can write the file", false},
		"a user of its access list whom the mask stops": {func(at func(string) string) error { return grant(at(file), 4) }, "", false},
		"somebody else's link in a sticky directory": {func(at func(string) string) error {
			os.MkdirAll(at("opt"), 0o755)
			os.Chmod(at("opt"), 0o777|os.ModeSticky)
			os.Rename(at(file), at("usr/libcuda.so."+version))
			os.Symlink("/usr/libcuda.so."+version, at("opt/x"))
			os.Symlink("/opt/x", at(file))
			return os.Lchown(at("opt/x"), 1234, 0)
		}, "/opt/x belongs to user 1234", true},
	} {
		if c.root && os.Geteuid() != 0 {
			continue
		}
		h := on(t, core("usr/lib64", version))
		if err := c.change(func(name string) string { return filepath.Join(h.Root.Dir, name) }); errors.Is(err, syscall.ENOTSUP) {
			continue // a file system without access lists
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, _ := MachineNamed("x86_64")
		d, err := h.Find(m)
		if (err == nil) != (c.why == "") || c.why != "" && !strings.Contains(fmt.Sprint(d.Rejected), c.why) {
			t.Errorf("%s: %v, rejected: %v", name, err, d.Rejected)
		}
	}
}

// The host's own libraries that the driver's need are followed, and what is missing is said with who needs it.
func TestNeeds(t *testing.T) {
	h := on(t, core("usr/lib64", version).With(tree{
		"usr/lib64/libGLX_nvidia.so." + version: lib("libGLX_nvidia.so.0", "libX11.so.6", "libc.so.6", "libcuda.so.1"),
		"usr/lib64/libGLX_nvidia.so.0":          "-> libGLX_nvidia.so." + version,
		"usr/lib/x86_64-linux-gnu/libX11.so.6":  lib("libX11.so.6", "libxcb.so.1", "libm.so.6"),
	}))
	m, _ := MachineNamed("x86_64")
	d, err := h.Find(m)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range d.Needs {
		got = append(got, fmt.Sprint(n.Soname, " ", n.Path, " ", n.By))
	}
	if want := []string{"libX11.so.6 /usr/lib/x86_64-linux-gnu/libX11.so.6 [libGLX_nvidia.so.0]", "libxcb.so.1  [libX11.so.6]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The directory alone is that of the driver which is found, and no other library is looked at for it.
func TestDirectory(t *testing.T) {
	h := on(t, core("usr/lib64", "535.1.2").With(core("opt/nvidia/lib64", version)).With(loaded(version)))
	m, _ := MachineNamed("x86_64")
	dir, err := h.Directory(m)
	if err != nil || dir != "/opt/nvidia/lib64" {
		t.Error(dir, err)
	}
	for at := range h.verdicts {
		if strings.Contains(at, "libnvidia-ml") {
			t.Error(at, "was looked at")
		}
	}
	if d, err := h.Find(m); err != nil || d.Directory != dir {
		t.Error(d.Directory, err)
	}
}

// What the answer depends on is noticed when it changes, and nothing else is.
func TestInputs(t *testing.T) {
	var h *Host
	m, _ := MachineNamed("x86_64")
	changed := func() (names []string) {
		for _, in := range h.Inputs {
			if h.Identity(in.Path) != in.ID {
				names = append(names, in.Path)
			}
		}
		return names
	}
	at := func(name string) string { return filepath.Join(h.Root.Dir, name) }
	replaced := func(name string) error { // as dpkg, rpm and pacman do it
		return errors.Join(os.WriteFile(at(name+".new"), []byte("x"), 0o644), os.Rename(at(name+".new"), at(name)))
	}
	const eglcore, needed, rejected = "opt/driver/eglcore", "opt/x/libX11", "usr/lib64/libnvidia-opencl.so.1"
	for what, c := range map[string]struct {
		change func() error
		want   string
	}{
		"the file":           {func() error { return os.WriteFile(at("usr/lib64/libcuda.so."+version), []byte("x"), 0o755) }, "/usr/lib64/libcuda.so." + version},
		"another library":    {func() error { return replaced(eglcore) }, "/opt/driver"},
		"one that is needed": {func() error { return replaced(needed) }, "/opt/x"},
		"one is gone":        {func() error { return os.Remove(at("usr/lib64/libnvidia-ml.so." + version)) }, "/usr/lib64"},
		"its directory":      {func() error { return os.WriteFile(at("usr/lib64/new"), nil, 0o644) }, "/usr/lib64"},
		"a rejected one":     {func() error { return os.WriteFile(at(rejected), []byte("x"), 0o755) }, "/" + rejected},
		"the kernel module":  {func() error { return os.WriteFile(at("sys/module/nvidia/version"), []byte("1\n"), 0o644) }, "/sys/module/nvidia/version"},
		"the cache":          {func() error { os.Mkdir(at("etc"), 0o755); return os.WriteFile(at("etc/ld.so.cache"), nil, 0o644) }, "/etc/ld.so.cache"},
		"nothing":            {func() error { return os.WriteFile(at("elsewhere"), nil, 0o644) }, ""},
	} {
		h = on(t, core("usr/lib64", version).With(loaded(version)).With(tree{rejected: "",
			needed: lib("libX11.so.6"), "usr/lib/x86_64-linux-gnu/libX11.so.6": "-> /" + needed,
			eglcore: lib("libnvidia-eglcore.so."+version, "libX11.so.6"), "usr/lib64/libnvidia-eglcore.so." + version: "-> /" + eglcore}))
		time.Sleep(10 * time.Millisecond) // the kernel's clock for files is not exact
		if _, err := h.Find(m); err != nil {
			t.Fatal(err)
		}
		if early := changed(); early != nil {
			t.Fatalf("%s: changed before: %q", what, early)
		}
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if got := changed(); !slices.Contains(got, c.want) && (c.want != "" || got != nil) {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// Which driver links serve for a build as they are.
func TestLinkServes(t *testing.T) {
	m, _ := MachineNamed("x86_64")
	copies := tree{"run/opengl-driver/lib/libcuda.so.1": "-> libcuda.so." + version, "run/opengl-driver/lib/libcuda.so." + version: lib("libcuda.so.1")}
	for name, c := range map[string]struct {
		files tree
		want  bool
	}{
		"none":                            {tree{}, false},
		"links to the driver's own files": {tree{"run/opengl-driver/lib/libcuda.so.1": "-> /usr/lib64/libcuda.so.1"}, false},
		"copies":                          {copies, true},
		"copies of another driver":        {copies.With(loaded("545.23.06")), false},
		"a text":                          {tree{"run/opengl-driver/lib/libcuda.so.1": "text"}, false},
	} {
		h := on(t, core("usr/lib64", version).With(loaded(version)).With(c.files))
		if got := h.LinkServes(m, DefaultPrefix); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// NixOS' own is in place; what hostDriver made itself is no source for it.
	store := tree{"run/opengl-driver": "-> /nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-drivers"}.With(core("nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-drivers/lib", version))
	for name, c := range map[string]struct {
		files   tree
		inPlace bool
		found   string
	}{
		"NixOS":                   {store, true, "/run/opengl-driver/lib"},
		"NixOS, another module's": {store.With(loaded("545.23.06")), false, "/run/opengl-driver/lib"},
		"ours":                    {copies, false, ""},
	} {
		h := on(t, c.files)
		d, _ := h.Excluding(m, DefaultPrefix).Find(m)
		if got := h.InPlace(m, DefaultPrefix); got != c.inPlace || d.Directory != c.found {
			t.Errorf("%s: in place: %v, found in %q", name, got, d.Directory)
		}
	}
}

func TestDirectoryOfTheDriverAlone(t *testing.T) {
	h := on(t, core("a", version).With(core("b", version)).With(tree{"a/vdpau/x": "", "b/libc.so.6": ""}))
	for dir, want := range map[string]bool{"/a": true, "/b": false, "/none": false} {
		if got := h.OnlyDriver(dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
}
