package scripts

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/lazy"
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
	// Ldconfig runs ldconfig -p, which knows nothing of the driver link.
	Ldconfig Kind = "ldconfig"
	// Named is a name that is not seen to be passed to a loading call: it may be a
	// key, a part of a message, or be opened in another file.
	Named Kind = "named"
)

// Place is one place in a script.
type Place struct {
	Kind    Kind
	Library string // the name as it is there, "" for Ldconfig
	Line    int    // from 1
	Text    string // the line, without blanks around it
	// Start and End are the bytes that are replaced, where Replace is not "": by it,
	// with LINK for the directory of the driver.
	Start, End int
	Replace    string
}

// mark is what is in Place.Replace for the driver's directory.
const mark = "@LINK@"

// loading are the names of calls that load a library by the name that they are
// given: ctypes, cffi, Cython's and C's dlfcn, JavaScript's ffi packages.
var loading = []string{"CDLL", "PyDLL", "LoadLibrary", "load_library", "dlopen", "_dlopen", "dlmopen", "Library", "load_shared_library"}

// transparent are calls through which a name passes unchanged, or as a path that
// is the name's own where that is absolute.
var transparent = []string{"join", "str", "bytes", "unwrap", "encode", "fspath", "Path", "c_char_p", "find_library", "list", "tuple", "sorted", "reversed", "chain", "product", "abspath", "realpath"}

// hints are what a script has at least one of that Find finds anything in.
var hints = [][]byte{[]byte("libcuda"), []byte("libnv"), []byte("libnvidia-"), []byte("libGLX_nvidia"), []byte("libEGL_nvidia"), []byte("find_library"), []byte("ldconfig"), []byte("libGLES"), []byte("nvidia.so"),
	[]byte("DLL('"), []byte("DLL(\"")}

// Worth reports whether a text may have any place: a quick look.
func Worth(text []byte) bool {
	return slices.ContainsFunc(hints, func(h []byte) bool { return bytes.Contains(text, h) })
}

