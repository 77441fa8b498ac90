package explain

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/gpu"
	"cuda-runpath/pkg/cli/loading"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/explain/places"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/inorder"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/scripts/wrapper"
	"cuda-runpath/pkg/starts"
	"cuda-runpath/pkg/tree"
)

// Command returns the command explain.
func Command() *command.Command {
	return &command.Command{
		Name:   "explain",
		Usage:  "show which libraries the loader would find, and why",
		Common: []string{"lib", "all", "env", "root", "json", "verbose"},
		Examples: `runpath explain app/bin/app
runpath explain .venv
runpath explain --lib libcuda.so.1 app/bin/app
runpath explain --dot app/bin/app | dot -Tsvg > app.svg`,
		ArgsUsage: "FILE...",
		Description: "Each library is shown with its file, the rule by which it is found, and the places where the " +
			"loader looks first. A directory, or an interpreter of Python, is summed up: driver, missing libraries " +
			"(those that only a part needs, which nothing opens for sure, are warnings), toolkit, GPU code. Nothing is run.",
		Flags: append([]*command.Flag{
			{Kind: command.String, Name: "lib",
				Usage: "show only the library `NAME`, whether the file needs it or would open it"},
			{
				Kind: command.List, Name: "env",
				Usage: "set `VAR=VALUE`: LD_LIBRARY_PATH, LD_PRELOAD, LD_AUDIT, GLIBC_TUNABLES and others, for nix-ld NIX_LD or " +
					"NIX_LD_LIBRARY_PATH; without =VALUE, as it is set now"},
			{Name: "no-dlopen", Usage: "leave out what may be opened later with dlopen"},
			{
				Name:  "all",
				Usage: "also show libc and its companions, what is already loaded, and every place where the loader looked"},
			{Kind: command.Int, Name: "depth", Usage: "show `N` levels of the tree", DefaultText: "all"},
			{Name: "unused", Usage: "also list the needed libraries from which the file itself uses no symbol (ldd -u)"},
			{Name: "undefined", Usage: "also list the symbols that nothing loaded at start defines (ldd -r)"},
			{Name: "versions", Usage: "also list the symbol versions that each file needs, and from which file (ldd -v)"},
			{Name: "dot", Usage: "print a graph for Graphviz"},
			gpu.For,
			command.RootFlag, loading.AssumeDriver, loading.CPU, loading.ReadsNote, command.JSONFlag,
			command.VerboseFlag("show all of a directory, and also follow names that a library might open"),
			command.QuietFlag("do not list the places searched for missing libraries"),
		}, flags.Search...),
		Action: session.With(func(s *session.Session, c *command.Line) error {
			if c.Int("depth") < 0 {
				return command.Misusef("--depth %d: a number of levels", c.Int("depth"))
			}
			symbols := explain.Symbols{Unused: c.Bool("unused"), Undefined: c.Bool("undefined"), Versions: c.Bool("versions")}
			if symbols.Any() && (c.Bool("dot") || c.String("lib") != "") {
				return command.Misusef(
					"--unused, --undefined and --versions apply to whole files and cannot be combined with --dot or --lib")
			}
			search, err := loading.Options(c)
			if err != nil {
				return err
			}
			gpus, err := gpu.Targets(s, c, gpu.General)
			if err != nil {
				return err
			}
			for i, file := range s.Paths {
				if search.Root == "" {
					s.Paths[i] = inPath(file)
				}
			}
			for _, name := range loading.LoaderVariables[:6] {
				given := slices.ContainsFunc(c.StringSlice("env"), func(e string) bool {
					return e == name || strings.HasPrefix(e, name+"=")
				})
				value := os.Getenv(name)
				if name == "GLIBC_TUNABLES" && !strings.Contains(value, "glibc.cpu.hwcap") { // nothing of the search
					continue
				}
				if value != "" && !given && search.Root == "" {
					s.Log.Infof("%s is set in the environment but not used: --env %s uses it", name, name)
				}
			}
			// What GPU code is for is a part of a sum.
			if search.Opened = !c.Bool("no-dlopen"); gpus != nil || slices.ContainsFunc(s.Paths, starts.MayBePlace) {
				search.Look = explain.Look
			}
			l, err := loader.New(search)
			if err != nil {
				return err
			}
			system := explain.New(l, explain.Options{GPUs: gpus, Symbols: symbols.Undefined, NoOpen: c.Bool("no-dlopen"),
				Guess: s.Verbose,
				Layout: explain.Layout{DriverLink: c.String("driver-link"), Compat: c.String("compat"),
					StubDirs: flags.StubDirs(c), Assumed: c.String("assume-driver"),
					CompatVerdict: host.CompatJudge(c.String("root"), c.String("assume-driver"))}})
			return runExplain(s, explainOptions{System: system, symbols: symbols, lib: c.String("lib"), dot: c.Bool("dot"),
				all: c.Bool("all"), depth: c.Int("depth")})
		}),
	}
}

