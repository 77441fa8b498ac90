package scripts

import (
	"slices"
	"strings"
)

// Open is what a script of Python's does that may load a file: it imports a module, or a library by its name.
type Open struct {
	// Module is what is imported, a.b.c, with a dot in front for each level where it is relative; "" for a library.
	Module string
	// Names are what is imported from the module, each of which may be a module of its own.
	Names []string
	// Library is the name, or path, that ctypes or cffi is given.
	Library string
	// Global: what is loaded later finds its symbols.
	Global bool
	// Sure: it is done whenever the text is run, as far as its place shows: it is in no block.
	Sure bool
}

// Opens returns what a script of Python's opens, in its order, where the name stands in the call itself; what is
// computed is not known.
func Opens(text string) (all []Open) {
	f := &finder{text: text, lang: Python, tokens: tokens(text, Python), loaders: map[string]bool{}}
	f.aliases()
	statement := 0
	for i := range f.tokens {
		first := i == statement
		if f.tokens[i].kind == end {
			statement = i + 1
			continue
		}
		at := f.tokens[statement].start
		sure := (at == 0 || text[at-1] == '\n') && !f.is(statement, "if", "elif", "else", "try", "except", "finally", "for",
			"while", "with", "def", "class")
		switch {
		case f.is(i, "import") && (first || f.is(i-1, ":")):
			for j := i + 1; ; j++ {
				name, next := f.dotted(j)
				if name != "" {
					all = append(all, Open{Module: name, Sure: sure})
				}
				for j = next; j < len(f.tokens) && f.tokens[j].kind == identifier; j++ { // as NAME
				}
				if !f.is(j, ",") {
					break
				}
			}
		case f.is(i, "from") && (first || f.is(i-1, ":")):
			module, next := f.dotted(i + 1)
			if module == "" || !f.is(next, "import") {
				break
			}
			o := Open{Module: module, Sure: sure}
			for j := next + 1; j < len(f.tokens) && f.tokens[j].kind != end; j++ {
				if f.tokens[j].kind == identifier && !f.is(j, "as") && !f.is(j-1, "as") {
					o.Names = append(o.Names, f.tokens[j].text)
				}
			}
			all = append(all, o)
		case f.loader(i) && !f.is(i, "Library", "load_library", "load_shared_library", "SoftLink") && i+3 < len(f.tokens):
			name := f.tokens[i+2]
			if name.kind == literal && !name.formatted && name.text != "" && f.is(i+3, ")", ",", "]") &&
				!f.hasFlag(i+1, noLoad) {
				all = append(all, Open{Library: name.text, Global: f.hasFlag(i+1, "RTLD_GLOBAL"), Sure: sure})
			}
		}
	}
	return all
}

// dotted reads a.b.c, or ..a, at a token, and returns the token behind it.
func (f *finder) dotted(i int) (name string, next int) {
	var b strings.Builder
	for ; i < len(f.tokens); i++ {
		t := f.tokens[i]
		isName := t.kind == identifier && !f.is(i, "import", "as")
		if !isName && !f.is(i, ".") || isName && b.Len() > 0 && !strings.HasSuffix(b.String(), ".") {
			break
		}
		b.WriteString(t.text)
	}
	return b.String(), i
}

// SiteDirectories returns the directories of modules that a script of Python's names as strings, as the wrappers of
// nixpkgs add them.
func SiteDirectories(text string) (dirs []string) {
	for _, t := range tokens(text, Python) {
		if t.kind == literal && strings.HasPrefix(t.text, "/") && strings.HasSuffix(t.text, "/site-packages") &&
			!slices.Contains(dirs, t.text) {
			dirs = append(dirs, t.text)
		}
	}
	return dirs
}
