package cmd_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/tests/hosttest"
)

// A flag that is given, and what the command line has anyway: the two must differ in what is printed, done or answered.
type flagUse struct {
	given   string // "" where the reason tells why it is not tried
	without string
	reason  string
}

// obeyed are what the flags of the commands are given, by command; "" is for all commands. Words are separated by
// blanks. D is the working directory, below which fixture makes files anew for each run.
var obeyed = map[string]map[string]flagUse{
	"": {
		"version": {reason: "a script of each tool tries it"}, "man": {reason: "a script tries it"}, "completion": {reason: "a script tries it"}, "help": {reason: "TestHelpFitsTheScreen reads it"}, "help-all": {reason: "read here"},
		"jobs": {reason: "a run with another number of files at once must not differ"},
		"stub": {given: "--stub fakes"}, "store": {given: "--store D/pkgs"}, "even-in-store": {given: "--store D/pkgs --even-in-store", without: "--store D/pkgs"},
		"offer": {given: "--offer D/out"}, "compat-for-stubs": {given: "--compat D/toolkit --compat-for-stubs", without: "--compat D/toolkit"}, "driver-link": {given: "--driver-link /z"}, "compat": {given: "--compat D/x"},
		"position": {given: "--position last"}, "force-rpath": {given: "--force-rpath"}, "force-runpath": {given: "--force-runpath heir.so", without: "heir.so"}, "keep-empty": {given: "--keep-empty"},
		"dedupe": {given: "--dedupe"}, "dry-run": {given: "--dry-run"}, "json": {given: "--json"}, "verbose": {given: "-v"}, "quiet": {given: "-q"},
		"when": {given: "--when needed"}, "malformed": {given: "--malformed warn broken.so", without: "broken.so"},
		"ignore": {given: "--ignore libx.so.1"}, "strict": {given: "--strict"}, "first": {given: "--first"},
		"nix": {given: "--nix"}, "in-place": {given: "--in-place"}, "clear-execstack": {given: "--clear-execstack"}, "resolution-note": {given: "--resolution-note"}, "root": {given: "--root D/tree"},
		"loader-reads-note": {given: "--loader-reads-note yes noted", without: "noted"},
		"tool":              {reason: "is among what is given anyway"},
		"assume-driver":     {given: "--assume-driver D/assumed"}, "cpu": {given: "--cpu baseline"},
		"prefix": {given: "--prefix D/tree/opt/link"}, "machine": {given: "--machine aarch64"}, "from": {given: "--from /opt/driver"},
		"program": {given: "--program /bin/other"}, "cache": {given: "--cache D/out"}, "beside": {given: "--beside"},
	},
	"addCudaCompatRunpath": {"compat": {given: "--compat D/x", without: "--compat D/cuda/compat"}},
	"runpath normalize":    {"compat-for-stubs": {reason: "addCudaCompatRunpath is among what is given anyway"}, "opened": {given: "--opened --libs D/toolkit"}, "libs": {given: "--opened --libs D/toolkit", without: "--opened --libs D/fakes"}, "compat": {given: "--compat D/x", without: "--compat D/cuda/compat"}},
	"runpath show":         {"verbose": {given: "-v more", without: "more"}},
	"runpath explain": {
		"lib": {given: "--lib libx.so.1"}, "env": {given: "--env LD_LIBRARY_PATH=D/y"}, "no-dlopen": {given: "--no-dlopen"},
		"all": {given: "--all"}, "depth": {given: "--depth 1"}, "unused": {given: "--unused"}, "undefined": {given: "--undefined"},
		"versions": {given: "--versions"}, "dot": {given: "--dot"}, "verbose": {given: "-v"}, "compat": {given: "--compat D/" + inStore}, "stub": {given: "--stub gpu"},
		"for": {given: "--for 7.0 cubin.so", without: "cubin.so"},
	},
	"runpath audit": {
		"closure": {given: "--closure"}, "html": {given: "--html out"}, "sarif": {given: "--sarif out"}, "baseline": {given: "--baseline accepted"},
		"ignore-finding": {given: "--ignore-finding empty-entry"}, "list-findings": {given: "--list-findings"}, "explain": {given: "--explain empty-entry"},
		"update-baseline": {given: "--baseline accepted --update-baseline", without: "--baseline accepted"},
		"assume-driver":   {given: "-v --assume-driver D/assumed", without: "-v"}, "for": {given: "--for 7.0"},
		"fix": {given: "--fix lib.so", without: "lib.so"}, "dry-run": {given: "--fix --dry-run lib.so", without: "--fix lib.so"},
		"in-place": {given: "--fix --in-place lib.so", without: "--fix lib.so"},
	},
	"runpath gpu":  {"for": {given: "--for 7.0"}, "cuda": {given: "--for 9.0 --cuda 12.0", without: "--for 9.0"}, "verbose": {given: "--for 8.0 -v", without: "--for 8.0"}, "strict": {given: "--strict --for 90-real", without: "--for 90-real"}, "warn": {given: "--warn --for 7.0", without: "--for 7.0"}, "nix": {given: "--nix --for 8.0", without: "--for 8.0"}},
	"runpath thin": {"for": {given: "--for 7.0"}, "blank-options": {given: "--blank-options"}, "cut": {given: "--for 7.0 --cut signed.so", without: "--for 7.0 signed.so"}, "keep-length": {given: "--for 7.0 --keep-length cut.so", without: "--for 7.0 cut.so"}, "image": {reason: "tests/thin makes images"}, "keep-ptx": {given: "--for 8.0 --keep-ptx", without: "--for 8.0"}, "nix": {given: "--for 9.9 --nix", without: "--for 9.9"}, "dry-run": {given: "--for 9.0 --dry-run", without: "--for 9.0"}, "json": {given: "--for 9.0 --json", without: "--for 9.0"}, "verbose": {given: "--for 7.0 -v", without: "--for 7.0"}, "quiet": {given: "--for 9.0 -q", without: "--for 9.0"}},
	"runpath manifest": {"diff": {given: "--diff D/x D/y", without: "D/x D/y"}, "markdown": {given: "--diff --markdown D/x D/y", without: "--diff D/x D/y"}, "html": {given: "--html - D/x", without: "D/x"}, "closure": {reason: "manifest.txt tries it, on a store"}, "root": {given: "--root D/tree D/tree", without: "D/tree"},
		"json": {given: "--diff --json D/x D/y", without: "--diff D/x D/y"}, "verbose": {given: "--diff -v D/x D/y", without: "--diff D/x D/y"}, "quiet": {given: "--diff -q D/x D/y", without: "--diff D/x D/y"}},
	"runpath references": {"fail-on": {given: "--fail-on named"}, "to": {given: "--to /nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-named/lib"}},
	"runpath scripts": {"fix": {given: "--fix", without: "--substitute"}, "substitute": {given: "--substitute", without: "--fix"}, "dry-run": {given: "--fix --dry-run", without: "--fix"}, "driver-link": {given: "--fix --driver-link /z", without: "--fix"}, "libs": {given: "--libs ."},
		"store": {given: "--fix --store D/pkgs", without: "--fix"}, "even-in-store": {given: "--fix --store D/pkgs --even-in-store", without: "--fix --store D/pkgs"}},
	"runpath shrink": {"keep": {given: "--keep /opt/fakes"}, "compat": {given: "--compat /opt/fakes"}, "driver-link": {given: "--driver-link /opt/fakes"}},
	"runpath edit": {
		"interpreter": {given: "--interpreter /ld.so program"}, "soname": {given: "--soname liba.so.2"}, "remove-needed": {given: "--remove-needed libx.so.1"},
		"replace-needed": {given: "--replace-needed libx.so.1=libz.so.1"}, "add-needed": {given: "--add-needed libz.so.1"},
		"set-execstack": {given: "--set-execstack"}, "run-path": {given: "--run-path /r"}, "add-entry": {given: "--add-entry /r"}, "replace-entry": {given: "--replace-entry /opt/fakes=/r"}, "remove-entry": {given: "--remove-entry /opt/fakes"},
		"force-rpath": {given: "--add-entry /r --force-rpath", without: "--add-entry /r"}, "force-runpath": {given: "--add-entry /r --force-runpath heir.so", without: "--add-entry /r heir.so"},
	},
	"autoPatchelf": {
		"libs": {given: "--libs D/fakes"}, "interpreter": {given: "--interpreter D/ld.so"},
		"runtime-dependencies": {given: "--runtime-dependencies /r"}, "append-rpaths": {given: "--append-rpaths /r"},
		"temporary": {given: "--temporary D/x"}, "ignore-missing": {given: "--ignore-missing libmissing*"}, "no-recurse": {given: "--no-recurse"},
		"keep-libc": {given: "--keep-libc --libs D/libc", without: "--libs D/libc"}, "ignore-existing": {given: "--ignore-existing"},
		"preserve-origin": {given: "--preserve-origin=false --append-rpaths /r", without: "--append-rpaths /r"}, "relativize-rpath": {given: "--relativize-rpath=false"}, "dlopen": {given: "--dlopen --libs D/toolkit", without: "--libs D/toolkit"}, "opened": {given: "--opened --libs D/toolkit", without: "--libs D/toolkit"},
		"minimal": {given: "--minimal"}, "enforce-priority": {given: "--enforce-priority required"}, "hints": {given: "--hints D/hints"},
		"no-set-interpreter": {given: "--no-set-interpreter --interpreter D/ld.so", without: "--interpreter D/ld.so"},
		"structured-logs":    {given: "--structured-logs"}, "tool": {given: "--tool autoAddDriverRunpath"}, "expect-driver": {given: "--expect-driver"},
		"undo": {given: "--undo"}, "force": {given: "--undo --force", without: "--undo"}, "no-record": {given: "--no-record"}, "in-place": {given: "--in-place --append-rpaths /r", without: "--append-rpaths /r"},
		"when":        {given: "--tool autoAddDriverRunpath --when needed", without: "--tool autoAddDriverRunpath"},
		"driver-link": {given: "--tool autoAddDriverRunpath --driver-link /z", without: "--tool autoAddDriverRunpath"},
		"compat":      {given: "--tool addCudaCompatRunpath --compat D/x", without: "--tool addCudaCompatRunpath --compat D/cuda/compat"},
		"position":    {given: "--tool autoAddDriverRunpath --position last", without: "--tool autoAddDriverRunpath"},
		"stub":        {given: "--libs D/fakes --stub fakes", without: "--libs D/fakes"},
		"store":       {given: "--libs D/" + inStore + " --store D/pkgs", without: "--libs D/" + inStore},
	},
	"hostDriver install": {
		"links": {given: "--links"}, "compat": {given: "--compat /opt/newer/compat"}, "quiet": {given: "-q"}, "root": {given: "--root D/tree2"},
		"state-dir": {given: "--state-dir /srv/gpu"},
	},
	"hostDriver find":      {"root": {given: "--root D/tree2"}},
	"hostDriver uninstall": {"root": {given: "--root D/tree2"}},
	"hostDriver tmpfiles": {
		"links": {given: "--links"}, "compat": {given: "--compat /opt/newer/compat"}, "part": {given: "--part path"}, "root": {given: "--root D/tree2"},
		"state-dir": {given: "--state-dir /srv/gpu"}, "quiet": {given: "-q"}, "program": {given: "--program /p"},
	},
	"hostDriver run": {
		"method": {given: "--method nothing"}, "compat": {given: "--compat nothing"}, "root": {given: "--root D/none"}, "machine": {given: "--machine none"},
		"prefix": {given: "--prefix none"}, "from": {given: "--from none"},
	},
	"hostDriver sandbox": {
		"configure": {given: "--configure", without: "D/gpu.drv"}, "dry-run": {given: "--dry-run"},
		"conf": {given: "--conf /n.conf"}, "program": {given: "--program /p"},
		"root":    {given: "--root D/none D/gpu.drv", without: "D/gpu.drv"},
		"machine": {given: "--machine none D/gpu.drv", without: "D/gpu.drv"}, "prefix": {given: "--prefix none D/gpu.drv", without: "D/gpu.drv"},
		"from":  {given: "--from none D/gpu.drv", without: "D/gpu.drv"},
		"cache": {reason: "copies are only made where the driver link's are not to be used"},
	},
	"hostDriver cdi": {
		"root": {given: "--root D/none"}, "machine": {given: "--machine none"}, "cache": {given: "--cache D/cache/other"}, "dry-run": {given: "--dry-run"},
	},
	"runpath cache write": {
		"driver-link": {given: "--driver-link D/y"}, "compat": {given: "--compat D/y"}, "stub": {given: "--stub y"}, "store": {given: "--store D/pkgs gpu.so", without: "gpu.so"},
	},
	"runpath remove":    {"all": {given: "--all"}, "force-runpath": {given: "--force-runpath /a heir.so", without: "/a heir.so"}},
	"runpath set":       {"force-runpath": {given: "--force-runpath"}},
	"runpath add":       {"force-runpath": {given: "--force-runpath"}},
	"hostDriver doctor": {"root": {given: "--root D/tree2"}, "for": {given: "--for 9.0"}},
}

