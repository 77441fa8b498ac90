package explain

import (
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/driver/stubcode"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/remedy/change"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// Layout says where the driver's libraries are expected.
type Layout struct {
	DriverLink string // "": the one that is right for the file's machine
	Compat     string
	StubDirs   driver.StubDirs
	Assumed    string // the directory that stands for the driver link, "" for none
	// CompatVerdict says what a compat package does beside the host's driver, given the path of its libcuda.so.1 on
	// this machine. It returns false if no driver is known. nil: nobody can say.
	CompatVerdict func(file string) (forwardcompat.Verdict, bool)
	// Unfit says why a libcuda.so.1 on this machine, of no compat package, does not work with the host's driver; ""
	// if it does. nil: nobody can say.
	Unfit func(file string) string
	// Nix: the files are a Nix package's, wherever they are. Files in a store always are, and are changed where they
	// are built.
	Nix bool
}

// Link returns the driver link for files of a machine.
func (l *Layout) Link(m elf.Machine) string {
	if l.DriverLink != "" {
		return l.DriverLink
	}
	return driver.LinkFor(m)
}

// isCompat reports whether a directory, named by an entry of a run path of the load, is a compat directory.
func (l *Layout) isCompat(s *loader.Load, entry, dir string) bool {
	return driver.CompatDirs{Named: l.Compat}.Contains(entry, func(name string) bool { return s.Holds(dir, name) })
}

// Origin says whose copy of a driver library is loaded.
type Origin string

// The origins.
const (
	FromCompat  Origin = "compat"
	FromDriver  Origin = "driver"
	FromStub    Origin = "stub"
	FromNowhere Origin = "nowhere"
	FromOther   Origin = "other"
)

// Verdict is the judgement on one driver library.
type Verdict struct {
	Soname string `json:"soname"`
	Origin Origin `json:"origin"`
	Text   string `json:"text"` // a sentence or two: where it comes from, and what to do
	Good   bool   `json:"good"`
	remedy.Remedy
	// Kind is what is wrong, "" for nothing. Answer is the error that CUDA answers then.
	Kind   string             `json:"-"`
	Help   forwardcompat.Help `json:"-"` // of a compat package
	Answer int                `json:"-"`
	Object *loader.Object     `json:"-"`
	// Openers are the names of the files that may open the library, as in Text; none if it is loaded or asked for.
	Openers []string `json:"-"`
	// Of names the starts that it is about, of several. Part is as in a finding.
	Of   []string `json:"of,omitempty"`
	Part bool     `json:"part,omitempty"`
}

// opens is text that says that one of some files may open a library.
func opens(by []string) string {
	switch len(by) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" (%s may open it with dlopen)", by[0])
	}
	return fmt.Sprintf(" (%s and %d more may open it with dlopen)", by[0], len(by)-1)
}

// Opened returns a text about who may open a library, with other names in it.
func Opened(text string, openers, by []string) string {
	if len(openers) == 0 {
		return text
	}
	return strings.Replace(text, opens(openers), opens(by), 1)
}

// Same reports whether two verdicts are the same, apart from who opens the file.
func (v *Verdict) Same(w *Verdict) bool {
	return v.Remedy.Same(w.Remedy) && (v.Text == w.Text || len(v.Openers)*len(w.Openers) > 0 && w.Object.Found() &&
		Opened(v.Text, v.Openers, nil) == Opened(w.Text, w.Openers, nil))
}

// Take adds what the same verdict on others is about.
func (v *Verdict) Take(w *Verdict) {
	all := remedy.Union(v.Openers, w.Openers)
	v.Text, v.Openers = Opened(v.Text, v.Openers, all), all
	v.Of, v.Part = remedy.Union(v.Of, w.Of), v.Part && w.Part
}

// Optional reports whether a library is only opened by its name, is not here, and is not the one through which CUDA
// or NVML is used, or PTX compiled. Profilers and others that open libraries for graphics and the like go on without
// them, as do those that ask for a part which only older drivers have, or newer ones. So do those that try a place of
// NVML in the system, or a name for building programs, such as libcuda.so.
func (v *Verdict) Optional() bool {
	if v.Object.Found() || v.Object.Cause != loader.DlopenString && v.Object.Cause != loader.DlopenNote {
		return false
	}
	switch path.Base(v.Soname) {
	case driver.LibCUDA, ptxCompiler:
		return false
	case "libnvidia-ml.so.1":
		return strings.Contains(v.Soname, "/")
	}
	return true
}

