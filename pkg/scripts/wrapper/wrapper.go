// Package wrapper says which program a script or wrapper starts, and with which environment.
package wrapper

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Wrapper is what a wrapper does: a file that starts a program in its own place.
type Wrapper struct {
	Program string // as it is named; "" for none, or one that is computed
	// Sure: nothing that is not known keeps the wrapper from starting it.
	Sure bool
	// Loader is the dynamic loader where the wrapper starts that, with the program as an argument.
	Loader string
	// Set are the variables that the program has then and that were not so before, "" for one that is gone or emptied.
	Set map[string]string
	// Through are the programs that are started in the same place before it: the shell, or the wrapper itself, then env,
	// nice and their like.
	Through []Step
	// Bare: the program has no variables but those that are set, as by env -i.
	Bare bool
	// Unsure is what is not known: of the variables those of which a part is computed, which is left out, [Program] where
	// it may be another one, and [Environment] where the script reads another one.
	Unsure []string
}

// Step is a program on the way to another, with the LD_PRELOAD that it is started with.
type Step struct{ Program, Preload string }

// What of a wrapper may not be known, beside variables.
const (
	Program     = "the program"
	Environment = "the environment"
)

// Surroundings are what the text of a wrapper refers to.
type Surroundings struct {
	File     string                   // the wrapper, as it is started
	Variable func(name string) string // of the environment; "" for none
	Real     func(file string) string // where a path leads, "" for nowhere
	Find     func(name string) string // a program in PATH, "" for none; may be nil
	IsDir    func(file string) (dir, there bool)
	Machine  func() string // as uname -m says, "" for not known; may be nil
}

// Wrapped reads a shell script that starts a program in its own place, as makeWrapper of nixpkgs writes it, and people
// do; it has no Program where the text is none. What is computed is followed as far as it is known: the script's own
// directory, tests whether a variable is set or a file there.
func Wrapped(text []byte, at Surroundings) Wrapper {
	program, byEnv := Interpreter(text[:min(len(text), 256)])
	if byEnv != "" {
		program = byEnv
	}
	switch path.Base(program) {
	case "sh", "bash", "dash", "ash":
	default:
		return Wrapper{}
	}
	sh := &shell{Surroundings: at, text: string(text), vars: map[string]variable{}, args: given,
		functions: map[string]int{}}
	sh.run()
	return sh.wrapper()
}

// MaxCompiled is the size of the largest file that may be a compiled wrapper, in bytes.
const MaxCompiled = 1 << 20

