package fixup

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/loader"
)

// Surprise is a library for which the loader takes another file than was planned.
type Surprise struct {
	Program string // by starting which it shows; "" where the file shows it by itself
	File    string // that asks for it
	Text    string // what happens instead
}

// Verify asks the loader what the files of some plans load, as they are now, and
// returns what differs from the plans. It starts each program: for each need of a file
// of the tree, the file that was chosen must be the one that is loaded, whoever loads it
// first. What no program loads, as a plugin, is looked at by itself, as if a program of
// its interpreter opened it: there only its own run path counts, for what such a program
// has loaded before is not known.
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
	v := verification{seen: map[Surprise]bool{}}
	loaded := map[*Plan]bool{}
	for _, p := range plans {
		if p.Skip != "" || p.Err != nil || !p.Object.program() {
			continue
		}
		if _, err := os.Stat(p.State().Interpreter); err != nil {
			continue // it keeps an interpreter that is not there: nothing starts it here
		}
		load, err := l.Load(p.Object.Real)
		if err != nil {
			return v.out, fmt.Errorf("%s: %w", p.Object.Path, err)
		}
		for _, from := range load.Objects {
			if from.File == nil {
				continue
			}
			if plan := planned[from.File.Path]; plan != nil {
				loaded[plan] = true
				v.compare(p.Object.Path, plan, from, load)
			}
		}
	}
	for _, p := range plans {
		if p.Skip != "" || p.Err != nil || p.Object.program() || loaded[p] {
			continue
		}
		load, err := l.Direct(p.Object.Real, p.loader)
		if err != nil {
			return v.out, fmt.Errorf("%s: %w", p.Object.Path, err)
		}
		v.compare("", p, load.Main, load)
	}
	return v.out, nil
}

type verification struct {
	out  []Surprise
	seen map[Surprise]bool
}

// compare notes how what a file loads differs from its plan.
func (v *verification) compare(program string, plan *Plan, from *loader.Object, load *loader.Load) {
	for _, n := range plan.Needs {
		if n.Cause != loader.Needed {
			continue
		}
		if !load.Interp.Found && n.Outcome != Found {
			continue // a guess: what that loader finds by itself is not known
		}
		text := n.compare(from)
		if text == "" {
			continue
		}
		if once := (Surprise{"", plan.Object.Path, text}); !v.seen[once] {
			v.seen[once] = true
			v.out = append(v.out, Surprise{program, plan.Object.Path, text})
		}
	}
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
		case to.File != nil && to.File.Path != want && !variant(to.Path, n.Candidate.Path) && !sameFile(to.File.Path, want):
			return fmt.Sprintf("%s is %s, found by %s%s; the plan is %s", u.Name, to.Path, to.Rule, after(to), want)
		}
		return ""
	}
	return ""
}

// variant reports whether a path is that of a library for better processors, which the
// loader takes first, from a directory below the library's own (glibc-hwcaps, and before
// glibc 2.37 tls, haswell and the like).
func variant(p, of string) bool {
	below, ok := strings.CutPrefix(path.Dir(p), path.Dir(of)+"/")
	first, _, _ := strings.Cut(below, "/")
	return ok && path.Base(p) == path.Base(of) &&
		slices.Contains([]string{"glibc-hwcaps", "tls", "haswell", "xeon_phi", "avx512_1", "x86_64", "i686", "aarch64"}, first)
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
