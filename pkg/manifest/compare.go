package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// Change is one thing that differs between two documents.
type Change struct {
	Kind    string `json:"kind"`              // see [Kinds]
	Package string `json:"package,omitempty"` // the name of the later one, or of one that is gone
	File    string `json:"file,omitempty"`    // in the package, likewise
	Text    string `json:"text"`              // what a reviewer reads, without the file's name
	Details string `json:"details,omitempty"` // what is too long for a line
	Bytes   int64  `json:"bytes,omitempty"`   // that there are more, or fewer

	small  bool   // a few bytes
	marked string // Text with a NUL on both sides of names
}

// Small reports whether a change is one of a few bytes alone.
func (c *Change) Small() bool { return c.small }

// Parts returns the text in parts, of which every second one is a name out of files, or several.
func (c *Change) Parts() []string { return strings.Split(c.marked, "\x00") }

// name is what is out of a file, in a text: a name, a path, an error with such in it.
type name string

// The kinds of changes.
const (
	PackageAdded   = "package-added"
	PackageRemoved = "package-removed"
	VersionChanged = "version"
	FileAdded      = "file-added"
	FileRemoved    = "file-removed"
	FileKind       = "file-kind"
	Moved          = "moved"
	Mode           = "mode"
	LinkChanged    = "link"
	DriverLink     = "driver-link"
	Stub           = "stub"
	NotFound       = "not-found"
	OtherPackage   = "other-package"
	CodeGone       = "gpu-code-gone"
	CodeNew        = "gpu-code-new"
	CodeBytes      = "gpu-code-bytes"
	CUDAMajor      = "cuda-major"
	Refers         = "refers"
	RunPath        = "run-path"
	Needs          = "needed"
	Opened         = "opened"
	VersionNeeded  = "version-needed"
	Flags          = "flags"
	Identity       = "identity"
	Note           = "resolution-note"
	Size           = "size"
)

// Kinds are the kinds of changes and what they are called in a summary, in the order in which they are told.
var Kinds = []struct{ ID, Words string }{
	{PackageAdded, "packages that are new"}, {PackageRemoved, "packages that are gone"},
	{VersionChanged, "other versions"},
	{DriverLink, "driver links"}, {Stub, "stubs"}, {NotFound, "libraries found or not"},
	{OtherPackage, "libraries from another package"},
	{CodeGone, "GPUs without their code"}, {CodeNew, "GPUs with new code"}, {CodeBytes, "sizes of GPU code"},
	{CUDAMajor, "CUDA versions in a process"},
	{Refers, "references"}, {FileAdded, "files that are new"}, {FileRemoved, "files that are gone"},
	{FileKind, "files of another kind"}, {Moved, "directories with another name"}, {Mode, "modes"},
	{LinkChanged, "symbolic links"},
	{RunPath, "run paths"}, {Needs, "needed libraries"}, {Opened, "libraries opened by name"},
	{VersionNeeded, "versions needed of other libraries"}, {Flags, "flags"},
	{Identity, "names and interpreters"},
	{Note, "resolution notes"}, {Size, "sizes"},
}

// rank is the place of a kind among [Kinds].
func rank(kind string) int {
	return slices.IndexFunc(Kinds, func(k struct{ ID, Words string }) bool { return k.ID == kind })
}

// little is how many bytes more or fewer are small.
const little = 1e6

// comparison is two documents that are compared.
type comparison struct {
	all      []Change
	gpus     []string // that both have asked for
	versions map[[2]string]*version
}

// version is what has another version of a package.
type version struct {
	itself     bool
	files      map[string]bool // that load from it
	references map[string]bool // packages that refer to it
}

