package fixup

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/tree"
)

// A Record remembers what the files of a tree were like before they were changed, in a file
// beside the tree, so that it can be undone.
//
// It is a claim of whoever wrote it, and lies where a cloned repository or another user can
// put one too. So it is believed only of the tree that it was made for, by device, inode and
// owner; only if nobody but the caller or root can have written it; and of a file only if
// that is in the state in which the record left it.
type Record struct {
	Version int      `json:"version"`
	Tree    identity `json:"tree"`
	Files   []Change `json:"files"`

	dir  *os.File // where the tree and the record are
	base string   // the record's name there
	root string   // the tree: an absolute path free of symbolic links
	now  identity // of the tree, when it was looked up
	err  error    // why it cannot be kept
	// replaces: another tree's record has its name.
	replaces bool
	old      []Change // Files before Records.add
}

// identity tells a tree, a directory or a single file, from others.
type identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Owner  uint32 `json:"owner"`
}

// Change is one file of a Record.
type Change struct {
	Path   text     `json:"path"` // relative to the tree; "" for a tree that is one file
	Before Snapshot `json:"before"`
	After  Snapshot `json:"after"`
	// InPlace is [Step.InPlace]: to undo the change is to undo it for the other links.
	InPlace bool `json:"in_place,omitempty"`
}

// Snapshot is a State as the record spells it.
type Snapshot struct {
	Tag         string `json:"tag"` // DT_RUNPATH, DT_RPATH or ""
	RunPath     text   `json:"run_path"`
	Interpreter text   `json:"interpreter"`
	Note        text   `json:"resolution_note,omitempty"`
}

// text is a string of any bytes. In JSON it is a string or, where it is not valid UTF-8, an
// object with the bytes in base64.
type text string

type base64Text struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements [json.Marshaler].
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(base64Text{[]byte(t)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return json.Unmarshal(b, (*string)(t))
	}
	var bytes base64Text
	err := json.Unmarshal(b, &bytes)
	*t = text(bytes.Base64)
	return err
}

func snapshot(s State) Snapshot {
	return Snapshot{tagName(s.Tag), text(s.List), text(s.Interpreter), text(s.Note)}
}

func tagName(tag elf.DynTag) string {
	if tag == elf.DT_NULL {
		return ""
	}
	return tag.String()
}

func (s Snapshot) state() State {
	tag := elf.DT_NULL
	switch s.Tag {
	case elf.DT_RUNPATH.String():
		tag = elf.DT_RUNPATH
	case elf.DT_RPATH.String():
		tag = elf.DT_RPATH
	}
	return State{tag, string(s.RunPath), string(s.Interpreter), string(s.Note)}
}

// recordSuffix is what follows the tree's name in that of its record.
const recordSuffix = ".autopatchelf.json"

// HasRecord reports whether a record stands beside a tree.
func HasRecord(tree string) bool {
	_, err := os.Lstat(filepath.Clean(tree) + recordSuffix)
	return err == nil
}

// maxRecord bounds a record in bytes; one file takes some 500.
const maxRecord = 64 << 20

// readRecord reads a record in a directory.
func readRecord(dir *os.File, base string) (*Record, error) {
	f, info, err := plainfile.OpenIn(dir, base)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := distrust(dir, info); err != nil {
		return nil, err
	}
	if info.Size() > maxRecord {
		return nil, errRecordSize
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return nil, err
	}
	r := &Record{dir: dir, base: base}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, err
	}
	if r.Version != 1 {
		return nil, fmt.Errorf("version %d of a record, of which this program knows only 1", r.Version)
	}
	return r, r.check()
}

var errRecordSize = fmt.Errorf("a record of more than %d MiB", maxRecord>>20)

// check refuses a record with a path that is not one below the tree.
func (r *Record) check() error {
	seen := make(map[text]bool, len(r.Files))
	for _, c := range r.Files {
		if c.Path == "" && len(r.Files) == 1 {
			continue // the tree is the file
		}
		for part := range strings.SplitSeq(string(c.Path), "/") {
			if part == "" || part == "." || part == ".." {
				return fmt.Errorf("the path %q in it does not name a file below the tree", string(c.Path))
			}
		}
		if seen[c.Path] {
			return fmt.Errorf("the path %q is in it twice", string(c.Path))
		}
		seen[c.Path] = true
	}
	return nil
}

