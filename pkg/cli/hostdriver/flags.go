package hostdriver

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
)

var (
	rootFlag    = cli.RootFlag
	machineFlag = &command.Flag{Kind: command.String, Name: "machine", Usage: "for programs of machine `NAME`: x86_64, i386, aarch64, ...", DefaultText: "the system's"}
	fromFlag    = &command.Flag{Kind: command.List, Name: "from", Usage: "take the driver from `DIR` and nowhere else (repeatable)"}
	prefixFlag  = &command.Flag{Kind: command.String, Name: "prefix", Default: host.DefaultPrefix, Usage: "`DIR` is what programs see as " + host.DefaultPrefix}
	gpuFlag     = &command.Flag{Kind: command.String, Name: "gpu", Usage: "the GPUs have the compute capabilities of `LIST`: 9.0,12.0", DefaultText: "what nvidia-smi or the PCI bus says"}
	jsonFlag    = cli.JSONFlag
	dryRunFlag  = cli.DryRunFlag
	verboseFlag = cli.VerboseFlag("also say what was not used, and why")
	quietFlag   = cli.QuietFlag("report problems only")
)

// system returns the host and the machine that the flags ask for.
func system(c *command.Line) (*host.Host, host.Machine, error) {
	h := &host.Host{Program: thisProgram()}
	if c.IsSet("root") {
		var err error
		if h.Root, err = sysroot.Open(c.String("root")); errors.Is(err, unix.ENOTDIR) {
			err = command.Misusef("--root %s: not a directory", c.String("root"))
		}
		if err != nil {
			return nil, host.Machine{}, err
		}
	}
	for _, dir := range c.StringSlice("from") {
		if !path.IsAbs(dir) {
			return nil, host.Machine{}, command.Misusef("--from %q: not an absolute path", dir)
		}
		h.From = append(h.From, dir)
	}
	if c.IsSet("machine") {
		m, err := host.MachineNamed(c.String("machine"))
		if err != nil {
			err = command.Misusef("--machine: %v", err)
		}
		return h, m, err
	}
	m, err := host.MachineOf(h.Root)
	return h, m, err
}

// prefix returns the directory that stands for /run/opengl-driver.
func prefix(c *command.Line) (string, error) {
	p := c.String("prefix")
	if !path.IsAbs(p) || path.Clean(p) == "/" {
		return "", command.Misusef("--prefix %q: an absolute path is needed", p)
	}
	return path.Clean(p), nil
}

// target returns what install, uninstall and tmpfiles work on: the directory that stands
// for /run/opengl-driver, on which host, for which machine. They take no arguments.
func target(c *command.Line) (to string, h *host.Host, m host.Machine, err error) {
	if err = noArguments(c); err != nil {
		return "", nil, m, err
	}
	if to, err = prefix(c); err != nil {
		return "", nil, m, err
	}
	h, m, err = system(c)
	return to, h, m, err
}

func noArguments(c *command.Line) error {
	if len(c.Args) > 0 {
		return command.Misusef("%s takes no arguments: %q", c.Command, c.Arg(0))
	}
	return nil
}

// print writes one JSON document, a field a key of fields, with its version.
func printJSON(c *command.Line, fields map[string]any) error {
	fields["version"] = 1
	b, err := command.JSON(fields, "  ")
	if err == nil {
		_, err = c.Stdout.Write(append(b, '\n'))
	}
	return err
}

// drivers finds the driver for a machine and, where the caller named none and the
// host has one, for the programs of the second kind that run there (i386 on x86-64).
func drivers(c *command.Line, h *host.Host, m host.Machine) ([]*host.Driver, error) {
	d, err := h.Find(m)
	all := []*host.Driver{d}
	if err != nil || c.IsSet("machine") {
		return all, err
	}
	if other, ok := m.Second(); ok {
		switch d, err := h.Find(other); {
		case err == nil:
			all = append(all, d)
		case !errors.Is(err, host.ErrNoDriver):
			return all, err
		}
	}
	return all, nil
}

func complain(c *command.Line, format string, args ...any) {
	// Names and link targets may hold anything; none of it is for the terminal to obey.
	fmt.Fprintln(c.Stderr, "hostDriver: "+command.Printable(fmt.Sprintf(format, args...)))
}
