// Package places sums up what is concluded of all that a place holds: a directory, an environment of Python's. Callers
// find the place with [starts.PlaceOf], and have one system for it, and for what else they ask.
package places

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/inorder"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/starts"
)

// Sum is what can be said together of the starts that a place holds.
type Sum struct {
	Interpreter string `json:"interpreter,omitempty"` // of Python, which opens the modules
	// programs, modules and libraries that were looked at, each by itself
	Starts int      `json:"starts"`
	Asking []string `json:"asking"` // those that ask for the driver
	// Findings are about what is loaded; each stands for the starts that it is of.
	Findings []finding.Finding `json:"findings"`
	Driver   []explain.Verdict `json:"driver"`
	// Optional are libraries of the driver that are opened by their names, by what may do without, and are not here.
	Optional []string      `json:"optional"`
	Toolkit  []ToolkitPart `json:"toolkit"`
	GPUCode  []BuiltFor    `json:"gpu_code"`
	Left     string        `json:"left,omitempty"` // what was not looked into
}

// ToolkitPart is a library of the CUDA toolkit that is loaded.
type ToolkitPart struct {
	Soname  string `json:"soname"`
	Version string `json:"version"` // as far as its file's name, or the wheel that it is from, says
	Path    string `json:"path"`
}

// BuiltFor is a file with GPU code.
type BuiltFor struct {
	Path string   `json:"path"`
	For  []string `json:"for"`
}

// each concludes of the starts of a place, jobs at a time, and shows them one after the other: first of its
// interpreter, where that does not start. Of its other libraries it passes over those that a process had before.
func each(y *explain.System, jobs int, p *starts.Place, visit func(*explain.Case)) {
	held := map[*files.File]bool{}
	look := func(start process.Start) *explain.Case {
		state, err := start.Begin(y.Loader)
		if err != nil || state.Role == loader.Static {
			return nil
		}
		c := y.Case(state)
		c.OfTheLoad()
		return c
	}
	tell := func(c *explain.Case) {
		if c == nil {
			return
		}
		for _, o := range c.WithFailed() {
			held[o.File] = true
		}
		visit(c)
	}
	if p.Python != nil && !slices.ContainsFunc(p.Starts, func(t process.Start) bool { return t.File == p.Python.File }) {
		if c := look(p.Python.Start); c != nil && slices.ContainsFunc(c.OfTheLoad(),
			func(f finding.Finding) bool { return f.Stops() }) {
			tell(c)
		}
	}
	inorder.Do(jobs, len(p.Starts), func(i int) *explain.Case { return look(p.Starts[i]) }, tell)
	for _, start := range p.Others {
		if !held[y.Loader.Files().Open(y.Loader.Absolute(start.Name()))] {
			tell(look(start))
		}
	}
}

// Summarize sums up what is concluded of the starts of a place, jobs at a time, and shows each to visit, which may be
// nil.
func Summarize(y *explain.System, jobs int, p *starts.Place, visit func(*explain.Case)) *Sum {
	s := &Sum{Asking: []string{}, Findings: []finding.Finding{}, Driver: []explain.Verdict{}, Optional: []string{},
		Toolkit: []ToolkitPart{}, GPUCode: []BuiltFor{}}
	s.Left = p.Left
	versions := map[string]string{}
	if p.Python != nil {
		s.Interpreter, versions = p.Python.File, wheels(y.Loader.Files(), p.Python.Sites)
	}
	seen := map[*files.File]bool{}
	each(y, jobs, p, func(c *explain.Case) {
		s.Starts++
		if visit != nil {
			visit(c)
		}
		name, parts := c.Start.Name(), c.Parts()
		if c.NeedsDriver(nil) {
			s.Asking = append(s.Asking, name)
		}
		for _, f := range c.OfTheLoad() {
			if f.Driver {
				continue
			}
			if f.Part && f.Severity == finding.Error {
				f.Severity = finding.Warning
			}
			s.Findings = finding.Merge(s.Findings, f, name)
		}
		for _, v := range c.Verdicts() {
			if v.Optional() {
				if base := path.Base(v.Soname); !slices.Contains(s.Optional, base) {
					s.Optional = append(s.Optional, base)
				}
				continue
			}
			v.Of, v.Part = []string{name}, parts[v.Object]
			if i := slices.IndexFunc(s.Driver, func(d explain.Verdict) bool { return d.Same(v) }); i < 0 {
				s.Driver = append(s.Driver, *v)
			} else {
				s.Driver[i].Take(v)
			}
		}
		for _, o := range c.WithFailed() {
			if o.File == nil || !o.Found() || seen[o.File] {
				continue
			}
			seen[o.File] = true
			base := path.Base(o.Path)
			if driver.Toolkit(base) && !driver.Provides(base) {
				soname := cmp.Or(o.File.Soname, base)
				s.Toolkit = append(s.Toolkit, ToolkitPart{soname,
					cmp.Or(versions[y.Loader.Inside(o.File.Path)], versionIn(path.Base(o.File.Path))), o.Path})
			}
			if code := explain.SeenOf(o.File).Code; code != nil && len(explain.MadeFor(code)) > 0 {
				s.GPUCode = append(s.GPUCode, BuiltFor{o.Path, explain.MadeFor(code)})
			}
		}
	})
	// sort, not slices, as in package audit
	sort.SliceStable(s.Findings, func(i, j int) bool { return s.Findings[i].Severity.Rank() > s.Findings[j].Severity.Rank() })
	slices.Sort(s.Optional)
	sort.Slice(s.Toolkit, func(i, j int) bool {
		a, b := &s.Toolkit[i], &s.Toolkit[j]
		return a.Soname < b.Soname || a.Soname == b.Soname && a.Path < b.Path
	})
	sort.Slice(s.GPUCode, func(i, j int) bool { return s.GPUCode[i].Path < s.GPUCode[j].Path })
	return s
}

