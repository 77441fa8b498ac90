package fixup

import (
	"cmp"
	"context"
	"debug/elf"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// Sources says where the index looks.
type Sources struct {
	Paths []string // the tree: files and directories
	Libs  []string // directories of libraries, and single libraries
	// Shallow leaves out the subdirectories of a directory in Paths.
	Shallow bool
	// WithoutTree: the tree's own libraries are no candidates.
	WithoutTree bool
	// Store is the directory below which run paths of libraries are followed.
	Store string
	Stubs driver.StubDirs
	// Literals asks for names in the read-only data of a file of the tree. It returns the function that accepts them;
	// nil asks for none. It is called from several goroutines.
	Literals func(*Object) func(name string) bool
	// NeedsDriver answers Object.needsDriver for the tree's files; nil if nothing depends on that.
	NeedsDriver func(*elfimage.Image) (bool, error)
	Jobs        int
	// Progress is called from one goroutine for each ELF file of the tree that was read.
	Progress func(files int)
	Leftover func(path string, err error) // see [tree.Options]
	Refuse   tree.Refuse                  // what of Paths; see [tree.Options]
}

// Index knows the ELF files of a tree, and which libraries there are for them.
type Index struct {
	// Files are the ELF files of the tree, in the order of the walk, and what could
	// not be read. Others counts the rest.
	Files  []*Object
	Others int

	sources Sources
	loader  *loader.Loader // sees the files as they were when they were read
	files   *files.Files   // the loader's
	roots   tree.Roots     // of Sources.Paths
	asked   *loop          // what was asked about the plans; nil if there are none

	objects sync.Map          // string, Object.Real → *Object; nil: no ELF file
	dirs    sync.Map          // string, its path → *dir
	own     map[string][]*dir // by file name: the tree's
	outside []place           // symbolic links of the tree that may lead outside it
	linked  func() map[string]bool

	mu     sync.Mutex      // for what follows
	levels []*level        // in the order in which they are searched; the tree is level 0, which has no dirs
	closed bool            // there are no more levels
	seen   map[string]bool // directories in levels
	stubs  []*dir          // stub directories that were left out

	sites func() []string // Sources.sitePackages
	// given are the roots as spelled, and reals the same free of links.
	given, reals func() roots
}

// place is a name in a directory of the tree.
type place struct{ dir, name string }

// Candidate is a file that has the name of a needed library.
type Candidate struct {
	Dir    string // for the run path
	Path   string
	object *Object
	own    bool // in the tree
	level  int
}

// Read reads the tree. Its directories stay open for [Index.Change], until Close.
func Read(ctx context.Context, s Sources) (*Index, error) {
	ix := &Index{sources: s, own: map[string][]*dir{}, seen: map[string]bool{}, sites: sync.OnceValue(s.sitePackages)}
	ix.given = sync.OnceValue(func() roots { return rootsOf(s.Paths, absolute) })
	ix.reals = sync.OnceValue(func() roots { return rootsOf(s.Paths, func(p string) string { return ix.dir(p).real }) })
	var err error
	if ix.loader, err = loader.New(loader.Options{NoTries: true}); err != nil {
		return ix, err
	}
	ix.files = ix.loader.Files()
	var mu sync.Mutex
	var links []place
	var others int
	inTree := rootsOf(s.Paths, func(p string) string { return filepath.Clean(absolute(p)) })
	libs := make([]string, len(s.Libs))
	for i, l := range s.Libs {
		libs[i] = absolute(l)
	}
	err = tree.Walk(ctx, s.Paths, tree.Options{Jobs: s.Jobs, Keep: &ix.roots, Shallow: s.Shallow, Leftover: s.Leftover,
		Refuse: s.Refuse,
		Link: func(dir, name string) {
			library, outside := libraryName(name) || strings.HasSuffix(name, ".node"), inTree.mayLeadOutside(dir, name)
			mu.Lock()
			if library {
				links = append(links, place{dir, name})
			}
			if outside {
				ix.outside = append(ix.outside, place{dir, name})
			}
			mu.Unlock()
		}},
		func(f *tree.File) (*Object, bool) {
			if f.Err == nil && !f.ELF() {
				return nil, true
			}
			return ix.object(f), true
		}, func(o *Object) {
			if o == nil {
				others++
				return
			}
			ix.add(o)
			if s.Progress != nil {
				s.Progress(len(ix.Files))
			}
		})
	ix.Others = others
	if err != nil {
		return ix, err
	}
	ix.findLinks()
	ix.linked = sync.OnceValue(func() map[string]bool { return ix.linkedElsewhere(links) })
	if !s.WithoutTree {
		for _, l := range links {
			if libraryName(l.name) {
				ix.own[l.name] = append(ix.own[l.name], ix.dirOf(l.dir))
			}
		}
		ix.sortOwn()
	}
	ix.levels = []*level{{by: ix.own}}
	ix.level(ix.runPaths(func(o *Object) bool { return !s.WithoutTree && libraryName(path.Base(o.Path)) }))
	ix.level(libs)
	return ix, nil
}

// Close closes the tree.
func (ix *Index) Close() { ix.roots.Close() }

// object reads one file of the walk.
func (ix *Index) object(f *tree.File) *Object {
	o := &Object{Path: f.Path, File: unread, err: f.Err, SameAs: f.SameAs}
	dir, name := path.Split(f.Path)
	o.Real = ix.dirOf(dir).real + "/" + name
	if f.Err != nil {
		return o
	}
	if o.at = f.Target(); f.SameAs != "" {
		return o
	}
	o.links = f.OtherLinks()
	ix.take(o, f)
	return o
}

// add adds a file of the walk.
func (ix *Index) add(o *Object) {
	ix.Files = append(ix.Files, o)
	dir, name := path.Split(o.Path)
	ix.objects.Store(o.Real, o)
	if !ix.sources.WithoutTree {
		ix.own[name] = append(ix.own[name], ix.dirOf(dir))
	}
}

// findLinks gives each file the other paths in the tree that are the same file, and gives these what it is.
func (ix *Index) findLinks() {
	var first map[string]*Object
	for _, o := range ix.Files {
		if o.SameAs == "" {
			continue
		}
		if first == nil {
			first = make(map[string]*Object, len(ix.Files))
			for _, o := range ix.Files {
				first[o.Path] = o
			}
		}
		if f := first[o.SameAs]; f != nil {
			f.also = append(f.also, o)
			o.File, o.abi, o.LibC, o.skipReason, o.err = f.File, f.abi, f.LibC, f.skipReason, f.err
		}
	}
}

// linkedElsewhere returns the files that links in other directories of the tree lead to. A library's $ORIGIN is the
// directory of the path by which it was found.
func (ix *Index) linkedElsewhere(links []place) map[string]bool {
	out := map[string]bool{}
	for _, l := range links {
		dir := ix.dirOf(l.dir).real
		if at := ix.files.At(dir + "/" + l.name); at.Errno == 0 && path.Dir(at.Host) != dir {
			out[at.Host] = true
		}
	}
	return out
}

// sortOwn sorts the tree's names independently of the order in directories: by argument, then by depth, then by the
// bytes of the path.
func (ix *Index) sortOwn() {
	arguments := rootsOf(ix.sources.Paths, func(p string) string { return cmp.Or(strings.TrimSuffix(p, "/"), "/") })
	argument := func(d *dir) int { return arguments.over(d.path, nil) }
	for _, dirs := range ix.own {
		slices.SortFunc(dirs, func(a, b *dir) int {
			return cmp.Or(cmp.Compare(argument(a), argument(b)), cmp.Compare(strings.Count(a.path, "/"),
				strings.Count(b.path, "/")), cmp.Compare(a.path, b.path))
		})
	}
}

// libraryName reports whether a search for libraries looks at a file's name.
func libraryName(name string) bool { return strings.Contains(name, ".so") }

// absolute makes a path absolute and otherwise leaves it: "a/.." stays, because a may be a link.
func absolute(p string) string {
	if !strings.HasPrefix(p, "/") {
		if wd, err := os.Getwd(); err == nil {
			p = strings.TrimSuffix(wd, "/") + "/" + p
		}
	}
	return runpath.Key(p)
}

// level is some directories that are searched before those of the next level.
type level struct {
	dirs []*dir
	by   map[string][]*dir // those of a name, in order; nil before the first question
}

// level appends a level with the directories that were not seen before.
func (ix *Index) level(dirs []string) {
	next := &level{}
	for _, d := range dirs {
		if ix.seen[d] {
			continue
		}
		ix.seen[d] = true
		if ix.sources.Stubs.Contains(d) {
			ix.stubs = append(ix.stubs, ix.dir(d))
			continue
		}
		next.dirs = append(next.dirs, ix.dir(d))
	}
	ix.levels = append(ix.levels, next)
}

// runPaths returns the directories in the store that the run paths of some of the tree's files name.
func (ix *Index) runPaths(which func(*Object) bool) []string {
	var dirs []string
	lists := map[string]bool{} // many files have the same
	for _, o := range ix.Files {
		if o.List != "" && !lists[o.List] && which(o) {
			lists[o.List] = true
			dirs = ix.follow(dirs, o)
		}
	}
	return dirs
}

// follow appends the directories that an object's run path names, if they are in
// the store and the name needs no knowledge of the object.
func (ix *Index) follow(dirs []string, o *Object) []string {
	for _, e := range runpath.Parse(o.List) {
		if strings.HasPrefix(e, ix.sources.Store+"/") && !strings.Contains(e, "$") {
			dirs = append(dirs, absolute(e))
		}
	}
	return dirs
}

// deeper adds the next level, and returns false if there is none. First comes the level of the inputs' wheels, then
// those of directories in the run paths of earlier levels' libraries, and last that of the run paths of the tree's
// programs.
func (ix *Index) deeper() bool {
	if ix.closed {
		return false
	}
	from := ix.levels[len(ix.levels)-1].dirs
	switch len(ix.levels) {
	case wheelLevel:
		ix.level(ix.inWheels())
		return true
	case wheelLevel + 1:
		from = slices.Concat(ix.levels[1].dirs, ix.levels[2].dirs)
	}
	dirs := make([][]string, len(from))
	several(len(from), ix.sources.Jobs, func(i int) {
		for _, name := range from[i].names() {
			if o := ix.open(from[i], name); o != nil && o.err == nil {
				dirs[i] = ix.follow(dirs[i], o)
			}
		}
	})
	ix.level(slices.Concat(dirs...))
	if last := len(ix.levels) - 1; len(ix.levels[last].dirs) == 0 {
		ix.closed = true
		ix.levels = ix.levels[:last]
		ix.level(ix.runPaths(func(*Object) bool { return !ix.sources.WithoutTree }))
	}
	return true
}

// holding returns the directories of a level that have a name, in order. ok is false if there is no such level.
func (ix *Index) holding(name string, level int) (dirs []*dir, ok bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if level == len(ix.levels) && !ix.deeper() {
		return nil, false
	}
	return ix.levels[level].names()[name], true
}

// names returns the directories of a level by the names that they have.
func (l *level) names() map[string][]*dir {
	if l.by == nil {
		l.by = map[string][]*dir{}
		for _, d := range l.dirs {
			for _, name := range d.names() {
				l.by[name] = append(l.by[name], d)
			}
		}
	}
	return l.by
}

// candidate returns the file of a name in a directory, and the directory as a run path names it. Its links are
// resolved if the file keeps its own name.
func (ix *Index) candidate(d *dir, name string, level int) (Candidate, bool) {
	o := ix.open(d, name)
	if o == nil {
		return Candidate{}, false
	}
	c := Candidate{Dir: absolute(d.path), Path: d.path + "/" + name, object: o, own: level == 0, level: level}
	if path.Base(o.Real) == name {
		c.Dir = path.Dir(o.Real)
	}
	return c, true
}

// usable reports whether a library of that kind can be loaded at all.
func (o *Object) usable() string {
	switch {
	case o.err != nil:
		return "is malformed: " + o.err.Error()
	case o.skipReason != "" && o.skipReason != elfimage.Loader:
		return "is " + string(o.skipReason)
	case o.ELF.Type == elf.ET_EXEC || o.PIE():
		return "is a program, not a library"
	}
	return ""
}
