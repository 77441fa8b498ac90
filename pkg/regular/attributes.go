package regular

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLabel is the error where all is the same but the label of SELinux, which not everybody may set.
var ErrLabel = errors.New("its label cannot be set")

// SameAttributes gives a file the extended attributes of another one, and takes away those that
// it got from its directory, such as an ACL (acl(5), "OBJECT CREATION AND DEFAULT ACLs"). Owner
// and mode come before: a change of owner takes capabilities away, and one of mode changes an ACL.
func SameAttributes(from, to int) error {
	var label error
	want, err := attributes(from)
	if err != nil {
		return err
	}
	have, err := attributes(to)
	if err != nil {
		return err
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

// attributes returns a file's extended attributes; none where the file system has none.
func attributes(fd int) (map[string][]byte, error) {
	names := make([]byte, 64<<10) // XATTR_LIST_MAX
	n, err := unix.Flistxattr(fd, names)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, name := range strings.Split(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		value := make([]byte, 64<<10) // XATTR_SIZE_MAX
		n, err := unix.Fgetxattr(fd, name, value)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[name] = value[:n]
	}
	return all, nil
}