// About leaves what is said of one library, by its name.
func (s *Sum) About(name string) {
	s.Driver = slices.DeleteFunc(s.Driver, func(v explain.Verdict) bool { return path.Base(v.Soname) != name })
	s.Findings = slices.DeleteFunc(s.Findings, func(f finding.Finding) bool { return path.Base(f.Library) != name })
	s.Optional = slices.DeleteFunc(s.Optional, func(o string) bool { return o != name })
	s.Toolkit = slices.DeleteFunc(s.Toolkit, func(t ToolkitPart) bool { return t.Soname != name })
	s.GPUCode = s.GPUCode[:0]
}

// Bad reports whether one of the starts fails, or does not get what it was meant to load.
func (s *Sum) Bad() bool {
	return slices.ContainsFunc(s.Findings, func(f finding.Finding) bool { return f.Stops() })
}

// Toolkits returns the sonames of the toolkit's libraries, each once, with the versions that there are of it.
func (s *Sum) Toolkits() (all []string) {
	for i := 0; i < len(s.Toolkit); {
		name, versions := s.Toolkit[i].Soname, []string{}
		for ; i < len(s.Toolkit) && s.Toolkit[i].Soname == name; i++ {
			if v := s.Toolkit[i].Version; v != "" && !slices.Contains(versions, v) {
				versions = append(versions, v)
			}
		}
		all = append(all, strings.TrimSpace(name+" "+strings.Join(versions, " and ")))
	}
	return all
}

// versionIn returns the version in a library's file name, of which a soname has no more than the first number:
// libcudart.so.12.4.127; "" where it has none.
func versionIn(name string) string {
	if _, version, _ := strings.Cut(name, ".so."); strings.Contains(version, ".") {
		return version
	}
	return ""
}

// wheels returns the versions of NVIDIA's wheels by the libraries that they brought, as their lists say; where there is
// none, by their names: nvidia-cuda-runtime-cu12 is in nvidia/cuda_runtime.
func wheels(fs *files.Files, sites []string) map[string]string {
	all := map[string]string{}
	for _, site := range sites {
		for _, name := range slices.Sorted(maps.Keys(fs.Names(site))) {
			project, info := strings.CutSuffix(name, ".dist-info")
			project, version, _ := strings.Cut(project, "-")
			part, ours := strings.CutPrefix(project, "nvidia_")
			if !info || !ours {
				continue
			}
			record, _ := fs.Read(site+"/"+name+"/RECORD", 1<<20)
			for line := range strings.Lines(string(record)) {
				if file, _, _ := strings.Cut(line, ","); strings.Contains(path.Base(file), ".so") {
					all[path.Join(site, file)] = version
				}
			}
			part, _, _ = strings.Cut(part, "_cu1")
			for lib := range fs.Names(site + "/nvidia/" + part + "/lib") {
				if at := site + "/nvidia/" + part + "/lib/" + lib; all[at] == "" {
					all[at] = version
				}
			}
		}
	}
	return all
}