// Compiled reads what a compiled wrapper does, of its contents; it has no Program for any other file. makeBinaryWrapper
// of nixpkgs puts the command that has made it into its read-only data; set_env_prefix and set_env_suffix of the
// program that it writes join values with the separator where there is one already.
func Compiled(data []byte, at Surroundings) Wrapper {
	_, rest, _ := bytes.Cut(data, []byte("\nmakeCWrapper "))
	rest, _, _ = bytes.Cut(rest, []byte{0})
	text := string(rest)
	if strings.HasPrefix(text, "/") { // formatArgs of older ones does not quote the program
		program, _, _ := strings.Cut(text, "\n")
		program = strings.TrimSuffix(program, ` \`)
		text = "'" + strings.ReplaceAll(program, "'", `'\''`) + "'" + text[len(program):]
	}
	if !strings.HasPrefix(text, "'") {
		return Wrapper{}
	}
	sh := &shell{Surroundings: at, text: text, vars: map[string]variable{}}
	words, _ := sh.command()
	if len(words) == 0 || !strings.HasPrefix(words[0].text, "/") ||
		len(words) == 1 && !strings.HasPrefix(sh.text[sh.at:], "\n") && sh.at < len(sh.text) {
		return Wrapper{}
	}
	sh.program, sh.sure = words[0].text, true
	for i := 1; i < len(words); i++ {
		arg := func(k int) string {
			if i+k < len(words) {
				return words[i+k].text
			}
			return ""
		}
		name, had := arg(1), sh.value(arg(1))
		switch words[i].text {
		case "--set":
			sh.vars[name], i = variable{arg(2), true, true}, i+2
		case "--set-default":
			if i += 2; !had.set {
				sh.vars[name] = variable{words[min(i, len(words)-1)].text, true, true}
			}
		case "--unset":
			sh.vars[name], i = variable{exported: true}, i+1
		case "--prefix", "--suffix":
			parts := []string{arg(3), had.text}
			if words[i].text == "--suffix" {
				slices.Reverse(parts)
			}
			if !had.set {
				parts = []string{arg(3)}
			}
			sh.vars[name], i = variable{strings.Join(parts, arg(2)), true, true}, i+3
		case "--argv0", "--add-flag", "--append-flag", "--add-flags", "--append-flags":
			i++
		case "--chdir":
			sh.vars["PWD"], i = variable{text: name, set: true}, i+1
		}
	}
	return sh.wrapper()
}

// unknown stands in a value for a part that is not known.
const unknown = "\x00"

type variable struct {
	text          string
	set, exported bool
}

// shell carries out the text of a wrapper as far as that is known.
type shell struct {
	Surroundings
	text    string
	at      int
	vars    map[string]variable
	frames  []frame
	program string
	loader  string   // that starts it
	through []Step   // that start it
	sure    bool     // of the program
	bare    bool     // it has only the variables that are set here
	ends    bool     // the script may have come to its end before
	others  []string // programs that it may have started in its place before
	reads   bool     // what the environment is after other scripts, or computed commands

	args      []word         // what "$@" stands for
	functions map[string]int // where their bodies begin
	calls     int            // how many of them are being called
	commands  int            // that were carried out
}

// given are arguments of which nothing is known.
var given = []word{{unknown, true}}

// frame is an open if, loop, case, function or group.
type frame struct {
	runs int  // whether the commands in it run: 1 yes, 0 no, -1 not known
	asks bool // they are what an if asks
	done bool // a branch before did run
	in   *choice
}

// choice is an open case. What is known is 1 yes, 0 no, -1 not known.
type choice struct {
	word     string
	patterns bool // come next, or the end
	matches  int  // one of the patterns before a branch
	before   int  // an earlier branch ran
}

// try takes a pattern of a branch.
func (c *choice) try(pattern string) {
	const long = 255 // of which a hostile script would make much work
	switch known := !strings.Contains(c.word+pattern, unknown); {
	case pattern == "*", known && pattern == c.word:
		c.matches = 1
	case !known, len(c.word)+len(pattern) > long, strings.Contains(c.word, "/"): // a shell's * matches a slash
		c.matches = either(c.matches, -1)
	default:
		if same, err := path.Match(pattern, c.word); err != nil {
			c.matches = either(c.matches, -1)
		} else if same {
			c.matches = 1
		}
	}
}

// branch begins the branch of the patterns before, and says whether it runs.
func (c *choice) branch() (runs int) {
	switch runs = c.matches; {
	case c.before == 1:
		runs = 0
	case c.before < 0 && runs == 1:
		runs = -1
	}
	c.patterns, c.matches, c.before = false, 0, either(c.before, runs)
	return runs
}

// either says whether one of two conditions holds.
func either(a, b int) int {
	if a == 1 || b == 1 {
		return 1
	}
	return min(a, b)
}

func (sh *shell) value(name string) variable {
	if v, known := sh.vars[name]; known {
		return v
	}
	text := sh.Variable(name)
	return variable{text, text != "", text != ""}
}

// runs says whether the commands here run: 1, 0, or -1 for not known.
func (sh *shell) runs() int {
	all := 1
	for _, f := range sh.frames {
		if !f.asks {
			all = both(all, f.runs)
		}
	}
	return all
}

func (sh *shell) wrapper() Wrapper {
	w := Wrapper{Set: map[string]string{}, Bare: sh.bare}
	if !strings.Contains(sh.program, unknown) {
		w.Program, w.Loader, w.Sure, w.Through = sh.program, sh.loader, sh.sure && !sh.ends, sh.through
	}
	if w.Program != sh.program || slices.ContainsFunc(sh.others, func(p string) bool { return p != sh.program }) {
		w.Unsure = append(w.Unsure, Program)
	}
	if sh.reads {
		w.Unsure = append(w.Unsure, Environment)
	}
	for name, v := range sh.vars {
		emptied := v.set && v.text == "" // which is not the same as not to have it
		if !v.exported || v.text == sh.Variable(name) && !emptied && !sh.bare {
			continue
		}
		if strings.Contains(v.text, unknown) {
			w.Unsure = append(w.Unsure, name)
			known := strings.FieldsFunc(v.text, func(r rune) bool {
				return r == ':' || r == ';' ||
					r == ' ' && name == "LD_PRELOAD"
			})
			v.text = strings.Join(slices.DeleteFunc(known, func(e string) bool { return strings.Contains(e, unknown) }), ":")
		}
		// which it has changed to
		if at := sh.vars["PWD"].text; name == "LD_LIBRARY_PATH" && v.text != "" && strings.HasPrefix(at, "/") &&
			!strings.Contains(at, unknown) {
			dirs := strings.Split(strings.ReplaceAll(v.text, ";", ":"), ":")
			for i, dir := range dirs {
				if !strings.HasPrefix(dir, "/") && !strings.HasPrefix(dir, "$") {
					dirs[i] = path.Join(at, dir)
				}
			}
			v.text = strings.Join(dirs, ":")
		}
		w.Set[name] = v.text
	}
	slices.Sort(w.Unsure)
	return w
}

// word is a word of a command. quoted: a part of it stood between quotes.
type word struct {
	text   string
	quoted bool
}

// maxWords bounds what is read of a script: a wrapper is short.
const maxWords = 20000

// command reads the words of a simple command, and what ends it.
func (sh *shell) command() (words []word, end byte) {
	var b strings.Builder
	in, quoted := false, false
	flush := func() {
		if in {
			words = append(words, word{b.String(), quoted})
		}
		b.Reset()
		in, quoted = false, false
	}
	for sh.at < len(sh.text) && len(words) < maxWords {
		c := sh.text[sh.at]
		switch {
		case c == '\\' && sh.at+1 < len(sh.text):
			if sh.text[sh.at+1] != '\n' {
				b.WriteByte(sh.text[sh.at+1])
				in = true
			}
			sh.at += 2
		case c == ' ' || c == '\t':
			flush()
			sh.at++
		case c == '#' && !in:
			for sh.at < len(sh.text) && sh.text[sh.at] != '\n' {
				sh.at++
			}
		case !in && sh.all():
			words = append(words, sh.args...)
		case strings.IndexByte("\n;|&()", c) >= 0:
			if c == '&' && (strings.HasSuffix(b.String(), ">") || strings.HasPrefix(sh.text[sh.at:], "&>")) { // 2>&1, &>file
				b.WriteByte(c)
				in = true
				sh.at++
				continue
			}
			flush()
			if sh.at++; sh.at < len(sh.text) && sh.text[sh.at] == c && c != '\n' {
				sh.at++
			}
			return plain(words), c
		default:
			in = true
			quoted = sh.part(&b, false) || quoted
		}
	}
	flush()
	return plain(words), 0
}

// all reads a word that stands for all arguments, where one comes next.
func (sh *shell) all() bool {
	for _, word := range []string{`"$@"`, `"${@}"`, "$@", "$*"} {
		rest, ok := strings.CutPrefix(sh.text[sh.at:], word)
		if ok && (rest == "" || strings.IndexByte(" \t\n;|&()<>", rest[0]) >= 0) {
			sh.at += len(word)
			return true
		}
	}
	return false
}

// plain returns the words of a command without its redirections.
func plain(words []word) (kept []word) {
	if len(words) > 0 && strings.HasPrefix(words[0].text, "[") { // where they are no such
		return words
	}
	for i := 0; i < len(words); i++ {
		operator := strings.TrimLeft(words[i].text, "&0123456789")
		if words[i].quoted || operator == "" || operator[0] != '<' && operator[0] != '>' {
			kept = append(kept, words[i])
		} else if strings.Trim(operator, "<>&") == "" { // the file is the next word
			i++
		}
	}
	return kept
}

// part reads one part of a word, or inside double quotes, to a string, and reports whether it was quoted.
func (sh *shell) part(b *strings.Builder, inside bool) (quoted bool) {
	c := sh.text[sh.at]
	sh.at++
	switch {
	case c == '\'' && !inside:
		text, rest, _ := strings.Cut(sh.text[sh.at:], "'")
		b.WriteString(text)
		sh.at = len(sh.text) - len(rest)
		return true
	case c == '"' && !inside:
		for sh.at < len(sh.text) && sh.text[sh.at] != '"' {
			if sh.text[sh.at] == '\\' && sh.at+1 < len(sh.text) && strings.IndexByte("$`\"\\\n", sh.text[sh.at+1]) >= 0 {
				if sh.text[sh.at+1] != '\n' {
					b.WriteByte(sh.text[sh.at+1])
				}
				sh.at += 2
				continue
			}
			sh.part(b, true)
		}
		sh.at++
		return true
	case c == '`':
		inner, rest, _ := strings.Cut(sh.text[sh.at:], "`")
		sh.at = len(sh.text) - len(rest)
		b.WriteString(sh.substitute(inner))
	case c == '$':
		b.WriteString(sh.dollar())
	default:
		b.WriteByte(c)
	}
	return false
}

