package main

import (
	"path/filepath"
	"strings"
)

// known returns why a difference is as it should be, or "".
func known(c call, what string, o, t side) string {
	switch {
	case t.status == -1:
		return "patchelf crashes"
	case what == "status" && filepath.Base(c.file) == "detached.debug" && strings.Contains(o.stderr, "'.dynamic'"):
		return "patchelf before 0.19 reads a dynamic section from a debug file, which holds none"
	case what == "readable" && o.err == nil:
		return "patchelf leaves a file that no loader takes: " + t.err.Error()
	}
	return ""
}
