package scripts

import (
	"bytes"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"

	"cuda-runpath/pkg/remedy/nixtext"
	"cuda-runpath/pkg/scripts/syntax"
)

// Kind says how a script comes to open the driver.
type Kind string

// The kinds.
const (
	// Call is a name in the arguments of a call that loads a library.
	Call Kind = "call"
	// Later is a name in a variable, or a list, that is passed to such a call later.
	Later Kind = "later"
	// Source is a call in C source that is in a string and is compiled at run time.
	Source Kind = "source"
	// Lookup asks for the library's path: find_library("cuda").
	Lookup Kind = "lookup"
	// Ldconfig runs ldconfig -p, which lists neither the driver link nor a store.
	Ldconfig Kind = "ldconfig"
	// Program looks for one of CUDA's compilers in PATH.
	Program Kind = "program"
	// Variable reads the variable that says where they are.
	Variable Kind = "variable"
	// Named is a name that is not seen to be passed to a loading call: it may be a
	// key, a part of a message, or be opened in another file.
	Named Kind = "named"
)

// Place is one place in a script.
type Place struct {
	Kind    Kind
	Library string // the name as it is there, "" for Ldconfig; the program, or the variable
	Line    int    // from 1
	// Directory is what a linker's flag names, of [Burnt].
	Directory string
	Text      string // the line, without blanks around it; of a long line what is near the place
	// Start and End are the bytes that are replaced, where Replace is not "": by it,
	// with mark for the directory of the driver.
	Start, End int
	Replace    string
	// Alone: the replacement is the path alone. Else what stood there is behind it, for
	// systems that have no such file (NixOS/nixpkgs 189028).
	Alone bool

	made bool // put together from the name and something else: how is not known
}

// mark is what is in Place.Replace for the driver's directory.
const mark = "@LINK@"

// loadingCall stands for whatever a loading call is written as.
const loadingCall = "CDLL"

// transparent are calls through which a name passes unchanged, or as a path that
// is the name's own where that is absolute.
var transparent = []string{"join", "str", "bytes", "unwrap", "encode", "fspath", "Path", "c_char_p", "find_library",
	"list", "tuple", "sorted", "reversed", "chain", "product", "abspath", "realpath"}

// hints are what a script has at least one of that Find finds anything in.
var hints = [][]byte{[]byte("libcu"), []byte("libnccl"), []byte("libnpp"), []byte("libnv"), []byte("libnvidia-"),
	[]byte("libGLX_nvidia"), []byte("libEGL_nvidia"), []byte("find_library"), []byte("ldconfig"), []byte("libGLES"),
	[]byte("nvidia.so"),
	[]byte("DLL('"), []byte("DLL(\""), []byte("nvcc"), []byte("ptxas"), []byte("CUDA_")}

// Worth reports whether a text may have any place: a quick look.
func Worth(text []byte) bool {
	return slices.ContainsFunc(hints, func(h []byte) bool { return bytes.Contains(text, h) })
}