// dollar reads what follows a dollar, and returns what it stands for.
func (sh *shell) dollar() string {
	rest := sh.text[sh.at:]
	switch {
	case strings.HasPrefix(rest, "(("):
		sh.at += 2 + max(0, strings.Index(rest[2:], "))")+2)
		return unknown
	case strings.HasPrefix(rest, "("):
		inner := sh.bracket('(', ')')
		return sh.substitute(inner)
	case strings.HasPrefix(rest, "{"):
		return sh.expand(sh.bracket('{', '}'))
	case rest == "":
		return "$"
	}
	n := 0
	for n < len(rest) && isName(rest[n]) && !(n == 0 && rest[0] <= '9') {
		n++
	}
	if n == 0 {
		sh.at++
		if rest[0] == '0' {
			return sh.File
		}
		switch {
		case rest[0] >= '1' && rest[0] <= '9':
			return sh.argument(int(rest[0] - '1'))
		case strings.IndexByte("@*#?!$-", rest[0]) < 0:
			sh.at--
			return "$"
		}
		return unknown
	}
	sh.at += n
	return sh.parameter(rest[:n])
}

// argument returns one of the arguments. Behind one that is not known there may be others.
func (sh *shell) argument(i int) string {
	for n, w := range sh.args {
		if n == i || w.text == unknown {
			return w.text
		}
	}
	return ""
}

