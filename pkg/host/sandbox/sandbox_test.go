package sandbox

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/host/private"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	at := filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
}

func node(t *testing.T, root, name string) {
	t.Helper()
	at := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := hosttest.Node(at); err != nil {
		t.Skip("no device nodes can be made here: ", err)
	}
}

// What a build sees: devices, and files, each under the name that programs open.
func TestPaths(t *testing.T) {
	m, err := host.MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	cuda := string(tinyelf.Object{}.With(elf.DT_SONAME, driver.LibCUDA).Needs("libnvidia-ptxjitcompiler.so.1").Bytes())
	ptx := string(tinyelf.Object{}.With(elf.DT_SONAME, "libnvidia-ptxjitcompiler.so.1").Bytes())
	base := map[string]string{"usr/lib64/libcuda.so.1": cuda, "usr/lib64/libnvidia-ptxjitcompiler.so.1": ptx, "usr/share/x": ""}
	nodes := []string{"/dev/dri/card0", "/dev/nvidia0", "/dev/nvidiactl"}
	for name, c := range map[string]struct {
		nodes []string // nil: the usual ones
		more  map[string]string
		links map[string]string
		want  []string // GUEST=HOST, without the tree; CACHE is where private copies are
		err   string
	}{
		"private copies": {want: []string{"/dev/dri/card0=/dev/dri/card0", "/dev/nvidia0=/dev/nvidia0", "/dev/nvidiactl=/dev/nvidiactl",
			"/run/opengl-driver/lib/libcuda.so=CACHE/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1=CACHE/libcuda.so.1",
			"/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so=/usr/lib64/libnvidia-ptxjitcompiler.so.1", "/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so.1=/usr/lib64/libnvidia-ptxjitcompiler.so.1"}},
		"vendors' files": {more: map[string]string{"usr/lib64/libnvidia-opencl.so.1": string(tinyelf.Object{}.With(elf.DT_SONAME, "libnvidia-opencl.so.1").Bytes()),
			"usr/lib64/libnvoptix.so.1": string(tinyelf.Object{}.With(elf.DT_SONAME, "libnvoptix.so.1").Bytes()), "usr/share/nvidia/nvoptix.bin": "x"},
			want: []string{"/dev/dri/card0=/dev/dri/card0", "/dev/nvidia0=/dev/nvidia0", "/dev/nvidiactl=/dev/nvidiactl", "/run/opengl-driver/etc/OpenCL/vendors/nvidia.icd=CACHE/etc/OpenCL/vendors/nvidia.icd",
				"/run/opengl-driver/lib/libcuda.so=CACHE/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1=CACHE/libcuda.so.1",
				"/run/opengl-driver/lib/libnvidia-opencl.so=/usr/lib64/libnvidia-opencl.so.1", "/run/opengl-driver/lib/libnvidia-opencl.so.1=/usr/lib64/libnvidia-opencl.so.1",
				"/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so=/usr/lib64/libnvidia-ptxjitcompiler.so.1", "/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so.1=/usr/lib64/libnvidia-ptxjitcompiler.so.1",
				"/run/opengl-driver/lib/libnvoptix.so=/usr/lib64/libnvoptix.so.1", "/run/opengl-driver/lib/libnvoptix.so.1=/usr/lib64/libnvoptix.so.1",
				"/run/opengl-driver/share/nvidia/nvoptix.bin=/usr/share/nvidia/nvoptix.bin", "/usr/share/nvidia/nvoptix.bin=/usr/share/nvidia/nvoptix.bin"}},
		"copies in the driver link": {more: map[string]string{"run/opengl-driver/lib/libcuda.so.1": cuda, "run/opengl-driver/lib/host/libX11.so.6": "x"}, links: map[string]string{"run/opengl-driver/lib/libcuda.so": "libcuda.so.1", "run/opengl-driver/lib/dangling": "none"},
			want: []string{"/dev/dri/card0=/dev/dri/card0", "/dev/nvidia0=/dev/nvidia0", "/dev/nvidiactl=/dev/nvidiactl", "/run/opengl-driver/lib/host/libX11.so.6=/run/opengl-driver/lib/host/libX11.so.6",
				"/run/opengl-driver/lib/libcuda.so=/run/opengl-driver/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1=/run/opengl-driver/lib/libcuda.so.1"}},
		"copies on a disk, by both names": {more: map[string]string{"var/lib/hostDriver/opengl-driver/.hostDriver-0/libcuda.so.1": cuda, "var/lib/hostDriver/opengl-driver/.hostDriver-0/share/vulkan/icd.d/nvidia_icd.json": "{}"},
			links: map[string]string{"run/opengl-driver": "../var/lib/hostDriver/opengl-driver", "var/lib/hostDriver/opengl-driver/lib": ".hostDriver-0"},
			want: []string{"/dev/dri/card0=/dev/dri/card0", "/dev/nvidia0=/dev/nvidia0", "/dev/nvidiactl=/dev/nvidiactl",
				"/run/opengl-driver/lib/libcuda.so.1=/var/lib/hostDriver/opengl-driver/.hostDriver-0/libcuda.so.1",
				"/run/opengl-driver/share/vulkan/icd.d/nvidia_icd.json=/var/lib/hostDriver/opengl-driver/.hostDriver-0/share/vulkan/icd.d/nvidia_icd.json",
				"/var/lib/hostDriver/opengl-driver/lib/libcuda.so.1=/var/lib/hostDriver/opengl-driver/.hostDriver-0/libcuda.so.1",
				"/var/lib/hostDriver/opengl-driver/share/vulkan/icd.d/nvidia_icd.json=/var/lib/hostDriver/opengl-driver/.hostDriver-0/share/vulkan/icd.d/nvidia_icd.json"}},
		"links to the driver": {links: map[string]string{"run/opengl-driver/lib/libcuda.so.1": "/usr/lib64/libcuda.so.1"}, want: []string{"/dev/dri/card0=/dev/dri/card0", "/dev/nvidia0=/dev/nvidia0", "/dev/nvidiactl=/dev/nvidiactl",
			"/run/opengl-driver/lib/libcuda.so=CACHE/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1=CACHE/libcuda.so.1",
			"/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so=/usr/lib64/libnvidia-ptxjitcompiler.so.1", "/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so.1=/usr/lib64/libnvidia-ptxjitcompiler.so.1"}},
		"NixOS":         {more: map[string]string{"nix/store/x/libcuda.so.1": cuda}, links: map[string]string{"run/opengl-driver/lib": "/nix/store/x"}, err: "leads into the Nix store"},
		"a name with =": {nodes: []string{"/dev/nvidia0=x"}, err: "cannot be passed to Nix"},
		// A root's links lead nowhere outside of it, and what is no device is no GPU.
		"links out of the root, and files": {nodes: []string{"/dev/nvidia0", "/elsewhere/gpu"}, more: map[string]string{"dev/nvidia1": "", "dev/nvhost-gpu": "", "dev/dxg": "", "usr/lib/wsl/x": ""},
			links: map[string]string{"dev/nvidia2": "/../../dev/null", "dev/nvidiactl": "/../../../../elsewhere/gpu", "dev/dri": "/../../dev"},
			want: []string{"/dev/dri/nvidia0=/dev/nvidia0", "/dev/nvidia0=/dev/nvidia0", "/dev/nvidiactl=/elsewhere/gpu",
				"/run/opengl-driver/lib/libcuda.so=CACHE/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1=CACHE/libcuda.so.1",
				"/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so=/usr/lib64/libnvidia-ptxjitcompiler.so.1", "/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so.1=/usr/lib64/libnvidia-ptxjitcompiler.so.1"}},
		"a file in a GPU's place": {nodes: []string{"/dev/dri/card0"}, more: map[string]string{"dev/nvidia0": "", "dev/nvidiactl": ""}, err: "no NVIDIA GPU device"},
		"WSL": {nodes: []string{"/dev/dxg"}, links: map[string]string{"usr/lib/wsl": "/../../mnt/wsl"}, more: map[string]string{"mnt/wsl/lib/x": ""},
			want: []string{"/dev/dxg=/dev/dxg", "/run/opengl-driver/lib/libcuda.so=CACHE/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1=CACHE/libcuda.so.1",
				"/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so=/usr/lib64/libnvidia-ptxjitcompiler.so.1", "/run/opengl-driver/lib/libnvidia-ptxjitcompiler.so.1=/usr/lib64/libnvidia-ptxjitcompiler.so.1", "/usr/lib/wsl=/mnt/wsl"}},
	} {
		root := t.TempDir()
		for at, text := range base {
			write(t, root, at, text)
		}
		for at, text := range c.more {
			write(t, root, at, text)
		}
		if c.nodes == nil {
			c.nodes = nodes
		}
		for _, at := range c.nodes {
			node(t, root, at)
		}
		for at, target := range c.links {
			if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(at)), 0o755), os.Symlink(target, filepath.Join(root, at))); err != nil {
				t.Fatal(err)
			}
		}
		h := &host.Host{Root: sysroot.Root{Dir: root}}
		cache := filepath.Join(t.TempDir(), "cache")
		all, err := Paths(h, m, host.DefaultPrefix, func() (*private.Cache, error) { return private.OpenCache(cache) })
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var got []string
		for _, p := range all {
			from := strings.TrimPrefix(p.Host, root)
			if inside, ok := strings.CutPrefix(p.Host, cache+"/"); ok {
				_, file, _ := strings.Cut(inside, "/")
				from = "CACHE/" + file
			}
			got = append(got, p.Guest+"="+from)
			if b, _ := os.ReadFile(p.Host); strings.HasSuffix(p.Guest, ".icd") && string(b) != "/run/opengl-driver/lib/libnvidia-opencl.so.1\n" {
				t.Errorf("%s: %s names %q", name, p.Guest, b)
			}
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v\n%s", name, err, strings.Join(got, "\n"))
		}
	}
	if _, err := Paths(&host.Host{Root: sysroot.Root{Dir: t.TempDir()}}, m, host.DefaultPrefix, nil); err == nil || !strings.Contains(err.Error(), "no NVIDIA GPU device") {
		t.Error(err)
	}
	for want, p := range map[string]Path{"/a": {"/a", "/a"}, "/a=/b": {"/a", "/b"}} {
		if got := fmt.Sprint(p); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// In a store that is elsewhere, the derivation is beside the build's root directory.
func TestReadDerivation(t *testing.T) {
	root := t.TempDir()
	write(t, root, "nix/store/x.drv", "Derive(")
	build := filepath.Join(root, "nix/store/x.drv.chroot/root")
	for _, test := range []struct {
		drv, chroot string
		ok          bool
	}{
		{filepath.Join(root, "nix/store/x.drv"), "", true}, {"/nix/store/x.drv", build, true}, {"/nix/store/x.drv", "", false}, {"/nix/store/y.drv", build, false}, {root, "", false},
	} {
		b, err := ReadDerivation(test.drv, test.chroot)
		if (err == nil) != test.ok || test.ok && string(b) != "Derive(" {
			t.Errorf("%s, %s: %q, %v", test.drv, test.chroot, b, err)
		}
	}
}

// The hook is written where the lines are, and neither without the other.
func TestConfigure(t *testing.T) {
	h := &host.Host{Root: sysroot.Root{Dir: t.TempDir()}}
	const conf = "/etc/nix/nix.conf"
	dir := filepath.Join(h.Root.Dir, "etc/nix")
	hook := filepath.Join(dir, "hostDriver-sandbox")
	for i, changed := range []bool{true, false} {
		file, did, err := Configure(h, conf, HookFile(conf, "/a program"))
		if err != nil || file != conf || did != changed {
			t.Errorf("%d: %s %v %v", i, file, did, err)
		}
	}
	if b, err := os.ReadFile(hook); err != nil || !strings.Contains(string(b), "exec '/a program' sandbox -- ") {
		t.Errorf("%s, %v", b, err)
	}
	things, err := made.Read(h)
	if err != nil || len(things) != 2 {
		t.Errorf("on record: %v, %v", things, err)
	}
	if done := made.TakeBack(h, things, false); len(done) != 2 || done[0].Action != "removed" || done[1].Action != "removed" {
		t.Errorf("%+v", done)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for name, spoil := range map[string]func() error{
		"another hook in nix.conf": func() error {
			return os.WriteFile(filepath.Join(dir, "nix.conf"), []byte("pre-build-hook = /other\n"), 0o644)
		},
		"somebody's script":    func() error { return os.WriteFile(hook, []byte("mine"), 0o755) },
		"somebody's directory": func() error { os.Remove(hook); return os.Mkdir(hook, 0o755) },
	} {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755), spoil()); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadDir(dir)
		if _, _, err := Configure(h, conf, HookFile(conf, "/p")); err == nil {
			t.Errorf("%s: done", name)
		}
		if after, _ := os.ReadDir(dir); len(after) != len(before) {
			t.Errorf("%s: left %v", name, after)
		}
	}
}
