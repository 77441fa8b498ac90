package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/sysroot"
)

func TestVersions(t *testing.T) {
	for name, want := range map[string]string{
		"libcuda.so.535.261.03": "535.261.03", "libcuda.so.1": "", "libcuda.so.1.1": "", "libcuda.so": "",
		"/usr/lib/libnvidia-glcore.so.470.57": "470.57", "libX11.so.6.4.0": "", "libcudart.so.12.4.127": "",
		"libcuda.so.1.535.261": "", "libcuda.so.580.159.04.old": "",
	} {
		if got := VersionIn(name); got != want {
			t.Errorf("versionIn(%q) = %q, want %q", name, got, want)
		}
	}
}

func host(t *testing.T, files map[string]string) *Host {
	t.Helper()
	h := &Host{Root: sysroot.Root{Dir: t.TempDir()}}
	for name, data := range files {
		at := filepath.Join(h.Root.Dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// The first lines that the proprietary and the open kernel module write.
func TestKernelVersion(t *testing.T) {
	for _, test := range []struct {
		proc, sys string
		want      Kernel
	}{
		{"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jun  3 11:17:40 UTC 2025\nGCC version:  gcc version 12.2.0\n", "535.261.03\n",
			Kernel{"535.261.03", ProcVersion, ""}},
		{"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U16)  Thu 1\n", "",
			Kernel{"580.159.04", ProcVersion, ""}},
		{"NVRM version: NVIDIA UNIX aarch64 Kernel Module  470.57  Thu\n", "535.1\n", Kernel{"470.57", ProcVersion, "535.1"}},
		{"", "550.54.14\n", Kernel{"550.54.14", SysVersion, ""}},
		{"nothing of the kind\n", "\x00\xff", Kernel{}},
		{"", "", Kernel{}},
	} {
		files := map[string]string{}
		if test.proc != "" {
			files[ProcVersion] = test.proc
		}
		if test.sys != "" {
			files[SysVersion] = test.sys
		}
		if got := host(t, files).Kernel(); got != test.want {
			t.Errorf("%q, %q: %+v, want %+v", test.proc, test.sys, got, test.want)
		}
	}
}

// The text may be anywhere, across the pieces in which the file is read too.
func TestCUDAVersionInLibrary(t *testing.T) {
	const text = "Cuda compilation tools, release 12.2, V12.2.149"
	for _, at := range []int{0, 100, 1<<20 - 20, 1<<20 + 128 - 20, 1<<20 + 100, 3<<20 + 7} {
		b := strings.Repeat("\x00", at) + text + "\x00Cuda compilation tools, release %d.%d, V%s"
		if got := cudaInLibrary(host(t, map[string]string{"lib": b}).Root, "/lib"); got != "12.2" {
			t.Errorf("at %d: %q", at, got)
		}
	}
	for _, b := range []string{"", "Cuda compilation tools, release ", "x"} {
		if got := cudaInLibrary(host(t, map[string]string{"lib": b}).Root, "/lib"); got != "" {
			t.Errorf("%q: %q", b, got)
		}
	}
	for version, want := range map[string]string{"535.261.03": "12.2", "580.95.05": "13.0", "1.2": "", "": ""} {
		if got := cudaOfBranch(version); got != want {
			t.Errorf("cudaOfBranch(%q) = %q", version, got)
		}
	}
}

func TestDriverLinksOfMachines(t *testing.T) {
	for name, want := range map[string]string{"x86_64": driver.Link, "i686": driver.Link32, "arm64": driver.Link} {
		m, err := MachineNamed(name)
		if got := m.Link(DefaultPrefix); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	m, _ := MachineNamed("i386")
	if got := m.Link("/opt/driver"); got != "/opt/driver-32/lib" {
		t.Error(got)
	}
	if _, err := MachineNamed("vax"); err == nil {
		t.Error("no driver for that")
	}
}

// Of several drivers in Ubuntu's old layout, the newest: numbers compare as numbers.
func TestNewestDirectoryFirst(t *testing.T) {
	h := host(t, map[string]string{"usr/lib/nvidia-304/x": "", "usr/lib/nvidia-1080/x": "", "usr/lib/nvidia-390/x": ""})
	m, _ := MachineNamed("x86_64")
	_, places := h.places(m)
	var got []string
	for _, p := range places {
		if strings.Contains(p.dir, "nvidia-") {
			got = append(got, filepath.Base(p.dir))
		}
	}
	if want := []string{"nvidia-1080", "nvidia-390", "nvidia-304"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Links of another root are followed and read inside it: nothing outside says who owns its driver link.
func TestLinksOutsideARootAreNotRead(t *testing.T) {
	outside := t.TempDir()
	if err := os.Symlink("/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-non-nixos-gpu", filepath.Join(outside, "opengl-driver")); err != nil {
		t.Fatal(err)
	}
	h := on(t, tree{"run": "-> " + outside, "usr/lib64": "-> " + outside})
	m, _ := MachineNamed("x86_64")
	if got := h.LinkOwner(m.Link(DefaultPrefix)); got != "" {
		t.Errorf("made by %s", got)
	}
}