// inside returns what reads a text within the script.
func (sh *shell) inside(text string) *shell {
	return &shell{Surroundings: sh.Surroundings, text: text, vars: sh.vars, args: sh.args}
}

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// bracket reads to the bracket that closes the one that comes next, past quotes.
func (sh *shell) bracket(open, end byte) string {
	start, depth := sh.at+1, 0
	for ; sh.at < len(sh.text); sh.at++ {
		switch c := sh.text[sh.at]; {
		case c == '\\':
			sh.at++
		case c == '\'':
			sh.at += 1 + max(0, strings.IndexByte(sh.text[sh.at+1:], '\''))
		case c == open:
			depth++
		case c == end:
			if depth--; depth == 0 {
				sh.at++
				return sh.text[start : sh.at-1]
			}
		}
	}
	sh.at = len(sh.text)
	return sh.text[min(start, len(sh.text)):]
}

// inner returns what a text stands for, as between double quotes or, where quotes count in it, as a word.
func (sh *shell) inner(text string) string {
	in := sh.inside(text)
	var b strings.Builder
	for in.at < len(in.text) {
		in.part(&b, false)
	}
	return b.String()
}

func (sh *shell) parameter(name string) string {
	switch name {
	case "0", "BASH_SOURCE":
		return sh.File
	case "PWD", "HOME":
		if v, known := sh.vars[name]; known {
			return v.text
		}
		return unknown
	}
	v := sh.value(name)
	if !v.set && !strings.HasPrefix(name, "LD_") && !strings.HasPrefix(name, "NIX_LD") {
		if _, known := sh.vars[name]; !known {
			return unknown // of the environment no more is known
		}
	}
	return v.text
}

