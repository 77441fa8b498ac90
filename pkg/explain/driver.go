package explain

import (
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// Layout says where the driver's libraries are expected.
type Layout struct {
	DriverLink string // "": the one that is right for the file's machine
	Compat     string
	StubDirs   driver.StubDirs
	Assumed    string // the directory that stands for the driver link, "" for none
	// CompatVerdict says what a compat package does beside the host's driver, by the path of
	// its libcuda.so.1 on this machine; false where no driver is known. nil: nobody can say.
	CompatVerdict func(file string) (driver.CompatVerdict, bool)
}

func (l *Layout) link(m elf.Machine) string {
	if l.DriverLink != "" {
		return l.DriverLink
	}
	return driver.LinkFor(m)
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

// Verdict is what there is to say of one driver library.
type Verdict struct {
	Soname string `json:"soname"`
	Origin Origin `json:"origin"`
	Text   string `json:"text"` // a sentence or two: where it comes from, and what to do
	Good   bool   `json:"good"`
	remedy.Remedy
}

// Driver returns a verdict for each driver-provided library of a load.
func (l *Layout) Driver(s *loader.Load) []Verdict {
	var out []Verdict
	seen := map[string]bool{}
	for _, o := range s.Objects[1:] {
		if seen[o.Name] || !driver.Provides(path.Base(o.Name)) {
			continue
		}
		seen[o.Name] = true
		out = append(out, l.verdict(s, o))
	}
	return out
}

func (l *Layout) verdict(s *loader.Load, o *loader.Object) Verdict {
	v := Verdict{Soname: o.Name}
	link := l.link(s.Main.File.ELF.Machine)
	may := ""
	if !o.Cause.Certain() && o.NeededBy != nil {
		may = fmt.Sprintf(" (%s may open it with dlopen)", path.Base(o.NeededBy.Path))
	}
	if !o.Found() {
		v.Origin = FromNowhere
		v.Text, v.Remedy = l.nowhere(s, o, link, may)
		return v.withFix()
	}
	dir := path.Dir(o.Path)
	where := fmt.Sprintf("%s%s: ", o.Name, may)
	switch {
	case o.Err != "":
		v.Origin = FromOther
		v.Text = fmt.Sprintf("%sthe loader stops at %s: %s.", where, o.Path, o.Err)
	case l.StubDirs.Contains(dir):
		v.Origin = FromStub
		v.Text = fmt.Sprintf("%sa stub, %s: every call of it fails with CUDA_ERROR_STUB_LIBRARY (34).", where, o.Path)
		v.Remedy = o.OffTheSearch(l.ReplaceStubs)
	case runpath.Key(dir) == runpath.Key(link):
		v.Origin, v.Good = FromDriver, true
		assumed := ""
		if l.Assumed != "" {
			assumed = fmt.Sprintf(" (here %s, as assumed)", l.Assumed)
		}
		v.Text = fmt.Sprintf("%sthe host's driver, through the driver link %s%s: right.", where, link, assumed)
		l.compatBehind(&v, s, o)
	case driver.CompatDirs{Named: l.Compat}.Contains(dir, func(name string) bool { f, _ := s.In(dir, name); return f != nil }):
		v.Origin, v.Good = FromCompat, true
		l.compat(&v, o, where, dir)
	case store.Contains(dir):
		v.Origin = FromOther
		v.Text = fmt.Sprintf("%s%s, from a Nix store: it must have exactly the version of the host's kernel module.", where, o.Path)
		v.Remedy = remedy.Do("remove the directory from the run path and let autoAddDriverRunpath add the driver link")
	case o.Rule.InRunPath():
		v.Origin = FromOther
		v.Text = fmt.Sprintf("%s%s, through the run path entry %s, which is neither the driver link nor a compat directory: right only if the host's driver is installed there.",
			where, o.Path, o.Entry)
	default:
		v.Origin, v.Good = FromDriver, true
		v.Text = fmt.Sprintf("%s%s, by %s: the driver of this host, if it was installed there; on NixOS it is not.", where, o.Path, o.Rule)
	}
	return v.withFix()
}

// compatBehind says that a compat directory stands after the driver link, where its
// libcuda.so.1 is never loaded.
func (l *Layout) compatBehind(v *Verdict, s *loader.Load, o *loader.Object) {
	if o.Name != driver.LibCUDA || !o.Rule.InRunPath() || o.List == nil || o.List.File == nil {
		return
	}
	list := runpath.Parse(o.List.File.List)
	for _, entry := range list[slices.Index(list, o.Entry)+1:] {
		dir, ok := s.Expand(o.List, entry)
		holds := func(name string) bool { f, _ := s.In(dir, name); return f != nil }
		if !ok || !(driver.CompatDirs{Named: l.Compat}).Contains(dir, holds) || !holds(o.Name) {
			continue
		}
		v.Good = false
		v.Text = strings.TrimSuffix(v.Text, ": right.") + fmt.Sprintf(". The compat directory %s comes after it, so its newer driver is never loaded.", dir)
		v.Remedy = l.Edit(o.List.File.Path, "runpath", "normalize")
		return
	}
}

// compat says what there is to say of a compat package's library.
func (l *Layout) compat(v *Verdict, o *loader.Object, where, dir string) {
	v.Text = fmt.Sprintf("%sthe compat directory %s: right if the host's kernel module is older than that driver; otherwise the driver fails with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803).", where, dir)
	if l.CompatVerdict == nil || o.Name != driver.LibCUDA || o.File == nil {
		return
	}
	c, ok := l.CompatVerdict(o.File.Path)
	if !ok || c.Help == driver.Unknown {
		return
	}
	does := map[driver.Help]string{driver.Helps: "helps", driver.NotNeeded: "is not needed", driver.Harms: "harms"}[c.Help]
	v.Text = fmt.Sprintf("%sthe compat directory %s, which %s here: %s (%s).", where, dir, does, c.Reason, c.Source)
	if c.Help == driver.Harms {
		v.Good = false
		v.Remedy = o.OffTheSearch(func(file string) remedy.Remedy {
			return remedy.Run("runpath", "edit", "--remove-entry", o.Entry, file).And(", or start the program with hostDriver run")
		})
	}
}

// withFix ends the text with the fix.
func (v Verdict) withFix() Verdict {
	if v.Fix != "" {
		v.Text += " Fix: " + v.Fix + "."
	}
	return v
}

// Edit is the remedy of running an editing tool on a file with the directories that were named.
func (l *Layout) Edit(file string, tool ...string) remedy.Remedy {
	if l.DriverLink != "" {
		tool = append(tool, "--driver-link", l.DriverLink)
	}
	if l.Compat != "" {
		tool = append(tool, "--compat", l.Compat)
	}
	return remedy.Run(append(tool, file)...)
}

// ReplaceStubs is the remedy of taking stub directories out of a file's run path.
func (l *Layout) ReplaceStubs(file string) remedy.Remedy {
	tool := []string{"stubReplace"}
	for _, p := range l.StubDirs.Patterns {
		tool = append(tool, "--stub", p)
	}
	if l.StubDirs.Store != "" {
		tool = append(tool, "--store", l.StubDirs.Store)
	}
	return l.Edit(file, tool...)
}

// Asker returns the object that asks for a library, and whether the driver link is among
// the run paths that are searched for it.
func (l *Layout) Asker(s *loader.Load, o *loader.Object) (by *loader.Object, linked bool) {
	link := runpath.Key(l.link(s.Main.File.ELF.Machine))
	has := func(x *loader.Object) bool {
		return x.File != nil && slices.ContainsFunc(runpath.Parse(x.File.List), func(e string) bool { return runpath.Key(e) == link })
	}
	if by = o.NeededBy; by == nil {
		by = s.Main
	}
	return by, !strings.Contains(o.Name, "/") && (has(by) || by.File != nil && by.File.Tag != elf.DT_RUNPATH && has(s.Main) && s.Main.File.Tag == elf.DT_RPATH)
}

func (l *Layout) nowhere(s *loader.Load, o *loader.Object, link, may string) (string, remedy.Remedy) {
	by, linked := l.Asker(s, o)
	text := fmt.Sprintf("%s%s: nowhere. ", o.Name, may)
	switch {
	case strings.Contains(o.Name, "/"):
		return text + fmt.Sprintf("%s comes with the host's driver, on NixOS in %s.", path.Base(o.Name), link), o.ByName()
	case linked:
		if l.Assumed != "" {
			return text + fmt.Sprintf("The driver link %s is in the run path, but %s, which is assumed to be there, has no such library.", link, l.Assumed), remedy.Remedy{}
		}
		return text + fmt.Sprintf("The driver link %s is in the run path, but this machine has no such library there: right for a build machine; "+
			"--assume-driver DIR shows what a host with a driver would load; on a host other than NixOS, hostDriver makes the link.", link), remedy.Remedy{}
	case s.Interp.Kind == loader.GLibc && s.Interp.Store:
		return text + fmt.Sprintf("The driver link %s is not in the run path of %s.", link, by.Path), l.addDriverLink(by)
	}
	return text + "It comes with the host's driver, which is not installed here.", l.addDriverLink(by).And(", for NixOS")
}

func (l *Layout) addDriverLink(by *loader.Object) remedy.Remedy {
	at := by.Path
	if by.File != nil {
		at = by.File.Path
	}
	return l.Edit(at, "autoAddDriverRunpath")
}