// Line is what people read of a verdict.
func (v *Verdict) Line() string {
	if fix := v.Whole(); fix != "" {
		return v.Text + " Fix: " + fix + "."
	}
	return v.Text
}

// Verdicts returns verdicts on the driver-provided libraries of the load: one for each file that a name leads to, or
// one for a name that leads nowhere.
func (c *Case) Verdicts() (all []*Verdict) {
	seen := map[[2]string]bool{}
	gone := func(o *loader.Object) bool { // its opening failed
		return o.Found() && slices.ContainsFunc(c.Failed, func(p *loader.Opening) bool {
			return p.To != o && slices.Contains(p.Brought, o)
		})
	}
	objects := c.WithFailed()[1:]
	known := len(objects)
	for _, i := range c.otherwise {
		objects = append(objects, i.Object)
	}
	for i, o := range objects {
		if gone(o) {
			continue
		}
		v := c.Verdict(o)
		if i >= known && v != nil && v.Kind == "" { // only what is wrong
			continue
		}
		if v != nil && !seen[[2]string{o.Name, o.Path}] {
			seen[[2]string{o.Name, o.Path}] = true
			if i := slices.IndexFunc(c.tried, func(f finding.Finding) bool {
				return f.Driver && f.About(o.Name, o.Path) || f.ID == finding.DriverBeforeCompat && v.Kind == f.ID
			}); i >= 0 {
				v.Remedy = c.tried[i].Remedy
			}
			all = append(all, v)
		}
	}
	return all
}

