// Package install keeps a driver link: a link to a directory of libraries beside it, which
// is made whole before anybody sees it, and the files that repeat this at boot.
package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/offer"
	"cuda-runpath/pkg/host/opened"
)

// generation is what the names of the directories begin with that lib is a link to.
const generation = ".hostDriver-"

// A Link is what is to be done, or was done, to one driver link.
type Link struct {
	Machine string `json:"machine"`
	Version string `json:"version,omitempty"`
	Path    string `json:"link"` // the directory that programs search: …/lib
	// Generation is the directory beside it that the link leads to.
	Generation string        `json:"generation,omitempty"`
	Action     string        `json:"action"` // "made", "replaced", "unchanged", "removed"
	Entries    []offer.Entry `json:"entries"`
}

// Make makes the driver's libraries available in the driver link below a
// prefix, such as /run/opengl-driver: prefix/lib becomes a link to a new directory
// beside it, in one rename, so that at any time a program finds the old set or the
// new one. It changes nothing where the right set is there already. The error is
// [offer.ErrChanging] where the driver was upgraded meanwhile.
func Make(h *host.Host, d *host.Driver, o *offer.Offer, prefix string, dryRun bool) (*Link, error) {
	link := d.Link(prefix)
	o.Seen = link
	key, err := o.Digest()
	if err != nil {
		return nil, err
	}
	in := &Link{Machine: d.Machine, Version: d.Version, Path: link, Generation: path.Join(path.Dir(link), generation+key), Entries: o.Entries}
	p, err := openPrefix(h, link)
	if err != nil {
		return nil, err
	}
	defer p.in.Close()
	dir, err := p.open()
	if err != nil {
		return nil, err
	}
	if dir != nil {
		defer dir.Close()
	}
	if err := in.judge(dir, o, generation+key); err != nil || dryRun || in.Action == "unchanged" && !unfinished(dir) {
		return in, err
	}
	// Two at once, at boot and by hand: one after the other.
	locked, unlock, err := p.lock()
	if err != nil {
		if in.Action == "unchanged" {
			return in, nil // who cannot take the rest away need not
		}
		return nil, err
	}
	defer unlock()
	if err := in.judge(locked, o, generation+key); err != nil {
		return nil, err
	}
	if in.Action != "unchanged" {
		err = switchTo(locked, o, key)
	}
	return in, errors.Join(err, removeLeftOver(locked))
}

// judge says what is to be done where lib in a directory (nil: there is none) is to lead to a generation. Without the
// lock, others may take lib away or replace it meanwhile.
func (in *Link) judge(dir *os.Root, o *offer.Offer, gen string) error {
	for {
		target, err := "", fs.ErrNotExist
		if dir != nil {
			target, err = dir.Readlink("lib")
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			in.Action = "made"
			return nil
		case errors.Is(err, unix.EINVAL): // it is not a link
		case err != nil:
			return err
		case isGeneration(target):
			in.Action = "replaced"
			if missing, stale := beside(dir, o.Has); target == gen && missing == nil && stale == nil && o.Same(dir, gen) {
				in.Action = "unchanged"
			}
			return nil
		default:
			return fmt.Errorf("%s is a link to %s, which hostDriver did not make; remove it first if nothing else needs it", in.Path, target)
		}
		links, err := offer.OnlyDriverLinks(dir, "lib")
		if links {
			in.Action = "replaced"
			return nil
		}
		exchanged := errors.Is(err, fs.ErrNotExist)
		if errors.Is(err, unix.ENOTDIR) {
			info, serr := dir.Lstat("lib")
			exchanged = errors.Is(serr, fs.ErrNotExist) || serr == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0)
		}
		if exchanged {
			continue
		}
		return fmt.Errorf("%s holds more than links to the driver's libraries; hostDriver did not make it and leaves it alone: move it away first", in.Path)
	}
}

// beside returns which links into lib are missing beside it, and which are no longer to be there. What somebody else put there stays.
func beside(dir *os.Root, has func(name string) bool) (missing, stale []string) {
	for _, name := range host.Beside {
		switch target, err := dir.Readlink(name); {
		case has(name) && errors.Is(err, fs.ErrNotExist):
			missing = append(missing, name)
		case !has(name) && target == "lib/"+name:
			stale = append(stale, name)
		}
	}
	return missing, stale
}

