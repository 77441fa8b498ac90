package scripts

import (
	"path"
	"slices"
	"strings"
)

// Language is how a script's strings and comments are written.
type Language int

// The languages.
const (
	Unknown    Language = iota
	Python              // and Cython
	JavaScript          // and TypeScript
	C                   // C and C++ sources that are compiled at run time
	Notebook            // Jupyter's
	Julia
	Lua
	Ruby
)

// languages are told by the ending of a file's name, and where it has none by a part of the line that names the
// interpreter.
var languages = []struct {
	Language
	endings, interpreters []string
}{
	{Python, []string{".py", ".pyx", ".pxi", ".pxd", ".pyx.in", ".py.in"}, []string{"python"}},
	{JavaScript, []string{".js", ".mjs", ".cjs", ".ts", ".mts"}, []string{"node", "deno", "bun"}},
	{C, []string{".c", ".cc", ".cpp", ".h", ".hpp", ".cu"}, nil},
	{Notebook, []string{".ipynb"}, nil},
	{Julia, []string{".jl"}, nil},
	{Lua, []string{".lua"}, nil},
	{Ruby, []string{".rb"}, nil},
}

// LanguageOf returns a script's language by its file name, or by the interpreter
// that its first line names.
func LanguageOf(name string, head []byte) Language {
	line, _, _ := strings.Cut(string(head[:min(len(head), 256)]), "\n")
	for _, l := range languages {
		if slices.ContainsFunc(l.endings, func(e string) bool { return strings.HasSuffix(name, e) }) ||
			path.Ext(name) == "" && strings.HasPrefix(line, "#!") && slices.ContainsFunc(l.interpreters,
				func(i string) bool { return strings.Contains(line, i) }) {
			return l.Language
		}
	}
	return Unknown
}

type kind byte

const (
	identifier kind = iota
	literal         // a string
	symbol          // one character, or one of == != <= >= := +=
	end             // of a statement
)

type token struct {
	kind
	text       string // of a literal: what is between its quotes
	start, end int    // in the script; of a literal between the quotes
	depth      int    // of brackets around it
	formatted  bool   // a literal with values put in: f"…", `…${x}…`
}

// tokens splits a script. Comments are left out.
func tokens(text string, lang Language) []token {
	out := make([]token, 0, min(len(text)/4, maxTokens)+2)
	depth := 0
	add := func(k kind, from, to int) { out = append(out, token{k, text[from:to], from, to, depth, false}) }
	endOfStatement := func(at int) {
		if len(out) > 0 && out[len(out)-1].kind != end {
			add(end, at, at)
		}
	}
	for i := 0; i < len(text) && len(out) < maxTokens; {
		c := text[i]
		switch {
		case c == '\n':
			if lang == Python && depth == 0 || lang == JavaScript && !continues(out) {
				endOfStatement(i)
			}
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			i++
		case c == '\\':
			i += 2 // a line that goes on
		case lang == Python && c == '#':
			i = lineEnd(text, i)
		case lang != Python && strings.HasPrefix(text[i:], "//"):
			i = lineEnd(text, i)
		case lang != Python && strings.HasPrefix(text[i:], "/*"):
			if n := strings.Index(text[i+2:], "*/"); n < 0 {
				i = len(text)
			} else {
				i += n + 4
			}
		case c == '"' || c == '\'' || c == '`' && lang == JavaScript:
			from, to, next := quoted(text, i, lang)
			t := token{literal, text[from:to], from, to, depth, c == '`' && strings.Contains(text[from:to], "${")}
			if n := len(out); lang == Python && n > 0 && out[n-1].kind == identifier && out[n-1].end == i &&
				isPrefix(out[n-1].text) {
				t.formatted = strings.ContainsAny(out[n-1].text, "fF")
				out = out[:n-1]
			}
			out = append(out, t)
			i = next
		case nameByte(c):
			j := i
			for j < len(text) && nameByte(text[j]) {
				j++
			}
			add(identifier, i, j)
			i = j
		case c == ';':
			endOfStatement(i)
			i++
		default:
			n := 1
			if i+1 < len(text) && text[i+1] == '=' && strings.IndexByte("=!<>:+", c) >= 0 {
				n = 2
			}
			switch {
			case c == ')' || c == ']' || c == '}' && lang == Python:
				depth = max(0, depth-1)
				add(symbol, i, i+n)
			case c == '(' || c == '[' || c == '{' && lang == Python:
				add(symbol, i, i+n)
				depth++
			case c == '{' || c == '}':
				add(symbol, i, i+n)
				if lang == C {
					endOfStatement(i)
				}
			default:
				add(symbol, i, i+n)
			}
			i += n
		}
	}
	endOfStatement(len(text))
	return out
}

// continues reports whether a line of JavaScript certainly goes on: after an
// operator, a comma or an open bracket.
func continues(out []token) bool {
	if len(out) == 0 {
		return true
	}
	t := out[len(out)-1]
	return t.kind == symbol && t.text != ")" && t.text != "]" && t.text != "}" ||
		t.depth > 0 && t.text != ")" && t.text != "]"
}

func lineEnd(text string, i int) int {
	if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}

// quoted returns the bounds of a string's contents and where it ends with its quotes.
func quoted(text string, i int, lang Language) (from, to, next int) {
	quote := text[i : i+1]
	if triple := strings.Repeat(quote, 3); lang == Python && strings.HasPrefix(text[i:], triple) {
		quote = triple
	}
	from = i + len(quote)
	for j := from; j < len(text); j++ {
		switch {
		case text[j] == '\\':
			j++
		case strings.HasPrefix(text[j:], quote):
			return from, j, j + len(quote)
		case text[j] == '\n' && len(quote) == 1 && quote != "`":
			return from, j, j // not ended: the rest of the line is lost, no more
		}
	}
	return from, len(text), len(text)
}

func isPrefix(s string) bool {
	return len(s) <= 2 && strings.Trim(s, "rRbBuUfF") == ""
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}
