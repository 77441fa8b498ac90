package fixup

import (
	"cmp"
	"context"
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
	"sync"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/tree"
)

// A Record remembers the old state of a directory's changed files, so that the change can be undone. A tree's record
// is beside it, NAME.autopatchelf.json. The record of files that were given one by one is .autopatchelf.json in their
// directory.
//
// It is a claim of whoever wrote it, and a cloned repository or another user can put one there, too. So it is
// believed only for the directory that it was made for, by device, inode and owner, and only if nobody but the caller
// or root can have written it. For a file it is believed only if the file is in the state in which the record left
// it.
type Record struct {
	Version int      `json:"version"`
	Tree    identity `json:"tree"`
	Files   []Change `json:"files"`

	in   *os.File // where the record is
	base string   // its name there
	name string   // the directory's name there, "." if it is the same
	root string   // the directory: an absolute path free of symbolic links
	now  identity // of the directory, when it was looked up
	top  *tree.Root

	there, others, refused bool     // it is believed; it is another directory's; it is not believed
	err                    error    // why it cannot be kept
	old                    []Change // Files before Records.add
	gone                   Gone
}

// Gone are the files in a record that are not there any more. Their entries are dropped.
type Gone struct {
	N     int
	First string // the path of one
}

// identity tells a directory from others.
type identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Owner  uint32 `json:"owner"`
}

// Change is one file of a Record.
type Change struct {
	Path   text     `json:"path"`           // relative to the directory
	Also   []text   `json:"also,omitempty"` // its other names there
	Inode  uint64   `json:"inode"`
	Before Snapshot `json:"before"`
	After  Snapshot `json:"after"`
	// Found is what the last run found, if not Before. A run that was killed before its edit leaves it so.
	Found *Snapshot `json:"found,omitempty"`
	// InPlace is Step.shared: undoing the change undoes it for the other links, too.
	InPlace bool `json:"in_place,omitempty"`
}

func (c *Change) names() []text { return append([]text{c.Path}, c.Also...) }

// Snapshot is a State as the record spells it.
type Snapshot struct {
	Tag         string `json:"tag"` // DT_RUNPATH, DT_RPATH or ""
	RunPath     text   `json:"run_path"`
	Interpreter text   `json:"interpreter"`
	Note        text   `json:"resolution_note,omitempty"`
	// Needed, as State has it, and Stack are told only if the edit changes them.
	Needed libraries `json:"needed,omitempty"`
	Stack  string    `json:"stack,omitempty"`
}

// libraries are State.Needed. In JSON they are a list of names.
type libraries string

// MarshalJSON implements [json.Marshaler].
func (l libraries) MarshalJSON() ([]byte, error) {
	all := []text{}
	for _, name := range namesOf(string(l)) {
		all = append(all, text(name))
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *libraries) UnmarshalJSON(b []byte) error {
	var names []text
	if err := json.Unmarshal(b, &names); err != nil || names == nil {
		return err
	}
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	*l = libraries(NeededOf(all))
	return nil
}

// with is a snapshot with what only another one tells.
func (s Snapshot) with(other Snapshot) Snapshot {
	s.Needed, s.Stack = cmp.Or(s.Needed, other.Needed), cmp.Or(s.Stack, other.Stack)
	return s
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
	return Snapshot{tagName(s.Tag), text(s.List), text(s.Interpreter), text(s.Note), libraries(s.Needed), s.Stack}
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
	return State{tag, string(s.RunPath), string(s.Interpreter), string(s.Note), string(s.Needed), s.Stack}
}

// recordSuffix follows the tree's name in the name of its record, and is the whole name of the record of single
// files.
const recordSuffix = ".autopatchelf.json"

// HasRecord reports whether a record stands beside a tree.
func HasRecord(tree string) bool {
	_, err := os.Lstat(filepath.Clean(tree) + recordSuffix)
	return err == nil
}

// A record, and one entry of it, in bytes. A file takes some 600.
const (
	maxRecord = 64 << 20
	maxEntry  = 1 << 20
)

var errRecordSize = fmt.Errorf("a record of more than %d MiB", maxRecord>>20)

// readRecord reads a record in a directory. If keep is not nil, it reads the entries one by one, and keeps those that
// keep accepts.
func readRecord(dir *os.File, base string, keep func(*Change) bool) (*Record, error) {
	f, info, err := regular.OpenIn(dir, base)
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
	in := &entryReader{r: f, left: maxEntry}
	d := json.NewDecoder(in)
	r := &Record{in: dir, base: base}
	if err := delimiter(d, '{'); err != nil {
		return nil, err
	}
	for _, field := range []struct {
		name string
		to   any
	}{{"version", &r.Version}, {"tree", &r.Tree}, {"files", nil}} {
		if key, err := d.Token(); err != nil || key != field.name {
			return nil, cmp.Or(notWhole(err), fmt.Errorf("it has %v instead of %q", key, field.name))
		}
		if field.to == nil {
			break
		}
		if err := d.Decode(field.to); err != nil {
			return nil, notWhole(err)
		}
		if r.Version != 1 {
			return nil, fmt.Errorf("version %d of a record, of which this program knows only 1", r.Version)
		}
	}
	if keep == nil {
		return r, nil
	}
	if err := delimiter(d, '['); err != nil {
		return nil, err
	}
	seen := map[text]bool{}
	for d.More() {
		in.left = maxEntry
		var c Change
		if err := d.Decode(&c); err != nil {
			return nil, notWhole(err)
		}
		for _, name := range c.names() {
			if err := belowTree(string(name)); err != nil {
				return nil, err
			}
		}
		if !keep(&c) {
			continue
		}
		for _, name := range c.names() {
			if seen[name] {
				return nil, fmt.Errorf("the path %q is in it twice", string(name))
			}
			seen[name] = true
		}
		r.Files = append(r.Files, c)
	}
	return r, errors.Join(delimiter(d, ']'), delimiter(d, '}'))
}

// delimiter reads a bracket.
func delimiter(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("it has %v instead of %q", got, want)
	}
	return notWhole(err)
}

