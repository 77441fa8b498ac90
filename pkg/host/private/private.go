// Package private keeps a user's directories of driver libraries, named by their contents,
// and knows which of them is right for the host as it is.
package private

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/compat"
	"cuda-runpath/pkg/host/offer"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/sysroot"
)

// Dir is a user's directory of driver libraries for one machine.
type Dir struct {
	Machine string `json:"machine"`
	Path    string `json:"dir"`
}

// Cache is where one user's private directories are kept, named by their contents.
type Cache struct {
	// Dir is the directory in use: once [Cache.Prepare] has returned, the one of what it returned.
	Dir string
	// Seen is the machine's driver link where programs see the directories as that one alone; "" where they see them
	// under their own names too.
	Seen string
	// Log is told what is worth knowing, Warn what everybody should know.
	Log, Warn func(format string, args ...any)

	readOnly []string // directories before Dir that may hold what is needed, but cannot be written
}

const (
	cacheSchema = 5                   // of state, and of how an offer is planned and made
	keepUnused  = 30 * 24 * time.Hour // how long a directory of an older driver stays
	maxState    = 16 << 20            // bytes of a state or a manifest
	touchAfter  = 24 * time.Hour      // how exact the time of the last use is
)

// rootCache is root's own place where HOME is another user's, as sudo may leave it, or closed to others.
const rootCache = "/var/cache/hostDriver"

// Prepared are the private directories for a host, that of its programs' machine
// first, and what was found of the compat packages that were asked about.
type Prepared struct {
	Offers []Dir         `json:"offers"`
	Compat []host.Compat `json:"compat"`
}

// state says which directories belong to which state of the host, so that a start
// needs a hundred stat calls and not a search.
type state struct {
	Schema int `json:"schema"`
	Prepared
	Inputs []host.Input `json:"inputs"`
}

// OpenCache opens, and makes if need be, the directory for private directories:
// dir if it is not "", else below the first of $XDG_CACHE_HOME, ~/.cache and
// $XDG_RUNTIME_DIR that serves, else hostDriver-UID in $TMPDIR; for root also /var/cache, and first those that others can enter.
// Nobody else may be able to write it or to put another one in its place, and
// programs must be allowed to map from it. One that cannot be written serves for
// what it holds already.
func OpenCache(dir string) (*Cache, error) {
	var tries []string
	if dir != "" {
		tries = []string{dir}
	} else {
		if base := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(base) {
			tries = append(tries, filepath.Join(base, "hostDriver"))
		}
		if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
			tries = append(tries, filepath.Join(home, ".cache", "hostDriver"))
		}
		if base := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) {
			tries = append(tries, filepath.Join(base, "hostDriver"))
		}
		if os.Geteuid() == 0 {
			tries = append(tries, rootCache)
		}
		if base := os.Getenv("TMPDIR"); filepath.IsAbs(base) { // nobody's unasked, as /tmp
			tries = append(tries, filepath.Join(base, fmt.Sprintf("hostDriver-%d", os.Geteuid())))
		}
	}
	if len(tries) == 0 {
		return nil,
			errors.New(
				"no place for the libraries: neither XDG_CACHE_HOME, HOME, XDG_RUNTIME_DIR nor TMPDIR is set; name one with --cache")
	}
	silent := func(string, ...any) {}
	c := &Cache{Log: silent, Warn: silent}
	var failed []error
	if os.Geteuid() == 0 && dir == "" {
		// A program that gives up being root still needs its libraries.
		slices.SortStableFunc(tries, func(a, b string) int { return cmp.Compare(closed(a), closed(b)) })
	}
	for _, t := range tries {
		at, writable, err := usableCache(t)
		switch {
		case err != nil:
			failed = append(failed, err)
		case writable:
			c.Dir = at
			return c, nil
		default:
			c.readOnly = append(c.readOnly, at)
		}
	}
	if len(c.readOnly) > 0 {
		return c, nil
	}
	return nil, noPlace(failed)
}

func noPlace(failed []error) error {
	said := make([]string, len(failed))
	for i, err := range failed {
		said[i] = err.Error()
	}
	return fmt.Errorf("no place for the libraries (name one with --cache): %s", strings.Join(said, "; "))
}

// closed returns 1 where others cannot enter a directory or, where that is missing, the one in which it would be made;
// else 0.
func closed(dir string) int {
	root := sysroot.Root{}
	steps, err := root.Steps(dir)
	if errors.Is(err, fs.ErrNotExist) && dir != "/" {
		return closed(filepath.Dir(dir))
	}
	for _, at := range steps {
		if info, err := os.Lstat(at); err == nil && info.IsDir() && info.Mode()&0o001 == 0 {
			return 1
		}
	}
	return 0
}

