package compat

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
)

// A program's $ORIGIN is where its file is, whatever link it is started by, and a name that only begins with "ORIGIN" is
// not that token.
func TestCompatDirsOfAProgramBehindALink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := tinyelf.Object{Interp: "/lib/ld-linux-of-a-test.so.2"}.
		With(elf.DT_RUNPATH, "$ORIGIN/../compat:$ORIGINAL/compat:/nowhere/compat::relative/compat")
	for name, o := range map[string]tinyelf.Object{
		"p/bin/program":                        program,
		"p/compat/" + driver.LibCUDA:           {},
		"p/binAL/compat/" + driver.LibCUDA:     {},
		"working/relative/compat/libcuda.so.1": {},
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, o.Bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("p/bin/program", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "working"))
	want := []string{dir + "/p/compat", dir + "/working/relative/compat"}
	for _, name := range []string{"p/bin/program", "link"} {
		if w := Wanted(filepath.Join(dir, name)); !slices.Equal(w.Compat, want) || w.RPath {
			t.Errorf("%s: %+v, not %q", name, w, want)
		}
	}
}

// What comes by LD_LIBRARY_PATH is loaded before the driver, as what the program names: it is judged, too. Stubs are none,
// and in a DT_RPATH they come before that variable.
func TestCompatDirsOfTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	put := func(at string, o tinyelf.Object) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, at)), 0o755), os.WriteFile(filepath.Join(dir, at), o.Bytes(), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	cuda := hosttest.Lib(driver.LibCUDA)
	put("cuda/compat/"+driver.LibCUDA, cuda)
	put("own/compat/"+driver.LibCUDA, cuda)
	put("stubs/"+driver.LibCUDA, cuda)
	put("program", tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.With(elf.DT_RPATH, dir+"/stubs:"+dir+"/own/compat").Needs(driver.LibCUDA))
	t.Setenv("LD_LIBRARY_PATH", "compat:"+dir+"/cuda/compat;"+dir+"/own/compat:"+dir+"/stubs:/nowhere/compat")
	t.Chdir(dir + "/cuda") // what is found by a relative entry is nobody's for long
	w := Wanted(dir + "/program")
	if want := []string{dir + "/own/compat", dir + "/cuda/compat"}; !slices.Equal(w.Compat, want) || !w.RPath || w.Stub != dir+"/stubs" {
		t.Errorf("%+v, not %q", w, want)
	}
}

