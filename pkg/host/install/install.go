// Package install keeps a driver link: a link to a directory of libraries on a disk, which
// is made whole before anybody sees it, and says which files repeat this at boot.
package install

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/host/offer"
	"cuda-runpath/pkg/plainfile"
)

// generation is what the names of the directories begin with that lib is a link to.
const generation = host.Generation

// A Site is where an installation is.
type Site struct {
	// Prefix is the directory that programs see, such as /run/opengl-driver.
	Prefix string
	// State is the directory in which the one lies that Prefix is a link to: on a disk, for /run is memory, and empty
	// after a boot. "": Prefix is that directory itself.
	State string
}

// dir returns the directory that holds the lib to which a driver link leads.
func (s Site) dir(link string) string {
	if s.State == "" {
		return path.Dir(link)
	}
	return path.Join(s.State, host.KeptAs(path.Dir(link)))
}

// target returns what the link is to lead to that stands for a driver link's directory: a relative path, which is right
// wherever the system's root is. The error is for a directory that is not there.
func (s Site) target(h *host.Host, link string) (string, error) {
	in, err := h.Root.Resolve(path.Dir(path.Dir(link)))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path.Dir(link), err)
	}
	return filepath.Rel(in, s.dir(link))
}

// A Link is what is to be done, or was done, to one driver link.
type Link struct {
	Machine string `json:"machine"`
	Version string `json:"version,omitempty"`
	Path    string `json:"link"` // the directory that programs search: …/lib
	// Generation is the directory that the link leads to.
	Generation string        `json:"generation,omitempty"`
	Action     string        `json:"action"` // "made", "replaced", "unchanged", "removed"
	Entries    []offer.Entry `json:"entries"`
}

// errGone means that another process has just taken a directory away in which something was to be made.
var errGone = errors.New("another process keeps taking it away")

// Make makes the driver's libraries available in the driver link of a site. "lib" beside the libraries becomes a link
// to a new directory, in one rename, and so does the site's link to that, so that at any time a program finds the old
// set or the new one. It changes nothing where the right set is there already. The error is [offer.ErrChanging] where
// the driver was upgraded meanwhile.
func Make(h *host.Host, d *host.Driver, o *offer.Offer, s Site, dryRun bool) (*Link, error) {
	link := d.Link(s.Prefix)
	o.Seen = link
	copies := slices.ContainsFunc(o.Entries, func(e offer.Entry) bool { return e.Copy != "" })
	if err := s.Fit(h, link, copies); err != nil {
		return nil, err
	}
	key, err := o.Digest()
	if err != nil {
		return nil, err
	}
	in := &Link{Machine: d.Machine, Version: d.Version, Path: link, Generation: path.Join(s.dir(link), generation+key),
		Entries: o.Entries}
	const tries = 100
	for range tries {
		if err = in.make(h, o, s, key, dryRun); !errors.Is(err, errGone) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return in, nil
}

// Fit says why a site does not serve for a driver link: what is there is somebody else's, others can put something else
// there, or no copies can be loaded from there.
func (s Site) Fit(h *host.Host, link string, copies bool) error {
	sight, err := s.look(h, link)
	if err != nil {
		return err
	}
	defer sight.close()
	if err := sight.replaceable(); err != nil {
		return err
	}
	seen := path.Dir(link)
	if s.State != "" && !sight.directory { // a link, which is as safe as its directory
		seen = path.Dir(seen)
	}
	if err := h.Trusted(seen); err != nil {
		return fmt.Errorf("%s, for the libraries that programs load: %w", path.Dir(link), err)
	}
	at := s.dir(link)
	if s.State != "" {
		err := h.Trusted(at)
		if err == nil { // what is made in a sticky directory, others may make again once it is gone
			if err = h.Shared(s.State); errors.Is(err, fs.ErrNotExist) {
				err = nil // it is to be made, or an uninstall has just taken it away
			}
		}
		if err != nil {
			return fmt.Errorf("%s, for the libraries that programs load: %w; name another directory with --state-dir",
				s.State, err)
		}
	}
	if !copies || !h.Root.IsHost() {
		return nil
	}
	there := at
	for _, err := os.Stat(there); err != nil && there != "/"; _, err = os.Stat(there) {
		there = path.Dir(there)
	}
	if plainfile.NoExec(there) {
		return fmt.Errorf(
			"%s is on a file system mounted noexec, from which no library can be loaded: name a directory on another one with "+
				"--state-dir", at)
	}
	return nil
}

func (in *Link) make(h *host.Host, o *offer.Offer, s Site, key string, dryRun bool) error {
	sight, err := s.look(h, in.Path)
	if err != nil {
		return err
	}
	defer sight.close()
	if err := sight.replaceable(); err != nil {
		return err
	}
	if !dryRun {
		// What an ordinary user makes in a directory of his own is no business of the system's record.
		things := []made.Thing{{Kind: made.Prefix, Path: s.Prefix, State: s.State}}
		if s.State != "" {
			things = append(made.Missing(h, s.State), things...)
		}
		err := made.Note(h, things...)
		if err != nil && !(errors.Is(err, fs.ErrPermission) && s.State == "") {
			return fmt.Errorf("recording what is made: %w", err)
		}
	}
	p, err := openPrefix(h, s.dir(in.Path), s.State != "" && !dryRun)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", s.State, errGone)
	}
	if err != nil {
		return err
	}
	if p == nil { // a dry run, and the state directory is not there
		in.Action = cmp.Or(sight.action, "made")
		return nil
	}
	defer p.in.Close()
	dir, err := p.open()
	if err != nil {
		return err
	}
	if dir != nil {
		defer dir.Close()
	}
	judge := func(dir *os.Root) error {
		if err := in.judge(dir, o, generation+key); err != nil {
			return err
		}
		if in.Action == "unchanged" && sight.action != "" || in.Action == "made" && sight.action == "replaced" {
			in.Action = sight.action
		}
		return nil
	}
	if err := judge(dir); err != nil || dryRun || in.Action == "unchanged" && !unfinished(dir) && !sight.unfinished() {
		return err
	}
	// Two at once, at boot and by hand: one after the other.
	locked, unlock, err := p.lock()
	if err != nil {
		if in.Action == "unchanged" {
			return nil // who cannot take the rest away need not
		}
		return err
	}
	defer unlock()
	if err := errors.Join(sight.again(), sight.replaceable()); err != nil {
		return err
	}
	if err := judge(locked); err != nil {
		return err
	}
	if in.Action != "unchanged" {
		if err = switchTo(locked, o, key); err == nil {
			err = sight.put()
		}
	}
	err = errors.Join(err, removeLeftOver(locked), sight.removeLeftOver())
	if err == nil && sight.target != "" && sight.target != s.dir(in.Path) { // another state directory than the last time
		_, _, err = removal{link: in.Path, at: sight.target, first: func() error { return nil }}.do(h)
	}
	return err
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
			return fmt.Errorf("%s is a link to %s, which hostDriver did not make; remove it first if nothing else needs it",
				in.Path, target)
		}
		switch others, exchanged := somebodys(dir); {
		case others:
			return fmt.Errorf("%s %w", in.Path, errOthers)
		case !exchanged:
			in.Action = "replaced"
			return nil
		}
	}
}

