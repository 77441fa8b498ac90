package fixup

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
)

// Surprise is a library for which the loader takes another file than was planned.
type Surprise struct {
	Plan *Plan  // of the file that asks for it
	Need *Need  // nil with Err
	Text string // what happens instead
	// Err is set instead of Text where the loader cannot be asked about the file.
	Err error
}

// Verify asks the loader what the files of some plans load once they are as planned, and
// returns what differs from the plans. It starts each program: for each need of a file
// of the tree, the file that was chosen must be the one that is loaded, whoever loads it
// first. What no program loads, as a plugin, is looked at by itself, as if a program of
// its interpreter opened it: there only its own run path counts, for what such a program
// has loaded before is not known. Of libraries for which the loader has the same to go by
// and the plan says the same, one is looked at so. Libraries that were right already are
// many, in a tree in which nothing changes: of those that ask the same of the loader's own
// directories, and whose entries are those that were chosen, one is looked at. Where the one
// was a surprise, all are.
func (ix *Index) Verify(plans []*Plan, jobs int) []Surprise {
	if ix.asked != nil {
		return ix.asked.surprises()
	}
	return verify(plans, ix.view(plans), jobs)
}

// view is the loader to which files are as planned.
func (ix *Index) view(plans []*Plan) *loader.Loader {
	changed := func(p *Plan) bool { return p.Skip == "" && p.Err == nil && p.Changes() }
	return ix.edited(plans, changed, (*Plan).State)
}

// edited is the loader to which some files are in other states.
func (ix *Index) edited(plans []*Plan, some func(*Plan) bool, state func(*Plan) State) *loader.Loader {
	edited := map[string]State{} // by Object.Real
	for _, p := range plans {
		if !some(p) {
			continue
		}
		s := state(p)
		edited[p.Object.Real] = s
		for _, same := range p.Object.Also {
			edited[same.Real] = s
		}
	}
	return ix.loader.Edited(func(f *files.File) {
		if s, ok := edited[f.Path]; ok {
			f.Tag, f.List, f.Interp, f.RPath, f.Shadow = s.Tag, s.List, s.Interpreter, "", false
			f.Note, f.NoteErr = nil, nil // a right one leads nowhere else
		}
	})
}

func verify(plans []*Plan, l *loader.Loader, jobs int) []Surprise {
	v := verification{l: l, jobs: max(jobs, 1), planned: map[string]*Plan{}, loaded: map[*Plan]bool{},
		alike: map[*Plan]*Plan{}, surprised: map[*Plan]bool{}, seen: map[Surprise]bool{}}
	var programs, libraries []*Plan
	for _, p := range plans {
		if p.Skip != "" || p.Err != nil {
			continue
		}
		v.planned[p.Object.Real] = p
		if !p.Object.program() {
			libraries = append(libraries, p)
		} else if l.Interpreter(p.State().Interpreter, p.Object.ABI).Why == "" { // else nothing starts it here
			programs = append(programs, p)
		}
	}
	v.each(programs, v.start)
	first := map[string]*Plan{}
	var firsts, others []*Plan
	for _, p := range libraries {
		if v.loaded[p] {
			continue
		}
		key := p.kind()
		if like := first[key]; like != nil && key != "" {
			v.alike[p] = like
			others = append(others, p)
		} else {
			first[key] = p
			firsts = append(firsts, p)
		}
	}
	v.each(firsts, v.open)
	others = slices.DeleteFunc(others, func(p *Plan) bool { return !v.surprised[v.alike[p]] })
	v.each(others, v.open)
	return v.out
}

// verification is one call of Verify.
type verification struct {
	l       *loader.Loader
	jobs    int
	planned map[string]*Plan // by Object.Real
	loaded  map[*Plan]bool   // those that a program loads
	alike   map[*Plan]*Plan  // of a library that need not be looked at, the one that was
	// surprised are those that do not load what was planned.
	surprised map[*Plan]bool
	seen      map[Surprise]bool
	out       []Surprise
}

// each looks at several files at a time, and notes in their order what was found to differ, and,
// without a Text, what was loaded.
func (v *verification) each(plans []*Plan, look func(*Plan) ([]Surprise, error)) {
	found, errs := make([][]Surprise, len(plans)), make([]error, len(plans))
	several(len(plans), v.jobs, func(i int) { found[i], errs[i] = look(plans[i]) })
	for i, p := range plans {
		v.note(p, found[i], errs[i])
	}
}

