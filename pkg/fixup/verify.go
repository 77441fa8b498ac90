package fixup

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
)

// Surprise is a library for which the loader takes another file than was planned.
type Surprise struct {
	plan *Plan  // of the file that asks for it
	text string // what happens instead
	// err is set instead of text if the loader cannot be asked about the file.
	err error
}

// verify asks the loader what the files of some plans load once they are as planned, and returns the differences. It
// starts each program. For each need of a file of the tree, the chosen file must be the one that is loaded, whoever
// loads it first. A library that no program loads, such as a plugin, is examined on its own, as if a program with its
// interpreter opened it. Only its own run path counts there, because it is not known what that program has loaded
// before.
func (ix *Index) verify() []Surprise {
	if ix.asked == nil {
		return nil
	}
	return ix.asked.surprises()
}

// view is a loader that sees files as planned.
func (ix *Index) view(plans []*Plan) *loader.Loader {
	changed := func(p *Plan) bool { return p.stands() && p.Changes() }
	return ix.edited(plans, changed, (*Plan).State)
}

// edited is a loader that sees some files in other states.
func (ix *Index) edited(plans []*Plan, some func(*Plan) bool, state func(*Plan) State) *loader.Loader {
	edited := map[string]State{} // by Object.Real
	for _, p := range plans {
		if !some(p) {
			continue
		}
		s := state(p)
		edited[p.Object.Real] = s
		for _, same := range p.Object.also {
			edited[same.Real] = s
		}
	}
	return ix.loader.Edited(func(f *files.File) {
		if s, ok := edited[f.Path]; ok {
			f.Tag, f.List, f.Interp, f.RPath, f.Shadow = s.Tag, s.List, s.Interpreter, "", false
			f.Note, f.NoteErr = nil, nil // a right one leads to the same files
		}
	})
}

// compare says how what a file loads differs from its plan. What others load in the started program counts for that
// program. It is no surprise if something is missing for one of the planned files, by Object.Real, that was already
// reported as missing.
func compare(plan *Plan, from *loader.Object, load *loader.Load, started *Plan, planned map[string]*Plan) (
	found []Surprise) {
	for _, n := range plan.Needs {
		if n.Cause != loader.Needed {
			continue
		}
		if n.inherited && load.Main == from && !plan.Object.program() {
			continue // which only a program of the tree makes it find
		}
		if !load.Interp.Found && n.Outcome != Found {
			continue // a guess: it is not known what that loader finds on its own
		}
		if text, own := n.compare(from, planned); text != "" && own {
			found = append(found, Surprise{plan: plan, text: text})
		} else if text != "" {
			found = append(found, Surprise{plan: started, text: text})
		}
	}
	return found
}

// compare says how what an object loads for a need differs from the plan, or "". own: the object itself makes the
// loader do so.
func (n *Need) compare(from *loader.Object, planned map[string]*Plan) (text string, own bool) {
	for _, u := range from.Uses {
		if u.Cause != loader.Needed || u.Name != n.names[0] || u.To == nil {
			continue
		}
		to := u.To
		said := func(l loader.Lack) bool {
			by := planned[l.By.File.Path]
			return l.By != from && by != nil && by.need(u.Name) != nil && by.need(u.Name).unmet()
		}
		want := ""
		switch n.Outcome {
		case Found:
			want = n.Candidate.object.Real
		case Absolute:
			want, _ = regular.Real(n.Name)
		case InLibC, BySystem:
			if !to.Found() {
				return fmt.Sprintf("%s is not found; the plan leaves it to the loader's own directories", u.Name), true
			}
		default:
			return "", true
		}
		switch {
		case slices.ContainsFunc(to.Lacks, func(l loader.Lack) bool { return !said(l) }):
			own := !u.Again && slices.ContainsFunc(to.Lacks, func(l loader.Lack) bool { return l.By == from })
			return fmt.Sprintf("%s is %s: %s", u.Name, to.Path, to.LackText()), own
		case want == "":
			return "", true
		case !to.Found():
			return fmt.Sprintf("%s is not found; the plan is %s", u.Name, want), true
		case to.Err != "":
			return fmt.Sprintf("%s: %s", to.Path, to.Err), true
		case u.Again: // another has loaded a working one of the name before
			return "", true
		case to.File != nil && to.File.Path != want && !variant(to.Path, n.Candidate.Path) && !sameFile(to.File.Path, want):
			return fmt.Sprintf("%s is %s, found by %s%s; the plan is %s", u.Name, to.Path, to.Rule, after(to), want), true
		}
		return "", true
	}
	return "", true
}

// variant reports whether a path is a library for better processors. The loader takes that first, from a directory
// below the library's own (glibc-hwcaps, and before glibc 2.37 tls, haswell and the like).
func variant(p, of string) bool {
	below, ok := strings.CutPrefix(path.Dir(p), path.Dir(of)+"/")
	first, _, _ := strings.Cut(below, "/")
	return ok && path.Base(p) == path.Base(of) && loader.HardwareDirectory(first)
}

// after names the entry and the object by whose run path a library was found.
func after(o *loader.Object) string {
	if o.List == nil {
		return ""
	}
	return fmt.Sprintf(" of %s (entry %s)", path.Base(o.List.Path), o.Entry)
}

// sameFile reports whether two paths lead to one file, or to ELF files of the same bytes.
func sameFile(a, b string) bool {
	files := files.New(files.Options{})
	f := files.Open(a)
	return f.ELF != nil && f.Same(files.Open(b))
}
