package explain

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/walk"
	"cuda-runpath/pkg/explain/places"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/starts"
)

// sum sums up a directory, or what an interpreter of Python may import, behind what is said of that itself; done says
// that there is no more to say of it.
func (o *explainOptions) sum(s *walk.Session, a *answer, arg string) (done bool) {
	if o.lib != "" || o.dot || o.symbols.Any() {
		return false
	}
	file := o.Loader.Path(arg)
	dir := o.Loader.Files().IsDir(o.Loader.Absolute(file))
	place, err := starts.PlaceOf(s.Context, o.Loader, file)
	if err != nil {
		a.Fail(err)
		return true
	}
	if place == nil || !dir && len(place.Starts)+len(place.Others) == 0 {
		return false
	}
	sum := places.Summarize(o.System, s.Jobs, place, nil)
	a.Sum, a.bad = sum, a.bad || sum.Bad()
	if !s.JSON {
		writeSum(&a.text, arg, sum, s.Ink)
	}
	return dir
}

// writeSum prints what is said of a place.
func writeSum(w *bytes.Buffer, name string, sum *places.Sum, ink command.Ink) {
	by := ""
	if sum.Interpreter != "" {
		by = ", with " + sum.Interpreter
	}
	fmt.Fprintf(w, "%s: programs, modules and libraries looked at%s: %d; of these ask for the driver: %d\n",
		command.Printable(name), command.Printable(by), sum.Starts, len(sum.Asking))
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
			fix += " (nothing that is imported by itself opens it)"
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