// Compare returns what differs between two documents, in the order in which it is told: by package, then by kind.
func Compare(a, b *Document) []Change {
	c := &comparison{versions: map[[2]string]*version{}}
	for _, gpu := range a.GPUs {
		if slices.Contains(b.GPUs, gpu) {
			c.gpus = append(c.gpus, gpu)
		}
	}
	files := func(d *Document) map[string][]*File {
		of, at := map[string][]*File{}, map[[2]string]*File{}
		for _, f := range d.Files {
			if first := at[[2]string{f.Package, f.SameAs}]; f.SameAs != "" && first != nil {
				whole := *first
				if whole.Path = f.Path; f.Loads != nil || f.Opens != nil {
					whole.Loads, whole.Opens, whole.Absent, whole.Stubs, whole.CUDA, whole.Stops = f.Loads, f.Opens,
						f.Absent, f.Stubs, f.CUDA, f.Stops
				}
				f = &whole
			}
			of[f.Package], at[[2]string{f.Package, f.Path}] = append(of[f.Package], f), f
		}
		return of
	}
	before, after := files(a), files(b)
	for _, p := range paired(a.Packages, b.Packages) {
		switch {
		case p.a == nil:
			c.add(PackageAdded, p.b.Name, "", p.b.Bytes, "is new: %s, %s of GPU code",
				gpucode.Megabytes(uint64(p.b.Bytes)), gpucode.Megabytes(p.b.GPU.Bytes))
		case p.b == nil:
			c.add(PackageRemoved, p.a.Name, "", -p.a.Bytes, "is gone: it was %s, %s of GPU code",
				gpucode.Megabytes(uint64(p.a.Bytes)), gpucode.Megabytes(p.a.GPU.Bytes))
		default:
			c.packages(p.a, p.b, before[p.a.Path], after[p.b.Path])
		}
	}
	for _, pair := range sortedPairs(c.versions) {
		v := c.versions[pair]
		var of []string
		if v.itself {
			of = append(of, "compared here")
		}
		if n := len(v.files); n > 0 {
			of = append(of, "loaded by "+remedy.Count(n, "file"))
		}
		if n := len(v.references); n > 0 {
			of = append(of, "referred to by "+remedy.Count(n, "package"))
		}
		c.add(VersionChanged, "", "", 0, "%s → %s: %s", name(pair[0]), name(pair[1]), strings.Join(of, ", "))
	}
	slices.SortStableFunc(c.all, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.Package, y.Package), cmp.Compare(rank(x.Kind), rank(y.Kind)))
	})
	return c.all
}

func (c *comparison) add(kind, pkg, file string, bytes int64, text string, args ...any) {
	change := Change{Kind: kind, Package: pkg, File: file, Bytes: bytes, Text: fmt.Sprintf(text, args...)}
	for i := range args {
		if n, ok := args[i].(name); ok {
			args[i] = "\x00" + strings.ReplaceAll(string(n), "\x00", "\\0") + "\x00"
		}
	}
	change.marked = fmt.Sprintf(text, args...)
	c.all = append(c.all, change)
}

// version notes that something has another version of a package.
func (c *comparison) version(before, after string) *version {
	v := c.versions[[2]string{before, after}]
	if v == nil {
		v = &version{files: map[string]bool{}, references: map[string]bool{}}
		c.versions[[2]string{before, after}] = v
	}
	return v
}

// packages compares two packages.
func (c *comparison) packages(a, b *Package, before, after []*File) {
	if a.Name != b.Name && NameOf(a.Path) != a.Path && NameOf(b.Path) != b.Path {
		c.version(a.Name, b.Name).itself = true
	}
	pairs := pairedPaths(before, after, func(f *File) string { return f.Path })
	c.moved(b.Name, pairs)
	for _, p := range pairs {
		switch {
		case p.a == nil:
			c.add(FileAdded, b.Name, p.b.Path, p.b.Size, "is new (%s, %s)", p.b.Kind, gpucode.Megabytes(uint64(p.b.Size)))
			(&files{comparison: c, a: &File{Package: a.Path}, b: p.b, pkg: b.Name}).libraries(nil, p.b.Loads, false)
		case p.b == nil:
			c.add(FileRemoved, b.Name, p.a.Path, -p.a.Size, "is gone (%s, %s)", p.a.Kind, gpucode.Megabytes(uint64(p.a.Size)))
		default:
			(&files{comparison: c, a: p.a, b: p.b, pkg: b.Name}).compare()
		}
	}
	c.links(a, b, pairs)
	c.needsVersions(b.Name, before, after)
	c.references(a, b, before, after)
	if more := b.Bytes - a.Bytes; more != 0 || a.Files != b.Files {
		count := ""
		if a.Files != b.Files {
			count = fmt.Sprintf(", %s now, not %d", remedy.Count(b.Files, "file"), a.Files)
		}
		c.add(Size, b.Name, "", more, "%s%s", grown(a.Bytes, b.Bytes, " in all"), count)
	}
}