// Verdict returns the verdict on an object; nil if it is not the driver's.
func (c *Case) Verdict(o *loader.Object) *Verdict {
	l, s := &c.Layout, c.Load
	if !driver.Provides(path.Base(o.Name)) {
		return nil
	}
	v := &Verdict{Soname: o.Name, Object: o}
	link := l.Link(s.Main.File.ELF.Machine)
	may, when := "", c.when(o)
	switch {
	case when != "":
		may = fmt.Sprintf(" (%s)", when)
	case o.Cause == loader.DlopenAsked:
		may = fmt.Sprintf(" (if %s opened it with dlopen)", path.Base(s.Main.Path))
	case !o.Cause.Certain() && o.NeededBy != nil:
		v.Openers = []string{path.Base(o.NeededBy.Path)}
		may = opens(v.Openers)
	}
	if !o.Found() {
		v.Origin = FromNowhere
		c.nowhere(v, link, may)
		return v
	}
	dir, real := path.Dir(o.Path), path.Dir(o.Path)
	if o.File != nil {
		real = path.Dir(s.Inside(o.File.Path))
	}
	if path.Base(path.Dir(dir)) == "glibc-hwcaps" { // the directory above is searched
		dir = path.Dir(path.Dir(dir))
	}
	compat := func(dir string) bool { return l.isCompat(s, dir, dir) }
	where := fmt.Sprintf("%s%s: ", o.Name, may)
	switch {
	case o.Err != "":
		v.Origin, v.Kind = FromOther, finding.LoadError
		v.Text = fmt.Sprintf("%sthe loader stops at %s: %s.", where, o.Path, o.Err)
	case l.StubDirs.Contains(real), l.StubDirs.Contains(dir) && !c.isHosts(o, link):
		v.Origin, v.Kind, v.Answer = FromStub, finding.StubLoaded, 34
		v.Text = fmt.Sprintf("%sa stub, %s: every call to it fails with CUDA_ERROR_STUB_LIBRARY (34).", where, o.Path)
		v.Remedy = c.offTheSearch(o, func(list *loader.Object) remedy.Remedy {
			return c.editForDriver(list, l.stubs(runpath.ReplaceStubs))
		})
	case c.answersAsStub(o):
		v.Origin, v.Kind, v.Answer = FromStub, finding.StubLoaded, 34
		v.Text = fmt.Sprintf(
			"%sa stub, %s, by its code, whatever its directory is called: every call to it fails with CUDA_ERROR_STUB_LIBRARY "+
				"(34).", where, o.Path)
		v.Remedy = remedy.Do("remove that file, and let the driver link be searched")
	case (runpath.Key(dir) == runpath.Key(link) || l.StubDirs.Contains(dir)) && !compat(real):
		v.Origin, v.Good = FromDriver, true
		assumed := ""
		if l.Assumed != "" {
			assumed = fmt.Sprintf(" (here %s, as assumed)", l.Assumed)
		}
		v.Text = fmt.Sprintf("%sthe host's driver, through the driver link %s%s: right.", where, link, assumed)
		c.compatBehind(v, o)
	case compat(dir), compat(real):
		v.Origin, v.Good = FromCompat, true
		c.compat(v, o, where, dir)
	case store.Contains(dir):
		v.Origin = FromOther
		v.Text = fmt.Sprintf("%s%s, from a Nix store: it must have exactly the version of the host's kernel module.",
			where, o.Path)
		v.Remedy = remedy.Do("remove the directory from the run path and let autoAddDriverRunpath add the driver link")
	case o.Rule.InRunPath():
		v.Origin = FromOther
		v.Text = fmt.Sprintf(
			"%s%s, through the run path entry %s, which is neither the driver link nor a compat directory: right only if the "+
				"host's driver is installed there.",
			where, o.Path, o.Entry)
	case o.Rule == loader.ByCache, o.Rule == loader.ByDefault, o.Rule == loader.ByEnv, o.Rule == loader.ByPathFile,
		o.Cause == loader.Preload, o.Cause == loader.PreloadFile:
		v.Origin, v.Good = FromDriver, true
		v.Text = fmt.Sprintf("%s%s, by %s: the driver of this host, if it was installed there; on NixOS it is not.", where,
			o.Path, o.Rule)
	default:
		v.Origin = FromOther
		v.Text = fmt.Sprintf(
			"%s%s (%s), which is neither the driver link nor a compat directory: right only if the host's driver is installed "+
				"there.", where, o.Path, o.How(nil))
	}
	if v.Kind == "" && v.Origin != FromCompat && l.Unfit != nil && o.Name == driver.LibCUDA && o.File != nil {
		if why := l.Unfit(o.File.Path); why != "" {
			v.Good, v.Kind, v.Answer, v.Text = false, finding.UnfitDriver, 803, fmt.Sprintf("%s%s (%s) is %s.", where, o.Path,
				o.How(nil), why)
		}
	}
	return v
}

// when says when a name leads to an object that it does not lead to in the followed order; "" for all other objects.
func (c *Case) when(o *loader.Object) string {
	for _, i := range c.otherwise {
		if i.Object == o {
			return i.When
		}
	}
	return ""
}

// maxStub bounds the size of a stub in bytes. NVIDIA's have some ten thousand, drivers ten million.
const maxStub = 1 << 20

// answersAsStub reports whether an object is a libcuda.so.1 whose cuInit answers as a stub's does.
func (c *Case) answersAsStub(o *loader.Object) (stub bool) {
	if row, _ := driver.Lookup(path.Base(o.Name)); row.Soname != driver.LibCUDA || o.File == nil || o.File.Size > maxStub {
		return false
	}
	if known, ok := c.answers.Load(o.File.Path); ok {
		return known.(bool)
	}
	if linkage, err := o.File.Linkage(); err == nil {
		o.File.Image(func(im *elfimage.Image) {
			if at, ok := im.FileOffset(linkage.Address("cuInit"), 1); ok {
				code := make([]byte, 32)
				n, _ := im.ReadAt(code, int64(at))
				stub = stubcode.Answers(im.Machine, code[:n])
			}
		})
	}
	c.answers.Store(o.File.Path, stub)
	return stub
}

// isHosts reports whether an object is the file in the driver link.
func (c *Case) isHosts(o *loader.Object, link string) bool {
	f, _ := c.In(link, path.Base(o.Name))
	return f != nil && o.File != nil && f.Path == o.File.Path
}

