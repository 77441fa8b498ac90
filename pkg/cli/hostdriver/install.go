package hostdriver

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/install"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/host/offer"
)

var (
	linksFlag  = &command.Flag{Name: "links", Usage: "make links to the driver's own libraries; less works with links"}
	copyFlag   = &command.Flag{Name: "copy", Usage: "what is done without --links", Hidden: true}
	compatFlag = &command.Flag{Kind: command.String, Name: "compat",
		Usage: "offer the compat package in `DIR` instead of the driver if it helps"}
)

var installCommand = &command.Command{
	Name:     "install",
	Usage:    "make /run/opengl-driver/lib a directory of the driver's libraries",
	Examples: `sudo "$(command -v hostDriver)" install`,
	Common:   []string{"dry-run", "from", "links", "beside", "compat", "verbose"},
	Description: `The libraries are copies with a run path of $ORIGIN: a program's own glibc does not know where the
host keeps its libraries, so the driver's own libcuda.so.1 does not find the PTX compiler that it opens. They are in
/var/lib/hostDriver, on a disk; /run/opengl-driver is a link to there. --state-dir names another directory, for one on
a disk that is mounted noexec. The set also has the files by which the loaders of OpenCL, Vulkan and EGL find them, in
share and etc beside lib. It is made beside the old one and put in its place by one rename; where the right one is
there already, nothing is done. On x86-64, /run/opengl-driver-32/lib is made too where the host has the driver's
32-bit libraries. "hostDriver tmpfiles" is for repeating it at boot, when /run is empty, and after an upgrade of the
driver.

With --links, the set is links to the driver's own libraries: code that is compiled at run time (Triton, numba) fails
with them, and EGL and Vulkan do not find the rest of the driver.

With --beside, where Home Manager or nix-system-graphics owns /run/opengl-driver, nothing of theirs is touched: what
programs see is /run/hostDriver, to which the links of Nix's package hostDriverLinks lead, once it is among their
packages.

With --compat, a compat package's libraries stand in for the driver's where its CUDA version is greater and it is made
for such a driver; where it would not help, that is said, and the driver's own are installed. The next install decides
again.

A library of the driver that cannot be used (truncated, not readable) is named, and the exit status is 1; the rest is
installed.`,
	Flags: []*command.Flag{prefixFlag, besideFlag, rootFlag, machineFlag, fromFlag, stateFlag,
		linksFlag, copyFlag, compatFlag, dryRunFlag, jsonFlag, verboseFlag, quietFlag},
	Action: on(func(c *call) error {
		done, faults, err := c.install()
		for i := 0; i < 3 && errors.Is(err, offer.ErrChanging); i++ {
			done, faults, err = c.install()
		}
		if err != nil {
			return needsRoot(err, "; without it: hostDriver run PROGRAM")
		}
		if err := c.report(done, nil); err != nil {
			return err
		}
		if faults > 0 {
			return command.ErrFailed
		}
		return nil
	}),
}

// site returns where an installation is: as the command line says, else as the last one there, else on a disk for what
// is below /run.
func (c *call) site() (install.Site, error) {
	switch {
	case c.Bool("links") && c.Bool("copy"):
		return install.Site{}, command.Misuse("--copy and --links are two ways")
	case c.Bool("links") && c.Bool("beside"):
		return install.Site{}, command.Misuse("--links: the links of hostDriverLinks need copies to lead to")
	}
	s := install.Site{Prefix: c.prefix, State: path.Clean(cmp.Or(c.String("state-dir"), host.StateDir))}
	if !c.IsSet("state-dir") {
		if !strings.HasPrefix(c.prefix, "/run/") {
			s.State = ""
		}
		things, err := made.Read(c.host)
		if err != nil {
			return s, err
		}
		for _, t := range things {
			if t.Kind == made.Prefix && t.Path == c.prefix {
				s.State = t.State
			}
		}
	}
	return s, nil
}

