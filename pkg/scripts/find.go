package scripts

import (
	"bytes"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"

	"cuda-runpath/pkg/remedy"
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

// loading are the names of calls that load a library by the name that they are
// given: ctypes, cffi, Cython's and C's dlfcn, JavaScript's ffi packages; the last is
// CuPy's class around ctypes, which other files of it use.
var loading = []string{"CDLL", "PyDLL", "LoadLibrary", "load_library", "dlopen", "_dlopen", "dlmopen", "Library",
	"load_shared_library", "SoftLink"}

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

// maxReach bounds, in tokens or bytes, how far things that belong together stand
// apart: generated scripts have lines of megabytes.
const maxReach = 1000

// MaxSize bounds the scripts that are worth a look, in bytes.
const MaxSize = 4 << 20

// A script that was made to cost time or memory has more of these than one that somebody
// wrote: what is beyond them is not looked at.
const (
	maxTokens  = 1 << 19
	maxPlaces  = 1000
	maxEdges   = 1 << 18 // from which variable a variable is set
	maxTargets = 50      // names that one statement sets
	maxStack   = 64      // brackets around a literal
	maxText    = 200     // bytes of a line in Place.Text
)

// Find returns the places of a script, in its order. toolkit, where it is not nil, returns the path
// of a library of the CUDA toolkit, or "" where there is none: these are looked for too.
func Find(text string, lang Language, toolkit func(name string) string) []Place {
	f := &finder{text: text, lang: lang, toolkit: toolkit, carriers: map[string][]int{}}
	switch lang {
	case Notebook:
		f.text, f.lang = codeOf(text), Python
		f.code()
		for i := range f.places { // where that is in the document is not known
			f.places[i].Replace = ""
		}
	case Julia, Lua, Ruby:
		f.byLine()
	case C:
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
		line += strings.Count(f.text[at:p.Start], "\n")
		p.Line, at = line, p.Start
		from, to := lineAround(f.text, at, at, maxText)
		if to-from > maxText {
			from, to = max(from, at-maxText/2), min(to, at+maxText/2)
		}
		p.Text = strings.ToValidUTF8(strings.TrimSpace(f.text[from:to]), "")
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
	f.tokens = tokens(f.text, f.lang)
	f.loaders = map[string]bool{}
	f.aliases()
	if f.lang == Python {
		f.functions = functionsOf(f.text, f.tokens)
	}
	f.survey()
	f.scan()
	f.follow()
	f.forOthers()
}

type finder struct {
	text    string
	lang    Language
	toolkit func(name string) string
	tokens  []token
	// See survey.
	cython  bool
	bound   int             // from where on os, or require, is what its name says; 0 for nowhere
	loaders map[string]bool // the script's own names of what is in loading
	places  []Place
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

// aliases adds names that are set to a loading function: dlloader = ctypes.CDLL, also with some
// of its arguments (functools.partial), and those by which one is imported.
func (f *finder) aliases() {
	// member returns the last name of a.b.c.
	member := func(j int) int {
		for j+2 < len(f.tokens) && f.tokens[j].kind == identifier && f.tokens[j+1].text == "." {
			j += 2
		}
		return j
	}
	for i := 0; i+2 < len(f.tokens); i++ {
		switch {
		case f.tokens[i].kind != identifier:
		case f.is(i+1, "as") && f.is(i, loading...):
			f.loaders[f.tokens[i+2].text] = true
		case f.is(i+1, "="):
			j := member(i + 2)
			loads := f.is(j, loading...) && f.is(j+1, "")
			if f.is(j, "partial") && f.is(j+1, "(") {
				j = member(j + 2)
				loads = f.is(j, loading...) && f.is(j+1, ",", ")")
			}
			if loads {
				f.loaders[f.tokens[i].text] = true
			}
		}
	}
}

// loader reports whether a token is what a loading call begins with, before its bracket.
func (f *finder) loader(i int) bool {
	return f.is(i+1, "(") && (f.is(i, loading...) || i >= 0 && f.tokens[i].kind != literal &&
		f.loaders[f.tokens[i].text] || f.is(i, "load") && f.is(i-1, ".") && f.is(i-2, "koffi")) ||
		f.is(i+1, "[") && f.is(i, "cdll", "pydll") // ctypes.cdll["…"]
}

// scan looks at each literal where it is, and finds what is joined.
func (f *finder) scan() {
	var stack []call
	function := ""
	statement := 0 // the token at which it begins
	joins := 0     // brackets of join, after the first comma
	f.joined = make([]bool, len(f.tokens))
	for i, t := range f.tokens {
		f.joined[i] = joins > 0 || f.is(i-1, "/")
		switch {
		case t.kind == end:
			statement, stack, joins = i+1, stack[:0], 0
		case t.kind == identifier && (t.text == "def" || t.text == "function") && i+1 < len(f.tokens):
			function = f.tokens[i+1].text
		case f.is(i, "(", "[", "{"):
			c := call{open: t.text, at: i}
			if f.loader(i - 1) {
				c.name = loadingCall
			} else if t.text == "(" && i > 0 && f.tokens[i-1].kind == identifier {
				c.name = f.tokens[i-1].text
			} else if f.subscript(i) {
				c.name = "[]"
			}
			stack = append(stack, c)
		case len(stack) > 0 && f.is(i, ","):
			if c := &stack[len(stack)-1]; !c.next && c.name == "join" {
				joins++
			}
			stack[len(stack)-1].next = true
		case len(stack) > 0 && f.is(i, ")", "]", "}"):
			if c := stack[len(stack)-1]; c.next && c.name == "join" {
				joins--
			}
			stack = stack[:len(stack)-1]
		case t.kind == literal && len(f.places) < maxPlaces:
			f.literal(i, stack[max(0, len(stack)-maxStack):], statement, function)
		}
	}
}

func (f *finder) literal(i int, stack []call, statement int, function string) {
	t := f.tokens[i]
	if f.isFallback(i) {
		return
	}
	callee := ""
	if n := len(stack); n > 0 {
		callee = stack[n-1].name
	}
	name := t.text
	start, end := f.quoted(t)
	switch {
	case strings.Contains(t.text, "dlopen"):
		for _, m := range sourceCall().FindAllStringSubmatchIndex(t.text, -1) {
			f.source(m, t.start, t.end, Source)
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
		if i == open+1 && i+1 < len(f.tokens) && f.tokens[i+1].text == ")" && f.loads(stack[:len(stack)-1], i) {
			first := open - 1
			for first >= 2 && f.tokens[first-1].text == "." && f.tokens[first-2].kind == identifier {
				first -= 2
			}
			if p.Start, p.End = f.tokens[first].start, f.tokens[i+1].end; f.afterExists(p.Start) {
				return
			}
			f.replace(&p, f.text[t.start-1:t.start])
		}
		f.add(p)
		return
	case callee == "DLL" && i > 0 && (f.tokens[i-1].text == "," || f.tokens[i-1].text == "else") &&
		f.known("lib"+name+".so"):
		// tinygrad's own class, whose second argument is the path, or a bare name of which it
		// makes one with the directories that it knows.
		p := Place{Kind: Lookup, Library: "lib" + name + ".so", Start: start, End: end}
		f.replace(&p, f.text[start:t.start])
		f.add(p)
		return
	}
	made := false
	switch stem := f.stem(name); {
	case stem != "":
		name, made = stem, true
	case f.lang == JavaScript && f.known(name+".so") && f.loads(stack, i): // ffi-napi puts the ending behind
		name, made = name+".so", true
	case t.formatted || !f.known(name) || strings.ContainsAny(name, "/\\ "):
		return
	}
	p := Place{Kind: Named, Library: name, Start: start, End: end, made: made}
	switch {
	case !made && f.beside(i), made && f.compared(i), f.joined[i], f.onlyIfLoaded(stack):
		// It is compared, a key, or put together with something; or nothing is searched for.
	case f.loads(stack, i):
		p.Kind = Call
		f.replace(&p, f.text[start:t.start])
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
	if f.is(i-1, "==", "!=", "in", "+", "%", "is", "case") || f.is(i+1, "==", "!=", "in", "not", "+", "%", ":") {
		return true
	}
	if f.is(i+1, ".") && !f.is(i+2, "encode") {
		return true
	}
	return i > 0 && f.tokens[i-1].kind == literal || i+1 < len(f.tokens) && f.tokens[i+1].kind == literal ||
		f.subscript(i-1) && !f.loader(i-2)
}

// subscript reports whether a token is the bracket of x[…], and not that of a list.
func (f *finder) subscript(i int) bool {
	if i < 1 || f.tokens[i].kind != symbol || f.tokens[i].text != "[" {
		return false
	}
	switch before := f.tokens[i-1]; before.kind {
	case identifier:
		return !slices.Contains([]string{"in", "of", "return", "yield", "else", "or", "and", "if", "not", "await"},
			before.text)
	case symbol:
		return before.text == "]" || before.text == ")"
	}
	return false
}

// noLoad is the flag with which dlopen opens only what is loaded already: by its soname,
// from wherever it was loaded.
const noLoad = "RTLD_NOLOAD"

// onlyIfLoaded reports whether the innermost loading call has that flag.
func (f *finder) onlyIfLoaded(stack []call) bool {
	for _, c := range slices.Backward(stack) {
		if c.name == loadingCall {
			return f.hasFlag(c.at, noLoad)
		}
	}
	return false
}

// hasFlag reports whether a flag is among the arguments after a bracket.
func (f *finder) hasFlag(open int, flag string) bool {
	for j := open + 1; j < min(len(f.tokens), open+maxReach) && f.tokens[j].depth > f.tokens[open].depth; j++ {
		if f.is(j, flag) {
			return true
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
	for _, t := range f.tokens {
		if t.kind != literal {
			continue
		}
		for _, name := range libraryName().FindAllString(t.text, -1) {
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
			if c.at >= 3 && f.tokens[c.at-2].text == "." {
				to(f.tokens[c.at-3].text)
			}
		case !f.passes(c, i):
			// It is an argument of something else: a parameter's default value counts.
			if f.tokens[statement].text != "def" {
				return
			}
			if i >= 2 && f.tokens[i-1].text == "=" {
				to(f.tokens[i-2].text)
			}
			return
		}
	}
	if f.tokens[statement].text == "return" || f.tokens[statement].text == "yield" {
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
	for j := i - 1; j >= max(statement, i-maxReach); j-- {
		switch t := f.tokens[j]; {
		case over < 0 && t.kind == identifier && (t.text == "in" || t.text == "of"):
			over = j
			for k := j; k < i; k++ {
				if d := f.tokens[k]; d.depth < t.depth || d.depth == t.depth && d.kind == symbol && d.text == ":" {
					return nil
				}
			}
		case over < 0:
		case t.kind == identifier && t.text == "for":
			return out
		case t.kind == identifier:
			out = append(out, t.text)
		case t.text != "," && t.text != "(" && t.text != ")":
			return nil // a comparison
		}
	}
	return nil
}

// targets returns the names that a statement sets, looking no further than a token.
func (f *finder) targets(statement, limit int) []string {
	var out, names []string
	for j := statement; j < min(limit, statement+maxReach); j++ {
		switch t := f.tokens[j]; {
		case t.kind == end:
			return out
		case t.kind == symbol && (t.text == "=" || t.text == "+=" || t.text == ":=") && t.depth == f.tokens[statement].depth:
			out = append(out, names...)
			names = nil
		case t.kind == identifier && j+1 < len(f.tokens) && f.tokens[j+1].text != ".":
			names = append(names, t.text)
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
			f.replace(p, f.text[p.Start:p.Start+1+strings.IndexAny(f.text[p.Start:p.End], "\"'`")])
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
	for s := 0; s < len(f.tokens); {
		e := s
		for e < len(f.tokens) && f.tokens[e].kind != end {
			e++
		}
		w.assignment(s, e)
		for j := s; j < e; j++ {
			if f.tokens[j].kind == identifier {
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
		return []string{w.tokens[j].text, p}
	}
	return []string{w.tokens[j].text}
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
		if t := w.tokens[j]; t.depth == w.tokens[s].depth && w.is(j, "=", "+=") {
			last = j + 1
		}
	}
	targets := w.targets(s, e)
	for j := last; j < e; j++ {
		if w.tokens[j].kind == identifier {
			for _, to := range targets[:min(len(targets), maxTargets)] {
				w.set(to, j)
			}
		}
	}
}

// loop: for X in …, also in a comprehension; JavaScript's "of".
func (w *flow) loop(j, e int) {
	if w.tokens[j].text != "for" || w.edges > maxEdges {
		return
	}
	until := func(k int, words ...string) int {
		for k < min(e, j+maxReach) && !slices.Contains(words, w.tokens[k].text) {
			k++
		}
		return k
	}
	in := until(j+1, "in", "of")
	end := until(in+1, ":", "for", "if", "{")
	for k := in + 1; k < end; k++ {
		for x := j + 1; x < in && w.tokens[k].kind == identifier; x++ {
			if w.tokens[x].kind == identifier {
				w.set(w.tokens[x].text, k)
			}
		}
	}
}

// call: a variable is opened, or is given to a function of the script, whose parameter is set from it.
func (w *flow) call(j, e int) {
	if w.loader(j) && !w.hasFlag(j+1, noLoad) {
		w.variables(j+1, e, func(k int, _ argument) {
			if !w.joined[k] && len(w.opened) <= maxEdges {
				w.opened = append(w.opened, w.names(k)...)
			}
		})
	}
	if function := w.tokens[j].text; w.parameters[function] != nil && j+1 < e && w.tokens[j+1].text == "(" {
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
	depth := f.tokens[open].depth + 1
	for k := open + 1; k < min(bound, open+maxReach) && f.tokens[k].depth >= depth; k++ {
		t := f.tokens[k]
		if t.depth == depth {
			a = f.next(a, k)
		}
		if t.kind == identifier && t.depth < depth+maxNesting && (f.tokens[k-1].text != "." ||
			f.tokens[k-2].text == "self") && !(f.tokens[k+1].text == "=" && f.tokens[k+1].kind == symbol) {
			visit(k, a)
		}
	}
}

// source adds a call in C source; m are the indices of sourceCall's match in
// text[from:to].
func (f *finder) source(m []int, from, to int, kind Kind) {
	text := f.text[from:to]
	name := text[m[2]:m[3]]
	arguments, _, closed := strings.Cut(text[m[3]:min(len(text), m[3]+maxReach)], ")")
	if !f.known(name) || strings.Contains(arguments, noLoad) || strings.HasSuffix(text[:m[0]], " : ") &&
		secondDlopen().MatchString(text[max(0, m[0]-maxReach):m[0]]) {
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
			p.Replace = "(" + first + " ? " + first + " : " + f.text[p.Start:p.End] + ")"
		}
	}
	f.add(p)
}

// runsLdconfig reports whether a literal is "ldconfig -p", or the first of the words of that.
func (f *finder) runsLdconfig(i int) bool {
	program, option, _ := strings.Cut(f.tokens[i].text, " ")
	if option == "" && i+2 < len(f.tokens) && f.tokens[i+1].text == "," && f.tokens[i+2].kind == literal {
		option = f.tokens[i+2].text
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
	line, last := lineAround(text, p.Start, p.End, 2*maxReach)
	for len(others) > 0 && (from > line || to < last) {
		if to-from > maxReach {
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
		for from > line && nameByte(text[from-1]) && nameByte(text[from]) {
			from--
		}
	}
	old := text[from:to]
	return "--replace-fail " + remedy.InNix(old, "") + " " + remedy.InNix(text[from:p.Start]+
		strings.ReplaceAll(p.Replace, mark, link)+text[p.End:to], inNix)
}
