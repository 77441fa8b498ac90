package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// Version is what --version prints; builds set it with
// -ldflags '-X cuda-runpath/pkg/cli.Version=1.2.3'.
var Version = ""

// Address is where the program comes from, an absolute URL, which SARIF names; builds
// set it as they set Version. Without it, it is the module's, where that has one.
var Address = ""

func address() string {
	if info, ok := debug.ReadBuildInfo(); ok && Address == "" {
		if host, _, _ := strings.Cut(info.Main.Path, "/"); strings.Contains(host, ".") {
			return "https://" + info.Main.Path
		}
	}
	return Address
}

func version() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Exit statuses.
const (
	statusOK      = 0
	statusFailed  = 1 // something failed, or a check found something
	statusMisused = 2 // usage error
)

// ErrFailed makes the exit status 1. What failed has been reported already.
var ErrFailed = errors.New("something failed")

// Misuse is a wrong command line.
type Misuse string

func (m Misuse) Error() string { return string(m) }

// Misusef makes a Misuse.
func Misusef(format string, args ...any) error { return Misuse(fmt.Sprintf(format, args...)) }

// misuseOf is a Misuse, and the command whose help has the answer: "runpath needed add".
type misuseOf struct {
	error
	command string
}

func (m *misuseOf) Unwrap() error { return m.error }

// of returns the error of a command, which a Misuse is to name.
func of(c *cli.Command, err error) error {
	var misuse Misuse
	var known *misuseOf
	if c.HelpName == "" || !errors.As(err, &misuse) || errors.As(err, &known) {
		return err
	}
	return &misuseOf{err, c.HelpName}
}

// exitStatus ends a tool's description.
const exitStatus = "\n\nExit status: 0 if all is well, 1 if something failed or a check found something, 2 for a usage error."

// New returns an app that answers to its flags as every binary here does:
// --help, --version, completion, and hidden --man (the man page, section 1) and
// --completion bash|zsh|fish (the completion script), for packages to install.
// args is what stands after the flags in the synopsis.
func New(name, args, usage, description string) *cli.App {
	cli.VersionFlag = &cli.BoolFlag{Name: "version", DisableDefaultText: true, Usage: "print the version"}
	cli.VersionPrinter = func(c *cli.Context) { _ = printVersion(c.App) }
	app := &cli.App{
		Name:                      name,
		HelpName:                  name,
		Usage:                     usage,
		ArgsUsage:                 args,
		UsageText:                 name + " [flags] " + args,
		Description:               strings.TrimSpace(description),
		Version:                   version(),
		HideHelpCommand:           true,
		EnableBashCompletion:      true,
		UseShortOptionHandling:    true,
		DisableSliceFlagSeparator: true, // a list flag is repeated; file names may hold commas
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return Misuse(err.Error()) },
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "man", Hidden: true, DisableDefaultText: true, Usage: "print the man page"},
			&cli.StringFlag{Name: "completion", Hidden: true, Usage: "print the completion script for `SHELL`"},
		},
	}
	// Reached where an app is made of commands and none of them is named.
	app.Action = noCommand
	app.Before = func(c *cli.Context) error {
		done, err := document(c)
		if err == nil && done {
			err = errDone
		}
		return err
	}
	return app
}

var errDone = errors.New("done")

func noCommand(c *cli.Context) error {
	if c.Args().Present() {
		return Misusef("there is no command %q", c.Args().First())
	}
	return Misuse("no command is given")
}

// Main runs an app on the process's arguments and exits.
func Main(app *cli.App) {
	os.Exit(Run(app, os.Args, os.Stdout, os.Stderr))
}

// Run runs an app and returns the exit status. Flags may come before or after
// the arguments; "--" ends them. A func([]string) ([]string, error) in the app's
// Metadata under "arguments" is given the command line first, and returns it in this form.
func Run(app *cli.App, args []string, stdout, stderr io.Writer) (status int) {
	if completes(args) {
		defer func() {
			if recover() != nil { // cli, after a flag that it does not know
				status = statusMisused
			}
		}()
	}
	app.Writer, app.ErrWriter = stdout, stderr
	inherit(app, app.Commands)
	ctx := &untilSignal{}
	defer ctx.end()
	err := error(nil)
	if translate, ok := app.Metadata["arguments"].(func([]string) ([]string, error)); ok && !completes(args) {
		args, err = translate(args)
	}
	if err == nil {
		args = flagsFirst(app.Flags, app.Commands, args)
		if action := plain(ctx, app, args); action != nil {
			err = action()
		} else {
			err = app.RunContext(ctx.listen(), args)
		}
	}
	var misuse Misuse
	switch {
	case err == nil, errors.Is(err, errDone):
		return statusOK
	case errors.Is(err, ErrFailed):
		return statusFailed
	case errors.As(err, &misuse):
		command := app.Name
		if of := (*misuseOf)(nil); errors.As(err, &of) {
			command = of.command
		}
		fmt.Fprintf(stderr, "%s: %s (see %s --help)\n", app.Name, oneLine(err), command)
		return statusMisused
	}
	fmt.Fprintf(stderr, "%s: %s\n", app.Name, oneLine(err))
	return statusFailed
}

