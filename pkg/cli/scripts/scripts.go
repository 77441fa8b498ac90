package scripts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/remedy/nixtext"
	"cuda-runpath/pkg/scripts"
	"cuda-runpath/pkg/scripts/syntax"
	"cuda-runpath/pkg/tree"
)

// Command returns the command scripts.
func Command() *command.Command {
	return &command.Command{
		Name:   "scripts",
		Usage:  "list where scripts open the driver by name; --fix mends them",
		Common: []string{"fix", "substitute", "libs", "dry-run", "json", "verbose"},
		Examples: `runpath scripts .venv
runpath scripts --fix --dry-run .venv`,
		ArgsUsage: "PATH...",
		Description: `ctypes.CDLL("libnvidia-ml.so.1") calls dlopen from Python's own library, so no run path of the
package is searched. Python, JavaScript and C files are read, and Jupyter notebooks, Julia, Lua and Ruby, of which the
places are only listed. --fix changes the names that are passed to a call that loads a library, directly or through
variables and functions of the same file, and nothing else: it writes the path, and the name behind it for where there
is no such file. With --libs it does so for the CUDA toolkit's libraries that are in a DIR. With --substitute the
arguments of substituteInPlace for a change are printed instead. --verbose also lists libraries that are named without
such a call in sight.

In these and in shell scripts and build files (.pc, .la, CMake's, make's) it also lists linker flags that name
directories of a host, such as -L/run/opengl-driver/lib and -Wl,-rpath,/usr/local/cuda/lib64: what is linked by them
looks there too.

Where nvcc, ptxas or CUDA_HOME is looked for at run time is listed with what a package writes there.`,
		Flags: []*command.Flag{
			{Name: "fix", Usage: "replace the names that are opened with the driver link's path"},
			{Name: "substitute", Usage: "print substituteInPlace commands, for a Nix package"},
			{
				Kind: command.List, Name: "libs",
				Usage: "also look for the CUDA toolkit's libraries, such as libnvrtc.so.12, that are in `DIR` (repeatable)"},
			flags.DriverLink, flags.Store, flags.EvenInStore, command.DryRunFlag, command.JSONFlag, flags.Jobs,
			command.VerboseFlag("also list names that are not known to be opened"), command.QuietFlag("report problems only"),
		},
		Action: session.With(func(s *session.Session, c *command.Line) error {
			o := scriptOptions{fix: c.Bool("fix"), substitute: c.Bool("substitute"), link: c.String("driver-link")}
			if c.IsSet("libs") {
				var err error
				if o.toolkit, err = scripts.ToolkitIn(c.StringSlice("libs")); err != nil {
					return command.Misusef("--libs %v", err)
				}
			}
			if o.fix && o.substitute {
				return command.Misuse("--fix and --substitute exclude each other")
			}
			for _, flag := range []string{"dry-run", "store", "even-in-store"} {
				if c.IsSet(flag) && !o.fix {
					return command.Misusef("--%s is for --fix", flag)
				}
			}
			if o.link == "" {
				o.link = driver.Link
			}
			return runScripts(s, o)
		}),
	}
}

type scriptOptions struct {
	fix, substitute bool
	link            string
	toolkit         func(name string) string // see [scripts.Find]
}

// scriptFile is one element of "files" in the JSON document of scripts.
type scriptFile struct {
	session.Report
	Places []scriptPlace `json:"places"`
}

type scriptPlace struct {
	Kind    scripts.Kind `json:"kind"`
	Library string       `json:"library,omitempty"`
	// Directory is what a linker's flag names.
	Directory string `json:"directory,omitempty"`
	Line      int    `json:"line"`
	Text      string `json:"text"`
	Fixable   bool   `json:"fixable"`
	// Package is what a package writes for one of CUDA's compilers, see [scripts.Place.InPackage].
	Package string `json:"package,omitempty"`
	// Alone: --fix writes the path, and not the name behind it.
	Alone bool `json:"alone,omitempty"`
	// Substitute are the arguments of nixpkgs' substituteInPlace, "" where the place stays.
	Substitute string `json:"substitute,omitempty"`
}

