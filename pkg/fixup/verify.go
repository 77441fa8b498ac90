package fixup

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"cuda-runpath/pkg/loader"
)

// Surprise is a library for which the loader takes another file than was planned.
type Surprise struct {
	Program string // by starting which it shows
	File    string // that asks for it
	Text    string // what happens instead
}

// Verify asks the loader what each program of some plans loads, as its files are
// now, and returns what differs from the plans: for each need of a file of the tree,
// the file that was chosen must be the one that is loaded, whoever loads it first.
func Verify(plans []*Plan, o loader.Options) ([]Surprise, error) {
	l, err := loader.New(o)
	if err != nil {
		return nil, err
	}
	planned := map[string]*Plan{}
	for _, p := range plans {
		if p.Skip == "" && p.Err == nil {
			planned[p.Object.Real] = p
		}
	}
	var out []Surprise
	seen := map[Surprise]bool{}
	for _, p := range plans {
		if p.Skip != "" || p.Err != nil || !p.Object.program() {
			continue
		}
		if _, err := os.Stat(p.State().Interpreter); err != nil {
			continue // it keeps an interpreter that is not there: nothing starts it here
		}
		load, err := l.Load(p.Object.Real)
		if err != nil {
			return out, fmt.Errorf("%s: %w", p.Object.Path, err)
		}
		for _, from := range load.Objects {
			if from.File == nil {
				continue
			}
			plan := planned[from.File.Path]
			if plan == nil {
				continue
			}
			for _, n := range plan.Needs {
				if n.Cause != loader.Needed {
					continue
				}
				if text := n.compare(from); text != "" {
					s := Surprise{p.Object.Path, plan.Object.Path, text}
					if once := (Surprise{"", s.File, s.Text}); !seen[once] {
						seen[once] = true
						out = append(out, s)
					}
				}
			}
		}
	}
	return out, nil
}

// compare says how what an object loads for a need differs from the plan, or "".
func (n *Need) compare(from *loader.Object) string {
	for _, u := range from.Uses {
		if u.Cause != loader.Needed || u.Name != n.Names[0] || u.To == nil {
			continue
		}
		to := u.To
		want := ""
		switch n.Outcome {
		case Found:
			want = n.Candidate.Object.Real
		case Absolute:
			want, _ = filepath.EvalSymlinks(n.Name)
		case InLibC, BySystem:
			if !to.Found() {
				return fmt.Sprintf("%s is not found; the plan leaves it to the loader's own directories", u.Name)
			}
		default:
			return ""
		}
		switch {
		case len(to.Lacks) > 0:
			return fmt.Sprintf("%s is %s: %s", u.Name, to.Path, to.LackText())
		case want == "":
			return ""
		case !to.Found():
			return fmt.Sprintf("%s is not found; the plan is %s", u.Name, want)
		case to.Err != "":
			return fmt.Sprintf("%s: %s", to.Path, to.Err)
		case to.File != nil && to.File.Path != want && !sameFile(to.File.Path, want):
			return fmt.Sprintf("%s is %s, found by %s%s; the plan is %s", u.Name, to.Path, to.Rule, after(to), want)
		}
		return ""
	}
	return ""
}

// after names the entry and the object by whose run path a library was found.
func after(o *loader.Object) string {
	if o.List == nil {
		return ""
	}
	return fmt.Sprintf(" of %s (entry %s)", path.Base(o.List.Path), o.Entry)
}

// sameFile reports whether two paths lead to one file, or to files of the same bytes.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	if err != nil {
		return false
	}
	if os.SameFile(x, y) {
		return true
	}
	if x.Size() != y.Size() {
		return false
	}
	f := loader.NewFiles("")
	return f.Open(a).Same(f.Open(b))
}