// What the commands are run with: their flags, and after "--" files.
var commandLines = []string{
	"stubReplace -- lib.so plain.so more " + finishedPath, "autoAddDriverRunpath -- lib.so plain.so more " + finishedPath, "addCudaCompatRunpath --compat D/cuda/compat -- lib.so plain.so more " + finishedPath,
	"noRunpathAmbiguity -- lib.so plain.so more",
	"autoPatchelf --libs D/x -- ap " + finishedPath, "runpath show -- lib.so plain.so", "runpath set -- /b:D/x::/b lib.so plain.so heir.so more " + finishedPath, "runpath add -- /a lib.so plain.so heir.so more " + finishedPath,
	"runpath remove -- D/y lib.so plain.so more " + finishedPath,
	"runpath normalize --tool stubReplace --tool autoAddDriverRunpath --tool addCudaCompatRunpath --compat D/cuda/compat -- lib.so plain.so more " + finishedPath,
	"runpath explain -- deep.so gpu.so linked.so", "runpath audit -- lib.so plain.so deep.so gpu.so linked.so cubin.so more", "runpath gpu -- cubin.so lib.so more", "runpath references -- references", "runpath manifest --", "runpath thin --for 9.0 -- cubin.so lib.so more " + finishedPath, "runpath scripts -- scripts " + finishedPath, "runpath shrink -- lib.so plain.so more " + finishedPath,
	"runpath edit --add-needed libq.so.1 -- lib.so plain.so more " + finishedPath,
	"runpath cache show -- lib.so", "runpath cache write -- lib.so more " + finishedPath, "runpath cache remove -- noted.so more " + finishedPath,
	"hostDriver find --root D/tree --", "hostDriver install --root D/tree --", "hostDriver uninstall --root D/installed --", "hostDriver tmpfiles --root D/tree --",
	"hostDriver run --root D/tree --cache D/cache -- true", "hostDriver sandbox --root D/tree --cache D/cache --", "hostDriver cdi --root D/tree --cache D/cache --", "hostDriver doctor --root D/tree --",
}