// expand returns what ${TEXT} stands for.
func (sh *shell) expand(text string) string {
	n := 0
	for n < len(text) && isName(text[n]) {
		n++
	}
	name, op := text[:n], strings.TrimPrefix(text[n:], "[0]")
	had := sh.parameter(name)
	is, alone := had != "", strings.TrimPrefix(op, ":")
	switch {
	case n == 1 && op == "" && text[0] >= '1' && text[0] <= '9':
		return sh.argument(int(text[0] - '1'))
	case n == 0:
		return unknown
	case op == "":
		return had
	}
	if op == alone { // without a colon an empty value is one
		is = is || sh.value(name).set
	}
	arg := ""
	if alone != "" {
		arg = alone[1:]
	}
	switch alone[:min(1, len(alone))] {
	case "+":
		if is {
			return sh.inner(arg)
		}
		return ""
	case "-", "=":
		if is && had != unknown {
			return had
		}
		if had == unknown && !strings.HasPrefix(name, "LD_") {
			return unknown
		}
		return sh.inner(arg)
	case "#", "%":
		greedy := strings.HasPrefix(arg, alone[:1])
		pattern := sh.inner(strings.TrimPrefix(arg, alone[:1]))
		switch {
		case strings.Contains(pattern, unknown):
			return unknown
		case pattern == "/*" && alone[0] == '%' && !greedy:
			return had[:max(0, strings.LastIndexByte(had, '/'))]
		case pattern == "*/" && greedy:
			return had[strings.LastIndexByte(had, '/')+1:]
		case strings.ContainsAny(pattern, "*?["):
			return unknown
		case alone[0] == '#':
			return strings.TrimPrefix(had, pattern)
		}
		return strings.TrimSuffix(had, pattern)
	case "/":
		all := strings.HasPrefix(arg, "/")
		// The slash that parts the two stands outside of quotes.
		arg = strings.TrimPrefix(arg, "/")
		cut, quote := len(arg), byte(0)
		for i := range len(arg) {
			switch c := arg[i]; {
			case quote == 0 && (c == '\'' || c == '"'):
				quote = c
			case c == quote:
				quote = 0
			}
			if arg[i] == '/' && quote == 0 {
				cut = i
				break
			}
		}
		from, to := sh.inner(arg[:cut]), ""
		if cut < len(arg) {
			to = sh.inner(arg[cut+1:])
		}
		if from == "" || strings.Contains(from, unknown) {
			return had
		}
		if all {
			return strings.ReplaceAll(had, from, to)
		}
		return strings.Replace(had, from, to, 1)
	}
	return unknown
}

