package offer

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
	"golang.org/x/sys/unix"
)

const (
	icd      = `{"file_format_version": "1.0.1", "ICD": {"library_path": "libGLX_nvidia.so.0", "api_version": "1.3.242", "size": 12345678901234567890}}`
	layers   = `{"file_format_version": "1.0.0", "layers": [{"name": "VK_LAYER_NV_optimus", "library_path": "/usr/lib64/libGLX_nvidia.so.0"}, {"name": "VK_LAYER_NV_present", "library_path": "libnvidia-present.so.535.1.2"}]}`
	optimus  = `{"layer": {"name": "VK_LAYER_NV_optimus", "library_path": "libGLX_nvidia.so.0"}}`
	platform = `{"file_format_version": "1.0.0", "ICD": {"library_path": "libnvidia-egl-wayland.so.1"}}`
	mesa     = `{"ICD": {"library_path": "libvulkan_lvp.so", "api_version": "1.3.0"}}`
)

// graphics returns a host with a driver that has more than CUDA, and files of it.
func graphics(t *testing.T, files map[string]string) (*host.Host, *host.Driver) {
	t.Helper()
	root := t.TempDir()
	put := func(name string, b []byte) {
		at := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, soname := range map[string]string{"libcuda": "libcuda.so.1", "libGLX_nvidia": "libGLX_nvidia.so.0", "libEGL_nvidia": "libEGL_nvidia.so.0",
		"libnvidia-opencl": "libnvidia-opencl.so.1", "libnvidia-allocator": "libnvidia-allocator.so.1", "libnvoptix": "libnvoptix.so.1",
		"libnvidia-present": "libnvidia-present.so.535.1.2", "libnvidia-egl-wayland": "libnvidia-egl-wayland.so.1", "vdpau/libvdpau_nvidia": "libvdpau_nvidia.so.1"} {
		o := tinyelf.Object{}.With(elf.DT_SONAME, soname)
		if name == "vdpau/libvdpau_nvidia" {
			o = o.Needs("libX11.so.6")
		}
		put("usr/lib64/"+name+".so.535.1.2", o.Bytes())
	}
	put("usr/lib64/libX11.so.6", tinyelf.Object{}.With(elf.DT_SONAME, "libX11.so.6").Bytes())
	for name, text := range files {
		put(name, []byte(text))
	}
	h := &host.Host{Root: sysroot.Root{Dir: root}}
	m, err := host.MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	d, err := h.Find(m)
	if err != nil {
		t.Fatal(err)
	}
	return h, d
}

// texts returns an offer's vendor files and what it has in libvdpau's and libgbm's directories.
func texts(o *Offer, dir string) map[string]string {
	got := map[string]string{}
	for _, e := range o.Entries {
		switch {
		case e.Vendor != nil:
			got[e.Name] = string(e.Vendor.Text(dir))
			if strings.HasSuffix(e.Name, ".json") {
				var doc any
				decoder := json.NewDecoder(strings.NewReader(got[e.Name]))
				decoder.UseNumber()
				decoder.Decode(&doc)
				b, _ := json.Marshal(doc)
				got[e.Name] = string(b)
			}
		case strings.Contains(e.Name, "/") && !strings.HasPrefix(e.Name, host.HostDir):
			got[e.Name] = strings.TrimPrefix(strings.TrimPrefix(e.Target+e.Copy+" "+e.RunPath, o.Root.Dir), "..")
		}
	}
	return got
}

// What the host's files say is kept, the libraries' names become absolute, and what is not the driver's stays away.
func TestVendorFiles(t *testing.T) {
	h, d := graphics(t, map[string]string{
		"usr/share/vulkan/icd.d/nvidia_icd.json":                        icd,
		"usr/share/vulkan/icd.d/nvidia_icd.x86_64.json":                 icd, // the same library: its GPUs would be shown twice
		"usr/share/vulkan/icd.d/lvp_icd.json":                           mesa,
		"etc/vulkan/icd.d/a32.json":                                     `{"ICD": {"library_path": "libGLX_nvidia.so.0", "library_arch": "32"}}`,
		"usr/share/vulkan/implicit_layer.d/nvidia_layers.json":          layers,
		"etc/vulkan/implicit_layer.d/optimus.json":                      optimus,
		"usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json":  platform,
		"usr/share/nvidia/nvoptix.bin":                                  "weights",
		"etc/OpenCL/vendors/pocl.icd":                                   "/usr/lib64/libpocl.so.2\n",
		"etc/OpenCL/vendors/nvidia.icd":                                 "libnvidia-opencl.so.1",
		"usr/share/vulkan/implicit_layer.d/of two vendors.json":         layers,
		"usr/share/vulkan/implicit_layer.d/VkLayer_MESA_overlay.json":   `{"layer": {"library_path": "libVkLayer_MESA_device_select.so"}}`,
		"usr/share/vulkan/implicit_layer.d/part_of_another_vendor.json": strings.Replace(layers, "libnvidia-present.so.535.1.2", "/tmp/evil.so", 1),
	})
	want := map[string]string{
		"share/vulkan/icd.d/nvidia_icd.json":                       `{"ICD":{"api_version":"1.3.242","library_path":"/at/libGLX_nvidia.so.0","size":12345678901234567890},"file_format_version":"1.0.1"}`,
		"share/vulkan/implicit_layer.d/optimus.json":               `{"layer":{"library_path":"/at/libGLX_nvidia.so.0","name":"VK_LAYER_NV_optimus"}}`,
		"share/vulkan/implicit_layer.d/nvidia_layers.json":         `{"file_format_version":"1.0.0","layers":[{"library_path":"/at/libGLX_nvidia.so.0","name":"VK_LAYER_NV_optimus"},{"library_path":"/at/libnvidia-present.so.535.1.2","name":"VK_LAYER_NV_present"}]}`,
		"share/egl/egl_external_platform.d/10_nvidia_wayland.json": `{"ICD":{"library_path":"/at/libnvidia-egl-wayland.so.1"},"file_format_version":"1.0.0"}`,
		"share/glvnd/egl_vendor.d/10_nvidia.json":                  `{"ICD":{"library_path":"/at/libEGL_nvidia.so.0"},"file_format_version":"1.0.0"}`, // made: the host has none
		"etc/OpenCL/vendors/nvidia.icd":                            "/at/libnvidia-opencl.so.1\n",
		"gbm/nvidia-drm_gbm.so":                                    "/libnvidia-allocator.so.1 ",
		"share/nvidia/nvoptix.bin":                                 "/usr/share/nvidia/nvoptix.bin ",
	}
	private := maps.Clone(want)
	private["vdpau/libvdpau_nvidia.so.1"] = "/usr/lib64/vdpau/libvdpau_nvidia.so.535.1.2 $ORIGIN/..:$ORIGIN/../host"
	want["vdpau/libvdpau_nvidia.so.1"] = "/libvdpau_nvidia.so.1 "
	for name, c := range map[string]struct {
		o    *Offer
		want map[string]string
	}{"links": {Links(d), want}, "private": {Private(h, d), private}} {
		if got := texts(c.o, "/at"); !maps.Equal(got, c.want) {
			t.Errorf("%s: %q\nwant %q", name, got, c.want)
		}
	}
	o := Private(h, d)
	key, err := o.Digest()
	if err != nil {
		t.Fatal(err)
	}
	in := hosttest.Open(t, t.TempDir())
	if err := o.Make(in, key, key); err != nil || !o.Same(in, key) {
		t.Fatal(err)
	}
	at := filepath.Join(in.Name(), key, "etc/OpenCL/vendors/nvidia.icd")
	if b, _ := os.ReadFile(at); string(b) != filepath.Join(in.Name(), key, "libnvidia-opencl.so.1")+"\n" {
		t.Errorf("%q: not where it is made", b)
	}
	if err := errors.Join(os.Remove(at), os.WriteFile(at, []byte("/tmp/evil.so\n"), 0o444)); err != nil || o.Same(in, key) {
		t.Errorf("another vendor file was not seen, %v", err)
	}
	if o.Seen = "/run/opengl-driver/lib"; true {
		if other, _ := o.Digest(); other == key {
			t.Error("seen elsewhere, the same key")
		}
	}
}

// Nothing that is put where vendors' files are is believed, and none of it keeps the driver away.
func TestHostileVendorFiles(t *testing.T) {
	h, d := graphics(t, map[string]string{
		"usr/share/vulkan/icd.d/huge.json":          `{"ICD": {"library_path": "libGLX_nvidia.so.0", "x": "` + strings.Repeat("x", 1<<20) + `"}}`,
		"usr/share/vulkan/icd.d/deep.json":          strings.Repeat("[", 30000),
		"usr/share/vulkan/icd.d/list.json":          `[1]`,
		"usr/share/vulkan/icd.d/null.json":          `null`,
		"usr/share/vulkan/icd.d/number.json":        `{"ICD": {"library_path": 7}}`,
		"usr/share/vulkan/icd.d/string.json":        `{"ICD": "libGLX_nvidia.so.0"}`,
		"usr/share/vulkan/icd.d/dots.json":          `{"ICD": {"library_path": "libGLX_nvidia.so.0/../../../tmp/evil.so"}}`,
		"usr/share/vulkan/icd.d/empty.json":         `{"ICD": {"library_path": ""}}`,
		"usr/share/vulkan/icd.d/a=b\n.json":         icd,
		"usr/share/vulkan/icd.d/..json":             icd,
		"usr/share/vulkan/icd.d/.hidden.json":       icd,
		"usr/share/vulkan/icd.d/dir.json/file":      "",
		"usr/share/vulkan/icd.d/a:b.json":           icd,
		"usr/share/vulkan/icd.d/\x1b[31m.json":      icd,
		"usr/share/glvnd/egl_vendor.d/garbage.json": "\x00\xff",
		"etc/OpenCL/vendors/nvidia.icd":             "libnvidia-opencl.so.1/..\nlibnvidia-opencl.so.1\n",
	})
	want := map[string]string{
		"share/glvnd/egl_vendor.d/10_nvidia.json": `{"ICD":{"library_path":"/at/libEGL_nvidia.so.0"},"file_format_version":"1.0.0"}`,
		"etc/OpenCL/vendors/nvidia.icd":           "/at/libnvidia-opencl.so.1\n",
		"gbm/nvidia-drm_gbm.so":                   "/libnvidia-allocator.so.1 ",
		"vdpau/libvdpau_nvidia.so.1":              "/libvdpau_nvidia.so.1 ",
	}
	if got := texts(Links(d), "/at"); !maps.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	writable := filepath.Join(h.Root.Dir, "etc/vulkan/icd.d/nvidia_icd.json")
	dir := filepath.Dir(writable)
	if err := errors.Join(os.MkdirAll(dir, 0o755), unix.Mkfifo(filepath.Join(dir, "fifo.json"), 0o644), os.Symlink("fifo.json", filepath.Join(dir, "link.json")),
		os.Symlink("loop.json", filepath.Join(dir, "loop.json")), os.Symlink("/dev/zero", filepath.Join(dir, "zero.json")), os.WriteFile(writable, []byte(icd), 0o666), os.Chmod(writable, 0o666)); err != nil {
		t.Fatal(err)
	}
	if d, err := h.Find(machine(t)); err != nil || len(d.Vendors) != 2 {
		t.Errorf("a file that anyone can write: %d, %v", len(d.Vendors), err)
	}
}

func machine(t *testing.T) host.Machine {
	t.Helper()
	m, err := host.MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What graphics libraries open by name of the host's is offered to the copies, where the host has it: without libglvnd's EGL
// there is no Vulkan without a display.
func TestLibrariesOpenedByName(t *testing.T) {
	h, _ := graphics(t, nil)
	for name, o := range map[string]tinyelf.Object{
		"libGLX_nvidia.so.535.1.2": tinyelf.Object{Data: "x\x00libEGL.so.1\x00libX11-xcb.so.1\x00libevil.so.1\x00"}.With(elf.DT_SONAME, "libGLX_nvidia.so.0"),
		"libEGL.so.1":              tinyelf.Object{}.With(elf.DT_SONAME, "libEGL.so.1").Needs("libGLdispatch.so.0"),
		"libGLdispatch.so.0":       tinyelf.Object{}.With(elf.DT_SONAME, "libGLdispatch.so.0"),
		"libevil.so.1":             tinyelf.Object{}.With(elf.DT_SONAME, "libevil.so.1"),
	} {
		if err := os.WriteFile(filepath.Join(h.Root.Dir, "usr/lib64", name), o.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := h.Find(machine(t))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range Private(h, d).Entries {
		if e.Name == "libGLX_nvidia.so.0" || strings.HasPrefix(e.Name, host.HostDir) {
			got[e.Name] = e.RunPath
		}
	}
	want := map[string]string{"libGLX_nvidia.so.0": "$ORIGIN:$ORIGIN/host", "host/libEGL.so.1": "$ORIGIN:$ORIGIN/..", "host/libGLdispatch.so.0": "", "host/libX11.so.6": ""}
	if !maps.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// Where the driver is a volume, or in a prefix of its own, its files are beside its libraries, and come first.
func TestVendorFilesOfAPrefix(t *testing.T) {
	for _, prefix := range []string{"usr/local/nvidia", "run/nvidia/driver/usr"} {
		root := t.TempDir()
		etc := filepath.Join(strings.TrimSuffix(prefix, "/usr"), "etc")
		files := map[string]string{
			prefix + "/share/vulkan/icd.d/nvidia_icd.json":      icd,
			"usr/share/vulkan/icd.d/nvidia_icd.json":            strings.Replace(icd, "1.3.242", "9", 1),
			etc + "/vulkan/implicit_layer.d/nvidia_layers.json": optimus,
			"etc/vulkan/implicit_layer.d/nvidia_layers.json":    strings.Replace(optimus, "optimus", "other", 1),
			prefix + "/share/glvnd/egl_vendor.d/99_nvidia.json": strings.Replace(platform, "libnvidia-egl-wayland.so.1", "libEGL_nvidia.so.0", 1),
			prefix + "/share/nvidia/nvoptix.bin":                "weights",
			etc + "/OpenCL/vendors/volume.icd":                  "libnvidia-opencl.so.1\n",
		}
		for _, name := range []string{"libcuda.so.1", "libGLX_nvidia.so.0", "libEGL_nvidia.so.0", "libnvidia-opencl.so.1", "libnvoptix.so.1"} {
			files[prefix+"/lib64/"+name] = string(tinyelf.Object{}.With(elf.DT_SONAME, name).Bytes())
		}
		for name, text := range files {
			at := filepath.Join(root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		h := &host.Host{Root: sysroot.Root{Dir: root}}
		m, _ := host.MachineNamed("x86_64")
		d, err := h.Find(m)
		if err != nil {
			t.Fatal(err)
		}
		got := texts(Private(h, d), "/at")
		want := map[string]string{
			"share/vulkan/icd.d/nvidia_icd.json":               `{"ICD":{"api_version":"1.3.242","library_path":"/at/libGLX_nvidia.so.0","size":12345678901234567890},"file_format_version":"1.0.1"}`,
			"share/vulkan/implicit_layer.d/nvidia_layers.json": `{"layer":{"library_path":"/at/libGLX_nvidia.so.0","name":"VK_LAYER_NV_optimus"}}`,
			"share/glvnd/egl_vendor.d/99_nvidia.json":          `{"ICD":{"library_path":"/at/libEGL_nvidia.so.0"},"file_format_version":"1.0.0"}`,
			"etc/OpenCL/vendors/volume.icd":                    "/at/libnvidia-opencl.so.1\n",
			"share/nvidia/nvoptix.bin":                         "/" + prefix + "/share/nvidia/nvoptix.bin ",
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %q\nwant %q", prefix, got, want)
		}
	}
}
