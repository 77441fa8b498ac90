package explain

import (
	"os"
	"slices"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/remedy/change"
	"cuda-runpath/pkg/runpath"
)

// Conclusion is one thing that can be said of a start, and what to do about it.
type Conclusion struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"` // the cause, in a sentence
	remedy.Remedy
	Entry    *string `json:"entry,omitempty"`    // as written in the run path
	Position int     `json:"position,omitempty"` // of the entry, from 1
	Library  string  `json:"library,omitempty"`
	Line     int     `json:"line,omitempty"`  // of a script, from 1
	Bytes    uint64  `json:"bytes,omitempty"` // that it is about
	// Libraries are all names where it is about several.
	Libraries  []string    `json:"libraries,omitempty"`
	Candidates []Candidate `json:"candidates,omitempty"`
	Accepted   bool        `json:"accepted,omitempty"` // a baseline has it

	Object *loader.Object `json:"-"` // the library that it is about, or nil
	By     *loader.Object `json:"-"` // who asks for it, or nil
	// Verdict is what is said of Object where that is one of the driver's libraries; else nil.
	Verdict *Verdict `json:"-"`
	Answer  int      `json:"-"` // the error that CUDA answers; 0 for none, or not known
	GPUs    []string `json:"-"` // that cannot run the code
	// others are what helps where Remedy, tried, does not.
	others []remedy.Remedy
}

// Candidate is one of several files of the same name.
type Candidate struct {
	Path     string `json:"path"`
	Position int    `json:"position"` // of its directory in the run path, from 1
	Wins     bool   `json:"wins"`     // the loader takes it
}

// Options say what counts as whose directory, and what is asked of files.
type Options struct {
	Layout
	Ignore []string // sonames, or patterns of path.Match, that are no ambiguity
	Strict bool     // warnings count as errors
	NoOpen bool     // only what is loaded at start counts
	Guess  bool     // follow also what a library might open
	// Symbols: those of programs are looked up too, which takes its time.
	Symbols bool
	// GPUs are those that the files' GPU code is to be for; none: it is not looked at.
	GPUs []gpucode.Target
	// Saved says by how much the closure of a store path would be smaller without one of its references, which nothing
	// else in it has; ok is false where nobody knows. It may be nil.
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

// System concludes what can be said of the starts of one system. It is safe for concurrent use.
type System struct {
	Options
	Loader *loader.Loader

	shared sync.Map // directories → names that several of them hold
	same   sync.Map // pair of paths → bool
	stubs  sync.Map // path on this machine → whether its code is a stub's
}

// New returns a system whose files a loader sees.
func New(l *loader.Loader, o Options) *System { return &System{Options: o, Loader: l} }

// Case is a start of which is concluded what can be said: a load, and what is known beside it. Everything that any
// command says of it is one of its [Case.Conclusions], or a [Verdict] on a library of the driver that nothing is wrong
// with.
type Case struct {
	*System
	*process.State
	// Provider returns which of the files that belong together has a name or soname: the one nearest
	// to the file near, of those that fit; "" for none. It may be nil.
	Provider func(name, near string, fits func(file string) bool) string

	named    string // the file as an argument of the editing tools
	file     *files.File
	view     bool // it is one in which a remedy was followed
	followed bool // what it may open is a part of the load
	// otherwise is what names lead to in another order of what is opened, once it was followed.
	otherwise []process.Instead
	at        string // the file's path below the root, links resolved
	entries   []entry
	long      bool // there are more entries than entries has
	// own are the names that the loader looks up through the file's run path.
	own   map[string]bool
	maybe map[string]bool // further such names, guessed from parts of longer strings
	found []Conclusion
	rest  []entry // the run path once the remedies of found have been followed
	// replaced are, by the keys of entries, what these remedies put in their place.
	replaced map[string]replacement
	tried    []Conclusion // whose remedies have been
	ofLoad   []Conclusion // see OfTheLoad
	unfit    string       // the driver's library that a remedy, followed, would leave to be passed over
	trials   int          // what the remedies' trials have cost: see mostLookUps
}

// entry is one entry of a file's run path, looked at.
type entry struct {
	text     string
	position int // from 1
	key      string
	dir      string // below the root; "" where the loader ignores the entry
	driver   bool
	compat   bool
	stub     bool
}

// MaxEntries bounds the entries that are looked at; no real run path has that many.
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
	c.collectNames()
	return c
}