// substitute returns what a command prints, of those by which scripts find their own place.
func (sh *shell) substitute(text string) string {
	in := sh.inside(text)
	dir := ""
	for {
		words, end := in.command()
		var args []string
		for _, w := range words {
			if w.text != "--" && (!strings.HasPrefix(w.text, "-") || len(args) == 0) {
				args = append(args, w.text)
			}
		}
		if len(args) == 0 {
			return unknown
		}
		if name := sh.uname(words); name != "" && end == 0 {
			return name
		}
		arg := path.Join(dir, ".")
		if len(args) > 1 {
			if arg = args[1]; !strings.HasPrefix(arg, "/") && dir != "" {
				arg = path.Join(dir, arg)
			}
		}
		if slashes := `sed -e 's,\\,/,g'`; end == '|' && strings.TrimSpace(in.text[in.at:]) == slashes && // as npm's shims do
			!strings.Contains(arg, `\`) {
			end = 0
		}
		if end == '|' || strings.Contains(arg, unknown) && args[0] != "command" { // what reads it is not known
			return unknown
		}
		switch args[0] {
		case "cd", "pushd":
			if dir = arg; end == '&' || end == ';' {
				continue
			}
			return ""
		case "pwd":
			if dir == "" {
				return unknown
			}
			if len(words) > 1 && words[1].text == "-P" {
				return sh.real(dir)
			}
			return path.Clean(dir)
		case "dirname":
			return path.Dir(arg)
		case "basename":
			return path.Base(arg)
		case "realpath", "readlink":
			return sh.real(arg)
		case "echo", "printf":
			return args[len(args)-1]
		}
		return unknown
	}
}

// uname returns what uname prints of the kernel and the machine; "" for another command, and if that is not known.
func (sh *shell) uname(words []word) string {
	option := "-s"
	if len(words) == 2 {
		option = words[1].text
	}
	switch {
	case words[0].text != "uname" && words[0].text != "arch" || len(words) > 2:
	case words[0].text == "uname" && (option == "-s" || option == "--kernel-name"):
		return "Linux"
	case sh.Machine != nil && (words[0].text == "arch" || option == "-m" || option == "--machine"):
		return sh.Machine()
	}
	return ""
}

func (sh *shell) real(file string) string {
	if !strings.HasPrefix(file, "/") {
		return unknown
	}
	if at := sh.Real(file); at != "" {
		return at
	}
	return path.Clean(file)
}

// run carries the script out, up to the program that is started in its place, or a function up to its end.
func (sh *shell) run() {
	guard := 1 // whether the next command runs, by those before it in a list of && and ||
	for ; sh.at < len(sh.text) && !sh.sure && sh.commands < maxWords; sh.commands++ {
		if sh.calls > 0 && len(sh.frames) == 0 {
			break
		}
		words, end := sh.command()
		if top := len(sh.frames) - 1; top >= 0 && sh.frames[top].in != nil && sh.frames[top].in.patterns &&
			!(len(words) > 0 && words[0].text == "esac") {
			sh.pattern(words, end)
			continue
		}
		not, result := false, 1
	command:
		for ; len(words) > 0 && !words[0].quoted; words = words[1:] {
			top := len(sh.frames) - 1
			switch w := words[0].text; {
			case w == "!":
				not = true
			case w == "if":
				sh.frames = append(sh.frames, frame{asks: true, runs: -1})
			case w == "then" && top >= 0:
				sh.frames[top].asks = false
			case w == "do":
			case w == "elif" && top >= 0, w == "else" && top >= 0:
				f := &sh.frames[top]
				f.done = f.done || f.runs == 1
				switch f.asks = w == "elif"; {
				case f.done:
					f.runs, f.asks = 0, false
				case f.asks:
					f.runs = -1
				case f.runs == 0:
					f.runs = 1
				}
			case w == "fi" && top >= 0, w == "done" && top >= 0, w == "esac" && top >= 0, w == "}" && top >= 0:
				sh.frames = sh.frames[:top]
			case w == "case" && len(words) > 2:
				sh.frames = append(sh.frames, frame{runs: -1, in: &choice{word: words[1].text, patterns: true}})
				sh.pattern(words[3:], end)
				words = nil
				break command
			case w == "while", w == "until", w == "for", w == "case", w == "select":
				sh.frames = append(sh.frames, frame{runs: -1})
			case w == "{":
				sh.frames = append(sh.frames, frame{runs: 1})
			case w == "function", end == '(' && len(words) == 1: // what is called is read then
				sh.frames = append(sh.frames, frame{})
				sh.at += max(0, strings.IndexByte(sh.text[sh.at:], '{')) + 1
				sh.functions[words[len(words)-1].text] = sh.at
				break command
			default:
				break command
			}
		}
		if len(words) > 0 && end != '(' {
			if result = sh.test(words); result < 0 {
				result = sh.simple(words, both(sh.runs(), guard))
			}
			if not && result >= 0 {
				result = 1 - result
			}
		}
		switch guard = both(guard, result); {
		case end == '|': // of a pipe, too, no more is known
			guard = min(1-result, 1)
			if result < 0 {
				guard = -1
			}
		case end != '&':
			if top := len(sh.frames) - 1; top >= 0 && sh.frames[top].asks && len(words) > 0 {
				sh.frames[top].runs = guard
			}
			guard = 1
		}
		if top := len(sh.frames) - 1; top >= 0 && sh.frames[top].in != nil && strings.HasSuffix(sh.text[:sh.at], ";;") {
			sh.frames[top].in.patterns = true
		}
	}
}

// pattern reads a pattern of a case, and begins the branch behind the last one.
func (sh *shell) pattern(words []word, end byte) {
	f := &sh.frames[len(sh.frames)-1]
	if len(words) > 0 {
		f.in.try(words[0].text)
	}
	if end == ')' {
		f.runs = f.in.branch()
	}
}

// both says whether what two conditions keep from running runs.
func both(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	return min(a, b)
}

// test says what a test says: 1 yes, 0 no, -1 not known, or that it is none.
func (sh *shell) test(words []word) int {
	is := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	command, args := words[0].text, words[1:]
	if n := len(args); n > 0 && (args[n-1].text == "]" || args[n-1].text == "]]") {
		args = args[:n-1]
	}
	if command == "true" || command == "false" {
		return is(command == "true")
	}
	if command != "[" && command != "[[" && command != "test" ||
		slices.ContainsFunc(args, func(w word) bool { return strings.Contains(w.text, unknown) }) {
		return -1
	}
	if len(args) > 0 && args[0].text == "!" && !args[0].quoted {
		if result := sh.test(append([]word{words[0]}, args[1:]...)); result >= 0 {
			return 1 - result
		}
		return -1
	}
	switch {
	case len(args) == 1:
		return is(args[0].text != "")
	case len(args) == 2 && args[0].text == "-n":
		return is(args[1].text != "")
	case len(args) == 2 && args[0].text == "-z":
		return is(args[1].text == "")
	case len(args) == 2 && slices.Contains([]string{"-d", "-e", "-f", "-r", "-x", "-s"}, args[0].text):
		dir, there := sh.IsDir(args[1].text)
		return is(there && (args[0].text != "-d" || dir) && (args[0].text != "-f" || !dir))
	case len(args) == 3 && slices.Contains([]string{"=", "==", "!="}, args[1].text):
		value, pattern := args[0].text, args[2].text
		same := value == pattern
		if middle := strings.Trim(pattern, "*"); command == "[[" && middle != pattern {
			if pattern != "*"+middle+"*" || strings.Contains(middle, "*") {
				return -1
			}
			same = strings.Contains(value, middle)
		}
		return is(same == (args[1].text != "!="))
	}
	return -1
}

// simple carries out a simple command, and says whether it succeeds as a test does.
func (sh *shell) simple(words []word, runs int) int {
	if runs == 0 {
		return -1
	}
	assign := func(text string, exported bool) bool {
		name, value, ok := strings.Cut(text, "=")
		more := strings.HasSuffix(name, "+")
		name = strings.TrimSuffix(name, "+")
		if !ok || name == "" || strings.ContainsFunc(name, func(r rune) bool { return r > 'z' || !isName(byte(r)) }) {
			return false
		}
		had := sh.value(name)
		if more {
			value = had.text + value
		}
		if runs < 0 && value != had.text {
			value = unknown + ":" + had.text
		}
		sh.vars[name] = variable{value, true, had.exported || exported}
		return true
	}
	exec := false
	var before map[string]variable // env -i
	var through []Step
	for len(words) > 0 {
		switch w := words[0].text; {
		case slices.Contains([]string{"export", "declare", "typeset", "readonly", "local"}, w):
			for _, arg := range words[1:] {
				if !assign(arg.text, w != "local") && !strings.HasPrefix(arg.text, "-") {
					v := sh.value(arg.text)
					sh.vars[arg.text] = variable{v.text, v.set, true}
				}
			}
			return 1
		case w == "unset":
			for _, arg := range words[1:] {
				if had := sh.value(arg.text); runs < 0 {
					sh.vars[arg.text] = variable{unknown + ":" + had.text, true, had.exported}
				} else {
					sh.vars[arg.text] = variable{exported: true}
				}
			}
			return 1
		case w == "exit", w == "return":
			if sh.ends = true; w == "return" && runs == 1 && sh.calls > 0 {
				sh.frames = nil
			}
			return 1
		case w == "shift":
			by, err := 1, error(nil)
			if len(words) > 1 {
				by, err = strconv.Atoi(words[1].text)
			}
			if runs < 0 || err != nil {
				sh.args = given
				return -1
			}
			for ; by > 0 && len(sh.args) > 0 && sh.args[0].text != unknown; by-- {
				sh.args = sh.args[1:]
			}
			return 1
		case w == "set" && len(words) > 1 && words[1].text == "--":
			if sh.args = words[2:]; runs < 0 {
				sh.args = given
			}
			return 1
		case w == ".", w == "source", w == "eval":
			sh.reads = true
			return -1
		case w == "cd" && len(words) > 1:
			sh.vars["PWD"] = variable{text: words[1].text, set: true}
			return 1
		case starters[path.Base(w)].valued != "":
			of := starters[path.Base(w)]
			if exec = exec || w == "exec"; w != "exec" {
				step := Step{Program: w}
				if !strings.Contains(w, "/") && sh.Find != nil {
					step.Program = sh.Find(w)
				}
				if v := sh.value("LD_PRELOAD"); v.exported {
					step.Preload = v.text
				}
				through = append(through, step)
			}
			for words = words[1:]; len(words) > 0 && strings.HasPrefix(words[0].text, "-"); words = words[1:] {
				if o := words[0].text; len(words) > 1 && len(o) == 2 && strings.Contains(of.valued, o[1:]) {
					if words = words[1:]; path.Base(w) == "env" && o == "-u" {
						sh.vars[words[0].text] = variable{exported: true}
					}
				}
				if o := words[0].text; path.Base(w) == "env" && (o == "-" || o == "-i" || o == "--ignore-environment") {
					before, sh.vars = sh.vars, map[string]variable{"PWD": {text: sh.parameter("PWD"), set: true}}
				}
			}
			words = words[min(of.operands, len(words)):]
		case assign(w, len(words) > 1 || exec):
			words = words[1:]
		case sh.functions[w] > 0 && sh.calls < mostCalls:
			sh.call(sh.functions[w], words[1:], runs)
			return -1
		default:
			taken := sh.starts(words, exec, runs)
			if taken {
				sh.through = through
			}
			if before != nil && !taken {
				sh.vars = before
			} else if before != nil {
				sh.bare = true
			}
			return -1
		}
	}
	return 1
}

// starters are commands that start the program among their arguments in their own place: their options that are
// followed by a value, and how many words stand between options and program (POSIX; GNU coreutils, util-linux).
var starters = map[string]struct {
	valued   string
	operands int
}{"exec": {"a", 0}, "env": {"uCS", 0}, "nice": {"n", 0}, "nohup": {"-", 0}, "setsid": {"-", 0}, "stdbuf": {"ioe", 0},
	"ionice": {"cn", 0}, "taskset": {"-", 1}, "timeout": {"ks", 1}, "chrt": {"-", 1}}

// mostCalls bounds functions that call functions.
const mostCalls = 10

// call carries out a function.
func (sh *shell) call(body int, args []word, runs int) {
	at, frames, before := sh.at, sh.frames, sh.args
	sh.at, sh.frames, sh.args = body, []frame{{runs: runs}}, args
	sh.calls++
	sh.run()
	sh.calls--
	sh.at, sh.frames, sh.args = at, frames, before
}

// builtins are commands of the shell's own of which there are programs too, and that may be given the script's
// arguments.
var builtins = []string{"[", "[[", "test", "echo", "printf", "kill", "pwd", "true", "false", "set", "type", "enable"}

// starts takes the program that a command starts for that of the wrapper: in the wrapper's place, or as what a script
// does at last with the arguments that it was given.
func (sh *shell) starts(words []word, exec bool, runs int) (taken bool) {
	program := words[0].text
	if program == "" || slices.Contains(builtins, program) || !exec &&
		!slices.ContainsFunc(words[1:], func(w word) bool { return w.quoted && w.text == unknown }) {
		return false
	}
	if !strings.Contains(program, "/") && sh.Find != nil {
		program = sh.Find(program)
	}
	if strings.Contains(program, "/") && !strings.HasPrefix(program, "/") {
		program = sh.parameter("PWD") + "/" + program
	}
	if !strings.HasPrefix(program, "/") {
		program = unknown
	}
	if loader := path.Base(program); sh.loader == "" && (strings.HasPrefix(loader, "ld-") || loader == "ld.so" ||
		loader == "ld64.so.2") {
		if rest := sh.byLoader(words[1:]); len(rest) > 0 {
			sh.loader = path.Clean(program)
			return sh.starts(rest, true, runs)
		}
	}
	// Of two that follow each other without exec the last one counts.
	if sh.program, sh.sure = path.Clean(program), exec && runs == 1; runs != 1 {
		sh.others = append(sh.others, sh.program)
	}
	return true
}

// byLoader takes the loader's own arguments (elf/rtld.c) off those of a command, up to the program; it is empty where
// they start none.
func (sh *shell) byLoader(args []word) []word {
	for len(args) > 0 && strings.HasPrefix(args[0].text, "--") {
		option, n := args[0].text, 2
		value := args[min(1, len(args)-1)].text
		switch option {
		case "--library-path":
			sh.vars["LD_LIBRARY_PATH"] = variable{value, true, true}
		case "--preload":
			sh.vars["LD_PRELOAD"] = variable{value + ":" + sh.value("LD_PRELOAD").text, true, true}
		case "--audit", "--argv0", "--inhibit-rpath", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask":
		case "--inhibit-cache":
			n = 1
		default: // it lists, or verifies
			return nil
		}
		args = args[min(n, len(args)):]
	}
	return args
}