var sourceCall = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:dlopen|dlmopen)\s*\(\s*(?:LM_ID_NEWLM\s*,\s*)?\\?"(lib[A-Za-z0-9_+-]+\.so[.0-9]*)\\?"`)
})

// MaxSize bounds the scripts that are worth a look, in bytes.
const MaxSize = 4 << 20

// A script that was made to cost time or memory has more of these than one that somebody
// wrote: what is beyond them is not looked at.
const (
	maxPlaces  = 1000
	maxEdges   = 1 << 18 // from which variable a variable is set
	maxTargets = 50      // names that one statement sets
	maxStack   = 64      // brackets around a literal
	maxText    = 200     // bytes of a line in Place.Text
)

// Find returns the places of a script, in its order. toolkit, where it is not nil, returns the path
// of a library of the CUDA toolkit, or "" where there is none: these are looked for too.
func Find(text string, lang syntax.Language, toolkit func(name string) string) []Place {
	f := &finder{Script: syntax.Script{Text: text, Lang: lang}, toolkit: toolkit, carriers: map[string][]int{}}
	switch lang {
	case syntax.Notebook:
		f.Text, f.Lang = codeOf(text), syntax.Python
		f.code()
		for i := range f.places { // where that is in the document is not known
			f.places[i].Replace = ""
		}
	case syntax.Julia, syntax.Lua, syntax.Ruby:
		f.byLine()
	case syntax.C:
		for _, m := range sourceCall().FindAllStringSubmatchIndex(text, -1) {
			f.source(m, 0, len(text), Call)
		}
	default:
		f.code()
	}
	// sort, not slices: made for one more type, the functions of slices are 15 kB of program.
	sort.Slice(f.places, func(i, j int) bool { return f.places[i].Start < f.places[j].Start })
	line, at := 1, 0
	for i := range f.places {
		p := &f.places[i]
		line += strings.Count(f.Text[at:p.Start], "\n")
		p.Line, at = line, p.Start
		from, to := lineAround(f.Text, at, at, maxText)
		if to-from > maxText {
			from, to = max(from, at-maxText/2), min(to, at+maxText/2)
		}
		p.Text = strings.ToValidUTF8(strings.TrimSpace(f.Text[from:to]), "")
	}
	return f.places
}

// lineAround returns the bounds of the line, or lines, from one offset to another, or those of at most so many bytes
// more on either side.
func lineAround(text string, from, to, most int) (begin, end int) {
	begin, end = max(0, from-most), min(len(text), to+most)
	begin += strings.LastIndexByte(text[begin:from], '\n') + 1
	if n := strings.IndexByte(text[to:end], '\n'); n >= 0 {
		end = to + n
	}
	return begin, end
}

// code finds the places of a script of Python or JavaScript.
func (f *finder) code() {
	f.Script = *syntax.Parse(f.Text, f.Lang)
	if f.Lang == syntax.Python {
		f.functions = functionsOf(f.Text, f.Tokens)
	}
	f.survey()
	f.scan()
	f.follow()
	f.forOthers()
}

type finder struct {
	syntax.Script
	toolkit func(name string) string
	// See survey.
	cython bool
	bound  int // from where on os, or require, is what its name says; 0 for nowhere
	places []Place
	// joined are the tokens that are a name in a directory that a path is made of: join(folder, "…"),
	// folder / "…". That opens the one in that directory, or looks whether it is there.
	joined []bool
	functions
	below struct{ from, to int } // see namedBelow
	// carriers are the variables and functions that carry a literal's value: name to
	// indices of places.
	carriers map[string][]int
}

// call is a pair of brackets: the name of what is called, "" for brackets without one.
type call struct {
	open string // "(", "[" or "{"
	name string
	at   int  // the token of the bracket
	next bool // there was a comma
}

// scan looks at each literal where it is, and finds what is joined.
func (f *finder) scan() {
	var stack []call
	function := ""
	statement := 0 // the token at which it begins
	joins := 0     // brackets of join, after the first comma
	f.joined = make([]bool, len(f.Tokens))
	for i, t := range f.Tokens {
		f.joined[i] = joins > 0 || f.Is(i-1, "/")
		switch {
		case t.Class == syntax.End:
			statement, stack, joins = i+1, stack[:0], 0
		case t.Class == syntax.Identifier && (t.Text == "def" || t.Text == "function") && i+1 < len(f.Tokens):
			function = f.Tokens[i+1].Text
		case f.Is(i, "(", "[", "{"):
			c := call{open: t.Text, at: i}
			if f.Loader(i - 1) {
				c.name = loadingCall
			} else if t.Text == "(" && i > 0 && f.Tokens[i-1].Class == syntax.Identifier {
				c.name = f.Tokens[i-1].Text
			} else if f.subscript(i) {
				c.name = "[]"
			}
			stack = append(stack, c)
		case len(stack) > 0 && f.Is(i, ","):
			if c := &stack[len(stack)-1]; !c.next && c.name == "join" {
				joins++
			}
			stack[len(stack)-1].next = true
		case len(stack) > 0 && f.Is(i, ")", "]", "}"):
			if c := stack[len(stack)-1]; c.next && c.name == "join" {
				joins--
			}
			stack = stack[:len(stack)-1]
		case t.Class == syntax.Literal && len(f.places) < maxPlaces:
			f.literal(i, stack[max(0, len(stack)-maxStack):], statement, function)
		}
	}
}

func (f *finder) literal(i int, stack []call, statement int, function string) {
	t := f.Tokens[i]
	if f.isFallback(i) {
		return
	}
	callee := ""
	if n := len(stack); n > 0 {
		callee = stack[n-1].name
	}
	name := t.Text
	start, end := f.quoted(t)
	switch {
	case strings.Contains(t.Text, "dlopen"):
		for _, m := range sourceCall().FindAllStringSubmatchIndex(t.Text, -1) {
			f.source(m, t.Start, t.End, Source)
		}
		return
	case len(stack) > 0 && f.runsLdconfig(i):
		f.ldconfig(i, statement)
		return
	case len(stack) > 0 && f.looksForCompiler(i, stack):
		p := Place{Kind: Program, Library: name, Start: start, End: end}
		if inEnvironment(name) {
			p.Kind = Variable
		}
		f.add(p)
		return
	case (callee == "find_library" || callee == "_findLib_ld") && f.known("lib"+name+".so"):
		name = "lib" + name + ".so"
		p := Place{Kind: Lookup, Library: name}
		p.Start, p.End = start, end
		// The whole call is replaced, where all that is done with it is to open it.
		open := stack[len(stack)-1].at
		if i == open+1 && i+1 < len(f.Tokens) && f.Tokens[i+1].Text == ")" && f.loads(stack[:len(stack)-1], i) {
			first := open - 1
			for first >= 2 && f.Tokens[first-1].Text == "." && f.Tokens[first-2].Class == syntax.Identifier {
				first -= 2
			}
			if p.Start, p.End = f.Tokens[first].Start, f.Tokens[i+1].End; f.afterExists(p.Start) {
				return
			}
			f.replace(&p, f.Text[t.Start-1:t.Start])
		}
		f.add(p)
		return
	case callee == "DLL" && i > 0 && (f.Tokens[i-1].Text == "," || f.Tokens[i-1].Text == "else") &&
		f.known("lib"+name+".so"):
		// tinygrad's own class, whose second argument is the path, or a bare name of which it
		// makes one with the directories that it knows.
		p := Place{Kind: Lookup, Library: "lib" + name + ".so", Start: start, End: end}
		f.replace(&p, f.Text[start:t.Start])
		f.add(p)
		return
	}
	made := false
	switch stem := f.stem(name); {
	case stem != "":
		name, made = stem, true
	case f.Lang == syntax.JavaScript && f.known(name+".so") && f.loads(stack, i): // ffi-napi puts the ending behind
		name, made = name+".so", true
	case t.Formatted || !f.known(name) || strings.ContainsAny(name, "/\\ "):
		return
	}
	p := Place{Kind: Named, Library: name, Start: start, End: end, made: made}
	switch {
	case !made && f.beside(i), made && f.compared(i), f.joined[i], f.onlyIfLoaded(stack):
		// It is compared, a key, or put together with something; or nothing is searched for.
	case f.loads(stack, i):
		p.Kind = Call
		f.replace(&p, f.Text[start:t.Start])
	default:
		f.add(p)
		f.carry(i, stack, statement, function)
		return
	}
	f.add(p)
}

// loads reports whether the innermost brackets are the arguments of a loading call,
// or lead to one through calls that hand the name on.
func (f *finder) loads(stack []call, i int) bool {
	for _, c := range slices.Backward(stack) {
		switch {
		case c.name == loadingCall:
			return true
		case !f.passes(c, i), c.open == "{":
			return false
		}
	}
	return false
}

// passes reports whether a call hands on the argument in which a token is: brackets without a
// name, a transparent call, or the default value of environ.get(…) and getenv(…).
func (f *finder) passes(c call, i int) bool {
	if c.name == "get" || c.name == "getenv" {
		a := f.argument(c.at, i)
		return a.keyword == "default" || a.place > 0
	}
	return c.name == "" || slices.Contains(transparent, c.name)
}

// beside reports whether what is beside a literal makes another value of it: a
// comparison, a key's colon (which the colon of "if x else 'literal':" is taken for), an
// operator, a method, another literal.
func (f *finder) beside(i int) bool {
	if f.Is(i-1, "==", "!=", "in", "+", "%", "is", "case") || f.Is(i+1, "==", "!=", "in", "not", "+", "%", ":") {
		return true
	}
	if f.Is(i+1, ".") && !f.Is(i+2, "encode") {
		return true
	}
	return i > 0 && f.Tokens[i-1].Class == syntax.Literal ||
		i+1 < len(f.Tokens) && f.Tokens[i+1].Class == syntax.Literal ||
		f.subscript(i-1) && !f.Loader(i-2)
}

// subscript reports whether a token is the bracket of x[…], and not that of a list.
func (f *finder) subscript(i int) bool {
	if i < 1 || f.Tokens[i].Class != syntax.Symbol || f.Tokens[i].Text != "[" {
		return false
	}
	switch before := f.Tokens[i-1]; before.Class {
	case syntax.Identifier:
		return !slices.Contains([]string{"in", "of", "return", "yield", "else", "or", "and", "if", "not", "await"},
			before.Text)
	case syntax.Symbol:
		return before.Text == "]" || before.Text == ")"
	}
	return false
}

// onlyIfLoaded reports whether the innermost loading call has that flag.
func (f *finder) onlyIfLoaded(stack []call) bool {
	for _, c := range slices.Backward(stack) {
		if c.name == loadingCall {
			return f.HasFlag(c.at, syntax.NoLoad)
		}
	}
	return false
}

// libraryName finds what may be a shared library's name in a literal.
var libraryName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\blib[A-Za-z0-9_+-]+\.so[.0-9]*`)
})

