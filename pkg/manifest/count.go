package manifest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/loader"
)

// mostLargest is how many files are named that have most GPU code.
const mostLargest = 20

// count adds a file that is listed to its package.
func (r *Reader) count(m *File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(m.Package)
	r.sum.Files++
	c.Kinds[m.Kind]++
	if m.Kind == Unread {
		r.sum.Failed++
		return
	}
	c.Needed += len(m.Needed)
	if c.RunPathLength += len(m.RunPath); len(m.RunPath) > 0 {
		c.RunPathFiles++
	}
	if m.driver {
		c.DriverLinks++
	}
	if m.ResolutionNote != nil {
		c.Notes++
	}
	if m.GPU != nil {
		c.GPU.Files++
		c.GPU.Bytes += m.GPU.Bytes
		c.GPU.sum.Merge(m.GPU.sum)
		c.Largest = largest(append(c.Largest, Sized{m.Path, m.GPU.Bytes}))
	}
	for _, major := range m.CUDA {
		c.cuda[major]++
	}
	if len(m.Stubs) > 0 {
		c.Stubs = append(c.Stubs, m.Path)
	}
	if m.Starts != "" {
		c.starts[m.Starts] = true
	}
	absent := slices.Clone(m.Absent)
	for _, l := range m.Loads {
		if l.Driver == "" && l.Rule == string(loader.NotFound) && !slices.Contains(absent, l.Name) && l.Cause == "" {
			absent = append(absent, l.Name)
		}
	}
	for _, name := range absent {
		c.absent[name] = append(c.absent[name], m.Path)
	}
	c.refer(m)
}

// largest sorts files by their bytes, and keeps the first.
func largest(all []Sized) []Sized {
	slices.SortStableFunc(all, func(a, b Sized) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Path, b.Path))
	})
	return all[:min(len(all), mostLargest)]
}

// refer counts the store paths that a file names.
func (c *counted) refer(m *File) {
	for _, ref := range m.References {
		c.refs[ref.Object]++
	}
}

// Packages returns the packages once all files were read, by their paths. saved says by how much the closure of a
// package would be smaller without one of its references; it may be nil.
func (r *Reader) Packages(saved func(pkg, ref string) (int64, bool)) []*Package {
	all := make([]*Package, 0, len(r.order))
	for _, at := range slices.Sorted(slices.Values(r.order)) {
		c := r.packages[at]
		c.GPU.Code = c.GPU.sum.List()
		for _, major := range slices.Sorted(maps.Keys(c.cuda)) {
			c.CUDA = append(c.CUDA, Count{major, c.cuda[major]})
		}
		for _, name := range slices.Sorted(maps.Keys(c.absent)) {
			n := 0
			for _, file := range c.absent[name] {
				if !c.starts[file] {
					n++
				}
			}
			if n > 0 {
				c.NotFound = append(c.NotFound, Count{name, n})
			}
		}
		for _, object := range slices.Sorted(maps.Keys(c.refs)) {
			ref := PackageReference{Object: object, Files: c.refs[object]}
			if object != "" && NameOf(at) != at && saved != nil {
				if n, ok := saved(at, object); ok {
					ref.Bytes = &n
				}
			}
			c.References = append(c.References, ref)
		}
		slices.SortFunc(c.Links, func(a, b Link) int { return strings.Compare(a.Path, b.Path) })
		all = append(all, &c.Package)
		r.sum.Bytes += c.Bytes
		r.sum.GPUBytes += c.GPU.Bytes
	}
	r.sum.Packages = len(all)
	return all
}

// Listed returns how many files were listed so far.
func (r *Reader) Listed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum.Files
}

// Summary returns what ends the document, after [Reader.Packages].
func (r *Reader) Summary() *Summary { return &r.sum }

// WithoutOthers returns how many bytes of some code no GPU of the targets could use.
func WithoutOthers(code []gpucode.Listed, targets []gpucode.Target) (n uint64) {
	for i := range code {
		if !code[i].Asked(targets) {
			n += code[i].Bytes
		}
	}
	return n
}

// Add adds a package of another document.
func (s *Summary) Add(p *Package) {
	s.Packages++
	for _, n := range p.Kinds {
		s.Files += n
	}
	s.Bytes += p.Bytes
	s.GPUBytes += p.GPU.Bytes
}
