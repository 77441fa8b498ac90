package regular

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrOwner is the error where a new file cannot get the owner, the group or the set-group-ID bit of another one.
var ErrOwner = errors.New("giving it those of the file")

// Resemble gives the file the owner, mode and extended attributes of another file, which is open at old and which st
// describes. privileges says whether set-user-ID, set-group-ID and capabilities come with them. The error is
// [ErrLabel] if all but a label could be set.
func (n *Nameless) Resemble(old int, st *unix.Stat_t, privileges bool) error {
	mode := st.Mode & 0o1777
	if privileges {
		mode = st.Mode & 0o7777
	}
	var now unix.Stat_t
	if err := unix.Fstat(n.fd, &now); err != nil {
		return err
	}
	if now.Uid != st.Uid || now.Gid != st.Gid {
		if err := Uninterrupted(func() error { return unix.Fchown(n.fd, int(st.Uid), int(st.Gid)) }); err != nil {
			return fmt.Errorf("%w: %w", ErrOwner, err)
		}
	}
	// user(7): the owner, too, may set an attribute user.* only on a file that the owner may write.
	chmod := func(mode uint32) error {
		if err := Uninterrupted(func() error { return unix.Fchmod(n.fd, mode) }); err != nil {
			return fmt.Errorf("giving it the file's mode: %w", err)
		}
		return nil
	}
	if err := chmod(mode | unix.S_IWUSR); err != nil {
		return err
	}
	if mode&unix.S_ISGID != 0 { // chmod(2): a caller outside the file's group gets neither the bit nor an error
		if err := unix.Fstat(n.fd, &now); err != nil || now.Mode&unix.S_ISGID == 0 {
			return ErrOwner
		}
	}
	label := sameAttributes(old, n.fd)
	if mode&unix.S_IWUSR == 0 {
		if err := chmod(mode); err != nil {
			return err
		}
	}
	if label != nil && !errors.Is(label, ErrLabel) || privileges {
		return label
	}
	// A caller who may not remove them gets this error even if there are none.
	if _, err := unix.Fgetxattr(n.fd, capabilities, nil); err == nil {
		if err := unix.Fremovexattr(n.fd, capabilities); err != nil {
			return fmt.Errorf("the extended attribute %s: %w", capabilities, err)
		}
	}
	return label
}

const capabilities = "security.capability"

// Uninterrupted calls f again while a signal has interrupted it.
func Uninterrupted(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// ErrLabel is the error if only the label of SELinux, which not everybody may set, differs.
var ErrLabel = errors.New("its label cannot be set")

// sameAttributes gives a file the extended attributes of another one, and takes away those that it got from its
// directory, such as an ACL (acl(5), "OBJECT CREATION AND DEFAULT ACLs"). Owner and mode must be set before, because
// a change of owner removes capabilities, and a change of mode changes an ACL.
func sameAttributes(from, to int) error {
	var label error
	want, err := attributes(from)
	if err != nil {
		return fmt.Errorf("reading its extended attributes: %w", err)
	}
	have, err := attributes(to)
	if err != nil {
		return fmt.Errorf("reading the new file's extended attributes: %w", err)
	}
	for name, value := range want {
		if string(have[name]) == string(value) {
			continue
		}
		if err := unix.Fsetxattr(to, name, value, 0); err != nil {
			if name == "security.selinux" {
				label = ErrLabel
				continue
			}
			return fmt.Errorf("the extended attribute %s: %w", name, err)
		}
	}
	for name := range have {
		if _, wanted := want[name]; wanted || strings.HasPrefix(name, "security.") { // labels, which the kernel sets
			continue
		}
		if err := unix.Fremovexattr(to, name); err != nil {
			return fmt.Errorf("the extended attribute %s of the directory: %w", name, err)
		}
	}
	return label
}

// attributes returns a file's extended attributes; none if the file system has none.
func attributes(fd int) (map[string][]byte, error) {
	names, err := sized(func(b []byte) (int, error) { return unix.Flistxattr(fd, b) })
	if errors.Is(err, unix.ENOTSUP) || err == nil && len(names) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, name := range strings.Split(strings.TrimRight(string(names), "\x00"), "\x00") {
		value, err := sized(func(b []byte) (int, error) { return unix.Fgetxattr(fd, name, b) })
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, nil
}

// sized returns what get puts into a buffer. XATTR_LIST_MAX and XATTR_SIZE_MAX are 64 KiB, which few files need.
func sized(get func([]byte) (int, error)) ([]byte, error) {
	b := make([]byte, 256)
	n, err := get(b)
	if errors.Is(err, unix.ERANGE) {
		b = make([]byte, 64<<10)
		n, err = get(b)
	}
	return b[:max(n, 0)], err
}
