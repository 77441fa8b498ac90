package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Private is a user's directory of driver libraries for one machine.
type Private struct {
	Machine string `json:"machine"`
	Version string `json:"version"`
	Dir     string `json:"dir"`
}

// Cache is where one user's private directories are kept, named by their contents.
type Cache struct {
	Dir string
	// Log is told what is worth knowing; nil for nothing.
	Log func(format string, args ...any)
}

const (
	cacheSchema = 1                   // of state, and of how an offer is planned and made
	keepUnused  = 30 * 24 * time.Hour // how long a directory of an older driver stays
	touchAfter  = 24 * time.Hour      // how exact the time of the last use is
)

// state says which directories belong to which state of the host, so that a start
// needs a hundred stat calls and not a search.
type state struct {
	Schema int       `json:"schema"`
	Offers []Private `json:"offers"`
	Notes  []string  `json:"notes"`
	Inputs []input   `json:"inputs"`
}

// OpenCache opens, and makes if need be, the directory for private directories:
// dir if it is not "", else below $XDG_CACHE_HOME, ~/.cache or $XDG_RUNTIME_DIR.
// Nobody else may be able to write it, and programs must be allowed to map from it.
func OpenCache(dir string) (*Cache, error) {
	var tries []string
	if dir != "" {
		tries = []string{dir}
	} else {
		if base := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(base) {
			tries = append(tries, filepath.Join(base, "hostDriver"))
		} else if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
			tries = append(tries, filepath.Join(home, ".cache", "hostDriver"))
		}
		if base := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) {
			tries = append(tries, filepath.Join(base, "hostDriver"))
		}
	}
	if len(tries) == 0 {
		return nil, errors.New("no place for the libraries: neither XDG_CACHE_HOME, HOME nor XDG_RUNTIME_DIR is set; name one with --cache")
	}
	var failed []error
	for _, t := range tries {
		abs, err := filepath.Abs(t)
		if err == nil {
			err = usableCache(abs)
		}
		if err == nil {
			return &Cache{Dir: abs}, nil
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("no place for the libraries (name one with --cache): %w", errors.Join(failed...))
}

func usableCache(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user, who could plant libraries in it", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others can write %s: chmod go-w it", dir)
	}
	var fsys unix.Statfs_t
	if err := unix.Statfs(dir, &fsys); err == nil && fsys.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s lies on a file system mounted noexec, from which no library can be loaded", dir)
	}
	return unix.Access(dir, unix.W_OK)
}

func (c *Cache) logf(format string, args ...any) {
	if c.Log != nil {
		c.Log(format, args...)
	}
}

// Prepare returns the private directories for a host, that of m first, making them
// where they are not there yet. Many processes may do so at once: one works, the
// others wait and take what it made.
func (c *Cache) Prepare(h *Host, m Machine) ([]Private, error) {
	id := sha256.Sum256([]byte(strings.Join(append([]string{h.Root.Path("/"), m.Name}, h.From...), "\x00")))
	file := filepath.Join(c.Dir, "state-"+hex.EncodeToString(id[:8])+".json")
	if s := c.load(h, file); s != nil {
		return s.Offers, nil
	}
	lock, err := os.OpenFile(filepath.Join(c.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	// Where the file system has no locks, several may do the same work; renames keep that safe.
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if s := c.load(h, file); s != nil {
		return s.Offers, nil
	}
	s, err := c.make(h, m)
	if err != nil {
		return nil, err
	}
	return s.Offers, c.save(file, s)
}

// load returns the state of a file if it is still true.
func (c *Cache) load(h *Host, file string) *state {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	s := &state{}
	if json.Unmarshal(b, s) != nil || s.Schema != cacheSchema || len(s.Offers) == 0 {
		return nil
	}
	for _, in := range s.Inputs {
		if h.identity(in.Path) != in.ID {
			c.logf("%s has changed: looking for the driver again", in.Path)
			return nil
		}
	}
	for _, o := range s.Offers {
		info, err := os.Lstat(o.Dir)
		if err != nil || !info.IsDir() {
			return nil
		}
		if now := time.Now(); now.Sub(info.ModTime()) > touchAfter {
			_ = os.Chtimes(o.Dir, now, now) // only lets it live longer
		}
	}
	return s
}

// make finds the driver and makes its directories.
func (c *Cache) make(h *Host, m Machine) (*state, error) {
	h.inputs = nil
	s := &state{Schema: cacheSchema, Notes: []string{}}
	machines := []Machine{m}
	if other, ok := m.Second(); ok {
		machines = append(machines, other)
	}
	for i, machine := range machines {
		d, err := h.Find(machine)
		if err != nil {
			if i > 0 && errors.Is(err, ErrNoDriver) {
				continue
			}
			return nil, err
		}
		o := h.Private(d)
		for _, n := range o.Notes {
			c.logf("%s", n)
		}
		dir, err := c.offer(o)
		if err != nil {
			return nil, err
		}
		s.Offers = append(s.Offers, Private{machine.Name, d.Version, dir})
		s.Notes = append(s.Notes, o.Notes...)
	}
	s.Inputs = h.inputs
	c.removeUnused(s.Offers)
	return s, nil
}

// offer makes the directory of an offer, if it is not there, in one rename.
func (c *Cache) offer(o *Offer) (string, error) {
	key, err := o.Key()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.Dir, key)
	if o.Same(dir) {
		return dir, nil
	}
	fresh := filepath.Join(c.Dir, ".new-"+random())
	if err := o.Make(fresh); err != nil {
		os.RemoveAll(fresh)
		return "", fmt.Errorf("preparing the driver's libraries: %w", err)
	}
	if err := os.Rename(fresh, dir); err == nil {
		c.logf("made %s: %d names", dir, len(o.Entries))
		return dir, nil
	}
	// Another process was faster, or the directory was damaged.
	if !o.Same(dir) {
		if err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE); err != nil {
			os.RemoveAll(fresh)
			return "", fmt.Errorf("%s: %w", dir, err)
		}
	}
	os.RemoveAll(fresh)
	return dir, nil
}

func (c *Cache) save(file string, s *state) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	fresh := filepath.Join(c.Dir, ".state-"+random())
	if err := os.WriteFile(fresh, b, 0o600); err != nil {
		os.Remove(fresh)
		return err
	}
	return os.Rename(fresh, file)
}

// removeUnused removes directories of older drivers that nobody has started with
// for a while, and what a killed process left unfinished.
func (c *Cache) removeUnused(used []Private) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		at := filepath.Join(c.Dir, e.Name())
		keep := !e.IsDir()
		for _, u := range used {
			keep = keep || u.Dir == at
		}
		info, err := e.Info()
		if keep || err != nil || e.Name() == stageName {
			continue
		}
		age := time.Since(info.ModTime())
		if strings.HasPrefix(e.Name(), ".new-") && age > time.Hour || len(e.Name()) == 32 && age > keepUnused {
			os.RemoveAll(at)
		}
	}
}

// Stage returns an empty directory to mount on inside a namespace.
func (c *Cache) Stage() (string, error) {
	dir := filepath.Join(c.Dir, stageName)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}