// scriptSummary ends the JSON document of scripts.
type scriptSummary struct {
	Searched int `json:"searched"` // scripts
	// where the driver is opened by name, or the host's directories are named to a linker
	Places  int    `json:"places"`
	Left    int    `json:"left"`   // of these, not to be changed automatically
	Edited  int    `json:"edited"` // files
	Failed  int    `json:"failed"`
	Stopped string `json:"stopped,omitempty"`
	dry     bool
}

func (s *scriptSummary) String() string {
	line := fmt.Sprintf("%s searched: %s, %d not fixable", session.Count(s.Searched, "script", "scripts"),
		session.Count(s.Places, "place", "places"), s.Left)
	if s.Edited > 0 {
		verb := "edited"
		if s.dry {
			verb = "would be edited"
		}
		line += fmt.Sprintf("; %s %s", session.Count(s.Edited, "file", "files"), verb)
	}
	if s.Failed > 0 {
		line += fmt.Sprintf("; %d failed", s.Failed)
	}
	return line
}

// asked is what is asked for.
func (p *scriptPlace) asked() string { return cmp.Or(p.Directory, p.Library) }

const unfixed = ", which --fix does not change"

// what says what a place does with what is asked for.
func (p *scriptPlace) what(name string) string {
	what := "opens " + name + " by name"
	switch {
	case p.Kind == scripts.Named:
		return name + " is mentioned"
	case p.Kind == scripts.Program:
		return "looks for " + name + " in PATH; a package writes " + p.Package + " there"
	case p.Kind == scripts.Variable:
		return "reads " + name + "; a package sets it, " + p.Package
	case p.Kind == scripts.Burnt && strings.Contains(p.Directory, "/stubs"):
		what = "has " + name + ", which has stubs, searched at run time"
	case p.Kind == scripts.Burnt:
		what = "gives the linker the host's " + name
	case p.Kind == scripts.Ldconfig:
		what = "runs ldconfig -p, which does not list the driver link"
	case p.Kind == scripts.Lookup && !p.Fixable:
		what = "looks for " + name + " by name"
	case p.Alone:
		what += ", and --fix leaves the path alone there"
	}
	if !p.Fixable {
		what += unfixed
	}
	return what
}

// listed is how many places are shown each by itself.
const listed = 10

// foundPlaces are the places of a run: each by itself, and those that do the same together.
type foundPlaces struct {
	lines []string
	kinds []*placesAlike
}

type placesAlike struct {
	what  string   // with \x00 for what is asked for
	asked []string // each once
	at    string   // the first
	n     int
}

func (f *foundPlaces) add(p scriptPlace, path, line string) {
	if len(f.lines) <= listed {
		f.lines = append(f.lines, line)
	}
	what, _, _ := strings.Cut(strings.TrimSuffix(p.what("\x00"), unfixed), "; ") // without what a package writes
	i := slices.IndexFunc(f.kinds, func(k *placesAlike) bool { return k.what == what })
	if i < 0 {
		i, f.kinds = len(f.kinds), append(f.kinds, &placesAlike{what: what, at: fmt.Sprintf("%s:%d", path, p.Line)})
	}
	f.kinds[i].asked = remedy.Union(f.kinds[i].asked, []string{p.asked()})
	f.kinds[i].n++
}

// print prints the places, where these are many one line for those that do the same.
func (f *foundPlaces) print(s *session.Session, sum *scriptSummary) {
	if len(f.lines) <= listed {
		for _, line := range f.lines {
			s.Say("%s", line)
		}
		return
	}
	below := command.Below(s.Paths)
	for _, k := range f.kinds {
		more, at := "", below(k.at)
		if _, module, ok := strings.Cut(at, "/site-packages/"); ok { // from where it is imported
			at = module
		}
		if k.n > 1 {
			more = fmt.Sprintf(" and %d more places", k.n-1)
		}
		s.Say("%s: %s%s", command.Printable(strings.ReplaceAll(k.what, "\x00", command.Few(k.asked, 4))),
			command.Printable(at), more)
	}
	s.Say("-v lists all, with what a package writes there; --fix is for %d of them.", sum.Places-sum.Left)
}

