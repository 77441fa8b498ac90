package gpucode

import (
	"fmt"
	"strings"
	"testing"
)

func code(t *testing.T, parts ...part) *File {
	t.Helper()
	f, err := read(x86.image(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func times(n int, pieces ...piece) (all [][]piece) {
	for range n {
		all = append(all, pieces)
	}
	return all
}

func TestJudge(t *testing.T) {
	fat := func(containers ...[]piece) []part { return []part{{".nv_fatbin", row(containers...)}} }
	nvcc := func(pieces ...piece) []part { // a program, with what the device linker adds
		var linked []piece
		for _, p := range pieces {
			if p.kind == Cubin {
				linked = append(linked, stub(p.arch))
			}
		}
		return fat(linked, pieces)
	}
	for name, c := range map[string]struct {
		parts  []part
		gpu    Capability
		driver Version
		error  int
		counts string // NoCode, TooNew, Compiled, Linked, Native
	}{
		"the GPU's own":                      {parts: nvcc(cubin(90)), gpu: 90, counts: "0 0 0 0 1"},
		"an older one of the same number":    {parts: nvcc(cubin(80)), gpu: 89, counts: "0 0 0 0 1"},
		"a newer one":                        {parts: nvcc(cubin(86)), gpu: 80, error: 209, counts: "1 0 0 0 0"},
		"another GPU's":                      {parts: nvcc(cubin(100)), gpu: 90, error: 209, counts: "1 0 0 0 0"},
		"sm_90a":                             {parts: nvcc(cubin(90).a()), gpu: 90, counts: "0 0 0 0 1"},
		"sm_100a on 10.3":                    {parts: nvcc(cubin(100).a()), gpu: 103, error: 209, counts: "1 0 0 0 0"},
		"sm_100f on 10.3":                    {parts: nvcc(cubin(100).f()), gpu: 103, counts: "0 0 0 0 1"},
		"sm_80 on Jetson":                    {parts: nvcc(cubin(80)), gpu: 87, error: 209, counts: "1 0 0 0 0"},
		"PTX":                                {parts: nvcc(cubin(80), ptx(80, 7, 0)), gpu: 90, counts: "0 0 1 0 0"},
		"PTX alone":                          {parts: fat(nil, []piece{ptx(75, 9, 0)}), gpu: 90, driver: Version{13, 0}, counts: "0 0 1 0 0"},
		"PTX beside a cubin":                 {parts: nvcc(cubin(90), ptx(90, 99, 0)), gpu: 90, driver: Version{13, 0}, counts: "0 0 0 0 1"},
		"PTX that is too new for the driver": {parts: fat([]piece{ptx(75, 9, 1)}), gpu: 90, driver: Version{13, 0}, error: 222, counts: "0 1 0 0 0"},
		"PTX for a later GPU":                {parts: fat([]piece{ptx(100, 9, 0)}), gpu: 90, error: 209, counts: "1 0 0 0 0"},
		"compute_90a for a later GPU":        {parts: fat([]piece{ptx(90, 8, 0).a()}), gpu: 100, error: 209, counts: "1 0 0 0 0"},
		"LTO-IR":                             {parts: fat([]piece{{kind: LTO, arch: 75, code: 100}}), gpu: 90, counts: "0 0 0 1 0"},
		"a kind that is not known":           {parts: fat([]piece{{kind: 0x40, arch: 75, code: 100}}), gpu: 90, counts: "0 0 0 1 0"},
		"nothing":                            {parts: fat(), gpu: 90, counts: "0 0 0 0 0"},
		"no kernels, as CUDA 13 links them":  {parts: fat([]piece{linkedStub(75)}), gpu: 90, counts: "0 0 0 0 0"},
		"no kernels, zstd":                   {parts: fat([]piece{{kind: Cubin, arch: 100, flags: 0x8011, code: 700, unpacked: 2568}}), gpu: 90, counts: "0 0 0 0 0"},
		"no kernels, LZ4":                    {parts: fat([]piece{{kind: Cubin, arch: 52, flags: 0x2011, code: 700, unpacked: 1448}}), gpu: 90, counts: "0 0 0 0 0"},
		"the smallest kernel":                {parts: fat([]piece{kernel(75)}), gpu: 90, error: 209, counts: "1 0 0 0 0"},
		"the smallest kernel, zstd":          {parts: fat([]piece{{kind: Cubin, arch: 75, flags: 0x8011, code: 900, unpacked: 2856}}), gpu: 90, error: 209, counts: "1 0 0 0 0"},
		"the smallest kernel, LZ4":           {parts: fat([]piece{{kind: Cubin, arch: 52, flags: 0x2011, code: 900, unpacked: 1896}}), gpu: 90, error: 209, counts: "1 0 0 0 0"},
		"no kernels, and code in data":       {parts: append(fat([]piece{linkedStub(75)}), part{".ldata", row([]piece{ptx(75, 8, 0)}, []piece{cubin(75)})}), gpu: 90, counts: "1 0 0 1 0"},
		"no kernels":                         {parts: fat([]piece{stub(52)}), gpu: 90, counts: "0 0 0 0 0"},

		// Containers for one architecture on purpose.
		"sm_90a beside the build's":                    {parts: fat(append(times(10, cubin(80), ptx(80, 8, 0)), []piece{cubin(90).a()})...), gpu: 120, counts: "1 0 10 0 0"},
		"a build for others, with sm_90a in it":        {parts: fat(append(times(10, cubin(80)), []piece{cubin(90).a()})...), gpu: 90, error: 209, counts: "10 0 0 0 1"},
		"a build for others, with some sm_90 in it":    {parts: fat(append(times(10, cubin(80)), times(3, cubin(90))...)...), gpu: 90, error: 209, counts: "10 0 0 0 3"},
		"a build for others, and as much for the GPU":  {parts: fat(append(times(10, cubin(80)), times(10, cubin(90))...)...), gpu: 90, counts: "10 0 0 0 10"},
		"a kernel for each architecture":               {parts: fat(append(append(times(10, cubin(80)), times(9, cubin(90))...), times(8, cubin(75))...)...), gpu: 90, counts: "18 0 0 0 9"},
		"a kernel for each of others":                  {parts: fat(append(times(10, cubin(80)), times(9, cubin(90))...)...), gpu: 75, error: 209, counts: "19 0 0 0 0"},
		"what the library loads itself is no majority": {parts: append(fat([]piece{cubin(90)}), part{".ldata", row(times(50, cubin(100))...)}), gpu: 90, counts: "50 0 0 0 1"},
		"the library loads PTX itself":                 {parts: append(fat(), part{".ldata", row([]piece{ptx(75, 8, 0)})}), gpu: 90, counts: "0 0 0 1 0"},

		// Relocatable device code.
		"linked for the GPU":            {parts: append(fat([]piece{cubin(90)}), part{"__nv_relfatbin", row([]piece{cubin(80)})}), gpu: 90, counts: "0 0 0 0 1"},
		"linked again from PTX":         {parts: append(fat([]piece{cubin(80)}), part{"__nv_relfatbin", row([]piece{cubin(80), ptx(80, 8, 0)}, []piece{ptx(75, 8, 0)})}), gpu: 90, counts: "0 0 1 0 0"},
		"one object has no PTX":         {parts: append(fat([]piece{cubin(80)}), part{"__nv_relfatbin", row([]piece{cubin(80), ptx(80, 8, 0)}, []piece{cubin(80)})}), gpu: 90, error: 500, counts: "1 0 0 0 0"},
		"LTO-IR is not linked again":    {parts: append(fat([]piece{cubin(80)}), part{"__nv_relfatbin", row([]piece{{kind: LTO, arch: 80, code: 100}})}), gpu: 90, error: 500, counts: "1 0 0 0 0"},
		"PTX alone, relocatable":        {parts: append(fat(nil), part{"__nv_relfatbin", row([]piece{ptx(80, 8, 0)})}), gpu: 90, counts: "0 0 1 0 0"},
		"later PTX alone, relocatable":  {parts: append(fat(nil), part{"__nv_relfatbin", row([]piece{ptx(100, 8, 0)})}), gpu: 90, error: 500, counts: "1 0 0 0 0"},
		"not where it is code with PTX": {parts: append(fat([]piece{cubin(80), ptx(100, 8, 0)}), part{"__nv_relfatbin", row([]piece{ptx(75, 8, 0)})}), gpu: 90, error: 209, counts: "1 0 0 0 0"},
	} {
		j := code(t, c.parts...).Judge(c.gpu, c.driver)
		if got := strings.Trim(fmt.Sprint(j.Containers), "[]"); j.Error != c.error || got != c.counts {
			t.Errorf("%s: error %d, %s; not %d, %s", name, j.Error, got, c.error, c.counts)
		}
	}
}

// The order of entries does not matter: the nearest cubin is taken, and any before PTX.
func TestWhichEntryIsTaken(t *testing.T) {
	pieces := []piece{ptx(90, 8, 0), cubin(80), cubin(90), cubin(90).a(), cubin(89), cubin(100), ptx(75, 8, 0)}
	for range pieces {
		pieces = append(pieces[1:], pieces[0])
		f := code(t, part{".nv_fatbin", row(pieces)})
		for gpu, want := range map[Capability]string{90: "sm_90a", 89: "sm_89", 86: "sm_80", 75: "compute_75", 120: "compute_90", 103: "sm_100", 70: ""} {
			got := ""
			if _, e := f.Containers[0].On(gpu, Version{}); e != nil {
				got = e.Name()
			}
			if got != want {
				t.Errorf("%v takes %q, not %q", gpu, got, want)
			}
		}
	}
}

func TestJudgeLater(t *testing.T) {
	for _, c := range []struct {
		list string
		want int
		of   []piece
	}{
		{"8.6+PTX", 0, []piece{cubin(86), ptx(86, 8, 0)}}, {"8.6+PTX", 0, []piece{cubin(86), ptx(75, 8, 0)}}, {"8.6+PTX", 209, []piece{cubin(86)}},
		{"8.6+PTX", 209, []piece{cubin(86), ptx(90, 8, 0)}}, {"compute_90a", 0, []piece{ptx(90, 8, 0).a()}}, {"8.6+PTX", 0, []piece{{kind: LTO, arch: 75, code: 8}}},
	} {
		targets, _ := ParseTargets(c.list)
		if j := code(t, part{".nv_fatbin", row(c.of)}).JudgeLater(targets[0]); j.Error != c.want {
			t.Errorf("%s: %+v", c.list, j)
		}
	}
}

// What is not asked for is what no GPU that was asked for could use, and nothing else.
func TestUnasked(t *testing.T) {
	f := code(t, part{".nv_fatbin", row([]piece{cubin(75), cubin(80), cubin(86), cubin(90), cubin(90).a(), cubin(100).f(), ptx(80, 7, 0), ptx(90, 8, 0), ptx(120, 9, 0),
		ptx(120, 9, 0).a(), {kind: LTO, arch: 120, code: 8}, {kind: 0x40, arch: 120, code: 8}})})
	for list, want := range map[string]string{
		"9.0":          "sm_75 sm_80 sm_86 sm_100f compute_120 compute_120a",
		"9.0a":         "sm_75 sm_80 sm_86 sm_100f compute_120 compute_120a",
		"8.6":          "sm_75 sm_90 sm_90a sm_100f compute_90 compute_120 compute_120a",
		"8.7":          "sm_75 sm_90 sm_90a sm_100f compute_90 compute_120 compute_120a", // sm_80 and sm_86 may run
		"8.6,9.0+PTX":  "sm_75 sm_100f",
		"90-virtual":   "sm_75 sm_80 sm_86 sm_100f",
		"10.3":         "sm_75 sm_80 sm_86 sm_90 sm_90a compute_120 compute_120a",
		"7.5,8.0,10.0": "sm_86 sm_90 sm_90a compute_120 compute_120a",
		"12.0":         "sm_75 sm_80 sm_86 sm_90 sm_90a sm_100f",
	} {
		targets, err := ParseTargets(list)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range f.Unasked(targets) {
			got = append(got, c.Name())
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %q, not %q", list, s, want)
		}
	}
}

func TestSum(t *testing.T) {
	f := code(t, part{".nv_fatbin", row([]piece{ptx(90, 8, 4), cubin(90).a(), cubin(90)}, []piece{cubin(90), ptx(90, 8, 0), {kind: LTO, arch: 75, code: 8}, cubin(120)})})
	var sum, twice Sum
	for i := range f.Containers {
		sum.Add(&f.Containers[i])
	}
	twice.Merge(sum)
	twice.Merge(sum)
	var got []string
	for i, c := range sum {
		got = append(got, fmt.Sprintf("%s %v %d %d", c.Name(), c.Version, c.Entries, c.Bytes))
		if twice[i].Bytes != 2*c.Bytes || twice[i].Entries != 2*c.Entries || len(twice) != len(sum) {
			t.Errorf("%+v, twice %+v", c, twice[i])
		}
	}
	want := "sm_90 0.0 2 8128, sm_90a 0.0 1 4064, sm_120 0.0 1 4064, compute_90 8.0 1 784, compute_90 8.4 1 784, lto_75 0.0 1 72"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("%q, not %q", s, want)
	}
}

// Where PTX is forced, cubins count for nothing.
func TestJudgeForced(t *testing.T) {
	for _, c := range []struct {
		want int
		of   []piece
	}{
		{0, []piece{cubin(86), ptx(86, 8, 0)}}, {0, []piece{cubin(90), ptx(75, 8, 0)}}, {209, []piece{cubin(86)}}, {222, []piece{cubin(86), ptx(86, 9, 0)}},
		{209, []piece{cubin(86), ptx(90, 8, 0)}},
	} {
		f := code(t, part{".nv_fatbin", row(c.of)})
		if j := f.JudgeForced(86, Version{12, 4}); j.Error != c.want {
			t.Errorf("%v: %+v", c.of, j)
		}
		if j := f.Judge(86, Version{12, 4}); len(c.of) == 1 && j.Error != 0 {
			t.Errorf("%v: not forced: %+v", c.of, j)
		}
	}
}
