package run

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/private"
	"cuda-runpath/tests/tinyelf"
)

// The tests start this program again: as run's process, and as the one inside the namespace.
func TestMain(m *testing.M) {
	Enter()
	if method := os.Getenv("TEST_RUN_METHOD"); method != "" {
		os.Unsetenv("TEST_RUN_METHOD")
		stage := os.Getenv("TEST_RUN_STAGE")
		r := &Run{Method: Method(method), Prefix: host.DefaultPrefix, Offers: []private.Dir{{Machine: "x86_64", Path: os.Getenv("TEST_RUN_DIR")}},
			Stage: stage, Program: os.Args[1:], Log: func(string, ...any) {}}
		err := r.Exec()
		os.Stderr.WriteString(err.Error())
		if start := (*StartError)(nil); errors.As(err, &start) {
			os.Exit(start.Status())
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runs runs a program with a directory offered to it.
func runs(t *testing.T, method Method, program ...string) (out string, status int) {
	t.Helper()
	top := t.TempDir()
	offer, stage := filepath.Join(top, "offer"), filepath.Join(top, "stage")
	if err := errors.Join(os.MkdirAll(filepath.Join(offer, "etc"), 0o755), os.Mkdir(stage, 0o700), os.WriteFile(filepath.Join(offer, "offered"), []byte("yes"), 0o644),
		os.WriteFile(filepath.Join(offer, "etc/vendors"), []byte("theirs"), 0o644)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", program...)
	cmd.Env = append(os.Environ(), "TEST_RUN_METHOD="+string(method), "TEST_RUN_DIR="+offer, "TEST_RUN_STAGE="+stage)
	b, err := cmd.CombinedOutput()
	if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

func TestExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	bytes := filepath.Join(t.TempDir(), "bytes")
	if err := errors.Join(os.WriteFile(script, []byte("echo \"ran $1\"\n"), 0o755), os.WriteFile(bytes, []byte("\x00\x01\x02"), 0o755)); err != nil {
		t.Fatal(err)
	}
	lost := filepath.Join(t.TempDir(), "lost")
	if err := os.WriteFile(lost, []byte("#!/gone/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, method := range []Method{LibraryPath, Namespace, InPlace} {
		dir := `"$LD_LIBRARY_PATH"`
		if method == Namespace {
			if _, status := runs(t, method, "true"); status != 0 {
				t.Log("no mount namespace here")
				continue
			}
			dir = driver.Link
			if out, status := runs(t, method, "cat", driver.Prefix+"/etc/vendors"); out != "theirs" || status != 0 {
				t.Errorf("%s: beside the libraries: %q, %d", method, out, status)
			}
		}
		if method == InPlace {
			dir = "/dev/null/"
		} else if out, status := runs(t, method, "sh", "-c", "cat "+dir+"/offered"); out != "yes" || status != 0 {
			t.Errorf("%s: %q, %d", method, out, status)
		}
		for _, c := range []struct {
			program []string
			out     string
			status  int
		}{
			{[]string{"sh", "-c", "exit 7"}, "", 7},
			{[]string{script, "x"}, "ran x\n", 0},
			{[]string{bytes}, bytes + ": exec format error", 126},
			{[]string{"/none"}, "/none: no such file or directory", 127},
			{[]string{lost}, lost + ": no such file or directory; the file is there, but not the interpreter that it asks for: hostDriver doctor " + lost, 127},
			{[]string{"no-such-program"}, "no-such-program: executable file not found in $PATH", 127},
			{[]string{"/etc"}, "/etc: is a directory", 126},
		} {
			if out, status := runs(t, method, c.program...); out != c.out || status != c.status {
				t.Errorf("%s: %q: %q, %d", method, c.program, out, status)
			}
		}
	}
}

// Triton asks ldconfig for the driver's directory, unless it is told.
func TestTritonIsTold(t *testing.T) {
	show := []string{"sh", "-c", `echo "$TRITON_LIBCUDA_PATH,$LD_LIBRARY_PATH"`}
	t.Setenv("LD_LIBRARY_PATH", "")
	for _, method := range []Method{LibraryPath, Namespace, InPlace} {
		t.Setenv("TRITON_LIBCUDA_PATH", "")
		out, status := runs(t, method, show...)
		if status != 0 && method == Namespace {
			t.Log("no mount namespace here")
			continue
		}
		told, libraryPath, _ := strings.Cut(strings.TrimSpace(out), ",")
		if want := map[Method]string{LibraryPath: libraryPath, Namespace: driver.Link, InPlace: driver.Link}[method]; told != want || told == "" {
			t.Errorf("%s: %q, not %q", method, told, want)
		}
		t.Setenv("TRITON_LIBCUDA_PATH", "/mine")
		if out, _ := runs(t, method, show...); !strings.HasPrefix(out, "/mine,") {
			t.Errorf("%s: the user's own became %q", method, out)
		}
	}
}

func TestLibraryPathHasNoEmptyEntry(t *testing.T) {
	for _, test := range []struct{ env, want []string }{
		{[]string{"A=b"}, []string{"A=b", "LD_LIBRARY_PATH=/x:/y"}},
		{[]string{"LD_LIBRARY_PATH=", "A=b"}, []string{"A=b", "LD_LIBRARY_PATH=/x:/y"}},
		{[]string{"LD_LIBRARY_PATH=/old:/older", "LD_LIBRARY_PATHS=z"}, []string{"LD_LIBRARY_PATHS=z", "LD_LIBRARY_PATH=/x:/y:/old:/older"}},
	} {
		if got := withLibraryPath(test.env, []string{"/x", "/y"}); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.env, got, test.want)
		}
	}
}

// A program gets the directories for its own machine, a script all.
func TestSearched(t *testing.T) {
	r := &Run{Prefix: "/p", Offers: []private.Dir{{Machine: "x86_64", Path: "/64"}, {Machine: "i386", Path: "/32"}}, Hide: []string{"/compat"}}
	program := filepath.Join(t.TempDir(), "program")
	for want, b := range map[string][]byte{"/64": tinyelf.Object{}.Bytes(), "/32": tinyelf.Object{Class: 1, Machine: 3}.Bytes(), "/64 /32": []byte("#!/bin/sh\n")} {
		if err := os.WriteFile(program, b, 0o755); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.searched(program), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	all, err := r.placements()
	if want := []placement{{"/p/lib", "/64"}, {"/p-32/lib", "/32"}, {"/compat", "/64"}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("%v, %v", all, err)
	}
	r.Method, r.Program, r.Log = LibraryPath, []string{"true"}, func(string, ...any) {}
	for _, dir := range []string{"/a:b", "/a;b", "/$x"} {
		r.Offers = []private.Dir{{Machine: "x86_64", Path: dir}}
		if err := r.Exec(); err == nil || !strings.Contains(err.Error(), "LD_LIBRARY_PATH cannot name "+dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestStartErrors(t *testing.T) {
	for want, err := range map[int]error{127: fs.ErrNotExist, 126: fs.ErrPermission} {
		if got := (&StartError{"/p", err}).Status(); got != want {
			t.Errorf("%v: %d", err, got)
		}
	}
}

// Loaders find the driver's files for them, by variables or below the driver link; what the user set stays.
func TestVendorsOfAProgram(t *testing.T) {
	dir := t.TempDir()
	for _, v := range vendorVariables {
		if err := os.MkdirAll(filepath.Join(dir, v.dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := &Run{Prefix: "/p", Offers: []private.Dir{{Machine: "x86_64", Path: dir}}}
	env := r.withVendors([]string{"VDPAU_DRIVER_PATH=", "VK_ICD_FILENAMES=/mine.json", "OCL_ICD_FILENAMES=libpocl.so.2"}, dir)
	want := []string{"VDPAU_DRIVER_PATH=", "VK_ICD_FILENAMES=/mine.json", "OCL_ICD_FILENAMES=libpocl.so.2",
		"VK_ADD_IMPLICIT_LAYER_PATH=" + dir + "/share/vulkan/implicit_layer.d",
		"__EGL_VENDOR_LIBRARY_DIRS=" + dir + "/share/glvnd/egl_vendor.d:/p/share/glvnd/egl_vendor.d:/etc/glvnd/egl_vendor.d:/usr/share/glvnd/egl_vendor.d",
		"__EGL_EXTERNAL_PLATFORM_CONFIG_DIRS=" + dir + "/share/egl/egl_external_platform.d",
		"OCL_ICD_VENDORS=" + dir + "/etc/OpenCL/vendors",
		"GBM_BACKENDS_PATH=" + dir + "/gbm:/p/lib/gbm:/usr/lib/x86_64-linux-gnu/gbm:/usr/lib/aarch64-linux-gnu/gbm:/usr/lib64/gbm:/usr/lib/gbm"}
	if !slices.Equal(env, want) {
		t.Errorf("%q\nwant %q", env, want)
	}
	all, err := r.placements()
	if want := []placement{{"/p/lib", dir}, {"/p/etc", dir + "/etc"}, {"/p/share", dir + "/share"}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("%v, %v", all, err)
	}
	r.Offers[0].Path = t.TempDir()
	if env := r.withVendors([]string{"A=b"}, r.Offers[0].Path); len(env) != 1 {
		t.Errorf("a driver without any: %q", env)
	}
}

// Where the loader of Vulkan would find the driver by the host's file and by ours, it is told the files: it would show each
// GPU twice.
func TestVulkanShowsAGPUOnce(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	ours := filepath.Join(dir, "share/vulkan/icd.d/nvidia_icd.json")
	for name, library := range map[string]string{ours: dir + "/libGLX_nvidia.so.0", data + "/vulkan/icd.d/a_lvp.json": "libvulkan_lvp.so", data + "/vulkan/icd.d/bad.json": "\"",
		data + "/vulkan/icd.d/nvidia.json": "libGLX_nvidia.so.0"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(`{"ICD": {"library_path": "`+library+`"}}`), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"} {
		t.Setenv(name, t.TempDir())
	}
	t.Setenv("XDG_DATA_DIRS", "relative:"+data)
	r := &Run{Prefix: "/p", Offers: []private.Dir{{Machine: "x86_64", Path: dir}}}
	want := []string{"A=b", "VK_DRIVER_FILES=" + ours + ":" + data + "/vulkan/icd.d/a_lvp.json:" + data + "/vulkan/icd.d/bad.json"}
	if env := r.withVulkan([]string{"A=b"}, dir); !slices.Equal(env, want) {
		t.Errorf("%q\nwant %q", env, want)
	}
	if env := r.withVendors(r.withVulkan([]string{"A=b"}, dir), dir); !slices.Equal(env, want) {
		t.Errorf("by library path: %q\nwant %q", env, want)
	}
	if env := r.withVulkan([]string{"VK_ICD_FILENAMES="}, dir); len(env) != 1 {
		t.Errorf("the user has said: %q", env)
	}
	if err := os.Remove(data + "/vulkan/icd.d/nvidia.json"); err != nil {
		t.Fatal(err)
	}
	if env := r.withVulkan([]string{"A=b"}, dir); len(env) != 1 {
		t.Errorf("the host has none: %q", env)
	}
	if env, want := r.withVendors([]string{"A=b"}, dir), []string{"A=b", "VK_ADD_DRIVER_FILES=" + ours}; !slices.Equal(env, want) {
		t.Errorf("the host has none, by library path: %q", env)
	}
}
