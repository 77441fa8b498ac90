package main

import (
	"path/filepath"
	"slices"
	"strings"
)

// concerns says which options may change what facts tells.
var concerns = map[string][]string{
	"interpreter": {"--set-interpreter"},
	"stack":       {"--set-execstack", "--clear-execstack"},
	"os abi":      {"--set-os-abi"},
	"DT_SONAME":   {"--set-soname"},
	"DT_FLAGS":    {},
	"DT_FLAGS_1":  {"--no-default-lib"},
	"DT_DEBUG":    {"--add-debug-tag"},
	"resolution note": {"--build-resolution-cache", "--set-rpath", "--add-rpath", "--remove-rpath", "--shrink-rpath",
		"--add-needed", "--remove-needed", "--replace-needed", "--set-interpreter"},
	"needed":          {"--add-needed", "--remove-needed", "--replace-needed"},
	"versions needed": {"--replace-needed"},
	"symbols":         {"--replace-needed", "--clear-symbol-version"},
	"DT_RUNPATH":      {"--set-rpath", "--add-rpath", "--remove-rpath", "--shrink-rpath"},
	"DT_RPATH":        {"--set-rpath", "--add-rpath", "--remove-rpath", "--shrink-rpath"},
}

// known returns why a difference is as it should be, or "". Where the reason is that
// patchelf is wrong, what it did is held against what it was asked for.
func known(c call, what string, o, t side) string {
	has := func(option string) bool { return slices.Contains(c.args, option) }
	asked, concerned := concerns[what]
	switch {
	case t.status == -1:
		return "patchelf crashes"
	case what == "status" && filepath.Base(c.file) == "detached.debug" &&
		(strings.Contains(o.stderr, "'.dynamic'") || strings.Contains(t.stderr, "extends past file end")):
		return "patchelf reads or writes a dynamic section in a debug file, which holds none: other bytes, or none where " +
			"the file ends"
	case what == "readable" && o.err == nil:
		return "patchelf leaves a file that no loader takes: " + t.err.Error()
	case concerned && !slices.ContainsFunc(asked, has) && o.facts[what] == c.before[what]:
		return "patchelf changes what no option is about: " + what
	case what == "interpreter" && o.facts[what] == c.last("--set-interpreter"):
		return "patchelf leaves another interpreter than the one it was given"
	case (what == "DT_RUNPATH" || what == "DT_RPATH") && has("--set-rpath") && !has("--remove-rpath") &&
		!has("--shrink-rpath") &&
		o.facts["DT_RUNPATH"]+o.facts["DT_RPATH"] == c.last("--set-rpath"):
		return "patchelf loses the run path that it was given"
	case (what == "DT_RUNPATH" || what == "DT_RPATH") && has("--add-rpath") &&
		t.facts["DT_RUNPATH"]+t.facts["DT_RPATH"] == "" &&
		strings.HasSuffix(o.facts["DT_RUNPATH"]+o.facts["DT_RPATH"], c.last("--add-rpath")):
		return "patchelf loses the run path that it was given"
	case what == "needed" && t.facts[what] == "" && c.before[what] != "" && !has("--remove-needed"):
		return "patchelf loses all needed libraries"
	case what == "DT_FLAGS_1" && strings.HasPrefix(filepath.Base(c.file), "s390x") &&
		strings.HasSuffix(t.facts[what], "000000"):
		return "patchelf sets DF_1_NODEFLIB in the wrong byte order"
	case (what == "versions needed" || what == "symbols") && c.replacesRemoved():
		return "a needed library that is removed and replaced in one call: its versions stay its own"
	}
	return ""
}

// last returns the argument of the last occurrence of an option.
func (c call) last(option string) string {
	value := ""
	for i, a := range c.args[:max(len(c.args)-1, 0)] {
		if a == option {
			value = strings.TrimPrefix(c.args[i+1], "@@")
		}
	}
	return value
}

func (c call) replacesRemoved() bool {
	for i, a := range c.args {
		if a != "--replace-needed" {
			continue
		}
		for j, b := range c.args {
			if b == "--remove-needed" && c.args[j+1] == c.args[i+1] {
				return true
			}
		}
	}
	return false
}