// usableCache returns the real path of a directory for the cache, and whether it can be written.
func usableCache(dir string) (at string, writable bool, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", false, err
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	if at, err = ownDirectory(dir, mode); err != nil {
		return "", false, err
	}
	if plainfile.NoExec(at) {
		return "", false, fmt.Errorf("%s is on a file system mounted noexec, from which no library can be loaded", dir)
	}
	return at, unix.Access(at, unix.W_OK) == nil, nil
}

// ownDirectory returns the real path of a directory of the caller's, made with a
// mode where it is missing, once nobody else can put another one in its place.
func ownDirectory(dir string, mode fs.FileMode) (string, error) {
	var missing []string
	at := dir
	for at != "/" {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, path.Base(at))
		at = path.Dir(at)
	}
	machine := &host.Host{}
	reliable := func(name string) (string, error) {
		if err := machine.Trusted(name); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return sysroot.Root{}.Resolve(name)
	}
	real, err := reliable(at)
	if err != nil {
		return "", err
	}
	for i := len(missing) - 1; i >= 0; i-- {
		real = path.Join(real, missing[i])
		if err := plainfile.Make(real, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	if len(missing) > 0 {
		if real, err = reliable(real); err != nil {
			return "", err
		}
	}
	info, err := os.Lstat(real)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory", dir)
	case !ok || int(st.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to another user, who could plant libraries in it", dir)
	case info.Mode().Perm()&0o022 != 0:
		return "", fmt.Errorf("others can write %s: chmod go-w it", dir)
	}
	return real, nil
}

// Prepare returns the private directories for a host, that of m first, making them
// where they are not there yet; dirs are the compat packages that the program may
// use. Many processes may do so at once: one works, the others wait and take what
// it made.
func (c *Cache) Prepare(h *host.Host, m host.Machine, dirs []string, choice compat.Choice) (*Prepared, error) {
	id := fnv.New64a()
	io.WriteString(id, strings.Join([]string{h.Root.Path("/"), m.Name, strings.Join(h.From, "\x00"),
		strings.Join(dirs, "\x00"), string(choice), c.Seen}, "\x00\x00"))
	name := fmt.Sprintf("state-%016x.json", id.Sum64())
	for _, dir := range append(append([]string{}, c.readOnly...), c.Dir) {
		if dir == "" {
			continue
		}
		if s := c.load(h, dir, name); s != nil {
			c.Dir = dir
			return &s.Prepared, nil
		}
	}
	if c.Dir == "" {
		return nil, noPlace([]error{fmt.Errorf("%s cannot be written, and does not hold them yet",
			strings.Join(c.readOnly, " and "))})
	}
	in, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	held, err := plainfile.OpenLock(in, "lock")
	if err != nil {
		return nil, err
	}
	defer held.Close()
	// Without the lock, several may do the same work; renames keep that safe.
	if !plainfile.Lock(held, func() {
		c.Warn("waiting for another start, which prepares the driver's libraries (lock: %s)", held.Name())
	}) {
		c.Warn("going on without %s, which another process has kept for %v", held.Name(), plainfile.LockWait)
	}
	if s := c.load(h, c.Dir, name); s != nil {
		return &s.Prepared, nil
	}
	s, err := c.make(in, h, m, dirs, choice)
	for i := 0; i < 3 && errors.Is(err, offer.ErrChanging); i++ {
		s, err = c.make(in, h, m, dirs, choice)
	}
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return &s.Prepared, plainfile.WriteFile(in, name, 0o600, b)
}

// load returns the state of a file if it is still true.
func (c *Cache) load(h *host.Host, dir, name string) *state {
	b, err := regular.Read(filepath.Join(dir, name), maxState)
	if err != nil {
		return nil
	}
	s := &state{}
	if json.Unmarshal(b, s) != nil || s.Schema != cacheSchema || len(s.Offers) == 0 {
		return nil
	}
	for _, in := range s.Inputs {
		if h.Identity(in.Path) != in.ID {
			c.Log("%s has changed: looking for the driver again", in.Path)
			return nil
		}
	}
	for _, o := range s.Offers {
		if filepath.Dir(o.Path) != dir || !c.whole(o.Path) {
			c.Log("%s has been modified: making it again", o.Path)
			return nil
		}
		info, err := os.Lstat(o.Path + manifest)
		if now := time.Now(); err == nil && now.Sub(info.ModTime()) > touchAfter {
			_ = os.Chtimes(o.Path+manifest, now, now) // only lets it live longer
		}
	}
	return s
}

// make finds the driver and makes its directories.
func (c *Cache) make(in *os.Root, h *host.Host, m host.Machine, dirs []string, choice compat.Choice) (*state, error) {
	h.Inputs = nil
	s := &state{Schema: cacheSchema, Prepared: Prepared{Compat: []host.Compat{}}}
	all, err := h.FindAll(m)
	if err != nil {
		return nil, err
	}
	for i, d := range all {
		if i == 0 && len(dirs) > 0 {
			if d, s.Compat, err = compat.Choose(h, d, dirs, choice); err != nil {
				return nil, err
			}
		}
		o := offer.Private(h, d)
		if i == 0 {
			o.Seen = c.Seen
		}
		for _, n := range o.Notes {
			c.Log("%s", n)
		}
		dir, err := c.offer(in, o)
		if err != nil {
			return nil, err
		}
		s.Offers = append(s.Offers, Dir{d.Machine, dir})
	}
	s.Inputs = h.Inputs
	c.removeUnused(s.Offers)
	return s, nil
}

// offer makes the directory of an offer, if it is not there and whole, in one rename.
func (c *Cache) offer(in *os.Root, o *offer.Offer) (string, error) {
	key, err := o.Digest()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.Dir, key)
	if o.Same(in, key) && c.whole(dir) {
		return dir, nil
	}
	fresh := offer.Fresh + plainfile.Random()
	defer func() { _ = in.RemoveAll(fresh) }()
	if err := o.Make(in, fresh, key); err != nil {
		return "", fmt.Errorf("preparing the driver's libraries: %w", err)
	}
	// Before it is in its place: between the two, the directory counts as damaged.
	b, err := json.Marshal(identities(filepath.Join(c.Dir, fresh)))
	if err == nil {
		err = plainfile.WriteFile(in, key+manifest, 0o600, b)
	}
	if err != nil {
		return "", err
	}
	if err := in.Rename(fresh, key); err != nil {
		// The directory is there, and damaged.
		if err := plainfile.Exchange(in, fresh, key); err != nil {
			return "", fmt.Errorf("%s: %w", dir, err)
		}
	}
	c.Log("made %s: %d names", dir, len(o.Entries))
	return dir, plainfile.Sync(in)
}

