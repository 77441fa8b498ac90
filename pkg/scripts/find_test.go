package scripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/scripts/syntax"
)

const link = "/run/opengl-driver/lib"

// What packages do, in a few lines each. The name of a case says who does it so.
var cases = []struct {
	name, text string
	want       []string // "line kind library", with ! where it is replaced
}{
	{"NVML for Python", `
from ctypes import *
nvmlLib = None
def _load():
    global nvmlLib
    nvmlLib = CDLL("libnvidia-ml.so.1")
`, []string{"6 call libnvidia-ml.so.1!"}},
	{"PyTorch", `
import ctypes
handle = ctypes.CDLL('libcuda.so.1')
again = ctypes.CDLL('libcuda.so.1'.encode())
`, []string{"3 call libcuda.so.1!", "4 call libcuda.so.1!"}},
	{"tinygrad: a class of its own, given a bare name", `
from support import c
dll = c.DLL('cuda', 'cuda')
ml = c.DLL("ml", "nvidia-ml", extra=1)
win = c.DLL('cuda', 'nvcuda' if WIN else 'cuda')
`, []string{"3 lookup libcuda.so!", "4 lookup libnvidia-ml.so!", "5 lookup libcuda.so!"}},
	{"tinygrad: the same, given a path, another library, or only a label", `
from support import c
dll = c.DLL('cuda', '/run/opengl-driver/lib/libcuda.so')
rtc = c.DLL('cuda', 'nvrtc')
one = c.DLL('cuda')
two = c.DLLs('cuda', 'cuda')
`, nil},
	{"numba: a list that is opened later", `
import ctypes, os
from itertools import product
def locate():
    dlloader = ctypes.CDLL
    dldir = ['/usr/lib', '/usr/lib64']
    dlnames = ['libcuda.so', 'libcuda.so.1']
    candidates = dlnames + [os.path.join(x, y) for x, y in product(dldir, dlnames)]
    return dlloader, candidates
def load(dlloader, candidates):
    for path in candidates:
        try:
            return dlloader(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            pass
    raise OSError
dlloader, candidates = locate()
load(dlloader, candidates)
`, []string{"7 later libcuda.so!", "7 later libcuda.so.1!"}},
	{"one name in a variable", `
import ctypes
import sys
if sys.platform == 'win32':
    libname = 'nvcuda.dll'
else:
    libname = 'libcuda.so'
lib = ctypes.CDLL(libname)
`, []string{"7 later libcuda.so!"}},
	{"a default, a function's result, an appended name", `
import ctypes
def open_it(name="libnvidia-ml.so.1"):
    return ctypes.CDLL(name)
def which():
    return "libcuda.so.1"
names = []
names.append("libnvcuvid.so.1")
open_it()
ctypes.CDLL(which())
for n in names: ctypes.cdll.LoadLibrary(n)
`, []string{"3 later libnvidia-ml.so.1!", "6 later libcuda.so.1!", "8 later libnvcuvid.so.1!"}},
	{"a choice in the call", `
import ctypes, sys
ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
`, []string{"3 call libcuda.so.1!"}},
	{"tinygrad: find_library in the call", `
import ctypes, ctypes.util
from ctypes.util import find_library
def unwrap(x):
    if x is None: raise OSError
    return x
a = ctypes.CDLL(unwrap(find_library('cuda')))
b = ctypes.CDLL(ctypes.util.find_library("nvidia-ml"))
`, []string{"7 lookup libcuda.so!", "8 lookup libnvidia-ml.so!"}},
	{"find_library elsewhere is left alone", `
from ctypes.util import find_library
have = find_library('cuda') is not None
`, []string{"3 lookup libcuda.so"}},
	{"Triton: a list for the linker, a test on ldconfig's output, a path to look at", `
import os, subprocess
libraries = ['libcuda.so.1']
def build(src, libraries): pass
def dirs():
    libs = subprocess.check_output(["/sbin/ldconfig", "-p"]).decode()
    locs = [line.split()[-1] for line in libs.splitlines() if "libcuda.so.1" in line]
    return [d for d in locs if os.path.exists(os.path.join(d, 'libcuda.so.1'))]
build("x", libraries)
`, []string{"3 named libcuda.so.1", "6 ldconfig ", "7 named libcuda.so.1", "8 named libcuda.so.1"}},
	{"Triton: a name, then the same in directories that are looked through", `
import ctypes, os
def active(folders):
    candidates = ["libcuda.so.1"]
    candidates.extend([os.path.join(folder, "libcuda.so.1") for folder in folders])
    for candidate in candidates:
        ctypes.CDLL(candidate)
`, []string{"4 later libcuda.so.1!", "5 named libcuda.so.1"}},
	{"in a directory of its own, in the call", `
import ctypes, os
ctypes.CDLL(os.path.join(os.environ["DRIVER"], "libcuda.so.1"))
ctypes.CDLL(os.path.join("libcuda.so.1"))
`, []string{"3 named libcuda.so.1", "4 call libcuda.so.1!"}},
	{"whether it is loaded already", `
import ctypes, os
ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
src = """h = dlopen("libnvidia-ml.so.1", RTLD_NOLOAD | RTLD_LAZY);
         g = dlopen("libnvidia-ml.so.1", RTLD_LAZY); /* not RTLD_NOLOAD */"""
`, []string{"3 named libcuda.so.1", "5 source libnvidia-ml.so.1!"}},
	{"Triton, XLA, torch.utils.cpp_extension: CUDA's compilers in PATH, and the variables that name them", `
import os, shutil, subprocess
nvcc = shutil.which("nvcc")
home = os.environ.get('CUDA_HOME') or os.environ.get('CUDA_PATH', "/usr/local/cuda")
ptxas = os.getenv("TRITON_PTXAS_PATH", "")
subprocess.check_output(["ptxas", "--version"])
if "CUDA_HOME" in os.environ: print(os.environ["CUDA_HOME"])
`, []string{"3 program nvcc", "4 variable CUDA_HOME", "4 variable CUDA_PATH", "5 variable TRITON_PTXAS_PATH", "6 program ptxas", "7 variable CUDA_HOME"}},
	{"the same words where nothing is looked for", `
import os
os.environ["CUDA_HOME"] = "/opt/cuda"
tools = ["nvcc", "ptxas"]
print("nvcc", os.path.join("bin", "nvcc"), {"CUDA_HOME": 1}["CUDA_HOME"], names.get("nvcc"))
`, nil},
	{"ldconfig, for a library that is not the driver's", `
import subprocess
libs = subprocess.check_output(["/sbin/ldconfig", "-p"]).decode()
where = [line.split()[-1] for line in libs.splitlines() if line.strip().endswith("libamdhip64.so")]
`, nil},
	{"ldconfig, for a library that is named elsewhere", `
import subprocess
def paths(name):
    return [line for line in subprocess.check_output(["ldconfig", "-p"]).decode().splitlines() if name in line]
`, []string{"4 ldconfig "}},
	{"Triton: C source in a string", `
src = f"""
static void* handle() {{
  void* h = dlopen("libcuda.so.1", RTLD_LAZY);
  if (!h) PyErr_SetString(PyExc_RuntimeError, "Failed to open libcuda.so.1");
}}
"""
other = "h = dlopen(\"libnvidia-ml.so.1\", RTLD_NOW);"
`, []string{"4 source libcuda.so.1!", "8 source libnvidia-ml.so.1!"}},
	{"messages, comments, keys, comparisons", `
# CDLL("libcuda.so.1")
"""ctypes.CDLL("libcuda.so.1") is what this module is about."""
import ctypes
known = {"libcuda.so.1": 1}
print("libcuda.so.1 is missing")
def f(s, d):
    if s == "libcuda.so.1" or "libcuda.so" in s: return d["libcuda.so.1"]
    return "lib" "cuda.so.1" + "libcuda.so.1"
`, []string{"5 named libcuda.so.1", "8 named libcuda.so.1", "8 named libcuda.so", "8 named libcuda.so.1", "9 named libcuda.so.1"}},
	{"a name that another file opens", `
table = dict(cuda=Entry(linux_sonames=("libcuda.so.1",), name="cuda"))
`, []string{"2 named libcuda.so.1"}},
	{"a path stays, also ours", `
import ctypes
def f():
    ctypes.CDLL("/run/opengl-driver/lib/libcuda.so.1")
    ctypes.CDLL("libcudart.so.12")
`, nil},
	{"cffi and Cython", `
def f(ffi, dlfcn):
    ffi.dlopen("libnvidia-ml.so.1")
    path = 'libcuda.so.1'
    dlfcn.dlopen(bytes(path, encoding='utf-8'), dlfcn.RTLD_NOW)
    dlfcn.dlopen(b'libcuda.so.1', 2)
`, []string{"3 call libnvidia-ml.so.1!", "4 later libcuda.so.1!", "6 call libcuda.so.1!"}},
	{"names in the loop that opens them", `
import ctypes
class Meter:
    def start(self):
        for soname in ["libnvidia-ml.so.1", "libnvidia-ml.so"]:
            try:
                self.nvml = ctypes.CDLL(soname)
                break
            except OSError:
                continue
Meter().start()
first = [ctypes.CDLL(n) for n in ("libcuda.so.1",)]
for other in ("libcuda.so.1", "libcuda.so"):
    print(other)
`, []string{"5 later libnvidia-ml.so.1!", "5 later libnvidia-ml.so!", "12 later libcuda.so.1!", "13 named libcuda.so.1", "13 named libcuda.so"}},
	{"a function of the file that opens what it is given", `
import ctypes
def first(names):
    for n in names:
        try: return ctypes.CDLL(n)
        except OSError: last = n
    raise OSError(last)
def any_of(*sonames, label=None): return label, [ctypes.CDLL(s) for s in sonames]
def log(names): print(names)
first(("libcuda.so", "libcuda.so.1"))
any_of("libnvidia-ml.so.1", "libnvcuvid.so.1")
if not log: log("libcuda.so.1")
wanted = "libnvidia-encode.so.1"
first(names=[wanted])
any_of(label="libcuda.so.1")
`, []string{"10 later libcuda.so!", "10 later libcuda.so.1!", "11 later libnvidia-ml.so.1!", "11 later libnvcuvid.so.1!", "12 named libcuda.so.1", "13 later libnvidia-encode.so.1!", "15 named libcuda.so.1"}},
	{"a class of the file, and a method", `
import ctypes
class Api:
    def __init__(self, libname: str, prefix="cu", *, label=None):
        self._libname = libname
        self.prefix = prefix
        self.handle = ctypes.CDLL(self._libname)
class Driver:
    def open(self, soname, flags=0):
        return ctypes.CDLL(soname, flags)
    def start(self):
        return self.open("libcuda.so.1")
Api("libnvidia-ml.so.1", "libcuda.so.1", label="libcuda.so.1")
Driver().start()
`, []string{"12 later libcuda.so.1!", "13 later libnvidia-ml.so.1!", "13 named libcuda.so.1", "13 named libcuda.so.1"}},
	{"a parameter of the same name elsewhere", `
import ctypes
def load(soname):
    return ctypes.CDLL(soname)
def show(soname):
    print(soname)
show("libcuda.so.1")
load("libnvidia-ml.so.1")
soname = "libz.so.1"
ctypes.CDLL(soname)
`, []string{"7 named libcuda.so.1", "8 later libnvidia-ml.so.1!"}},
	{"CuPy: a class of another file", `
cdef SoftLink _get_softlink():
    cdef object libname = None
    if platform == 'linux':
        libname = 'libcuda.so.1'
    else:
        libname = 'nvcuda.dll'
    return SoftLink(libname, 'cu', mandatory=True)
`, []string{"5 later libcuda.so.1!"}},
	{"Cython's functions", `
import ctypes
cdef class Link:
    def __cinit__(self, str libname, int flags=0):
        self.handle = ctypes.CDLL(libname)
cdef object load(str soname):
    return ctypes.CDLL(soname)
Link('libcuda.so.1')
load('libnvidia-ml.so.1')
`, []string{"8 later libcuda.so.1!", "9 later libnvidia-ml.so.1!"}},
	{"the default of a variable of the environment", `
import ctypes, os
path = os.environ.get("NVML", "libnvidia-ml.so.1")
ctypes.CDLL(path)
ctypes.CDLL(os.getenv("LIBCUDA", "libcuda.so.1"))
if not path: ctypes.CDLL(os.environ.get("libnvcuvid.so.1", "/x"))
`, []string{"3 later libnvidia-ml.so.1!", "5 call libcuda.so.1!", "6 named libnvcuvid.so.1"}},
	{"a variable that is joined to a directory", `
import ctypes, os
from pathlib import Path
for lib in ("libcuda.so.1", "libnvidia-ml.so.1"):
    for root in ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"):
        path = os.path.join(root, lib)
        if os.path.exists(path): ctypes.CDLL(path)
def own(folder, soname): return ctypes.CDLL(str(folder / soname))
if not path: own(Path("/x"), "libcuda.so.1")
if not path: ctypes.CDLL(Path("/x") / "libcuda.so.1")
`, []string{"4 named libcuda.so.1", "4 named libnvidia-ml.so.1", "9 named libcuda.so.1", "10 named libcuda.so.1"}},
	{"names for each system, and a wrapper that returns None", `
import ctypes, os, sys, platform
NAMES = {"Windows": ("nvml.dll",), "Linux": ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"), "Darwin": ()}
def get_library(name):
    try: return ctypes.cdll.LoadLibrary(name)
    except OSError: return None
def nvml():
    for name in NAMES.get(platform.system(), ()):
        found = get_library(name)
        if found is not None: return found
def cuda():
    for name in (('nvcuda.dll',) if sys.platform == 'win32' else ('libcuda.so.1', 'libcuda.so')):
        found = get_library(name)
        if found is not None: return found
if nvml() is None or cuda() is None: raise OSError
encode = None or ctypes.CDLL('x.dll' if os.name == 'nt' else 'libnvidia-encode.so.1')
`, []string{"3 later libnvidia-ml.so.1!", "12 later libcuda.so.1!", "12 later libcuda.so!", "16 call libnvidia-encode.so.1!"}},
	{"other names of the loading functions", `
import ctypes, functools
from ctypes import CDLL as open_library, cdll
load = functools.partial(ctypes.CDLL, mode=ctypes.RTLD_GLOBAL)
load("libcuda.so.1")
open_library("libnvidia-ml.so.1")
cdll["libnvcuvid.so.1"]
table = {}
table.get("x", ["libcuda.so.1"])
`, []string{"5 call libcuda.so.1!", "6 call libnvidia-ml.so.1!", "7 call libnvcuvid.so.1!", "9 named libcuda.so.1"}},
}

