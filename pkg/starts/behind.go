package starts

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/scripts/wrapper"
)

// variables are those of an environment, by their names.
func variables(e *loader.Environment) map[string]*string {
	return map[string]*string{"LD_LIBRARY_PATH": &e.LibraryPath, "LD_PRELOAD": &e.Preload, "LD_AUDIT": &e.Audit,
		"LD_BIND_NOW": &e.BindNow, "LD_HWCAP_MASK": &e.HWCapMask, "GLIBC_TUNABLES": &e.Tunables,
		"NIX_LD": &e.NixLD, "NIX_LD_LIBRARY_PATH": &e.NixLDLibraryPath}
}

// Variables by which CUDA sees other GPUs, or takes other code (CUDA Programming Guide, "CUDA Environment Variables"). A
// start has in Set what wrappers make of them.
const (
	VisibleDevices = "CUDA_VISIBLE_DEVICES"
	DeviceOrder    = "CUDA_DEVICE_ORDER"
	DisableJIT     = "CUDA_DISABLE_PTX_JIT"
	ForceJIT       = "CUDA_FORCE_PTX_JIT"
)

var heeded = []string{VisibleDevices, DeviceOrder, DisableJIT, ForceJIT}

// mostWrappers bounds wrappers of wrappers.
const mostWrappers = 10

// Through says behind what a start's program is looked for.
type Through int

const (
	Wrappers     Through = iota // what starts a program in its own place
	Interpreters                // also a script, for what its first line names
)

// Behind is [Modules.Behind] for one file alone.
func Behind(l *loader.Loader, file string, through Through) process.Start {
	return new(Modules).Behind(l, file, through)
}

// Behind returns the start of a file in the loader's environment: of the program that a wrapper starts in its own
// place, and of Python that is started with a script, with what that imports; through interpreters also of the one that
// any script's first line names, which this machine's PATH may say.
func (k *Modules) Behind(l *loader.Loader, file string, through Through) process.Start {
	t := started(l, file, through)
	if t.Script == "" {
		return t
	}
	if python := k.pythonOf(l, t); python != nil {
		t.Opens = python.script(l, k, t.Script)
		t.CTypes = python.ctypes(l, t.Opens)
	}
	return t
}

// uname returns what uname -m says: of the running kernel, or of the one that a root is for, as far as its shell tells
// (UTS_MACHINE in arch/*/Makefile of Linux). Of a shell of 32 bits the kernel is not known.
func uname(l *loader.Loader) string {
	if l.Host("") == "" {
		var of unix.Utsname
		if unix.Uname(&of) != nil {
			return ""
		}
		return unix.ByteSliceToString(of.Machine[:])
	}
	if shell := l.Files().Open("/bin/sh"); shell.ELF != nil {
		return map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64", elf.EM_PPC64: "ppc64le"}[shell.ELF.Machine]
	}
	return ""
}

// started is Behind without what a script imports.
func started(l *loader.Loader, file string, through Through) process.Start {
	t := process.Start{File: file, Environment: l.Environment(), Set: map[string]string{}, Sure: true}
	vars := variables(&t.Environment)
	find := func(name string) string {
		if l.Host("") != "" {
			return ""
		}
		at, _ := exec.LookPath(name)
		return at
	}
	for range mostWrappers {
		at := wrapper.Surroundings{File: l.Absolute(t.File), Find: find,
			Variable: func(name string) string {
				if v := vars[name]; v != nil {
					return *v
				}
				if l.Host("") == "" && slices.Contains(heeded, name) {
					return os.Getenv(name)
				}
				return ""
			},
			Real: func(file string) string {
				host, _, err := l.Files().Resolve(file)
				if err != nil {
					return ""
				}
				return l.Inside(host)
			},
			IsDir: func(file string) (dir, there bool) {
				_, _, err := l.Files().Resolve(l.Absolute(file))
				return err == nil && l.Files().IsDir(l.Absolute(file)), err == nil
			},
			Machine: func() string { return uname(l) }}
		w, python := readWrapper(l, at, through)
		if w.Program == "" {
			break
		}
		if python && t.Script == "" {
			t.Script = t.File
		}
		if w.Bare {
			for _, name := range slices.Concat(slices.Collect(maps.Keys(vars)), heeded) {
				if _, set := w.Set[name]; !set && at.Variable(name) != "" {
					w.Set[name] = ""
				}
			}
		}
		before := t.Environment
		for name, value := range w.Set {
			switch v := vars[name]; {
			case v != nil && *v != value:
				*v, t.Set[name] = value, value
			case slices.Contains(heeded, name):
				t.Set[name] = value
			}
		}
		for _, what := range w.Unsure {
			switch {
			case what == wrapper.Program:
				t.Other = append(t.Other, "which program "+t.File+" starts is not known")
			case what == wrapper.Environment:
				t.Unsure = append(t.Unsure, "what the scripts and commands that "+t.File+" reads set is not known")
			case vars[what] != nil || slices.Contains(heeded, what):
				t.Unsure = append(t.Unsure, "a part of "+what+", which "+t.File+" computes, is not known")
			}
		}
		for i, step := range w.Through {
			if step.Program == "" || step.Preload == "" {
				continue
			}
			env := t.Environment
			if i == 0 { // the shell, or the wrapper itself
				env = before
			}
			env.Preload = step.Preload
			t.Before = append(t.Before, process.Start{File: step.Program, Environment: env})
		}
		t.File, t.Via = w.Program, append(t.Via, t.File)
		t.Sure = t.Sure && w.Sure
		if w.Loader != "" {
			t.Interpreter = w.Loader
		}
	}
	if (t.Script != "" || pythonName().MatchString(path.Base(file))) && len(t.Other) == 0 && !runsPython(l, t.File) {
		t.Other = append(t.Other, "which program "+t.File+" starts is not known")
	}
	return t
}