var errOthers = errors.New(
	"holds more than links to the driver's libraries; hostDriver did not make it and leaves it alone: move it away first")

// somebodys reports whether lib in a directory, which was no link, is anything but links to the driver's libraries, or
// is another thing meanwhile.
func somebodys(dir *os.Root) (others, exchanged bool) {
	links, err := offer.OnlyDriverLinks(dir, "lib")
	if links {
		return false, false
	}
	exchanged = errors.Is(err, fs.ErrNotExist)
	if errors.Is(err, unix.ENOTDIR) {
		info, serr := dir.Lstat("lib")
		exchanged = errors.Is(serr, fs.ErrNotExist) || serr == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0)
	}
	return !exchanged, exchanged
}

// beside returns which links into lib are missing beside it, and which are no longer to be there. What somebody else
// put there stays.
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

// freshLink is what the name of lib begins with until it is put into its place.
const freshLink = ".link-"

// switchTo makes the generation of a key, if it is not there, and lets lib lead to it.
func switchTo(dir *os.Root, o *offer.Offer, key string) error {
	suffix, gen := plainfile.Random(), generation+key
	if !o.Same(dir, gen) {
		fresh := offer.Fresh + suffix
		if err := o.Make(dir, fresh, key); err != nil {
			return err
		}
		// A damaged generation of the same name is put aside: links to its name keep leading somewhere.
		if err := dir.Rename(fresh, gen); err != nil {
			if err = plainfile.Exchange(dir, fresh, gen); err != nil {
				return fmt.Errorf("%s: %w", gen, err)
			}
		}
		if err := plainfile.Sync(dir); err != nil {
			return err
		}
	}
	link := freshLink + suffix
	if err := dir.Symlink(gen, link); err != nil {
		return err
	}
	err := dir.Rename(link, "lib")
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		err = plainfile.Exchange(dir, link, "lib") // a real directory of links is there
	}
	if err == nil {
		err = putBeside(dir, o.Has)
	}
	if err != nil {
		return err
	}
	return plainfile.Sync(dir)
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
		if isGeneration(n) && n != keep && e.IsDir() || isLeftOver(e) {
			names = append(names, n)
		}
	}
	return names
}

