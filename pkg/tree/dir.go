package tree

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// buffers are one worker's, used again for each file and directory.
type buffers struct {
	head    []byte // the first bytes of a file
	dirents []byte // nil before the first directory
}

const headSize = 4096 // bytes; see elfimage.ParseHead

func newBuffers() *buffers {
	return &buffers{head: make([]byte, headSize)}
}

// dir is an open directory, closed when the last task that opens files in it is done.
type dir struct {
	fd   int
	refs atomic.Int32
}

// here stands for the working directory; names in it are paths.
var here = &dir{fd: unix.AT_FDCWD}

// newDir returns a directory that is open, with one reference.
func newDir(fd int) *dir {
	d := &dir{fd: fd}
	d.refs.Store(1)
	return d
}

func (d *dir) retain() *dir {
	if d != here {
		d.refs.Add(1)
	}
	return d
}

func (d *dir) release() {
	if d != here && d.refs.Add(-1) == 0 {
		unix.Close(d.fd)
	}
}

type dirent struct {
	name string
	kind uint8 // DT_REG, DT_DIR or DT_LNK; anything else is not of interest
}

// list returns the directory's files, directories and links, sorted by name.
func (d *dir) list(buf *buffers) ([]dirent, error) {
	if buf.dirents == nil {
		buf.dirents = make([]byte, 64<<10)
	}
	var entries []dirent
	err := eachDirent(d.fd, buf.dirents, func(e dirent) { entries = append(entries, e) })
	slices.SortFunc(entries, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	return entries, err
}

// eachDirent calls do with what an open directory has, read into a buffer part by part.
func eachDirent(fd int, buf []byte, do func(dirent)) error {
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		parseDirents(fd, buf[:n], do)
	}
}

// parseDirents calls do with the entries of a buffer of struct linux_dirent64
// (getdents64(2)): d_ino and d_off of 8 bytes each, d_reclen of 2, d_type of 1,
// and the name with its NUL.
func parseDirents(fd int, b []byte, do func(dirent)) {
	const reclenAt, typeAt, nameAt = 16, 18, 19
	for len(b) >= nameAt {
		reclen := int(binary.NativeEndian.Uint16(b[reclenAt:]))
		if reclen < nameAt || reclen > len(b) {
			break
		}
		name, kind := b[nameAt:reclen], b[typeAt]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		b = b[reclen:]
		if s := string(name); s != "." && s != ".." {
			if kind == unix.DT_UNKNOWN {
				kind = statKind(fd, s)
			}
			if kind == unix.DT_REG || kind == unix.DT_DIR || kind == unix.DT_LNK {
				do(dirent{s, kind})
			}
		}
	}
}

// statKind is for file systems that do not tell the type in the directory.
func statKind(fd int, name string) uint8 {
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_UNKNOWN
	}
	return uint8(st.Mode & unix.S_IFMT >> 12)
}
