package autopatchelf

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
)

// nixpkgs' auto-patchelf reads its command line with Python's argparse: an option of
// nargs="*" takes every argument up to the next option, a second one of the same name
// replaces the first, names may be cut short, and --extra-args takes all that is left.

// argparseLists are the options that take lists there.
var argparseLists = []string{"paths", "libs", "runtime-dependencies", "append-rpaths", "ignore-missing"}

// argparseSwitches are the options of nixpkgs' program that take no value.
var argparseSwitches = []string{"no-recurse", "keep-libc", "preserve-origin", "relativize-rpath", "ignore-existing",
	"structured-logs"}

// autoPatchelfArguments turns a command line of nixpkgs' auto-patchelf, told by its
// --paths, into one in which each option takes one value and the paths stand at the
// end. Any other is returned as it is. valued are our own options that take a value.
func autoPatchelfArguments(args []string, valued func(name string) bool) ([]string, error) {
	is := func(option string) func(arg string) bool {
		return func(arg string) bool {
			name, _, _ := strings.Cut(arg, "=")
			name, dashes := strings.CutPrefix(name, "--")
			full, err := argparseName(name)
			return dashes && err == nil && full == option
		}
	}
	end := len(args)
	if i := slices.IndexFunc(args, is("extra-args")); i >= 0 {
		end = i
	}
	if end == 0 || !slices.ContainsFunc(args[1:end], is("paths")) {
		return args, nil
	}
	lists := map[string][]string{}
	out := []string{args[0], "--in-build"}
	for i := 1; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			return nil, command.Misusef("unrecognized argument %q: with --paths, every argument belongs to an option", arg)
		}
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		full, err := argparseName(name)
		if err != nil {
			return nil, err
		}
		switch {
		case full == "extra-args":
			for _, extra := range args[i+1:] {
				out = append(out, "--extra-arg="+extra)
			}
			i = len(args)
		case slices.Contains(argparseLists, full):
			list := []string{}
			if given {
				list = append(list, value)
			}
			for !given && i+1 < len(args) && (!strings.HasPrefix(args[i+1], "-") || args[i+1] == "-") {
				i++
				list = append(list, args[i])
			}
			lists[full] = list
		case full != "":
			out = append(out, "--"+full)
		default: // one of ours
			out = append(out, arg)
			if !given && valued(name) && i+1 < len(args) {
				i++
				out = append(out, args[i])
			}
		}
	}
	for _, name := range argparseLists[1:] {
		for _, value := range lists[name] {
			out = append(out, "--"+name+"="+value)
		}
	}
	return append(append(out, "--"), lists["paths"]...), nil
}

// argparseName returns the option of nixpkgs' program that a name stands for, which
// may be its beginning; "" for none.
func argparseName(name string) (string, error) {
	all := slices.Concat(argparseLists, argparseSwitches, []string{"extra-args"})
	if slices.Contains(all, name) {
		return name, nil
	}
	if name == "relative-rpaths" { // as a later proposal calls it
		return "relativize-rpath", nil
	}
	var fits []string
	for _, full := range all {
		if len(name) >= 2 && strings.HasPrefix(full, name) {
			fits = append(fits, full)
		}
	}
	switch len(fits) {
	case 0:
		return "", nil
	case 1:
		return fits[0], nil
	}
	return "", command.Misusef("ambiguous option: --%s could match --%s", name, strings.Join(fits, ", --"))
}
