package hostdriver

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/install"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/sysroot"
)

// programFlag is for what root starts later.
var programFlag = &command.Flag{Kind: command.String, Name: "program",
	Usage:       "make root start `FILE`, which only root may be able to replace",
	DefaultText: "this program, or a copy in /usr/local/libexec"}

var tmpfilesCommand = &command.Command{
	Name:     "tmpfiles",
	Usage:    "repeat the installation at boot and after a driver upgrade",
	Examples: `sudo "$(command -v hostDriver)" tmpfiles`,
	Common:   []string{"dry-run", "from", "program", "part", "root"},
	Description: `Writes a line for tmpfiles.d(5), which makes the link in /run at boot and needs no hostDriver then,
and a systemd service that runs "hostDriver install" at each boot, before basic.target, and when a path unit notices
that ldconfig has run. Both are enabled. What "install" is to be told (--prefix, --beside, --links, --state-dir,
--from, --compat) goes into the service. --dry-run prints the files.

Root starts a program that no other user can replace: this one where it is in a Nix store that is root's (with a
garbage collector root) or in /usr, else a copy in /usr/local/libexec.`,
	Flags: []*command.Flag{prefixFlag, besideFlag, rootFlag, machineFlag, fromFlag, stateFlag, linksFlag,
		copyFlag, compatFlag,
		{Kind: command.String, Name: "part", Values: []string{"tmpfiles", "service", "path"},
			Usage: "only print `PART`: tmpfiles, service or path"},
		programFlag,
		{Kind: command.String, Name: "write", Usage: "write the files below `DIR`, as --root DIR does", Hidden: true},
		dryRunFlag, jsonFlag, quietFlag},
	Action: on(func(c *call) error {
		if dir := c.String("compat"); dir != "" && !path.IsAbs(dir) {
			return command.Misusef("--compat %q: an absolute path is needed: the service starts in another directory", dir)
		}
		all, err := c.drivers(c.host.Excluding(c.machine, c.prefix))
		if err != nil {
			return err
		}
		site, err := c.site()
		if err != nil {
			return err
		}
		to := c.host
		if dir := c.String("write"); dir != "" {
			if to, err = hostBelow(dir); err != nil {
				return err
			}
		}
		program, err := install.ChooseProgram(to, c.String("program"), "units")
		if err != nil {
			return err
		}
		var links []string
		for _, d := range all {
			links = append(links, d.Link(c.prefix))
			if err := site.Fit(c.host, d.Link(c.prefix), !c.Bool("links")); err != nil {
				return err
			}
		}
		files, err := install.BootFiles(c.host, site, links, program, c.installWords()...)
		if err != nil {
			return err
		}
		return c.boot(to, files)
	}),
}

// installWords are what the command line has that "install" has to be told again.
func (c *call) installWords() (words []string) {
	for _, name := range []string{"beside", "links"} {
		if c.Bool(name) {
			words = append(words, "--"+name)
		}
	}
	for _, name := range []string{"prefix", "state-dir", "compat"} {
		if value := c.String(name); c.IsSet(name) && !(name == "prefix" && c.prefix == host.DefaultPrefix) {
			words = append(words, "--"+name, value)
		}
	}
	for _, dir := range c.StringSlice("from") {
		words = append(words, "--from", dir)
	}
	return words
}

// hostBelow returns the system in a directory, which it makes if need be.
func hostBelow(dir string) (*host.Host, error) {
	if err := plainfile.MakeAll(dir, 0o755); err != nil {
		return nil, needsRoot(err, "")
	}
	root, err := sysroot.Open(dir)
	return &host.Host{Root: root}, err
}

// boot makes these files, or prints them.
func (c *call) boot(to *host.Host, files []made.File) error {
	if part := c.String("part"); part != "" {
		if c.IsSet("write") {
			return command.Misuse("--part prints a file, and --write writes them all")
		}
		end := map[string]string{"tmpfiles": ".conf", "service": ".service", "path": ".path"}[part]
		for _, f := range files {
			if f.Link == "" && strings.HasSuffix(f.Path, end) {
				_, err := fmt.Fprint(c.Stdout, f.Text)
				return err
			}
		}
		return command.Misusef("--part %s: programs see the directory of the libraries itself, so there are no parts", part)
	}
	changed, dryRun := map[string]bool{}, c.Bool("dry-run")
	if !dryRun {
		did, err := made.Put(to, files...)
		if err != nil {
			return needsRoot(err, "")
		}
		for _, f := range did {
			changed[f.Path] = true
		}
	}
	if !dryRun && !c.IsSet("write") && !readsBootFiles(to) {
		c.complain(
			"without systemd nothing here reads these files: start hostDriver install at each boot, and after " +
				"an upgrade of the driver")
	}
	switch {
	case c.Bool("json"):
		return c.printJSON(map[string]any{"dry_run": dryRun, "files": files})
	case dryRun:
		c.printFiles(files...)
	case !c.Bool("quiet"):
		for _, f := range files {
			action := "unchanged"
			if changed[f.Path] {
				action = "written"
			}
			fmt.Fprintf(c.Stdout, "%s: %s\n", command.Printable(to.Root.Path(f.Path)), action)
		}
		if len(changed) > 0 && systemd(to) {
			fmt.Fprintln(c.Stdout, "now, for upgrades before the next boot: systemctl daemon-reload && systemctl start "+
				install.PathUnit)
		}
	}
	return nil
}

// readsBootFiles reports whether a system has anything that reads units, or lines for tmpfiles.d.
func readsBootFiles(h *host.Host) bool {
	return systemd(h) || slices.ContainsFunc([]string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd",
		"/usr/bin/systemd-tmpfiles",
		"/bin/systemd-tmpfiles", "/run/current-system/sw/bin/systemd-tmpfiles"}, func(name string) bool {
		_, err := h.Root.Stat(name)
		return err == nil
	})
}

// systemd reports whether a system is this one, and systemd runs it (sd_booted(3)).
func systemd(h *host.Host) bool {
	_, err := h.Root.Stat("/run/systemd/system")
	return err == nil && h.Root.IsHost()
}

// printFiles prints files that are not made, each below a comment that names it.
func (c *call) printFiles(files ...made.File) {
	for i, f := range files {
		if i > 0 {
			fmt.Fprintln(c.Stdout)
		}
		mode := ""
		if f.Mode != 0 {
			mode = fmt.Sprintf(", mode %o", f.Mode)
		}
		switch name := command.Printable(path.Clean(f.Path)); {
		case f.Link != "":
			fmt.Fprintf(c.Stdout, "# %s: a link to %s\n", name, command.Printable(f.Link))
		case f.From != "":
			fmt.Fprintf(c.Stdout, "# %s%s: a copy of %s\n", name, mode, command.Printable(f.From))
		default:
			fmt.Fprintf(c.Stdout, "# %s%s\n%s", name, mode, f.Text)
		}
	}
}
