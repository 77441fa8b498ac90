package runpath

import (
	"fmt"
	"strings"
)

// originWords are what becomes of $ORIGIN on its way through make, shells and cmake, and what
// other systems have in its place (dyld(1)).
var originWords = []string{"$$ORIGIN", "\\$ORIGIN", "$(ORIGIN)", "{ORIGIN}", "RIGIN", "ORIGIN", "%ORIGIN%", "$origin",
	"@loader_path", "@executable_path"}

// Meant returns the entries that a mangled entry was most likely meant to be, none if that is not known. ok is false
// for text that looks like an entry.
func Meant(entry string) (entries []string, ok bool) {
	text := strings.Trim(entry, `'"`+" \t\r\n")
	text = strings.ReplaceAll(text, `\$`, "$")
	separator := ";" // of LD_LIBRARY_PATH alone
	if !strings.Contains(text, separator) && isCommaList(text) {
		separator = ","
	}
	if strings.Contains(text, separator) {
		for part := range strings.SplitSeq(text, separator) {
			if more, mangled := Meant(part); mangled {
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

// isCommaList reports whether a text is several entries separated by commas, like the options of -Wl. A directory may
// have a comma in its name.
func isCommaList(text string) bool {
	if !strings.Contains(text, ",") {
		return false
	}
	for part := range strings.SplitSeq(text, ",") {
		if _, mangled := Meant(part); part != "" && !mangled && !FromOrigin(part) {
			return false
		}
	}
	return true
}

// Literally says that an entry is not what was meant.
func Literally(entries []string) string {
	if len(entries) == 0 {
		return "is searched literally"
	}
	return fmt.Sprintf("is searched literally: %s was probably meant", List(entries))
}

// What is wrong with such entries; NotAToken of the token.
const (
	NotAToken  = "has %s, which the loader does not know and takes as part of a file name"
	IsRelative = "is relative: it is searched below the working directory"
)

// FromOrigin reports whether an entry is absolute, or begins with the file's own directory.
func FromOrigin(entry string) bool {
	return strings.HasPrefix(entry, "/") || strings.HasPrefix(entry, "$ORIGIN") || strings.HasPrefix(entry, "${ORIGIN}")
}

// Doubt returns what is wrong with an entry for every file and host, "" for nothing.
func Doubt(entry string) string {
	if entries, ok := Meant(entry); ok {
		return Literally(entries)
	}
	if token := UnknownToken(entry); token != "" {
		return fmt.Sprintf(NotAToken, token)
	}
	if !FromOrigin(entry) {
		return IsRelative
	}
	return ""
}

// UnknownToken returns the first $NAME of an entry that is not a token of the loader, or "".
func UnknownToken(entry string) string {
	for i := 0; i < len(entry); i++ {
		if entry[i] != '$' || TokenAt(entry[i:]) != "" {
			continue
		}
		j := i + 1
		for j < len(entry) && entry[j] != '/' && entry[j] != '$' {
			j++
		}
		return entry[i:j]
	}
	return ""
}
