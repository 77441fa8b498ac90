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
	"cuda-runpath/pkg/host/install"
	"cuda-runpath/pkg/host/offer"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/sysroot"
)

var copyFlag = &command.Flag{Name: "copy", Usage: "copy libraries that load others, so that those are found"}

var compatFlag = &command.Flag{Kind: command.String, Name: "compat", Usage: "offer the compat package in `DIR` instead of the driver if it helps"}

var installCommand = &command.Command{
	Name:     "install",
	Usage:    "make /run/opengl-driver/lib a directory of links to the driver's libraries",
	Examples: `sudo "$(command -v hostDriver)" install --copy`,
	Description: `The set has also the files by which loaders of OpenCL, Vulkan and EGL find these, in share and etc beside lib. It is made beside the old one and put in its place by one rename; where the right one is there already, nothing is
done. On x86-64, /run/opengl-driver-32/lib is made too where the host has the driver's 32-bit libraries. "hostDriver
tmpfiles" is for repeating it at boot, when /run is empty.

With --copy, libraries that load others are copied and get a run path of $ORIGIN: a program's own glibc does not know where
the host keeps its libraries, so a linked libcuda.so.1 does not find the PTX compiler that it opens.

With --beside, where Home Manager or nix-system-graphics owns /run/opengl-driver, nothing of theirs is touched: copies are kept in
/run/hostDriver, to which the links of Nix's package hostDriverLinks lead, once it is among their packages.

With --compat, a compat package's libraries stand in for the driver's where its CUDA version is greater and it is made for such
a driver; where it would not help, that is said, and the driver's own are installed. The next install decides again.

A library of the driver that cannot be used (truncated, not readable) is named, and the exit status is 1; the rest is installed.`,
	Flags: []*command.Flag{prefixFlag, besideFlag, rootFlag, machineFlag, fromFlag,
		copyFlag, compatFlag, dryRunFlag, jsonFlag, verboseFlag, quietFlag},
	Action: on(func(c *call) error {
		done, faults, err := c.install()
		for i := 0; i < 3 && errors.Is(err, offer.ErrChanging); i++ {
			done, faults, err = c.install()
		}
		if err != nil {
			return needsRoot(err, "; without it: hostDriver run PROGRAM")
		}
		if err := c.report(done); err != nil {
			return err
		}
		if faults > 0 {
			return command.ErrFailed
		}
		return nil
	}),
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
		if c.copies() {
			set = offer.Private(h, d)
			if c.Bool("beside") {
				set.Reach(d.Link(c.prefix))
			}
			for _, n := range set.Notes {
				c.complain("%s", n)
			}
		}
		in, err := install.Make(h, d, set, c.prefix, c.Bool("dry-run"))
		if err != nil {
			return nil, faults, err
		}
		done = append(done, in)
	}
	if other, ok := c.machine.Second(); ok && len(all) == 1 && !c.IsSet("machine") && !c.IsSet("from") {
		// The driver's 32-bit libraries may have been there the last time.
		switch in, err := install.Withdraw(h, other, c.prefix, c.Bool("dry-run")); {
		case err != nil:
			c.complain("%v", err)
			faults++
		case in != nil:
			done = append(done, in)
		}
	}
	return done, faults, nil
}

var uninstallCommand = &command.Command{
	Name:     "uninstall",
	Usage:    "remove what install made",
	Examples: `sudo "$(command -v hostDriver)" uninstall`,
	Flags:    []*command.Flag{prefixFlag, besideFlag, rootFlag, dryRunFlag, jsonFlag, quietFlag},
	Action: on(func(c *call) error {
		done, err := install.Remove(c.host, c.prefix, c.Bool("dry-run"))
		if err != nil {
			return needsRoot(err, "")
		}
		return c.report(done)
	}),
}

