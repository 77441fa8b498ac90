package explain

import (
	"fmt"
	"os"
	"path"
	"slices"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/remedy/change"
	"cuda-runpath/pkg/runpath"
)

// Options say what counts as whose directory, and what is asked of files.
type Options struct {
	Layout
	Ignore []string // sonames, or patterns of path.Match, that are no ambiguity
	Strict bool     // warnings count as errors
	NoOpen bool     // only what is loaded at start counts
	Guess  bool     // follow also what a library might open
	// Symbols: those of programs are looked up, too, which takes time.
	Symbols bool
	// GPUs are those that the files must have GPU code for; none: the code is not looked at.
	GPUs []gpucode.Target
	// Saved says how much smaller the closure of a store path would be without one of its references, which nothing
	// else in it has. ok is false if that is not known. It may be nil.
	Saved func(pkg, ref string) (size string, ok bool)
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	for _, pattern := range o.Ignore {
		if err := driver.CheckPattern(pattern); err != nil {
			return err
		}
	}
	return nil
}

// System draws conclusions about the starts on one system. It is safe for concurrent use.
type System struct {
	Options
	Loader *loader.Loader

	shared  sync.Map // directories → names that several of them hold
	same    sync.Map // pair of paths → bool
	answers sync.Map // path on this machine → whether its code is a stub's
}

// New returns the system whose files a loader sees.
func New(l *loader.Loader, o Options) *System { return &System{Options: o, Loader: l} }

// Case is a start about which conclusions are drawn: a load, and what is known beside it. Everything that a command
// says about it is one of its [Case.Conclusions], or a [Verdict] on a library of the driver that nothing is wrong
// with.
type Case struct {
	*System
	*process.State
	// Provider returns the file with a name or soname among the files that belong together; "" for none. Of those
	// that fit it is the nearest to the file near. It may be nil.
	Provider func(name, near string, fits func(file string) bool) string

	named    string // the file as an argument of the editing tools
	file     *files.File
	view     bool // a remedy was followed in it
	followed bool // what it may open is part of the load
	// otherwise is what names lead to if libraries are opened in another order, once that was followed.
	otherwise []process.Instead
	at        string // the file's path below the root, links resolved
	entries   []entry
	long      bool                // there are more entries than entries has
	asks      map[string]evidence // the names that the loader looks up through the file's run path
	found     []finding.Finding
	rest      []entry // the run path once the remedies of found have been followed
	// replaced is what these remedies put in the place of entries, by the entries' keys.
	replaced map[string]replacement
	tried    []finding.Finding // whose remedies have been
	ofLoad   []finding.Finding // see OfTheLoad
	unfit    string            // the driver's library that would still be passed over after a remedy
	trials   int               // what the remedies' trials have cost: see mostLookUps
}

// evidence says how it is known that a name is looked up, the surest last.
type evidence int

const (
	pathEnd evidence = iota + 1 // it is only the end of a path, because linkers merge the two
	guessed                     // it is a part of a longer string
	certain
)

// entry is one entry of a file's run path, looked at.
type entry struct {
	text     string
	position int // from 1
	key      string
	dir      string // below the root; "" if the loader ignores the entry
	driver   bool
	compat   bool
	stub     bool
}

// MaxEntries bounds the entries that are looked at. No real run path has so many.
const MaxEntries = 2000

// Case begins with a state.
func (y *System) Case(s *process.State) *Case {
	c := &Case{System: y, State: s, file: s.Main.File, at: y.Loader.Inside(s.Main.File.Path)}
	c.named = c.argument(s.Main.Path)
	for i, text := range runpath.Parse(c.file.List) {
		if i == MaxEntries {
			c.long = true
			break
		}
		c.entries = append(c.entries, c.entry(text, i+1))
	}
	c.rest = slices.Clone(c.entries)
	if len(c.entries) > 0 { // what they lead to is asked by name
		c.collectNames()
	}
	return c
}

// argument returns the file as an argument for the editing tools. They refuse symbolic links, and would take a
// leading hyphen for a flag.
func (c *Case) argument(name string) string {
	at := c.Loader.Host(name)
	if st, err := os.Lstat(at); err != nil || st.Mode()&os.ModeSymlink != 0 {
		return c.file.Path
	}
	return remedy.Operand(at)
}

// Conclusions returns all that can be said of the start: first what its own files show, then what others may change.
func (c *Case) Conclusions() []finding.Finding {
	return c.Tried(c.All())
}

// All is Conclusions without trying the remedies.
func (c *Case) All() []finding.Finding {
	open := c.Open() // this may give settled findings another remedy
	return slices.Concat(c.Settled(), open)
}

