package process

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/scripts/wrapper"
)

// Start is what begins a process.
type Start struct {
	// File is the program, or the library that is loaded as one: a path below the root, by the name that it is started by.
	File string
	// Interpreter is that of the program that opens a library, or a loader that a wrapper starts by hand; "" for the usual
	// one.
	Interpreter string
	// Environment is what the program has, with what the wrappers set.
	loader.Environment
	// Via are the scripts and wrappers that start it in their own place, the first one first.
	Via []string
	// Script is the script of Python's that the program, its interpreter, is started with; "" for none. Opens is what that
	// opens.
	Script string
	Opens  []Wanted
	// As is what a start of a place is known by, where that is not its file, script or wrapper: the package that is
	// imported. Part: nothing that is known starts it.
	As   string
	Part bool
	// Sure: nothing that is not known keeps them from starting it.
	Sure bool
	// Set are the variables of the environment that wrappers set, by their names; Unsure those of which a wrapper computes
	// a part that is not known, and left out.
	Set    map[string]string
	Unsure []string
}

// Sets says in words what the wrappers set; "" where last is false, or they set nothing.
func (t *Start) Sets(last bool) string {
	if !last || len(t.Set) == 0 {
		return ""
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(t.Set)) {
		words = append(words, name+"="+t.Set[name])
	}
	return ", with " + strings.Join(words, ", ")
}

// variables are those of an environment, by their names.
func variables(e *loader.Environment) map[string]*string {
	return map[string]*string{"LD_LIBRARY_PATH": &e.LibraryPath, "LD_PRELOAD": &e.Preload, "LD_AUDIT": &e.Audit,
		"LD_BIND_NOW": &e.BindNow,
		"NIX_LD":      &e.NixLD, "NIX_LD_LIBRARY_PATH": &e.NixLDLibraryPath}
}

// mostWrappers bounds wrappers of wrappers.
const mostWrappers = 10

// Behind returns the start of a file in the loader's environment: of the program that a wrapper starts in its own
// place, and of Python that is started with a script; with interpreters also of the one that any script's first line
// names, which this machine's PATH may say.
func Behind(l *loader.Loader, file string, interpreters bool) Start {
	t := Start{File: file, Environment: l.Environment(), Set: map[string]string{}, Sure: true}
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
			}}
		w, python := readWrapper(l, at, interpreters)
		if w.Program == "" {
			break
		}
		if python && t.Script == "" {
			t.Script = t.File
		}
		for name, value := range w.Set {
			if v := vars[name]; v != nil {
				*v, t.Set[name] = value, value
			}
		}
		for _, name := range w.Unsure {
			if vars[name] != nil && !slices.Contains(t.Unsure, name) {
				t.Unsure = append(t.Unsure, name)
			}
		}
		t.File, t.Via = w.Program, append(t.Via, t.File)
		t.Sure = t.Sure && w.Sure
		if w.Loader != "" {
			t.Interpreter = w.Loader
		}
	}
	if python := PythonOf(l, t); t.Script != "" && python != nil {
		t.Opens = python.script(l, t.Script)
	}
	return t
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
func readWrapper(l *loader.Loader, at wrapper.Surroundings, interpreters bool) (w wrapper.Wrapper, python bool) {
	f := l.Files().Open(at.File)
	if f.ELF == nil {
		if f.Path == "" || !f.IsText() {
			return w, false
		}
		text := head(f.Path)
		if !bytes.HasPrefix(text, []byte("#!")) {
			return w, false
		}
		if f.Size <= maxScript {
			w = wrapper.Wrapped(text, at)
		}
		program, byEnv := wrapper.Interpreter(text[:min(len(text), 256)])
		python = pythonName().MatchString(path.Base(cmp.Or(byEnv, program)))
		if w.Program != "" || !interpreters && !python {
			return w, false
		}
		if w.Program = program; byEnv != "" {
			w.Program = at.Find(byEnv)
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
		}
	})
	return w, false
}
