package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/sysroot"
)

// What may be relied on: files that nobody but root, the caller and the owner of the
// tree that is looked at can replace. Every directory and every link on the way
// counts. Seen from "/" on, one that passes cannot be exchanged by others, so what
// was found below it stays what it was.

// lowGroups are group IDs that Debian and Fedora reserve for the system's own
// groups (root, staff, …): who is in one of them may administer the machine.
const lowGroups = 100

// Trusted tells why nobody should rely on what is, or will be, at a path: someone other than root, the caller or the
// owner of the tree can put something else in its place. Of a path that is not there, what is there of it is looked at.
func (h *Host) Trusted(name string) error {
	at := path.Clean(name)
	for {
		err := h.trusted(at)
		if err == nil && at != path.Clean(name) {
			err = h.Shared(at) // where others may make it first
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) || at == "/" {
			return errors.New(strings.ReplaceAll(err.Error(), "the file", at))
		}
		if _, err := h.Root.Readlink(at); err == nil {
			return fmt.Errorf("%s is a link that leads nowhere", at)
		}
		at = path.Dir(at) // it was not there, and what comes there is made in what is
	}
}

// Shared says who else can add to a directory, and so make what is not there yet: also to a sticky one, as /tmp, in
// which they cannot replace what is there.
func (h *Host) Shared(dir string) error {
	at, err := h.Root.Resolve(dir)
	if err != nil {
		return err
	}
	info, err := h.Root.Lstat(at)
	if err != nil {
		return err
	}
	why, err := h.writers(at, info)
	if err == nil && why != "" {
		err = errors.New(strings.ReplaceAll(why, "%s", at))
	}
	return err
}

// trusted tells why a file must not be relied on: someone other than root, the
// caller or the owner of the tree could put another one in its place.
func (h *Host) trusted(name string) error {
	steps, err := h.Root.Steps(name)
	if err != nil {
		return Reason(err)
	}
	for i, at := range steps {
		why, known := h.verdicts[at]
		if !known {
			info, err := h.Root.Lstat(at)
			if err != nil {
				return Reason(err)
			}
			if why, err = h.writable(at, info); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			if h.verdicts == nil {
				h.verdicts = map[string]string{}
			}
			h.verdicts[at] = why
		}
		if why != "" {
			what := at
			if i == len(steps)-1 {
				what = "the file"
			}
			return errors.New(strings.ReplaceAll(why, "%s", what))
		}
	}
	return nil
}

// writable says who else can change a file or directory, with %s for its name, or "".
func (h *Host) writable(at string, info fs.FileInfo) (string, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", nil
	}
	link := info.Mode()&fs.ModeSymlink != 0
	if !h.reliable(st.Uid) && !(link && !h.inSticky(at)) {
		return fmt.Sprintf("%%s belongs to user %d", st.Uid), nil
	}
	if link || info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
		// Nothing can be written into a link, and it is as safe as its directory, but for a
		// sticky one, such as /tmp: there, anyone can add entries and replace their own.
		return "", nil
	}
	return h.writers(at, info)
}

// writers says who else has the right to write a file or directory, with %s for its name, or "".
func (h *Host) writers(at string, info fs.FileInfo) (string, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", nil
	}
	entries, err := accessList(h.Root, at)
	if err != nil {
		return "", err
	}
	if entries == nil {
		perm := info.Mode().Perm()
		entries = []aclEntry{{tag: aclGroupObj, perm: uint16(perm >> 3 & 7)}, {tag: aclOther, perm: uint16(perm & 7)}}
	}
	mask := uint16(7)
	for _, e := range entries {
		if e.tag == aclMask {
			mask = e.perm
		}
	}
	for _, e := range entries {
		const write = 2
		switch {
		case e.tag == aclOther && e.perm&write != 0:
			return "anyone can write %s", nil
		case e.perm&mask&write == 0:
		case e.tag == aclUser && !h.reliable(e.id):
			return fmt.Sprintf("user %d can write %%s", e.id), nil
		case e.tag == aclGroup && h.groupOfOthers(e.id), e.tag == aclGroupObj && h.groupOfOthers(st.Gid):
			id := e.id
			if e.tag == aclGroupObj {
				id = st.Gid
			}
			return fmt.Sprintf("group %s can write %%s (chmod g-w)", groupName(id)), nil
		}
	}
	return "", nil
}

// groupName returns a group's number, and its name before it where it has one.
func groupName(id uint32) string {
	number := strconv.Itoa(int(id))
	if g, err := user.LookupGroupId(number); err == nil {
		return g.Name + " (" + number + ")"
	}
	return number
}

// reliable reports whether a user could do as much anyway: root, the caller, the owner of the tree.
func (h *Host) reliable(uid uint32) bool {
	return uid == 0 || int(uid) == os.Geteuid() || uid == h.owner() || uid == unmappedRoot()
}

func (h *Host) groupOfOthers(gid uint32) bool { return gid >= lowGroups && int(gid) != os.Getegid() }

// inSticky reports whether a path is in a directory in which others may add entries.
func (h *Host) inSticky(at string) bool {
	info, err := h.Root.Lstat(path.Dir(at))
	return err != nil || info.Mode()&fs.ModeSticky != 0
}

// One entry of a POSIX access control list, as Linux keeps it in the extended
// attribute system.posix_acl_access (linux/posix_acl_xattr.h): a version, then
// eight bytes an entry, little-endian. Where there is a list, the group bits of the
// file's mode are its mask.
type aclEntry struct {
	tag, perm uint16
	id        uint32
}

const (
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20
)

// accessList returns the access control list of a file; nil where it has none.
func accessList(root sysroot.Root, at string) ([]aclEntry, error) {
	b := make([]byte, 1<<16) // XATTR_SIZE_MAX
	n, err := root.Getxattr(at, "system.posix_acl_access", b)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading its access control list: %w", err)
	case n < 4 || n%8 != 4 || binary.LittleEndian.Uint32(b) != 2:
		return nil, errors.New("its access control list is of an unknown kind")
	}
	entries := []aclEntry{}
	for b = b[4:n]; len(b) > 0; b = b[8:] {
		entries = append(entries, aclEntry{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:]),
			binary.LittleEndian.Uint32(b[4:])})
	}
	return entries, nil
}

// owner returns who owns the tree: outside the running system, files may belong to its maker.
func (h *Host) owner() uint32 {
	if h.Root.IsHost() {
		return 0
	}
	if info, err := h.Root.Lstat("/"); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			return st.Uid
		}
	}
	return 0
}

// unmappedRoot returns as whose the files of the machine's root appear: 0, but inside
// a user namespace (rootless containers, Flatpak, our own) all users without an ID there are one.
var unmappedRoot = sync.OnceValue(func() uint32 {
	ids, err := os.ReadFile("/proc/self/uid_map")
	if f := strings.Fields(string(ids)); err != nil || len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295" {
		return 0
	}
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return 0
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(overflow)), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(id)
})

// Reason strips an error of the path, which stands beside it.
func Reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
