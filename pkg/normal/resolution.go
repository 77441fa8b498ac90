package normal

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/runpath"
)

// Resolution returns the resolution note for a file that needs some libraries and has a
// run path. What a directory of the host's driver, a compat or a stub directory holds is the
// host's business, and is not said whatever it holds now: the loader looks into it, as it does into
// what the note kept searches.
func (m *Maps) Resolution(f File, needed []string, list runpath.List, kept resolution.Note) resolution.Note {
	entries := m.Entries(f)
	links := []string{runpath.Key(m.DriverLink), driver.Link, driver.Link32}
	hosts := func(entry string) bool {
		key := runpath.Key(entry)
		return slices.Contains(links, key) || entries.IsCompat(key) || m.Compat != "" && key == runpath.Key(m.Compat) ||
			m.StubDirs.Contains(key) || kept.Searches(entry)
	}
	// A name with a colon would be two places, and an empty one is the note's end.
	needed = slices.DeleteFunc(slices.Clone(needed), func(name string) bool {
		return name == "" || strings.Contains(name, ":")
	})
	return resolution.Build(needed, list, hosts, m.files)
}
