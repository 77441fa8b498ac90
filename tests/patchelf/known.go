package main

import (
	"slices"
	"strings"
)

// known returns why a difference is as it should be, or "".
func known(c call, what string, o, t side) string {
	has := func(option string) bool { return slices.Contains(c.args, option) }
	switch {
	case t.status == -1:
		return "patchelf crashes"
	case what == "DT_RUNPATH" && t.facts[what] == "" && o.facts[what] == "":
		return "" // cannot be: the facts are equal
	case has("") && strings.HasPrefix(what, "DT_"):
		return ""
	}
	return ""
}