var sourceCall = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:dlopen|dlmopen)\s*\(\s*(?:LM_ID_NEWLM\s*,\s*)?\\?"(lib[A-Za-z0-9_+-]+\.so[.0-9]*)\\?"`)
}}

// maxReach bounds, in tokens or bytes, how far things that belong together stand
// apart: generated scripts have lines of megabytes.
const maxReach = 1000

// MaxSize bounds the scripts that are worth a look, in bytes.
const MaxSize = 4 << 20

// Find returns the places of a script, in its order.
func Find(text string, lang Language) []Place {
	f := &finder{text: text, tokens: tokens(text, lang), carriers: map[string][]int{}}
	f.loaders = slices.Clone(loading)
	f.aliases()
	if lang == C {
		for _, m := range sourceCall.Get().FindAllStringSubmatchIndex(text, -1) {
			f.source(m, 0, len(text), Call)
		}
		return f.places
	}
	f.scan()
	f.follow()
	f.forOthers()
	slices.SortFunc(f.places, func(a, b Place) int { return a.Start - b.Start })
	return f.places
}

type finder struct {
	text    string
	tokens  []token
	loaders []string
	places  []Place
	// carriers are the variables and functions that carry a literal's value: name to
	// indices of places.
	carriers map[string][]int
}

// call is a pair of brackets: the name of what is called, "" for brackets without one.
type call struct {
	open string // "(", "[" or "{"
	name string
	at   int // the token of the bracket
}

// aliases adds names that are set to a loading function: dlloader = ctypes.CDLL.
func (f *finder) aliases() {
	for i := 0; i+2 < len(f.tokens); i++ {
		if f.tokens[i].kind != identifier || f.tokens[i+1].text != "=" || f.tokens[i+1].kind != symbol {
			continue
		}
		j := i + 2
		for j+2 < len(f.tokens) && f.tokens[j].kind == identifier && f.tokens[j+1].text == "." {
			j += 2
		}
		if f.tokens[j].kind == identifier && slices.Contains(loading, f.tokens[j].text) && j+1 < len(f.tokens) && f.tokens[j+1].kind == end {
			f.loaders = append(f.loaders, f.tokens[i].text)
		}
	}
}

// scan looks at each literal where it is.
func (f *finder) scan() {
	var stack []call
	function := ""
	statement := 0 // the token at which it begins
	for i, t := range f.tokens {
		switch {
		case t.kind == end:
			statement = i + 1
			stack = stack[:0]
			continue
		case t.kind == identifier && (t.text == "def" || t.text == "function") && i+1 < len(f.tokens):
			function = f.tokens[i+1].text
		case t.kind == symbol && strings.Contains("([{", t.text):
			c := call{open: t.text, at: i}
			if t.text == "(" && i > 0 && f.tokens[i-1].kind == identifier {
				c.name = f.tokens[i-1].text
			} else if t.text == "[" && i > 0 && (f.tokens[i-1].kind == identifier && f.tokens[i-1].text != "in" && f.tokens[i-1].text != "return" || f.tokens[i-1].text == "]" || f.tokens[i-1].text == ")") {
				c.name = "[]" // a subscript
			}
			stack = append(stack, c)
		case t.kind == symbol && strings.Contains(")]}", t.text):
			if len(stack) > 0 {
				stack = stack[:len(stack)-1]
			}
		case t.kind == literal:
			f.literal(i, stack, statement, function)
		}
	}
}

func (f *finder) literal(i int, stack []call, statement int, function string) {
	t := f.tokens[i]
	callee := ""
	if n := len(stack); n > 0 {
		callee = stack[n-1].name
	}
	name := t.text
	switch {
	case strings.Contains(t.text, "dlopen"):
		for _, m := range sourceCall.Get().FindAllStringSubmatchIndex(t.text, -1) {
			f.source(m, t.start, t.end, Source)
		}
		return
	case len(stack) > 0 && f.runsLdconfig(i):
		f.add(Place{Kind: Ldconfig, Start: t.start, End: t.start})
		return
	case (callee == "find_library" || callee == "_findLib_ld") && driver.Provides("lib"+name+".so"):
		name = "lib" + name + ".so"
		p := Place{Kind: Lookup, Library: name}
		p.Start, p.End = t.start, t.end
		// The whole call is replaced, where all that is done with it is to open it.
		open := stack[len(stack)-1].at
		if i == open+1 && i+1 < len(f.tokens) && f.tokens[i+1].text == ")" && f.loads(stack[:len(stack)-1]) {
			first := open - 1
			for first >= 2 && f.tokens[first-1].text == "." && f.tokens[first-2].kind == identifier {
				first -= 2
			}
			quote := f.text[t.start-1 : t.start]
			p.Start, p.End, p.Replace = f.tokens[first].start, f.tokens[i+1].end, quote+linked(name)+quote
		}
		f.add(p)
		return
	case callee == "DLL" && i > 0 && (f.tokens[i-1].text == "," || f.tokens[i-1].text == "else") && driver.Provides("lib"+name+".so"):
		// A class of the package's own, as tinygrad's, whose second argument is the path, or a bare
		// name of which it makes one: how, and what else it tries, is not seen here.
		f.add(Place{Kind: Lookup, Library: "lib" + name + ".so", Start: t.start, End: t.end})
		return
	case t.formatted || !driver.Provides(name) || strings.ContainsAny(name, "/\\ "):
		return
	}
	p := Place{Kind: Named, Library: name, Start: t.start, End: t.end}
	switch {
	case f.beside(i), f.inDirectory(i, stack), f.onlyIfLoaded(stack):
		// It is compared, a key, or put together with something; or nothing is searched for.
	case f.loads(stack):
		p.Kind, p.Replace = Call, linked(name)
	default:
		f.add(p)
		f.carry(i, stack, statement, function)
		return
	}
	f.add(p)
}

// linked is what opens a library through the driver link, which has it by its soname.
func linked(name string) string {
	if l, ok := driver.Lookup(name); ok && strings.HasSuffix(name, ".so") && l.Soname != "" {
		name = l.Soname
	}
	return mark + "/" + name
}

// loads reports whether the innermost brackets are the arguments of a loading call,
// or lead to one through calls that hand the name on.
func (f *finder) loads(stack []call) bool {
	for i := len(stack) - 1; i >= 0; i-- {
		switch c := stack[i]; {
		case slices.Contains(f.loaders, c.name):
			return true
		case c.name != "" && !slices.Contains(transparent, c.name), c.open == "{":
			return false
		}
	}
	return false
}

// beside reports whether what is beside a literal makes another value of it: a
// comparison, a key's colon, an operator, a method, another literal.
func (f *finder) beside(i int) bool {
	is := func(j int, texts ...string) bool {
		return j >= 0 && j < len(f.tokens) && f.tokens[j].kind != literal && f.tokens[j].kind != end && slices.Contains(texts, f.tokens[j].text)
	}
	if is(i-1, "==", "!=", "in", "+", "%", "is", "case") || is(i+1, "==", "!=", "in", "not", "+", "%", ":") && !f.annotated(i) {
		return true
	}
	if is(i+1, ".") && !(i+2 < len(f.tokens) && f.tokens[i+2].text == "encode") {
		return true
	}
	return i > 0 && f.tokens[i-1].kind == literal || i+1 < len(f.tokens) && f.tokens[i+1].kind == literal ||
		is(i-1, "[") && i > 1 && (f.tokens[i-2].kind == identifier && !is(i-2, "in", "return") || is(i-2, "]", ")")) // x["…"]
}

// inDirectory reports whether a literal is a name in a directory that a path is made of:
// join(folder, "…"). That opens the one in that directory, or looks whether it is there.
func (f *finder) inDirectory(i int, stack []call) bool {
	for _, c := range stack {
		if c.name != "join" {
			continue
		}
		for j := c.at + 1; j < i; j++ {
			if f.tokens[j].kind == symbol && f.tokens[j].text == "," && f.tokens[j].depth == f.tokens[c.at+1].depth {
				return true
			}
		}
	}
	return false
}

// noLoad is the flag with which dlopen opens only what is loaded already: by its soname,
// from wherever it was loaded.
const noLoad = "RTLD_NOLOAD"

// onlyIfLoaded reports whether the innermost loading call has that flag.
func (f *finder) onlyIfLoaded(stack []call) bool {
	for i := len(stack) - 1; i >= 0; i-- {
		if slices.Contains(f.loaders, stack[i].name) {
			return f.hasNoLoad(stack[i].at)
		}
	}
	return false
}

// hasNoLoad reports whether the flag is among the arguments after a bracket.
func (f *finder) hasNoLoad(open int) bool {
	for j := open + 1; j < min(len(f.tokens), open+maxReach) && f.tokens[j].depth > f.tokens[open].depth; j++ {
		if f.tokens[j].kind == identifier && f.tokens[j].text == noLoad {
			return true
		}
	}
	return false
}

// libraryName finds what may be a shared library's name in a literal.
var libraryName = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp {
	return regexp.MustCompile(`\blib[A-Za-z0-9_+-]+\.so[.0-9]*`)
}}

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
		for _, name := range libraryName.Get().FindAllString(t.text, -1) {
			if driver.Provides(name) {
				return
			}
			others = true
		}
	}
	if others {
		f.places = slices.DeleteFunc(f.places, isCall)
	}
}

// annotated: the colon after a literal ends "if x else 'literal':", not a key; these
// are taken as keys all the same.
func (f *finder) annotated(int) bool { return false }

// carry notes the variables and functions that a literal's value goes to.
func (f *finder) carry(i int, stack []call, statement int, function string) {
	place := len(f.places) - 1
	to := func(name string) { f.carriers[name] = append(f.carriers[name], place) }
	for _, c := range stack {
		switch {
		case c.name == "append" || c.name == "extend" || c.name == "insert" || c.name == "push":
			if c.at >= 3 && f.tokens[c.at-2].text == "." {
				to(f.tokens[c.at-3].text)
			}
		case c.name != "" && !slices.Contains(transparent, c.name):
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

// targets returns the names that a statement sets, looking no further than a token.
func (f *finder) targets(statement, limit int) []string {
	var out, names []string
	for j := statement; j < limit; j++ {
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
// Names are those of the whole file: one that is used twice for different things
// counts as one.
func (f *finder) follow() {
	if len(f.carriers) == 0 {
		return
	}
	sources := map[string][]string{} // what a name is set from
	var opened []string
	for s := 0; s < len(f.tokens); {
		e := s
		for e < len(f.tokens) && f.tokens[e].kind != end {
			e++
		}
		targets := f.targets(s, e)
		last := s // after the last "="
		for j := s; j < e; j++ {
			if t := f.tokens[j]; t.kind == symbol && (t.text == "=" || t.text == "+=") && t.depth == f.tokens[s].depth {
				last = j + 1
			}
		}
		for j := s; j < e; j++ {
			t := f.tokens[j]
			if t.kind != identifier {
				continue
			}
			if j >= last {
				for _, to := range targets[:min(len(targets), 50)] {
					sources[to] = append(sources[to], t.text)
				}
			}
			// for X in …, also in a comprehension; JavaScript's "of".
			if t.text == "for" {
				var loop []string
				k := j + 1
				near := min(e, j+maxReach)
				for ; k < near && f.tokens[k].text != "in" && f.tokens[k].text != "of"; k++ {
					if f.tokens[k].kind == identifier {
						loop = append(loop, f.tokens[k].text)
					}
				}
				for k++; k < near && f.tokens[k].text != ":" && f.tokens[k].text != "for" && f.tokens[k].text != "if" && f.tokens[k].text != "{"; k++ {
					if f.tokens[k].kind == identifier {
						for _, x := range loop {
							sources[x] = append(sources[x], f.tokens[k].text)
						}
					}
				}
			}
			if slices.Contains(f.loaders, t.text) && j+1 < e && f.tokens[j+1].text == "(" && !f.hasNoLoad(j+1) {
				for k := j + 2; k < min(e, j+maxReach) && f.tokens[k].depth > f.tokens[j].depth; k++ {
					if f.tokens[k].kind == identifier && (f.tokens[k-1].text != "." || f.tokens[k-2].text == "self") && !(f.tokens[k+1].text == "=" && f.tokens[k+1].kind == symbol) {
						opened = append(opened, f.tokens[k].text)
					}
				}
			}
		}
		s = e + 1
	}
	// Backwards from what is opened.
	reaches := map[string]bool{}
	for len(opened) > 0 {
		name := opened[len(opened)-1]
		if opened = opened[:len(opened)-1]; !reaches[name] {
			reaches[name] = true
			opened = append(opened, sources[name]...)
		}
	}
	for name, places := range f.carriers {
		if reaches[name] {
			for _, i := range places {
				f.places[i].Kind, f.places[i].Replace = Later, linked(f.places[i].Library)
			}
		}
	}
}

// source adds a call in C source; m are the indices of sourceCall's match in
// text[from:to].
func (f *finder) source(m []int, from, to int, kind Kind) {
	text := f.text[from:to]
	name := text[m[2]:m[3]]
	arguments, _, _ := strings.Cut(text[m[3]:min(len(text), m[3]+maxReach)], ")")
	if driver.Provides(name) && !strings.Contains(arguments, noLoad) {
		f.add(Place{Kind: kind, Library: name, Start: from + m[2], End: from + m[3], Replace: linked(name)})
	}
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
	p.Line = 1 + strings.Count(f.text[:p.Start], "\n")
	from := strings.LastIndexByte(f.text[:p.Start], '\n') + 1
	p.Text = strings.TrimSpace(f.text[from:lineEnd(f.text, p.Start)])
	f.places = append(f.places, p)
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
	if p.Replace == "" {
		return ""
	}
	const link = "${addDriverRunpath.driverLink}/lib"
	from, to := p.Start, p.End
	// The replaced text must not be found elsewhere, unless it is replaced there too.
	fits := func(from, to int) bool {
		for at := 0; ; {
			i := strings.Index(text[at:], text[from:to])
			if i < 0 {
				return true
			}
			at += i
			delta := at - from
			if !slices.ContainsFunc(places, func(q Place) bool {
				return q.Replace == p.Replace && q.Start == p.Start+delta && q.End == p.End+delta
			}) {
				return false
			}
			at += to - from
		}
	}
	line := strings.LastIndexByte(text[:p.Start], '\n') + 1
	last := lineEnd(text, p.End)
	for !fits(from, to) && (from > line || to < last) {
		if to-from > maxReach {
			return "" // a line of generated code
		}
		// More of the line: back to the beginning of the call first.
		if from > line {
			from--
		} else {
			to++
		}
	}
	if from < p.Start && from > line { // whole words
		for from > line && nameByte(text[from-1]) && nameByte(text[from]) {
			from--
		}
	}
	if from > 0 && from == p.Start && strings.ContainsAny(text[from-1:from], `"'`) && to < len(text) && text[to] == text[from-1] {
		from, to = from-1, to+1
	}
	old := text[from:to]
	return "--replace-fail " + quote(old) + " " + quote(text[from:p.Start]+strings.ReplaceAll(p.Replace, mark, link)+text[p.End:to])
}

// quote quotes for the shell in a way that an indented string of Nix does not read otherwise.
func quote(s string) string {
	if !strings.Contains(s, "'") {
		return "'" + s + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`").Replace(s) + `"`
}
