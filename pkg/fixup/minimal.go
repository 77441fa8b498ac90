package fixup

import (
	"slices"

	"cuda-runpath/pkg/runpath"
)

// minimal drops the entries that neither a need nor what the file may open by name (see Sources.Literals) uses.
// Entries that were asked for by name stay. entries say where the list leads.
func (r *Resolver) minimal(p *Plan, l runpath.List, entries []entry) (runpath.List, []string) {
	names := make([]string, 0, len(p.Needs))
	for _, n := range p.Needs {
		names = append(names, n.names...)
	}
	names = append(names, p.Object.literals...)
	return runpath.Shrink(l, runpath.Use{
		Names: names,
		Keep:  func(e string) bool { return slices.Contains(r.first, e) || slices.Contains(r.last, e) },
		Holds: func(key, name string) bool {
			i := slices.IndexFunc(entries, func(e entry) bool { return e.text == key || runpath.Key(e.text) == key })
			return r.ix.takesIn(p.Object, entries[i], name) != nil
		},
	})
}
