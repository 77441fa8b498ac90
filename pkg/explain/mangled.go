package explain

import (
	"strings"

	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/runpath"
)

// mangled reports an entry that is not what was meant.
func (c *Case) mangled(e *entry) bool {
	entries, ok := runpath.Meant(e.text)
	if !ok || e.dir != "" && c.Loader.Files().IsDir(e.dir) || runpath.TokenAt(e.text) != "" &&
		!strings.ContainsAny(e.text, ";, \t\r\n'\"") {
		return false
	}
	c.report(e.in(on(finding.MangledEntry, nil, nil, c.replace(e, entries...), "entry %d, %q, %s", e.position, e.text,
		runpath.Literally(entries))))
	return true
}
