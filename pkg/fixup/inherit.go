package fixup

import (
	"debug/elf"
	"fmt"
	"path"
	"slices"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/runpath"
)

// A library inherits the DT_RPATH of those that loaded it, and nothing inherits a DT_RUNPATH; what has a DT_RUNPATH
// itself inherits neither (elf/dl-load.c of glibc). So a file that gets a DT_RUNPATH may lose what it found by
// another's DT_RPATH, and one whose DT_RPATH becomes a DT_RUNPATH takes it from others, also outside the tree.

// move is what an edit does, or would do, to the run path of the file at a path.
type move struct {
	Path     string
	From, To edit.State
}

// toRunPath reports whether a file gets a DT_RUNPATH that had none.
func (m *move) toRunPath() bool { return m.To.Tag == elf.DT_RUNPATH && m.From.Tag != elf.DT_RUNPATH }

// Loss is a library that is found today by a DT_RPATH which its asker inherits, and would not be, or not the same
// file, after the moves.
type Loss struct {
	Name   string
	By     string // who asks for it
	Opened bool   // by its name, with dlopen
}

func (l Loss) String() string {
	if l.Opened {
		return fmt.Sprintf("%s, which %s opens by name", l.Name, l.By)
	}
	return fmt.Sprintf("%s, which %s needs", l.Name, l.By)
}

// keepRPath returns, by the paths of the moves, the files that are to have a DT_RPATH where the moves give them a
// DT_RUNPATH, so that everything is found that is found today, and for what. l may be nil.
func keepRPath(l *loader.Loader, moves []move) map[string]Loss {
	n, why := newInheritance(l, moves), map[*move][]Loss{}
	var lost []Loss
	for range 16 { // each round may show what those of the one before hid
		again := false
		lost = nil
		n.lost(func(loss Loss, by, owner *move) {
			lost = append(lost, loss)
			for _, m := range []*move{by, owner} {
				if m != nil && m.toRunPath() {
					why[m], again = append(why[m], loss), true
				}
			}
		})
		for m := range why {
			m.To.Tag = elf.DT_RPATH
		}
		if !again {
			break
		}
	}
	keep := map[string]Loss{}
	for m, all := range why {
		for _, loss := range all {
			if !slices.Contains(lost, loss) { // else a DT_RPATH does not help: the list is another
				keep[m.Path] = loss
			}
		}
	}
	return keep
}

// inheritance compares what the loader finds before and after moves.
type inheritance struct {
	l      *loader.Loader
	moves  map[string]*move // by their paths, links resolved
	starts []*heir
}

// heir is a file with a DT_RPATH, and a library that it opens, where that is not "".
type heir struct {
	path, opens string
	asks        []inherited
	opened      map[string][]string // what each object opens by name, by its path
}

// inherited is a library that an object found by a DT_RPATH of another.
type inherited struct {
	Loss
	file      string // that was found
	by, owner string // the files of the object and of the other
}

// maxPlugins bounds how many libraries are tried that a program with a DT_RPATH may open by a name that it
// computes.
const maxPlugins = 2000

func newInheritance(l *loader.Loader, moves []move) *inheritance {
	n := &inheritance{l: l, moves: map[string]*move{}}
	if !slices.ContainsFunc(moves, func(m move) bool { return m.From.Tag == elf.DT_RPATH }) {
		return n
	}
	if n.l == nil {
		var err error
		if n.l, err = loader.New(loader.Options{NoTries: true}); err != nil {
			return n
		}
	}
	var heirs, rest []string
	for _, m := range moves {
		real, err := regular.Real(m.Path)
		if err != nil {
			continue
		}
		n.moves[real] = &m
		if m.From.Tag == elf.DT_RPATH {
			heirs = append(heirs, real)
		}
		if m.From.Tag != elf.DT_RUNPATH {
			rest = append(rest, real)
		}
	}
	before := n.as(func(m *move) edit.State { return m.From })
	add := func(s *heir) {
		if s.ask(before, true); len(s.asks) > 0 {
			n.starts = append(n.starts, s)
		}
	}
	var programs, alone []string
	for _, p := range heirs {
		add(&heir{path: p})
	}
	for _, p := range rest { // what by itself does not find all that it needs
		if load, err := before.Load(p); err == nil && load.Role != loader.Static {
			if load.Role == loader.Program && n.moves[p].From.Tag == elf.DT_RPATH {
				programs = append(programs, p)
			} else if load.Role != loader.Program && slices.ContainsFunc(load.Missing(),
				func(o *loader.Object) bool { return !driver.Provides(path.Base(o.Name)) }) {
				alone = append(alone, p)
			}
		}
	}
	for i, p := range programs {
		for _, plugin := range alone {
			if i*len(alone) < maxPlugins {
				add(&heir{path: p, opens: plugin})
			}
		}
	}
	return n
}