// compatBehind says that a compat directory is after the driver link, so that its libcuda.so.1 is never loaded.
func (c *Case) compatBehind(v *Verdict, o *loader.Object) {
	l, s := &c.Layout, c.Load
	if o.Name != driver.LibCUDA || !o.Rule.InRunPath() || o.List == nil || o.List.File == nil {
		return
	}
	list := runpath.Parse(o.List.File.List)
	for _, entry := range list[slices.Index(list, o.Entry)+1:] {
		dir, ok := s.Expand(o.List, entry)
		if !ok || !l.isCompat(s, dir, dir) || !s.Holds(dir, o.Name) {
			continue
		}
		if c.outOfPlace(path.Join(dir, o.Name)) != "" {
			return
		}
		v.Good, v.Kind = false, finding.DriverBeforeCompat
		v.Text = strings.TrimSuffix(v.Text, ": right.") +
			fmt.Sprintf(". The compat directory %s comes after it, so its newer driver is never loaded.", dir)
		v.Remedy = c.editForDriver(o.List, l.rules(0))
		return
	}
}

// outOfPlace says why a compat package's libcuda.so.1 does not help beside the known driver; "" if it may help.
func (c *Case) outOfPlace(file string) string {
	if c.CompatVerdict == nil {
		return ""
	}
	if it, ok := c.CompatVerdict(c.Loader.Host(file)); ok && (it.Help == forwardcompat.Harms ||
		it.Help == forwardcompat.Cannot || it.Help == forwardcompat.NotNeeded) {
		return it.Reason
	}
	return ""
}

// compat is the verdict on a compat package's library.
func (c *Case) compat(v *Verdict, o *loader.Object, where, dir string) {
	v.Text = fmt.Sprintf(
		"%sthe compat directory %s: right if the host's kernel module is older than that driver; otherwise the driver "+
			"fails with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803).", where, dir)
	if o.Name != driver.LibCUDA {
		if i := slices.IndexFunc(c.Objects, func(x *loader.Object) bool {
			return x.Name == driver.LibCUDA && x.Found() &&
				x.Err == ""
		}); i >= 0 && !c.isCompat(c.Load, path.Dir(c.Objects[i].Path), path.Dir(c.Objects[i].Path)) {
			v.Good, v.Kind = false, finding.CompatHarms
			v.Text = fmt.Sprintf(
				"%sthe compat directory %s, and libcuda.so.1 is %s, of another driver: neither accepts the "+
					"other's code (218).", where, dir, c.Objects[i].Path)
			v.Remedy = remedy.Do(
				"take both from one driver: runpath normalize puts the compat directory first, for all its libraries")
		}
		return
	}
	if c.CompatVerdict == nil || o.File == nil {
		return
	}
	it, ok := c.CompatVerdict(o.File.Path)
	if !ok || it.Help == forwardcompat.Unknown {
		return
	}
	v.Help = it.Help
	does := map[forwardcompat.Help]string{forwardcompat.Helps: "helps here",
		forwardcompat.MayHelp:  "helps here, if this GPU may (not known)",
		forwardcompat.MayOnL4T: "helps here, if this board may (not known)", forwardcompat.Cannot: "cannot help here",
		forwardcompat.NotNeeded: "is not needed here", forwardcompat.Harms: "harms here"}[it.Help]
	v.Text = fmt.Sprintf("%sthe compat directory %s, which %s: %s (%s).", where, dir, does, it.Reason, it.Source)
	if it.Help == forwardcompat.Cannot || it.Help == forwardcompat.Harms {
		v.Good, v.Kind, v.Answer = false, finding.CompatHarms, it.Answer
		v.Remedy = c.offTheSearch(o, func(list *loader.Object) remedy.Remedy {
			link := c.Link(list.File.ELF.Machine)
			if !runpath.Parse(list.File.List).Has(link) {
				// without either it would not start
				return c.editForDriver(list, &remedy.Change{ReplaceEntries: []string{listed(o) + "=" + link}})
			}
			return c.editForDriver(list, &remedy.Change{RemoveEntries: []string{listed(o)}})
		})
		v.Text = strings.TrimSuffix(v.Text, ".") + "; hostDriver run starts the program without it."
	}
}