// inPath returns the program that a word without a slash is the name of, where there is no such file.
func inPath(word string) string {
	if _, err := os.Lstat(word); err != nil && !strings.Contains(word, "/") {
		if file, err := exec.LookPath(word); err == nil {
			return file
		}
	}
	return word
}

// explainOptions are explain's own.
type explainOptions struct {
	*explain.System
	symbols explain.Symbols
	lib     string // tell only of this library
	dot     bool
	all     bool // of the tree, see treeStyle
	depth   int
	// beside is the provider of what is missing, among the files that are named together.
	beside func(name, near string, fits func(file string) bool) string
}

// explained ends the JSON document of explain.
type explained struct {
	Files   int `json:"files"`
	Failed  int `json:"failed"`  // could not be examined
	Missing int `json:"missing"` // libraries not found
}

// answer is what explain has to say of one file, and one element of "files" in its JSON document.
type answer struct {
	session.Report
	*explain.File
	// Sum sums up what a directory holds, or an interpreter of Python may import.
	Sum     *places.Sum   `json:"sum,omitempty"`
	its     *explain.Case // only for a graph
	text    bytes.Buffer
	missing int
	bad     bool
}

// runExplain explains the session's files. It returns command.ErrFailed where a file
// could not be examined, or would not start.
func runExplain(s *session.Session, o explainOptions) error {
	var at atomic.Pointer[string] // the argument that was begun last
	defer s.Progress(func() string {
		if path := at.Load(); path != nil {
			return "looking at " + *path
		}
		return ""
	})()
	t := s.Telling()
	out := bufio.NewWriterSize(s.Stdout, 64<<10)
	var sum explained
	var graph []*explain.Case
	bad := false
	tell := func(a *answer) {
		sum.Files++
		sum.Missing += a.missing
		bad = bad || a.bad
		if a.Action == tree.Failed {
			out.Flush()
		}
		t.File(a)
		switch {
		case o.dot && a.its != nil:
			graph = append(graph, a.its)
		case a.text.Len() > 0:
			if sum.Files > 1 {
				out.WriteByte('\n')
			}
			out.WriteString(command.Signs(a.text.String()))
		}
	}
	o.beside = explain.Among(o.Loader, s.Paths)
	inorder.Do(s.Jobs, len(s.Paths), func(i int) *answer {
		at.Store(&s.Paths[i])
		return o.explain(s, s.Paths[i])
	}, tell)
	out.Flush()
	sum.Failed = t.Sum.Failed
	err := t.End(&sum, "")
	if !s.JSON && o.dot {
		writeGraph(s.Stdout, graph)
	}
	if err == nil && (bad || sum.Missing > 0) {
		err = command.ErrFailed
	}
	return err
}

