package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
)

// ExplainCommand returns the command explain.
func ExplainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "show which libraries the loader would find, where, by which rule, and where it looked before; the files are not run",
		ArgsUsage: "FILE...",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "lib", Usage: "tell only of the library `NAME`, whether the file asks for it or would open it"},
			&cli.StringSliceFlag{KeepSpace: true, Name: "env", Usage: "set `VAR=VALUE`: LD_LIBRARY_PATH or LD_PRELOAD; without =VALUE, as it is set now"},
			&cli.BoolFlag{Name: "no-dlopen", DisableDefaultText: true, Usage: "leave out what may be opened later with dlopen"},
			&cli.BoolFlag{Name: "dot", DisableDefaultText: true, Usage: "print a graph for Graphviz"},
			RootFlag(), AssumeDriverFlag(), CPUFlag(), JSONFlag(),
			VerboseFlag("also follow names that a library only might open"),
			QuietFlag("leave out where the loader looked before"),
		}, SearchFlags()...),
		Action: func(c *cli.Context) error {
			s, err := Start(c, c.Args().Slice())
			if err != nil {
				return err
			}
			if err := CheckLayout(c); err != nil {
				return err
			}
			search, err := loaderOptions(c)
			if err != nil {
				return err
			}
			l, err := loader.New(search)
			if err != nil {
				return err
			}
			return runExplain(s, l, explainOptions{
				Layout: explain.Layout{DriverLink: c.String("driver-link"), Compat: c.String("compat"),
					StubDirs: driver.StubDirs{Patterns: c.StringSlice("stub")}, Assumed: c.String("assume-driver"),
					CompatVerdict: host.CompatJudge(c.String("root"), c.String("assume-driver"))},
				lib: c.String("lib"), dot: c.Bool("dot"), noDlopen: c.Bool("no-dlopen"),
			})
		},
	}
}

// loaderOptions reads the flags that the search depends on.
func loaderOptions(c *cli.Context) (loader.Options, error) {
	o := loader.Options{Root: c.String("root"), AssumeDriver: c.String("assume-driver"), DriverLink: c.String("driver-link"), CPU: c.String("cpu")}
	if o.CPU != "native" && o.CPU != "baseline" && !slices.Contains(loader.CPUNames, o.CPU) {
		return o, Misusef("--cpu %s: native, baseline, %s", o.CPU, strings.Join(loader.CPUNames, ", "))
	}
	for _, assignment := range c.StringSlice("env") {
		name, value, given := strings.Cut(assignment, "=")
		if !given {
			value = os.Getenv(name)
		}
		switch name {
		case "LD_LIBRARY_PATH":
			o.LibraryPath = value
		case "LD_PRELOAD":
			o.Preload = value
		default:
			return o, Misusef("--env %s: only LD_LIBRARY_PATH and LD_PRELOAD are understood", assignment)
		}
	}
	return o, nil
}

// explainOptions are explain's own.
type explainOptions struct {
	explain.Layout
	lib      string // tell only of this library
	dot      bool
	noDlopen bool // only what is loaded at start
}

// explained ends the JSON document of explain.
type explained struct {
	Files   int `json:"files"`
	Failed  int `json:"failed"`  // could not be examined
	Missing int `json:"missing"` // libraries not found
}

// runExplain explains the session's files. It returns ErrFailed where a file
// could not be examined, or would not start.
func runExplain(s *Session, l *loader.Loader, o explainOptions) error {
	var doc *Document
	if s.JSON {
		doc = NewDocument(s.Stdout)
	}
	var sum explained
	var graph []*loader.Load
	bad := false
	for i, arg := range s.Paths {
		if err := s.Context.Err(); err != nil {
			return err
		}
		p := l.Path(arg)
		load, err := l.Load(p)
		sum.Files++
		if err != nil {
			sum.Failed++
			s.Log.WithField("path", arg).Error(err)
			if doc != nil {
				doc.File(&explain.File{Path: arg, Error: err.Error(), Libraries: []explain.Library{}, Driver: []explain.Verdict{}})
			}
			continue
		}
		var only *loader.Object
		if !load.Static {
			if !o.noDlopen {
				load.DlopenAll(explain.Likely(load, s.Verbose), driver.NeedsDriver)
			}
			if o.lib != "" {
				only = explain.Find(load, o.lib)
			}
			sum.Missing += len(load.Missing())
			bad = bad || load.Err != "" || only != nil && only.Fails() != ""
		}
		switch {
		case doc != nil:
			f := explain.Describe(arg, load, &o.Layout)
			if only != nil {
				f.Only(o.lib)
			}
			doc.File(f)
		case o.dot:
			graph = append(graph, load)
		default:
			if i > 0 {
				fmt.Fprintln(s.Stdout)
			}
			if err := writeTree(s.Stdout, load, &o.Layout, treeStyle{color: colored(s.Stdout), tries: !s.Quiet, only: only}); err != nil {
				return err
			}
		}
	}
	if err := s.finish(doc, &sum); err != nil {
		return err
	}
	if doc == nil && o.dot {
		if err := writeGraph(s.Stdout, graph, &o.Layout); err != nil {
			return err
		}
	}
	if bad || sum.Failed > 0 || sum.Missing > 0 {
		return ErrFailed
	}
	return nil
}

// colored tells whether a writer is a terminal that shows colours.
func colored(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