// moved tells of files that are in another directory than before, once for each pair of directories, and of files that
// are called otherwise, of several in a way that a line holds them.
func (c *comparison) moved(pkg string, pairs []pair[File]) {
	dirs := map[[2]string]int{}
	var renamed []pair[File]
	for _, p := range pairs {
		if p.a == nil || p.b == nil {
			continue
		}
		x, y := strings.Split(path.Dir(p.a.Path), "/"), strings.Split(path.Dir(p.b.Path), "/")
		for len(x) > 1 && len(y) > 1 && x[len(x)-1] == y[len(y)-1] {
			x, y = x[:len(x)-1], y[:len(y)-1]
		}
		if !slices.Equal(x, y) {
			dirs[[2]string{strings.Join(x, "/"), strings.Join(y, "/")}]++
		}
		if path.Base(p.a.Path) != path.Base(p.b.Path) {
			renamed = append(renamed, p)
		}
	}
	for _, dir := range sortedPairs(dirs) {
		c.add(Moved, pkg, "", 0, "%s → %s: %s", name(dir[0]), name(dir[1]), remedy.Count(dirs[dir], "file"))
	}
	for _, p := range renamed {
		if was := path.Base(p.a.Path); len(renamed) > 3 {
			c.add(Identity, pkg, p.b.Path, 0, "has other numbers in its name")
			c.all[len(c.all)-1].Details = "was called " + was
		} else {
			c.add(Identity, pkg, p.b.Path, 0, "was called %s", name(was))
		}
	}
}

// sortedPairs are the keys of a map, in order.
func sortedPairs[V any](of map[[2]string]V) [][2]string {
	return slices.SortedFunc(maps.Keys(of), func(x, y [2]string) int { return slices.Compare(x[:], y[:]) })
}

// links tells of symbolic links that are gone, new, or lead to another file. pairs are the files.
func (c *comparison) links(a, b *Package, pairs []pair[File]) {
	was, is := map[string]bool{}, map[string]string{} // files before; and now, with what they were
	for _, p := range pairs {
		if p.a != nil {
			was[p.a.Path] = true
		}
		if p.b != nil {
			if is[p.b.Path] = ""; p.a != nil {
				is[p.b.Path] = p.a.Path
			}
		}
	}
	place := (&files{a: &File{Package: a.Path}, b: &File{Package: b.Path}}).place
	for _, p := range pairedPaths(pointers(a.Links), pointers(b.Links), func(l *Link) string { return l.Path }) {
		switch {
		case p.a == nil:
			if !was[p.b.Path] {
				c.add(LinkChanged, b.Name, p.b.Path, 0, "is new: a link to %s", name(shown(p.b.To)))
			}
		case p.b == nil:
			if _, file := is[p.a.Path]; !file {
				c.add(LinkChanged, b.Name, p.a.Path, 0, "is gone: a link to %s", name(shown(p.a.To)))
			}
		case place(p.a.To) != place(p.b.To) && is[p.b.To] != p.a.To:
			c.add(LinkChanged, b.Name, p.b.Path, 0, "leads to %s, not to %s", name(shown(p.b.To)), name(shown(p.a.To)))
		case p.a.Path != p.b.Path:
			c.add(LinkChanged, b.Name, p.b.Path, 0, "is a link that was called %s", name(p.a.Path))
		}
	}
}

