package syntax

import "slices"

// Script is a script, split.
type Script struct {
	Text   string
	Lang   Language
	Tokens []Token

	loaders map[string]bool // the script's own names of what is in loading
}

// Parse splits a script, and finds its own names of what loads a library.
func Parse(text string, lang Language) *Script {
	f := &Script{Text: text, Lang: lang, Tokens: tokens(text, lang), loaders: map[string]bool{}}
	f.aliases()
	return f
}

// Is reports whether the token at i is one of these, and no string.
func (f *Script) Is(i int, texts ...string) bool {
	return i >= 0 && i < len(f.Tokens) && f.Tokens[i].Class != Literal && slices.Contains(texts, f.Tokens[i].Text)
}

// loading are the names of calls that load a library by the name that they are
// given: ctypes, cffi, Cython's and C's dlfcn, JavaScript's ffi packages; the last is
// CuPy's class around ctypes, which other files of it use.
var loading = []string{"CDLL", "PyDLL", "LoadLibrary", "load_library", "dlopen", "_dlopen", "dlmopen", "Library",
	"load_shared_library", "SoftLink"}

// aliases adds names that are set to a loading function: dlloader = ctypes.CDLL, also with some
// of its arguments (functools.partial), and those by which one is imported.
func (f *Script) aliases() {
	// member returns the last name of a.b.c.
	member := func(j int) int {
		for j+2 < len(f.Tokens) && f.Tokens[j].Class == Identifier && f.Tokens[j+1].Text == "." {
			j += 2
		}
		return j
	}
	for i := 0; i+2 < len(f.Tokens); i++ {
		switch {
		case f.Tokens[i].Class != Identifier:
		case f.Is(i+1, "as") && f.Is(i, loading...):
			f.loaders[f.Tokens[i+2].Text] = true
		case f.Is(i+1, "="):
			j := member(i + 2)
			loads := f.Is(j, loading...) && f.Is(j+1, "")
			if f.Is(j, "partial") && f.Is(j+1, "(") {
				j = member(j + 2)
				loads = f.Is(j, loading...) && f.Is(j+1, ",", ")")
			}
			if loads {
				f.loaders[f.Tokens[i].Text] = true
			}
		}
	}
}

// Loader reports whether a token is what a loading call begins with, before its bracket.
func (f *Script) Loader(i int) bool {
	return f.Is(i+1, "(") && (f.Is(i, loading...) || i >= 0 && f.Tokens[i].Class != Literal &&
		f.loaders[f.Tokens[i].Text] || f.Is(i, "load") && f.Is(i-1, ".") && f.Is(i-2, "koffi")) ||
		f.Is(i+1, "[") && f.Is(i, "cdll", "pydll") // ctypes.cdll["…"]
}

// NoLoad is the flag with which dlopen opens only what is loaded already: by its soname,
// from wherever it was loaded.
const NoLoad = "RTLD_NOLOAD"

// MaxReach bounds, in tokens or bytes, how far things that belong together stand
// apart: generated scripts have lines of megabytes.
const MaxReach = 1000

// HasFlag reports whether a flag is among the arguments after a bracket.
func (f *Script) HasFlag(open int, flag string) bool {
	for j := open + 1; j < min(len(f.Tokens), open+MaxReach) && f.Tokens[j].Depth > f.Tokens[open].Depth; j++ {
		if f.Is(j, flag) {
			return true
		}
	}
	return false
}
