package explain

import (
	"cmp"
	"debug/elf"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// Tried keeps only remedies that do what they promise. Each command is followed on a view of the files, alone and
// after those before it. If its conclusion stays, or another one appears, another remedy or words take its place.
func (c *Case) Tried(list []finding.Finding) []finding.Finding {
	if c.view || !slices.ContainsFunc(list, func(f finding.Finding) bool { return f.Command != nil }) {
		return list
	}
	c.tried = list
	before := c.keys()
	var done []func(*files.File)
	for i := range list {
		f := &list[i]
		if f.Command == nil {
			continue
		}
		if c.trials > mostLookUps || c.Truncated { // then each trial would cost as much as this load, and end as it did
			f.Remedy = remedy.Do("first apply the fixes above, then run this again for the next one")
			continue
		}
		c.unfit = ""
		// First remedies that leave nothing wrong with the library, then those that make nothing worse.
		tried := append([]remedy.Remedy{f.Remedy}, f.Others...)
		settles := func(whole bool) int {
			return slices.IndexFunc(tried, func(r remedy.Remedy) bool {
				edit := c.follows(r)
				if edit == nil {
					return !whole
				}
				if !c.settles(f, before, whole, edit) || len(done) > 0 && !c.settles(f, before, whole,
					append(slices.Clip(done), edit)...) {
					return false
				}
				done = append(done, edit)
				return true
			})
		}
		at := settles(true)
		if at < 0 {
			at = settles(false)
		}
		if at >= 0 {
			f.Remedy = tried[at]
		} else if c.unfit != "" {
			f.Remedy = remedy.Do("%s is no driver for this program: install one for it, then %s", c.unfit,
				remedy.Text(remedy.Quote(f.Command...)))
		} else {
			f.Remedy = remedy.Do(
				"no single edit settles this: %s would lose a library, or bring in another one; build it with the library that "+
					"is meant. To see what is loaded: %s",
				remedy.Text(remedy.Quote(f.Command...)), remedy.Text(remedy.Quote("runpath", "explain", c.named)))
		}
	}
	return list
}

// passedOver returns the file in the driver link that the loader passes over although a conclusion is that the
// driver's library is missing. A build machine has no such file.
func (c *Case) passedOver(f *finding.Finding) string {
	if f.ID != finding.DriverAbsent {
		return ""
	}
	link := c.Link(c.file.ELF.Machine)
	if _, why := c.In(link, f.Library); why != "" {
		return path.Join(link, f.Library)
	}
	return ""
}

// key is equal for the same conclusion on two views of a start.
type key struct{ id, library, entry string }

func keyOf(f *finding.Finding) key {
	k := key{f.ID, f.Library, ""}
	if f.Entry != nil {
		k.entry = runpath.Key(*f.Entry)
	}
	return k
}

// keys are those of all that is concluded.
func (c *Case) keys() map[key]bool {
	all := map[key]bool{}
	for _, f := range c.All() {
		all[keyOf(&f)] = true
	}
	return all
}

// mostLookUps bounds the trials of a start's remedies, in libraries times directories. A file with thousands of both,
// all wrong, would be loaded again for each conclusion. 300 libraries and 30 directories have room for 222 trials.
const mostLookUps = 2_000_000

// settles reports whether some edits remove a conclusion, add none, and leave none that another of several libraries
// would settle. A library of the driver that is missing on this machine, but whose link is searched, does not count.
// whole: nothing else may be wrong with the library, either.
func (c *Case) settles(f *finding.Finding, before map[key]bool, whole bool, edits ...func(*files.File)) bool {
	c.trials += len(c.Objects) * (1 + strings.Count(c.file.List, ":"))
	l := c.Loader.Edited(func(file *files.File) {
		for _, edit := range edits {
			edit(file)
		}
	})
	state, err := c.Start.Begin(l)
	if err != nil || state.Role == loader.Static {
		return false
	}
	after := (&System{Options: c.Options, Loader: l}).Case(state)
	after.Provider, after.view = c.Provider, true
	for _, g := range after.All() {
		if at := after.passedOver(&g); at != "" && !before[keyOf(&g)] {
			c.unfit = at
			return false
		}
		if g.ID == finding.UndefinedSymbol && slices.ContainsFunc(f.Candidates, func(x finding.Candidate) bool {
			l, err := c.Loader.Files().Open(c.Loader.Absolute(x.Path)).Linkage()
			return err == nil && l.Address(g.Library) != 0
		}) {
			return false
		}
		if k := keyOf(&g); k == keyOf(f) || whole && f.Library != "" && g.Library == f.Library && g.Stops() ||
			!before[k] && g.ID != finding.DriverAbsent && (g.Severity != finding.Note || g.Driver) {
			return false
		}
	}
	return true
}

// follows returns what a remedy's change makes of a file in a loader's view; nil if that is not known.
func (c *Case) follows(r remedy.Remedy) func(*files.File) {
	what, at := r.Change, r.File
	if what == nil {
		return nil
	}
	if at == c.named {
		at = c.file.Path
	}
	return func(f *files.File) {
		if f.Path != at {
			return
		}
		rules := what.Rules
		list := runpath.Parse(f.List)
		if rules == nil {
			list = what.Entries(list)
		} else if what.Note == "" {
			list = c.normal(f, list, rules)
		}
		if f.List != list.String() {
			f.List, f.Note, f.NoteErr = list.String(), nil, nil // a right note leads to the same files
			switch {
			case len(list) == 0:
				f.Tag = elf.DT_NULL
			case f.Tag == elf.DT_NULL:
				f.Tag = f.NewTag()
			}
		}
		if rules != nil && rules.Maps == 0 && what.Note == "" {
			f.RPath, f.Shadow = "", false
		}
		if what.Note != "" {
			f.Note, f.NoteErr = nil, nil
		}
		if what.ClearExecStack {
			f.ExecutableStack = ""
		}
		f.Interp = cmp.Or(what.Interpreter, f.Interp)
		if len(what.ReplaceNeeded)+len(what.AddNeeded) > 0 {
			f.Ask(what.Renamed(), strings.Join(what.AddNeeded, ""))
		}
	}
}

// normal is what the tools of the normal form make of a list.
func (c *Case) normal(f *files.File, l runpath.List, rules *remedy.Rules) runpath.List {
	expand := func(entry string) string { dir, _ := c.Load.Expand(c.Load.Main, entry); return dir }
	s := runpath.Settings{DriverLink: c.Link(f.ELF.Machine), Compat: c.Compat, Needed: f.Needed,
		IsStub: c.StubDirs.Contains, Dedupe: rules.Dedupe,
		IsCompat:        func(entry string) bool { return c.isCompat(c.Load, entry, expand(entry)) },
		IsDriverLibrary: func(name string) bool { return driver.Provides(path.Base(name)) },
		Holds:           func(entry, name string) bool { return c.Load.Holds(expand(entry), name) },
		Offers:          func(string, string) bool { return false }}
	l, _ = s.Apply(l, rules.Maps)
	return l
}