// argument returns the file as an argument for the editing tools, which refuse
// symbolic links and would take a leading hyphen for a flag's.
func (c *Case) argument(name string) string {
	at := c.Loader.Host(name)
	if st, err := os.Lstat(at); err != nil || st.Mode()&os.ModeSymlink != 0 {
		return c.file.Path
	}
	return remedy.Operand(at)
}

// Conclusions returns all that can be said of the start: first what its own files show, then what others may change.
func (c *Case) Conclusions() []Conclusion {
	return c.Tried(c.All())
}

// All is Conclusions with remedies that were not tried.
func (c *Case) All() []Conclusion {
	open := c.Open() // which may give what is settled another remedy
	return slices.Concat(c.Settled(), open)
}

// OfTheLoad returns those of the conclusions that are about what is loaded, notes left out, once. Those on libraries
// that are opened by name alone, as [Verdict.Optional] says, are left out too.
func (c *Case) OfTheLoad() []Conclusion {
	if c.ofLoad == nil {
		c.ofLoad = c.Tried(slices.DeleteFunc(append([]Conclusion{}, c.All()...), func(f Conclusion) bool {
			if f.Verdict != nil {
				return f.Verdict.Optional()
			}
			return f.Severity == Note || !slices.Contains(ofTheLoad, f.ID)
		}))
	}
	return c.ofLoad
}

// Settled returns what nothing else that is known can change. It follows what the file may open.
func (c *Case) Settled() []Conclusion {
	if c.found == nil {
		c.found = []Conclusion{}
		c.runPath()
		c.libraries()
		c.Follow()
		c.drivers()
		c.environment()
		c.gpuCode()
	}
	return c.found
}

// Open returns what is missing: another file that belongs to this one may bring it, or be loaded before.
func (c *Case) Open() (open []Conclusion) {
	settled := c.Settled()
	c.found = nil
	c.missing()
	for _, f := range c.found {
		i := slices.IndexFunc(settled, func(g Conclusion) bool {
			return g.Library == f.Library && (g.ID == RelativeNeeded || g.ID == BuildNeeded)
		})
		if i < 0 {
			open = append(open, f)
		} else { // which of the other files is that library may not have been known
			settled[i].Remedy = f.Remedy
		}
	}
	c.found = settled
	return open
}

// Strictly returns a conclusion with its severity: the usual one where it has none, and an error for a warning where
// that is asked.
func (y *System) Strictly(f Conclusion) Conclusion {
	if f.Severity == "" {
		f.Severity = rule(f.ID).Severity
	}
	if y.Strict && f.Severity == Warning {
		f.Severity = Error
	}
	return f
}

// report takes up a conclusion.
func (c *Case) report(f Conclusion) {
	if f.Object != nil && f.Library == "" {
		f.Library = f.Object.Name
	}
	file := c.File(c.Load.Main)
	if f.ID == StubEntry || f.ID == DriverBeforeCompat || f.ID == Ambiguous && driver.Provides(f.Library) {
		file = c.fileForDriver(c.Load.Main)
	}
	if file.Object != "" && f.FixInPackage() != remedy.Text(f.Fix) {
		f.Remedy = change.InPackage(file, f.FixInPackage())
	}
	c.found = append(c.found, c.Strictly(f))
}

// Follow lets the load go on with what the file may open, once.
func (c *Case) Follow() {
	if !c.NoOpen && !c.followed {
		c.OpenAll(c.Likely(c.Guess), driver.NeedsDriver)
		c.otherwise = c.Instead()
	}
	c.followed = true
}

// Otherwise returns what names lead to in another order of what is opened, and on better processors where none was
// named and this machine's is of another kind.
func (c *Case) Otherwise() []process.Instead { return slices.Concat(c.otherwise, c.Better()) }

// Of reports whether a conclusion is about a library, or what it needs.
func (c *Conclusion) Of(o *loader.Object) bool {
	return c.Object == o || c.Object == nil && c.Library == o.Name || c.By == o
}
