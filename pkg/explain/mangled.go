package explain

import (
	"fmt"
	"strings"

	"cuda-runpath/pkg/runpath"
)

// mangled reports an entry that is not what was meant.
func (c *Case) mangled(e *entry) bool {
	entries, ok := runpath.Meant(e.text)
	if !ok || e.dir != "" && c.Loader.Files().IsDir(e.dir) || runpath.TokenAt(e.text) != "" &&
		!strings.ContainsAny(e.text, ";, \t\r\n'\"") {
		return false
	}
	f := Conclusion{ID: MangledEntry, Message: fmt.Sprintf("entry %d, %q, %s", e.position, e.text,
		runpath.Literally(entries))}
	f.Remedy = c.replace(e, entries...)
	c.report(e.in(f))
	return true
}
