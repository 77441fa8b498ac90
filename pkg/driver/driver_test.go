package driver

import (
	"debug/elf"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestDriverProvidedLibraries(t *testing.T) {
	for name, want := range map[string]Class{
		"libcuda.so":                    CUDA,
		"libcuda.so.1":                  CUDA,
		"libcuda.so.1.1":                CUDA, // Jetson
		"libcuda.so.580.95.05":          CUDA,
		"libcudadebugger.so.1":          CUDA,
		"libnvidia-ml.so.1":             NVML,
		"libnvidia-ptxjitcompiler.so.1": Compiler,
		"libnvcuvid.so.1":               Video,
		"libnvidia-encode.so.1":         Video,
		"libnvoptix.so.1":               OptiX,
		"libnvidia-opencl.so.1":         OpenCL,
		"libEGL_nvidia.so.0":            Graphics,
		"libnvidia-eglcore.so.550.54":   Graphics,
		"libnvrm_gpu.so":                Tegra,
		"libnvrm_mem.so":                Tegra,
		"libnvdla_runtime.so":           Tegra,
		"libdxcore.so":                  WSL,
	} {
		if got, ok := Lookup(name); !ok || got.Class != want {
			t.Errorf("Lookup(%q) = %v, %v; want class %s", name, got, ok, want)
		}
		if Toolkit(name) {
			t.Errorf("%q is the driver's and the toolkit's", name)
		}
	}
	for _, name := range []string{
		"", ".so", "libc.so.6", "libcudart.so.12", "libcublas.so.12", "libcuda.so.conf", "libcuda.so.1/x",
		"/lib/libcuda.so.1", "libcuda.soup", "libcuda.so.", "libcuda", "xlibcuda.so.1", "libcuda.a",
		"libGL.so.1", "libEGL.so.1", "libOpenCL.so.1", "libvulkan.so.1", "libnvidia-container.so.1",
	} {
		if l, ok := Lookup(name); ok {
			t.Errorf("Lookup(%q) = %v", name, l)
		}
	}
}

func TestToolkitLibraries(t *testing.T) {
	for _, name := range []string{
		"libcudart.so.12", "libcudart.so.11.0", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11",
		"libcurand.so.10", "libcusolver.so.11", "libcusparse.so.12", "libnvrtc.so.12", "libnvrtc-builtins.so.12.4",
		"libnvJitLink.so.12", "libnppig.so.12", "libcudnn.so.9", "libcudnn_ops.so.9", "libnccl.so.2",
		"libcupti.so.12", "libnvinfer_plugin.so.10", "libcutensor.so.2", "libcudla.so.1", "libnvToolsExt.so.1",
	} {
		if !Toolkit(name) || Provides(name) || !NeedsDriver(name) {
			t.Errorf("%q: toolkit %v, driver %v", name, Toolkit(name), Provides(name))
		}
	}
	for _, name := range []string{"libstdc++.so.6", "libnpth.so.0", "libcud.so.1", "libnpp", ""} {
		if NeedsDriver(name) {
			t.Errorf("%q needs the driver?", name)
		}
	}
}

// Each row must be found by its own soname, no name may occur twice, and patterns must be well-formed.
func TestTableIsConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range libraries {
		if seen[l.Name] {
			t.Errorf("%s occurs twice", l.Name)
		}
		seen[l.Name] = true
		if _, err := path.Match(l.Name, ""); err != nil || !strings.HasSuffix(l.Name, ".so") || l.Class == "" {
			t.Errorf("row %+v: %v", l, err)
		}
		if l.Soname != "" && !l.Match(l.Soname) {
			t.Errorf("row %+v does not match its own soname", l)
		}
	}
	for _, p := range toolkit {
		if _, err := path.Match(p, ""); err != nil || seen[p] {
			t.Errorf("toolkit pattern %q: %v", p, err)
		}
	}
}

func TestDriverLinkIsRightForTheMachine(t *testing.T) {
	for m, want := range map[elf.Machine]string{
		elf.EM_386: Link32, elf.EM_X86_64: Link, elf.EM_AARCH64: Link, elf.EM_ARM: Link, elf.EM_PPC64: Link,
	} {
		if got := LinkFor(m); got != want {
			t.Errorf("%v: %s", m, got)
		}
	}
}

// The contract's rule: named so, or directly below one as lib or lib.real, and it holds libcuda.so.1 now; or it was named.
func TestCompatDirectories(t *testing.T) {
	full := func(name string) bool { return name == LibCUDA }
	bare := func(string) bool { return false }
	for dir, want := range map[string]bool{
		"/usr/local/cuda-13.0/compat":      true,
		"/usr/local/cuda/compat/":          true,
		"/usr/local/cuda/./compat":         true,
		"/usr/local/cuda/compat/lib":       true,
		"/usr/local/cuda/compat/lib.real/": true,
		"$ORIGIN/compat":                   true,
		"compat":                           true,
		"/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-cuda_compat-12.2/compat": true,
		"/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-cuda_compat-12.2/lib":    false,
		"/usr/local/cuda/compat/lib64":                                        false,
		"/usr/local/cuda/compat/lib/stubs":                                    false,
		"/usr/local/cuda/compat/x/lib":                                        false,
		"/usr/lib/cuda-compat-12-2":                                           false,
		"/usr/lib/compatible":                                                 false,
		"/usr/lib/x86_64-linux-gnu":                                           false,
		"/lib":                                                                false,
		"lib":                                                                 false,
		"":                                                                    false,
		"/":                                                                   false,
	} {
		if got := (CompatDirs{}).Contains(dir, full); got != want {
			t.Errorf("%q with libcuda.so.1: %v", dir, got)
		}
		if (CompatDirs{}).Contains(dir, bare) {
			t.Errorf("%q without libcuda.so.1 is one", dir)
		}
	}
	named := CompatDirs{Named: "/opt/newer/lib/"}
	if !named.Contains("/opt/newer//lib", bare) || named.Contains("/opt/newer", full) || named.Contains("", full) || !named.Contains("/x/compat", full) {
		t.Error("the named directory, in any spelling and whatever it holds, and the others beside it")
	}
}