// forOthers leaves out the calls of ldconfig of a script that names libraries, but none of
// the driver's: it looks for those.
func (f *finder) forOthers() {
	isCall := func(p Place) bool { return p.Kind == Ldconfig }
	if !slices.ContainsFunc(f.places, isCall) {
		return
	}
	others := false
	for _, t := range f.Tokens {
		if t.Class != syntax.Literal {
			continue
		}
		for _, name := range libraryName().FindAllString(t.Text, -1) {
			if f.known(name) {
				return
			}
			others = true
		}
	}
	if others {
		f.places = slices.DeleteFunc(f.places, isCall)
	}
}

// carry notes the variables and functions that a literal's value goes to.
func (f *finder) carry(i int, stack []call, statement int, function string) {
	place := len(f.places) - 1
	to := func(name string) { f.carriers[name] = append(f.carriers[name], place) }
	for _, name := range f.loop(i, statement) {
		to(name)
	}
	for _, c := range slices.Backward(stack) {
		if !f.passes(c, i) {
			for _, name := range f.taking(c.name, f.argument(c.at, i)) {
				to(name)
			}
			break
		}
	}
	for _, c := range stack {
		switch {
		case c.name == "append" || c.name == "extend" || c.name == "insert" || c.name == "push":
			if c.at >= 3 && f.Tokens[c.at-2].Text == "." {
				to(f.Tokens[c.at-3].Text)
			}
		case !f.passes(c, i):
			// It is an argument of something else: a parameter's default value counts.
			if f.Tokens[statement].Text != "def" {
				return
			}
			if i >= 2 && f.Tokens[i-1].Text == "=" {
				to(f.Tokens[i-2].Text)
			}
			return
		}
	}
	if f.Tokens[statement].Text == "return" || f.Tokens[statement].Text == "yield" {
		to(function)
	}
	for _, name := range f.targets(statement, i) {
		to(name)
	}
}