// needsVersions compares the highest versions that packages need of libraries that do not come with them.
func (c *comparison) needsVersions(pkg string, before, after []*File) {
	type need struct {
		number string
		by     []string // paths
	}
	highest := func(all []*File) map[string]*need {
		of := map[string]*need{}
		for _, f := range all {
			for _, v := range f.Versions {
				family, number := splitVersion(v)
				switch n := of[family]; {
				case n == nil, natural(n.number, number) < 0:
					of[family] = &need{number, []string{f.Path}}
				case n.number == number:
					n.by = append(n.by, f.Path)
				}
			}
		}
		return of
	}
	a, b := highest(before), highest(after)
	called := func(family string, n *need) name { return name(strings.TrimSpace(family + " " + n.number)) }
	for _, family := range slices.Sorted(maps.Keys(b)) {
		was, is := a[family], b[family]
		by := name(is.by[0])
		if n := len(is.by) - 1; n > 0 {
			by += name(fmt.Sprintf(" and %d more", n))
		}
		if was == nil {
			c.add(VersionNeeded, pkg, "", 0, "now needs %s: %s", called(family, is), by)
		} else if was.number != is.number {
			c.add(VersionNeeded, pkg, "", 0, "needs %s, not %s: %s", called(family, is), name(was.number), by)
		}
	}
	for _, family := range slices.Sorted(maps.Keys(a)) {
		if b[family] == nil {
			c.add(VersionNeeded, pkg, "", 0, "no longer needs %s", called(family, a[family]))
		}
	}
}

// grown says how many bytes more there are, of what, in one unit.
func grown(a, b int64, what string) string {
	unit, of := 1e6, "MB"
	if max(a, b) < 1e6 || max(b-a, a-b) < 1e5 {
		unit, of = 1e3, "kB"
	}
	return fmt.Sprintf("%+.1f %s%s (%.1f → %.1f)", float64(b-a)/unit, of, what, float64(a)/unit, float64(b)/unit)
}

