package scripts

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"

	"cuda-runpath/pkg/scripts/syntax"
)

// codeOf returns the Python code of a Jupyter notebook, on the lines on which it is in the document,
// as every writer of notebooks lays it out (nbformat: a string a line, "cell_type" before "source").
func codeOf(document string) string {
	var b strings.Builder
	code, source := false, false
	for line := range strings.Lines(document) {
		text := strings.TrimSuffix(strings.TrimSpace(line), ",")
		switch {
		case strings.HasPrefix(text, `"cell_type":`):
			code = strings.Contains(text, `"code"`)
		case strings.HasPrefix(text, `"source": [`):
			source = code && !strings.HasSuffix(text, "]")
		case strings.HasPrefix(text, "]"):
			source = false
		case source:
			var s string
			if json.Unmarshal([]byte(text), &s) == nil {
				b.WriteString(strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", " "))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// The calls that load a library in Julia, Lua and Ruby, and the strings and symbols of a line.
var (
	otherCall = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\b(?:dlopen|ccall|ffi\.load|loadlib|ffi_lib|dlload)\b`)
	})
	otherString = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"([^"\s]+)"|'([^'\s]+)'`) })
)

// byLine lists, line by line, the names in the languages of which no more is known.
func (f *finder) byLine() {
	comment := "#"
	if f.Lang == syntax.Lua {
		comment = "--"
	}
	at := 0
	for line := range strings.Lines(f.Text) {
		code, _, _ := strings.Cut(line, comment)
		calls, looked := false, false
		for rest, past := code, 0; len(f.places) < maxPlaces; {
			m := otherString().FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			start, stop := past+m[0], past+m[1]
			name := code[start+1 : stop-1]
			rest, past = code[stop:], stop
			// the ending, Lua's prefix too, may be left out
			for _, as := range []string{name, name + ".so", "lib" + name + ".so"} {
				if !f.known(as) {
					continue
				}
				if !looked {
					calls, looked = otherCall().MatchString(code), true
				}
				if as != name && !calls {
					continue
				}
				p := Place{Kind: Named, Library: as, Start: at + start, End: at + stop}
				if calls {
					p.Kind = Call
				}
				f.add(p)
				break
			}
		}
		at += len(line)
	}
}
