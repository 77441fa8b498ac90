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
		p.Replace = "(" + path + " if " + f.os + ".path.exists(" + path + ") else " + old + ")"
	case f.lang == JavaScript && f.requires:
		p.Replace = "(require(\"fs\").existsSync(" + path + ") ? " + path + " : " + old + ")"
	default:
		p.Replace, p.Alone = path, true
	}
}

// survey notes what is known of a whole script.
func (f *finder) survey() {
	f.os = `__import__("os")`
	for i, t := range f.tokens {
		if t.kind != identifier {
			continue
		}
		switch t.text {
		case "cdef", "cpdef", "cimport": // there, what needs Python may not stand everywhere
			f.cython = true
		case "require":
			f.requires = true
		case "import":
			if t.start > 0 && f.text[t.start-1] != '\n' {
				continue // not for the whole file
			}
			for j := i + 1; j+1 < len(f.tokens) && f.tokens[j].kind != end; j++ {
				if f.tokens[j].text == "os" && (j == i+1 || f.tokens[j-1].text == ",") && (f.tokens[j+1].text == "," || f.tokens[j+1].kind == end) {
					f.os = "os"
				}
			}
		}
	}
}

// quoted returns the bounds of a literal with its quotes, and the letters before them.
func (f *finder) quoted(t token) (start, end int) {
	n := 1
	if q := f.text[t.start-1 : t.start]; t.start >= 3 && f.text[t.start-3:t.start] == strings.Repeat(q, 3) && strings.HasPrefix(f.text[t.end:], strings.Repeat(q, 3)) {
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

// What [finder.replace] writes before what stood there.
var (
	existsElse = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`exists(?:Sync)?\([bBuUrR]?["'](?:/|` + mark + `)[^"']*["']\) (?:else|\? ["'][^"']*["'] :) $`)
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
	return (strings.HasSuffix(before, " else ") || strings.HasSuffix(before, " : ")) && existsElse().MatchString(before)
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
	return slices.ContainsFunc([]int{i - 1, i + 1}, func(j int) bool {
		return j >= 0 && j < len(f.tokens) && slices.Contains([]string{"==", "!=", "in", "not", "is", "case"}, f.tokens[j].text)
	})
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
	column, begins := columnOf(f.text, first.start)
	deeper, _ := columnOf(f.text, before[0].start)
	if !begins || before[0].text != "return" || before[1].text != "[" || before[3].text != "]" || deeper <= column || f.tokens[statement+1].text != "=" {
		return
	}
	if before[2].kind == literal && strings.HasPrefix(before[2].text, "/") {
		p.Kind = "" // it is returned already
		return
	}
	for j := i; before[2].kind == identifier && j < len(f.tokens) && (f.in[j] == f.in[statement] || f.tokens[j].kind == end); j++ {
		if name := f.tokens[j].text; f.tokens[j].kind == literal && driver.Provides(name) {
			indent := f.text[first.start-column : first.start]
			p.Start, p.End = first.start, first.end
			p.Replace = "if " + f.os + ".path.exists(\"" + f.path(name) + "\"):\n" + indent + "    return [\"" + mark + "\"]\n\n" + indent + first.text
			return
		}
	}
}
