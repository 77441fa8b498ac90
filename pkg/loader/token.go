package loader

import (
	"path"
	"slices"
	"strings"
)

// tokens is what the dynamic string tokens of one object's strings stand for.
type tokens struct {
	origin, lib, platform string
	secure                bool     // a set-user-ID program is being started
	executable            bool     // the strings are the program's own
	trusted               []string // default directories
}

// hasToken reports whether a string has a dynamic string token that the loader knows
// (_dl_dst_count).
func hasToken(s string) bool {
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || TokenAt(s[i:]) != "" {
			return i >= 0
		}
		s = s[i+1:]
	}
}

// HasOrigin reports whether a run path, or an entry of one, has $ORIGIN.
func HasOrigin(list string) bool {
	for {
		i := strings.IndexByte(list, '$')
		if i < 0 || strings.Trim(TokenAt(list[i:]), "${}") == "ORIGIN" {
			return i >= 0
		}
		list = list[i+1:]
	}
}

// ignored says why an entry of a list for which expand returns "" is not searched.
func (t tokens) ignored() string {
	if t.secure {
		return "ignored: in a set-user-ID program $ORIGIN counts only at the start of an entry, and in the program's own list only where it leads to a default directory"
	}
	return "ignored: it has a token that has no value here"
}

// maxExpanded bounds the result of expand, in bytes: the loader cannot open a path of PATH_MAX or more.
const maxExpanded = 8192

// expand is _dl_dst_substitute of elf/dl-load.c: it replaces $ORIGIN, $LIB and
// $PLATFORM, with or without braces. The result is "" where the string is to be ignored.
// One that is too long for a path is cut off at some length that still is.
func (t tokens) expand(s string) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	check := false
	for i := 0; i < len(s) && b.Len() <= maxExpanded; {
		token := TokenAt(s[i:])
		var value string
		switch strings.Trim(token, "${}") {
		case "":
			b.WriteByte(s[i])
			i++
			continue
		case "ORIGIN":
			// In a set-user-ID program $ORIGIN counts only as the first component.
			if rest := s[i+len(token):]; !t.secure || i == 0 && (rest == "" || rest[0] == '/') {
				value = t.origin
			}
			check = t.secure && t.executable
		case "PLATFORM":
			value = t.platform
		case "LIB":
			value = t.lib
		}
		if value == "" {
			return ""
		}
		b.WriteString(value)
		i += len(token)
	}
	// … and the result must be in a default directory (is_trusted_path_normalize).
	if out := b.String(); !check || t.isTrusted(out) {
		return out
	}
	return ""
}

func (t tokens) isTrusted(p string) bool {
	normal := strings.TrimSuffix(path.Clean("/"+p), "/") + "/"
	return slices.ContainsFunc(t.trusted, func(dir string) bool { return strings.HasPrefix(normal, dir) })
}

// splitList splits a list at any of the separators. An empty list has no entries.
func splitList(list, separators string) []string {
	if list == "" {
		return nil
	}
	for _, other := range separators[1:] {
		list = strings.ReplaceAll(list, string(other), separators[:1])
	}
	return strings.Split(list, separators[:1])
}

// TokenAt returns the dynamic string token that a text begins with, its dollar and
// braces included, or "" (is_dst of elf/dl-load.c).
func TokenAt(s string) string {
	for _, token := range [...]string{"$ORIGIN", "${ORIGIN}", "$PLATFORM", "${PLATFORM}", "$LIB", "${LIB}"} {
		after, ok := strings.CutPrefix(s, token)
		if ok && (token[1] == '{' || after == "" || !(after[0] == '_' || after[0] >= '0' && after[0] <= '9' ||
			after[0] >= 'A' && after[0] <= 'Z' || after[0] >= 'a' && after[0] <= 'z')) {
			return token
		}
	}
	return ""
}
