package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/scripts/syntax"
)

// Triton asks ldconfig for the directories of the driver; before that it returns the one that a setting names.
const triton = `
import functools
import os, subprocess

@functools.lru_cache()
def libcuda_dirs():
    env_libcuda_path = os.getenv("TRITON_LIBCUDA_PATH")
    if env_libcuda_path:
        return [env_libcuda_path]

    libs = subprocess.check_output(["/sbin/ldconfig", "-p"]).decode()
    # a line: libcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1
    locs = [line.split()[-1] for line in libs.splitlines() if "libcuda.so.1" in line]
    dirs = [os.path.dirname(loc) for loc in locs]
    assert any(os.path.exists(os.path.join(path, 'libcuda.so.1')) for path in dirs), 'cannot be found'
    return dirs

print(libcuda_dirs())
`

func TestTritonFindsTheDriverLink(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	places := Find(triton, syntax.Python, nil)
	if got, want := show(places)[0], "11 ldconfig !"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	dir := t.TempDir()
	fixed := Fix(triton, places, dir)
	for _, p := range Find(fixed, syntax.Python, nil) {
		if p.Kind != Named {
			t.Errorf("after the fix there is still %+v", p)
		}
	}
	run := func() string {
		cmd := exec.Command(python, "-c", strings.ReplaceAll(fixed, "/sbin/ldconfig", "/there/is/no/ldconfig"))
		cmd.Env = append(os.Environ(), "TRITON_LIBCUDA_PATH=")
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if out := run(); !strings.Contains(out, "/there/is/no/ldconfig") {
		t.Error(out) // no driver link: as before
	}
	os.WriteFile(filepath.Join(dir, "libcuda.so.1"), nil, 0o644)
	if out := run(); out != "['"+dir+"']\n" {
		t.Error(out)
	}
	if s := places[0].Substitute(triton, places); !strings.Contains(s, "return [") || !strings.Contains(s, "driverLink") {
		t.Error(s)
	}
	for _, other := range []string{
		strings.Replace(triton, "[env_libcuda_path]", "env_libcuda_path", 1),               // it returns no lists
		strings.ReplaceAll(triton, "libcuda.so.1", "libfoo.so.1"),                          // another library's
		strings.Replace(triton, "    libs = subprocess", "    if x: libs = subprocess", 1), // in a statement
		strings.Replace(triton, "        return [env_libcuda_path]", "        dirs = [env_libcuda_path]", 1),
	} {
		for _, p := range Find(other, syntax.Python, nil) {
			if p.Kind == Ldconfig && p.Replace != "" {
				t.Errorf("%+v in %s", p, other)
			}
		}
	}
}

func TestToolkit(t *testing.T) {
	at := func(name string) string {
		if strings.HasPrefix(name, "libnvrtc.so") {
			return "/nix/store/x-nvrtc/lib/libnvrtc.so.12"
		}
		return ""
	}
	const text = "import ctypes\nimport os\nctypes.CDLL('libnvrtc.so.12')\nctypes.CDLL(\"libcublasLt.so.12\")\nctypes.CDLL(\"libcuda.so.1\")\nctypes.CDLL(\"libz.so.1\")\n"
	places := Find(text, syntax.Python, at)
	if got, want := strings.Join(show(places), ", "), "3 call libnvrtc.so.12!, 4 call libcublasLt.so.12, 5 call libcuda.so.1!"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const p = "'/nix/store/x-nvrtc/lib/libnvrtc.so.12'"
	fixed := Fix(text, places, link)
	if want := "ctypes.CDLL((" + p + " if os.path.exists(" + p + ") else 'libnvrtc.so.12'))\n"; !strings.Contains(fixed, want) {
		t.Errorf("got %s, want %s", fixed, want)
	}
	if got := show(Find(fixed, syntax.Python, at)); strings.Join(got, ", ") != "4 call libcublasLt.so.12" {
		t.Errorf("after the fix: %s", got)
	}
	if got := Find(text, syntax.Python, nil); len(got) != 1 {
		t.Errorf("without libraries: %s", show(got))
	}
	for _, name := range []string{"libcublas.so.12", "libnccl.so.2", "libnppc.so.12", "libnvinfer.so.10", "libcufile.so.0"} {
		if !Worth([]byte(`CDLL("` + name + `")`)) {
			t.Errorf("%s is not worth a look", name)
		}
	}
}

// What is put together, and what other languages open, is listed and left as it is.
func TestOnlyListed(t *testing.T) {
	for _, c := range []struct {
		lang       syntax.Language
		text, want string
	}{
		{syntax.Python, "import ctypes\nctypes.CDLL(f'libcuda.so.{v}')\nctypes.CDLL('libcuda.so.' + v)\nctypes.CDLL('libnvidia-ml.so.%d' % v)\nctypes.CDLL('libcuda.so.{}'.format(v))\n",
			"2 call libcuda.so, 3 call libcuda.so, 4 call libnvidia-ml.so, 5 call libcuda.so"},
		{syntax.Python, "import ctypes\nname = f'libcuda.so.{v}'\nctypes.CDLL(name)\nif x.startswith('libcuda.so.'): print('libcuda.so.' in x)\n",
			"2 later libcuda.so, 4 named libcuda.so, 4 named libcuda.so"},
		{syntax.JavaScript, "const ffi = require('ffi-napi')\nconst nvml = ffi.Library('libnvidia-ml', {})\nconst cuda = koffi.load(`libcuda.so.${v}`)\nlog('libnvidia-ml')\n",
			"2 call libnvidia-ml.so, 3 call libcuda.so"},
		{syntax.Notebook, `{
 "cells": [
  {
   "cell_type": "markdown",
   "source": [
    "ctypes.CDLL('libcuda.so.1')\n"
   ]
  },
  {
   "cell_type": "code",
   "outputs": [
    "CDLL('libcuda.so.1')"
   ],
   "source": [
    "import ctypes\n",
    "ctypes.CDLL(\"libcuda.so.1\")"
   ]
  }
 ]
}`, "16 call libcuda.so.1"},
		{syntax.Julia, "using Libdl # \"libcuda.so.1\"\nh = dlopen(\"libcuda.so.1\")\nccall((:cuInit, \"libcuda\"), Cint, (Cuint,), 0)\nx = \"libcuda\"\n",
			"2 call libcuda.so.1, 3 call libcuda.so"},
		{syntax.Lua, "local cuda = ffi.load('cuda') -- ffi.load('nvidia-ml')\nlocal ml = ffi.load(\"libnvidia-ml.so.1\")\nprint('libcuda.so')\n",
			"1 call libcuda.so, 2 call libnvidia-ml.so.1, 3 named libcuda.so"},
		{syntax.Ruby, "ffi_lib 'libnvidia-ml.so.1'\nFiddle.dlopen(\"libcuda.so\")\n", "1 call libnvidia-ml.so.1, 2 call libcuda.so"},
	} {
		if got := strings.Join(show(Find(c.text, c.lang, nil)), ", "); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
	for name, want := range map[string]syntax.Language{"x.ipynb": syntax.Notebook, "x.jl": syntax.Julia, "x.lua": syntax.Lua, "x.rb": syntax.Ruby} {
		if got := syntax.LanguageOf(name, nil); got != want {
			t.Errorf("%s is %d", name, got)
		}
	}
}

// Behind a path the name stays, for where there is no such file.
func TestNameBehindPath(t *testing.T) {
	for _, c := range []struct {
		lang       syntax.Language
		text, want string
		alone      bool
	}{
		{syntax.C, "h = dlopen(\"libcuda.so.1\", 2);", "h = (dlopen(\"/l/libcuda.so.1\", 2) ? dlopen(\"/l/libcuda.so.1\", 2) : dlopen(\"libcuda.so.1\", 2));", false},
		{syntax.C, "h = x.dlopen(\"libcuda.so.1\", 2);", "h = x.dlopen(\"/l/libcuda.so.1\", 2);", true},
		{syntax.C, "h = dlopen(\"libcuda.so.1\", f(1));", "h = dlopen(\"/l/libcuda.so.1\", f(1));", true},
		{syntax.Python, "s = '''\nh = dlopen(\"libcuda.so.1\", 1);'''\n", "s = '''\nh = (dlopen(\"/l/libcuda.so.1\", 1) ? dlopen(\"/l/libcuda.so.1\", 1) : dlopen(\"libcuda.so.1\", 1));'''\n", false},
		{syntax.JavaScript, "const k = require('koffi')\nk.koffi.load('libcuda.so.1')", "const k = require('koffi')\nk.koffi.load((require(\"fs\").existsSync('/l/libcuda.so.1') ? '/l/libcuda.so.1' : 'libcuda.so.1'))", false},
		{syntax.JavaScript, "Deno.dlopen('libcuda.so.1', {})", "Deno.dlopen('/l/libcuda.so.1', {})", true},
		{syntax.Python, "import os.path, ctypes\nctypes.CDLL(b'libcuda.so.1')\n", "import os.path, ctypes\nctypes.CDLL((b'/l/libcuda.so.1' if __import__(\"os\").path.exists(b'/l/libcuda.so.1') else b'libcuda.so.1'))\n", false},
		{syntax.Python, "from dl cimport dlopen\ndlopen(b'libcuda.so.1', 1)\n", "from dl cimport dlopen\ndlopen(b'/l/libcuda.so.1', 1)\n", true},
	} {
		places := Find(c.text, c.lang, nil)
		got := Fix(c.text, places, "/l")
		if len(places) != 1 || got != c.want || places[0].Alone != c.alone {
			t.Errorf("got  %s\nwant %s (%v)", got, c.want, places)
		}
		if again := Fix(got, Find(got, c.lang, nil), "/l"); again != got {
			t.Errorf("twice: %s", again)
		}
	}
}

// What ran before the fix runs after it, and finds the library that is in the driver link.
func TestFixedScriptsRun(t *testing.T) {
	const load = "const koffi = {load(path) { console.log(path) }}\n"
	for _, c := range []struct{ name, program, text, writes string }{
		{"imported below", "python3", `
import ctypes
try:
    lib = ctypes.CDLL("libcuda.so.1")
except OSError:
    lib = None
import os
print("ran", os.sep)
`, `__import__("os").path`},
		{"a parameter", "python3", `
import os
def CDLL(path):
    print("ran", path)
def load(os="linux"):
    return CDLL("libcuda.so.1")
load()
`, `__import__("os").path`},
		{"imported in the function, below", "python3", `
import os
def CDLL(path):
    print("ran", path)
def load():
    CDLL("libcuda.so.1")
    import os.path
load()
`, `__import__("os").path`},
		{"assigned", "python3", "import os\nos = 'linux'\ndef CDLL(path):\n    print('ran', path)\nCDLL('libcuda.so.1')\n", `__import__("os").path`},
		{"another's", "python3", "import os\nimport sys as os\ndef CDLL(path):\n    print('ran', path)\nCDLL('libcuda.so.1')\n", `__import__("os").path`},
		{"all of another's", "python3", "import os\nfrom ctypes import *\ndef CDLL(path):\n    print('ran', path)\nCDLL('libcuda.so.1')\n", `__import__("os").path`},
		{"deleted", "python3", "import os\ndel os\ndef CDLL(path):\n    print('ran', path)\nCDLL('libcuda.so.1')\n", `__import__("os").path`},
		{"a directory of the driver, before the import", "python3", strings.NewReplacer("import os, subprocess", "import subprocess\nfrom os import getenv", "os.getenv", "getenv").Replace(triton) + "\nimport os\n", `__import__("os").path`},
		{"imported above", "python3", "import sys, os\nfrom os import path\nsys.os = os.sep\ndef CDLL(path):\n    print('ran', path)\nCDLL('libcuda.so.1')\n", "if os.path"},
		{"from another", "python3", "import os\nfrom sys import \\\nplatform as os\ndef CDLL(path):\n    print('ran', path)\nCDLL('libcuda.so.1')\n", `__import__("os").path`},
		{"required below", "node", "import { createRequire } from 'module'\n" + load + `koffi.load("libcuda.so.1")
const require = createRequire(import.meta.url)
require("fs")
`, `load("@/libcuda.so.1")`},
		{"required in a function above", "node", "import { createRequire } from 'module'\n" + load + `function later() { return require("fs") }
koffi.load("libcuda.so.1")
const require = createRequire(import.meta.url)
`, `load("@/libcuda.so.1")`},
		{"tried in a module", "node", "import 'module'\n" + load + `try { require("fs") } catch {}
koffi.load("libcuda.so.1")
`, `load("@/libcuda.so.1")`},
		{"a parameter of JavaScript's", "node", "require('fs')\n" + load + `function f(require) { koffi.load("libcuda.so.1") }
f()
`, `load("@/libcuda.so.1")`},
		{"made above", "node", "import { createRequire } from 'module'\n" + load + `const require = createRequire(import.meta.url)
koffi.load("libcuda.so.1")
`, "existsSync("},
		{"required above", "node", "require('fs')\n" + load + `koffi.load("libcuda.so.1")` + "\n", "existsSync("},
	} {
		t.Run(c.name, func(t *testing.T) {
			lang, dir := syntax.Python, t.TempDir()
			file := filepath.Join(dir, "script")
			if c.program == "node" {
				lang, file = syntax.JavaScript, file+".cjs"
				if strings.HasPrefix(c.text, "import ") {
					file = strings.TrimSuffix(file, ".cjs") + ".mjs"
				}
			}
			os.WriteFile(filepath.Join(dir, "libcuda.so.1"), nil, 0o644)
			fixed := Fix(c.text, Find(c.text, lang, nil), dir)
			if want := strings.ReplaceAll(c.writes, "@", dir); !strings.Contains(fixed, want) {
				t.Errorf("no %s in:\n%s", want, fixed)
			}
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skip("no " + c.program)
			}
			os.WriteFile(file, []byte(fixed), 0o644)
			cmd := exec.Command(c.program, file)
			cmd.Env = append(os.Environ(), "TRITON_LIBCUDA_PATH=")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), dir) && c.name != "imported below" {
				t.Errorf("%v: %s\n%s", err, out, fixed)
			}
		})
	}
}
