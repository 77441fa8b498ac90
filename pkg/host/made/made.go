// Package made puts hostDriver's files and links into a system, keeps the one record of what was made there, and takes
// it back.
package made

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/nixconf"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/sysroot"
)

// A File is a file, or a symbolic link, that is to be in a system.
type File struct {
	Path string `json:"path"`
	Text string `json:"text,omitempty"`
	Link string `json:"link,omitempty"`    // what the link leads to; "" for a file
	From string `json:"copy_of,omitempty"` // the program that the file is a copy of; "" for a file of Text

	Mode    fs.FileMode `json:"-"` // of a file; 0: 644
	Program []byte      `json:"-"` // the contents of that copy
}

func (f *File) contents() []byte {
	if f.From != "" {
		return f.Program
	}
	return []byte(f.Text)
}

// Kind is what kind of thing was made.
type Kind string

// The kinds.
const (
	Prefix  Kind = "driver link" // a driver link, and what it leads to
	Regular Kind = "file"
	Link    Kind = "link"
	Lines   Kind = "lines" // in nix.conf

	// Directory is one that was made for another thing, and goes where nothing is in it.
	Directory Kind = "directory"
)

// A Thing is one that hostDriver made in a system, as the record has it.
type Thing struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path"`
	// State is the directory that a driver link leads into; "" where it is none but a directory itself.
	State string `json:"state,omitempty"`
	// Sum is what a file's contents have; a file with another one was changed since.
	Sum string `json:"sum,omitempty"`
	// Target is what a link leads to.
	Target string `json:"target,omitempty"`
	// New says that there was no nix.conf: without our lines, there is none.
	New bool `json:"new,omitempty"`
}

// record is the file's format. A thing is in it from before it is made until after it was taken back.
type record struct {
	Version int     `json:"version"`
	Made    []Thing `json:"made"`
}

// tries is how often something is begun again that other processes change, too.
const tries = 50

const (
	recordName = "made.json"
	maxRecord  = 1 << 20  // bytes
	maxFile    = 64 << 20 // bytes of a file that is compared
)

// RecordPath is where the record is.
const RecordPath = host.StateDir + "/" + recordName

func sum(b []byte) string {
	h := fnv.New128a()
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// Read returns what was made in a system, none where there is no record. The error is for one that is not believed.
func Read(h *host.Host) ([]Thing, error) {
	in, _, err := h.Root.OpenRoot(host.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r, _, err := read(h, in)
	return r.Made, err
}

func read(h *host.Host, in *os.Root) (r record, was fs.FileInfo, err error) {
	b, was, err := regular.ReadBelow(in, recordName, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil, nil
	}
	if err == nil {
		err = h.Trusted(RecordPath) // who writes it would say what root takes away
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil && r.Version != 1 {
		err = fmt.Errorf("its version is %d", r.Version)
	}
	if err != nil {
		return record{}, nil, fmt.Errorf("%s: %w", RecordPath, err)
	}
	return r, was, nil
}

// change changes the record, if to returns other things than it is given. open opens its directory.
func change(h *host.Host, open func() (*os.Root, error), to func([]Thing) []Thing) error {
	var err error
	for range tries {
		var in *os.Root
		if in, err = open(); err == nil {
			var again bool
			again, err = changeIn(h, in, to)
			in.Close()
			if err == nil || !again {
				return err
			}
		} else if !errors.Is(err, fs.ErrNotExist) { // else another process has just taken the directory away
			return err
		}
	}
	return err
}

// changeIn changes the record in an open directory, which another process may have taken away meanwhile: a file gets no
// name in it then, which is EPERM or ENOENT. again says that it may be begun again.
func changeIn(h *host.Host, in *os.Root, to func([]Thing) []Thing) (again bool, err error) {
	r, was, err := read(h, in)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), err
	}
	now := record{1, to(slices.Clone(r.Made))}
	if slices.Equal(now.Made, r.Made) {
		return false, nil
	}
	if len(now.Made) == 0 {
		err = in.Remove(recordName)
		return true, err
	}
	b, _ := json.MarshalIndent(now, "", "  ") // strings
	err = plainfile.WriteRead(in, recordName, 0o644, append(b, '\n'), was)
	return !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.ENOSPC), err
}

// Note records what is about to be made: after what was at the same path before.
func Note(h *host.Host, things ...Thing) error {
	if have, err := Read(h); err == nil && !slices.ContainsFunc(things, func(t Thing) bool { return !isLast(have, t) }) {
		return nil
	}
	open := func() (*os.Root, error) {
		in, err := MakeBelow(h.Root, host.StateDir)
		return in, err
	}
	return change(h, open, func(have []Thing) []Thing {
		for _, t := range things {
			if !isLast(have, t) {
				have = append(slices.DeleteFunc(have, func(other Thing) bool { return other == t }), t)
			}
		}
		return have
	})
}

