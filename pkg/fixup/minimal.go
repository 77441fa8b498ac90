package fixup

import (
	"slices"

	"cuda-runpath/pkg/runpath"
)

// minimal drops the entries that nothing uses; those that were asked for by name stay.
func (r *Resolver) minimal(o *Object, p *Plan, l runpath.List) (runpath.List, []string) {
	names := make([]string, 0, len(p.Needs))
	for _, n := range p.Needs {
		names = append(names, n.Names...)
	}
	entries := r.entries(o, l)
	for i := range entries {
		entries[i].text = runpath.Key(l[i])
	}
	return runpath.Shrink(l, runpath.Use{
		Names: names,
		Keep:  func(e string) bool { return slices.Contains(r.first, e) || slices.Contains(r.last, e) },
		Holds: func(key, name string) bool {
			i := slices.IndexFunc(entries, func(e entry) bool { return e.text == key })
			return r.takesIn(o, entries[i], name) != nil
		},
	})
}
