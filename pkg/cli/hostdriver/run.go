package hostdriver

import (
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/compat"
	"cuda-runpath/pkg/host/private"
	"cuda-runpath/pkg/host/run"
)

// notStarted is why run's program could not be started, for the exit status.
var notStarted error

var runCommand = &command.Command{
	Name:  "run",
	Usage: "start a program with the driver's libraries; needs no root",
	Examples: `hostDriver run ./app --its-own-flag
hostDriver run --method library-path ./app`,
	Common:    []string{"method", "from", "compat", "cache", "verbose"},
	ArgsUsage: "[--] PROGRAM [ARGUMENT...]",
	Description: `The libraries are kept in a private directory: links, and copies with a run path of their own where
a library loads others. --method auto chooses what makes the program work: where the kernel lets a user make a mount
namespace, the program sees that directory as /run/opengl-driver/lib. (Inside, set-user-ID programs such as sudo have
no effect.) LD_LIBRARY_PATH gets that directory too, for the program and what it starts, unless the program and its
libraries ask for the driver and look for it there: an interpreter, a shell, or a program without the driver link in
its run path would not find it otherwise. Where the kernel allows no namespace, it is LD_LIBRARY_PATH alone. --method
namespace adds no LD_LIBRARY_PATH. TRITON_LIBCUDA_PATH is set either way, where it is not: Triton would ask ldconfig.

A compat package in the program's run path, or in one of its libraries', is used where it helps: its CUDA version is
greater than the driver's, and it is made for drivers like that one. Otherwise the program gets the driver's own
libcuda.so.1, because the other one would answer error 803.

The exit status is the program's; 127 where it is not found, 126 where it cannot be started.`,
	Flags: []*command.Flag{
		{Kind: command.String, Name: "method", Default: string(run.Auto),
			Values: []string{string(run.Auto), string(run.Namespace), string(run.LibraryPath)},
			Usage:  "offer the libraries through `METHOD`: auto, namespace or library-path"},
		{Kind: command.String, Name: "cache", Usage: "keep the libraries in `DIR`", DefaultText: "~/.cache/hostDriver"},
		{Kind: command.String, Name: "compat", Default: string(compat.Auto),
			Usage: "`WHICH` compat packages to use: auto, always, never, or the one in this directory if it helps"},
		prefixFlag, rootFlag, machineFlag, fromFlag, verboseFlag},
	Action: func(l *command.Line) error {
		if len(l.Args) == 0 {
			return command.Misuse("no program is given")
		}
		method := run.Method(l.String("method"))
		choice, err := compat.ParseChoice(l.String("compat"))
		if err != nil {
			return command.Misusef("--compat %s: %v", l.String("compat"), err)
		}
		c, err := about(l)
		if err != nil {
			return err
		}
		r := &run.Run{Method: method, Prefix: c.prefix, Program: c.Args, Log: c.log}
		link := c.machine.Link(c.prefix)
		wants := compat.Wanted(whole(r.Program[0]))
		dirs := wants.Compat
		r.Search = method == run.Auto && !wants.Linked(link)
		if path.IsAbs(string(choice)) {
			dirs = append([]string{string(choice)}, dirs...)
		}
		if method == run.Auto && len(dirs) == 0 && c.host.InPlace(c.machine, c.prefix) {
			c.log("%s already holds the right driver", c.prefix)
			r.Method, r.Offers = run.InPlace, []private.Dir{{Machine: c.machine.Name, Path: link}}
		} else if err := c.prepare(r, dirs, choice); err != nil {
			return err
		}
		r.Warn = func() {
			if wants.RPath {
				c.complain(
					"%s names a compat directory in DT_RPATH, which comes before LD_LIBRARY_PATH: it is used whether or not it helps",
					r.Program[0])
			}
			if wants.Stub != "" {
				c.complain("%s names the stub directory %s in DT_RPATH, which comes before LD_LIBRARY_PATH: it loads the stub",
					r.Program[0], wants.Stub)
			}
		}
		err = r.Exec()
		if errors.As(err, new(*run.StartError)) {
			notStarted = err
			return command.ErrFailed
		}
		return err
	},
}

// log says what --verbose asks for.
func (c *call) log(format string, args ...any) {
	if c.Bool("verbose") {
		c.complain(format, args...)
	}
}

// prepare makes what the program is to see. Where there is no place to make it in, as in a container with a read-only
// root, the driver's own directory serves if nothing else is in it: container runtimes mount the libraries into an
// image's /usr/lib64, which is empty in images made by Nix.
func (c *call) prepare(r *run.Run, dirs []string, choice compat.Choice) error {
	err := c.inCache(r, dirs, choice)
	if err != nil && r.Method != run.Namespace && !c.IsSet("from") && !path.IsAbs(string(choice)) && c.host.Root.IsHost() {
		if file := c.offered(); file != "" {
			c.log("no driver was found in the known places; LD_LIBRARY_PATH names %s, and is left as it is", file)
			r.Method = run.AsIs
			return nil
		}
	}
	if errors.Is(err, host.ErrNoDriver) {
		d, _ := c.host.Excluding(c.machine, c.prefix).Find(c.machine)
		for _, x := range d.Rejected {
			c.complain("%s: not used: %s", x.Path, x.Reason)
		}
	}
	if err == nil || c.IsSet("cache") || len(dirs) > 0 || r.Method == run.Namespace {
		return err
	}
	h := c.host.Excluding(c.machine, c.prefix)
	dir, findErr := h.Directory(c.machine)
	if findErr != nil || !h.OnlyDriver(dir) {
		return err
	}
	at, outErr := h.Root.Outside(dir)
	if outErr != nil {
		return err
	}
	c.log("%v; %s holds nothing but the driver", err, dir)
	r.Method, r.Offers = run.LibraryPath, []private.Dir{{Machine: c.machine.Name, Path: at}}
	return nil
}

// offered returns the libcuda.so.1 that LD_LIBRARY_PATH offers where no place that is known has one, "" for none.
func (c *call) offered() string {
	if _, err := c.host.Excluding(c.machine, c.prefix).Directory(c.machine); !errors.Is(err, host.ErrNoDriver) {
		return ""
	}
	return c.host.ByLibraryPath(os.Getenv("LD_LIBRARY_PATH"), c.machine)
}

func (c *call) inCache(r *run.Run, dirs []string, choice compat.Choice) error {
	cache, err := private.OpenCache(c.String("cache"))
	if err != nil {
		return err
	}
	cache.Log, cache.Warn = c.log, c.complain
	ready, err := cache.Prepare(c.host.Excluding(c.machine, c.prefix), c.machine, dirs, choice)
	if err != nil {
		return err
	}
	for _, compat := range ready.Compat {
		c.log("compat package %s: %s: %s", compat.Dir, compat.Verdict, compat.Reason)
		r.Hide = append(r.Hide, compat.Dir)
	}
	r.Offers = ready.Offers
	r.Stage, err = cache.Stage()
	return err
}

// whole returns where a program lies that is looked for in PATH.
func whole(program string) string {
	file, err := exec.LookPath(program)
	if err != nil {
		return program
	}
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}
