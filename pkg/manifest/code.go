package manifest

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/gpucode"
)

// codeChanges says what code for GPUs is gone and new, as kind and text.
func codeChanges(before, after []gpucode.Listed) (all [][2]string) {
	has := func(list []gpucode.Listed, l *gpucode.Listed) bool {
		return slices.ContainsFunc(list, func(o gpucode.Listed) bool { return o.Kind == l.Kind && o.Arch == l.Arch })
	}
	var order []string // of texts, whose %s is a list of GPUs
	gpus := map[string][]string{}
	say := func(text string, l *gpucode.Listed) {
		if gpus[text] == nil {
			order = append(order, text)
		}
		if name := l.GPU(); !slices.Contains(gpus[text], name) {
			gpus[text] = append(gpus[text], name)
		}
	}
	for i := range before {
		if l := &before[i]; !has(after, l) {
			other, kind := "", gpucode.Kind(0)
			if capability, ok := l.Capability(); ok {
				other, kind = gpucode.On(after, capability)
			}
			switch {
			case l.Kind != gpucode.Cubin.String() && l.Kind != gpucode.Object.String():
				say("no "+l.Kind+" for %s any more", l)
			case kind == gpucode.Cubin:
				say("no code of its own for %s any more: that for "+other+" runs there", l)
			case kind == gpucode.PTX:
				say("no code of its own for %s any more: the driver compiles PTX for "+other, l)
			default:
				say("no code for %s any more", l)
			}
		}
	}
	gone := len(order)
	for i := range after {
		if l := &after[i]; !has(before, l) {
			if l.Kind == gpucode.Cubin.String() || l.Kind == gpucode.Object.String() {
				say("now has code for %s", l)
			} else {
				say("now has "+l.Kind+" for %s", l)
			}
		}
	}
	for i, text := range order {
		kind := CodeNew
		if i < gone {
			kind = CodeGone
		}
		all = append(all, [2]string{kind, strings.Replace(text, "%s", strings.Join(gpus[text], ", "), 1)})
	}
	return all
}
