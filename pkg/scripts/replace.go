package scripts

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
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
	old := f.text[p.Start:p.End]
	switch {
	case f.lang == Python && !f.cython:
		p.Replace = "(" + path + " if " + f.os(p.Start) + ".path.exists(" + path + ") else " + old + ")"
	case f.lang == JavaScript && f.bound > 0 && f.bound < p.Start:
		p.Replace = "(require(\"fs\").existsSync(" + path + ") ? " + path + " : " + old + ")"
	default:
		p.Replace, p.Alone = path, true
	}
}

// survey notes what is known of a whole script: above all from where on a name in it is certainly
// the module os, or the function require.
func (f *finder) survey() {
	switch f.lang {
	case Python:
		f.cython = slices.ContainsFunc(f.tokens, func(t token) bool { // there, what needs Python may not stand everywhere
			return t.kind == identifier && slices.Contains([]string{"cdef", "cpdef", "cimport"}, t.text)
		})
		f.bound = f.imported()
	case JavaScript:
		f.bound = f.required()
	}
}

// is reports whether the token at i is one of these, and no string.
func (f *finder) is(i int, texts ...string) bool {
	return i >= 0 && i < len(f.tokens) && f.tokens[i].kind != literal && slices.Contains(texts, f.tokens[i].text)
}

// outermost reports whether a statement begins at the token at i, and in the first column: it has
// been run before what is below it.
func (f *finder) outermost(i int) bool {
	return (i == 0 || f.tokens[i-1].kind == end) && (f.tokens[i].start == 0 || f.text[f.tokens[i].start-1] == '\n')
}

// imported returns the end of "import os", and 0 if there is none, or if anything else may be
// called os: whatever os is followed by no dot, and an import elsewhere, is taken for that.
func (f *finder) imported() (bound int) {
	within, whole := false, false // an import, and one for the whole file
	for i, t := range f.tokens {
		switch {
		case t.kind == end:
			within = false
		case f.is(i, "import"):
			within, whole = true, f.outermost(i)
		case within && f.is(i, "*"):
			return 0
		case !f.is(i, "os") || f.is(i-1, "."):
		case within && whole && f.is(i-1, "import", ",") && (f.is(i+1, ".", ",") || f.tokens[i+1].kind == end):
			if bound == 0 && !f.is(i+1, ".") { // "import os.path as p" binds p alone
				bound = t.end
			}
		case within, !f.is(i+1, ".") && !f.is(i-1, "from"):
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
	for i, t := range f.tokens {
		switch {
		case f.is(i, "import", "export") && (i == 0 || f.tokens[i-1].kind == end || f.is(i-1, "}")) && !f.is(i+1, "(", "."):
			module = true
		case !f.is(i, "require") || f.is(i-1, "."):
		case f.is(i+1, "=") && f.is(i-1, "const", "let", "var") && f.outermost(i-1) &&
			(f.is(i+2, "createRequire") || f.is(i+3, ".") && f.is(i+4, "createRequire")):
			declared = t.end
		case f.is(i-1, "function") || !f.is(i+1, "(", "."):
			return 0
		case called == 0:
			called = t.end
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
func (f *finder) quoted(t token) (start, end int) {
	n := 1
	if q := f.text[t.start-1 : t.start]; t.start >= 3 && f.text[t.start-3:t.start] == strings.Repeat(q, 3) &&
		strings.HasPrefix(f.text[t.end:], strings.Repeat(q, 3)) {
		n = 3
	}
	start, end = t.start-n, min(t.end+n, len(f.text))
	from := start
	for f.lang == Python && from > 0 && nameByte(f.text[from-1]) {
		from--
	}
	if isPrefix(f.text[from:start]) {
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
	if i == 0 || f.tokens[i-1].text != "else" && f.tokens[i-1].text != ":" {
		return false
	}
	start, _ := f.quoted(f.tokens[i])
	return f.afterExists(start)
}

func (f *finder) afterExists(at int) bool {
	before := f.text[max(0, at-maxReach):at]
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
	return f.is(i-1, operators...) || f.is(i+1, operators...)
}

// ldconfig adds a place where ldconfig is asked. Where that is in a function of directories that
// has returned another before, if there was a setting (Triton: TRITON_LIBCUDA_PATH), the driver link is
// returned before it is asked: where nixpkgs' patch of Triton has the directory of the stubs.
func (f *finder) ldconfig(i, statement int) {
	t := f.tokens[i]
	p := Place{Kind: Ldconfig, Start: t.start, End: t.start}
	defer func() {
		if p.Kind != "" {
			f.add(p)
		}
	}()
	if f.lang != Python || statement < 6 || f.in[statement] == "" {
		return
	}
	first, before := f.tokens[statement], f.tokens[statement-5:statement] // return [ X ] and the end
	at, earlier := f.begins[statement], f.begins[statement-5]
	if !at.first || before[0].text != "return" || before[1].text != "[" || before[3].text != "]" ||
		earlier.column <= at.column || f.tokens[statement+1].text != "=" {
		return
	}
	if before[2].kind == literal && strings.HasPrefix(before[2].text, "/") {
		p.Kind = "" // it is returned already
		return
	}
	if name := f.namedBelow(i, f.in[statement]); name != "" && before[2].kind == identifier {
		indent := f.text[first.start-int(at.column) : first.start]
		p.Start, p.End = first.start, first.end
		p.Replace = "if " + f.os(p.Start) + ".path.exists(\"" + f.path(name) + "\"):\n" + indent + "    return [\"" + mark +
			"\"]\n\n" + indent + first.text
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
	for ; j < len(f.tokens) && (f.in[j] == function || f.tokens[j].kind == end); j++ {
		if f.tokens[j].kind == literal && driver.Provides(f.tokens[j].text) {
			f.below.to = j
			return f.tokens[j].text
		}
	}
	f.below.to = j
	return ""
}
