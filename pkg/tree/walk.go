package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

// Options says how to walk.
type Options struct {
	Jobs int // files at a time, at most 512; below 1: the processors
	// FollowArguments resolves arguments that are symbolic links, as checks do.
	// Editors refuse them. Links below an argument are never followed.
	FollowArguments bool
	// Shallow visits only the files directly in a directory that is an argument.
	Shallow bool
	// Leftover, if not nil, is called from several goroutines for every copy that a killed edit has left in a
	// directory. The copy has been removed by then, or err says why it could not be. Files with the name of such a
	// copy are not visited.
	Leftover func(path string, err error)
	// Keep, if not nil, gets the arguments that were walked, for [Files] and after [File.Target]. They stay open
	// until it is closed.
	Keep *Roots
	// AnyLinked takes the hard links to any file for one file, not only those to an ELF file. Editors of other files
	// need that; it costs an fstat(2) a file.
	AnyLinked bool
	// Link is called from several goroutines for every symbolic link below an argument, with the directory's path and
	// the link's name. Nil: links are passed over.
	Link func(dir, name string)
	// Refuse, if not nil, is asked about each argument. A refused argument is not walked, but visited with [File.Err]
	// set.
	Refuse Refuse
}

// Refuse returns why a file or directory must not be edited. Its path is absolute and free of symbolic links. among:
// it must be asked about each directory and file below, too. It is called from several goroutines.
type Refuse func(real string, dir bool) (err error, among bool)

// ErrSymlink is the error for an argument of an editor that is a symbolic link.
var ErrSymlink = errors.New("is a symbolic link; name the file that it points to")

var errNotFile = errors.New("is neither a regular file nor a directory")

// Stopped says that a walk was cancelled before its end.
type Stopped struct {
	Visited int // files visited
	Cause   error
}

func (e *Stopped) Error() string {
	return fmt.Sprintf("stopped (%v) after %d files, all of them complete; the others were not touched",
		e.Cause, e.Visited)
}

func (e *Stopped) Unwrap() error { return e.Cause }

// Walk calls visit for every regular file that the paths name or that is below them, from up to Options.Jobs
// goroutines. It calls emit, from the calling goroutine, for each result that visit wants kept. Results come in the
// order of the paths, and within a directory in the order of the names' bytes.
//
// A path that cannot be read is visited with [File.Err] set. Hard links to one
// file, and a file reached twice, are visited once in full, by their first path;
// the others have [File.SameAs] set.
//
// When ctx is cancelled, files in work are finished and Walk returns a *Stopped.
func Walk[R any](ctx context.Context, paths []string, o Options, visit func(*File) (r R, keep bool),
	emit func(R)) error {
	w := newWalker(ctx, o, func(f *File) (any, bool) { return visit(f) })
	root := newNode()
	w.arguments(root, paths)
	return w.run(root, emitting(emit))
}

// WalkRoot is [Walk] for one root, which stays open.
func WalkRoot[R any](ctx context.Context, r *Root, o Options, visit func(*File) (r R, keep bool), emit func(R)) error {
	w := newWalker(ctx, o, func(f *File) (any, bool) { return visit(f) })
	root := newNode()
	w.push(w.argument(root, r))
	root.items[0].root = nil
	return w.run(root, emitting(emit))
}

// Files is [Walk] for known files, all different, and reads no directory. A place that by now has another file, or is
// reached by a symbolic link, is visited with [File.Err] set.
func Files[R any](ctx context.Context, targets []Target, o Options, visit func(*File) (r R, keep bool),
	emit func(R)) error {
	w := newWalker(ctx, o, func(f *File) (any, bool) { return visit(f) })
	root := newNode()
	var tasks []task
	for some := range slices.Chunk(targets, chunk/4) {
		n := newNode()
		root.items = append(root.items, item{sub: n})
		tasks = append(tasks, &targetsTask{w: w, targets: some, node: n})
	}
	slices.Reverse(tasks)
	w.push(tasks...)
	return w.run(root, emitting(emit))
}

// emitting returns emit for results of any type. A walker for each type, with the methods of all that it holds, would
// make the program 120 kB larger.
func emitting[R any](emit func(R)) func(any) {
	return func(result any) {
		r, _ := result.(R) // nil if R is an interface
		emit(r)
	}
}

