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
	Bytes   int64  `json:"bytes,omitempty"`   // that there are more, or fewer

	small bool // a few bytes
}

// Small reports whether a change is one of a few bytes alone.
func (c *Change) Small() bool { return c.small }

// The kinds of changes.
const (
	PackageAdded   = "package-added"
	PackageRemoved = "package-removed"
	VersionChanged = "version"
	FileAdded      = "file-added"
	FileRemoved    = "file-removed"
	FileKind       = "file-kind"
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
	Identity       = "identity"
	Note           = "resolution-note"
	Size           = "size"
)

// Kinds are the kinds of changes and what they are called in a summary, in the order in which they are told.
var Kinds = []struct{ ID, Words string }{
	{PackageAdded, "packages that are new"}, {PackageRemoved, "packages that are gone"},
	{VersionChanged, "other versions"},
	{DriverLink, "driver links"}, {Stub, "stubs"}, {NotFound, "libraries found no more, or now"},
	{OtherPackage, "libraries from another package"},
	{CodeGone, "GPUs without their code"}, {CodeNew, "GPUs with new code"}, {CodeBytes, "sizes of GPU code"},
	{CUDAMajor, "CUDA versions in a process"},
	{Refers, "references"}, {FileAdded, "files that are new"}, {FileRemoved, "files that are gone"},
	{FileKind, "files of another kind"},
	{RunPath, "run paths"}, {Needs, "needed libraries"}, {Opened, "libraries opened by name"},
	{Identity, "names, sonames, interpreters, machines"},
	{Note, "resolution notes"}, {Size, "sizes"},
}

// Rank is the place of a kind among [Kinds].
func Rank(kind string) int {
	return slices.IndexFunc(Kinds, func(k struct{ ID, Words string }) bool { return k.ID == kind })
}

// little is how many bytes more or fewer are small.
const little = 1e6

// comparison is two documents that are compared.
type comparison struct {
	all      []Change
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
			c.add(PackageAdded, p.b.Name, "", int64(p.b.Bytes), "is new: %s, %s of GPU code",
				gpucode.Megabytes(uint64(p.b.Bytes)), gpucode.Megabytes(p.b.GPU.Bytes))
		case p.b == nil:
			c.add(PackageRemoved, p.a.Name, "", -int64(p.a.Bytes), "is gone: it was %s, %s of GPU code",
				gpucode.Megabytes(uint64(p.a.Bytes)), gpucode.Megabytes(p.a.GPU.Bytes))
		default:
			c.packages(p.a, p.b, before[p.a.Path], after[p.b.Path])
		}
	}
	for _, pair := range slices.SortedFunc(maps.Keys(c.versions), func(x, y [2]string) int {
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
	}) {
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
		c.add(VersionChanged, "", "", 0, "%s → %s: %s", pair[0], pair[1], strings.Join(of, ", "))
	}
	slices.SortStableFunc(c.all, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.Package, y.Package), cmp.Compare(Rank(x.Kind), Rank(y.Kind)))
	})
	return c.all
}

func (c *comparison) add(kind, pkg, file string, bytes int64, text string, args ...any) {
	c.all = append(c.all, Change{Kind: kind, Package: pkg, File: file, Bytes: bytes, Text: fmt.Sprintf(text, args...)})
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
	for _, p := range pairedFiles(before, after) {
		switch {
		case p.a == nil:
			c.add(FileAdded, b.Name, p.b.Path, p.b.Size, "is new (%s, %s)", p.b.Kind, gpucode.Megabytes(uint64(p.b.Size)))
		case p.b == nil:
			c.add(FileRemoved, b.Name, p.a.Path, -p.a.Size, "is gone (%s, %s)", p.a.Kind, gpucode.Megabytes(uint64(p.a.Size)))
		default:
			(&files{comparison: c, a: p.a, b: p.b, pkg: b.Name}).compare()
		}
	}
	c.references(a, b, before, after)
	if more := b.Bytes - a.Bytes; more != 0 || a.Files != b.Files {
		c.add(Size, b.Name, "", more, "%s in all (%s → %s)%s", Signed(more), gpucode.Megabytes(uint64(a.Bytes)),
			gpucode.Megabytes(uint64(b.Bytes)), map[bool]string{true: fmt.Sprintf(", %s now, not %d",
				remedy.Count(b.Files, "file"), a.Files)}[a.Files != b.Files])
	}
}

