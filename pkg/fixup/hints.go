package fixup

import (
	"bufio"
	"io"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/nixpkgs"
)

// Hints says which package usually has a library.
type Hints struct {
	// Unread counts the lines in neither format, which Read passed over. First is the first of them.
	Unread int
	First  string

	exact map[string][]string // by soname, from files
}

// attribute returns the nixpkgs attributes of packages that have a library, the
// likeliest first.
func (h *Hints) attribute(soname string) []string {
	if h != nil {
		if a := h.exact[soname]; a != nil {
			return a
		}
	}
	if a := nixpkgs.Package(soname); a != "" {
		return []string{a}
	}
	return nil
}

// Read adds hints: lines "SONAME ATTRIBUTE", or what nix-locate prints ("ATTRIBUTE.OUTPUT
// SIZE TYPE PATH"). Other lines are passed over, and counted.
func (h *Hints) Read(r io.Reader) error {
	if h.exact == nil {
		h.exact = map[string][]string{}
	}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
		soname, attribute := fields[0], ""
		switch {
		case len(fields) == 2:
			attribute = fields[1]
		case len(fields) >= 4 && strings.HasPrefix(fields[len(fields)-1], "/"):
			soname, attribute = path.Base(fields[len(fields)-1]), strings.Trim(fields[0], "()")
			attribute = strings.TrimSuffix(attribute, ".out")
		}
		switch {
		case attribute == "" || len(fields) == 2 && (!libraryName(soname) || strings.ContainsAny(soname, "\"'{}[]:,=")):
			if h.Unread++; h.Unread == 1 {
				h.First = line
			}
		case libraryName(soname) && !slices.Contains(h.exact[soname], attribute):
			h.exact[soname] = append(h.exact[soname], attribute)
		}
	}
	return scanner.Err()
}
