package fixup

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/tree"
)

// Record remembers what the files of a tree were like before they were changed, in a
// file beside the tree, so that it can be undone.
type Record struct {
	Version int      `json:"version"`
	Files   []Change `json:"files"`

	file string // where it is kept
	root string // absolute, what the paths of Files are relative to
}

// Change is one file of a Record.
type Change struct {
	Path string `json:"path"` // relative to the tree; "" for a tree that is one file
	// Bytes is the path where it is not valid UTF-8.
	Bytes  []byte   `json:"path_base64,omitempty"`
	Before Snapshot `json:"before"`
	After  Snapshot `json:"after"`
	// InPlace is [Step.InPlace]: to undo the change is to undo it for the other links.
	InPlace bool `json:"in_place,omitempty"`
}

// Snapshot is a State as the record spells it.
type Snapshot struct {
	Tag         string `json:"tag"` // DT_RUNPATH, DT_RPATH or ""
	RunPath     string `json:"run_path"`
	Interpreter string `json:"interpreter"`
}

func snapshot(s State) Snapshot {
	tag := ""
	if s.Tag != elf.DT_NULL {
		tag = s.Tag.String()
	}
	return Snapshot{tag, s.List, s.Interpreter}
}

func (s Snapshot) state() State {
	tag := elf.DT_NULL
	switch s.Tag {
	case elf.DT_RUNPATH.String():
		tag = elf.DT_RUNPATH
	case elf.DT_RPATH.String():
		tag = elf.DT_RPATH
	}
	return State{tag, s.RunPath, s.Interpreter}
}

// recordFile returns where the record of a tree is kept: beside it.
func recordFile(root string) string { return strings.TrimRight(root, "/") + ".autopatchelf.json" }

// OpenRecord reads the record of a tree; an empty one where there is none.
func OpenRecord(root string) (*Record, error) {
	r := &Record{Version: 1, file: recordFile(root), root: absolute(root)}
	b, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", r.file, err)
	}
	if r.Version != 1 {
		return nil, fmt.Errorf("%s: version %d of a record, of which this program knows only 1", r.file, r.Version)
	}
	return r, nil
}

// File returns where the record is kept.
func (r *Record) File() string { return r.file }

func (c *Change) rel() string {
	if c.Bytes != nil {
		return string(c.Bytes)
	}
	return c.Path
}

// Root is the record's tree, an absolute path.
func (r *Record) Root() string { return r.root }

// Contains reports whether a path is the record's tree or lies in it.
func (r *Record) Contains(p string) bool { return below(absolute(p), r.root) }

// Add notes steps that are about to be taken. What was noted of a file before is
// continued, unless someone else has changed the file since.
func (r *Record) Add(steps []Step) {
	at := make(map[string]int, len(r.Files))
	for i := range r.Files {
		at[r.Files[i].rel()] = i
	}
	for _, s := range steps {
		rel := strings.TrimPrefix(strings.TrimPrefix(absolute(s.Path), r.root), "/")
		c := Change{Path: rel, Before: snapshot(s.From), After: snapshot(s.To), InPlace: s.InPlace}
		if !utf8.ValidString(rel) {
			c.Bytes = []byte(rel)
		}
		i, known := at[rel]
		if !known {
			r.Files = append(r.Files, c)
			continue
		}
		if r.Files[i].After == c.Before {
			c.Before = r.Files[i].Before
		}
		r.Files[i] = c
	}
}

// Save writes the record, or removes its file where there is nothing in it.
func (r *Record) Save() error {
	if len(r.Files) == 0 {
		if err := os.Remove(r.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(r.file), path.Base(r.file)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), r.file)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// Undo returns the steps that take back what was recorded.
func (r *Record) Undo() []Step {
	steps := make([]Step, len(r.Files))
	for i := range r.Files {
		c := &r.Files[i]
		p := r.root
		if rel := c.rel(); rel != "" {
			p += "/" + rel
		}
		steps[i] = Step{Path: p, From: c.After.state(), To: c.Before.state(), InPlace: c.InPlace}
	}
	return steps
}

// Links sets Also of the steps of Undo. It returns the paths of those files to which hard
// links outside the tree lead. The tree is only walked where a file has another link.
func (r *Record) Links(ctx context.Context, steps []Step, jobs int) (outside map[string]bool, err error) {
	byPath := map[string]*Step{}
	for i := range steps {
		var st unix.Stat_t
		if err := unix.Lstat(steps[i].Path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 {
			byPath[steps[i].Path] = &steps[i]
		}
	}
	if len(byPath) == 0 {
		return nil, nil
	}
	type file struct {
		path, same string
		others     int
	}
	names := map[string][]string{} // by the path that is visited first
	others := map[string]int{}
	err = tree.Walk(ctx, []string{r.root}, tree.Options{Jobs: jobs, FollowArguments: true}, func(f *tree.File) (file, bool) {
		return file{f.Path, cmp.Or(f.SameAs, f.Path), f.OtherLinks()}, f.Err == nil && f.ELF() && f.OtherLinks() > 0
	}, func(f file) {
		names[f.same], others[f.same] = append(names[f.same], f.path), f.others
	})
	outside = map[string]bool{}
	for first, all := range names {
		for _, path := range all {
			if s := byPath[path]; s != nil {
				s.Also = slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == path })
				outside[path] = others[first] >= len(all)
			}
		}
	}
	return outside, err
}

// Keep leaves in the record only the files of those steps of Undo that were not taken.
func (r *Record) Keep(left map[string]bool) {
	var files []Change
	for i, s := range r.Undo() {
		if left[s.Path] {
			files = append(files, r.Files[i])
		}
	}
	r.Files = files
}