func show(places []Place) []string {
	var out []string
	for _, p := range places {
		mark := ""
		if p.Replace != "" {
			mark = "!"
		}
		out = append(out, fmt.Sprintf("%d %s %s%s", p.Line, p.Kind, p.Library, mark))
	}
	return out
}

func TestFind(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			places := Find(c.text, syntax.Python, nil)
			if got := strings.Join(show(places), "\n"); got != strings.Join(c.want, "\n") {
				t.Errorf("found\n%s\nwant\n%s", got, strings.Join(c.want, "\n"))
			}
			if len(c.want) > 0 && !Worth([]byte(c.text)) {
				t.Error("not worth a look")
			}
			fixed := Fix(c.text, places, link)
			for _, p := range Find(fixed, syntax.Python, nil) {
				if p.Replace != "" {
					t.Errorf("after the fix there is still %+v", p)
				}
			}
			for i, line := range strings.Split(fixed, "\n") {
				before := strings.Split(c.text, "\n")[i]
				if strings.Contains(before, "libcuda") && !strings.Contains(strings.Join(c.want, " ")+" ", fmt.Sprintf("%d ", i+1)) && line != before {
					t.Errorf("line %d changed: %q", i+1, line)
				}
			}
		})
	}
}

// Python itself is the judge: with a loader that knows no driver by name, what is
// replaced fails before and works after, and what is left alone behaves as before.
const judge = `
import ctypes, ctypes.util, os.path, sys
here, opened = sys.argv[2], []
class Fake:
    def __getattr__(self, name): return Fake()
    def __call__(self, *a, **k): return Fake()
def load(name, *a, **k):
    name = name.decode() if isinstance(name, bytes) else str(name)
    if not name.startswith("/run/opengl-driver/lib/lib" if here == "link" else "lib"): raise OSError(name)
    opened.append(name)
    return Fake()
ctypes.CDLL = load
ctypes.util.find_library = lambda name: None if here == "link" else "lib" + name + ".so"
os.path.exists = lambda path: here == "link" and path.startswith("/run/opengl-driver/lib/lib")
class Cdll:
    LoadLibrary = staticmethod(load)
ctypes.cdll = Cdll()
try:
    exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), {"__name__": "x", "CDLL": load})
except OSError as e:
    print("OSError", e)
print(*opened)
`