// Signed writes how many bytes more there are.
func Signed(n int64) string {
	if n < 0 {
		return "-" + gpucode.Megabytes(uint64(-n))
	}
	return "+" + gpucode.Megabytes(uint64(n))
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
			bytes, text := int64(0), "now refers to "+called(r.Object)
			if r.Bytes != nil && *r.Bytes > 0 {
				bytes = *r.Bytes
				text += ", which brings " + gpucode.Megabytes(uint64(bytes)) + " into the closure"
			}
			c.add(Refers, b.Name, "", bytes, "%s%s", text, places(after, r.Object, r.Files))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if is[key] == nil {
			for _, r := range was[key] {
				c.add(Refers, b.Name, "", 0, "no longer refers to %s%s", called(r.Object), places(before, r.Object, r.Files))
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
		return fmt.Sprintf(": %s, none of them ELF", remedy.Count(n, "file"))
	case n > 1:
		return fmt.Sprintf(": %s and %d more", in[0], n-1)
	}
	return ": " + in[0]
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
		f.say(FileKind, "is now %s, not %s%s", article(b.Kind), article(a.Kind), because)
	}
	if x, y := path.Base(a.Path), path.Base(b.Path); x != y {
		f.say(Identity, "was called %s", x)
	}
	for _, part := range [][3]string{
		{"soname", a.Soname, b.Soname}, {"machine", a.Machine, b.Machine},
		{"interpreter", a.Interpreter, b.Interpreter}, {"started program", a.Starts, b.Starts},
	} {
		if f.place(part[1]) != f.place(part[2]) {
			f.say(Identity, "%s %s, not %s", part[0], said(part[2]), said(part[1]))
		}
	}
	lost := f.runPath()
	f.needed()
	f.libraries(a.Loads, b.Loads, "", lost)
	f.libraries(a.Opens, b.Opens, ", which it opens by name,", lost)
	f.opened()
	f.process()
	f.gpu()
	f.note()
	if more := b.Size - a.Size; more != 0 {
		f.add(Size, f.pkg, b.Path, more, "%s (%s → %s)", Signed(more), gpucode.Megabytes(uint64(a.Size)),
			gpucode.Megabytes(uint64(b.Size)))
		f.all[len(f.all)-1].small = max(more, -more) < little
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
				f.say(Stub, stub, shown(e))
			default:
				said = append(said, words+place)
				f.say(RunPath, words, loader.EntryText(shown(e)))
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
		f.say(RunPath, "the entries of its run path are in another order: %s", shown(strings.Join(b, ":")))
	}
	if f.a.Tag != f.b.Tag && f.a.Tag != "" && f.b.Tag != "" {
		f.say(RunPath, "its run path is a %s now, not a %s", f.b.Tag, f.a.Tag)
	}
	return lost
}

// needed compares what is needed.
func (f *files) needed() {
	with := match(texts(f.a.Needed), texts(f.b.Needed), func(t *string) string { return *t },
		func(t *string) string { return general(*t) })
	var now, no []string
	for _, p := range with {
		switch {
		case p.a == nil:
			now = append(now, *p.b)
		case p.b == nil:
			no = append(no, *p.a)
		case *p.a != *p.b:
			f.say(Needs, "needs %s, not %s", *p.b, *p.a)
		}
	}
	if len(now) > 0 {
		f.say(Needs, "now needs %s", remedy.List(now))
	}
	if len(no) > 0 {
		f.say(Needs, "no longer needs %s", remedy.List(no))
	}
}