// isLast reports whether a thing is the last one on record at its path.
func isLast(have []Thing, t Thing) bool {
	for _, other := range slices.Backward(have) {
		if other.Kind == t.Kind && other.Path == t.Path {
			return other == t
		}
	}
	return false
}

// Forget takes things out of the record, which goes with the last, and its directory where nothing else is in it.
func Forget(h *host.Host, things ...Thing) error {
	open := func() (*os.Root, error) {
		in, _, err := h.Root.OpenRoot(host.StateDir)
		return in, err
	}
	err := change(h, open, func(have []Thing) []Thing {
		return slices.DeleteFunc(have, func(t Thing) bool { return slices.Contains(things, t) })
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no record
	}
	if at, rerr := h.Root.Resolve(host.StateDir); rerr == nil {
		if above, _, aerr := h.Root.OpenRoot(path.Dir(at)); aerr == nil {
			_ = above.Remove(path.Base(at)) // fails where something is in it
			above.Close()
		}
	}
	return err
}

// Missing are the directories that are to be made where one is to be, the outermost last.
func Missing(h *host.Host, dir string) (things []Thing) {
	for dir = path.Clean(dir); dir != "/"; dir = path.Dir(dir) {
		if _, err := h.Root.Resolve(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		things = append(things, Thing{Kind: Directory, Path: dir})
	}
	return things
}

// RemoveEmpty removes the directories among some things in which nothing is.
func RemoveEmpty(h *host.Host, things []Thing) {
	for _, t := range slices.SortedFunc(slices.Values(things), func(a, b Thing) int { return len(b.Path) - len(a.Path) }) {
		if in, _, err := h.Root.OpenRoot(path.Dir(t.Path)); t.Kind == Directory && err == nil {
			if info, err := in.Lstat(path.Base(t.Path)); err == nil && info.IsDir() {
				_ = in.Remove(path.Base(t.Path)) // fails where something is in it
			}
			in.Close()
		}
	}
}

// thing is what the record says of a file.
func (f *File) thing() Thing {
	if f.Link != "" {
		return Thing{Kind: Link, Path: f.Path, Target: f.Link}
	}
	return Thing{Kind: Regular, Path: f.Path, Sum: sum(f.contents())}
}

// Things are what the record is to say of files.
func Things(files ...File) []Thing {
	things := make([]Thing, len(files))
	for i := range files {
		things[i] = files[i].thing()
	}
	return things
}

// Mark is what a text begins with that only replaces one that has it too: a unit that somebody else wrote stays.
const Mark = "# Made by: hostDriver"

// Put makes files and links in a system, in order, and records them first. It returns which of them were not there like
// that. Links of their directories are followed as that system would follow them, so they do not lead out of it. A link
// in a file's own place stays, for somebody put it there (a masked unit leads to /dev/null), and so do a text without
// the [Mark] of the one to come, and anything in a link's or a program's place that the record does not know.
func Put(h *host.Host, files ...File) (changed []File, err error) {
	known, err := Read(h)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := f.allowed(h, known); err != nil {
			return nil, err
		}
	}
	things := Things(files...)
	for _, f := range files {
		things = append(Missing(h, path.Dir(f.Path)), things...)
	}
	if err := Note(h, things...); err != nil {
		return nil, fmt.Errorf("recording what is made, in %s: %w", RecordPath, err)
	}
	for _, f := range files {
		in, err := MakeBelow(h.Root, path.Dir(f.Path))
		if err != nil {
			return changed, fmt.Errorf("%s: %w", f.Path, err)
		}
		did, err := f.put(in)
		in.Close()
		if err != nil {
			return changed, fmt.Errorf("%s: %w", f.Path, err)
		}
		if did {
			changed = append(changed, f)
		}
	}
	return changed, nil
}

// allowed says why what is in the place of a file is not to be replaced.
func (f *File) allowed(h *host.Host, known []Thing) error {
	in, _, err := h.Root.OpenRoot(path.Dir(f.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	defer in.Close()
	base := path.Base(f.Path)
	ours := func(kind Kind) bool {
		return slices.ContainsFunc(known, func(t Thing) bool { return t.Kind == kind && t.Path == f.Path && f.is(in, t) })
	}
	target, err := in.Readlink(base)
	switch {
	case err == nil && f.Link == "":
		return fmt.Errorf("%s is a link to %s; hostDriver leaves it alone", f.Path, target)
	case err == nil && target != f.Link && !ours(Link):
		return fmt.Errorf("%s is a link to %s, which hostDriver did not make and leaves alone", f.Path, target)
	case errors.Is(err, unix.EINVAL) && f.Link != "":
		return fmt.Errorf("%s is there already, and hostDriver leaves it alone", f.Path)
	case errors.Is(err, unix.EINVAL) && strings.HasPrefix(f.Text, Mark):
		if b, _, err := regular.ReadBelow(in, base, maxFile); err == nil && bytes.Contains(b, []byte(Mark)) {
			return nil
		}
		return fmt.Errorf("%s is there already, and hostDriver did not make it and leaves it alone: move it away first",
			f.Path)
	case errors.Is(err, unix.EINVAL) && f.From != "":
		if b, _, err := regular.ReadBelow(in, base, maxFile); err == nil && bytes.Equal(b, f.Program) || ours(Regular) {
			return nil
		}
		return fmt.Errorf(
			"%s is there already, and hostDriver has no record of having made it: move it away, or name a program with "+
				"--program FILE", f.Path)
	}
	return nil
}

// is reports whether what has the name of a file in an open directory is what the record says.
func (f *File) is(in *os.Root, t Thing) bool {
	base := path.Base(f.Path)
	if t.Kind == Link {
		target, err := in.Readlink(base)
		return err == nil && target == t.Target
	}
	b, _, err := regular.ReadBelow(in, base, maxFile)
	return err == nil && sum(b) == t.Sum
}

// put makes a file or link in an open directory; it reports whether it was not there like that.
func (f *File) put(in *os.Root) (changed bool, err error) {
	base := path.Base(f.Path)
	if f.Link != "" {
		if target, err := in.Readlink(base); err == nil && target == f.Link {
			return false, nil
		}
		fresh := regular.Temporary + plainfile.Random()
		if err := in.Symlink(f.Link, fresh); err != nil {
			return false, err
		}
		if err := in.Rename(fresh, base); err != nil {
			return false, errors.Join(err, in.Remove(fresh))
		}
		return true, plainfile.Sync(in)
	}
	if b, _, err := regular.ReadBelow(in, base, maxFile); err == nil && bytes.Equal(b, f.contents()) {
		return false, nil
	}
	return true, plainfile.WriteFile(in, base, cmp.Or(f.Mode, 0o644), f.contents())
}

// An Outcome is what became of a thing that was to be taken back.
type Outcome struct {
	Thing
	Action string `json:"action"`        // "removed", "stays"
	Why    string `json:"why,omitempty"` // it stays
	Err    error  `json:"-"`
}

// TakeBack removes files, links and lines that the record has; driver links are for the caller, and so are directories. Things that are not
// there any more are no outcome. Those that somebody changed stay.
func TakeBack(h *host.Host, things []Thing, dryRun bool) (done []Outcome) {
	var stays []Outcome
	gone := map[string]bool{}
	for _, t := range things {
		if t.Kind == Prefix || t.Kind == Directory || gone[t.Path] {
			continue
		}
		there, err := t.takeBack(h, dryRun)
		switch {
		case err != nil:
			stays = append(stays, Outcome{t, "stays", err.Error(), err})
		case there:
			gone[t.Path] = true
			done = append(done, Outcome{Thing: t, Action: "removed"})
		}
	}
	for _, o := range stays { // a file may be on record as it was, and as it is
		if !gone[o.Path] {
			gone[o.Path] = true
			done = append(done, o)
		}
	}
	return done
}

var errChanged = errors.New("was changed since hostDriver made it")

// takeBack removes a thing; it reports whether it was there.
func (t Thing) takeBack(h *host.Host, dryRun bool) (there bool, err error) {
	in, at, err := h.Root.OpenRoot(path.Dir(t.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer in.Close()
	base := path.Base(t.Path)
	if t.Kind == Lines {
		dir, err := in.Open(".")
		if err != nil {
			return false, err
		}
		defer dir.Close()
		plan, err := nixconf.Without(h.Root, dir, t.Path)
		if err != nil || !plan.Changed || dryRun {
			return err == nil && plan.Changed, err
		}
		if t.New && plan.Text == "" {
			return true, in.Remove(base)
		}
		return true, plan.Write()
	}
	if _, err := in.Lstat(base); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	f := File{Path: filepath.Join(at, base)}
	if !f.is(in, t) {
		return true, errChanged
	}
	if dryRun {
		return true, nil
	}
	return true, in.Remove(base)
}

// MakeBelow opens a directory of a system, and makes what is missing of it, each directory of mode 755. Links on the
// way are followed as that system would follow them, so they do not lead out of it.
func MakeBelow(root sysroot.Root, dir string) (in *os.Root, err error) {
	const tries = 100 // another process takes it away and makes it again
	dir = path.Clean("/" + dir)
	for range tries {
		if in, _, err = root.OpenRoot(dir); !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return in, err
		}
		if _, lerr := root.Readlink(dir); lerr == nil {
			return nil, fmt.Errorf("%s: a link that leads nowhere", dir)
		}
		above, err := MakeBelow(root, path.Dir(dir))
		if err != nil {
			return nil, err
		}
		err = plainfile.MakeIn(above, path.Base(dir))
		above.Close()
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, err
}