// as returns a loader to which the files are in a state.
func (n *inheritance) as(state func(*move) edit.State) *loader.Loader {
	return n.l.Edited(func(f *files.File) {
		if m := n.moves[f.Path]; m != nil {
			s := state(m)
			f.Tag, f.List, f.RPath, f.Shadow = s.Tag, s.List.String(), "", false
			f.Note, f.NoteErr = nil, nil // a right one leads nowhere else
		}
	})
}

// lost calls tell for what is found before the moves and not after them, with those of the object that asks for it, and
// of the one whose DT_RPATH led to it; nil for files that are not moved.
func (n *inheritance) lost(tell func(loss Loss, by, owner *move)) {
	if len(n.starts) == 0 {
		return
	}
	after := n.as(func(m *move) edit.State { return m.To })
	for _, s := range n.starts {
		now := &heir{path: s.path, opens: s.opens, opened: s.opened}
		found := now.ask(after, false)
		for _, a := range s.asks {
			if file, asked := found[[2]string{a.By, a.Name}]; asked && file != a.file {
				tell(a.Loss, n.moves[a.by], n.moves[a.owner])
			}
		}
	}
}

// ask loads the file and follows what is opened by name; with search, that is looked for first. It returns where each
// object found what it asked for, "" for nowhere, by its path and the name.
func (s *heir) ask(l *loader.Loader, search bool) map[[2]string]string {
	load, err := l.Load(s.path)
	if err != nil || load.Role == loader.Static {
		return nil
	}
	if s.opens != "" {
		load.Open(s.opens, load.Main, loader.DlopenAsked, "")
	}
	if search {
		s.opened = map[string][]string{}
	}
	found := map[[2]string]string{}
	for i := 0; i < len(load.Objects); i++ {
		o := load.Objects[i]
		if o.File == nil || !o.Found() || o.Err != "" {
			continue
		}
		if search && o.File.Tag != elf.DT_RUNPATH && !files.OfGLibc(o.Name) && !driver.Provides(path.Base(o.Name)) {
			s.opened[o.Path] = mayOpen(load, o)
		}
		for _, name := range s.opened[o.Path] {
			load.Open(name, o, loader.DlopenString, "")
		}
	}
	for _, o := range load.WithFailed() {
		for _, u := range load.Asks(o) {
			if u.To == nil || driver.Provides(path.Base(u.Name)) || u.To.File == nil && u.To.Found() {
				continue
			}
			key := [2]string{o.Path, u.Name}
			if found[key] = ""; !u.To.Found() {
				continue
			}
			found[key] = u.To.File.Path
			// One that lacks a version is found in vain.
			if list := u.To.List; search && !u.Again && u.To.Rule == loader.ByRPath && list != nil && list != o &&
				u.To.File.Serves(o.File, u.Name) {
				s.asks = append(s.asks, inherited{Loss{u.Name, o.Path, u.Cause == loader.DlopenString}, u.To.File.Path, o.File.Path,
					list.File.Path})
			}
		}
	}
	return found
}

// mayOpen returns the names among an object's constants that a directory of a DT_RPATH holds.
func mayOpen(load *loader.Load, o *loader.Object) (names []string) {
	var dirs []string
	for _, x := range load.Objects {
		if x.File == nil || x.File.Tag != elf.DT_RPATH {
			continue
		}
		for _, entry := range runpath.Parse(x.File.List) {
			if dir, ok := load.Expand(x, entry); ok && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	for _, lit := range o.File.Literals() {
		if lit.Exact && lit.Path == "" && slices.ContainsFunc(dirs,
			func(dir string) bool { return load.Holds(dir, lit.Name) }) {
			names = append(names, lit.Name)
		}
	}
	return names
}
