package host

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/store"
)

// generation is what the names of the directories begin with that lib is a link to.
const generation = ".hostDriver-"

// Install is what is to be done, or was done, to one driver link.
type Install struct {
	Machine string `json:"machine"`
	Version string `json:"version"`
	Link    string `json:"link"` // the directory that programs search: …/lib
	// Generation is the directory beside it that the link leads to.
	Generation string  `json:"generation"`
	Action     string  `json:"action"` // "made", "replaced", "unchanged", "removed"
	Entries    []Entry `json:"entries"`
}

// Install makes the driver's libraries available in the driver link below a
// prefix, such as /run/opengl-driver: prefix/lib becomes a link to a new directory
// beside it, in one rename, so that at any time a program finds the old set or the
// new one. It changes nothing where the right set is there already.
func (h *Host) Install(d *Driver, o *Offer, prefix string, dryRun bool) (*Install, error) {
	key, err := o.Key()
	if err != nil {
		return nil, err
	}
	link := d.machine.link(prefix)
	in := &Install{Machine: d.Machine, Version: d.Version, Link: link, Generation: path.Join(path.Dir(link), generation+key), Entries: o.Entries}
	dir, err := h.prefixDir(link)
	if err != nil {
		return nil, err
	}
	at, gen := filepath.Join(dir, "lib"), filepath.Join(dir, generation+key)
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		in.Action = "made"
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(at)
		if err != nil {
			return nil, err
		}
		switch {
		case target == generation+key && o.Same(gen):
			in.Action = "unchanged"
			return in, nil
		case strings.HasPrefix(target, generation) && !strings.Contains(target, "/"):
			in.Action = "replaced"
		default:
			return nil, fmt.Errorf("%s is a link to %s, which hostDriver did not make; remove it first if nothing else needs it", link, target)
		}
	case info.IsDir() && onlyDriverLinks(at):
		in.Action = "replaced"
	default:
		return nil, fmt.Errorf("%s holds more than links to the driver's libraries; hostDriver did not make it and leaves it alone: move it away first", link)
	}
	if dryRun {
		return in, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// Two at once, at boot and by hand: one after the other.
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	return in, h.switchTo(dir, gen, o)
}

// prefixDir returns where the directory that holds the driver link lies on this
// machine. It may not exist yet.
func (h *Host) prefixDir(link string) (string, error) {
	prefix := path.Dir(link)
	parent, err := h.Root.Resolve(path.Dir(prefix))
	if err != nil {
		return "", fmt.Errorf("%s: %w", prefix, err)
	}
	at := h.Root.Path(path.Join(parent, path.Base(prefix)))
	if target, err := os.Readlink(at); err == nil {
		hint := ""
		if store.Contains(target) {
			hint = " (NixOS makes it: there, nothing needs to be installed)"
		}
		return "", fmt.Errorf("%s is a link to %s%s; hostDriver leaves it alone", prefix, target, hint)
	}
	return at, nil
}

// switchTo makes the generation, if it is not there, and lets dir/lib lead to it.
func (h *Host) switchTo(dir, gen string, o *Offer) error {
	suffix := random()
	if !o.Same(gen) {
		fresh := filepath.Join(dir, ".new-"+suffix)
		if err := o.Make(fresh); err != nil {
			os.RemoveAll(fresh)
			return err
		}
		// A damaged generation of the same name is put aside: links to its name keep leading somewhere.
		if err := os.Rename(fresh, gen); err != nil {
			if err = unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, gen, unix.RENAME_EXCHANGE); err != nil {
				os.RemoveAll(fresh)
				return fmt.Errorf("%s: %w", gen, err)
			}
			os.RemoveAll(fresh)
		}
	}
	at, link := filepath.Join(dir, "lib"), filepath.Join(dir, ".link-"+suffix)
	if err := os.Symlink(filepath.Base(gen), link); err != nil {
		return err
	}
	err := os.Rename(link, at)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		// A real directory of links stands there: swap the two, so that no moment is without either.
		if err = unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, at, unix.RENAME_EXCHANGE); err == nil {
			err = os.RemoveAll(link)
		}
	}
	if err != nil {
		os.Remove(link)
		return fmt.Errorf("%s: %w", at, err)
	}
	return removeOthers(dir, filepath.Base(gen))
}

// removeOthers removes what earlier runs left in a prefix, all generations but one.
func removeOthers(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), generation) && e.Name() != keep {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// UninstallAll removes what Install made below a prefix, for every machine. What
// it did not make it leaves alone, with an error.
func (h *Host) UninstallAll(prefix string, dryRun bool) ([]*Install, error) {
	done := []*Install{}
	seen := map[string]bool{}
	for _, m := range Machines {
		if seen[m.link(prefix)] {
			continue
		}
		seen[m.link(prefix)] = true
		in, err := h.Uninstall(m, prefix, dryRun)
		if err != nil {
			return done, err
		}
		if in != nil {
			done = append(done, in)
		}
	}
	return done, nil
}

// Uninstall removes what Install made below a prefix for a machine, and the
// prefix where nothing else is in it. It returns nil where there is nothing to remove.
func (h *Host) Uninstall(m Machine, prefix string, dryRun bool) (*Install, error) {
	link := m.link(prefix)
	dir, err := h.prefixDir(link)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, "lib")
	target, err := os.Readlink(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !strings.HasPrefix(target, generation) || strings.Contains(target, "/") {
		return nil, fmt.Errorf("%s was not made by hostDriver install; leaving it alone", link)
	}
	in := &Install{Machine: m.Name, Link: link, Generation: path.Join(path.Dir(link), target), Action: "removed", Entries: []Entry{}}
	if dryRun {
		return in, nil
	}
	if err := os.Remove(at); err != nil {
		return nil, err
	}
	if err := removeOthers(dir, ""); err != nil {
		return nil, err
	}
	// Fails where something else is in it, which is as it should be.
	_ = os.Remove(dir)
	return in, nil
}

func random() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
