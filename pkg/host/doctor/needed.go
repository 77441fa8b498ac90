package doctor

import (
	"cmp"
	"slices"
	"strings"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/remedy"
)

// Line is what a reader sees of facts that are alike.
type Line struct {
	Fact              // the first one
	Likewise []string // what else it is said of
	Fixes    []string
}

// Needed returns the facts that a reader needs, the worst last: one line for those that are alike but for the file and
// the library that they are about. Of the others it returns how many are in order, and how many are worth knowing.
func (d *Diagnosis) Needed() (lines []*Line, good, notes int) {
	at := map[string]*Line{}
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
			if before, rest, ok := strings.Cut(key, f.Library); ok && strings.Contains(f.Library, "/") {
				name, key = f.Library, before+"\x00"+strings.ReplaceAll(rest, f.Library, "it")
			}
			f.Text, f.Source = strings.Replace(key, "\x00", name, 1), ""
			if rest, ok := strings.CutSuffix(key, ", which it needs, is not found"); ok {
				lacks := strings.LastIndex(rest, " ") + 1
				name, key = name+" ("+rest[lacks:]+")", rest[:lacks]
			}
		}
		l := at[key]
		if l == nil {
			l = &Line{Fact: f}
			at[key], lines = l, append(lines, l)
		} else if name != l.Subject {
			l.Likewise = remedy.Union(l.Likewise, []string{name})
		}
		if f.Verdict == Bad {
			l.Verdict, l.Error = Bad, cmp.Or(l.Error, f.Error)
		}
		if fix := f.Whole(); fix != "" {
			l.Fixes = remedy.Union(l.Fixes, []string{fix})
		}
	}
	worst := []Verdict{Note, Warning, Bad}
	slices.SortStableFunc(lines, func(a, b *Line) int {
		return slices.Index(worst, a.Verdict) - slices.Index(worst, b.Verdict)
	})
	return lines, good, notes
}

// Fix returns what helps with all that a line is said of, of which each is below a directory; "" where that is said of
// each alone.
func (l *Line) Fix(dir string) string {
	if len(l.Fixes) < 2 {
		return strings.Join(l.Fixes, "")
	}
	// The driver link may be given to all of a directory.
	fix := ""
	for _, one := range l.Fixes {
		command := strings.Index(one, "autoAddDriverRunpath ")
		if command < 0 || strings.ContainsAny(one, `'"`) {
			return ""
		}
		end := command + strings.IndexByte(one[command:]+",", ',') // of the path, which is the command's last word
		path := strings.LastIndex(one[:end], " ") + 1
		if one = one[:path] + remedy.Quote(dir) + one[end:]; fix != "" && fix != one {
			return ""
		}
		fix = one
	}
	return fix
}
