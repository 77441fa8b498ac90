package ambiguity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/store"
)

// origins tells by what of a build a directory came into a run path, as far as the variables of nixpkgs' setup.sh show
// it: what the linker was given, and which input brings the package that the directory is in.
type origins struct {
	flags  []linkFlag
	inputs []input
}

// linkFlag is a flag that names a directory, as it is written in a variable.
type linkFlag struct{ directory, text, variable string }

// input is a package that the build gets, and how: "in buildInputs", "propagated by a-1.0, which is in buildInputs".
type input struct{ path, how string }

// originsOf reads the environment of a build. Sources: nixpkgs' pkgs/stdenv/generic/setup.sh (the lists of inputs;
// propagation by files in nix-support) and build-support/bintools-wrapper (NIX_LDFLAGS).
func originsOf(env func(string) string) *origins {
	o := &origins{}
	for _, variable := range []string{"NIX_LDFLAGS", "NIX_CFLAGS_LINK"} {
		o.linkFlags(variable, strings.Fields(strings.ReplaceAll(env(variable), "-Wl,", "")))
	}
	const most = 64 << 20 // bytes of a file: more is no list of inputs
	structured := map[string]json.RawMessage{}
	if text, err := regular.Read(env("NIX_ATTRS_JSON_FILE"), most); err == nil {
		_ = json.Unmarshal(text, &structured) // what cannot be read is not said
	}
	for _, list := range []string{"buildInputs", "propagatedBuildInputs", "nativeBuildInputs",
		"propagatedNativeBuildInputs", "depsBuildBuild"} {
		paths := strings.Fields(env(list))
		_ = json.Unmarshal(structured[list], &paths)
		for _, p := range paths {
			o.add(p, "in "+list)
		}
	}
	for i := 0; i < len(o.inputs); i++ { // it grows
		by := o.inputs[i]
		for _, file := range []string{"propagated-build-inputs", "propagated-native-build-inputs"} {
			text, _ := regular.Read(filepath.Join(by.path, "nix-support", file), most)
			for _, p := range strings.Fields(string(text)) {
				o.add(p, fmt.Sprintf("propagated by %s, which is %s", inputName(by.path), by.how))
			}
		}
	}
	return o
}

func (o *origins) add(p, how string) {
	if path.IsAbs(p) && !slices.ContainsFunc(o.inputs, func(i input) bool { return i.path == p }) {
		o.inputs = append(o.inputs, input{p, how})
	}
}

// linkFlags notes -L and -rpath, with their directory behind them, behind "=" or ",", or as the next word.
func (o *origins) linkFlags(variable string, words []string) {
	for i, word := range words {
		for _, flag := range []string{"-L", "--rpath", "-rpath"} {
			rest, ok := strings.CutPrefix(word, flag)
			if !ok {
				continue
			}
			directory, text := strings.TrimLeft(rest, "=,"), word
			if directory == "" && i+1 < len(words) {
				directory, text = words[i+1], word+" "+words[i+1]
			}
			o.flags = append(o.flags, linkFlag{path.Clean(directory), text, variable})
			break
		}
	}
}

func inputName(p string) string { return cmp.Or(store.Name(p), p) }

// of returns what brought an entry; "" where nothing shows it.
func (o *origins) of(entry string) string {
	var why []string
	for _, f := range o.flags {
		if f.directory == path.Clean(entry) {
			why = append(why, f.text+" in "+f.variable)
			break
		}
	}
	for _, i := range o.inputs {
		if entry == i.path || strings.HasPrefix(entry, i.path+"/") {
			why = append(why, inputName(i.path)+" is "+i.how)
			break
		}
	}
	return strings.Join(why, ", ")
}

// explain adds to each finding of a file which flag or input brought the entries that it is about.
func (o *origins) explain(r *explain.Report) {
	for i := range r.Findings {
		f := &r.Findings[i]
		positions := []int{f.Position}
		for _, c := range f.Candidates {
			positions = append(positions, c.Position)
		}
		slices.Sort(positions)
		for _, at := range slices.Compact(positions) {
			if at < 1 || at > len(r.Entries) {
				continue
			}
			if why := o.of(r.Entries[at-1]); why != "" {
				f.Message += fmt.Sprintf("; entry %d: %s", at, why)
			}
		}
	}
}