// targetsTask visits some files by their places.
type targetsTask struct {
	w       *walker
	targets []Target
	node    *node
}

func (t *targetsTask) run(buf *buffers) {
	defer close(t.node.done)
	var o opener
	defer o.close()
	for _, target := range t.targets {
		if t.w.stopped() {
			return
		}
		if f := t.w.reopen(&o, target, buf); f.Err == nil && f.OtherLinks() > 0 {
			f.close()
			t.node.items = append(t.node.items, item{linked: f.Target()})
		} else {
			t.w.keep(t.node, f)
		}
	}
}

// reopen opens a file again. If it is another file now, it counts as unreadable.
func (w *walker) reopen(o *opener, t Target, buf *buffers) *File {
	d, name, err := o.of(t)
	if err != nil {
		f := failed(t.Path, err)
		f.root = t.root
		return f
	}
	f := w.openFile(d, name, t.Path, t.root.follow && t.root.name != "", buf.head)
	f.root, f.only = t.root, t.id
	if f.Err == nil && t.id != (inode{}) && f.id() != t.id {
		f.fail(errChanged)
	}
	return f
}

// openFile opens a file to be visited.
func (w *walker) openFile(d *dir, name, path string, follow bool, buf []byte) *File {
	f := open(d, name, path, follow, &w.noatime, buf)
	if w.AnyLinked && f.Err == nil && !f.ELF() {
		if err := f.look(); err != nil {
			f.fail(err)
		}
	}
	return f
}

// keep visits a file that has one name, and keeps the result if it is wanted.
func (w *walker) keep(n *node, f *File) {
	if f.Err == nil && f.looked() {
		f.SameAs = w.claim(f)
	}
	if r, keep := w.see(f); keep {
		n.items = append(n.items, item{r: r})
	}
}

func newWalker(ctx context.Context, o Options, visit func(*File) (any, bool)) *walker {
	w := &walker{ctx: ctx, Options: o, visit: visit, claimed: map[inode]string{}, links: map[inode][]Target{}}
	w.wake.L = &w.mu
	return w
}

// run works on the tasks and emits the results of root, which is complete.
func (w *walker) run(root *node, emit func(any)) error {
	close(root.done)
	jobs := w.Jobs
	if jobs < 1 {
		jobs = runtime.GOMAXPROCS(0)
	}
	jobs = min(jobs, maxJobs)
	if w.single = w.isSingle(); w.single {
		w.work() // other goroutines would cost more than the file
		w.collect(root, emit)
		return nil
	}
	var workers sync.WaitGroup
	for range jobs {
		workers.Go(w.work)
	}
	w.collect(root, emit)
	workers.Wait()
	if w.cut.Load() {
		return &Stopped{Visited: int(w.visited.Load()), Cause: context.Cause(w.ctx)}
	}
	return nil
}

// maxJobs bounds what a typing error in --jobs can cost, for each worker has buffers.
const maxJobs = 512

type inode struct{ dev, ino uint64 }

type walker struct {
	Options
	ctx     context.Context
	visit   func(*File) (any, bool)
	visited atomic.Int64
	cut     atomic.Bool // something was left out because ctx was cancelled
	single  bool        // there is only one file
	noatime noatime

	mu    sync.Mutex
	wake  sync.Cond
	tasks []task // a stack: the walk goes deep before it goes wide
	open  int    // tasks in the stack or in work

	claims  sync.Mutex
	claimed map[inode]string
	links   map[inode][]Target // of files with several hard links
}

type task interface{ run(buf *buffers) }

// node collects results in order: its items are complete once done is closed.
type node struct {
	done  chan struct{}
	items []item
}

// item is a result, a node of further results, or a file with several hard links. Such a file is left to the
// collector, because only the collector knows the order, and so which link comes first.
type item struct {
	r      any
	sub    *node
	root   *Root  // closed when sub, which is all of it, was collected; nil: it stays open
	linked Target // whose first name is not known yet
}

func newNode() *node { return &node{done: make(chan struct{})} }

