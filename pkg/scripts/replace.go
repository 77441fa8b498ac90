package scripts

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/scripts/syntax"
)

// known reports whether a name is that of a library that is looked for.
func (f *finder) known(name string) bool {
	return driver.Provides(name) || f.toolkit != nil && driver.Toolkit(name)
}

// path is what opens a library: the driver's through the driver link, which has it by its soname.
func (f *finder) path(name string) string {
	l, ok := driver.Lookup(name)
	if !ok {
		return f.toolkit(name)
	}
	if strings.HasSuffix(name, ".so") && l.Soname != "" {
		name = l.Soname
	}
	return mark + "/" + name
}

// replace makes a place one that is replaced: by an expression that is the path of the library
// where there is such a file, and else what stands there. open is what a literal begins with
// there, such as b".
func (f *finder) replace(p *Place, open string) {
	path := f.path(p.Library)
	if path == "" || p.made {
		return
	}
	path = open[:len(open)-len(strings.TrimLeft(open, "bBuUrR"))] + open[len(open)-1:] + path + open[len(open)-1:]
	old := f.Text[p.Start:p.End]
	switch {
	case f.Lang == syntax.Python && !f.cython:
		p.Replace = "(" + path + " if " + f.os(p.Start) + ".path.exists(" + path + ") else " + old + ")"
	case f.Lang == syntax.JavaScript && f.bound > 0 && f.bound < p.Start:
		p.Replace = "(require(\"fs\").existsSync(" + path + ") ? " + path + " : " + old + ")"
	default:
		p.Replace, p.Alone = path, true
	}
}

// survey notes what is known of a whole script: above all from where on a name in it is certainly
// the module os, or the function require.
func (f *finder) survey() {
	switch f.Lang {
	case syntax.Python:
		// There, what needs Python may not stand everywhere.
		f.cython = slices.ContainsFunc(f.Tokens, func(t syntax.Token) bool {
			return t.Class == syntax.Identifier && slices.Contains([]string{"cdef", "cpdef", "cimport"}, t.Text)
		})
		f.bound = f.imported()
	case syntax.JavaScript:
		f.bound = f.required()
	}
}

// outermost reports whether a statement begins at the token at i, and in the first column: it has
// been run before what is below it.
func (f *finder) outermost(i int) bool {
	return (i == 0 || f.Tokens[i-1].Class == syntax.End) && (f.Tokens[i].Start == 0 || f.Text[f.Tokens[i].Start-1] == '\n')
}

// imported returns the end of "import os", and 0 if there is none, or if anything else may be
// called os: whatever os is followed by no dot, and an import elsewhere, is taken for that.
func (f *finder) imported() (bound int) {
	within, whole := false, false // an import, and one for the whole file
	for i, t := range f.Tokens {
		switch {
		case t.Class == syntax.End:
			within = false
		case f.Is(i, "import"):
			within, whole = true, f.outermost(i)
		case within && f.Is(i, "*"):
			return 0
		case !f.Is(i, "os") || f.Is(i-1, "."):
		case within && whole && f.Is(i-1, "import", ",") && (f.Is(i+1, ".", ",") || f.Tokens[i+1].Class == syntax.End):
			if bound == 0 && !f.Is(i+1, ".") { // "import os.path as p" binds p alone
				bound = t.End
			}
		case within, !f.Is(i+1, ".") && !f.Is(i-1, "from"):
			return 0
		}
	}
	return bound
}

// required returns the end of the first call of require, which only CommonJS has, or in whichever
// module that of its declaration by createRequire; and 0 if there is none, or if anything else may
// be called require: whatever is not called, nor followed by a dot, is taken for that.
func (f *finder) required() int {
	called, declared, module := 0, 0, false
	for i, t := range f.Tokens {
		switch {
		case f.Is(i, "import", "export") && (i == 0 || f.Tokens[i-1].Class == syntax.End || f.Is(i-1, "}")) &&
			!f.Is(i+1, "(", "."):
			module = true
		case !f.Is(i, "require") || f.Is(i-1, "."):
		case f.Is(i+1, "=") && f.Is(i-1, "const", "let", "var") && f.outermost(i-1) &&
			(f.Is(i+2, "createRequire") || f.Is(i+3, ".") && f.Is(i+4, "createRequire")):
			declared = t.End
		case f.Is(i-1, "function") || !f.Is(i+1, "(", "."):
			return 0
		case called == 0:
			called = t.End
		}
	}
	if declared > 0 || module {
		return declared
	}
	return called
}

// os returns how the module os is written at an offset of a script of Python.
func (f *finder) os(at int) string {
	if f.bound > 0 && f.bound < at {
		return "os"
	}
	return `__import__("os")`
}

