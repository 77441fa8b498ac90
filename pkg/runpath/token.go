package runpath

import (
	"path"
	"slices"
	"strings"
)

// Tokens are the values of the dynamic string tokens in one file's strings, as in glibc's loader (elf/dl-load.c); ""
// for none.
type Tokens struct {
	Origin, Lib, Platform string
	Secure                bool     // a set-user-ID program is being started
	Executable            bool     // the strings are the program's own
	Trusted               []string // default directories
}

// HasToken reports whether a string has a dynamic string token that the loader knows
// (_dl_dst_count).
func HasToken(s string) bool {
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

// Ignored says why an entry of a list for which Expand returns "" is not searched.
func (t Tokens) Ignored() string {
	if t.Secure {
		return "ignored: in a set-user-ID program $ORIGIN counts only at the start of an entry, and in the program's own " +
			"list only where it leads to a default directory"
	}
	return "ignored: it has a token that has no value here"
}

// maxExpanded bounds the result of Expand, in bytes: the loader cannot open a path of PATH_MAX or more.
const maxExpanded = 8192

// Expand is _dl_dst_substitute of elf/dl-load.c: it replaces $ORIGIN, $LIB and $PLATFORM, with or without braces. The
// result is "" if the string is ignored. A result that is too long for a path may be cut, and is still too long then.
func (t Tokens) Expand(s string) string {
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
			if rest := s[i+len(token):]; !t.Secure || i == 0 && (rest == "" || rest[0] == '/') {
				value = t.Origin
			}
			check = t.Secure && t.Executable
		case "PLATFORM":
			value = t.Platform
		case "LIB":
			value = t.Lib
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

func (t Tokens) isTrusted(p string) bool {
	normal := strings.TrimSuffix(path.Clean("/"+p), "/") + "/"
	return slices.ContainsFunc(t.Trusted, func(dir string) bool { return strings.HasPrefix(normal, dir) })
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

// libNames are what loaders in use put for $LIB (SLIBDIR's last part; Debian's multiarch names).
var libNames = []string{"lib", "lib64", "lib32", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib/i386-linux-gnu"}

// Directories returns the absolute directories that an entry of a run path may stand for if its loader is not known.
// $ORIGIN is origin, $LIB is one of the names in use, and $PLATFORM has no known value.
func Directories(entry, origin string) []string {
	var dirs []string
	for _, lib := range libNames {
		dir := Tokens{Origin: origin, Lib: lib}.Expand(entry)
		if !strings.HasPrefix(dir, "/") || strings.Contains(dir, "$") || len(dirs) > 0 && dir == dirs[0] {
			break // there is no $LIB in it
		}
		dirs = append(dirs, dir)
	}
	return dirs
}