// note notes what was found to differ when one file was looked at.
func (v *verification) note(p *Plan, found []Surprise, err error) {
	if err != nil {
		v.surprised[p] = true
		v.out = append(v.out, Surprise{Plan: p, Err: err})
	}
	for _, f := range found {
		v.loaded[f.Plan] = v.loaded[f.Plan] || p.Object.program()
		if f.Text == "" || v.seen[f] {
			continue
		}
		v.surprised[f.Plan], v.seen[f] = true, true
		v.out = append(v.out, f)
	}
}

// start loads a program as the kernel starts it.
func (v *verification) start(p *Plan) (found []Surprise, err error) {
	load, err := v.l.Load(p.Object.Real)
	if err != nil {
		return nil, err
	}
	for _, from := range load.Objects {
		if from.File == nil {
			continue
		}
		if plan := v.planned[from.File.Path]; plan != nil {
			found = append(found, compare(plan, from, load, p, v.planned)...)
		}
	}
	return found, nil
}

// open looks at a library as a program that opens it.
func (v *verification) open(p *Plan) ([]Surprise, error) {
	load, err := v.l.Direct(p.Object.Real, p.runsOn())
	if err != nil {
		return nil, err
	}
	return compare(p, load.Main, load, p, v.planned), nil
}

// compare says how what a file loads differs from its plan; at least that it was loaded. What
// it does not load by itself, but others of the program that is started, is the program's. What
// lacks something for one of the files planned, by Object.Real, for which it is said to be missing,
// is no surprise.
func compare(plan *Plan, from *loader.Object, load *loader.Load, started *Plan, planned map[string]*Plan) []Surprise {
	found := []Surprise{{Plan: plan}}
	for _, n := range plan.Needs {
		if n.Cause != loader.Needed {
			continue
		}
		if n.inherited && load.Main == from && !plan.Object.program() {
			continue // which only a program of the tree makes it find
		}
		if !load.Interp.Found && n.Outcome != Found {
			continue // a guess: what that loader finds by itself is not known
		}
		if text, own := n.compare(from, planned); text != "" && own {
			found = append(found, Surprise{Plan: plan, Need: n, Text: text})
		} else if text != "" {
			found = append(found, Surprise{Plan: started, Need: n, Text: text})
		}
	}
	return found
}

// kind is all on which the loader's answers for a library by itself depend, and the plan with which
// they are compared: of one that is right already, what the plan leaves to the loader's own
// directories, and to which loader. It is "" where there is more to it.
func (p *Plan) kind() string {
	o, state, edited := p.Object, p.State(), p.Changes() || p.mapped
	var b strings.Builder
	write := func(parts ...string) {
		for _, part := range parts {
			b.WriteString(part)
			b.WriteByte(0)
		}
	}
	write(p.runsOn())
	tokens := strings.Contains(state.List, "$")
	for _, n := range p.Needs {
		name := n.Names[0]
		switch {
		case n.Cause != loader.Needed, !edited && (n.Outcome == Found || n.Outcome == Absolute):
			continue
		case edited && name == o.Soname:
			return ""
		}
		if write(name, string(n.Outcome)); n.Outcome == Found {
			write(n.Candidate.Object.Real)
		}
		tokens = tokens || strings.Contains(name, "$")
	}
	switch {
	case !edited:
		return b.String()
	case o.Uncommon():
		return ""
	case tokens:
		write(path.Dir(o.Real))
	}
	write("", state.Interpreter, state.List, fmt.Sprint(state.Tag, o.ABI, o.ELF.OSABI))
	for _, v := range o.VersionsNeeded() {
		write(v.Library, v.Name, strconv.FormatBool(v.Weak))
	}
	return b.String()
}

// compare says how what an object loads for a need differs from the plan, or ""; own, that the
// object itself makes the loader do so.
func (n *Need) compare(from *loader.Object, planned map[string]*Plan) (text string, own bool) {
	for _, u := range from.Uses {
		if u.Cause != loader.Needed || u.Name != n.Names[0] || u.To == nil {
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
			want = n.Candidate.Object.Real
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
		case u.Again: // another has loaded one of the name before, which does
			return "", true
		case to.File != nil && to.File.Path != want && !variant(to.Path, n.Candidate.Path) && !sameFile(to.File.Path, want):
			return fmt.Sprintf("%s is %s, found by %s%s; the plan is %s", u.Name, to.Path, to.Rule, after(to), want), true
		}
		return "", true
	}
	return "", true
}

// variant reports whether a path is that of a library for better processors, which the
// loader takes first, from a directory below the library's own (glibc-hwcaps, and before
// glibc 2.37 tls, haswell and the like).
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
