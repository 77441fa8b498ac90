package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/tree"
)

// ExitStatus ends a tool's description.
const ExitStatus = "\n\nExit status: 0 if all is well, 1 if something failed or a check found something, " +
	"2 for a usage error."

// tune adapts Go's run time to a walk. Both settings stop and start all of the process's
// threads, which for one file would take as long as the edit.
func tune(jobs int) {
	if jobs < runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(jobs)
	}
	// A run allocates little and ends soon: collecting garbage from 4 MB on, as is
	// the default, would take longer than the work on a thousand files.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}

// OneFile reports whether the arguments are one, and that not a directory.
func OneFile(paths []string) bool {
	if len(paths) != 1 {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(paths[0], &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

// Session is one run of a tool: its common flags, its paths, its log.
type Session struct {
	Context context.Context
	Paths   []string
	JSON    bool
	// Document says that stdout takes another document than JSON's, and no text.
	Document bool
	told     bool // a JSON document was begun
	// Refuse refuses what is in a finished path of a store; nil in a dry run, and for what does not edit.
	Refuse tree.Refuse
	// Tolerant makes a malformed file a warning.
	Tolerant bool
	// InPackage makes fixes what the author of a Nix package writes.
	InPackage bool
	// Hooks are those of the build, as [finding.Finding.FixInPackage] has them.
	Hooks   []string
	DryRun  bool
	Verbose bool
	Quiet   bool
	Jobs    int
	Stdout  io.Writer
	Ink     command.Ink // for stdout
	Log     *logrus.Logger
}

// With returns an action on the session of a command line whose arguments are files.
func With(do func(*Session, *command.Line) error) func(*command.Line) error {
	return func(c *command.Line) error {
		s, err := Start(c, c.Args)
		if err != nil {
			return err
		}
		return do(s, c)
	}
}

// Named reports whether a file is an argument.
func (s *Session) Named(path string) bool { return slices.Contains(s.Paths, path) }

// Singled reports whether a file is one of few arguments, and not of those that find(1) makes: whoever names it is told
// why it is skipped.
func (s *Session) Singled(path string) bool { return len(s.Paths) <= listed && s.Named(path) }

// Start reads the common flags. paths are the arguments that name files or
// directories; there must be one.
func Start(c *command.Line, paths []string) (*Session, error) {
	s := &Session{
		Context:   c.Context,
		Paths:     paths,
		JSON:      c.Bool("json"),
		DryRun:    c.Bool("dry-run"),
		Verbose:   c.Bool("verbose"),
		Quiet:     c.Bool("quiet"),
		Jobs:      c.Int("jobs"),
		InPackage: c.Bool("nix"),
		Hooks:     c.StringSlice("hook"),
		Tolerant:  c.String("malformed") == "warn",
		Stdout:    c.Stdout,
		Ink:       command.InkFor(c.Stdout),
	}
	switch {
	case len(paths) == 0:
		return nil, command.Misuse("no file or directory is given" + c.Swallowed())
	case s.Verbose && s.Quiet:
		return nil, command.Misuse("--verbose and --quiet exclude each other")
	case s.Jobs < 0:
		return nil, command.Misusef("--jobs %d: want a number of files, or 0 for one per processor", s.Jobs)
	}
	for _, p := range paths {
		if p == "" {
			return nil, command.Misuse("a path is empty")
		}
	}
	if s.Jobs < 1 {
		s.Jobs = runtime.GOMAXPROCS(0)
	}
	if !s.DryRun && !c.Bool("even-in-store") {
		s.Refuse = store.On(c.String("store"), os.Getenv("NIX_STORE")).Refuse
	}
	if !OneFile(paths) {
		tune(s.Jobs)
	}
	s.Log = NewLog(c.Stderr, s.Verbose, s.Quiet)
	s.warnOfTypos(c)
	return s, nil
}

// writtenEntries returns the entries that a command line asks to write.
func writtenEntries(c *command.Line) (entries []string) {
	list := c.String("run-path")
	if slices.Contains([]string{"set", "add"}, c.Command) {
		list = c.Arg(0)
	}
	entries = slices.Concat(runpath.Parse(list), c.StringSlice("add-entry"), c.StringSlice("append-rpaths"),
		c.StringSlice("runtime-dependencies"), []string{c.String("driver-link"), c.String("compat")})
	for _, pair := range c.StringSlice("replace-entry") {
		_, to, _ := strings.Cut(pair, "=")
		entries = append(entries, runpath.Parse(to)...)
	}
	return entries
}

// warnOfTypos says which of the named directories can hardly be meant. That of the driver link
// is on the host that the files are for, which may be another one.
func (s *Session) warnOfTypos(c *command.Line) {
	for _, entry := range writtenEntries(c) {
		if why := runpath.Doubt(entry); entry != "" && why != "" {
			s.Log.Warnf("entry %q %s; runpath audit reports it as an error", entry, why)
		}
	}
	if link := runpath.Key(c.String("driver-link")); link+"/lib" == driver.Link || link+"/lib" == driver.Link32 {
		s.Log.Warnf("--driver-link %s: the driver's libraries are in %s/lib", c.String("driver-link"), link)
	}
	if c.String("root") != "" {
		return
	}
	check := func(flag string, dirs ...string) {
		for _, dir := range dirs {
			if dir == "" || dir[0] == '$' {
				continue
			}
			if st, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				s.Log.Warnf("--%s %s: there is no such directory", flag, dir)
			} else if err == nil && !st.IsDir() {
				s.Log.Warnf("--%s %s: it is a file, not a directory", flag, dir)
			}
		}
	}
	check("compat", c.String("compat"))
	check("assume-driver", c.String("assume-driver"))
	if !c.Bool("in-build") { // nixpkgs names every input's
		check("libs", c.StringSlice("libs")...)
	}
}

// Leftover says that a copy left by a killed edit was removed; see [tree.Options].
// A dry run leaves it.
func (s *Session) Leftover() func(path string, err error) {
	if s.DryRun {
		return nil
	}
	return func(path string, err error) {
		log := s.Log.WithField("path", path)
		if err != nil {
			log.Errorf("is a copy left by a killed edit and cannot be removed: %v", err)
			return
		}
		log.Warn("was a copy left by a killed edit; removed")
	}
}
