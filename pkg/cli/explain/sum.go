package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/explain/places"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/starts"
)

// sum sums up a directory, or what an interpreter of Python may import, behind what is said of that itself; done says
// that there is no more to say of it.
func (o *explainOptions) sum(s *session.Session, a *answer, arg string) (done bool) {
	if o.dot || o.symbols.Any() {
		return false
	}
	file := o.Loader.Path(arg)
	dir := o.Loader.Files().IsDir(o.Loader.Absolute(file))
	if dir && !strings.Contains(file, "..") { // ".." leads elsewhere where a link is before it
		file = path.Clean(o.Loader.Absolute(file))
	}
	if !dir && (o.NoOpen || !starts.MayBePlace(arg)) { // of files only an interpreter imports anything
		return false
	}
	place, err := starts.PlaceOf(s.Context, o.Loader, file)
	if err != nil {
		a.Fail(err)
		return true
	}
	if place == nil || !dir && (o.lib != "" || len(place.Starts)+len(place.Others) == 0) {
		return false
	}
	var loaded []*alike // for the name that is asked about
	find := func(c *explain.Case) {
		for _, x := range c.WithFailed() {
			if path.Base(x.Name) != o.lib && (x.File == nil || x.File.Soname != o.lib) {
				continue
			}
			text, hue := x.Path+"  "+x.How(x.NeededBy), command.Plain
			if !x.Found() {
				text, hue = "not found", command.Red
			}
			loaded = collect(loaded, text, text, hue, o.lib, []string{c.Start.Name()}, remedy.Remedy{})
		}
	}
	if o.lib == "" {
		find = nil
	}
	sum := places.Summarize(o.System, s.Jobs, place, find)
	if o.lib != "" {
		if sum.About(o.lib); loaded == nil {
			loaded = collect(loaded, "", "no start asks for it", command.Plain, o.lib, nil, remedy.Remedy{})
		}
	}
	a.Sum, a.bad = sum, a.bad || sum.Bad()
	if !s.JSON {
		if s.Verbose && o.lib == "" {
			writeWhole(&a.text, arg, sum, s.Ink)
		} else {
			writeSum(&a.text, arg, o.below(place), sum, loaded, s.Ink, dir)
		}
	}
	return dir
}

// below returns a text with the paths of a place shown from there, and those of what is installed for its Python from
// where it is imported.
func (o *explainOptions) below(p *starts.Place) func(text string) string {
	dirs := []string{o.Loader.Absolute(p.Path)}
	if p.Python != nil {
		dirs = append(slices.Clone(p.Python.Sites), dirs...)
	}
	return command.Below(dirs)
}

// alike are things of which the same is to be said: the first one's text, and what it is said of.
type alike struct {
	kind, text string
	hue        command.Hue
	names      []string
	of         []string
	fixes      []remedy.Remedy
}

// collect adds what is said of a name, in starts, to what is alike, which is of one kind.
func collect(all []*alike, kind, text string, hue command.Hue, name string, of []string, fix remedy.Remedy) []*alike {
	i := slices.IndexFunc(all, func(a *alike) bool { return a.kind == kind })
	if i < 0 {
		i, all = len(all), append(all, &alike{kind: kind, text: text, hue: hue})
	}
	a := all[i]
	a.names, a.of, a.fixes = remedy.Union(a.names, []string{name}), remedy.Union(a.of, of), append(a.fixes, fix)
	return all
}