// loop returns the variables of the loop, or comprehension, over the list in which a literal is:
// for X in ("…", "…").
func (f *finder) loop(i, statement int) []string {
	var out []string
	over := -1 // the "in"
	for j := i - 1; j >= max(statement, i-syntax.MaxReach); j-- {
		switch t := f.Tokens[j]; {
		case over < 0 && t.Class == syntax.Identifier && (t.Text == "in" || t.Text == "of"):
			over = j
			for k := j; k < i; k++ {
				if d := f.Tokens[k]; d.Depth < t.Depth || d.Depth == t.Depth && d.Class == syntax.Symbol && d.Text == ":" {
					return nil
				}
			}
		case over < 0:
		case t.Class == syntax.Identifier && t.Text == "for":
			return out
		case t.Class == syntax.Identifier:
			out = append(out, t.Text)
		case t.Text != "," && t.Text != "(" && t.Text != ")":
			return nil // a comparison
		}
	}
	return nil
}

// targets returns the names that a statement sets, looking no further than a token.
func (f *finder) targets(statement, limit int) []string {
	var out, names []string
	for j := statement; j < min(limit, statement+syntax.MaxReach); j++ {
		switch t := f.Tokens[j]; {
		case t.Class == syntax.End:
			return out
		case t.Class == syntax.Symbol && (t.Text == "=" || t.Text == "+=" || t.Text == ":=") &&
			t.Depth == f.Tokens[statement].Depth:
			out = append(out, names...)
			names = nil
		case t.Class == syntax.Identifier && j+1 < len(f.Tokens) && f.Tokens[j+1].Text != ".":
			names = append(names, t.Text)
		}
	}
	return out
}