// putBeside makes and removes these links.
func putBeside(dir *os.Root, has func(name string) bool) error {
	missing, stale := beside(dir, has)
	for _, name := range missing {
		if err := dir.Symlink("lib/"+name, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, name := range stale {
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func isGeneration(name string) bool {
	return strings.HasPrefix(name, generation) && !strings.Contains(name, "/")
}

// openPrefix opens the directory that the one which holds the driver link is in.
func openPrefix(h *host.Host, link string) (*prefix, error) {
	at := path.Dir(link)
	parent, err := h.Root.Resolve(path.Dir(at))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	top, err := opened.Top(h.Root)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	in, err := opened.Below(top, parent)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if target, err := in.Readlink(path.Base(at)); err == nil {
		in.Close()
		hint := ""
		switch owner := h.LinkOwner(link); owner {
		case "":
		case "NixOS":
			hint = " (made by NixOS: there, nothing needs to be installed)"
		default:
			hint = " (made by " + owner + ": hostDriver install --beside)"
		}
		return nil, fmt.Errorf("%s is a link to %s%s; hostDriver leaves it alone", at, target, hint)
	}
	return &prefix{in: in, name: path.Base(at), path: at}, nil
}

// freshLink is what the name of lib begins with until it is put into its place.
const freshLink = ".link-"

// switchTo makes the generation of a key, if it is not there, and lets lib lead to it.
func switchTo(dir *os.Root, o *offer.Offer, key string) error {
	suffix, gen := opened.Random(), generation+key
	if !o.Same(dir, gen) {
		fresh := offer.Fresh + suffix
		if err := o.Make(dir, fresh, key); err != nil {
			return err
		}
		// A damaged generation of the same name is put aside: links to its name keep leading somewhere.
		if err := dir.Rename(fresh, gen); err != nil {
			if err = opened.Exchange(dir, fresh, gen); err != nil {
				return fmt.Errorf("%s: %w", gen, err)
			}
		}
		if err := opened.Sync(dir); err != nil {
			return err
		}
	}
	link := freshLink + suffix
	if err := dir.Symlink(gen, link); err != nil {
		return err
	}
	err := dir.Rename(link, "lib")
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		err = opened.Exchange(dir, link, "lib") // a real directory of links is there
	}
	if err == nil {
		err = putBeside(dir, o.Has)
	}
	if err != nil {
		return err
	}
	return opened.Sync(dir)
}

// leftOver returns what earlier runs left in a prefix: older generations, and
// whatever a killed one was making. Only with the lock is it certain that nobody
// is at work on it.
func leftOver(dir *os.Root) []string {
	keep, _ := dir.Readlink("lib")
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		n := e.Name()
		if isGeneration(n) && n != keep && e.IsDir() || strings.HasPrefix(n, offer.Fresh) || strings.HasPrefix(n, freshLink) {
			names = append(names, n)
		}
	}
	return names
}

// unfinished reports whether an earlier run left anything, or another is at work.
func unfinished(dir *os.Root) bool {
	_, err := dir.Lstat(lockName)
	return err == nil || len(leftOver(dir)) > 0
}

func removeLeftOver(dir *os.Root) error {
	var failed []error
	for _, n := range leftOver(dir) {
		failed = append(failed, dir.RemoveAll(n))
	}
	return errors.Join(failed...)
}

// Remove removes what Make made below a prefix, for every machine. What
// it did not make it leaves alone, with an error.
func Remove(h *host.Host, prefix string, dryRun bool) ([]*Link, error) {
	done := []*Link{}
	seen := map[string]bool{}
	for _, m := range host.Machines {
		if seen[m.Link(prefix)] {
			continue
		}
		seen[m.Link(prefix)] = true
		in, err := uninstall(h, m, prefix, dryRun)
		if err != nil {
			return done, err
		}
		if in != nil {
			done = append(done, in)
		}
	}
	return done, nil
}

var errNotOurs = errors.New("was not made by hostDriver install; leaving it alone")

// Withdraw removes what Make made below a prefix for a machine whose driver is gone: links that lead nowhere. It
// returns nil where there is nothing of ours.
func Withdraw(h *host.Host, m host.Machine, prefix string, dryRun bool) (*Link, error) {
	in, err := uninstall(h, m, prefix, dryRun)
	if errors.Is(err, errNotOurs) {
		return nil, nil
	}
	return in, err
}

// uninstall removes what Make made below a prefix for a machine, finished or
// not, and the prefix where nothing else is in it. It returns nil where there is
// nothing to remove.
func uninstall(h *host.Host, m host.Machine, prefix string, dryRun bool) (*Link, error) {
	link := m.Link(prefix)
	p, err := openPrefix(h, link)
	if err != nil {
		return nil, err
	}
	defer p.in.Close()
	dir, err := p.open()
	if dir == nil {
		return nil, err
	}
	defer dir.Close()
	// ours returns the generation that lib leads to, "" where there is no lib.
	ours := func(dir *os.Root) (string, error) {
		target, err := dir.Readlink("lib")
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil || !isGeneration(target) {
			return "", fmt.Errorf("%s %w", link, errNotOurs)
		}
		return target, nil
	}
	target, err := ours(dir)
	if err != nil {
		return nil, err
	}
	if target == "" && !unfinished(dir) {
		if !dryRun {
			_ = p.in.Remove(p.name) // empty, where an uninstall was killed at its end
		}
		return nil, nil
	}
	in := &Link{Machine: m.Name, Path: link, Generation: path.Join(path.Dir(link), target), Action: "removed", Entries: []offer.Entry{}}
	if dryRun {
		return in, nil
	}
	locked, unlock, err := p.lock()
	if err != nil {
		return nil, err
	}
	defer func() {
		unlock()
		// Fails where something else is in it, which is as it should be.
		_ = p.in.Remove(p.name)
	}()
	if target, err = ours(locked); err != nil {
		return nil, err
	}
	if target != "" {
		if err := putBeside(locked, func(string) bool { return false }); err != nil {
			return nil, err
		}
		if err := locked.Remove("lib"); err != nil {
			return nil, err
		}
	}
	return in, removeLeftOver(locked)
}