// references compares the store paths that two packages refer to.
func (c *comparison) references(a, b *Package, before, after []*File) {
	list := func(p *Package) map[string][]PackageReference {
		of := map[string][]PackageReference{}
		for _, r := range p.References {
			key := keyOf(NameOf(r.Object))
			of[key] = append(of[key], r)
		}
		return of
	}
	was, is := list(a), list(b)
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if old := was[key]; old != nil {
			if x, y := names(old), names(is[key]); x != y {
				c.version(x, y).references[b.Name] = true
			}
			continue
		}
		for _, r := range is[key] {
			bytes, text := int64(0), ""
			if r.Bytes != nil && *r.Bytes > 0 {
				bytes = *r.Bytes
				text = ", which brings " + gpucode.Megabytes(uint64(bytes)) + " into the closure"
			}
			c.add(Refers, b.Name, "", bytes, "now refers to %s%s: %s", name(called(r.Object)), text,
				name(places(after, r.Object, r.Files)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if is[key] == nil {
			for _, r := range was[key] {
				c.add(Refers, b.Name, "", 0, "no longer refers to %s: %s", name(called(r.Object)),
					name(places(before, r.Object, r.Files)))
			}
		}
	}
}

// called is what a reference is called.
func called(object string) string {
	if object == "" {
		return "directories of the build"
	}
	return NameOf(object)
}

// names are the names of several references, in order.
func names(all []PackageReference) string {
	var out []string
	for _, r := range all {
		out = append(out, NameOf(r.Object))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " and ")
}

// places says which files of a list refer to an object, of n files and links that do, and where in them.
func places(all []*File, object string, n int) string {
	var in []string
	for _, f := range all {
		for _, r := range f.References {
			if r.Object == object {
				if in = append(in, f.Path); len(in) == 1 {
					var where []string
					for _, p := range r.Places {
						where = append(where, string(p))
					}
					in[0] += " (" + strings.Join(where, ", ") + ")"
				}
			}
		}
	}
	switch {
	case len(in) == 0:
		return fmt.Sprintf("%s, none of them ELF", remedy.Count(n, "file"))
	case n > 1:
		return fmt.Sprintf("%s and %d more", in[0], n-1)
	}
	return in[0]
}

// files is a file before and after.
type files struct {
	*comparison
	a, b *File
	pkg  string
}

func (f *files) say(kind, text string, args ...any) {
	f.add(kind, f.pkg, f.b.Path, 0, text, args...)
}

// compare compares the two.
func (f *files) compare() {
	a, b := f.a, f.b
	if a.Kind != b.Kind {
		because := ""
		if b.Error != "" {
			because = ": " + b.Error
		}
		f.say(FileKind, "is now %s, not %s%s", article(b.Kind), article(a.Kind), name(because))
	}
	parts := [][3]string{
		{"soname", a.Soname, b.Soname}, {"machine", a.Machine, b.Machine},
		{"interpreter", a.Interpreter, b.Interpreter}, {"started program", a.Starts, b.Starts},
	}
	if a.Kind == b.Kind {
		sets := maps.Clone(a.Sets)
		maps.Copy(sets, b.Sets)
		for _, variable := range slices.Sorted(maps.Keys(sets)) {
			parts = append(parts, [3]string{"the wrapper's " + variable, a.Sets[variable], b.Sets[variable]})
		}
	}
	for _, part := range parts {
		if f.places(part[1]) != f.places(part[2]) {
			f.say(Identity, "%s %s, not %s", part[0], name(said(part[2])), name(said(part[1])))
		}
	}
	f.mode()
	lost := f.runPath()
	f.needed()
	f.libraries(a.Loads, b.Loads, lost)
	f.libraries(a.Opens, b.Opens, lost)
	f.opened()
	f.process()
	f.gpu()
	f.note()
	if more := b.Size - a.Size; more != 0 {
		f.add(Size, f.pkg, b.Path, more, "%s", grown(a.Size, b.Size, ""))
		f.all[len(f.all)-1].small = max(more, -more) < little
	}
}

func now(what string, is bool) string {
	return map[bool]string{true: what + " now", false: "not " + what + " any more"}[is]
}

// mode compares what modes and headers ask of the kernel and the loader.
func (f *files) mode() {
	if x, y := f.a.Executable, f.b.Executable; x != nil && y != nil && *x != *y {
		f.say(Mode, "is %s", now("executable", *y))
	}
	for _, bit := range []struct {
		a, b bool
		name string
	}{{f.a.SetUID, f.b.SetUID, "setuid"}, {f.a.SetGID, f.b.SetGID, "setgid"}} {
		if bit.a != bit.b {
			f.say(Mode, "is %s", now(bit.name, bit.b))
		}
	}
	without := func(x, y []string) []string {
		return slices.DeleteFunc(slices.Clone(x), func(flag string) bool { return slices.Contains(y, flag) })
	}
	if now := without(f.b.Flags, f.a.Flags); len(now) > 0 {
		f.say(Flags, "now has %s", remedy.List(now))
	}
	if no := without(f.a.Flags, f.b.Flags); len(no) > 0 {
		f.say(Flags, "no longer has %s", remedy.List(no))
	}
}

func article(k Kind) string {
	if strings.ContainsRune("aeio", rune(k[0])) {
		return "an " + string(k)
	}
	return map[bool]string{true: string(k), false: "a " + string(k)}[k == GPUCode || k == Malformed || k == Unread]
}

func said(text string) string {
	if text == "" {
		return "none"
	}
	return shown(text)
}

// shown is a path, or a list of them, as people read it: without the hashes of stores.
func shown(text string) string {
	entries := strings.Split(text, ":")
	for i, e := range entries {
		if object := objectOf(e); object != "" {
			entries[i] = NameOf(object) + e[len(object):]
		}
	}
	return strings.Join(entries, ":")
}

// place is what a path is compared by: without the hash and the version of a store path.
func (f *files) place(p string) string {
	object := objectOf(p)
	switch object {
	case "":
		return p
	case f.a.Package, f.b.Package:
		return "." + p[len(object):]
	}
	return keyOf(NameOf(object)) + p[len(object):]
}

// places is place for each path of a list.
func (f *files) places(list string) string {
	paths := strings.Split(list, ":")
	for i, p := range paths {
		paths[i] = f.place(p)
	}
	return strings.Join(paths, ":")
}

// runPath compares the run paths, and reports whether the file has lost the driver link.
func (f *files) runPath() (lost bool) {
	isLink := func(e string) bool { return runpath.Key(e) == driver.Link || runpath.Key(e) == driver.Link32 }
	a, b := f.a.RunPath, f.b.RunPath
	had, has := slices.ContainsFunc(a, isLink), slices.ContainsFunc(b, isLink)
	if lost = had && !has; lost {
		f.say(DriverLink, "lost the driver link")
	} else if has && !had {
		f.say(DriverLink, "has the driver link now")
	}
	stubs := driver.StubDirs{}
	var said []string
	differ := func(x, y []string, words, stub string) {
		for _, e := range x {
			switch place := f.place(e); {
			case isLink(e), slices.ContainsFunc(y, func(o string) bool { return f.place(o) == place }),
				slices.Contains(said, words+place):
			case stubs.Contains(e):
				said = append(said, words+place)
				f.say(Stub, stub, name(shown(e)))
			default:
				said = append(said, words+place)
				f.say(RunPath, words, name(loader.EntryText(shown(e))))
			}
		}
	}
	n := len(f.all)
	differ(b, a, "run path: now has %s", "its run path has a directory of stubs now: %s")
	differ(a, b, "run path: no longer has %s", "its run path has a directory of stubs no more: %s")
	order := func(l []string) (out []string) {
		for _, e := range l {
			out = append(out, f.place(e))
		}
		return out
	}
	if n == len(f.all) && had == has && !slices.Equal(order(a), order(b)) {
		f.say(RunPath, "the entries of its run path are in another order: %s", name(shown(strings.Join(b, ":"))))
	}
	if f.a.Tag != f.b.Tag && f.a.Tag != "" && f.b.Tag != "" {
		f.say(RunPath, "its run path is a %s now, not a %s", f.b.Tag, f.a.Tag)
	}
	return lost
}

// needed compares what is needed, and in which order.
func (f *files) needed() {
	a, b := f.a.Needed, f.b.Needed
	f.names(Needs, a, b, "needs %s, not %s", "now needs %s", "no longer needs %s")
	// What is there in both, or stands in the other's place with another number.
	common := func(x, y []string) (all []string) {
		for _, n := range x {
			if slices.Contains(y, n) {
				all = append(all, n)
			} else if slices.ContainsFunc(y, func(m string) bool { return general(m) == general(n) && !slices.Contains(x, m) }) {
				all = append(all, general(n))
			}
		}
		return all
	}
	if !slices.Equal(common(a, b), common(b, a)) {
		f.say(Needs, "needs libraries in another order")
		f.all[len(f.all)-1].Details = strings.Join(b, " ") + ", not " + strings.Join(a, " ")
	}
}

// names compares two lists of names, of which those that differ in numbers alone are told together.
func (f *files) names(kind string, a, b []string, other, added, gone string) {
	var now, no []string
	for _, p := range pairedPaths(pointers(a), pointers(b), func(t *string) string { return *t }) {
		switch {
		case p.a == nil:
			now = append(now, *p.b)
		case p.b == nil:
			no = append(no, *p.a)
		case *p.a != *p.b:
			f.say(kind, other, name(*p.b), name(*p.a))
		}
	}
	if len(now) > 0 {
		f.say(kind, added, name(remedy.List(now)))
	}
	if len(no) > 0 {
		f.say(kind, gone, name(remedy.List(no)))
	}
}

// pointers are to the elements of a list.
func pointers[T any](all []T) []*T {
	out := make([]*T, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}

// opened compares which names are opened: what a note says; and what strings in the file are, a guess, for a compiler may
// split them.
func (f *files) opened() {
	of := func(all []Library, note bool) (names []string) {
		for _, l := range all {
			if (l.Cause == string(loader.DlopenNote)) == note {
				names = append(names, l.Name)
			}
		}
		return names
	}
	f.names(Opened, of(f.a.Opens, true), of(f.b.Opens, true), "opens %s by name, not %s", "now opens %s by name",
		"no longer opens %s by name")
	f.names(Opened, of(f.a.Opens, false), of(f.b.Opens, false), "names %s, not %s, and may open it", "now names %s, and may open it",
		"no longer names %s, which it may have opened")
}

// libraries compares what names that both ask for resolve to, and says what is wrong with one that is asked for now.
func (f *files) libraries(a, b []Library, lostLink bool) {
	var absent []string
	for _, p := range pairedPaths(pointers(a), pointers(b), func(l *Library) string { return l.Name }) {
		if p.b == nil {
			continue
		}
		is, how := *p.b, ""
		if is.Cause != "" && !loader.Cause(is.Cause).Certain() {
			how = map[bool]string{true: ", which it opens by name,", false: ", which it names,"}[is.Cause == string(loader.DlopenNote)]
		}
		switch {
		case p.a != nil:
			f.library(*p.a, is, how, lostLink)
		case is.Driver == string(explain.FromStub):
			f.library(Library{}, is, how, lostLink)
		case how == "" && (is.Driver == string(explain.FromNowhere) || is.Driver == "" && !is.found()):
			absent = append(absent, is.Name)
		}
	}
	if len(absent) > 0 {
		f.say(NotFound, "does not find %s", name(remedy.List(absent)))
	}
}

// found reports whether there is a file that is loaded.
func (l *Library) found() bool { return l.Rule != string(loader.NotFound) && l.Error == "" }

func (f *files) library(was, is Library, how string, lostLink bool) {
	stub := string(explain.FromStub)
	switch {
	case is.Driver == stub && was.Driver != stub:
		f.say(Stub, "loads a stub in place of %s%s", name(is.Name), how)
		return
	case was.Driver == stub && is.Driver != stub:
		f.say(Stub, "%s%s is no longer a stub", name(is.Name), how)
		return
	case was.Driver != is.Driver:
		if is.Driver == string(explain.FromNowhere) && !lostLink {
			f.say(NotFound, "no longer finds %s%s", name(is.Name), how)
		} else if is.Driver != string(explain.FromNowhere) && was.Driver != string(explain.FromNowhere) {
			f.say(OtherPackage, "takes the driver's %s%s from another place: %s, not %s", name(is.Name), how, is.Driver, was.Driver)
		}
		return
	case is.Driver == string(explain.FromDriver), is.Driver == string(explain.FromNowhere):
		return
	case was.found() && !is.found():
		why := ""
		if is.Error != "" {
			why = ": " + is.Error
		}
		f.say(NotFound, "no longer finds %s%s%s", name(is.Name), strings.TrimSuffix(how, ","), name(why))
		return
	case is.found() && !was.found():
		f.say(NotFound, "now finds %s%s%s", name(is.Name), strings.TrimSuffix(how, ","), name(in(is)))
		return
	case !is.found():
		return
	}
	x, y := from(was), from(is)
	switch outside := strings.HasPrefix(x, "/") || strings.HasPrefix(y, "/"); {
	case x != y && outside:
		f.say(OtherPackage, "loads %s%s from another place: %s, not %s", name(is.Name), how, name(here(y)), name(here(x)))
	case keyOf(x) != keyOf(y):
		f.say(OtherPackage, "loads %s%s from another package: %s, not %s", name(is.Name), how, name(here(y)), name(here(x)))
	case x != y:
		f.version(x, y).files[f.pkg+"\x00"+f.b.Path] = true
	}
}

// from is what a library is in: the name of a package, "" for the file's own, or a directory that is in none.
func from(l Library) string {
	at := cmp.Or(l.Resolved, pathOf(l))
	if object := objectOf(at); object != "" {
		return NameOf(object)
	}
	if strings.HasPrefix(at, "/") {
		return path.Dir(at)
	}
	return ""
}

func pathOf(l Library) string {
	if l.Path == nil {
		return ""
	}
	return *l.Path
}

func here(pkg string) string { return cmp.Or(pkg, "its own package") }

// in says what package a library is in.
func in(l Library) string {
	if where := from(l); where != "" {
		return " in " + where
	}
	return ""
}

// process compares what is in the processes.
func (f *files) process() {
	f.names(NotFound, f.a.Absent, f.b.Absent, "a library that it loads does not find %s, and before not %s",
		"a library that it loads no longer finds %s", "no library that it loads lacks %s any more")
	direct := func(all []Library, at string) bool {
		return slices.ContainsFunc(all, func(l Library) bool {
			return l.Driver == string(explain.FromStub) && pathOf(l) == at
		})
	}
	for _, at := range f.b.Stubs {
		if !slices.ContainsFunc(f.a.Stubs, func(o string) bool { return f.place(o) == f.place(at) }) &&
			!direct(f.b.Loads, at) && !direct(f.b.Opens, at) {
			f.say(Stub, "has a stub in its process now: %s", name(shown(at)))
		}
	}
	if x, y := strings.Join(f.a.CUDA, " and "), strings.Join(f.b.CUDA, " and "); x != y {
		switch {
		case x == "":
			f.say(CUDAMajor, "now has CUDA %s in its process", y)
		case y == "":
			f.say(CUDAMajor, "no longer has CUDA %s in its process", x)
		default:
			f.say(CUDAMajor, "has CUDA %s in its process, not %s", y, x)
		}
	}
	stops, begins := "does not start any more: %s", "starts now"
	if f.b.Kind == Shared {
		stops, begins = "cannot be loaded any more: %s", "can be loaded now"
	}
	switch a, b := f.a.Stops, f.b.Stops; {
	case a == "" && b != "":
		f.say(NotFound, stops, name(b))
	case a != "" && b == "":
		f.say(NotFound, "%s", begins)
	}
}

// gpu compares the code for GPUs.
func (f *files) gpu() {
	var a, b GPU
	if f.a.GPU != nil {
		a = *f.a.GPU
	}
	if f.b.GPU != nil {
		b = *f.b.GPU
	}
	for _, said := range codeChanges(&a, &b, f.gpus) {
		f.say(said[0], "%s", said[1])
	}
	if !slices.Equal(a.Thinned, b.Thinned) {
		f.say(CodeBytes, "thinned for %s, not for %s", cmp.Or(strings.Join(b.Thinned, " and "), "no GPU"),
			cmp.Or(strings.Join(a.Thinned, " and "), "any"))
	}
	if more := int64(b.Bytes) - int64(a.Bytes); more != 0 {
		f.add(CodeBytes, f.pkg, f.b.Path, more, "%s", grown(int64(a.Bytes), int64(b.Bytes), " GPU code"))
		f.all[len(f.all)-1].small = max(more, -more) < little
	}
}

// note compares the resolution notes.
func (f *files) note() {
	text := func(m *File) string {
		var b strings.Builder
		for _, e := range m.ResolutionNote {
			b.WriteString(e.Name)
			for _, p := range e.Places {
				t := string(p)
				b.WriteString(" " + t[:min(1, len(t))] + f.place(t[min(1, len(t)):]))
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	switch a, b := f.a.ResolutionNote, f.b.ResolutionNote; {
	case a == nil && b != nil:
		f.say(Note, "has a resolution note now")
	case a != nil && b == nil:
		f.say(Note, "lost its resolution note")
	case text(f.a) != text(f.b):
		f.say(Note, "its resolution note says otherwise")
	}
	if f.a.NoteError == "" && f.b.NoteError != "" {
		f.say(Note, "its resolution note is not read: %s", name(f.b.NoteError))
	}
}
