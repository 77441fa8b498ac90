package doctor

import (
	"fmt"
	"strings"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
)

// Verdict says whether a fact is in the way.
type Verdict string

// The verdicts.
const (
	Good    Verdict = "ok"
	Note    Verdict = "note"    // worth knowing
	Warning Verdict = "warning" // some programs will not work
	Bad     Verdict = "bad"     // a CUDA program cannot work
)

// Fact is one line of a diagnosis.
type Fact struct {
	Subject string  `json:"subject"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	Source  string  `json:"source,omitempty"` // where the fact is from: a file, or a table with its origin
	// Error is what CUDA answers where this is in the way, one of forwardcompat.Errors; 0: not known.
	Error int `json:"error,omitempty"`
	remedy.Remedy
	// Of are the programs, modules and libraries that it is about, in what was named, of several.
	Of []string `json:"of,omitempty"`
	// Kind is explain's of what is wrong with the program, and Library the one that it is about.
	Kind    string `json:"-"`
	Library string `json:"-"`

	// Openers are of the library, as the text says; none where it is loaded.
	Openers []string `json:"-"`

	// offer makes its remedy of that of an edit, one of edits; nil where it is made of none.
	offer func(edit remedy.Remedy) remedy.Remedy
	edits []remedy.Remedy

	unknown bool // because of this, it is not known whether the program works
	found   bool // the library is here: facts on one file are one, whoever opens it
}

// Diagnosis is what a doctor finds.
type Diagnosis struct {
	Machine string `json:"machine"`
	Program string `json:"program,omitempty"`
	Works   bool   `json:"works"` // nothing was found that keeps a CUDA program from working
	Facts   []Fact `json:"facts"`

	// Host says in a few words which driver and which GPUs there are; Dirs are the directories from which paths below them
	// are shown, of a place.
	Host string   `json:"-"`
	Dirs []string `json:"-"`
	// Starts is how many were looked at in a place. Failing are those that do not work and do not ask for the driver.
	Starts, Failing int `json:"-"`

	dir string // that was named, on this machine; "" where that is none
	// Asks says that the program, or a library of it, asks for the driver; HostWorks that the host's own programs, which
	// do not look into the driver link, can work.
	Asks      bool `json:"-"`
	asks      bool // of CUDA
	HostWorks bool `json:"-"`

	// parts are what none of several programs and packages brings for sure, where the program is one of these; else nil.
	parts      map[*loader.Object]bool
	driverless bool   // no driver was found
	noJIT      string // why the driver cannot compile PTX; "" where it can
	noJITError int    // what CUDA answers then
	forced     string // what ends that the driver takes PTX alone; "" where it does not
	ownList    bool   // the program's wrappers say which GPUs it sees
	own        string // the libcuda.so.1 that the program finds by itself, no stub; "" for none
	// examined are the files with GPU code, of which compiled have kernels that the driver compiles
	examined, compiled []string
	clash              string // what is to be done before the host's driver can be loaded into the program; "" for nothing
}

// Unknown says why it is not known whether a program works, of which nothing is known that keeps it from working.
func (d *Diagnosis) Unknown() (why []string) {
	for _, f := range d.Facts {
		if f.unknown && d.Works {
			why = append(why, f.Text)
		}
	}
	return why
}

// doubt adds a fact because of which it is not known whether a CUDA program works.
func (d *Diagnosis) doubt(subject, source, fix, format string, args ...any) *Fact {
	f := d.add(subject, Warning, source, fix, format, args...)
	f.unknown = true
	return f
}

// offer returns a fix that offers the host's driver: where there is none, that comes first.
func (d *Diagnosis) offer(fix string) string {
	if d.driverless {
		return "once the host has a driver: " + fix
	}
	return fix
}

// run returns how the program is started with the driver. A library is started by programs.
func (d *Diagnosis) run(load *loader.Load) string {
	if load.Main.File.Interp == "" {
		return "hostDriver run PROGRAM"
	}
	return remedy.Quote("hostDriver", "run", d.Program)
}

// add adds a fact; fix says in words what to do about it.
func (d *Diagnosis) add(subject string, v Verdict, source, fix, format string, args ...any) *Fact {
	return d.addRemedy(subject, v, source, remedy.Do(fix), format, args...)
}

// addRemedy adds a fact, and returns it, of which more may be known, until the next one is added.
func (d *Diagnosis) addRemedy(subject string, v Verdict, source string, r remedy.Remedy, format string,
	args ...any) *Fact {
	d.Facts = append(d.Facts, Fact{Subject: subject, Verdict: v, Text: fmt.Sprintf(format, args...),
		Source: source, Remedy: r})
	if v == Bad {
		d.Works = false
	}
	return &d.Facts[len(d.Facts)-1]
}

func few(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}