func (c *call) report(done []*install.Link) error {
	if c.Bool("json") {
		return c.printJSON(map[string]any{"dry_run": c.Bool("dry-run"), "links": done})
	}
	would := ""
	if c.Bool("dry-run") {
		would = "would be "
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
	if len(done) == 0 && !c.Bool("quiet") {
		fmt.Fprintln(c.Stdout, "nothing is installed there")
	}
	return nil
}

var tmpfilesCommand = &command.Command{
	Name:     "tmpfiles",
	Usage:    "print files that repeat the installation at boot and after a driver upgrade",
	Examples: `sudo "$(command -v hostDriver)" tmpfiles --write /`,
	Description: `Prints lines for tmpfiles.d(5), which need no hostDriver at boot, and a systemd service and path unit that run "hostDriver
install" at boot and when ldconfig has run. Each part begins with a comment that names its file; --write puts them there.
With --copy, --beside or --compat the units run "hostDriver install" with these, and there are no lines, which can only link.`,
	Flags: []*command.Flag{prefixFlag, besideFlag, rootFlag, machineFlag, fromFlag, copyFlag, compatFlag,
		{Kind: command.String, Name: "part", Values: []string{"tmpfiles", "service", "path"}, Usage: "print only `PART`: tmpfiles, service or path, without the comment"},
		{Kind: command.String, Name: "program", Usage: "the unit starts `FILE`", DefaultText: "this program"},
		{Kind: command.String, Name: "write", Usage: "write the files below `DIR` (/ for this system) instead of printing them"},
		jsonFlag},
	Action: on(func(c *call) error {
		all, err := c.drivers(c.host.Excluding(c.machine, c.prefix))
		if err != nil {
			return err
		}
		program := cmp.Or(c.String("program"), thisProgram())
		var more []string
		for _, flag := range []*command.Flag{besideFlag, copyFlag} {
			if c.Bool(flag.Name) {
				more = append(more, "--"+flag.Name)
			}
		}
		if dir := c.String("compat"); dir != "" {
			more = append(more, "--compat", dir)
		}
		files := install.BootFiles(all, c.prefix, program, more...)
		if c.Bool("json") {
			return c.printJSON(map[string]any{"files": files})
		}
		return c.printBoot(files)
	}),
}

// needsRoot returns an error that says so where the user is not root and may not do something.
func needsRoot(err error, more string) error {
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		err = fmt.Errorf("%w: needs root%s", err, more)
	}
	return err
}

// copies reports whether libraries that load others are to be copied. Through links beside it, they are found no other way.
func (c *call) copies() bool { return c.Bool("copy") || c.Bool("beside") }

// thisProgram returns how a unit can start this program: under the name it was
// found by where that outlives an upgrade (a profile's link), not the store's.
func thisProgram() string {
	if at, err := exec.LookPath(os.Args[0]); err == nil {
		if abs, err := filepath.Abs(at); err == nil {
			return abs
		}
	}
	at, _ := os.Executable()
	return at
}

func (c *call) printBoot(files []install.BootFile) error {
	part, found := c.String("part"), false
	parts := map[string]string{"tmpfiles": ".conf", "service": ".service", "path": ".path"}
	if part == "tmpfiles" && (c.copies() || c.IsSet("compat")) {
		return command.Misuse("--part tmpfiles: lines for tmpfiles.d cannot do what --copy, --beside and --compat do")
	}
	enable := []string{"systemctl", "enable", "--now"}
	if dir := c.String("write"); filepath.Clean(dir) != "/" {
		enable = []string{"systemctl", "--root=" + dir, "enable"}
	}
	given := len(enable)
	var below sysroot.Root
	if c.IsSet("write") {
		var err error
		if below, err = install.BootRoot(c.String("write")); err != nil {
			return err
		}
	}
	for _, f := range files {
		if part != "" && !strings.HasSuffix(f.Path, parts[part]) {
			continue
		}
		switch {
		case c.IsSet("write"):
			at, err := install.WriteBootFile(below, f)
			if err != nil {
				return needsRoot(err, ", to write "+f.Path)
			}
			fmt.Fprintln(c.Stdout, command.Printable(at))
			if unit := path.Base(f.Path); !strings.HasSuffix(unit, ".conf") {
				enable = append(enable, unit)
			}
		case part != "":
			fmt.Fprint(c.Stdout, f.Text)
		default:
			if found {
				fmt.Fprintln(c.Stdout)
			}
			fmt.Fprintf(c.Stdout, "# %s\n%s", f.Path, f.Text)
		}
		found = true
	}
	if len(enable) > given {
		fmt.Fprintln(c.Stdout, "now:", remedy.Quote(enable...))
	}
	return nil
}