func texts(all []string) []*string {
	out := make([]*string, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}

// opened compares which names are opened.
func (f *files) opened() {
	has := func(all []Library, name string) bool {
		return slices.ContainsFunc(all, func(l Library) bool { return general(l.Name) == general(name) })
	}
	for _, l := range f.b.Opens {
		if !has(f.a.Opens, l.Name) {
			f.say(Opened, "now may open %s by name", l.Name)
		}
	}
	for _, l := range f.a.Opens {
		if !has(f.b.Opens, l.Name) {
			f.say(Opened, "no longer opens %s by name", l.Name)
		}
	}
}

// libraries compares what names that both ask for resolve to.
func (f *files) libraries(a, b []Library, how string, lostLink bool) {
	for _, is := range b {
		i := slices.IndexFunc(a, func(l Library) bool { return l.Name == is.Name })
		if i < 0 {
			i = slices.IndexFunc(a, func(l Library) bool { return general(l.Name) == general(is.Name) })
		}
		if i >= 0 {
			f.library(a[i], is, how, lostLink)
		}
	}
}

func (f *files) library(was, is Library, how string, lostLink bool) {
	stub := string(explain.FromStub)
	found := func(l Library) bool { return l.Rule != string(loader.NotFound) && l.Error == "" }
	switch {
	case is.Driver == stub && was.Driver != stub:
		f.say(Stub, "loads a stub in place of %s%s", is.Name, how)
		return
	case was.Driver == stub && is.Driver != stub:
		f.say(Stub, "%s%s is no stub any more", is.Name, how)
		return
	case was.Driver != is.Driver:
		if is.Driver == string(explain.FromNowhere) && !lostLink {
			f.say(NotFound, "no longer finds %s%s", is.Name, how)
		} else if is.Driver != string(explain.FromNowhere) && was.Driver != string(explain.FromNowhere) {
			f.say(OtherPackage, "takes the driver's %s%s from another place: %s, not %s", is.Name, how, is.Driver, was.Driver)
		}
		return
	case is.Driver == string(explain.FromDriver), is.Driver == string(explain.FromNowhere):
		return
	case found(was) && !found(is):
		why := ""
		if is.Error != "" {
			why = ": " + is.Error
		}
		f.say(NotFound, "no longer finds %s%s%s", is.Name, strings.TrimSuffix(how, ","), why)
		return
	case found(is) && !found(was):
		f.say(NotFound, "now finds %s%s%s", is.Name, strings.TrimSuffix(how, ","), in(is))
		return
	case !found(is):
		return
	}
	x, y := from(was), from(is)
	switch outside := strings.HasPrefix(x, "/") || strings.HasPrefix(y, "/"); {
	case x != y && outside:
		f.say(OtherPackage, "loads %s%s from another place: %s, not %s", is.Name, how, here(y), here(x))
	case keyOf(x) != keyOf(y):
		f.say(OtherPackage, "loads %s%s from another package: %s, not %s", is.Name, how, here(y), here(x))
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
	differ := func(a, b []string, by func(string) string, kind, words string) {
		for _, x := range b {
			if !slices.ContainsFunc(a, func(y string) bool { return by(y) == by(x) }) {
				f.say(kind, words, shown(x))
			}
		}
	}
	differ(f.a.Absent, f.b.Absent, general, NotFound, "a library that it loads no longer finds %s")
	differ(f.b.Absent, f.a.Absent, general, NotFound,
		"%s, which a library that it loads needs, is found now, or needed no more")
	direct := func(all []Library, at string) bool {
		return slices.ContainsFunc(all, func(l Library) bool {
			return l.Driver == string(explain.FromStub) && pathOf(l) == at
		})
	}
	for _, at := range f.b.Stubs {
		if !slices.ContainsFunc(f.a.Stubs, func(o string) bool { return f.place(o) == f.place(at) }) &&
			!direct(f.b.Loads, at) && !direct(f.b.Opens, at) {
			f.say(Stub, "has a stub in its process now: %s", shown(at))
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
	if (f.a.Stops == "") != (f.b.Stops == "") {
		if f.b.Stops != "" {
			f.say(NotFound, "does not start any more: %s", f.b.Stops)
		} else {
			f.say(NotFound, "starts now")
		}
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
	for _, said := range codeChanges(a.Code, b.Code) {
		f.say(said[0], "%s", said[1])
	}
	if !slices.Equal(a.Thinned, b.Thinned) {
		f.say(CodeBytes, "thinned for %s, not for %s", cmp.Or(strings.Join(b.Thinned, " and "), "no GPU"),
			cmp.Or(strings.Join(a.Thinned, " and "), "any"))
	}
	if more := int64(b.Bytes) - int64(a.Bytes); more != 0 {
		f.add(CodeBytes, f.pkg, f.b.Path, more, "%s GPU code (%s → %s)", Signed(more), gpucode.Megabytes(a.Bytes),
			gpucode.Megabytes(b.Bytes))
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
		f.say(Note, "its resolution note is not read: %s", f.b.NoteError)
	}
}
