package scripts

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/scripts/syntax"
)

// functions are what a Python script knows of its own functions: which parameters they
// have, and which tokens are in them. A name that is given to a function of the script
// is followed into it, by the parameter that takes it.
type functions struct {
	// parameters are those of each function, in order; a class has those of its
	// __init__. Where several have one name, the first maxSame of them are taken together.
	parameters map[string][][]parameter
	// in is the function around each token, "" for none.
	in []string
	// begins is where each statement's first token stands.
	begins []position
}

const (
	maxSame       = 8
	maxParameters = 100
)

type parameter struct {
	name string
	rest bool // *names
}

// named is a parameter of a function as a name of the file: no variable is called so.
func named(function, parameter string) string { return function + ":" + parameter }

// block is a class or a function, by the column in which its first line begins.
type block struct {
	column int
	name   string
	class  bool
}

// position is where in its line a statement begins.
type position struct {
	column int32 // of the line's first character that is no blank
	first  bool  // the statement begins there (after a quote, if it begins with a literal)
}

// functionsOf finds a script's functions. Blocks end by indentation, as in Python.
func functionsOf(text string, tokens []syntax.Token) functions {
	f := functions{map[string][][]parameter{}, make([]string, len(tokens)), make([]position, len(tokens))}
	line := line{}
	var blocks []block
	var e int
	for s := 0; s < len(tokens); s = e + 1 {
		for e = s; e < len(tokens) && tokens[e].Class != syntax.End; e++ {
		}
		if e == s {
			continue
		}
		line.next(text, tokens[s].Start)
		column := line.column
		f.begins[s] = position{int32(column), tokens[s].Start <= line.after}
		if f.begins[s].first {
			for len(blocks) > 0 && column <= blocks[len(blocks)-1].column {
				blocks = blocks[:len(blocks)-1]
			}
		}
		name, open := definition(tokens[s:e])
		switch {
		case name == "":
		case open < 0:
			blocks = append(blocks, block{column, name, true})
		default:
			method := len(blocks) > 0 && blocks[len(blocks)-1].class
			if method && slices.Contains([]string{"__init__", "__cinit__", "__new__"}, name) {
				name = blocks[len(blocks)-1].name
			}
			blocks = append(blocks, block{column, name, false})
			if len(f.parameters[name]) < maxSame {
				f.parameters[name] = append(f.parameters[name], parametersOf(tokens[s+open:e], method))
			}
		}
		if len(blocks) > 0 && !blocks[len(blocks)-1].class {
			for i := s; i < e; i++ {
				f.in[i] = blocks[len(blocks)-1].name
			}
		}
	}
	return f
}

// line is a line of a script.
type line struct {
	end    int // 0 before the first
	column int // of the first character that is no blank
	after  int // the offset of the first after that which is not part of what a literal begins with
}

// next goes on to the line that has an offset. Each is looked at once, however many statements it has.
func (l *line) next(text string, at int) {
	if at < l.end {
		return
	}
	start := l.end + strings.LastIndexByte(text[l.end:at], '\n') + 1
	l.end = syntax.LineEnd(text, at)
	code := strings.TrimLeft(text[start:l.end], " \t\f")
	l.column = l.end - start - len(code)
	l.after = l.end - len(strings.TrimLeft(code, `"'rRbBuUfF`))
}

// definition returns what a statement defines: a class (open is -1), or a function whose
// parameters begin after the bracket at open; or "".
func definition(s []syntax.Token) (name string, open int) {
	is := func(i int, words ...string) bool {
		return i < len(s) && s[i].Class == syntax.Identifier && slices.Contains(words, s[i].Text)
	}
	i := 0
	if is(i, "async", "cdef", "cpdef") {
		i++
	}
	switch {
	case is(i, "class") && i+1 < len(s):
		return s[i+1].Text, -1
	case !is(i, "def") && !is(0, "cdef", "cpdef"):
		return "", 0
	}
	for ; i+1 < len(s); i++ {
		if s[i+1].Class == syntax.Symbol && s[i+1].Text == "(" && s[i].Class == syntax.Identifier {
			return s[i].Text, i + 1
		}
		if s[i].Class == syntax.Symbol && strings.ContainsAny(s[i].Text, "=:") {
			break // cdef int x = 1
		}
	}
	return "", 0
}

// parametersOf reads the parameters after a bracket, with annotations and default values, or
// with C's types before the names as Cython has them.
func parametersOf(s []syntax.Token, method bool) []parameter {
	var out []parameter
	p, named := parameter{}, false
	add := func() {
		if p.name != "" && len(out) < maxParameters {
			out = append(out, p)
		}
		p, named = parameter{}, false
	}
	for _, t := range s[1:] {
		if t.Depth <= s[0].Depth {
			break
		}
		switch {
		case t.Depth > s[0].Depth+1:
		case t.Class == syntax.Symbol && t.Text == ",":
			add()
		case t.Class == syntax.Symbol && (t.Text == "=" || t.Text == ":"):
			named = true
		case t.Class == syntax.Symbol && t.Text == "*" && p.name == "":
			p.rest = true
		case t.Class == syntax.Identifier && !named:
			p.name = t.Text
		}
	}
	add()
	if method && len(out) > 0 && (out[0].name == "self" || out[0].name == "cls") {
		out = out[1:]
	}
	return out
}

// argument is where a value stands in a call: after a keyword, or at a place, from 0.
type argument struct {
	keyword string
	place   int
}

// taking returns the parameters that take an argument of a call of a function.
func (f functions) taking(function string, a argument) []string {
	var out []string
	for _, list := range f.parameters[function] {
		for i, p := range list {
			if a.keyword == p.name && !p.rest || a.keyword == "" && (i == a.place || i < a.place && p.rest) {
				out = append(out, named(function, p.name))
				break
			}
		}
	}
	return out
}

// parameterAt returns the parameter of the function around it that a token names, or "".
func (f *finder) parameterAt(i int) string {
	if f.in == nil {
		return ""
	}
	name := f.Tokens[i].Text
	for _, list := range f.parameters[f.in[i]] {
		if slices.ContainsFunc(list, func(p parameter) bool { return p.name == name }) {
			return named(f.in[i], name)
		}
	}
	return ""
}

// argument returns the argument in which a token is, of the call whose bracket is at open.
func (f *finder) argument(open, i int) argument {
	if i-open > syntax.MaxReach {
		return argument{place: syntax.MaxReach}
	}
	var a argument
	for j := open + 1; j < i; j++ {
		if f.Tokens[j].Depth == f.Tokens[open].Depth+1 {
			a = f.next(a, j)
		}
	}
	return a
}

// next returns the argument after a token that stands in no other bracket than the call's.
func (f *finder) next(a argument, i int) argument {
	switch t := f.Tokens[i]; {
	case t.Class != syntax.Symbol:
	case t.Text == ",":
		return argument{place: a.place + 1}
	case t.Text == "=" && f.Tokens[i-1].Class == syntax.Identifier:
		a.keyword = f.Tokens[i-1].Text
	}
	return a
}