func runScripts(s *session.Session, o scriptOptions) error {
	var sum scriptSummary
	var found foundPlaces
	var searched atomic.Int64
	options := tree.Options{FollowArguments: true}
	if o.fix {
		options = tree.Options{AnyLinked: true, Refuse: s.Refuse}
	}
	run := session.Sweep[*scriptFile]{
		Options: options,
		Visit: func(f *tree.File) (*scriptFile, bool) {
			r := &scriptFile{session.Report{Path: f.Path, Action: tree.Unchanged}, []scriptPlace{}}
			err := f.Err
			if err == nil {
				var is bool
				if is, err = o.visit(f, r, s); is {
					searched.Add(1)
				}
			}
			r.Fail(err)
			return r, err != nil || len(r.Places) > 0
		},
		Tell: func(r *scriptFile) {
			for _, p := range r.Places {
				if p.Kind != scripts.Named {
					sum.Places++
					if !p.Fixable {
						sum.Left++
					}
				}
				line := fmt.Sprintf("%d: %s: %s", p.Line, p.what(p.asked()), command.Printable(p.Text))
				whole := command.Printable(r.Path) + ": " + line
				switch {
				case s.JSON:
				case o.substitute && p.Substitute != "":
					fmt.Fprintln(s.Stdout, nixtext.Substitute(r.Path, p.Substitute))
				case o.substitute: // stdout is for commands
					s.Log.WithField("path", r.Path).Info(line)
				case s.Verbose:
					s.Say("%s", whole)
				case !s.Quiet:
					found.add(p, r.Path, whole)
				}
			}
		},
		End: func(all *session.Summary, _ int) (any, string) {
			sum.Searched, sum.Edited, sum.Failed, sum.Stopped, sum.dry = int(searched.Load()), all.Edited, all.Failed,
				all.Stopped, s.DryRun
			found.print(s, &sum)
			return &sum, sum.String()
		},
	}
	if o.fix {
		run.Options.Leftover = s.Leftover()
	}
	return run.Run(s)
}

// visit searches one file. It reports whether it is a script.
func (o *scriptOptions) visit(f *tree.File, r *scriptFile, s *session.Session) (is bool, err error) {
	if f.SameAs != "" {
		return false, nil
	}
	whole, lang, is, err := scripts.ReadSource(f)
	if whole == "" || err != nil {
		return is, err
	}
	var places []scripts.Place
	if lang != syntax.Unknown {
		places = scripts.Find(whole, lang, o.toolkit)
	}
	if lang != syntax.Notebook {
		places = append(places, scripts.Flags(whole)...)
	}
	if o.fix {
		if fixed := scripts.Fix(whole, places, o.link); fixed != whole {
			if !s.DryRun {
				if err := scripts.Write(f, fixed); err != nil {
					return true, err
				}
			}
			r.Action = tree.Edited
			r.Left = f.OutsideLinks()
		}
	}
	for _, p := range places {
		if p.Kind == scripts.Named && !s.Verbose {
			continue
		}
		place := scriptPlace{Kind: p.Kind, Library: p.Library, Directory: p.Directory, Line: p.Line, Text: p.Text,
			Fixable: p.Replace != "", Alone: p.Alone}
		if p.Kind == scripts.Program || p.Kind == scripts.Variable {
			place.Package = p.InPackage()
		}
		if o.substitute || s.JSON {
			place.Substitute = p.Substitute(whole, places)
		}
		r.Places = append(r.Places, place)
	}
	return true, nil
}