// isLeftOver reports whether something has a name that nothing keeps.
func isLeftOver(e fs.DirEntry) bool {
	return strings.HasPrefix(e.Name(), offer.Fresh) || strings.HasPrefix(e.Name(), freshLink)
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

// Remove removes what Make made at a site, for every machine. What
// it did not make it leaves alone, with an error.
func Remove(h *host.Host, s Site, dryRun bool) ([]*Link, error) {
	done := []*Link{}
	seen := map[string]bool{}
	for _, m := range host.Machines {
		if seen[m.Link(s.Prefix)] {
			continue
		}
		seen[m.Link(s.Prefix)] = true
		in, err := uninstall(h, m, s, dryRun)
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

// Withdraw removes what Make made at a site for a machine whose driver is gone: links that lead nowhere. It
// returns nil where there is nothing of ours.
func Withdraw(h *host.Host, m host.Machine, s Site, dryRun bool) (*Link, error) {
	in, err := uninstall(h, m, s, dryRun)
	if errors.Is(err, errNotOurs) || errors.Is(err, errForeign) {
		return nil, nil
	}
	return in, err
}

// uninstall removes what Make made at a site for a machine, finished or
// not, and the directories where nothing else is in them. It returns nil where there is
// nothing to remove.
func uninstall(h *host.Host, m host.Machine, s Site, dryRun bool) (*Link, error) {
	link := m.Link(s.Prefix)
	sight, err := s.look(h, link)
	if errors.Is(err, fs.ErrNotExist) { // the directory that it was in is gone, and so is the link
		sight, err = s.unseen(h, link), nil
	}
	if err != nil {
		return nil, err
	}
	defer sight.close()
	places := []string{}
	if sight.target != "" { // which may be another than is asked for
		places = append(places, sight.target)
	}
	if s.State != "" {
		places = append(places, s.dir(link))
	}
	if sight.directory || s.State == "" {
		places = append(places, path.Dir(link))
	}
	in := &Link{Machine: m.Name, Path: link, Action: "removed", Entries: []offer.Entry{}}
	found := sight.target != ""
	for i, at := range places {
		if slices.Contains(places[:i], at) {
			continue
		}
		leads := sight.target == at
		target, there, err := removal{link: link, at: at, leads: leads, dryRun: dryRun, first: func() error {
			var err error
			if sight.in != nil { // an install may have made the link since
				err = sight.again()
			}
			if err == nil && sight.target == at {
				err = sight.remove()
			}
			return errors.Join(err, sight.removeLeftOver())
		}}.do(h)
		if err != nil {
			return nil, err
		}
		if found = found || there; target != "" && in.Generation == "" {
			in.Generation = path.Join(at, target)
		}
	}
	if !dryRun {
		if _, err := h.Root.Resolve(sight.target); sight.target != "" && err != nil { // nothing is there that could be locked
			err = sight.remove()
			if err != nil {
				return nil, err
			}
		}
	}
	if !found {
		return nil, nil
	}
	return in, nil
}

// removal takes away what was made in a directory.
type removal struct {
	link, at string // the driver link, and the directory
	leads    bool   // the link leads there, so that there is something to do
	dryRun   bool
	first    func() error // what is done before, with the lock
}

// do returns the generation that lib led to, and whether there was anything.
func (r removal) do(h *host.Host) (target string, there bool, err error) {
	p, err := openPrefix(h, r.at, false)
	if err != nil || p == nil {
		return "", false, err
	}
	defer p.in.Close()
	dir, err := p.open()
	if err != nil || dir == nil && !r.leads {
		return "", false, err
	}
	if dir != nil {
		defer dir.Close()
	}
	// ours returns the generation that lib leads to, "" where there is no lib.
	ours := func(dir *os.Root) (string, error) {
		if dir == nil {
			return "", nil
		}
		target, err := dir.Readlink("lib")
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil || !isGeneration(target) {
			return "", fmt.Errorf("%s %w", r.link, errNotOurs)
		}
		return target, nil
	}
	if target, err = ours(dir); err != nil {
		return "", false, err
	}
	if target == "" && !r.leads && !unfinished(dir) {
		if !r.dryRun {
			_ = p.in.Remove(p.name) // empty, where an uninstall was killed at its end
		}
		return "", false, nil
	}
	if r.dryRun {
		return target, true, nil
	}
	locked, unlock, err := p.lock()
	if err != nil {
		return "", true, err
	}
	defer func() {
		unlock()
		// Fails where something else is in it, which is as it should be.
		_ = p.in.Remove(p.name)
	}()
	if err := r.first(); err != nil {
		return "", true, err
	}
	if target, err = ours(locked); err != nil {
		return "", true, err
	}
	if target != "" {
		if err := putBeside(locked, func(string) bool { return false }); err != nil {
			return "", true, err
		}
		if err := locked.Remove("lib"); err != nil {
			return "", true, err
		}
	}
	return target, true, removeLeftOver(locked)
}