// follow finds the places whose value reaches a loading call by way of variables.
func (f *finder) follow() {
	if len(f.carriers) == 0 {
		return
	}
	reaches := f.flow().reaching()
	for name, places := range f.carriers {
		if !reaches[name] {
			continue
		}
		for _, i := range places {
			p := &f.places[i]
			p.Kind = Later
			f.replace(p, f.Text[p.Start:p.Start+1+strings.IndexAny(f.Text[p.Start:p.End], "\"'`")])
		}
	}
}

// flow is what is known of a script's variables. Names are those of the whole file: one that is used twice for
// different things counts as one.
type flow struct {
	*finder
	sources map[string][]string // what a name is set from
	edges   int                 // how often a name was set, see maxEdges
	opened  []string            // what is given to a loading call
}

// flow reads statement by statement which name is set from which, and what is opened.
func (f *finder) flow() *flow {
	w := &flow{finder: f, sources: map[string][]string{}}
	for s := 0; s < len(f.Tokens); {
		e := s
		for e < len(f.Tokens) && f.Tokens[e].Class != syntax.End {
			e++
		}
		w.assignment(s, e)
		for j := s; j < e; j++ {
			if f.Tokens[j].Class == syntax.Identifier {
				w.loop(j, e)
				w.call(j, e)
			}
		}
		s = e + 1
	}
	return w
}

// names returns the variable that a token is, and the parameter of the function around it.
func (w *flow) names(j int) []string {
	if p := w.parameterAt(j); p != "" {
		return []string{w.Tokens[j].Text, p}
	}
	return []string{w.Tokens[j].Text}
}

// set notes that a name is set from a variable.
func (w *flow) set(to string, j int) {
	if w.edges++; !w.joined[j] && w.edges <= maxEdges {
		w.sources[to] = append(w.sources[to], w.names(j)...)
	}
}

// assignment: what stands before the last "=" of a statement is set from what stands after it.
func (w *flow) assignment(s, e int) {
	last := s
	for j := s; j < e; j++ {
		if t := w.Tokens[j]; t.Depth == w.Tokens[s].Depth && w.Is(j, "=", "+=") {
			last = j + 1
		}
	}
	targets := w.targets(s, e)
	for j := last; j < e; j++ {
		if w.Tokens[j].Class == syntax.Identifier {
			for _, to := range targets[:min(len(targets), maxTargets)] {
				w.set(to, j)
			}
		}
	}
}

