package doctor

import (
	"cmp"
	"slices"
	"strings"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/remedy"
)

// Line is what a reader sees of facts that are alike.
type Line struct {
	Fact              // the first one
	Likewise []string // what else it is said of
	name     string   // what the first is said of
	// Fix is what helps with all that it is said of; Each: there is something for each alone.
	Fix  string
	Each bool
}

// Needed returns the facts that a reader needs, the worst last: one line for those that are alike but for the file and
// the library that they are about. Of the others it returns how many are in order, and how many are worth knowing.
func (d *Diagnosis) Needed() (lines []*Line, good, notes int) {
	at, alike := map[string]*Line{}, map[*Line][]*Fact{}
	for _, f := range d.Facts {
		switch {
		case f.Verdict == Good:
			good++
			continue
		case f.Verdict == Note && f.Whole() == "":
			notes++
			continue
		}
		name, key := f.Subject, f.Subject+"\x00"+f.Text
		if f.Of != nil { // of a place
			key = strings.TrimLeft(explain.Opened(" "+f.Text, f.Openers, nil), ": ")
			file := f.Library
			if f.Kind == finding.UndefinedSymbol || f.Kind == finding.UnknownStart { // it is about something in the file
				file = f.Source
			}
			text := finding.Named(key, f.Of)
			ofStart := text != key // then it is one of several libraries that the start asks for
			key = text
			if before, rest, ok := strings.Cut(key, file); ok && file != "" && (ofStart || strings.Contains(file, "/")) {
				name, key = file, before+"\x00"+strings.ReplaceAll(rest, file, "it")
			}
			f.Text, f.Source = strings.Replace(key, "\x00", name, 1), ""
			if rest, ok := strings.CutSuffix(key, ", which it needs, is not found"); ok {
				lacks := strings.LastIndex(rest, " ") + 1
				name, key = name+" ("+rest[lacks:]+")", rest[:lacks]
			}
			if finding.Missing(f.Kind) {
				name, key = f.Library, finding.Unresolved+string(f.Verdict) // whoever lacks it
			}
		}
		l := at[key]
		if l == nil {
			l = &Line{Fact: f, name: name}
			at[key], lines = l, append(lines, l)
		} else if name != l.name {
			l.Likewise = remedy.Union(l.Likewise, []string{name})
		}
		if f.Verdict == Bad {
			l.Verdict, l.Error = Bad, cmp.Or(l.Error, f.Error)
		}
		if f.Whole() != "" {
			alike[l] = append(alike[l], &f)
		}
	}
	for _, l := range lines {
		l.Fix, l.Each = d.ofAll(alike[l])
	}
	worst := []Verdict{Note, Warning, Bad}
	slices.SortStableFunc(lines, func(a, b *Line) int {
		return slices.Index(worst, a.Verdict) - slices.Index(worst, b.Verdict)
	})
	return lines, good, notes
}

// ofAll returns what helps with all that facts say, as people read it; "" where that is something for each alone.
func (d *Diagnosis) ofAll(facts []*Fact) (fix string, each bool) {
	var edits []remedy.Remedy
	for _, f := range facts {
		if edits = append(edits, f.edits...); f.offer == nil {
			edits = append(edits, remedy.Remedy{})
		}
	}
	whole := remedy.OfAll(d.dir, edits)
	var all []string
	for _, f := range facts {
		r := f.Remedy
		if whole.Command != nil {
			r = f.offer(whole)
		}
		all = remedy.Union(all, []string{r.Whole()})
	}
	if len(all) != 1 {
		return "", len(all) > 1
	}
	return all[0], false
}