// arguments turns the paths into the first tasks. A path that the walk of another one reaches is left to that walk.
func (w *walker) arguments(root *node, paths []string) {
	type argument struct {
		path, real string // real: absolute, free of symbolic links
		dir        bool
		err        error
	}
	var args []argument
	parents := map[string]string{}
	for _, p := range paths {
		a := argument{path: p}
		var st unix.Stat_t
		at, flags := Unslashed(p), unix.AT_SYMLINK_NOFOLLOW
		if w.FollowArguments {
			at, flags = p, 0
		}
		if a.err = regular.Uninterrupted(func() error { return unix.Fstatat(unix.AT_FDCWD, at, &st, flags) }); a.err == nil {
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFDIR:
				a.dir = true
			case unix.S_IFREG:
				if at != p {
					a.err = unix.ENOTDIR
				}
			case unix.S_IFLNK:
				a.err = ErrSymlink
			default:
				a.err = errNotFile
			}
		}
		if a.err == nil && len(paths) > 1 { // else there is nothing to compare with
			a.real, a.err = realPath(p, w.FollowArguments || a.dir, parents)
		}
		args = append(args, a)
	}
	first := map[string]int{} // of the arguments with one real path
	dirs := map[string]bool{}
	for i, a := range args {
		if a.err != nil {
			continue
		}
		if _, again := first[a.real]; !again {
			first[a.real] = i
		}
		dirs[a.real] = dirs[a.real] || a.dir
	}
	within := func(i int) bool {
		if len(args) == 1 {
			return false
		}
		if first[args[i].real] != i {
			return true
		}
		if w.Shallow { // only the files directly in a directory are visited with it
			return !args[i].dir && dirs[filepath.Dir(args[i].real)]
		}
		for dir := args[i].real; dir != "/"; {
			if dir = filepath.Dir(dir); dirs[dir] {
				return true
			}
		}
		return false
	}
	var tasks []task
	for i, a := range args {
		switch {
		case a.err != nil:
			if r, keep := w.visit(failed(a.path, a.err)); keep {
				root.items = append(root.items, item{r: r})
			}
		case within(i):
		default:
			r := newRoot(a.path, !a.dir, w.FollowArguments, w.Refuse)
			tasks = append(tasks, w.argument(root, r))
			if w.Keep != nil {
				w.Keep.all = append(w.Keep.all, r)
				root.items[len(root.items)-1].root = nil
			}
		}
	}
	slices.Reverse(tasks)
	w.push(tasks...)
}

// argument returns the task that visits an argument. Its results go below root.
func (w *walker) argument(root *node, r *Root) task {
	n := newNode()
	root.items = append(root.items, item{sub: n, root: r})
	if r.name == "" {
		return &dirTask{w: w, root: r, path: r.path, node: n}
	}
	return &filesTask{w: w, root: r, prefix: r.prefix(), names: []string{r.name}, node: n}
}

// realPath returns the absolute path, free of symbolic links, of what p leads to, or p itself if no path leads there
// (/proc/PID/exe of another mount namespace). If p is no symbolic link, only its parent is resolved. parents
// remembers that, because a thousand files may be named.
func realPath(p string, link bool, parents map[string]string) (string, error) {
	if !filepath.IsAbs(p) {
		wd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		p = wd + "/" + p // filepath.Join takes "a/.." for ".", which a may not lead to
	}
	resolve := func(p string) string {
		if real, err := regular.Real(p); err == nil {
			return real
		}
		return filepath.Clean(p)
	}
	if link {
		return resolve(p), nil
	}
	parent, name := filepath.Split(p)
	if parents[parent] == "" {
		parents[parent] = resolve(parent)
	}
	return filepath.Join(parents[parent], name), nil
}

func (w *walker) push(tasks ...task) {
	if len(tasks) == 0 {
		return
	}
	w.mu.Lock()
	w.tasks = append(w.tasks, tasks...)
	w.open += len(tasks)
	w.mu.Unlock()
	if len(tasks) == 1 {
		w.wake.Signal()
	} else {
		w.wake.Broadcast()
	}
}

func (w *walker) work() {
	buf := newBuffers()
	for {
		w.mu.Lock()
		for len(w.tasks) == 0 && w.open > 0 {
			w.wake.Wait()
		}
		if len(w.tasks) == 0 {
			w.mu.Unlock()
			w.wake.Broadcast()
			return
		}
		last := len(w.tasks) - 1
		t := w.tasks[last]
		w.tasks[last], w.tasks = nil, w.tasks[:last]
		w.mu.Unlock()

		t.run(buf)

		w.mu.Lock()
		w.open--
		w.mu.Unlock()
	}
}