// quoted returns the bounds of a literal with its quotes, and the letters before them.
func (f *finder) quoted(t syntax.Token) (start, end int) {
	n := 1
	if q := f.Text[t.Start-1 : t.Start]; t.Start >= 3 && f.Text[t.Start-3:t.Start] == strings.Repeat(q, 3) &&
		strings.HasPrefix(f.Text[t.End:], strings.Repeat(q, 3)) {
		n = 3
	}
	start, end = t.Start-n, min(t.End+n, len(f.Text))
	from := start
	for f.Lang == syntax.Python && from > 0 && syntax.NameByte(f.Text[from-1]) {
		from--
	}
	if syntax.IsPrefix(f.Text[from:start]) {
		start = from
	}
	return start, end
}

// The text that [finder.replace] puts before the old one.
var (
	existsElse = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^exists(?:Sync)?\([bBuUrR]?["'](?:/|` + mark +
			`)[^"']*["']\) (?:else|\? ["'][^"']*["'] :) $`)
	})
	secondDlopen = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\? dlopen\([^)]*\) : $`) })
)

// isFallback reports whether a literal is what stood there before its place was replaced.
func (f *finder) isFallback(i int) bool {
	if i == 0 || f.Tokens[i-1].Text != "else" && f.Tokens[i-1].Text != ":" {
		return false
	}
	start, _ := f.quoted(f.Tokens[i])
	return f.afterExists(start)
}

func (f *finder) afterExists(at int) bool {
	before := f.Text[max(0, at-syntax.MaxReach):at]
	if !strings.HasSuffix(before, ") else ") && !strings.HasSuffix(before, "\" : ") && !strings.HasSuffix(before, "' : ") {
		return false
	}
	i := max(strings.LastIndex(before, "exists("), strings.LastIndex(before, "existsSync("))
	return i >= 0 && existsElse().MatchString(before[i:])
}

// stem returns the library of whose name a literal is the beginning: the version is put behind it,
// as in f"libcuda.so.{version}" and "libcuda.so." + version.
func (f *finder) stem(text string) string {
	name, version, ok := strings.Cut(text, ".so.")
	if name += ".so"; ok && (version == "" || strings.ContainsAny(version[:1], "{$%")) && f.known(name) {
		return name
	}
	return ""
}

// compared reports whether a literal is compared with something.
func (f *finder) compared(i int) bool {
	operators := []string{"==", "!=", "in", "not", "is", "case"}
	return f.Is(i-1, operators...) || f.Is(i+1, operators...)
}

// ldconfig adds a place where ldconfig is asked. Where that is in a function of directories that
// has returned another before, if there was a setting (Triton: TRITON_LIBCUDA_PATH), the driver link is
// returned before it is asked: where nixpkgs' patch of Triton has the directory of the stubs.
func (f *finder) ldconfig(i, statement int) {
	t := f.Tokens[i]
	p := Place{Kind: Ldconfig, Start: t.Start, End: t.Start}
	defer func() {
		if p.Kind != "" {
			f.add(p)
		}
	}()
	if f.Lang != syntax.Python || statement < 6 || f.in[statement] == "" {
		return
	}
	first, before := f.Tokens[statement], f.Tokens[statement-5:statement] // return [ X ] and the end
	at, earlier := f.begins[statement], f.begins[statement-5]
	if !at.first || before[0].Text != "return" || before[1].Text != "[" || before[3].Text != "]" ||
		earlier.column <= at.column || f.Tokens[statement+1].Text != "=" {
		return
	}
	if before[2].Class == syntax.Literal && strings.HasPrefix(before[2].Text, "/") {
		p.Kind = "" // it is returned already
		return
	}
	if name := f.namedBelow(i, f.in[statement]); name != "" && before[2].Class == syntax.Identifier {
		indent := f.Text[first.Start-int(at.column) : first.Start]
		p.Start, p.End = first.Start, first.End
		p.Replace = "if " + f.os(p.Start) + ".path.exists(\"" + f.path(name) + "\"):\n" + indent + "    return [\"" + mark +
			"\"]\n\n" + indent + first.Text
	}
}

// namedBelow returns the first library of the driver that is named in a function from the token at i on; "" where none
// is. What it has looked at for an earlier token it remembers.
func (f *finder) namedBelow(i int, function string) string {
	j := i
	if b := &f.below; b.from <= i && i <= b.to {
		j = b.to
	} else {
		b.from = i
	}
	for ; j < len(f.Tokens) && (f.in[j] == function || f.Tokens[j].Class == syntax.End); j++ {
		if f.Tokens[j].Class == syntax.Literal && driver.Provides(f.Tokens[j].Text) {
			f.below.to = j
			return f.Tokens[j].Text
		}
	}
	f.below.to = j
	return ""
}
