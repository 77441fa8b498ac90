package regular

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links one path may lead through, as in Linux (path_resolution(7)).
const maxLinks = 40

// Follow follows a path below a root as the kernel does after chroot(2) (path_resolution(7)). It follows every
// symbolic link, absolute ones from the root, and ".." never leads above the root. It returns where the path ends on
// this machine, and the st_mode of that. start says where an absolute path begins on this machine, and what is left
// of the path then. lstat is [Lstat], or remembers its answers. Errors are syscall.Errno.
func Follow(name string, start func(abs string) (host, rest string),
	lstat func(host string) (mode uint32, target string, err error)) (host string, mode uint32, err error) {
	if len(name) >= unix.PathMax {
		return "", 0, syscall.ENAMETOOLONG
	}
	at, rest := start(name)
	top, links := at, 0
	mode = unix.S_IFDIR
	isDir := func() bool { return mode&unix.S_IFMT == unix.S_IFDIR }
	slash := strings.HasSuffix(name, "/") // then it must end at a directory
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if part == "" {
			continue
		}
		if !isDir() {
			return "", 0, syscall.ENOTDIR
		}
		if part == "." {
			continue
		}
		if part == ".." {
			if at != top {
				at = strings.TrimSuffix(path.Dir(at), "/")
			}
			continue
		}
		child := at + "/" + part
		m, target, err := lstat(child)
		if err != nil {
			return "", 0, err
		}
		if m&unix.S_IFMT != unix.S_IFLNK {
			at, mode = child, m
			continue
		}
		if links++; links > maxLinks || len(target)+len(rest) >= 1<<16 {
			return "", 0, syscall.ELOOP
		}
		if rest = target + "/" + rest; strings.HasPrefix(target, "/") {
			at, rest = start(rest)
			top = at
		}
		slash = slash || strings.HasSuffix(strings.TrimSuffix(rest, "/"), "/")
	}
	if slash && !isDir() {
		return "", 0, syscall.ENOTDIR
	}
	if at == "" {
		at = "/"
	}
	return at, mode, nil
}

// Real returns a path of this machine, absolute and free of symbolic links.
// The error does not name the path.
func Real(p string) (string, error) {
	if p == "" {
		return "", syscall.ENOENT
	}
	abs := p
	if !path.IsAbs(p) {
		wd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		abs = wd + "/" + p // not joined: "a/.." is not "." where a is a link
	}
	host, _, err := Follow(abs, func(p string) (string, string) { return "", p }, Lstat)
	return host, err
}

// RealOf returns the absolute path, free of symbolic links, of what is open at a descriptor. Without /proc it is what
// path leads to by now.
func RealOf(fd int, path string) (string, error) {
	if real, err := os.Readlink(ProcPath(fd)); err == nil {
		return real, nil
	}
	return Real(path)
}

// Lstat returns the st_mode of a path of this machine, and the target if it is a symbolic link.
func Lstat(host string) (mode uint32, target string, err error) {
	var st unix.Stat_t
	if err = Uninterrupted(func() error { return unix.Lstat(host, &st) }); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err = os.Readlink(host)
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
	}
	return st.Mode, target, err
}
