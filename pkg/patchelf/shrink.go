package patchelf

import (
	"fmt"
	"slices"
	"strings"
)

// Machine returns the e_machine of the ELF file that a path leads to, and ok false
// where there is none, or what is there is no ELF file.
type Machine func(path string) (machine uint16, ok bool, err error)

// shrink returns a run path without the absolute directories that hold none of the
// needed libraries, for the machine, that a directory before them does not hold.
// Where prefixes are given, a directory must begin with one of them to stay.
// Entries that are not absolute, such as $ORIGIN, stay.
func shrink(list string, needed []string, machine uint16, prefixes []string, machineOf Machine) (string, error) {
	found := make([]bool, len(needed))
	kept := ""
	for _, dir := range split(list) {
		keep := dir != "" && dir[0] != '/'
		allowed := len(prefixes) == 0 || slices.ContainsFunc(prefixes,
			func(p string) bool { return strings.HasPrefix(dir, p) })
		if !keep && allowed {
			for i, name := range needed {
				if found[i] {
					continue
				}
				m, ok, err := machineOf(dir + "/" + name)
				if err != nil {
					return "", fmt.Errorf("%s/%s: %w", dir, name, err)
				}
				if ok && m == machine {
					found[i], keep = true, true
				}
			}
		}
		if keep {
			kept = join(kept, dir)
		}
	}
	return kept, nil
}

// join appends an entry to a list.
func join(list, entry string) string {
	if list == "" {
		return entry
	}
	return list + ":" + entry
}
