package explain

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/process"
)

// Sum is what can be said together of the starts that a place holds.
type Sum struct {
	Interpreter string `json:"interpreter,omitempty"` // of Python, which opens the modules
	// programs, modules and libraries that were looked at, each by itself
	Starts int      `json:"starts"`
	Asking []string `json:"asking"` // those that ask for the driver
	// Findings are about what is loaded; each stands for the starts that it is of.
	Findings []Shared      `json:"findings"`
	Driver   []SharedCopy  `json:"driver"`
	Toolkit  []ToolkitPart `json:"toolkit"`
	GPUCode  []BuiltFor    `json:"gpu_code"`
}

// Shared is a conclusion on several starts.
type Shared struct {
	Conclusion
	Of []string `json:"of"`
}

// SharedCopy is a verdict on a library of the driver, as several starts have it.
type SharedCopy struct {
	Verdict
	Of []string `json:"of"`
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

// Each concludes of the starts of a place, one after the other. Of its libraries it passes over those that a process
// had before.
func (y *System) Each(p *process.Place, visit func(*Case)) {
	held := map[*files.File]bool{}
	for _, start := range p.Starts {
		if f := y.Loader.Files().Open(y.Loader.Absolute(start.File)); len(start.Opens) == 0 && held[f] {
			continue
		}
		state, err := start.Begin(y.Loader)
		if err != nil || state.Static {
			continue
		}
		c := y.Case(state)
		c.Follow()
		for _, o := range c.WithFailed() {
			held[o.File] = true
		}
		visit(c)
	}
}

// Sum sums up what is concluded of the starts of a place, and shows each to visit, which may be nil.
func (y *System) Sum(p *process.Place, visit func(*Case)) *Sum {
	s := &Sum{Asking: []string{}, Findings: []Shared{}, Driver: []SharedCopy{}, Toolkit: []ToolkitPart{},
		GPUCode: []BuiltFor{}}
	var sites []string
	if p.Python != nil {
		s.Interpreter, sites = p.Python.File, p.Python.Sites
	}
	seen := map[*files.File]bool{}
	y.Each(p, func(c *Case) {
		s.Starts++
		if visit != nil {
			visit(c)
		}
		name := c.Start.Name()
		if c.NeedsDriver(nil) {
			s.Asking = append(s.Asking, name)
		}
		for _, f := range c.Conclusions() {
			if f.Verdict != nil || f.Severity == Note || !slices.Contains(ofTheLoad, f.ID) {
				continue
			}
			if i := slices.IndexFunc(s.Findings, func(g Shared) bool { return g.ID == f.ID && g.Message == f.Message }); i >= 0 {
				s.Findings[i].Of = append(s.Findings[i].Of, name)
			} else {
				s.Findings = append(s.Findings, Shared{f, []string{name}})
			}
		}
		for _, v := range c.Driver() {
			if i := slices.IndexFunc(s.Driver, func(w SharedCopy) bool { return w.Text == v.Text }); i >= 0 {
				s.Driver[i].Of = append(s.Driver[i].Of, name)
			} else {
				s.Driver = append(s.Driver, SharedCopy{v, []string{name}})
			}
		}
		for _, o := range c.WithFailed() {
			if o.File == nil || !o.Found() || seen[o.File] {
				continue
			}
			seen[o.File] = true
			base := path.Base(o.Path)
			if driver.Toolkit(base) && !driver.Provides(base) {
				s.Toolkit = append(s.Toolkit, ToolkitPart{cmp.Or(o.File.Soname, base), y.toolkitVersion(o.File, sites), o.Path})
			}
			if code := SeenOf(o.File).Code; code != nil && len(madeFor(code)) > 0 {
				s.GPUCode = append(s.GPUCode, BuiltFor{o.Path, madeFor(code)})
			}
		}
	})
	slices.SortStableFunc(s.Findings, func(a, b Shared) int { return b.Severity.Rank() - a.Severity.Rank() })
	slices.SortFunc(s.Toolkit, func(a, b ToolkitPart) int {
		return cmp.Or(strings.Compare(a.Soname, b.Soname), strings.Compare(a.Path, b.Path))
	})
	slices.SortFunc(s.GPUCode, func(a, b BuiltFor) int { return strings.Compare(a.Path, b.Path) })
	return s
}

// Bad reports whether one of the starts fails, or does not get what it was meant to load.
func (s *Sum) Bad() bool {
	return slices.ContainsFunc(s.Findings, func(f Shared) bool { return f.Stops() })
}

// toolkitVersion returns the version of a library by its file's name (libcudart.so.12.4.127); where a wheel has it
// under its soname alone, that of the wheel: NVIDIA's package nvidia-cuda-runtime-cu12 is in nvidia/cuda_runtime.
func (y *System) toolkitVersion(f *files.File, sites []string) string {
	_, version, _ := strings.Cut(path.Base(f.Path), ".so.")
	if strings.Contains(version, ".") {
		return version
	}
	at := y.Loader.Inside(f.Path)
	for _, site := range sites {
		rest, ok := strings.CutPrefix(at, site+"/nvidia/")
		part, _, _ := strings.Cut(rest, "/")
		if !ok || part == "" {
			continue
		}
		for name := range y.Loader.Files().Names(site) {
			project, info := strings.CutSuffix(name, ".dist-info")
			if cu, v, _ := strings.Cut(strings.TrimPrefix(project, "nvidia_"+part), "-"); info && v != "" &&
				strings.HasPrefix(project, "nvidia_"+part) && (cu == "" || strings.HasPrefix(cu, "_cu")) {
				return v
			}
		}
	}
	return version
}
