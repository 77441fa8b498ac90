package driver

import (
	"debug/elf"
	"path"
	"strings"
)

// The driver links: where NixOS links the user-space libraries of the host's driver.
const (
	Link   = "/run/opengl-driver/lib"
	Link32 = "/run/opengl-driver-32/lib" // for 32-bit x86 programs on x86-64
)

// LinkFor returns the driver link for files of a machine.
func LinkFor(m elf.Machine) string {
	if m == elf.EM_386 {
		return Link32
	}
	return Link
}

// StubDirs tells directories of link-time stubs, which must never be searched at
// run time. The zero value knows the layouts of the CUDA toolkit and of nixpkgs.
type StubDirs struct {
	// Patterns are further directories that count as stubs, in the syntax of
	// path.Match; one without a slash is matched against each path component,
	// any other against the whole entry and against each directory above it.
	Patterns []string
}

// Contains tells whether a run path entry is a stub directory: it has a component
// named "stubs" or "stub", or lies below a Nix store path whose name ends in
// "-stubs", or matches one of the patterns.
func (s StubDirs) Contains(entry string) bool {
	components := strings.Split(entry, "/")
	for i, c := range components {
		if c == "stubs" || c == "stub" {
			return true
		}
		if strings.HasSuffix(c, "-stubs") && isStorePath(components[:i+1]) {
			return true
		}
	}
	for _, pattern := range s.Patterns {
		if strings.Contains(pattern, "/") {
			pattern = strings.TrimSuffix(pattern, "/")
			for dir := strings.TrimSuffix(entry, "/"); dir != "." && dir != "/" && dir != ""; dir = path.Dir(dir) {
				if ok, err := path.Match(pattern, dir); ok && err == nil {
					return true
				}
			}
			continue
		}
		for _, c := range components {
			if ok, err := path.Match(pattern, c); c != "" && ok && err == nil {
				return true
			}
		}
	}
	return false
}

// isStorePath tells whether the components name an object of a Nix store: what
// stands directly in /nix/store, and in any other store whatever is called
// HASH-NAME with a hash of 32 digits (Nix manual, "Store path"). References that
// were cut with nuke-refs have the hash eee…, so any letters count as digits.
func isStorePath(components []string) bool {
	n := len(components)
	if n == 4 && components[0] == "" && components[1] == "nix" && components[2] == "store" {
		return true
	}
	name := components[n-1]
	if len(name) < 34 || name[32] != '-' {
		return false
	}
	return !strings.ContainsFunc(name[:32], func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}

// IsCompatName tells whether a run path entry is named as a compat directory:
// its last component is "compat". Whether it is one depends on what it holds.
func IsCompatName(entry string) bool { return path.Base(entry) == "compat" }

// LibCUDA is the soname of the CUDA driver API, by which compat directories are known.
const LibCUDA = "libcuda.so.1"