// notWhole returns the error for input that ends too early.
func notWhole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("unexpected end of JSON input")
	}
	return err
}

// entryReader reads no more at a time than an entry may take.
type entryReader struct {
	r    io.Reader
	left int
}

func (e *entryReader) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, fmt.Errorf("an entry of more than %d bytes", maxEntry)
	}
	n, err := e.r.Read(p[:min(len(p), e.left)])
	e.left -= n
	return n, err
}

// belowTree refuses a path that is not one below a tree.
func belowTree(p string) error {
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("the path %q in it does not name a file below the tree", p)
		}
	}
	return nil
}

// load reads the record's entries. An entry keeps the names that lead to something, and is dropped if it has none.
func (r *Record) load(ctx context.Context) {
	if r.err != nil {
		return
	}
	if r.top, r.err = tree.RootIn(r.in, r.name, r.root); r.err == nil {
		r.err = r.now.of(r.top)
	}
	if r.err != nil {
		return
	}
	read, err := readRecord(r.in, r.base, nil)
	if r.others = err == nil && read.Tree != r.now && !r.there; r.others {
		return
	}
	if err == nil {
		renamed := sync.OnceValue(func() (files map[uint64]file) {
			files, r.err = r.walk(ctx)
			return files
		})
		read, err = readRecord(r.in, r.base, func(c *Change) bool { return r.find(c, renamed) })
	}
	switch {
	case err == nil:
		r.Files = read.Files
	case !errors.Is(err, fs.ErrNotExist): // else another run has taken all of it back
		r.err, r.refused = notBelieved(err), true
	}
}

// file is one that was found in a tree.
type file struct {
	name  text
	state State
}

// walk returns the ELF files of the directory by their inodes.
func (r *Record) walk(ctx context.Context) (map[uint64]file, error) {
	type found struct {
		file
		inode uint64
	}
	files := map[uint64]file{}
	err := tree.WalkRoot(ctx, r.top, tree.Options{Shallow: r.name == "."}, func(f *tree.File) (n found, keep bool) {
		if f.Err != nil || !f.ELF() || f.SameAs != "" {
			return n, false
		}
		im, err := elfimage.ParseHead(f, f.Size(), f.Head())
		if err != nil {
			return n, false
		}
		defer im.Release()
		_, n.inode = f.ID()
		n.name = text(strings.TrimPrefix(f.Path, r.path("")))
		n.state, err = stateOf(im)
		return n, err == nil
	}, func(n found) { files[n.inode] = n.file })
	return files, err
}

// is reports whether a file is in the state in which an entry says it was left.
func (c *Change) is(s State) bool {
	return s.is(c.After.state()) || c.Found != nil && s.is(c.Found.state())
}

// find keeps the names of an entry that lead to something, or the name that the file has been given since. It reports
// whether there is one.
func (r *Record) find(c *Change, renamed func() map[uint64]file) bool {
	names := slices.DeleteFunc(c.names(), func(name text) bool {
		target := r.top.Target(r.path(name))
		_, err := target.Stat()
		return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
	})
	if len(names) == 0 && c.Inode != 0 {
		if f, ok := renamed()[c.Inode]; ok && c.is(f.state) { // another file may have got the inode
			names = []text{f.name}
		}
	}
	if len(names) == 0 {
		r.gone.N, r.gone.First = r.gone.N+1, r.path(c.Path)
		return false
	}
	c.Path, c.Also = names[0], names[1:]
	return true
}