// explain explains one file. It runs in several goroutines.
func (o *explainOptions) explain(s *session.Session, arg string) *answer {
	a := &answer{Report: session.NewReport(arg, nil), File: &explain.File{
		Libraries: []explain.Library{}, Driver: []explain.Verdict{}}}
	if o.sum(s, a, arg) {
		return a
	}
	state, err := starts.Begin(o.Loader, o.Loader.Path(arg), starts.Wrappers)
	if err != nil {
		a.Fail(err)
		a.Line = err.Error() + hint(o.Loader, arg, err)
		return a
	}
	its, load := o.Case(state), state.Load
	its.Provider = o.beside
	var only *loader.Object
	var found []finding.Finding
	if load.Role != loader.Static {
		its.Follow()
		if o.lib != "" {
			only = its.Find(o.lib)
		}
		found = slices.DeleteFunc(its.Conclusions(), func(c finding.Finding) bool { return only != nil && !c.About(only.Name, only.Path) })
		worst := func(c *finding.Finding) int {
			if c.Stops() {
				return -9
			}
			return -c.Severity.Rank()
		}
		sort.SliceStable(found, func(i, j int) bool { return worst(&found[i]) < worst(&found[j]) })
		a.missing = len(load.Missing())
		a.bad = a.bad || load.Stops() != "" || only != nil && only.Fails() != "" ||
			slices.ContainsFunc(found, func(c finding.Finding) bool { return c.Stops() })
	}
	var symbols explain.File
	if err := o.symbols.Answer(&symbols, load); err != nil {
		a.Fail(err)
	}
	a.bad = a.bad || len(symbols.Unused) > 0 || len(symbols.Undefined) > 0
	switch {
	case s.JSON:
		f := explain.Describe(its)
		a.File = f
		f.Unused, f.Undefined, f.Versions, f.Findings = symbols.Unused, symbols.Undefined, symbols.Versions, found
		if o.GPUs != nil {
			f.GPUCode = explain.GPUCodes(found)
		}
		if only != nil {
			f.Only(only)
		}
		list := session.EntriesOf(runpath.Parse(f.RunPath))
		a.Report.Tag, a.Before, a.After = f.Tag, list, list
		if f.Reason != "" && a.Action != tree.Failed {
			a.Action, a.Report.Reason, a.Level = tree.Skipped, f.Reason, logrus.TraceLevel
		}
	case o.dot:
		a.its = its
	default:
		writeTree(&a.text, its, found, treeStyle{ink: s.Ink, tries: !s.Quiet, all: o.all, depth: o.depth, only: only})
		writeSymbols(&a.text, &symbols)
	}
	return a
}

// hint says how to go on with a script, which the loader does not load.
func hint(l *loader.Loader, arg string, err error) string {
	if !errors.Is(err, elfimage.ErrNotELF) {
		return ""
	}
	f, _, err := regular.Open(arg)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	program, byEnv := wrapper.Interpreter(text[:min(len(text), 256)])
	start := starts.Behind(l, l.Path(arg), starts.Wrappers)
	switch {
	case start.Script != "": // Python is a version manager's script, or this would have been examined
		byEnv = cmp.Or(byEnv, "python3")
	case program == "":
		return ""
	case len(start.Via) > 0:
		program, byEnv = start.File, ""
	}
	see := ": see " + remedy.Quote("runpath", "explain", program)
	switch root := l.Host(""); {
	case byEnv != "" && root != "":
		see = " for " + byEnv
	case start.Script != "":
		see = `: see runpath explain "$(` + remedy.Quote(byEnv, "-c", "import sys; print(sys.executable)") + `)"`
	case byEnv != "":
		see = `: see runpath explain "$(command -v ` + remedy.Quote(byEnv) + `)"`
	case root != "":
		see = ": see " + remedy.Quote("runpath", "explain", "--root", root, l.Host(program))
	}
	return " but a script" + see + "; for calls that open the driver by name, " + remedy.Quote("runpath", "scripts", arg)
}

// writeSymbols prints what was asked of symbols.
func writeSymbols(w *bytes.Buffer, f *explain.File) {
	for _, name := range f.Unused {
		fmt.Fprintf(w, "Unused: %s\n", command.Printable(name))
	}
	for _, u := range f.Undefined {
		name := u.Symbol
		if u.Version != "" {
			name += "@" + u.Version
		}
		fmt.Fprintf(w, "Undefined: %s, in %s\n", command.Printable(name), command.Printable(u.Path))
	}
	for _, v := range f.Versions {
		from := "not found"
		if v.From != nil {
			from = *v.From
		}
		fmt.Fprintf(w, "Version: %s needs %s (%s) → %s\n", command.Printable(v.Path), command.Printable(v.Library),
			command.Printable(v.Version), command.Printable(from))
	}
}