// finishedPath is a package that is finished where pkgs is the Nix store.
const finishedPath = "pkgs/" + storeHash + "done"

// inStore is a directory of stubs where pkgs is the Nix store; the hash is as nuke-refs leaves it.
const inStore = "pkgs/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-gpu-stubs/gpu"

// fixture makes the files that the commands are tried on in the working directory, and returns what makes them anew.
func fixture(t *testing.T) (again func()) {
	t.Helper()
	d, _ := os.Getwd()
	text := func(path, contents string) {
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(contents, "D/", d+"/")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text("keep/strings.c", "const char *a = \"libnvidia-ml.so.1\", *b = \"cannot open libcuda.so.1 here\", *c = \"libx.so.1\"; extern int nowhere; int *n = &nowhere;")
	library(t, "x/libx.so.1", "libx.so.1", "")
	library(t, "y/libx.so.1", "libx.so.1", "", "-Wl,--defsym=other=1")
	library(t, "y/libother.so.1", "libother.so.1", "")
	library(t, "x/libother.so.1", "libother.so.1", "", "-Wl,--defsym=other=1")
	library(t, "cuda/compat/libcuda.so.1", "libcuda.so.1", "")
	library(t, "stubs/libcuda.so", "libcuda.so.1", "")
	library(t, "fakes/libmissing.so.1", "libmissing.so.1", "")
	library(t, inStore+"/libcuda.so.1", "libcuda.so.1", "")
	library(t, "gpu.so", "", d+"/"+inStore, inStore+"/libcuda.so.1")
	text("keep/cubin.s", ".section .nv_fatbin,\"a\"; .4byte 0xBA55ED50; .2byte 1, 16; .8byte 2f-1f; 1: "+entryOf(2, 80)+entryOf(2, 75)+entryOf(1, 89)+"2:\n")
	library(t, "cubin.so", "", "", "keep/cubin.s")
	text("keep/cut.s", ".section .nv_fatbin,\"a\"; .4byte 0xBA55ED50; .2byte 1, 16; .8byte 2f-1f; 1: "+entryOf(2, 70)+strings.Repeat(entryOf(2, 80), 1000)+"2:\n")
	text("keep/signature.s", ".section .sig; .byte 1\n")
	library(t, "cut.so", "", "", "keep/cut.s")
	library(t, "signed.so", "", "", "keep/cut.s", "keep/signature.s")
	library(t, "linked.so", "", "/run/opengl-driver/lib", inStore+"/libcuda.so.1")
	library(t, "assumed/libcuda.so.1", "libcuda.so.1", "")
	entries := "D/x:D/y:/opt/fakes:D/stubs::D/x/:/run/opengl-driver/lib:D/cuda/compat:D/" + inStore
	text("keep/opened.c", "const char *a = \"libcudart.so.12\";")
	library(t, "lib.so", "", entries, "x/libx.so.1", "stubs/libcuda.so", "-Wl,-z,execstack", "keep/opened.c")
	library(t, "plain.so", "", "/a")
	library(t, "x/libinner.so.1", "libinner.so.1", "")
	library(t, "x/libouter.so.1", "libouter.so.1", "", "x/libinner.so.1")
	library(t, "heir.so", "", d+"/x:/a", "x/libouter.so.1")
	tool(t, "runpath", "set", "-q", "--force-rpath", d+"/x:/a", "heir.so")
	text("keep/more.c", "const char *a = \"libelse.so.3\";")
	library(t, "x/libelse.so.3", "libelse.so.3", "")
	library(t, "toolkit/libcudart.so.12", "libcudart.so.12", "")
	library(t, "x/libdeep.so.1", "libdeep.so.1", d+"/x", "x/libother.so.1", "keep/more.c")
	library(t, "x/glibc-hwcaps/x86-64-v2/libx.so.1", "libx.so.1", "")
	library(t, "deep.so", "", d+"/x:"+d+"/stubs", "x/libx.so.1", "x/libdeep.so.1", "fakes/libmissing.so.1", "keep/strings.c", "-lc")
	if err := compile("program", "-xc", "-Wl,-rpath,/a", "keep/strings.c", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-e,0"); err != nil {
		t.Skip(err)
	}
	tool(t, "runpath", "set", "-q", "--keep-empty", strings.ReplaceAll(entries, "D", d), "lib.so")
	library(t, "noted.so", "", d+"/x", "x/libx.so.1")
	if err := compile("noted", "-nostdlib", "-xc", "/dev/null", "-xnone", "-Wl,-e,0,--no-as-needed,-rpath,"+d+"/x", "x/libx.so.1"); err != nil {
		t.Skip(err)
	}
	tool(t, "runpath", "cache", "write", "-q", "noted.so", "noted")
	prebuilt(t, text)
	host(t, text)
	text("more/text", "text")
	text("references", "/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-named/lib /nix/store/1c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-other")
	text("broken.so", "\x7fELF")
	text("scripts/a.py", "import ctypes\nctypes.CDLL('libcuda.so.1')\nx = 'libnvidia-ml.so.1'\nctypes.CDLL('libnvrtc.so.12')\n")
	for _, file := range []string{"lib.so", "cubin.so", "noted.so", "program", "scripts/a.py"} {
		os.MkdirAll(finishedPath, 0o755)
		exec.Command("cp", file, finishedPath).Run()
	}
	for _, file := range []string{"lib.so", "noted.so"} {
		os.Link(file, "linked-from-"+file)
	}
	finish(t, finishedPath)
	text("gpu.drv", `Derive([("out","/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-x","","")],[],[],"x86_64-linux","/bin/sh",[],[("requiredSystemFeatures","cuda")])`)
	return snapshot(t)
}

// entryOf is a cubin (2), or PTX (1) of ISA 8.7, for an architecture, in assembler.
func entryOf(kind, arch int) string {
	return fmt.Sprintf(".2byte %d, 0x101; .4byte 128; .8byte 2000; .8byte 0; .2byte 7, 8; .4byte %d; .8byte 0, 0x11, 0, 0; .ascii \"-L/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-cuda_nvcc/lib\"; .zero 2005; ", kind, arch)
}

// prebuilt makes a tree for autoPatchelf, in ap.
func prebuilt(t *testing.T, text func(path, contents string)) {
	t.Helper()
	d, _ := os.Getwd()
	cc := func(path string, args ...string) {
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := compile(path, append([]string{"-Wl,--enable-new-dtags,--no-as-needed,--unresolved-symbols=ignore-all"}, args...)...); err != nil {
			t.Skip(err)
		}
	}
	text("keep/note.c", `__attribute__((section(".note.dlopen"), used, aligned(4))) static const struct { int n, d, t; char o[4]; char j[60]; } note =
		{ 4, 60, 0x407c0c0a, "FDO", "[{\"soname\":[\"libopt.so.1\"],\"priority\":\"suggested\"}]" }; const char *gpu = "libcudart.so.12";`)
	library(t, "ap/lib/libown.so.1", "libown.so.1", "")
	library(t, "ap/lib/libplain.so", "", "/a")
	library(t, "ap/lib/libgpu.so", "", d+"/y:$ORIGIN/../more", "stubs/libcuda.so")
	os.Mkdir("ap/more", 0o755)
	os.Link("ap/lib/libplain.so", "linked-from-ap")
	text("keep/main.c", "int main(void) { return 0; }")
	cc("ap/bin/program", "keep/main.c", "keep/note.c", "ap/lib/libown.so.1", "x/libx.so.1", "fakes/libmissing.so.1")
	loader := strings.Fields(tool(t, "runpath", "show", "ap/bin/program"))
	os.Symlink(loader[len(loader)-1], "ld.so")
	os.Mkdir("libc", 0o755)
	libc, _ := exec.Command("cc", "-print-file-name=libc.so.6").Output()
	os.Symlink(strings.TrimSpace(string(libc)), "libc/libc.so.6")
	text("hints", "libmissing.so.1 missing-package\n")
	text("ap.autopatchelf.json", `{"version": 1, "tree": {"device": 1, "inode": 1, "owner": 1},
		"files": [{"path": "lib/libplain.so", "before": {"tag": "DT_RUNPATH", "run_path": "/before"}, "after": {"tag": "DT_RUNPATH", "run_path": "/after"}}]}`)
}

// host makes hosts that have a driver: tree, tree2 with another one, and installed, where it has been installed.
func host(t *testing.T, text func(path, contents string)) {
	t.Helper()
	text("keep/cuda.c", `const char *const opens = "libnvidia-ptxjitcompiler.so.1"; const char room[20000] = "x";`)
	driver := func(dir, version string, names ...string) {
		for _, name := range names {
			file := filepath.Join(dir, name+".so."+version)
			library(t, file, name+".so.1", "", "keep/cuda.c")
			os.Symlink(filepath.Base(file), filepath.Join(dir, name+".so.1"))
		}
	}
	loader, err := filepath.EvalSymlinks("ld.so")
	if err != nil {
		t.Skip(err)
	}
	for tree, version := range map[string]string{"tree": "550.54.14", "tree2": "560.28.03", "installed": "550.54.14"} {
		driver(tree+"/usr/lib64", version, "libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
		os.Mkdir(tree+"/run", 0o755)
		os.Symlink("usr/lib64", tree+"/lib64")
		head, _ := os.ReadFile(loader)
		text(tree+"/usr/lib64/"+filepath.Base(loader), string(head))
		text(tree+"/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "+version+"  Tue Jun  3 11:17:40 UTC 2025\n")
		text(tree+"/sys/module/nvidia/version", version+"\n")
		for _, device := range []string{"nvidiactl", "nvidia0", "nvidia-uvm"} {
			at := filepath.Join(tree, "dev", device)
			os.MkdirAll(filepath.Dir(at), 0o755)
			if err := hosttest.Node(at); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Skip("no device nodes can be made here: ", err)
			}
		}
		// Cut off: it is named, and not used.
		text(tree+"/usr/lib64/libnvcuvid.so.1", "\x7fELF")
	}
	driver("tree/opt/driver", "565.57.01", "libcuda")
	driver("tree/opt/newer/compat", "570.86.10", "libcuda")
	combined("hostDriver", "install", "-q", "--root", "installed")
}

var flagLine = regexp.MustCompile(`(?m)^   --([a-z-]+)`)

// Each run is on a new copy of the tree, whose inode the record names.
var (
	treeOfRecord = regexp.MustCompile(`"tree": *\{[^}]*\}|"inode": *[0-9]+`)
	anotherTree  = regexp.MustCompile(`(?m)^.*: this was the record of another directory.*\n`)
)

// A command offers only flags that it obeys: each flag in its --help changes what it prints, does or answers, on files
// where there is something to change.
func TestEveryFlagIsObeyed(t *testing.T) {
	long(t)
	here, _ := os.Getwd()
	top := filepath.Dir(here)
	t.Chdir(t.TempDir())
	d, _ := os.Getwd()
	again := fixture(t)
	pristine := state(t)
	now := pristine
	words := func(s string) []string {
		out := strings.Fields(s)
		for i := range out { // the directory may have blanks
			out[i] = strings.ReplaceAll(out[i], "D/", d+"/")
		}
		return out
	}
	manifest, err := os.ReadFile(filepath.Join(top, "cmd", "tools.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"name": "(\w+)"`).FindAllStringSubmatch(string(manifest), -1) {
		if m[1] != "patchelf" && !slices.ContainsFunc(commandLines, func(line string) bool { return strings.HasPrefix(line, m[1]+" ") }) {
			t.Errorf("%s is not tried", m[1])
		}
	}
	for _, line := range commandLines {
		i := strings.LastIndex(line, "--")
		before, operands := line[:i], line[i+2:]
		base := words(before)
		n := slices.IndexFunc(base, func(w string) bool { return strings.HasPrefix(w, "--") })
		if n < 0 {
			n = len(base)
		}
		name := strings.Join(base[:n], " ")
		ran := map[string]string{}
		run := func(extra string) string {
			if result, done := ran[extra]; done {
				return result
			}
			if now != pristine {
				again()
			}
			var was, is [5]os.FileInfo
			files := [5]string{"lib.so", "plain.so", "program", "ap/bin/program", "noted.so"}
			for i, name := range files {
				was[i], _ = os.Stat(name)
			}
			out, status := combined(slices.Concat(base, words(extra), words(operands))...)
			for i, name := range files {
				is[i], _ = os.Stat(name)
				out += fmt.Sprintf("%s is the same file: %v\n", name, os.SameFile(was[i], is[i]))
			}
			out = anotherTree.ReplaceAllString(out, "")
			now = state(t)
			ran[extra] = fmt.Sprintf("%sstatus %d\n%s", out, status, now)
			return ran[extra]
		}
		help := tool(t, base[0], append(slices.Clone(base[1:n]), "--help-all")...)
		flags := flagLine.FindAllStringSubmatch(help, -1)
		if len(flags) < 2 {
			t.Errorf("%s --help lists %d flags", name, len(flags))
		}
		for _, m := range flags {
			use, known := obeyed[name][m[1]]
			if !known {
				use, known = obeyed[""][m[1]]
			}
			switch {
			case !known:
				t.Errorf("%s has a flag --%s, and this test does not know what it changes", name, m[1])
			case use.given == "":
			default:
				if given := run(use.given); given == run(use.without) {
					t.Errorf("%s %s changes nothing of:\n%s", name, use.given, given[:strings.Index(given, "\n.\n")])
				}
			}
		}
	}
}

// state is what there is in the working directory.
func state(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			fmt.Fprintln(&b, path)
			return err
		}
		data, err := os.ReadFile(path)
		if strings.HasSuffix(path, ".autopatchelf.json") {
			data = treeOfRecord.ReplaceAll(data, nil)
		}
		fmt.Fprintf(&b, "%s %x\n", path, sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What cannot be printed is an error, whichever command has something to say.
func TestOutputThatIsLost(t *testing.T) {
	long(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	t.Chdir(t.TempDir())
	d, _ := os.Getwd()
	again := fixture(t)
	lines := append(slices.Clone(commandLines), "runpath explain --graph -- deep.so", "runpath audit --sarif - -- lib.so", "runpath audit --html - -- lib.so", "runpath scripts --substitute -- scripts",
		"autoPatchelf --structured-logs --libs D/libs -- ap", "autoPatchelf --undo -- ap/lib/libplain.so", "hostDriver find -- tree/usr/lib64", "patchelf --print-rpath -- lib.so", "patchelf --print-needed -- lib.so gpu.so")
	printed := 0
	for _, line := range lines {
		for _, extra := range []string{"", "--json"} {
			if extra != "" && strings.HasPrefix(line, "patchelf ") {
				continue
			}
			i := strings.LastIndex(line, "--")
			var args []string
			for _, w := range strings.Fields(line[:i] + " " + extra + " " + line[i+2:]) {
				args = append(args, strings.ReplaceAll(w, "D/", d+"/"))
			}
			run := func(stdout io.Writer) (int, string) {
				again()
				var stderr locked
				status := carryOut(stdout, &stderr, args...)
				return status, stderr.String()
			}
			var stdout bytes.Buffer
			run(&stdout)
			if stdout.Len() == 0 || args[0] == "hostDriver" && args[1] == "run" { // the program's own
				continue
			}
			printed++
			if status, said := run(full); status != 1 || !strings.Contains(said, "no space left on device") {
				t.Errorf("%q: status %d: %s", args, status, said)
			}
			if extra != "" {
				continue
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			cmd := exec.Command(args[0], args[1:]...) // what such a pipe does to a process is its signal
			cmd.Stdout = w
			if again(); cmd.Run() == nil {
				t.Errorf("%q to a pipe that nobody reads: status 0", args)
			}
			w.Close()
		}
	}
	if printed < 50 {
		t.Errorf("%d commands print something", printed)
	}
}
