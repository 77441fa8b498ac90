package hostdriver

import (
	"bufio"
	"fmt"
	"path"
	"path/filepath"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host/install"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/host/nixconf"
	"cuda-runpath/pkg/host/private"
	"cuda-runpath/pkg/host/sandbox"
)

const nixConf = "/etc/nix/nix.conf"

var copiesFlag = &command.Flag{Kind: command.String, Name: "cache",
	Usage: "keep copies of the driver's libraries in `DIR`, where they are needed", DefaultText: "~/.cache/hostDriver"}

var sandboxCommand = &command.Command{
	Name:      "sandbox",
	Usage:     "give the GPU to Nix builds that ask for it",
	Examples:  `sudo "$(command -v hostDriver)" sandbox`,
	Common:    []string{"dry-run", "conf", "from", "program", "cache"},
	ArgsUsage: "[DERIVATION [ROOT]]",
	Description: `Without DERIVATION it sets Nix up: it adds lines to the end of nix.conf, where they add to the
system features, and what is there stays; and because Nix wants a program without arguments, it writes a script
hostDriver-sandbox beside it. --dry-run prints them. Then restart the daemon: systemctl restart nix-daemon.

With DERIVATION it is a pre-build-hook of Nix: for a derivation whose requiredSystemFeatures has cuda, gpu, nvidia-gpu
or opengl, it prints the GPU's devices and the driver link, with the files that the links lead to, as paths that the
sandbox is to show; for any other it prints nothing. An error fails only a build that asks for a GPU.`,
	Flags: []*command.Flag{prefixFlag, rootFlag, machineFlag, fromFlag, copiesFlag,
		{Kind: command.String, Name: "conf", Default: nixConf, Usage: "nix.conf is `FILE`"},
		programFlag, dryRunFlag,
		{Name: "configure", Usage: "set Nix up, as without DERIVATION"},
		{Name: "write", Usage: "what is done without --dry-run", Hidden: true}},
	Action: func(l *command.Line) error {
		if l.Bool("configure") || len(l.Args) == 0 {
			return configure(l)
		}
		if len(l.Args) > 2 {
			return command.Misuse("a derivation is needed, as Nix passes it to a pre-build-hook")
		}
		drv, err := sandbox.ReadDerivation(l.Arg(0), l.Arg(1))
		asks := false
		if err == nil {
			asks, err = sandbox.AsksForGPU(drv)
		}
		if err != nil {
			complain(l, "%s: cannot find out whether it asks for a GPU: %v", l.Arg(0), err)
			return nil
		}
		if !asks {
			return nil
		}
		c, err := about(l)
		if err != nil {
			return err
		}
		paths, err := c.visible()
		if err != nil {
			return fmt.Errorf("%s asks for a GPU: %w", path.Base(c.Arg(0)), err)
		}
		w := bufio.NewWriter(c.Stdout)
		fmt.Fprintln(w, "extra-sandbox-paths")
		for _, p := range paths {
			fmt.Fprintln(w, p)
		}
		fmt.Fprintln(w)
		return w.Flush()
	},
}

// visible returns what a build or a container is to see.
func (c *call) visible() ([]sandbox.Path, error) {
	return sandbox.Paths(c.host, c.machine, c.prefix, func() (*private.Cache, error) {
		cache, err := private.OpenCache(c.String("cache"))
		if err == nil {
			cache.Warn = c.complain
		}
		return cache, err
	})
}

func configure(l *command.Line) error {
	if err := noArguments(l); err != nil {
		return err
	}
	c, err := about(l)
	if err != nil {
		return err
	}
	conf := c.String("conf")
	if c.host.Root.IsHost() {
		if conf, err = filepath.Abs(conf); err != nil {
			return err
		}
	} else if !path.IsAbs(conf) {
		return command.Misusef("--conf %q: with --root, an absolute path is needed", conf)
	}
	for _, at := range []string{path.Join(path.Dir(conf), nixconf.Hook), conf} {
		if _, err := c.host.Root.Readlink(at); err == nil && !c.host.Root.Exists(at) {
			continue // which is said of it below
		}
		if err := c.host.Trusted(at); err != nil {
			return fmt.Errorf("%s, which names what every build starts: %w", at, err)
		}
	}
	program, err := install.ChooseProgram(c.host, c.String("program"), "sandbox")
	if err != nil {
		return err
	}
	hook := sandbox.HookFile(conf, program.Path)
	if c.Bool("dry-run") {
		c.printFiles(append(program.Needs(), hook, made.File{Path: conf, Text: nixconf.Lines(hook.Path)})...)
		return nil
	}
	file, changed, err := sandbox.Configure(c.host, conf, hook, program.Needs()...)
	if err != nil {
		return needsRoot(err, "")
	}
	file = command.Printable(c.host.Root.Path(file))
	if changed {
		_, err = fmt.Fprintf(c.Stdout, "%s: written; now: systemctl restart nix-daemon\n", file)
	} else {
		_, err = fmt.Fprintf(c.Stdout, "%s: unchanged\n", file)
	}
	return err
}
