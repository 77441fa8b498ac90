package syntax

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

// Class is what a token is.
type Class byte

// The classes.
const (
	Identifier Class = iota
	Literal          // a string
	Symbol           // one character, or one of == != <= >= := +=
	End              // of a statement
)

// Token is one of a script's tokens.
type Token struct {
	Class
	Text       string // of a literal: what is between its quotes
	Start, End int    // in the script; of a literal between the quotes
	Depth      int    // of brackets around it
	Formatted  bool   // a literal with values put in: f"…", `…${x}…`
}

// maxTokens bounds what is looked at of a script that was made to cost time or memory.
const maxTokens = 1 << 19

// tokens splits a script. Comments are left out.
func tokens(text string, lang Language) []Token {
	s := splitter{text: text, lang: lang, out: make([]Token, 0, min(len(text)/4, maxTokens)+2)}
	for s.at < len(text) && len(s.out) < maxTokens {
		switch c := text[s.at]; {
		case c == '\n':
			if lang == Python && s.depth == 0 || lang == JavaScript && !continues(s.out) {
				s.endStatement()
			}
			s.at++
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			s.at++
		case c == '\\':
			s.at += 2 // a line that goes on
		case s.comment():
		case c == '"' || c == '\'' || c == '`' && lang == JavaScript:
			s.literal()
		case NameByte(c):
			s.identifier()
		case c == ';':
			s.endStatement()
			s.at++
		default:
			s.symbol()
		}
	}
	s.at = len(text)
	s.endStatement()
	return s.out
}

// splitter is how far tokens has come.
type splitter struct {
	text  string
	lang  Language
	at    int
	depth int
	out   []Token
}

// add adds the token that begins here, and goes on behind it.
func (s *splitter) add(k Class, to int) {
	s.out = append(s.out, Token{k, s.text[s.at:to], s.at, to, s.depth, false})
	s.at = to
}

// endStatement ends the statement before, if there is one.
func (s *splitter) endStatement() {
	if len(s.out) > 0 && s.out[len(s.out)-1].Class != End {
		s.add(End, s.at)
	}
}

// comment goes behind a comment, if one begins here.
func (s *splitter) comment() bool {
	rest := s.text[s.at:]
	switch {
	case s.lang == Python && rest[0] == '#', s.lang != Python && strings.HasPrefix(rest, "//"):
		s.at = LineEnd(s.text, s.at)
	case s.lang != Python && strings.HasPrefix(rest, "/*"):
		if n := strings.Index(rest[2:], "*/"); n < 0 {
			s.at = len(s.text)
		} else {
			s.at += n + 4
		}
	default:
		return false
	}
	return true
}

// literal adds a string; a prefix of Python's before it is part of it.
func (s *splitter) literal() {
	begin := s.at
	from, to, next := quoted(s.text, begin, s.lang)
	formatted := s.text[begin] == '`' && strings.Contains(s.text[from:to], "${")
	if n := len(s.out); s.lang == Python && n > 0 {
		if prefix := s.out[n-1]; prefix.Class == Identifier && prefix.End == begin && IsPrefix(prefix.Text) {
			formatted = strings.ContainsAny(prefix.Text, "fF")
			s.out = s.out[:n-1]
		}
	}
	s.out = append(s.out, Token{Literal, s.text[from:to], from, to, s.depth, formatted})
	s.at = next
}

func (s *splitter) identifier() {
	to := s.at
	for to < len(s.text) && NameByte(s.text[to]) {
		to++
	}
	s.add(Identifier, to)
}

// symbol adds a character, or two of an operator. Braces of JavaScript and C are not counted, as statements are in
// them.
func (s *splitter) symbol() {
	c, n := s.text[s.at], 1
	if s.at+1 < len(s.text) && s.text[s.at+1] == '=' && strings.IndexByte("=!<>:+", c) >= 0 {
		n = 2
	}
	opens, closes := c == '(' || c == '[', c == ')' || c == ']'
	if s.lang == Python {
		opens, closes = opens || c == '{', closes || c == '}'
	}
	if closes {
		s.depth = max(0, s.depth-1)
	}
	s.add(Symbol, s.at+n)
	if opens {
		s.depth++
	}
	if s.lang == C && (c == '{' || c == '}') {
		s.endStatement()
	}
}

// continues reports whether a line of JavaScript certainly goes on: after an
// operator, a comma or an open bracket.
func continues(out []Token) bool {
	if len(out) == 0 {
		return true
	}
	t := out[len(out)-1]
	return t.Class == Symbol && t.Text != ")" && t.Text != "]" && t.Text != "}" ||
		t.Depth > 0 && t.Text != ")" && t.Text != "]"
}

// LineEnd returns where the line that an offset is in ends.
func LineEnd(text string, i int) int {
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

// IsPrefix reports whether a name may stand before a string of Python: r"…".
func IsPrefix(s string) bool {
	return len(s) <= 2 && strings.Trim(s, "rRbBuUfF") == ""
}

// NameByte reports whether a byte may be in a name.
func NameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}
