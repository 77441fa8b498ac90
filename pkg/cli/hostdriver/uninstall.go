package hostdriver

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/install"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/host/nixconf"
)

var uninstallCommand = &command.Command{
	Name:     "uninstall",
	Usage:    "take back what install, tmpfiles, sandbox and cdi made",
	Examples: `sudo "$(command -v hostDriver)" uninstall`,
	Description: `Everything that they made is on record in /var/lib/hostDriver/made.json, and goes. What somebody
changed since stays, and so does what no record knows; each is named, with the reason, and the exit status is 1.

With --prefix or --beside, only the libraries there are taken away.`,
	Flags: []*command.Flag{prefixFlag, besideFlag, rootFlag, dryRunFlag, jsonFlag, quietFlag},
	Action: on(func(c *call) error {
		things, err := made.Read(c.host)
		if err != nil {
			return err
		}
		var rest []made.Outcome
		only, dryRun := c.IsSet("prefix") || c.Bool("beside"), c.Bool("dry-run")
		if !only {
			// First what would make the rest again.
			rest = append(made.TakeBack(c.host, append(c.enabled(things), things...), dryRun), c.unknown(things)...)
		}
		done, stays, err := c.removeSites(things, only)
		rest = append(rest, stays...)
		for _, o := range rest {
			if err == nil && errors.Is(o.Err, fs.ErrPermission) {
				err = o.Err
			}
		}
		if !dryRun && err == nil { // else what is left stays on record
			if err = c.forget(things, rest, only); !only {
				made.RemoveEmpty(c.host, things)
			}
		}
		if err != nil {
			return needsRoot(err, "")
		}
		if err := c.report(done, rest); err != nil {
			return err
		}
		return c.concludeUninstall(rest)
	}),
}

// removeSites takes away the driver links that the record has, and those at the places that are looked at anyway.
func (c *call) removeSites(things []made.Thing, only bool) (done []*install.Link, stays []made.Outcome, err error) {
	done = []*install.Link{}
	var sites []install.Site
	add := func(s install.Site) {
		if !slices.Contains(sites, s) {
			sites = append(sites, s)
		}
	}
	for _, t := range things {
		if t.Kind == made.Prefix && (!only || t.Path == c.prefix) {
			add(install.Site{Prefix: t.Path, State: t.State})
		}
	}
	recorded := len(sites)
	if recorded == 0 || !only {
		s, err := c.site()
		if err != nil {
			return nil, nil, err
		}
		add(s)
		if !only {
			add(install.Site{Prefix: host.BesidePrefix, State: host.StateDir})
		}
	}
	for i, s := range sites {
		links, err := install.Remove(c.host, s, c.Bool("dry-run"))
		done = append(done, links...)
		switch asked := recorded == 0 && i == 0; {
		case err == nil:
		case errors.Is(err, fs.ErrPermission), asked && len(things) == 0:
			return done, stays, err
		case i < recorded || asked && only:
			t := made.Thing{Kind: made.Prefix, Path: s.Prefix, State: s.State}
			stays = append(stays, made.Outcome{Thing: t, Action: "stays", Why: err.Error(), Err: err})
		}
	}
	return done, stays, nil
}

// enabled returns the links by which systemctl enabled units that are on record, and that are not.
func (c *call) enabled(things []made.Thing) (links []made.Thing) {
	for _, t := range things {
		if unit := path.Base(t.Path); t.Kind == made.Regular && (unit == install.ServiceUnit || unit == install.PathUnit) {
			found, _ := c.host.Root.Glob(path.Join(path.Dir(t.Path), "*.wants", unit))
			for _, at := range found {
				if target, err := c.host.Root.Readlink(at); err == nil && path.Base(target) == unit {
					links = append(links, made.Thing{Kind: made.Link, Path: at, Target: target})
				}
			}
		}
	}
	return links
}

// unknown returns what is at the usual places and on no record.
func (c *call) unknown(things []made.Thing) (stays []made.Outcome) {
	usual := append(slices.Clone(install.Usual), path.Join(path.Dir(nixConf), nixconf.Hook), cdiSpec)
	for _, at := range usual {
		if slices.ContainsFunc(things, func(t made.Thing) bool { return t.Path == at }) {
			continue
		}
		target, err := c.host.Root.Readlink(at)
		why := "hostDriver has no record of having made it (an older one may have): remove it by hand"
		switch {
		case err == nil:
			why = "is a link to " + target + ", which hostDriver did not make"
		case errors.Is(err, fs.ErrNotExist):
			continue
		}
		stays = append(stays, made.Outcome{Thing: made.Thing{Kind: made.Regular, Path: at}, Action: "stays", Why: why})
	}
	return stays
}

// forget takes what is gone out of the record.
func (c *call) forget(things []made.Thing, rest []made.Outcome, only bool) error {
	return made.Forget(c.host, slices.DeleteFunc(slices.Clone(things), func(t made.Thing) bool {
		return only && !(t.Kind == made.Prefix && t.Path == c.prefix) ||
			slices.ContainsFunc(rest, func(o made.Outcome) bool { return o.Action == "stays" && o.Path == t.Path })
	})...)
}

// concludeUninstall says what is left to do, and fails where something stays.
func (c *call) concludeUninstall(rest []made.Outcome) error {
	removed := func(is func(made.Outcome) bool) bool {
		return slices.ContainsFunc(rest, func(o made.Outcome) bool { return o.Action == "removed" && is(o) })
	}
	if !c.Bool("dry-run") && !c.Bool("json") && !c.Bool("quiet") && systemd(c.host) {
		if removed(func(o made.Outcome) bool { return strings.HasSuffix(o.Path, "/"+install.PathUnit) }) {
			fmt.Fprintln(c.Stdout, "now, if it was started: systemctl stop "+install.PathUnit+"; systemctl daemon-reload")
		}
		if removed(func(o made.Outcome) bool { return o.Kind == made.Lines }) {
			fmt.Fprintln(c.Stdout, "now: systemctl restart nix-daemon")
		}
	}
	if slices.ContainsFunc(rest, func(o made.Outcome) bool { return o.Action == "stays" }) {
		return command.ErrFailed
	}
	return nil
}
