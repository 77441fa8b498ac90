package hostdriver

import (
	"bufio"
	"cmp"
	"fmt"
	"path"
	"path/filepath"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host/nixconf"
	"cuda-runpath/pkg/host/private"
	"cuda-runpath/pkg/host/sandbox"
)

const nixConf = "/etc/nix/nix.conf"

var copiesFlag = &command.Flag{Kind: command.String, Name: "cache", Usage: "keep copies of the driver's libraries in `DIR`, where they are needed", DefaultText: "~/.cache/hostDriver"}

var sandboxCommand = &command.Command{
	Name:      "sandbox",
	Usage:     "give the GPU to Nix builds that ask for it",
	Examples:  `sudo "$(command -v hostDriver)" sandbox --configure --write`,
	ArgsUsage: "DERIVATION [ROOT]",
	Description: `A pre-build-hook of Nix: for a derivation whose requiredSystemFeatures has cuda, gpu, nvidia-gpu or opengl, it prints the GPU's
devices and the driver link, with the files that the links lead to, as paths that the sandbox is to show; for any other it prints nothing. An
error fails only a build that asks for a GPU.

--configure prints the lines for nix.conf and, because Nix wants a program without arguments, a script hostDriver-sandbox beside it.
--write puts them there: the lines at the end, where they add to the system features, and what is there stays. Then restart the
daemon: systemctl restart nix-daemon.`,
	Flags: []*command.Flag{prefixFlag, rootFlag, machineFlag, fromFlag, copiesFlag,
		{Name: "configure", Usage: "print the lines for nix.conf"},
		{Name: "write", Usage: "with --configure: write them"},
		{Kind: command.String, Name: "conf", Default: nixConf, Usage: "with --configure: nix.conf is `FILE`"},
		{Kind: command.String, Name: "program", Usage: "with --configure: the hook starts `FILE`", DefaultText: "this program"}},
	Action: func(l *command.Line) error {
		if l.Bool("configure") {
			return configure(l)
		}
		if len(l.Args) < 1 || len(l.Args) > 2 {
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

func configure(c *command.Line) error {
	if err := noArguments(c); err != nil {
		return err
	}
	conf, err := filepath.Abs(c.String("conf"))
	if err != nil {
		return err
	}
	program := cmp.Or(c.String("program"), thisProgram())
	hook := filepath.Join(filepath.Dir(conf), nixconf.Hook)
	if !c.Bool("write") {
		fmt.Fprintf(c.Stdout, "# %s, mode 755\n%s\n# %s\n%s", hook, sandbox.Hook(program), conf, nixconf.Lines(hook))
		return nil
	}
	file, changed, err := sandbox.Configure(conf, program)
	if err != nil {
		return err
	}
	if changed {
		fmt.Fprintf(c.Stdout, "%s: written; now: systemctl restart nix-daemon\n", command.Printable(file))
	} else {
		fmt.Fprintf(c.Stdout, "%s: unchanged\n", command.Printable(file))
	}
	return nil
}