// loop: for X in …, also in a comprehension; JavaScript's "of".
func (w *flow) loop(j, e int) {
	if w.Tokens[j].Text != "for" || w.edges > maxEdges {
		return
	}
	until := func(k int, words ...string) int {
		for k < min(e, j+syntax.MaxReach) && !slices.Contains(words, w.Tokens[k].Text) {
			k++
		}
		return k
	}
	in := until(j+1, "in", "of")
	end := until(in+1, ":", "for", "if", "{")
	for k := in + 1; k < end; k++ {
		for x := j + 1; x < in && w.Tokens[k].Class == syntax.Identifier; x++ {
			if w.Tokens[x].Class == syntax.Identifier {
				w.set(w.Tokens[x].Text, k)
			}
		}
	}
}

// call: a variable is opened, or is given to a function of the script, whose parameter is set from it.
func (w *flow) call(j, e int) {
	if w.Loader(j) && !w.HasFlag(j+1, syntax.NoLoad) {
		w.variables(j+1, e, func(k int, _ argument) {
			if !w.joined[k] && len(w.opened) <= maxEdges {
				w.opened = append(w.opened, w.names(k)...)
			}
		})
	}
	if function := w.Tokens[j].Text; w.parameters[function] != nil && j+1 < e && w.Tokens[j+1].Text == "(" {
		w.variables(j+1, e, func(k int, a argument) {
			for _, p := range w.taking(function, a) {
				w.set(p, k)
			}
		})
	}
}

// reaching returns the names whose value reaches a loading call: backwards from what is opened.
func (w *flow) reaching() map[string]bool {
	reaches := map[string]bool{}
	for names := w.opened; len(names) > 0; {
		name := names[len(names)-1]
		if names = names[:len(names)-1]; !reaches[name] {
			reaches[name] = true
			names = append(names, w.sources[name]...)
		}
	}
	return reaches
}

// maxNesting bounds how deep in a call's arguments variables are looked for, in brackets.
const maxNesting = 8

// variables calls visit with the tokens before a bound that are variables in the arguments of a
// call, and the argument.
func (f *finder) variables(open, bound int, visit func(k int, a argument)) {
	var a argument
	depth := f.Tokens[open].Depth + 1
	for k := open + 1; k < min(bound, open+syntax.MaxReach) && f.Tokens[k].Depth >= depth; k++ {
		t := f.Tokens[k]
		if t.Depth == depth {
			a = f.next(a, k)
		}
		if t.Class == syntax.Identifier && t.Depth < depth+maxNesting && (f.Tokens[k-1].Text != "." ||
			f.Tokens[k-2].Text == "self") && !(f.Tokens[k+1].Text == "=" && f.Tokens[k+1].Class == syntax.Symbol) {
			visit(k, a)
		}
	}
}

// source adds a call in C source; m are the indices of sourceCall's match in
// text[from:to].
func (f *finder) source(m []int, from, to int, kind Kind) {
	text := f.Text[from:to]
	name := text[m[2]:m[3]]
	arguments, _, closed := strings.Cut(text[m[3]:min(len(text), m[3]+syntax.MaxReach)], ")")
	if !f.known(name) || strings.Contains(arguments, syntax.NoLoad) || strings.HasSuffix(text[:m[0]], " : ") &&
		secondDlopen().MatchString(text[max(0, m[0]-syntax.MaxReach):m[0]]) {
		return
	}
	p := Place{Kind: kind, Library: name, Start: from + m[2], End: from + m[3]}
	if path := f.path(name); path != "" {
		p.Replace, p.Alone = path, true
		before := strings.TrimRight(text[:m[0]], " \t")
		if closed && !strings.Contains(arguments, "(") && strings.HasPrefix(text[m[0]:], "dlopen") &&
			!strings.HasSuffix(before, ".") && !strings.HasSuffix(before, ">") && !strings.HasSuffix(before, ":") {
			p.Start, p.End, p.Alone = from+m[0], from+m[3]+len(arguments)+1, false
			first := text[m[0]:m[2]] + path + arguments + ")"
			p.Replace = "(" + first + " ? " + first + " : " + f.Text[p.Start:p.End] + ")"
		}
	}
	f.add(p)
}