// runsPython reports whether a program is Python itself: what version managers (mise, asdf, rye, pixi) have in its place
// has another name where its links lead, or is static, and looks for one.
func runsPython(l *loader.Loader, file string) bool {
	f := l.Files().Open(l.Absolute(file))
	return f.ELF == nil || f.Interp != "" && (strings.Contains(path.Base(f.Path), "python") || strings.Contains(path.Base(f.Path), "pypy"))
}

// Begin is [Modules.Begin] for one file alone.
func Begin(l *loader.Loader, file string, through Through) (*process.State, error) {
	return new(Modules).Begin(l, file, through)
}

// Begin begins the start of a file, as Behind returns it. Errors are [process.Start.Begin]'s, and say which program a
// wrapper starts that cannot be read.
func (k *Modules) Begin(l *loader.Loader, file string, through Through) (*process.State, error) {
	start := k.Behind(l, file, through)
	state, err := start.Begin(l)
	if len(start.Via) > 0 && errors.As(err, new(loader.Unreadable)) {
		err = fmt.Errorf("it starts %s, which %w", start.File, err)
	}
	return state, err
}

// maxScript bounds the scripts that may be wrappers, in bytes.
const maxScript = 64 << 10

// head returns the beginning of a file; nil where it cannot be read.
func head(file string) []byte {
	f, _, err := regular.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxScript))
	return text
}

// readWrapper reads a file as a wrapper, or as a script of Python's.
func readWrapper(l *loader.Loader, at wrapper.Surroundings, through Through) (w wrapper.Wrapper, python bool) {
	f := l.Files().Open(at.File)
	if f.ELF == nil {
		if f.Path == "" || !f.IsText() {
			return w, false
		}
		text := head(f.Path)
		if !bytes.HasPrefix(text, []byte("#!")) {
			if python = path.Ext(at.File) == ".py"; python { // as people start it, whatever its mode
				w.Program = at.Find("python3")
			}
			return w, python
		}
		if f.Size <= maxScript {
			w = wrapper.Wrapped(text, at)
		}
		program, byEnv := wrapper.Interpreter(text[:min(len(text), 256)])
		python = pythonName().MatchString(path.Base(cmp.Or(byEnv, program)))
		if byEnv != "" {
			program = at.Find(byEnv)
		}
		if w.Program != "" || through == Wrappers && !python {
			w.Through = append([]wrapper.Step{{Program: program, Preload: at.Variable("LD_PRELOAD")}}, w.Through...)
			return w, false
		}
		w.Program = program
		if !python {
			w.Unsure = []string{wrapper.Program}
		}
		return w, python
	}
	if !f.Executes || f.Size > wrapper.MaxCompiled {
		return w, false
	}
	f.Image(func(im *elfimage.Image) {
		data := make([]byte, f.Size)
		if n, _ := im.ReadAt(data, 0); n > 0 {
			w = wrapper.Compiled(data[:n], at)
			w.Through = []wrapper.Step{{Program: at.File, Preload: at.Variable("LD_PRELOAD")}}
		}
	})
	return w, false
}
