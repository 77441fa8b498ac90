package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
)

// treeStyle is how the tree of libraries is printed.
type treeStyle struct {
	ink   command.Ink
	tries bool // show the places that were tried for what is not found
	// all also shows libc and its companions, libraries that are loaded already, and the
	// places that were tried for what is found.
	all   bool
	depth int // levels of the tree; 0 for all
	// only restricts the tree to the ways to one object; nil shows all.
	only *loader.Object
}

type printer struct {
	treeStyle
	w      *bytes.Buffer
	s      *explain.Case
	shown  map[*loader.Object]bool
	places map[string]string // by where something was looked for, the first name
	hidden []string          // names of libc and its companions that were left out
	ways   map[*loader.Object]bool
	// otherwise is what names lead to in another order, or on another processor.
	otherwise []process.Instead
	indent    string
}

func (p *printer) paint(hue command.Hue, text string) string {
	return p.ink.Paint(hue, command.Printable(text))
}

func (p *printer) write(hue command.Hue, parts ...string) {
	p.w.WriteString(p.paint(hue, strings.Join(parts, "")))
}

// writeTree prints a load as a tree, with what is concluded of it below.
func writeTree(w *bytes.Buffer, its *explain.Case, found []finding.Finding, st treeStyle) {
	s := its.Load
	p := &printer{treeStyle: st, w: w, s: its, shown: map[*loader.Object]bool{}, places: map[string]string{}}
	for i, via := range its.Start.Via {
		format, next := "%s is a wrapper, which starts %s%s\n", append(its.Start.Via[i+1:], its.Start.File)[0]
		if via == its.Start.Script {
			format = "%s is a Python script, which %s runs%s\n"
		}
		fmt.Fprintf(w, format, p.paint("", via), p.paint(command.Bold, next),
			p.paint(command.Dim, its.Start.Sets(i == len(its.Start.Via)-1)))
	}
	for _, what := range slices.Concat(its.Start.Other, its.Start.Unsure) {
		p.write(command.Yellow, what)
		p.w.WriteByte('\n')
	}
	p.write(command.Bold, s.Main.Path)
	if s.Role == loader.Static {
		fmt.Fprintf(p.w, "  %s\n", p.paint(command.Dim, string(s.Main.File.ELF.SkipReason())))
		return
	}
	in := s.Interp
	where, secure := in.Path, ""
	switch {
	case in.Path == "":
		where = "that of the program which loads it"
	case !in.Found:
		where += ", which " + cmp.Or(in.Why, "cannot be read") + " here"
	case in.Becomes != "":
		where += ", which is nix-ld and becomes " + in.Becomes
	}
	if s.Secure != "" {
		secure = "; " + s.Secure + ": LD_LIBRARY_PATH is ignored"
	}
	p.w.WriteString("  ")
	p.write(command.Dim, "(", in.Describe(), ", ", where, secure, ")")
	p.w.WriteByte('\n')
	if st.only != nil {
		p.ways = its.Ways(st.only)
	}
	p.otherwise = its.Otherwise()
	p.children(s.Main, 1)
	if len(p.hidden) > 0 && st.only == nil {
		p.write(command.Dim, "not shown: ", strings.Join(p.hidden, ", "), ", from where the loader is (--all)")
		p.w.WriteByte('\n')
	}
	if st.only == nil {
		p.audits()
	}
	if why := s.Stops(); why != "" {
		fmt.Fprintf(p.w, "%s\n", p.paint(command.Red, "The program does not start: "+why))
	}
	last := ""
	for _, c := range found {
		if c.Driver || c.Severity == finding.Note && c.ID != finding.UnreadNote { // said below; a note
			continue
		}
		text := c.Message
		if c.By != "" && slices.Contains([]string{finding.GPUCodeMissing, finding.GPUCodeJIT}, c.ID) {
			text = fmt.Sprintf("GPU code: %s %s", c.By, strings.TrimPrefix(text, c.By+" "))
		}
		if c.ID != finding.NoInterpreter { // said above
			hue := command.Red
			if c.Severity != finding.Error {
				hue = command.Yellow
			}
			fmt.Fprintln(p.w, p.paint(hue, text))
		}
		if fix := c.Whole(); fix != "" && fix != last {
			last = fix
			fmt.Fprintf(p.w, "  fix: %s\n", p.paint("", fix))
		}
	}
	for _, v := range its.Verdicts() {
		if st.only != nil && v.Soname != st.only.Name {
			continue
		}
		fmt.Fprintln(p.w, p.paint(verdictHue(v), v.Line()))
	}
}

func verdictHue(v *explain.Verdict) command.Hue {
	switch {
	case v.Good:
		return command.Green
	case v.Origin == explain.FromStub:
		return command.Red
	}
	return command.Yellow
}

// audits prints the auditing modules, each of which has a namespace of its own.
func (p *printer) audits() {
	for _, a := range p.s.Audits {
		o := a.Main
		what := p.paint(command.Green, o.Path)
		switch {
		case !o.Found():
			what = p.paint(command.Yellow, "not found; the loader continues without it")
		case o.Err != "":
			what = p.paint(command.Yellow, o.Path+": "+o.Err+"; the loader continues without it")
		}
		fmt.Fprintf(p.w, "%s %s → %s\n", p.paint(command.Bold, o.Name),
			p.paint(command.Dim, "("+string(o.Cause)+", in a namespace of its own)"), what)
		p.children(o, 1)
	}
}