// distrust says why somebody else than the caller or root could have written a file of a
// directory; nil where nobody could.
func distrust(dir *os.File, file fs.FileInfo) error {
	st, ok := file.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("its owner is not known")
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return fmt.Errorf("it belongs to user %d, and is believed only if that is the caller or root", st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("others than its owner may write it (mode %#o): chmod go-w", st.Mode&0o7777)
	case st.Nlink != 1:
		return errors.New("it has several hard links, so that anyone may have put it here")
	}
	return distrustDirectory(dir)
}

// distrustDirectory says why somebody else than the caller or root could exchange a file in a
// directory for another one of the same owner; nil where nobody could. In one with the
// sticky bit nobody can.
func distrustDirectory(dir *os.File) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	group := ok && (int(st.Gid) == os.Getegid() || st.Gid == 0) // the caller's own, as with umask 002
	if ok && st.Mode&unix.S_ISVTX == 0 && (st.Mode&0o002 != 0 || st.Mode&0o020 != 0 && !group) {
		return fmt.Errorf("others may exchange files in its directory (mode %#o): chmod go-w, or +t", st.Mode&0o7777)
	}
	return nil
}

// name is the tree's in dir.
func (r *Record) name() string { return filepath.Base(r.root) }

// identify returns what the tree is now: what it was when it was looked up, or a file that
// has taken its place, as an edited copy does.
func (r *Record) identify() (identity, error) {
	id, isDir, err := identify(r.dir, r.name())
	if err == nil && isDir && id != r.now {
		err = errExchanged
	}
	return id, err
}

var errExchanged = errors.New("its tree was exchanged for another one meanwhile")

func identify(dir *os.File, name string) (id identity, isDir bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return id, false, err
	}
	return identity{uint64(st.Dev), st.Ino, st.Uid}, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil //nolint:unconvert // Dev is 32 bits wide on MIPS
}

// of says why what an open root is now is not the tree.
func (id identity) of(root *tree.Root) error {
	dev, ino, err := root.ID()
	if err == nil && (dev != id.Device || ino != id.Inode) {
		err = errExchanged
	}
	return err
}

// File returns where the record is kept.
func (r *Record) File() string { return filepath.Join(filepath.Dir(r.root), r.base) }

// noted returns the files of a record with steps that are about to be taken, with their paths in the
// tree. What was noted of a file before is continued, unless someone else has changed it since.
func noted(files []Change, steps []recorded) []Change {
	files = slices.Clone(files)
	at := make(map[text]int, len(files))
	for i := range files {
		at[files[i].Path] = i
	}
	for _, s := range steps {
		c := Change{Path: text(s.rel), Before: snapshot(s.From), After: snapshot(s.To), InPlace: s.InPlace}
		i, known := at[c.Path]
		if !known {
			files = append(files, c)
			continue
		}
		if files[i].After == c.Before {
			c.Before = files[i].Before
		}
		files[i] = c
	}
	return slices.DeleteFunc(files, func(c Change) bool { return c.Before == c.After })
}

// recorded is a step, and the path of its file in a record.
type recorded struct {
	*Step
	rel string
}

// save writes the record, or removes its file where there is nothing in it.
func (r *Record) save() error {
	err := r.err
	if err == nil {
		err = r.write()
	}
	if err != nil {
		return fmt.Errorf("the record for --undo, %s: %w", r.File(), err)
	}
	return nil
}

func (r *Record) write() error {
	if len(r.Files) == 0 {
		if err := unix.Unlinkat(int(r.dir.Fd()), r.base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	}
	var err error
	if r.Tree, err = r.identify(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if len(b) > maxRecord {
		return errRecordSize
	}
	return plainfile.Replace(r.dir, r.base, 0o644, append(b, '\n'))
}

// settle leaves these files in the record, and writes it again where that changes it.
func (r *Record) settle(files []Change) error {
	if id, err := r.identify(); err == nil && id == r.Tree && slices.Equal(files, r.Files) {
		return nil // a single file is another one once a copy of it was edited
	}
	r.Files = files
	return r.save()
}