func notBelieved(err error) error { return fmt.Errorf("it is not trusted: %w", withoutPath(err)) }

// withoutPath is an error's text about a file that the message names anyway.
func withoutPath(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// path returns a file's path by its name in the record.
func (r *Record) path(name text) string { return strings.TrimSuffix(r.root, "/") + "/" + string(name) }

// distrust says why somebody other than the caller or root could have written a file of a directory; nil if nobody
// could.
func distrust(dir *os.File, file fs.FileInfo) error {
	st, ok := file.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("its owner is not known")
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return fmt.Errorf("it belongs to user %d, and is trusted only if that is the caller or root", st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("users other than its owner can write it (mode %#o): chmod go-w", st.Mode&0o7777)
	case st.Nlink != 1:
		return errors.New("it has several hard links, so that anyone may have put it here")
	}
	return distrustDirectory(dir)
}

// distrustDirectory says why somebody other than the caller or root could exchange a file in a directory for another
// one of the same owner; nil if nobody could. Nobody can in a directory with the sticky bit.
func distrustDirectory(dir *os.File) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	group := ok && (int(st.Gid) == os.Getegid() || st.Gid == 0) // the caller's own, as with umask 002
	if ok && st.Mode&unix.S_ISVTX == 0 && (st.Mode&0o002 != 0 || st.Mode&0o020 != 0 && !group) {
		return fmt.Errorf("others can replace files in its directory (mode %#o): chmod go-w, or +t", st.Mode&0o7777)
	}
	return nil
}

var errExchanged = errors.New("its tree was replaced by another one meanwhile")

func identify(dir *os.File, name string) (id identity, isDir bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return id, false, err
	}
	//nolint:unconvert // Dev is 32 bits wide on MIPS
	return identity{uint64(st.Dev), st.Ino, st.Uid}, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// of says why an open root is not the tree.
func (id identity) of(root *tree.Root) error {
	dev, ino, err := root.ID()
	if err == nil && (dev != id.Device || ino != id.Inode) {
		err = errExchanged
	}
	return err
}

// file returns where the record is kept.
func (r *Record) file() string {
	if r.name == "." {
		return filepath.Join(r.root, r.base)
	}
	return filepath.Join(filepath.Dir(r.root), r.base)
}

// recorded is a step, and a record's entry for its file.
type recorded struct {
	*Step
	Change
}

// noted returns the files of a record together with steps about to be taken. A file's earlier entry is continued,
// unless someone else has changed the file since.
func noted(files []Change, steps []recorded) []Change {
	files = slices.Clone(files)
	at := make(map[text]int, len(files))
	for i := range files {
		for _, name := range files[i].names() {
			at[name] = i
		}
	}
	for _, s := range steps {
		c := s.Change
		i, known := -1, false
		for _, name := range c.names() {
			if i, known = at[name]; known {
				break
			}
		}
		if !known {
			files = append(files, c)
			continue
		}
		was := files[i]
		if found := c.Before; was.is(found.state()) {
			c.After = c.After.with(was.After)
			if c.Before = was.Before.with(found); found.with(was.After) != c.Before {
				c.Found = &found
			}
		}
		files[i] = c
		rest := slices.DeleteFunc(was.names(), func(name text) bool { return slices.Contains(c.names(), name) })
		switch {
		case len(rest) == 0:
		case !s.Step.InPlace: // the other links keep the old file
			was.Path, was.Also = rest[0], rest[1:]
			files = append(files, was)
		default:
			files[i].Also = append(c.Also, rest...)
		}
	}
	return slices.DeleteFunc(files, func(c Change) bool { return c.Found == nil && c.idle() })
}

// idle reports whether an entry says nothing after its step.
func (c Change) idle() bool { return c.Before == c.After }

// save writes the record, or removes its file if it is empty.
func (r *Record) save() error {
	err := r.err
	if err == nil {
		err = r.write()
	}
	if err != nil {
		return fmt.Errorf("the record for --undo, %s: %w", r.file(), err)
	}
	return nil
}

func (r *Record) write() error {
	if len(r.Files) == 0 {
		if err := unix.Unlinkat(int(r.in.Fd()), r.base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	}
	id, _, err := identify(r.in, r.name)
	switch {
	case err != nil:
		return err
	case id != r.now:
		return errExchanged
	}
	r.Tree = id
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if len(b) > maxRecord {
		return errRecordSize
	}
	return plainfile.Replace(r.in, r.base, plainfile.Masked(0o644), plainfile.Bytes(append(b, '\n')))
}