// untilSignal is a context that ends with the first signal that asks the process to
// end. It listens from when it is first asked. The tools ask before they write: until
// then there is nothing to finish, and a signal ends the process.
type untilSignal struct {
	once sync.Once
	ctx  context.Context
	stop context.CancelFunc
}

func (u *untilSignal) listen() context.Context {
	u.once.Do(func() {
		u.ctx, u.stop = signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
		context.AfterFunc(u.ctx, u.stop) // a second signal ends the process at once
	})
	return u.ctx
}

func (u *untilSignal) end() {
	if u.stop != nil {
		u.stop()
	}
}

func (u *untilSignal) Deadline() (time.Time, bool) { return time.Time{}, false }
func (u *untilSignal) Done() <-chan struct{}       { return u.listen().Done() }
func (u *untilSignal) Err() error                  { return u.listen().Err() }
func (u *untilSignal) Value(key any) any           { return u.listen().Value(key) }

// oneLine is what an error says, as it can stand in a line for a terminal.
func oneLine(err error) string { return Printable(strings.ReplaceAll(err.Error(), "\n", "; ")) }

// inherit gives commands what they do not inherit from the app in cli. With a help
// command of its own, "runpath remove help" would not touch the file of that name.
func inherit(app *cli.App, commands []*cli.Command) {
	for _, c := range commands {
		c.HideHelpCommand, c.UseShortOptionHandling = true, true
		c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error { return of(ctx.Command, Misuse(err.Error())) }
		if action := c.Action; action != nil {
			c.Action = func(ctx *cli.Context) error { return of(ctx.Command, action(ctx)) }
		}
		inherit(app, c.Subcommands)
	}
}

// completes reports whether a shell asks which words fit; see bashCompletion.
func completes(args []string) bool {
	return len(args) > 0 && args[len(args)-1] == "--generate-bash-completion"
}

// takesValue reports whether a value follows the flag of a name.
func takesValue(flags []cli.Flag, name string) bool {
	for _, f := range flags {
		if d, ok := f.(cli.DocGenerationFlag); ok && slices.Contains(names(f), name) {
			return d.TakesValue()
		}
	}
	return false
}

// flagsFirst moves flags before the arguments, which is where cli looks for them.
func flagsFirst(flags []cli.Flag, commands []*cli.Command, args []string) []string {
	if len(args) == 0 || completes(args) {
		return args
	}
	ordered, rest := []string{args[0]}, []string(nil)
	for i := 1; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			if commands != nil {
				// The name of a command: what follows belongs to it.
				for _, c := range commands {
					if c.HasName(arg) {
						return append(ordered, flagsFirst(c.Flags, c.Subcommands, args[i:])...)
					}
				}
				return append(ordered, args[i:]...)
			}
			rest = append(rest, arg)
			continue
		}
		ordered = append(ordered, arg)
		name := strings.TrimLeft(arg, "-") // "flag=value" is no flag's name
		if takesValue(flags, name) {
			if i++; i == len(args) {
				return ordered // cli says that the value is missing; "--" would pass for it
			}
			ordered = append(ordered, args[i])
		}
	}
	return append(append(ordered, "--"), rest...)
}

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

// oneFile reports whether the arguments are one, and that not a directory.
func oneFile(paths []string) bool {
	if len(paths) != 1 {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(paths[0], &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

// session is one run of a tool: its common flags, its paths, its log.
type session struct {
	Context context.Context
	Name    string
	Paths   []string
	JSON    bool
	DryRun  bool
	Copy    bool // see tree.Options
	// Tolerant makes a malformed file a warning.
	Tolerant bool
	// InPackage makes fixes what the author of a Nix package writes.
	InPackage bool
	Verbose   bool
	Quiet     bool
	Jobs      int
	Stdout    io.Writer
	Log       *logrus.Logger
}

// start reads the common flags. paths are the arguments that name files or
// directories; there must be one.
func start(c *cli.Context, paths []string) (*session, error) {
	s := &session{
		Context:   c.Context,
		Name:      c.App.Name,
		Paths:     paths,
		JSON:      c.Bool("json"),
		DryRun:    c.Bool("dry-run"),
		Copy:      c.Bool("copy"),
		Verbose:   c.Bool("verbose"),
		Quiet:     c.Bool("quiet"),
		Jobs:      c.Int("jobs"),
		InPackage: c.Bool("nix-build"),
		Stdout:    c.App.Writer,
	}
	switch malformed := c.String("malformed"); malformed {
	case "", "fail":
	case "warn":
		s.Tolerant = true
	default:
		return nil, Misusef("--malformed %q: fail or warn", malformed)
	}
	switch {
	case len(paths) == 0:
		return nil, Misuse("no file or directory is given")
	case s.Verbose && s.Quiet:
		return nil, Misuse("--verbose and --quiet exclude each other")
	case s.Jobs < 0:
		return nil, Misusef("--jobs %d: want a number of files, or 0 for one per processor", s.Jobs)
	}
	for _, p := range paths {
		if p == "" {
			return nil, Misuse("a path is empty")
		}
	}
	if s.Jobs < 1 {
		s.Jobs = runtime.GOMAXPROCS(0)
	}
	if !oneFile(paths) {
		tune(s.Jobs)
	}
	s.Log = newLog(c.App.ErrWriter, s.Verbose, s.Quiet)
	return s, nil
}
