// Package store recognizes paths in a Nix or Guix store.
package store

import (
	"path"
	"strings"
)

// digits is the length of the hash in a store path's name (Nix manual, "Store path").
const digits = 32

// Path returns the object of a store that a path is in, such as
// /nix/store/HASH-NAME, or "". Stores have other places too, so the name decides: a
// component HASH-NAME directly in a directory called "store".
func Path(p string) string {
	parent, start := "", 0
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		if parent == "store" && isName(p[start:i]) {
			return p[:i]
		}
		parent, start = p[start:i], i+1
	}
	return ""
}

// In returns the object of the store in a directory that a path is in, whatever the
// directory is called; or "".
func In(directory, p string) string {
	directory = strings.TrimRight(directory, "/") + "/"
	name, _, _ := strings.Cut(strings.TrimPrefix(p, directory), "/")
	if !strings.HasPrefix(p, directory) || !isName(name) {
		return ""
	}
	return directory + name
}

// Object returns what of a store a path is in: an object of a store wherever it is, or of the one in the directory that
// is named; or "".
func Object(named, p string) string {
	if object := Path(p); object != "" || named == "" {
		return object
	}
	return In(named, p)
}

// Contains reports whether a path is in a store.
func Contains(p string) bool { return Path(p) != "" }

// Name returns the name of the last component HASH-NAME of a path, whatever the directory
// that it is in is called, where HASH has only Nix's digits: "hello-2.12"; else "".
func Name(p string) string {
	for ; p != "" && p != "/" && p != "."; p = path.Dir(p) {
		base := path.Base(p)
		if isName(base) && !strings.ContainsAny(base[:digits], "eotu") {
			return base[digits+1:]
		}
	}
	return ""
}

// isName reports whether a file name is HASH-NAME. References that nuke-refs cut have
// the hash eee…, so every lower-case letter counts as a digit, not only Nix's base 32.
func isName(name string) bool {
	return len(name) > digits+1 && name[digits] == '-' && !strings.ContainsFunc(name[:digits], func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}