// rules is a change by the normal form and the maps of tools, with the directories that were named.
func (l *Layout) rules(maps runpath.Map) *remedy.Change {
	return &remedy.Change{Rules: &remedy.Rules{Maps: maps, DriverLink: l.DriverLink, Compat: l.Compat}}
}

// stubs is rules with the patterns of what else counts as stubs.
func (l *Layout) stubs(maps runpath.Map) *remedy.Change {
	c := l.rules(maps)
	c.Rules.Stubs, c.Rules.Store = l.StubDirs.Patterns, l.StubDirs.Store
	return c
}

// Edit is the remedy of changing an object's file.
func (c *Case) Edit(o *loader.Object, what *remedy.Change) remedy.Remedy {
	return change.Edit(c.File(o), what)
}

// editForDriver is Edit for a wrong choice of the driver's libraries. hostDriver run gives a program the host's,
// whatever its files say.
func (c *Case) editForDriver(o *loader.Object, what *remedy.Change) remedy.Remedy {
	return change.Edit(c.fileForDriver(o), what)
}

// File is an object's file as the target of a remedy.
func (c *Case) File(o *loader.Object) change.File {
	f := c.Layout.File(o.File.Path)
	f.Driver = driver.Provides(path.Base(o.File.Path)) || o.File.Soname != "" && driver.Provides(o.File.Soname)
	if dir := path.Dir(c.Loader.Inside(o.File.Path)); f.Driver && f.Object != "" && c.isCompat(c.Load, dir, dir) {
		f.Driver, f.Package = false, "cuda_compat"
	}
	if o == c.Load.Main {
		f.Path = c.named
	}
	return f
}

// fileForDriver is File for Case.editForDriver.
func (c *Case) fileForDriver(o *loader.Object) change.File {
	f := c.File(o)
	if at := c.Load.Main.File.Path; c.Load.Role == loader.Program && c.Load.Inside(at) == at {
		f.Program = c.named
	}
	return f
}

// File is a file or directory of this machine as the target of a remedy. at is its path, free of symbolic links.
func (l *Layout) File(at string) change.File {
	f := change.File{Path: at, Object: store.Object(l.StubDirs.Store, at), Building: l.Nix}
	f.Rest = strings.TrimPrefix(strings.TrimPrefix(at, f.Object), "/")
	return f
}

// asker returns the object that asks for a library, and whether the run paths that are searched have the driver link.
func (c *Case) asker(o *loader.Object) (by *loader.Object, linked bool) {
	s := c.Load
	link := c.Link(s.Main.File.ELF.Machine)
	has := func(x *loader.Object) bool { return x.File != nil && runpath.Parse(x.File.List).Has(link) }
	if by = o.NeededBy; by == nil {
		by = s.Main
	}
	return by, !strings.Contains(o.Name, "/") && (has(by) || by.File != nil && by.File.Tag != elf.DT_RUNPATH &&
		has(s.Main) && s.Main.File.Tag == elf.DT_RPATH)
}