// collect emits the results of a node and visits what was left to it.
func (w *walker) collect(n *node, emit func(any)) {
	var buf *buffers
	var o opener
	defer o.close()
	<-n.done
	for i := range n.items {
		it := &n.items[i]
		switch {
		case it.sub != nil:
			w.collect(it.sub, emit)
			it.sub = nil
			if it.root != nil {
				it.root.Close()
			}
		case it.linked.root != nil:
			if w.stopped() {
				continue
			}
			if buf == nil {
				buf = newBuffers()
			}
			f := w.reopen(&o, it.linked, buf)
			if f.Err == nil {
				f.SameAs = w.claim(f)
			}
			f.others = w.others
			if r, keep := w.see(f); keep {
				emit(r)
			}
		default:
			emit(it.r)
		}
	}
}

// see visits a file. It visits it again if another editor has changed it, because the plan no longer fits.
func (w *walker) see(f *File) (any, bool) {
	defer w.visited.Add(1)
	for tries := 1; ; tries++ {
		f.ctx, f.alone = w.ctx, w.single
		r, keep := w.visit(f)
		f.close()
		if f.others != nil && f.copied != (inode{}) {
			w.claims.Lock()
			w.claimed[f.copied] = f.Path
			w.claims.Unlock()
		}
		if !f.changed || w.ctx.Err() != nil || !Retry(tries) {
			return r, keep
		}
		again := w.openFile(f.dir, f.name, f.Path, f.follow, f.buf)
		if again.Err != nil || !again.looked() || f.only != (inode{}) && again.id() != f.only {
			again.close()
			return r, keep
		}
		again.SameAs, again.root, again.only, again.others = f.SameAs, f.root, f.only, f.others
		if again.id() != f.id() { // the old file's other names are visited by themselves
			w.disclaim(f)
			again.SameAs = w.claim(again)
		}
		f = again
	}
}

// linked returns the place of a file with several hard links, and remembers it as one of its names.
func (w *walker) linked(f *File) Target {
	t := Target{Path: f.Path, root: f.root}
	w.claims.Lock()
	defer w.claims.Unlock()
	w.links[f.id()] = append(w.links[f.id()], t)
	return t
}

// others returns the other names of a file that the walk reaches. It is for the collector, and waits until all
// directories have been read.
func (w *walker) others(f *File) []Target {
	w.mu.Lock()
	for w.open > 0 {
		w.wake.Wait()
	}
	w.mu.Unlock()
	w.claims.Lock()
	defer w.claims.Unlock()
	return slices.DeleteFunc(slices.Clone(w.links[f.id()]), func(o Target) bool { return o.Path == f.Path })
}

// claim marks a file as visited. It returns the path under which it already was.
func (w *walker) claim(f *File) string {
	if w.single {
		return ""
	}
	id := f.id()
	w.claims.Lock()
	defer w.claims.Unlock()
	if first, taken := w.claimed[id]; taken {
		return first
	}
	w.claimed[id] = f.Path
	return ""
}

// disclaim takes back the claim on a file whose name no longer leads to it.
func (w *walker) disclaim(f *File) {
	w.claims.Lock()
	defer w.claims.Unlock()
	if w.claimed[f.id()] == f.Path {
		delete(w.claimed, f.id())
	}
}

// isSingle reports whether there is one file to visit, and no directory.
func (w *walker) isSingle() bool {
	if len(w.tasks) != 1 {
		return false
	}
	t, ok := w.tasks[0].(*filesTask)
	return ok && len(t.names) == 1
}

func (w *walker) stopped() bool {
	// A single file is always visited; asking the context would start to listen for signals.
	if w.single || w.ctx.Err() == nil {
		return false
	}
	w.cut.Store(true)
	return true
}

// dirTask reads one directory and makes tasks of what it holds.
type dirTask struct {
	w      *walker
	root   *Root
	path   string // in reports
	parent *dir   // the directory is opened from there, so that nobody can swap what lies between; nil for the root itself
	name   string // in parent
	real   string // see [Root]
	node   *node
}