// OfTheLoad returns, once, the findings that are about what is loaded. It leaves out notes, and findings on the
// driver's libraries that are only opened by name.
func (c *Case) OfTheLoad() []finding.Finding {
	if c.ofLoad == nil {
		c.ofLoad = c.Tried(slices.DeleteFunc(append([]finding.Finding{}, c.All()...), func(f finding.Finding) bool {
			if f.Driver {
				return f.Optional
			}
			return f.Severity == finding.Note || !f.OfTheLoad()
		}))
		parts := c.Parts()
		for i := range c.ofLoad {
			of, by := c.Sides(&c.ofLoad[i])
			c.ofLoad[i].Part = parts[of] || parts[by]
		}
	}
	return c.ofLoad
}

// Settled returns the findings that no other known file can change. It follows what the file may open.
func (c *Case) Settled() []finding.Finding {
	if c.found == nil {
		c.found = []finding.Finding{}
		c.runPath()
		c.libraries()
		c.Follow()
		c.drivers()
		c.environment()
		c.gpuCode()
		for _, what := range slices.Concat(c.Start.Other, c.Start.Unsure) {
			c.say(finding.UnknownStart, remedy.Remedy{}, "%s", what)
		}
	}
	return c.found
}

// Open returns the findings on what is missing. Another file that belongs to this one may bring it, or be loaded
// before.
func (c *Case) Open() (open []finding.Finding) {
	settled := c.Settled()
	c.found = nil
	c.missing()
	for _, f := range c.found {
		i := slices.IndexFunc(settled, func(g finding.Finding) bool {
			return g.Library == f.Library && (g.ID == finding.RelativeNeeded || g.ID == finding.BuildNeeded)
		})
		if i < 0 {
			open = append(open, f)
		} else { // it may not have been known which file is that library
			settled[i].Remedy = f.Remedy
		}
	}
	c.found = settled
	return open
}

// report adds a conclusion.
func (c *Case) report(f finding.Finding) {
	file := c.File(c.Load.Main)
	if f.ID == finding.StubEntry || f.ID == finding.DriverBeforeCompat || f.ID == finding.Ambiguous && driver.Provides(f.Library) {
		file = c.fileForDriver(c.Load.Main)
	}
	if text := f.FixInPackage(); file.Object != "" && text != "" {
		f.Remedy = change.InPackage(file, text)
	}
	if f = f.Strictly(false); c.Start.Unsure != nil && f.Stops() {
		f.Severity = finding.Warning
	}
	c.found = append(c.found, f.Strictly(c.Strict))
}

// Follow continues the load, once, with what the file may open.
func (c *Case) Follow() {
	if !c.NoOpen && !c.followed {
		c.OpenAll(c.Likely(c.Guess), driver.NeedsDriver)
		c.otherwise = c.Instead()
	}
	c.followed = true
}

// Otherwise returns what names lead to if libraries are opened in another order, and on better processors. The latter
// is for a machine of another kind, whose processor was not named.
func (c *Case) Otherwise() []process.Instead { return slices.Concat(c.otherwise, c.Better()) }

// on begins a finding on an object, and who asks for it; either may be nil.
func on(id string, o, by *loader.Object, fix remedy.Remedy, format string, args ...any) finding.Finding {
	f := finding.Finding{ID: id, Message: fmt.Sprintf(format, args...), Remedy: fix}
	if o != nil {
		if f.Library = o.Name; o.Found() {
			f.File = o.Path
		}
	}
	if by != nil {
		f.By = by.Path
	}
	return f
}

// say reports a finding on the file as a whole.
func (c *Case) say(id string, fix remedy.Remedy, format string, args ...any) {
	c.report(on(id, nil, nil, fix, format, args...))
}

// Sides returns the library that a finding is about, and the object that asks for it; nil for none.
func (c *Case) Sides(f *finding.Finding) (of, by *loader.Object) {
	for _, o := range c.WithFailed() {
		if by == nil && f.By != "" && o.Path == f.By {
			by = o
		}
		if of == nil && (o.Found() && o.Path == f.File || f.File == "" && !o.Found() &&
			path.Base(o.Name) == path.Base(f.Library)) {
			of = o
		}
	}
	return of, by
}

// Ways returns the objects on a way from the program to a target.
func (c *Case) Ways(target *loader.Object) map[*loader.Object]bool {
	on := map[*loader.Object]bool{target: true}
	for again := true; again; {
		again = false
		for _, o := range c.WithFailed() {
			if !on[o] && slices.ContainsFunc(c.Asks(o), func(u loader.Use) bool { return on[u.To] }) {
				on[o], again = true, true
			}
		}
	}
	return on
}