func TestPythonOpensTheDriverAfterTheFix(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	dir := t.TempDir()
	// here is "link" where there is the driver link alone, or "names" where names are found by themselves.
	run := func(text, here string) string {
		name := filepath.Join(dir, "x.py")
		os.WriteFile(name, []byte(text), 0o644)
		out, err := exec.Command(python, "-c", judge, name, here).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for _, name := range []string{"PyTorch", "numba: a list that is opened later", "one name in a variable",
		"a default, a function's result, an appended name", "a choice in the call", "tinygrad: find_library in the call",
		"names in the loop that opens them", "a function of the file that opens what it is given", "a class of the file, and a method",
		"the default of a variable of the environment", "names for each system, and a wrapper that returns None"} {
		for _, c := range cases {
			if c.name != name {
				continue
			}
			text := strings.ReplaceAll(c.text, "from ctypes import *\n", "")
			if before := run(text, "link"); !strings.HasPrefix(before, "OSError") {
				t.Errorf("%s: before the fix: %s", name, before)
			}
			fixed := Fix(text, Find(text, syntax.Python, nil), link)
			after := run(fixed, "link")
			if strings.Contains(after, "OSError") || !strings.Contains(after, link) {
				t.Errorf("%s: after the fix: %s", name, after)
			}
			if before, after := run(text, "names"), run(fixed, "names"); before != after {
				t.Errorf("%s: on another system %s, after the fix %s", name, before, after)
			}
		}
	}
}

func TestJavaScriptAndC(t *testing.T) {
	for _, c := range []struct {
		lang syntax.Language
		text string
		want []string
	}{
		{syntax.JavaScript, "const ffi = require('ffi-napi'); // ffi.Library('libcuda.so.1')\nconst cuda = ffi.Library('libcuda.so.1', {\n  cuInit: ['int', ['int']],\n})\nconst name = `libnvidia-ml.so.1`\nconst h = Deno.dlopen(name, {})\nif (name === 'libcuda.so.1') { log(\"libcuda.so.1\") }\n",
			[]string{"2 call libcuda.so.1!", "5 later libnvidia-ml.so.1!", "7 named libcuda.so.1", "7 named libcuda.so.1"}},
		{syntax.JavaScript, "const koffi = require('koffi')\nconst a = koffi.load('libcuda.so.1')\nconst b = config.load('libcuda.so.1')\nfor (const n of ['libnvidia-ml.so.1']) { Deno.dlopen(n, {}) }\n",
			[]string{"2 call libcuda.so.1!", "3 named libcuda.so.1", "4 later libnvidia-ml.so.1!"}},
		{syntax.C, "void *h = dlopen(\"libz.so.1\", RTLD_LAZY);\n", nil}, // not the driver's
		{syntax.C, "// dlopen(\"libcuda.so.1\")?\nvoid *h = dlopen(\"libcuda.so.1\", RTLD_LAZY);\nconst char *m = \"libcuda.so.1\";\n", []string{"1 call libcuda.so.1!", "2 call libcuda.so.1!"}},
	} {
		places := Find(c.text, c.lang, nil)
		if got := strings.Join(show(places), "\n"); got != strings.Join(c.want, "\n") {
			t.Errorf("found\n%s\nwant\n%s", got, strings.Join(c.want, "\n"))
		}
	}
}

// A place within another is not replaced a second time.
func TestFixOfPlacesThatOverlap(t *testing.T) {
	places := []Place{{Start: 1, End: 4, Replace: "X"}, {Start: 2, End: 3, Replace: "Y"}, {Start: 4, End: 5, Replace: "Z"}}
	if got := Fix("abcdef", places, "/l"); got != "aXZf" {
		t.Error(got)
	}
}

// substituteInPlace's arguments, followed to the letter by a shell and its --replace-fail, make what Fix makes.
func TestSubstitute(t *testing.T) {
	for _, c := range cases {
		text := c.text
		places := Find(text, syntax.Python, nil)
		want := Fix(text, places, "DRIVER/lib")
		got := text
		done := map[string]bool{}
		for _, p := range places {
			line := p.Substitute(text, places)
			if line == "" || done[line] || p.Kind == Program { // that is a package's to write: Fix knows no path of it
				continue
			}
			done[line] = true
			if strings.Contains(strings.ReplaceAll(line, "${addDriverRunpath.driverLink}", ""), "''") {
				t.Errorf("%s: it ends Nix's string: %s", c.name, line)
			}
			script := "for a in " + strings.TrimPrefix(strings.ReplaceAll(line, "${addDriverRunpath.driverLink}", "DRIVER"), "--replace-fail ") + "; do printf '%s\\0' \"$a\"; done"
			out, err := exec.Command("bash", "-c", script).Output()
			words := strings.Split(string(out), "\x00")
			if err != nil || len(words) != 3 {
				t.Fatalf("%s: %v: %s", c.name, err, line)
			}
			if !strings.Contains(got, words[0]) {
				t.Errorf("%s: nothing to replace: %s", c.name, line)
			}
			got = strings.ReplaceAll(got, words[0], words[1])
		}
		if got != want {
			t.Errorf("%s: substituteInPlace makes\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, c := range cases {
		f.Add(c.text, 1)
		f.Add(c.text, 2)
		f.Add(c.text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, lang int) {
		places := Find(text, syntax.Language(lang), nil)
		for _, p := range places {
			if p.Start < 0 || p.End > len(text) || p.Start > p.End {
				t.Fatalf("%+v of %d bytes", p, len(text))
			}
			p.Substitute(text, places)
		}
		Fix(text, places, link)
	})
}
