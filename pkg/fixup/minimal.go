package fixup

import "cuda-runpath/pkg/runpath"

// minimal drops the entries that nothing uses; those that were asked for by name stay.
func (r *Resolver) minimal(o *Object, p *Plan, l runpath.List) (runpath.List, []string) {
	keep := map[string]bool{}
	for _, e := range clean(append(append([]string(nil), r.s.RuntimeDependencies...), r.s.AppendRunpaths...)) {
		keep[e] = true
	}
	var names []string
	for _, n := range p.Needs {
		names = append(names, n.Names...)
	}
	return runpath.Shrink(l, runpath.Use{
		Names: names,
		Keep:  func(e string) bool { return keep[e] },
		Holds: func(e, name string) bool {
			dir, ok := expand(o, e)
			return ok && r.takes(o, dir, name) != nil
		},
	})
}
