package hostdriver

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
)

// withNodes makes a tree that has the driver's device nodes, which everybody may use.
func withNodes(t *testing.T, tree hosttest.Tree) string {
	root := tree.With(hosttest.Tree{"dev/nvidiactl": "(device)", "dev/nvidia0": "(device)", "dev/nvidia-uvm": "(device)"}).Make(t)
	for _, node := range []string{"nvidiactl", "nvidia0", "nvidia-uvm"} {
		if err := os.Chmod(filepath.Join(root, "dev", node), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// doctor has three sentences; its status is 1 for one of them alone.
func TestThreeSentences(t *testing.T) {
	interp := hosttest.Tree{"lib64/ld-linux-x86-64.so.2": hosttest.Lib("ld-linux-x86-64.so.2"), "usr/lib64/libc.so.6": hosttest.Lib("libc.so.6"),
		"app": tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.With(elf.DT_RUNPATH, "/opt/mine").Needs("libcuda.so.1", "libc.so.6")}
	for name, c := range map[string]struct {
		files       hosttest.Tree
		status      int
		works, says string
	}{
		"works":     {hosttest.Core("opt/mine", "535.1.2").With(hosttest.Loaded("535.1.2")), 0, "true", "Nothing was found that keeps /app from working."},
		"cannot":    {hosttest.Loaded("535.1.2"), 1, "false", "/app cannot work here as it is: see the lines marked BAD."},
		"not known": {hosttest.Tree{"opt/mine/libcuda.so.1": hosttest.Lib("libcuda.so.1")}.With(hosttest.Loaded("535.1.2")), 0, "null", "It is not known whether /app works here, because /opt/mine/libcuda.so.1, which the program finds, may be of another version than the kernel module."},
	} {
		tree := withNodes(t, interp.With(c.files))
		if status, said := runs("doctor", "--root", tree, "/app"); status != c.status || !strings.HasSuffix(said, "\n"+c.says+"\n") {
			t.Errorf("%s: status %d, %s", name, status, said)
		}
		if status, said := runs("doctor", "--root", tree, "/app", "--json"); status != c.status || !strings.Contains(said, `"works": `+c.works+"\n") {
			t.Errorf("%s: status %d, %s", name, status, said)
		}
	}
}

// A sentence on a directory is one on all that it starts: where one of them is not known, nor is it.
func TestDirectoryWithAnUnknownStart(t *testing.T) {
	program := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs("libc.so.6")
	tree := hosttest.Core("opt/mine", "535.1.2").With(hosttest.Loaded("535.1.2")).With(hosttest.Tree{
		"lib64/ld-linux-x86-64.so.2": hosttest.Lib("ld-linux-x86-64.so.2"), "usr/lib64/libc.so.6": hosttest.Lib("libc.so.6"),
		"d/app": program.With(elf.DT_RUNPATH, "/opt/mine").Needs("libcuda.so.1"), "d/tool": program, "bin/sh": program})
	for i, want := range []string{
		"Nothing was found that keeps /d from working.",
		"It is not known whether /d works here, because what the scripts and commands that /d/1 reads set is not known.",
		"It is not known whether /d works here, because what the scripts and commands that /d/1 reads set is not known; " +
			"what the scripts and commands that /d/2 reads set is not known; and 3 more."} {
		if i == 2 {
			for _, more := range []string{"d/2", "d/3", "d/4", "d/5"} {
				tree[more] = tree["d/1"]
			}
		}
		root := withNodes(t, tree)
		if status, said := runs("doctor", "--root", root, "/d"); status != 0 || !strings.HasSuffix(said, "\n"+want+"\n") {
			t.Errorf("status %d, %s\nwant %s", status, said, want)
		}
		tree["d/1"] = "#!/bin/sh\n. /etc/settings\nexec /d/tool \"$@\"\n"
	}
}

// A program for another machine does not start, unless who asks says that it does, by an emulator.
func TestProgramOfAnotherMachine(t *testing.T) {
	tree := hosttest.Tree{"lib64/ld-linux-x86-64.so.2": hosttest.Lib("ld-linux-x86-64.so.2"), "lib/ld-linux-aarch64.so.1": hosttest.Lib("ld-linux-aarch64.so.1"),
		"app": tinyelf.Object{Machine: elf.EM_AARCH64, Interp: "/lib/ld-linux-aarch64.so.1"}}.Make(t)
	const says = "is for another machine (EM_AARCH64)"
	if status, said := runs("doctor", "--root", tree, "/app"); status != 1 || !strings.Contains(said, says) {
		t.Errorf("status %d, %s", status, said)
	}
	if status, said := runs("doctor", "--root", tree, "--machine", "aarch64", "/app"); strings.Contains(said, says) {
		t.Errorf("with --machine: status %d, %s", status, said)
	}
}

// What helps with several lines in a row, and what an error of CUDA's means, is said once.
func TestDoctorSaysARemedyOnce(t *testing.T) {
	tree := hosttest.Tree{"app": tinyelf.Object{}.Needs("libcuda.so.1"), ".dockerenv": ""}.Make(t)
	_, said := runs("doctor", "--root", tree, "/app")
	for text, want := range map[string]int{"/dev/nvidiactl is missing": 1, "/dev/nvidia-uvm is missing": 1,
		"\n                     -> start the container with its GPUs": 1, "CUDA answers 100 ": 1} {
		if n := strings.Count(said, text); n != want {
			t.Errorf("%q stands there %d times, want %d:\n%s", text, n, want, said)
		}
	}
}