// family reports whether an object is libc or one of its companions, and just what and
// where one expects it to be.
func (p *printer) family(u loader.Use) bool {
	o := u.To
	if !o.Found() || o.Err != "" || len(o.Lacks) > 0 || !u.Cause.Certain() {
		return false
	}
	if o.Rule == loader.ByLoader {
		return true
	}
	if !files.OfGLibc(u.Name) && !slices.Contains(compilerLibraries, u.Name) {
		return false
	}
	return o.Rule == loader.ByCache || o.Rule == loader.ByDefault || path.Dir(o.Path) == path.Dir(p.s.Interp.Path)
}

// compilerLibraries are the compiler's libraries that nearly every program loads.
var compilerLibraries = []string{"libgcc_s.so.1", "libstdc++.so.6"}

// maxDepth bounds the tree's indentation: a chain of libraries can be as long as
// a hostile package likes.
const maxDepth = 64

func (p *printer) children(o *loader.Object, level int) {
	if p.shown[o] {
		return
	}
	p.shown[o] = true
	if p.depth > 0 && level > p.depth {
		return
	}
	if len(p.indent) > 16*maxDepth {
		fmt.Fprintf(p.w, "%s…\n", p.indent)
		return
	}
	var uses []loader.Use
	seen := map[string]bool{}
	for _, u := range p.s.Asks(o) {
		if p.ways != nil && !p.ways[u.To] || seen[u.Name] {
			continue
		}
		seen[u.Name] = true
		if !p.all && p.only == nil && p.family(u) {
			if !slices.Contains(p.hidden, u.Name) {
				p.hidden = append(p.hidden, u.Name)
			}
			continue
		}
		if !p.all && p.only == nil && (u.Again || p.shown[u.To]) {
			continue // it has a line already
		}
		uses = append(uses, u)
	}
	for i, u := range uses {
		branch, below := "├── ", "│   "
		if i == len(uses)-1 {
			branch, below = "└── ", "    "
		}
		p.w.WriteString(p.indent + branch)
		p.line(u)
		var tried []string
		if fresh := !p.shown[u.To] && !u.Again; fresh && p.tries && (p.all || p.only != nil || !u.To.Found()) {
			var like string
			if tried, like = p.tried(u); like != "" {
				p.write(command.Dim, "  tried where ", like, " was")
			}
		}
		p.w.WriteByte('\n')
		stem := "    "
		if len(u.To.Uses) > 0 {
			stem = "│   "
		}
		for _, text := range tried {
			fmt.Fprintf(p.w, "%s%s%s%s\n", p.indent, below, stem, p.paint(command.Dim, text))
		}
		if !u.Again {
			above := p.indent
			p.indent += below
			p.children(u.To, level+1)
			p.indent = above
		}
	}
}

// tried returns where a library was looked for; of one that is missing in the same places as another, that one's name.
func (p *printer) tried(u loader.Use) (lines []string, like string) {
	for _, t := range u.To.Tried {
		lines = append(lines, tryText(u.To, t))
	}
	if p.all || p.only != nil || len(lines) < 2 {
		return lines, ""
	}
	key := strings.ReplaceAll(strings.Join(lines, "\n"), u.Name, "\x00")
	if like = p.places[key]; like != "" {
		return nil, like
	}
	p.places[key] = u.Name
	return lines, ""
}

// line writes a library's line.
func (p *printer) line(u loader.Use) {
	o := u.To
	p.write(command.Bold, u.Name)
	switch u.Cause {
	case loader.Needed:
	case loader.DlopenNote:
		p.write(command.Dim, " (may be opened: .note.dlopen", feature(u.Feature), ")")
	case loader.DlopenString:
		p.write(command.Dim, " (may be opened: its name is a string literal in read-only data)")
	case loader.DlopenScript:
		p.write(command.Dim, " (opened by ", u.Feature, ")")
	case loader.DlopenAsked:
		p.write(command.Dim, " (if it were opened with dlopen)")
	default:
		p.write(command.Dim, " (", string(u.Cause), ")")
	}
	p.w.WriteString(" → ")
	switch {
	case !o.Found() && (u.Cause == loader.Preload || u.Cause == loader.PreloadFile || u.Cause == loader.Auxiliary):
		p.write(command.Yellow, "not found; the loader continues without it")
	case o.Why != "":
		p.write(command.Red, "the loader stops: ", o.Why)
	case !o.Found():
		p.write(command.Red, "not found")
	case o.Err != "":
		p.write(command.Red, o.Path, ": ", o.Err)
	case len(o.Lacks) > 0 && !u.Again:
		p.write(command.Red, o.Path, ": ", o.LackText())
	case !o.Cause.Certain() && o.Fails() != "":
		p.write(command.Yellow, o.Path, ": cannot be opened")
	case u.Again:
		p.write(command.Dim, o.Path, " (loaded already)")
	default:
		hue := command.Green
		if v := p.s.Verdict(o); v != nil { // found is not right: a stub is red
			hue = verdictHue(v)
		}
		p.write(hue, o.Path)
		p.write(command.Dim, "  ", o.How(o.NeededBy))
	}
	for _, i := range p.otherwise {
		if i.Of == o {
			p.write(command.Yellow, "; or ", i.Object.Path, ", ", i.When)
		}
	}
	for _, f := range p.s.Failed {
		if f.Later != nil && f.Later.To == o {
			p.write(command.Yellow, "; only once what it needs is loaded: before, ", f.Why)
		}
	}
}

func feature(name string) string {
	if name == "" {
		return ""
	}
	return ", " + name
}

func tryText(o *loader.Object, t loader.Try) string {
	where := t.Rule.Of(t.List, o.NeededBy)
	if t.Path == "" {
		return fmt.Sprintf("%s: %s", where, t.Why)
	}
	return strings.TrimSpace(fmt.Sprintf("tried %s (%s): %s", t.Path, where, t.Why))
}
