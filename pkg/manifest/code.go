package manifest

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/gpucode"
)

// eachGPU calls tell for each GPU that a file is asked for, by its name in documents; passes reports whether a file, which
// has kernels, has code for it.
func eachGPU(tell func(name string, passes func(*gpucode.File) bool)) {
	good := func(j gpucode.Judgement) bool { return j.Error == 0 && j.Total() > 0 }
	nvidia, amd := gpucode.KnownGPUs()
	for _, g := range nvidia {
		tell(g.String(), func(f *gpucode.File) bool { return good(f.Judge(g, gpucode.Version{})) })
	}
	for _, g := range amd {
		tell(string(g), func(f *gpucode.File) bool { return good(f.JudgeAMD(g)) })
	}
}

// Asked returns the names of the GPUs that each file is asked for.
func Asked() (names []string) {
	eachGPU(func(name string, _ func(*gpucode.File) bool) { names = append(names, name) })
	return names
}

// gpuList writes those of all GPUs that has names as people read them, some behind each other as "7.0 … 8.9".
func gpuList(all []string, has func(name string) bool) string {
	var out []string
	row := 0 // of how many behind each other the last is one
	for _, name := range all {
		switch {
		case !has(name):
			row = 0
			continue
		case row >= 3: // "a, b, c" and "a, …, c" end with two that go
			out = append(out[:len(out)-2], "…")
		}
		out, row = append(out, name), row+1
	}
	return strings.ReplaceAll(strings.Join(out, ", "), ", …,", " …")
}

// codeChanges says what code for GPUs is gone and new, as kind and text: of the GPUs that both documents asked for, for
// which the file has code no more, or now; and then what is another for one that it has code for all the same.
func codeChanges(before, after *GPU, both []string) (all [][2]string) {
	var gpus [][]string // of the texts, whose %s is a list of GPUs
	say := func(kind, text, gpu string) {
		i := slices.Index(all, [2]string{kind, text})
		if i < 0 {
			i, all, gpus = len(all), append(all, [2]string{kind, text}), append(gpus, nil)
		}
		if gpu != "" && !slices.Contains(gpus[i], gpu) {
			gpus[i] = append(gpus[i], gpu)
		}
	}
	in := func(x, y *GPU) func(string) bool {
		return func(name string) bool {
			return slices.Contains(both, name) && slices.Contains(x.Runs, name) && !slices.Contains(y.Runs, name)
		}
	}
	lost, gained := in(before, after), in(after, before)
	say(CodeGone, "no code for %s any more", gpuList(both, lost))
	say(CodeNew, "now has code for %s", gpuList(both, gained))
	// each tells of the code that a list has and the other has not; name is that of the GPU among those asked for.
	each := func(list, other *GPU, kind, text string, tell func(l *gpucode.Listed, name string)) {
		for i := range list.Code {
			l := &list.Code[i]
			name := l.Arch
			if c, ok := l.Capability(); ok {
				name = c.String()
			}
			switch same := func(o gpucode.Listed) bool { return o.Kind == l.Kind && o.Arch == l.Arch }; {
			case slices.ContainsFunc(other.Code, same):
			case l.Kind == gpucode.Cubin.String(), l.Kind == gpucode.Object.String():
				tell(l, name)
			default:
				say(kind, strings.Replace(text, "KIND", l.Kind, 1), l.GPU())
			}
		}
	}
	each(before, after, CodeGone, "no KIND for %s any more", func(l *gpucode.Listed, name string) {
		switch other, kind := instead(after.Code, l); {
		case lost(name):
		case other != "" && kind == gpucode.PTX:
			say(CodeGone, "no code of its own for %s any more: the driver compiles PTX for "+other, l.GPU())
		case other != "":
			say(CodeGone, "no code of its own for %s any more: that for "+other+" runs there", l.GPU())
		default:
			say(CodeGone, "the code that some of it had for %s is gone", l.GPU())
		}
	})
	each(after, before, CodeNew, "now has KIND for %s", func(l *gpucode.Listed, name string) {
		switch {
		case gained(name):
		case slices.Contains(after.Runs, name) || !slices.Contains(both, name):
			say(CodeNew, "now has code of its own for %s", l.GPU())
		default:
			say(CodeNew, "has code for %s, in too little of it to run there", l.GPU())
		}
	})
	for i := range all {
		all[i][1] = strings.Replace(all[i][1], "%s", strings.Join(gpus[i], ", "), 1)
	}
	return slices.DeleteFunc(all, func(said [2]string) bool {
		return said[1] == "no code for  any more" || said[1] == "now has code for "
	})
}

// instead returns the GPU whose code runs where that did which l lists, and of which kind it is; "" where none does.
func instead(code []gpucode.Listed, l *gpucode.Listed) (gpu string, kind gpucode.Kind) {
	if c, ok := l.Capability(); ok {
		return gpucode.On(code, c)
	}
	for i := range code {
		if gpucode.AMD(code[i].Arch).RunsOn(gpucode.AMD(l.Arch)) {
			return code[i].Arch, gpucode.Object
		}
	}
	return "", 0
}
