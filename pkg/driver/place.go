package driver

import (
	"debug/elf"
	"fmt"
	"path"
	"strings"

	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// The driver links: where NixOS links the user-space libraries of the host's driver.
const (
	Prefix = "/run/opengl-driver"
	Link   = Prefix + "/lib"
	Link32 = "/run/opengl-driver-32/lib" // for 32-bit x86 programs on x86-64
)

// LinkFor returns the driver link for files of a machine.
func LinkFor(m elf.Machine) string {
	if m == elf.EM_386 {
		return Link32
	}
	return Link
}

// StubDirs recognizes directories of link-time stubs, which must never be searched at
// run time. The zero value knows the layouts of the CUDA toolkit and of nixpkgs.
type StubDirs struct {
	// Patterns are further directories that count as stubs, in the syntax of
	// path.Match; one without a slash is matched against each path component,
	// any other against the whole entry and against each directory above it.
	Patterns []string
	// Store is the directory of a Nix store that is not called "store", or "".
	Store string
}

// CheckPattern refuses what is not a pattern of path.Match, and the empty one, which nothing matches.
func CheckPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return fmt.Errorf("%q is not a valid pattern", pattern)
	}
	return nil
}

// Contains reports whether a run path entry is a stub directory: it has a component
// named "stubs" or "stub", or is below a store path whose name ends in "-stubs",
// whatever the store is called, or matches one of the patterns.
func (s StubDirs) Contains(entry string) bool {
	if len(s.Patterns) == 0 && !strings.Contains(entry, "stub") {
		return false
	}
	components := strings.Split(entry, "/")
	for _, c := range components {
		if c == "stubs" || c == "stub" {
			return true
		}
	}
	for _, object := range []string{store.Path(entry), store.Name(entry), s.inStore(entry)} {
		if strings.HasSuffix(object, "-stubs") {
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

func (s StubDirs) inStore(entry string) string {
	if s.Store == "" {
		return ""
	}
	return store.In(runpath.Key(s.Store), runpath.Key(entry))
}

// LibCUDA is the soname of the CUDA driver API, by which compat directories are known.
const LibCUDA = "libcuda.so.1"

// CompatDirs recognizes compat directories, whose libcuda.so.1 must win over the host
// driver's. The zero value knows the layouts of nixpkgs (${cuda_compat}/compat), of
// NVIDIA's packages (/usr/local/cuda-13.0/compat) and of its container images (lib and
// lib.real below that).
type CompatDirs struct {
	Named string // the directory that the user named, "" for none
}

// Contains reports whether a run path entry, or a directory, is a compat directory:
// it is the one that was named, or its last component is "compat", or "lib" or
// "lib.real" directly below one, and it holds libcuda.so.1 now. holds reports whether
// the directory has a file of a name.
func (c CompatDirs) Contains(entry string, holds func(name string) bool) bool {
	if entry == "" {
		return false
	}
	key := runpath.Key(entry)
	if c.Named != "" && key == runpath.Key(c.Named) {
		return true
	}
	for _, last := range []string{"/lib", "/lib.real"} {
		if above, ok := strings.CutSuffix(key, last); ok {
			key = above
			break
		}
	}
	return path.Base(key) == "compat" && holds(LibCUDA)
}
