package hostdriver

import (
	"errors"

	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/host"
)

// notStarted is why run's program could not be started; main tells it by the exit status.
var notStarted error

var run = &urfave.Command{
	Name:      "run",
	Usage:     "start a program with the driver's libraries offered to it alone; needs no root",
	ArgsUsage: "[--] PROGRAM [ARGUMENT...]",
	Description: `The libraries are kept in a private directory: links, and copies with a run path of their own where a library loads others.
Where the kernel lets a user make a mount namespace, the program sees that directory as /run/opengl-driver/lib, and its
environment is left alone. (Inside, set-user-ID programs such as sudo have no effect.) Elsewhere LD_LIBRARY_PATH gets that one
directory.

The exit status is the program's; 127 where it is not found, 126 where it cannot be started.`,
	Flags: []urfave.Flag{
		&urfave.StringFlag{Name: "method", Value: string(host.Auto), Usage: "offer them by `METHOD`: auto, namespace or library-path"},
		&urfave.StringFlag{Name: "cache", Usage: "keep the libraries in `DIR`", DefaultText: "~/.cache/hostDriver"},
		prefixFlag, rootFlag, machineFlag, fromFlag, verboseFlag},
	Action: func(c *urfave.Context) error {
		if c.NArg() == 0 {
			return cli.Misuse("no program is named")
		}
		method := host.Method(c.String("method"))
		if method != host.Auto && method != host.Namespace && method != host.LibraryPath {
			return cli.Misusef("--method %s: auto, namespace or library-path", method)
		}
		at, err := prefix(c)
		if err != nil {
			return err
		}
		h, m, err := system(c)
		if err != nil {
			return err
		}
		log := func(format string, args ...any) {
			if c.Bool("verbose") {
				complain(c, format, args...)
			}
		}
		r := &host.Run{Method: method, Prefix: at, Program: c.Args().Slice(), Log: log}
		if method == host.Auto && h.InPlace(m, at) {
			log("%s holds the right driver already", at)
			r.Method = host.InPlace
		} else {
			cache, err := host.OpenCache(c.String("cache"))
			if err != nil {
				return err
			}
			cache.Log = log
			if r.Offers, err = cache.Prepare(h.Excluding(m, at), m); err != nil {
				return err
			}
			if r.Stage, err = cache.Stage(); err != nil {
				return err
			}
		}
		err = r.Exec()
		if errors.As(err, new(*host.StartError)) {
			notStarted = err
			return cli.ErrFailed
		}
		return err
	},
}