// nowhere is the verdict on a library that is not found.
func (c *Case) nowhere(v *Verdict, link, may string) {
	o := v.Object
	by, linked := c.asker(o)
	v.Kind, v.Answer = finding.NoDriverLink, 35
	add := func() remedy.Remedy {
		if c.Start.Script != "" && by == c.Load.Main { // the interpreter of all scripts
			return remedy.Do("give the driver link to the library that opens it, not to the interpreter; " +
				"on other systems than NixOS, hostDriver run starts the script with the driver")
		}
		return c.editForDriver(by, c.rules(runpath.AddDriverLink))
	}
	row, _ := driver.Lookup(path.Base(o.Name))
	switch {
	case o.Cause == loader.DlopenString && row.Soname != "" && row.Soname != o.Name &&
		slices.ContainsFunc(c.Objects, func(x *loader.Object) bool {
			return x.Name == row.Soname && x.Found() && x.Err == ""
		}):
		v.Kind, v.Answer, v.Good, v.Text = "", 0, true,
			fmt.Sprintf("%s, which is that library by its soname, is found.", row.Soname)
	case strings.Contains(o.Name, "/"):
		v.Text = fmt.Sprintf("%s comes with the host's driver, on NixOS in %s.", path.Base(o.Name), link)
		v.Remedy = c.byName(o)
	case o.Cause == loader.DlopenAsked && !c.NeedsDriver(o):
		v.Kind, v.Answer, v.Text = "", 0, "Nothing that is loaded asks for it."
	case linked:
		v.Kind, v.Text = finding.DriverAbsent, fmt.Sprintf(
			"The driver link %s is in the run path, but this machine has no such library there.", link)
		v.Remedy = remedy.Do(
			"none is needed on a build machine: --assume-driver DIR shows what a host with a driver would load; on a host "+
				"other than NixOS, %s, or for all programs sudo hostDriver install", c.fileForDriver(c.Load.Main).ByHostDriver())
		if c.Assumed != "" {
			v.Text = fmt.Sprintf(
				"The driver link %s is in the run path, but %s, which is assumed to be there, has no such library.",
				link, c.Assumed)
		}
	case c.ofNix():
		v.Text, v.Remedy = fmt.Sprintf("The driver link %s is not in the run path of %s.", link, by.Path), add()
	default:
		v.Text, v.Remedy = "It comes with the host's driver, which is not in the default directories; on NixOS it never is.",
			add()
		if v.Command != nil {
			v.Remedy = v.And(", for NixOS")
		}
	}
	v.Text = fmt.Sprintf("%s%s: nowhere. %s", o.Name, may, v.Text)
}

// NeedsDriver reports whether an object of the process other than but, or one that may be opened, is the driver's or
// the toolkit's, which opens the driver's.
func (c *Case) NeedsDriver(but *loader.Object) bool {
	return slices.ContainsFunc(c.WithFailed(), func(o *loader.Object) bool {
		return o != but && driver.NeedsDriver(path.Base(o.Name))
	})
}

// ofNix reports whether the file is a Nix package's.
func (c *Case) ofNix() bool {
	s := c.Load
	return c.Nix || store.Contains(s.Inside(s.Main.File.Path)) || s.Interp != nil && s.Interp.Store
}

// listed returns the entry of a run path by which an object was found, which may be a place of a resolution note,
// too.
func listed(o *loader.Object) string {
	if o.Rule == loader.ByNote {
		return strings.TrimPrefix(o.Entry, "?")
	}
	return o.Entry
}

// offTheSearch is the remedy of no longer searching the directory in which an object was found. edit is what to do
// with an object whose run path has that directory.
func (c *Case) offTheSearch(o *loader.Object, edit func(list *loader.Object) remedy.Remedy) remedy.Remedy {
	dir := path.Dir(o.Path)
	switch {
	case o.Rule == loader.ByPath:
		return c.byName(o)
	case o.Rule == loader.ByEnv:
		name := "LD_LIBRARY_PATH"
		if c.Load.Interp.Becomes != "" {
			name += ", or NIX_LD_LIBRARY_PATH"
		}
		return remedy.Do("remove %s from %s", dir, name)
	case o.Rule == loader.ByNote && !slices.Contains(runpath.Parse(o.List.File.List), listed(o)):
		return c.rewriteNote(o.List)
	case (o.Rule.InRunPath() || o.Rule == loader.ByNote) && o.List != nil && o.List.File != nil:
		return edit(o.List)
	}
	return remedy.Do("remove %s from the search", dir)
}

// byName is the remedy for a name that is a path, which the loader does not search for. It makes the asking object
// have it searched for.
func (c *Case) byName(o *loader.Object) remedy.Remedy {
	by := any(remedy.Text("the file"))
	if o.NeededBy != nil && o.NeededBy.File != nil {
		if by = c.operand(o.NeededBy); o.Cause == loader.Needed {
			return c.search(o.Name, o.NeededBy)
		}
	}
	return remedy.Do("let %s open %s by its name: no run path is searched for the path %s", by, path.Base(o.Name), o.Name)
}
