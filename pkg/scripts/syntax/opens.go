package syntax

import (
	"cmp"
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
	// Sure: it is done whenever the text is run, as far as its place shows: it is in no block, or, as torch imports its
	// library, in an if's block and in each that stands in its place.
	Sure bool
}

// Clone returns one that does not keep the script's text in memory.
func (o Open) Clone() Open {
	o.Module, o.Library = strings.Clone(o.Module), strings.Clone(o.Library)
	o.Names = slices.Clone(o.Names)
	for i, name := range o.Names {
		o.Names[i] = strings.Clone(name)
	}
	return o
}

// Opens returns what a script of Python's opens, in its order, where the name stands in the call itself; what is
// computed is not known.
func Opens(text string) (all []Open) {
	f := Parse(text, Python)
	statement := 0
	column := func() int { // of the statement
		at := f.Tokens[statement].Start
		return at - strings.LastIndexByte(text[:at], '\n') - 1
	}
	sure := func() bool { // by its place
		return column() == 0 && !f.Is(statement, "if", "elif", "else", "try", "except", "finally", "for",
			"while", "with", "def", "class")
	}
	var ways choice
	for i := range f.Tokens {
		first := i == statement
		if f.Tokens[i].Class == End {
			statement = i + 1
			continue
		}
		if first {
			switch at := column(); {
			case at > 0:
				ways.column = cmp.Or(ways.column, at)
			case ways.blocks != nil && f.Is(i, "elif", "else"):
				ways = choice{append(ways.blocks, nil), 0, f.Is(i, "else")}
			default:
				ways.settle(all)
				if ways = (choice{}); f.Is(i, "if") {
					ways.blocks = [][]int{nil}
				}
			}
		}
		before := len(all)
		switch {
		case f.Is(i, "import") && (first || f.Is(i-1, ":")):
			for j := i + 1; ; j++ {
				name, next := f.dotted(j)
				if name != "" {
					all = append(all, Open{Module: name, Sure: sure()})
				}
				for j = next; j < len(f.Tokens) && f.Tokens[j].Class == Identifier; j++ { // as NAME
				}
				if !f.Is(j, ",") {
					break
				}
			}
		case f.Is(i, "from") && (first || f.Is(i-1, ":")):
			module, next := f.dotted(i + 1)
			if module == "" || !f.Is(next, "import") {
				break
			}
			o := Open{Module: module, Sure: sure()}
			for j := next + 1; j < len(f.Tokens) && f.Tokens[j].Class != End; j++ {
				if f.Tokens[j].Class == Identifier && !f.Is(j, "as") && !f.Is(j-1, "as") {
					o.Names = append(o.Names, f.Tokens[j].Text)
				}
			}
			all = append(all, o)
		case f.Loader(i) && !f.Is(i, "Library", "load_library", "load_shared_library", "SoftLink") && i+3 < len(f.Tokens):
			name := f.Tokens[i+2]
			if name.Class == Literal && !name.Formatted && name.Text != "" && f.Is(i+3, ")", ",", "]") &&
				!f.HasFlag(i+1, NoLoad) {
				all = append(all, Open{Library: name.Text, Global: f.HasFlag(i+1, "RTLD_GLOBAL"), Sure: sure()})
			}
		}
		if last := len(ways.blocks) - 1; last >= 0 && column() == ways.column {
			for ; before < len(all); before++ {
				ways.blocks[last] = append(ways.blocks[last], before)
			}
		}
	}
	ways.settle(all)
	return all
}

// choice is an if that is in no block, with what stands in its place.
type choice struct {
	blocks [][]int // what each opens, but in blocks of its own, by its place in the list of all
	column int     // of the last block's statements; 0 before the first
	whole  bool    // the last is an else's: one of them is run
}

// settle makes sure what each of the blocks imports.
func (c *choice) settle(all []Open) {
	if !c.whole {
		return
	}
	for _, i := range c.blocks[0] {
		all[i].Sure = all[i].Module != "" && !slices.ContainsFunc(c.blocks, func(block []int) bool {
			return !slices.ContainsFunc(block, func(j int) bool {
				return all[j].Module == all[i].Module && slices.Equal(all[j].Names, all[i].Names)
			})
		})
	}
}

// dotted reads a.b.c, or ..a, at a token, and returns the token behind it.
func (f *Script) dotted(i int) (name string, next int) {
	var b strings.Builder
	for ; i < len(f.Tokens); i++ {
		t := f.Tokens[i]
		isName := t.Class == Identifier && !f.Is(i, "import", "as")
		if !isName && !f.Is(i, ".") || isName && b.Len() > 0 && !strings.HasSuffix(b.String(), ".") {
			break
		}
		b.WriteString(t.Text)
	}
	return b.String(), i
}

// SiteDirectories returns the directories of modules that a script of Python's names as strings, as the wrappers of
// nixpkgs add them.
func SiteDirectories(text string) (dirs []string) {
	for _, t := range tokens(text, Python) {
		if t.Class == Literal && strings.HasPrefix(t.Text, "/") && strings.HasSuffix(t.Text, "/site-packages") &&
			!slices.Contains(dirs, t.Text) {
			dirs = append(dirs, t.Text)
		}
	}
	return dirs
}
