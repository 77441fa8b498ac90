package references

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Pattern says which paths are meant.
type Pattern struct{ text string }

// ParsePattern returns a pattern of path.Match. One that begins with a slash is for a path, and all that is below it;
// any other for one component of a path, such as the name of a store path.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{text}
	if text != "" && text[0] == '/' {
		p.text = path.Clean(text)
	}
	switch _, err := path.Match(p.text, ""); {
	case err != nil || text == "" || !strings.HasPrefix(text, "/") && strings.Contains(text, "/"):
		return p,
			fmt.Errorf("%q is not a pattern for a path, which begins with a slash, or for a name in one, which has none", text)
	case text[0] == '/' && len(p.mark()) < 2:
		return p, fmt.Errorf("%q does not begin with a directory's name", text)
	case len(p.text) >= longest:
		return p, fmt.Errorf("%.20q... is longer than any path", text)
	}
	return p, nil
}

// Match reports whether a path is meant.
func (p Pattern) Match(name string) bool {
	is := func(s string) bool { ok, _ := path.Match(p.text, s); return ok }
	components := strings.Split(path.Clean(name), "/")
	if p.text[0] != '/' {
		return slices.ContainsFunc(components, is)
	}
	n := strings.Count(p.text, "/") + 1
	return len(components) >= n && is(strings.Join(components[:n], "/"))
}

// mark is what every path has in it that begins as a pattern for paths does; "" of one for names.
func (p Pattern) mark() string {
	if p.text[0] != '/' {
		return ""
	}
	if i := strings.IndexAny(p.text, `*?[\`); i >= 0 {
		return p.text[:i]
	}
	return p.text
}
