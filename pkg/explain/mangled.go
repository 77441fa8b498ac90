package explain

import (
	"fmt"
	"strings"

	"cuda-runpath/pkg/runpath"
)

// originWords are what becomes of $ORIGIN on its way through make, shells and cmake, and what
// other systems have in its place (dyld(1)).
var originWords = []string{"$$ORIGIN", "\\$ORIGIN", "$(ORIGIN)", "{ORIGIN}", "RIGIN", "ORIGIN", "%ORIGIN%", "$origin", "@loader_path", "@executable_path"}

// meant returns the entries that were most likely meant by one that is none; ok is false where it
// looks like an entry. No entries: what was meant is not known.
func meant(entry string) (entries []string, ok bool) {
	text := strings.Trim(entry, `'"`+" \t\r\n")
	text = strings.ReplaceAll(text, `\$`, "$")
	if strings.Contains(text, ";") { // no separator but LD_LIBRARY_PATH's
		for part := range strings.SplitSeq(text, ";") {
			if more, mangled := meant(part); mangled {
				entries = append(entries, more...)
			} else if part != "" {
				entries = append(entries, part)
			}
		}
		return entries, true
	}
	for _, word := range originWords {
		if rest, found := strings.CutPrefix(text, word); found && (rest == "" || rest[0] == '/') {
			return []string{"$ORIGIN" + rest}, true
		}
	}
	if strings.HasPrefix(text, "~") || strings.HasPrefix(text, "@rpath") {
		return nil, true
	}
	if text != entry && text != "" {
		return []string{text}, true
	}
	return nil, false
}

// literally says that an entry is not what was meant.
func literally(entries []string) string {
	if len(entries) == 0 {
		return "is searched literally"
	}
	return fmt.Sprintf("is searched literally: %s was probably meant", runpath.List(entries))
}

const (
	notAToken  = "has %s, which the loader does not know: it takes it for a part of a file name"
	isRelative = "is relative: it is searched below the working directory"
)

// fromOrigin reports whether an entry is absolute, or begins with the file's own directory.
func fromOrigin(entry string) bool {
	return strings.HasPrefix(entry, "/") || strings.HasPrefix(entry, "$ORIGIN") || strings.HasPrefix(entry, "${ORIGIN}")
}

// Doubt returns what is wrong with an entry whatever the file and the host, "" for nothing.
func Doubt(entry string) string {
	if entries, ok := meant(entry); ok {
		return literally(entries)
	}
	if token := unknownToken(entry); token != "" {
		return fmt.Sprintf(notAToken, token)
	}
	if !fromOrigin(entry) {
		return isRelative
	}
	return ""
}

// mangled reports an entry that is not what was meant.
func (c *Case) mangled(e *entry) bool {
	entries, ok := meant(e.text)
	if !ok || e.dir != "" && c.Loader.Files().IsDir(e.dir) || runpath.TokenAt(e.text) != "" && !strings.ContainsAny(e.text, "; \t\r\n'\"") {
		return false
	}
	f := Conclusion{ID: MangledEntry, Message: fmt.Sprintf("entry %d, %q, %s", e.position, e.text, literally(entries))}
	f.Remedy = c.replace(e, entries...)
	c.report(e.in(f))
	return true
}