// Whether a namespace in which the driver link leads to the driver is all that a program needs.
func TestWhatProgramsWant(t *testing.T) {
	dir := t.TempDir()
	const cuda, interp = driver.LibCUDA, "/lib64/ld-linux-x86-64.so.2"
	program := func(runPath string, needs ...string) tinyelf.Object {
		return tinyelf.Object{Interp: interp}.With(elf.DT_RUNPATH, runPath).Needs(needs...)
	}
	opens := tinyelf.Object{Interp: interp, Data: "x\x00" + cuda + "\x00"}
	for name, c := range map[string]struct {
		files map[string][]byte
		want  bool
	}{
		"the driver link":          {map[string][]byte{"p": program(driver.Link, cuda).Bytes()}, true},
		"another link":             {map[string][]byte{"p": program("/nowhere", cuda).Bytes()}, false},
		"nothing of the driver's":  {map[string][]byte{"p": program(driver.Link).Bytes()}, false},
		"by dlopen, with the link": {map[string][]byte{"p": opens.With(elf.DT_RUNPATH, driver.Link).Bytes()}, true},
		"by dlopen, without":       {map[string][]byte{"p": opens.Bytes()}, false},
		"a stub before the link":   {map[string][]byte{"p": program(dir+"/stubs:"+driver.Link, cuda).Bytes(), "stubs/" + cuda: tinyelf.Object{}.With(elf.DT_SONAME, cuda).Bytes()}, false},
		"a library's, which has none": {map[string][]byte{"p": program(dir+":"+driver.Link, "liba.so.1").Bytes(),
			"liba.so.1": tinyelf.Object{}.With(elf.DT_SONAME, "liba.so.1").Needs(cuda).Bytes()}, false},
		"a wrapper of it": {map[string][]byte{"p": []byte("#!/bin/sh\nexec \"" + dir + "/q\" \"$@\"\n"), "q": program(driver.Link, cuda).Bytes()}, true},
		"a text":          {map[string][]byte{"p": []byte("text")}, false},
		"nothing":         {nil, false},
	} {
		for at, data := range c.files {
			os.MkdirAll(filepath.Dir(filepath.Join(dir, at)), 0o755)
			if err := os.WriteFile(filepath.Join(dir, at), data, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if w := Wanted(filepath.Join(dir, "p")); w.Linked(driver.Link) != c.want {
			t.Errorf("%s: %+v", name, w)
		}
		os.RemoveAll(dir)
	}
}

// on returns the host that files make.
func on(t *testing.T, files hosttest.Tree) *host.Host {
	t.Helper()
	return &host.Host{Root: sysroot.Root{Dir: files.Make(t)}}
}

// A compat package's libraries stand in for the driver's of the same name where its CUDA is newer.
func TestCompatPackages(t *testing.T) {
	m, _ := host.MachineNamed("x86_64")
	note := func(v string) string { return "Cuda compilation tools, release " + v + ", V" + v + ".1\x00" }
	with := func(soname, cuda string) tinyelf.Object { o := hosttest.Lib(soname); o.Data = note(cuda); return o }
	for name, c := range map[string]struct {
		version, cuda string
		choice        Choice
		device, model string // of the GPU: its PCI number, as the driver calls it
		verdict       forwardcompat.Help
		taken         bool
	}{
		"newer":                          {"560.35.03", "12.6", Auto, "", "", forwardcompat.MayHelp, true},
		"newer, never":                   {"560.35.03", "12.6", Never, "", "", forwardcompat.MayHelp, false},
		"older":                          {"525.60.13", "12.0", Auto, "", "", forwardcompat.Harms, false},
		"older, always":                  {"525.60.13", "12.0", Always, "", "", forwardcompat.Harms, true},
		"newer, a GPU of a data centre":  {"560.35.03", "12.6", Auto, "0x2330", "", forwardcompat.Helps, true},
		"newer, a GPU for games":         {"560.35.03", "12.6", Auto, "0x2684", "NVIDIA GeForce RTX 4090", forwardcompat.Cannot, false},
		"newer, one of unknown name":     {"560.35.03", "12.6", Auto, "0x2684", "", forwardcompat.MayHelp, true},
		"newer, for games, always":       {"560.35.03", "12.6", Always, "0x2684", "NVIDIA GeForce RTX 4090", forwardcompat.Cannot, true},
		"too new for the GPU":            {"590.44.01", "13.1", Auto, "0x1db6", "Tesla V100-PCIE-32GB", forwardcompat.Cannot, false},
		"the last branch for it, Tesla":  {"580.95.05", "13.0", Auto, "0x1db6", "Tesla V100-PCIE-32GB", forwardcompat.Helps, true},
		"older than the driver, any GPU": {"525.60.13", "12.0", Auto, "0x2330", "", forwardcompat.Harms, false},
	} {
		const slot = "0000:01:00.0"
		gpu := hosttest.Tree{}
		if c.device != "" {
			at := "sys/bus/pci/devices/" + slot + "/"
			gpu = hosttest.Tree{at + "vendor": "0x10de\n", at + "class": "0x030200\n", at + "device": c.device + "\n"}
		}
		if c.model != "" {
			gpu["proc/driver/nvidia/gpus/"+slot+"/information"] = "Model: \t\t " + c.model + "\nIRQ:   \t\t 35\n"
		}
		h := on(t, hosttest.Core("usr/lib64", hosttest.Version).With(hosttest.Tree{
			"usr/lib64/libcuda.so." + hosttest.Version: with("libcuda.so.1", "12.2"),
			"opt/compat/libcuda.so.1":                  "-> libcuda.so." + c.version, "opt/compat/libcuda.so." + c.version: with("libcuda.so.1", c.cuda),
		}).With(gpu))
		d, err := h.Find(m)
		if err != nil {
			t.Fatal(err)
		}
		chosen, all, err := Choose(h, d, []string{"/opt/compat"}, c.choice)
		if err != nil || len(all) != 1 || all[0].Verdict != c.verdict || (chosen != d) != c.taken {
			t.Errorf("%s: %+v, %v", name, all, err)
			continue
		}
		for _, l := range chosen.Libraries {
			if strings.HasPrefix(l.File, "/opt/compat/") != (c.taken && l.Name == "libcuda.so") {
				t.Errorf("%s: %s is %s", name, l.Soname, l.File)
			}
		}
	}
	h := on(t, hosttest.Core("usr/lib64", hosttest.Version))
	d, err := h.Find(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Choose(h, d, []string{"/nowhere"}, Auto); err == nil || !strings.Contains(err.Error(), "no compat package in /nowhere") {
		t.Error(err)
	}
	for in, want := range map[string]Choice{"auto": Auto, "always": Always, "never": Never, "/a/../b": "/b", "a": "", "": ""} {
		if got, err := ParseChoice(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// Of several packages that help, the first is taken, as the loader takes it; all are judged.
func TestFirstCompatPackageIsTaken(t *testing.T) {
	m, _ := host.MachineNamed("x86_64")
	with := func(cuda string) tinyelf.Object {
		o := hosttest.Lib("libcuda.so.1")
		o.Data = "Cuda compilation tools, release " + cuda + ", V" + cuda + ".1\x00"
		return o
	}
	h := on(t, hosttest.Core("usr/lib64", hosttest.Version).With(hosttest.Tree{
		"usr/lib64/libcuda.so." + hosttest.Version: with("12.2"),
		"opt/old/compat/libcuda.so.1":              with("12.0"),
		"opt/one/compat/libcuda.so.1":              with("12.6"),
		"opt/two/compat/libcuda.so.1":              with("13.0"),
	}))
	d, err := h.Find(m)
	if err != nil {
		t.Fatal(err)
	}
	chosen, all, err := Choose(h, d, []string{"/opt/old/compat", "/opt/one/compat", "/opt/two/compat"}, Auto)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, l := range chosen.Libraries {
		if l.Name == "libcuda.so" && l.File != "/opt/one/compat/libcuda.so.1" {
			t.Errorf("%s is %s", l.Soname, l.File)
		}
	}
}

// On a Jetson the release of the BSP is part of the question.
func TestCompatOnJetson(t *testing.T) {
	m, _ := host.MachineNamed("x86_64")
	with := func(cuda string) tinyelf.Object {
		o := hosttest.Lib("libcuda.so.1")
		o.Data = "Cuda compilation tools, release " + cuda + ", V" + cuda + ".1\x00"
		return o
	}
	for release, c := range map[string]struct {
		cuda string
		want forwardcompat.Help
		used bool
	}{
		"# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64\n": {"13.0", forwardcompat.Cannot, false},
		"# R35 (release), REVISION: 4.1\n":                                                {"12.2", forwardcompat.Helps, true},
		"# R36 (release), REVISION: 4.0\n":                                                {"13.0", forwardcompat.MayOnL4T, true},
		"x":                                                                               {"13.0", forwardcompat.MayOnL4T, true},
	} {
		h := on(t, hosttest.Tree{"usr/lib64/libcuda.so.1.1": with("11.4"), "usr/lib64/libcuda.so.1": "-> libcuda.so.1.1", "etc/nv_tegra_release": release, "opt/compat/libcuda.so.1": with(c.cuda)})
		d, err := h.Find(m)
		if err != nil {
			t.Fatal(err)
		}
		chosen, all, err := Choose(h, d, []string{"/opt/compat"}, Auto)
		if err != nil || all[0].Verdict != c.want || (chosen != d) != c.used {
			t.Errorf("%s: %+v, %v", release, all, err)
		}
	}
}
