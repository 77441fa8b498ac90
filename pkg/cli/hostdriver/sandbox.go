package hostdriver

import (
	"bufio"
	"fmt"
	"path"
	"path/filepath"

	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/host"
)

const nixConf = "/etc/nix/nix.conf"

var sandbox = &urfave.Command{
	Name:      "sandbox",
	Usage:     "give the GPU to Nix builds that ask for it",
	ArgsUsage: "DERIVATION [ROOT]",
	Description: `A pre-build-hook of Nix: for a derivation whose requiredSystemFeatures has cuda, gpu, nvidia-gpu or opengl, it prints the GPU's
devices and the driver link, with the files that the links lead to, as paths that the sandbox is to show; for any other it prints nothing. An
error fails only a build that asks for a GPU.

--configure prints the lines for nix.conf and, because Nix wants a program without arguments, a script hostDriver-sandbox beside it.
--write puts them there: the lines at the end, where they add to the system features, and what is there stays. Then restart the
daemon: systemctl restart nix-daemon.`,
	Flags: []urfave.Flag{prefixFlag, rootFlag, machineFlag, fromFlag,
		&urfave.StringFlag{Name: "cache", Usage: "keep copies of the driver's libraries in `DIR`, where they are needed", DefaultText: "~/.cache/hostDriver"},
		&urfave.BoolFlag{Name: "configure", DisableDefaultText: true, Usage: "print the lines for nix.conf"},
		&urfave.BoolFlag{Name: "write", DisableDefaultText: true, Usage: "with --configure: write them"},
		&urfave.StringFlag{Name: "conf", Value: nixConf, Usage: "with --configure: nix.conf is `FILE`"},
		&urfave.StringFlag{Name: "program", Usage: "with --configure: the hook starts `FILE`", DefaultText: "this program"}},
	Action: func(c *urfave.Context) error {
		if c.Bool("configure") {
			return configure(c)
		}
		if c.NArg() < 1 || c.NArg() > 2 {
			return cli.Misuse("a derivation is needed, as Nix passes it to a pre-build-hook")
		}
		drv, err := host.ReadDerivation(c.Args().Get(0), c.Args().Get(1))
		asks := false
		if err == nil {
			asks, err = host.AsksForGPU(drv)
		}
		if err != nil {
			complain(c, "%s: cannot find out whether it asks for a GPU: %v", c.Args().First(), err)
			return nil
		}
		if !asks {
			return nil
		}
		at, err := prefix(c)
		if err != nil {
			return err
		}
		h, m, err := system(c)
		if err != nil {
			return err
		}
		paths, err := h.Sandbox(m, at, func() (*host.Cache, error) { return host.OpenCache(c.String("cache")) })
		if err != nil {
			return fmt.Errorf("%s asks for a GPU: %w", path.Base(c.Args().First()), err)
		}
		w := bufio.NewWriter(c.App.Writer)
		fmt.Fprintln(w, "extra-sandbox-paths")
		for _, p := range paths {
			fmt.Fprintln(w, p)
		}
		fmt.Fprintln(w)
		return w.Flush()
	},
}

func configure(c *urfave.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	conf, err := filepath.Abs(c.String("conf"))
	if err != nil {
		return err
	}
	program := c.String("program")
	if program == "" {
		program = thisProgram()
	}
	hook := filepath.Join(filepath.Dir(conf), host.SandboxHook)
	if !c.Bool("write") {
		fmt.Fprintf(c.App.Writer, "# %s, mode 755\n%s\n# %s\n%s", hook, host.Hook(program), conf, host.SandboxConfig(hook))
		return nil
	}
	if err := host.WriteHook(hook, program); err != nil {
		return err
	}
	changed, err := host.WriteSandboxConfig(conf, hook)
	if err != nil {
		return err
	}
	if changed {
		fmt.Fprintf(c.App.Writer, "%s: written; now: systemctl restart nix-daemon\n", cli.Printable(conf))
	} else {
		fmt.Fprintf(c.App.Writer, "%s: unchanged\n", cli.Printable(conf))
	}
	return nil
}