// manifest is what the name of a file ends in that says what a directory was made of. It stands beside the
// directory, and its own time says when that was last used. It tells a change of any of them: whatever writes a file
// changes its ctime, and what puts another one, or another link, in its place changes the directory's time.
const manifest = ".files"

// identities returns the state of a directory's files, and of it and those in it, whose names end in "/".
func identities(dir string) map[string]string {
	ids := map[string]string{}
	_ = filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, at)
		if err == nil && e.IsDir() {
			name += "/"
		}
		if err == nil && e.Type()&fs.ModeSymlink == 0 {
			ids[name] = identity(dir, name)
		}
		return err
	})
	return ids
}

func identity(dir, name string) string {
	if !strings.HasSuffix(name, "/") {
		return host.LinkIdentity(dir + "/" + name)
	}
	info, err := os.Lstat(dir + "/" + name)
	if err != nil {
		return "none"
	}
	return strconv.FormatInt(info.ModTime().UnixNano(), 36) // its ctime changes where it is given its name
}

// whole reports whether a directory's files are those of which it was made.
func (c *Cache) whole(dir string) bool {
	b, err := regular.Read(dir+manifest, maxState)
	ids := map[string]string{}
	if err != nil || json.Unmarshal(b, &ids) != nil || len(ids) == 0 {
		return false
	}
	for name, id := range ids {
		if identity(dir, name) != id {
			return false
		}
	}
	return true
}

// booted returns when this machine was started, for tests a variable.
var booted = func() time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(now.Nano()))
}

// removeUnused removes directories of older drivers that nobody has started with
// for a while, and what a killed process left unfinished. A program that runs may open
// further libraries of the driver that it started with at any time, and no lock could
// tell: it would be a descriptor of the program's. But none has run since before the
// machine was started.
func (c *Cache) removeUnused(used []Dir) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		at := filepath.Join(c.Dir, e.Name())
		keep := false
		for _, u := range used {
			keep = keep || u.Path == at
		}
		info, err := e.Info()
		if keep || err != nil {
			continue
		}
		if used, err := os.Lstat(at + manifest); err == nil && used.ModTime().After(info.ModTime()) {
			info = used
		}
		age := time.Since(info.ModTime())
		unused := age > keepUnused && info.ModTime().Add(touchAfter).Before(booted())
		unfinished := strings.HasPrefix(e.Name(), offer.Fresh) || strings.HasPrefix(e.Name(), regular.Temporary)
		if unfinished && age > time.Hour || e.IsDir() && len(e.Name()) == 32 && unused {
			os.RemoveAll(at)
			os.Remove(at + manifest)
		}
	}
}

// Stage returns an empty directory to mount on inside a namespace.
func (c *Cache) Stage() (string, error) {
	dir := filepath.Join(c.Dir, "stage")
	if err := plainfile.Make(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}