// install installs for every machine that the host has a driver for. It returns
// what was done, and how many things should have been offered and are not.
func (c *call) install() (done []*install.Link, faults int, err error) {
	h := c.host.Excluding(c.machine, c.prefix)
	all, err := c.drivers(h)
	for _, d := range all {
		broken := d.Damaged()
		faults += len(broken)
		for _, r := range d.Rejected {
			if c.Bool("verbose") || err != nil || slices.Contains(broken, r) {
				c.complain("%s: not used: %s", command.Printable(r.Path), command.Printable(r.Reason))
			}
		}
	}
	if err != nil {
		return nil, faults, err
	}
	site, err := c.site()
	if err != nil {
		return nil, faults, err
	}
	done = []*install.Link{}
	for i, d := range all {
		if dir := c.String("compat"); dir != "" && i == 0 {
			compat, err := h.Compat(d, dir)
			if err == nil && compat.Verdict.Use() {
				d, err = h.WithCompat(d, dir)
			}
			if err != nil {
				c.complain("%v", err)
				faults++
			} else if !compat.Verdict.Use() || !c.Bool("quiet") {
				c.complain("compat package %s: %s: %s", dir, compat.Verdict, compat.Reason)
			}
		}
		set := offer.Links(d)
		if !c.Bool("links") {
			set = offer.Copies(h, d)
			if c.Bool("beside") {
				set.Reach(d.Link(c.prefix))
			}
			for _, n := range set.Notes {
				c.complain("%s", n)
			}
		}
		in, err := install.Make(h, d, set, site, c.Bool("dry-run"))
		if err != nil {
			return nil, faults, err
		}
		done = append(done, in)
	}
	if other, ok := c.machine.Second(); ok && len(all) == 1 && !c.IsSet("machine") && !c.IsSet("from") {
		// The driver's 32-bit libraries may have been there the last time.
		switch in, err := install.Withdraw(h, other, site, c.Bool("dry-run")); {
		case err != nil:
			c.complain("%v", err)
			faults++
		case in != nil:
			done = append(done, in)
		}
	}
	return done, faults, nil
}

func (c *call) report(done []*install.Link, rest []made.Outcome) error {
	if c.Bool("json") {
		fields := map[string]any{"dry_run": c.Bool("dry-run"), "links": done}
		if rest != nil {
			fields["made"] = rest
		}
		return c.printJSON(fields)
	}
	would := ""
	if c.Bool("dry-run") {
		would = "would be "
	}
	for _, o := range rest {
		switch {
		case o.Why != "":
			c.complain("%s: %s: %s", command.Printable(o.Path), o.Action, command.Printable(o.Why))
		case !c.Bool("quiet"):
			what := command.Printable(o.Path)
			if o.Kind == made.Lines {
				what += ": its lines"
			}
			fmt.Fprintf(c.Stdout, "%s: %s%s\n", what, would, o.Action)
		}
	}
	for _, in := range done {
		if c.Bool("verbose") || c.Bool("dry-run") {
			for _, e := range in.Entries {
				what := "-> " + e.Target
				switch {
				case e.Copy != "":
					what = "a copy of " + e.Copy + " with run path " + e.RunPath
				case e.Vendor != nil && e.Vendor.Path != "":
					what = "as " + e.Vendor.Path
				case e.Vendor != nil:
					what = "for " + e.Vendor.Libraries[0]
				}
				fmt.Fprintf(c.Stderr, "%s/%s %s\n", command.Printable(in.Path), command.Printable(e.Name), command.Printable(what))
			}
		}
		if !c.Bool("quiet") {
			action := would + in.Action
			if in.Action == "unchanged" {
				action = "unchanged"
			}
			what := ""
			if len(in.Entries) > 0 {
				what = strings.TrimSpace(fmt.Sprintf("%s driver %s", in.Machine, in.Version))
				what = fmt.Sprintf(" (%s, %d names)", what, len(in.Entries))
			}
			fmt.Fprintf(c.Stdout, "%s: %s%s\n", command.Printable(in.Path), action, what)
		}
	}
	if len(done) == 0 && len(rest) == 0 && !c.Bool("quiet") {
		fmt.Fprintln(c.Stdout, "nothing is installed there")
	}
	return nil
}

// needsRoot returns an error that says so where the user is not root and may not do something.
func needsRoot(err error, more string) error {
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		err = fmt.Errorf("%w: needs root%s", err, more)
	}
	return err
}

// thisProgram returns how the user can start this program for root, who may not find it by its name alone.
func thisProgram() string {
	at, err := exec.LookPath(os.Args[0])
	if strings.Contains(at, "/go-build") { // of `go run`: it may be gone when a remedy is followed
		return "hostDriver"
	}
	if err == nil {
		if abs, err := filepath.Abs(at); err == nil {
			return abs
		}
	}
	at, _ = os.Executable()
	return at
}