// writeSum prints what a reader needs of a place, and which files are loaded for the name that is asked about: one line for things that are alike, what is wrong last, and the
// commands that help alone on their lines.
func writeSum(w *bytes.Buffer, name string, below func(string) string, sum *places.Sum, loaded []*alike, ink command.Ink,
	isDir bool) {
	dir := ""
	if isDir {
		dir = name
	}
	by := ""
	if sum.Interpreter != "" {
		by = " by " + below(sum.Interpreter)
	}
	said := true // all that helps
	help := func(a *alike) {
		if fix := remedy.OfAll(dir, a.fixes); fix.Command != nil {
			fmt.Fprintf(w, "  %s\n", command.Printable(fix.Fix))
		} else {
			said = said && a.hue == command.Green
		}
	}
	say := func(hue command.Hue, format string, args ...any) {
		fmt.Fprintln(w, ink.Paint(hue, command.Printable(below(fmt.Sprintf(format, args...)))))
	}
	asking := fmt.Sprintf("%d ask for the driver", len(sum.Asking))
	if len(sum.Asking) == 1 {
		asking = "1 asks for the driver"
	}
	fmt.Fprintf(w, "%s: %s%s, %s\n", command.Printable(name), session.Count(sum.Starts, "start", "starts"),
		command.Printable(by), asking)
	if sum.Left != "" {
		say(command.Yellow, "%s", sum.Left)
	}
	for _, l := range loaded {
		of := ""
		if l.of != nil {
			of = "  [" + command.Few(l.of, 3) + "]"
		}
		say(l.hue, "%s: %s%s", l.names[0], l.text, of)
	}
	if toolkits := sum.Toolkits(); len(toolkits) > 0 {
		var dirs []string
		for _, t := range sum.Toolkit {
			dirs = remedy.Union(dirs, []string{path.Dir(t.Path)})
		}
		slices.SortStableFunc(toolkits, func(a, b string) int { return main(a) - main(b) })
		say("", "toolkit   %s, in %s", command.Few(toolkits, 4), command.Few(dirs, 3))
	}
	if len(sum.GPUCode) > 0 {
		var kinds []string
		for _, c := range sum.GPUCode {
			kinds = remedy.Union(kinds, c.For)
		}
		say("", "GPU code  %s, in %s", command.Few(kinds, 8), session.Count(len(sum.GPUCode), "file", "files"))
	}
	var driver, wrong []*alike
	for i := range sum.Driver {
		d := &sum.Driver[i]
		text, hue := strings.TrimPrefix(explain.Opened(d.Text, d.Openers, nil), d.Soname), command.Red
		if d.Good {
			hue = command.Green
		}
		text = strings.ReplaceAll(strings.TrimPrefix(text, ": "), "/"+path.Base(d.Soname), "")
		if by := d.Object.NeededBy; by != nil {
			text = strings.ReplaceAll(text, " of "+by.Path+".", " of what asks for it.")
		}
		driver = collect(driver, text, text, hue, path.Base(d.Soname), d.Of, d.Remedy)
	}
	slices.SortStableFunc(driver, func(a, b *alike) int { return strings.Compare(string(b.hue), string(a.hue)) }) // the good first
	for _, d := range driver {
		say(d.hue, "driver    %s: %s  [%s]", command.Few(d.names, 3), d.text, session.Count(len(d.of), "start", "starts"))
		help(d)
	}
	for i := range slices.Backward(sum.Findings) {
		f := &sum.Findings[i]
		text, hue, name := finding.Named(f.Message, f.Of), command.Red, cmp.Or(f.Library, f.Of[0])
		if f.Severity != finding.Error {
			hue = command.Yellow
		}
		if before, rest, ok := strings.Cut(text, name); ok && (text != f.Message || strings.Contains(name, "/")) {
			text = before + "\x00" + strings.ReplaceAll(rest, name, "it")
		}
		kind := text
		if finding.Missing(f.ID) {
			kind = finding.Unresolved // whoever lacks it
		}
		wrong = collect(wrong, string(f.Severity)+kind, string(f.Severity)+": "+text, hue, name, f.Of, f.Remedy)
	}
	if n := len(wrong) - most; n > 0 {
		said, wrong = false, wrong[n:]
		say("", "%d other kinds of warnings", n)
	}
	for _, f := range wrong {
		more := ""
		if others := f.names[1:]; len(others) > 0 {
			more = "; likewise " + command.Few(others, 3)
		} else if n := len(f.of); n > 1 {
			more = fmt.Sprintf("  [and %d more]", n-1)
		}
		say(f.hue, "%s%s", strings.ReplaceAll(f.text, "\x00", f.names[0]), more)
		help(f)
	}
	if !said {
		fmt.Fprintf(w, "What helps with each, and all files:\n  %s\n", command.Printable(remedy.Quote("runpath", "explain", "-v", name)))
	}
}

// main orders the libraries of the toolkit: the ones by which its version is known first.
func main(soname string) int {
	first := []string{"libcudart.", "libcudnn.", ""}
	return slices.IndexFunc(first, func(name string) bool { return strings.HasPrefix(soname, name) })
}

// most bounds the kinds of what is wrong that are shown.
const most = 10

// writeWhole prints all that is known of a place.
func writeWhole(w *bytes.Buffer, name string, sum *places.Sum, ink command.Ink) {
	by := ""
	if sum.Interpreter != "" {
		by = ", with " + sum.Interpreter
	}
	fmt.Fprintf(w, "%s: programs, modules and libraries looked at%s: %d; of these ask for the driver: %d\n",
		command.Printable(name), command.Printable(by), sum.Starts, len(sum.Asking))
	if sum.Left != "" {
		fmt.Fprintln(w, ink.Paint(command.Yellow, command.Printable(sum.Left)))
	}
	of := func(names []string) string {
		if len(names) > 1 {
			return fmt.Sprintf("  [%s and %d more]", path.Base(names[0]), len(names)-1)
		}
		return "  [" + path.Base(names[0]) + "]"
	}
	for i := range sum.Driver {
		d := &sum.Driver[i]
		hue := command.Red
		if d.Good {
			hue = command.Green
		}
		fmt.Fprintf(w, "%s%s\n", ink.Paint(hue, command.Printable(d.Line())),
			ink.Paint(command.Dim, command.Printable(of(d.Of))))
	}
	if len(sum.Optional) > 0 {
		fmt.Fprintf(w, "opened by name only, and not here: %s\n", command.Printable(strings.Join(sum.Optional, ", ")))
	}
	for i := range sum.Findings {
		f := &sum.Findings[i]
		hue := command.Red
		if f.Severity != finding.Error {
			hue = command.Yellow
		}
		fix := ""
		if f.Whole() != "" {
			fix = ". Fix: " + f.Whole()
		}
		if f.Part {
			fix += " (no module that is imported by itself opens it)"
		}
		fmt.Fprintf(w, "%s%s\n", ink.Paint(hue, command.Printable(string(f.Severity)+": "+f.Message+fix)),
			ink.Paint(command.Dim, command.Printable(of(f.Of))))
	}
	for _, t := range sum.Toolkit {
		fmt.Fprintf(w, "toolkit: %s %s  %s\n", command.Printable(t.Soname), command.Printable(t.Version),
			command.Printable(t.Path))
	}
	for _, c := range sum.GPUCode {
		fmt.Fprintf(w, "GPU code: %s for %s\n", command.Printable(c.Path), command.Printable(strings.Join(c.For, ", ")))
	}
}