// runsLdconfig reports whether a literal is "ldconfig -p", or the first of the words of that.
func (f *finder) runsLdconfig(i int) bool {
	program, option, _ := strings.Cut(f.Tokens[i].Text, " ")
	if option == "" && i+2 < len(f.Tokens) && f.Tokens[i+1].Text == "," && f.Tokens[i+2].Class == syntax.Literal {
		option = f.Tokens[i+2].Text
	}
	return (program == "ldconfig" || strings.HasSuffix(program, "/ldconfig")) && strings.HasPrefix(option, "-p")
}

func (f *finder) add(p Place) {
	if len(f.places) < maxPlaces {
		f.places = append(f.places, p)
	}
}

// Fix returns the text with the driver's directory in the places that open the driver.
func Fix(text string, places []Place, link string) string {
	var b strings.Builder
	at := 0
	for _, p := range places {
		if p.Replace == "" || p.Start < at {
			continue
		}
		b.WriteString(text[at:p.Start])
		b.WriteString(strings.ReplaceAll(p.Replace, mark, link))
		at = p.End
	}
	b.WriteString(text[at:])
	return b.String()
}

// Substitute returns the arguments of nixpkgs' substituteInPlace that change a place
// and nothing else in the text; "" where it is not to be changed. It is in an
// indented string of Nix.
func (p Place) Substitute(text string, places []Place) string {
	inNix := "${addDriverRunpath.driverLink}"
	link := inNix + "/lib"
	if p.Kind == Program {
		quote, path := text[p.End-1:p.End], p.InPackage()
		inNix, _, _ = strings.Cut(path, "/")
		p.Replace = quote + path + quote
	}
	if p.Replace == "" {
		return ""
	}
	from, to := p.Start, p.End
	// The replaced text must not be found elsewhere, unless it is replaced there too. others are
	// where it is found and is not; they become fewer with each byte that is added to it.
	alike := map[int]bool{p.Start: true}
	for _, q := range places {
		if (q.Replace == p.Replace || q.Kind == Program && p.Kind == Program && q.Library == p.Library) &&
			q.End-q.Start == to-from {
			alike[q.Start] = true
		}
	}
	var others []int
	for at := 0; ; at++ {
		i := strings.Index(text[at:], text[from:to])
		if i < 0 {
			break
		}
		if at += i; !alike[at] {
			if others = append(others, at-from); len(others) > maxPlaces {
				return ""
			}
		}
	}
	// same drops the others that have another byte at an offset.
	same := func(at int) {
		others = slices.DeleteFunc(others, func(d int) bool {
			return at+d < 0 || at+d >= len(text) || text[at+d] != text[at]
		})
	}
	line, last := lineAround(text, p.Start, p.End, 2*syntax.MaxReach)
	for len(others) > 0 && (from > line || to < last) {
		if to-from > syntax.MaxReach {
			return "" // a line of generated code
		}
		// More of the line: back to the beginning of the call first.
		if from > line {
			from--
			same(from)
		} else {
			same(to)
			to++
		}
	}
	if from < p.Start && from > line { // whole words
		for from > line && syntax.NameByte(text[from-1]) && syntax.NameByte(text[from]) {
			from--
		}
	}
	old := text[from:to]
	return "--replace-fail " + nixtext.Word(old, "") + " " + nixtext.Word(text[from:p.Start]+
		strings.ReplaceAll(p.Replace, mark, link)+text[p.End:to], inNix)
}
