package hostdriver

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
)

var (
	rootFlag    = command.RootFlag
	machineFlag = &command.Flag{Kind: command.String, Name: "machine",
		Usage: "for programs of machine `NAME`: x86_64, i386, aarch64, ...", DefaultText: "the system's"}
	fromFlag = &command.Flag{Kind: command.List, Name: "from",
		Usage: "take the driver from `DIR` and nowhere else (repeatable)"}
	prefixFlag = &command.Flag{Kind: command.String, Name: "prefix", Default: host.DefaultPrefix,
		Usage: "`DIR` is what programs see as " + host.DefaultPrefix}
	besideFlag = &command.Flag{Name: "beside", Usage: "work on " + host.BesidePrefix +
		", to which another module that owns the driver link makes links"}
	stateFlag = &command.Flag{Kind: command.String, Name: "state-dir",
		Usage: "the copies are in `DIR`, on a disk, and what programs see leads there", DefaultText: host.StateDir}
	gpuFlag = &command.Flag{Kind: command.String, Name: "for",
		Usage:       "the GPUs are those of `LIST`: 9.0,12.0, or names such as H100",
		DefaultText: "what nvidia-smi or the PCI bus says"}
	jsonFlag    = command.JSONFlag
	dryRunFlag  = command.DryRunFlag
	verboseFlag = command.VerboseFlag("also say what was not used, and why")
	quietFlag   = command.QuietFlag("report problems only")
)

// call is a command line that is about a host.
type call struct {
	*command.Line
	host    *host.Host
	machine host.Machine
	prefix  string // the directory that stands for /run/opengl-driver
}

// on returns the action of a command that takes no arguments.
func on(do func(*call) error) func(*command.Line) error {
	return func(l *command.Line) error {
		if err := noArguments(l); err != nil {
			return err
		}
		c, err := about(l)
		if err != nil {
			return err
		}
		return do(c)
	}
}

// about reads which host and machine the flags ask for.
func about(l *command.Line) (c *call, err error) {
	c = &call{Line: l, host: &host.Host{},
		prefix: path.Clean(l.String("prefix"))}
	if l.IsSet("prefix") && (!path.IsAbs(c.prefix) || c.prefix == "/") {
		return nil, command.Misusef("--prefix %q: an absolute path is needed", l.String("prefix"))
	}
	if l.Bool("beside") {
		if l.IsSet("prefix") {
			return nil, command.Misuse("--beside and --prefix name two places")
		}
		c.prefix = host.BesidePrefix
	}
	if dir := l.String("state-dir"); dir != "" {
		if !path.IsAbs(dir) || path.Clean(dir) == "/" {
			return nil, command.Misusef("--state-dir %q: an absolute path is needed", dir)
		}
	}
	if l.IsSet("root") {
		if c.host.Root, err = sysroot.Open(l.String("root")); errors.Is(err, unix.ENOTDIR) {
			err = command.Misusef("--root %s: not a directory", l.String("root"))
		}
		if err != nil {
			return nil, err
		}
	}
	c.host.From = l.StringSlice("from")
	for _, dir := range c.host.From {
		if !path.IsAbs(dir) {
			return nil, command.Misusef("--from %q: not an absolute path", dir)
		}
	}
	if l.IsSet("machine") {
		if c.machine, err = host.MachineNamed(l.String("machine")); err != nil {
			err = command.Misusef("--machine: %v", err)
		}
		return c, err
	}
	c.machine, err = host.MachineOf(c.host.Root)
	return c, err
}

func noArguments(c *command.Line) error {
	if len(c.Args) > 0 {
		return command.Misusef("%s takes no arguments: %q", c.Command, c.Arg(0))
	}
	return nil
}

// printJSON writes one JSON document, a field a key of fields, with its version.
func (c *call) printJSON(fields map[string]any) error {
	fields["version"] = 2
	b, err := command.JSON(fields, "  ")
	if err == nil {
		_, err = c.Stdout.Write(append(b, '\n'))
	}
	return err
}

// drivers finds the driver for the machine that the caller named, or for all of the host's programs.
func (c *call) drivers(h *host.Host) ([]*host.Driver, error) {
	if !c.IsSet("machine") {
		return h.FindAll(c.machine)
	}
	d, err := h.Find(c.machine)
	return []*host.Driver{d}, err
}

func complain(l *command.Line, format string, args ...any) {
	// Names and link targets may hold anything; none of it is for the terminal to obey.
	fmt.Fprintln(l.Stderr, "hostDriver: "+command.Printable(fmt.Sprintf(format, args...)))
}

func (c *call) complain(format string, args ...any) { complain(c.Line, format, args...) }