// open returns the directory, with one reference.
func (t *dirTask) open() (*dir, error) {
	if t.parent == nil {
		d, err := t.root.open()
		if err == nil {
			t.real = t.root.real
			_, _ = unix.Seek(d.fd, 0, unix.SEEK_SET) // it may have been walked before
		}
		return d, err
	}
	defer t.parent.release()
	if t.real != "" {
		err, among := t.w.Refuse(t.real, true)
		if err != nil {
			return nil, err
		}
		if !among {
			t.real = ""
		}
	}
	fd, err := regular.Descriptor(t.parent.fd, t.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return newDir(fd), nil
}

// chunk is the number of files in one task: large enough that handing it over
// costs nothing, small enough that one directory of 100,000 files keeps all
// processors busy.
const chunk = 32

func (t *dirTask) run(buf *buffers) {
	defer close(t.node.done)
	if t.w.stopped() {
		if t.parent != nil {
			t.parent.release()
		}
		return
	}
	d, err := t.open()
	var entries []dirent
	if err == nil {
		defer d.release()
		entries, err = d.list(buf)
	}
	if err != nil {
		if r, keep := t.w.visit(failed(t.path, err)); keep {
			t.node.items = append(t.node.items, item{r: r})
		}
		return
	}
	prefix := t.path + "/"
	if strings.HasSuffix(t.path, "/") {
		prefix = t.path
	}
	var files, dirs []task
	var names []string
	flush := func() {
		if len(names) > 0 {
			n := newNode()
			t.node.items = append(t.node.items, item{sub: n})
			files = append(files, &filesTask{w: t.w, root: t.root, dir: d.retain(), prefix: prefix, names: names,
				real: t.real, node: n})
			names = nil
		}
	}
	for _, e := range entries {
		switch e.kind {
		case unix.DT_REG:
			if regular.IsTemporary(e.name) {
				t.w.clean(d, e.name, prefix+e.name)
				continue
			}
			if names == nil {
				names = make([]string, 0, min(chunk, len(entries)))
			}
			if names = append(names, e.name); len(names) == chunk {
				flush()
			}
		case unix.DT_LNK:
			if t.w.Link != nil {
				t.w.Link(t.path, e.name)
			}
		case unix.DT_DIR:
			if t.w.Shallow && t.parent == nil {
				continue
			}
			flush()
			n := newNode()
			t.node.items = append(t.node.items, item{sub: n})
			next := &dirTask{w: t.w, root: t.root, path: prefix + e.name, parent: d.retain(), name: e.name, node: n}
			if t.real != "" {
				next.real = filepath.Join(t.real, e.name)
			}
			dirs = append(dirs, next)
		}
	}
	flush()
	// The last one pushed runs first: files before directories, so that the
	// descriptor of this directory is closed before many others are opened.
	slices.Reverse(files)
	slices.Reverse(dirs)
	t.w.push(append(dirs, files...)...)
}

// clean removes the copy that a killed edit has left, if that is wanted.
func (w *walker) clean(d *dir, name, path string) {
	if w.Leftover == nil {
		return
	}
	removed, err := regular.RemoveLeft(d.fd, name)
	if removed || err != nil && !errors.Is(err, unix.EWOULDBLOCK) { // else somebody works on it
		w.Leftover(path, err)
	}
}

// filesTask visits some files of one directory.
type filesTask struct {
	w      *walker
	root   *Root
	dir    *dir   // nil if the file is the root itself
	prefix string // of the names, in reports
	names  []string
	real   string // see [Root]
	node   *node
}

func (t *filesTask) run(buf *buffers) {
	defer close(t.node.done)
	follow := false
	if t.dir == nil {
		d, err := t.root.open()
		if err != nil {
			t.w.keep(t.node, failed(t.root.path, err))
			return
		}
		t.dir, follow = d, t.root.follow
	}
	defer t.dir.release()
	for _, name := range t.names {
		if t.w.stopped() {
			return
		}
		if t.real != "" {
			if err, _ := t.w.Refuse(filepath.Join(t.real, name), false); err != nil {
				t.w.keep(t.node, failed(t.prefix+name, err))
				continue
			}
		}
		f := t.w.openFile(t.dir, name, t.prefix+name, follow, buf.head)
		f.root = t.root
		if f.Err == nil && f.OtherLinks() > 0 {
			f.close()
			t.node.items = append(t.node.items, item{linked: t.w.linked(f)})
			continue
		}
		t.w.keep(t.node, f)
	}
}