func TestStubDirectories(t *testing.T) {
	const hash = "0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q"
	for entry, want := range map[string]bool{
		"/usr/local/cuda/lib64/stubs":                                       true,
		"/usr/local/cuda/lib64/stubs/":                                      true,
		"$ORIGIN/stubs":                                                     true,
		"/opt/cuda/stub/lib":                                                true,
		"/opt/cuda/targets/x86_64-linux/lib/stubs":                          true,
		"/nix/store/" + hash + "-cuda_cudart-12.2.140-stubs/lib":            true,
		"/nix/store/" + hash + "-cuda_cudart-12.2.140-stubs":                true,
		"/custom/store/" + hash + "-cuda_cudart-12.2.140-stubs/lib":         true,
		"/nix/store/" + hash + "-cuda_cudart-12.8-stubs/lib/stubs":          true,
		"/nix/store/" + hash + "-cuda_cudart-12.2.140-lib/lib":              false,
		"/opt/pkgs/" + hash + "-cuda12.9-cuda_cudart-12.9.79-stubs/lib":     true,
		"/nix/store/" + hash + "-stubsearch-1.0/lib":                        false,
		"/home/me/project-stubs/lib":                                        false, // no store path
		"/store/notahash-cuda-stubs/lib":                                    false,
		"/usr/lib":                                                          false,
		"/usr/lib/stubsx":                                                   false,
		"/usr/lib/mystubs":                                                  false,
		"":                                                                  false,
		"/nix/store/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-cuda-stubs/lib":        true, // nuke-refs
		"/nix/store/" + hash + "-cuda_nvml_dev-12.2.140-stubs/lib/../share": true,
	} {
		if got := (StubDirs{}).Contains(entry); got != want {
			t.Errorf("Contains(%q) = %v", entry, got)
		}
	}
}

func TestStubsOfAStoreThatIsCalledOtherwise(t *testing.T) {
	const cut = "/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-cuda-stubs/lib" // nuke-refs
	for _, c := range []struct {
		store, entry string
		want         bool
	}{
		{"", "/opt/pkgs/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-cuda-stubs/lib", true},
		{"", "/opt/pkgs" + cut, false},
		{"/opt/pkgs", "/opt/pkgs" + cut, true},
		{"/opt/pkgs/", "/opt//pkgs" + cut, true},
		{"/opt/pkgs", "/opt/others" + cut, false},
		{"/opt/pkgs", "/opt/pkgs/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-cuda/lib", false},
	} {
		if got := (StubDirs{Store: c.store}).Contains(c.entry); got != c.want {
			t.Errorf("store %q, entry %q: %v", c.store, c.entry, got)
		}
	}
}

func TestFurtherStubPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, entry string
		want           bool
	}{
		{"*-linkstubs", "/opt/cuda-linkstubs/lib", true},
		{"*-linkstubs", "/opt/linkstubs/lib", false},
		{"/opt/fake", "/opt/fake", true},
		{"/opt/fake/", "/opt/fake/", true},
		{"/opt/fake", "/opt/fake/lib", true},
		{"/opt/fake", "/opt/fakery", false},
		{"/opt/*/lib", "/opt/fake/lib/sub", true},
		{"/opt/*/lib", "/opt/lib", false},
		{"$ORIGIN/fake", "$ORIGIN/fake", true},
		{"fake", "", false},
	} {
		if got := (StubDirs{Patterns: []string{c.pattern}}).Contains(c.entry); got != c.want {
			t.Errorf("pattern %q, entry %q: %v", c.pattern, c.entry, got)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, ok := range map[string]bool{"*-linkstubs": true, "/opt/[ab]*": true, "libfoo.so": true, "": false, "[": false, `a\`: false} {
		if err := CheckPattern(pattern); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// nix/host-driver-links.nix has links to all libraries of the table whose sonames are the same for all drivers.
func TestLinksInNixAreTheTables(t *testing.T) {
	text, err := os.ReadFile("../../nix/host-driver-links.nix")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "libraries = [")
	list, _, _ = strings.Cut(list, "]")
	var want []string
	for _, l := range libraries {
		if l.Soname != "" && l.Class != Tegra && l.Class != WSL {
			want = append(want, `"`+l.Soname+`"`)
		}
	}
	if got := strings.Fields(list); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A part of a library has its name's beginning, and of its version the first number, or no version.
func TestPartOf(t *testing.T) {
	for _, c := range []struct {
		name, of string
		want     bool
	}{
		{"libcudnn_ops.so.9", "libcudnn.so.9", true}, {"libcudnn_ops.so", "libcudnn.so.9", true},
		{"libcudnn_ops.so.9", "libcudnn_cnn.so.9", true}, {"libnvrtc-builtins.so.12.4", "libnvrtc.so.12", true},
		{"libcudnn_ops.so.8", "libcudnn.so.9", false}, {"libcudnn_ops.so.9", "libcudnn.so", false},
		{"libcudnn.so.9", "libcudnn.so.9", false}, {"libcudnnx.so.9", "libcudnn.so.9", false},
		{"libnvrtc-builtins.alt.so.12.4", "libnvrtc.so.12", false},
	} {
		if got := PartOf(c.name, c.of); got != c.want {
			t.Errorf("%s of %s: %v", c.name, c.of, got)
		}
	}
}
