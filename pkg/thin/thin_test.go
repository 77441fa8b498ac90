package thin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cuda-runpath/pkg/gpucode"
)

// piece is an entry to be made: its header of 64 bytes, options, and code that no other has.
type piece struct {
	kind    gpucode.Kind
	arch    uint32
	flags   uint64
	size    int
	options string // behind its header
}

func cubin(arch uint32) piece { return piece{kind: gpucode.Cubin, arch: arch, flags: 0x11, size: 5000} }
func ptx(arch uint32) piece   { return piece{kind: gpucode.PTX, arch: arch, flags: 0x11, size: 704} }

// file makes a file of nvcc -fatbin's form: a row of containers.
func file(containers ...[]piece) []byte {
	le := binary.LittleEndian
	var b []byte
	n := 0
	for _, pieces := range containers {
		var body []byte
		for _, p := range pieces {
			size := (p.size + 7) &^ 7
			h := append(make([]byte, 64), p.options...)
			h = append(h, make([]byte, -len(h)&7)...)
			le.PutUint16(h, uint16(p.kind))
			le.PutUint16(h[2:], 0x0101)
			le.PutUint32(h[4:], uint32(len(h)))
			le.PutUint64(h[8:], uint64(size))
			le.PutUint16(h[26:], 8)
			le.PutUint32(h[28:], p.arch)
			le.PutUint64(h[40:], p.flags)
			n++
			body = append(append(body, h...), bytes.Repeat([]byte{byte(n)}, size)...)
		}
		head := make([]byte, 16)
		le.PutUint32(head, 0xBA55ED50)
		le.PutUint16(head[4:], 1)
		le.PutUint16(head[6:], 16)
		le.PutUint64(head[8:], uint64(len(body)))
		b = append(append(append(b, head...), body...), make([]byte, 8*(n%3))...)
	}
	return b
}

// read lists b's containers as those of a linked file's .nv_fatbin.
func read(b []byte) *gpucode.File {
	f, err := gpucode.Read(bytes.NewReader(b), int64(len(b)), b[:min(len(b), 4096)])
	if err != nil {
		panic(err)
	}
	for i := range f.Containers {
		f.Containers[i].Section = ".nv_fatbin"
	}
	return f
}

// memory is a copy in memory.
type memory []byte

func (m memory) WriteAt(p []byte, off int64) (int, error) { return copy(m[off:], p), nil }
func (m memory) Zero(off, n int64) error                  { clear(m[off : off+n]); return nil }
func (m memory) ReadAt(p []byte, off int64) (int, error)  { return copy(p, m[off:]), nil }

// check is Check of b's copy, with the sections that read gives them.
func check(b, out []byte, o Options) error {
	return compare(bytes.NewReader(b), memory(out), read(b), read(out), int64(len(b)), o)
}

// plan plans what goes of b.
func plan(t interface{ Fatal(...any) }, b []byte, o Options) *Plan {
	p, err := New(bytes.NewReader(b), read(b), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func targets(t interface{ Fatal(...any) }, list string) []gpucode.Target {
	all, err := gpucode.ParseTargets(list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// names lists what is left, a container a line.
func names(f *gpucode.File) string {
	var lines []string
	for _, c := range f.Containers {
		var all []string
		for _, e := range c.Entries {
			all = append(all, e.Name())
		}
		lines = append(lines, strings.Join(all, " "))
	}
	return strings.Join(lines, "; ")
}

func TestWhatGoes(t *testing.T) {
	lto, unknown, odd := piece{gpucode.LTO, 75, 0x11, 800, ""}, piece{0x40, 120, 0x11, 800, ""}, piece{gpucode.Cubin, 75, 0x11 | 1<<40, 5000, ""}
	a := piece{gpucode.Cubin, 90, 0x100011, 5000, ""}
	for _, c := range []struct {
		of   []piece
		list string
		want string
	}{
		{[]piece{cubin(75), cubin(80), cubin(90), ptx(90)}, "9.0", "sm_90"},
		{[]piece{cubin(75), cubin(80), cubin(90), ptx(90)}, "9.0+PTX", "sm_90 compute_90"},
		{[]piece{ptx(90), cubin(75), cubin(80), cubin(90)}, "8.0,8.6", "sm_80"},
		{[]piece{cubin(75), ptx(80)}, "9.0", "compute_80"},
		{[]piece{cubin(90), ptx(80)}, "8.6,9.0", "sm_90 compute_80"},
		{[]piece{cubin(80), cubin(86), cubin(90)}, "8.6", "sm_80 sm_86"},
		{[]piece{cubin(80), ptx(80)}, "8.7", "sm_80 compute_80"}, // not promised to run on Jetson
		{[]piece{cubin(90), ptx(120)}, "9.0", "sm_90"},
		{[]piece{cubin(100), cubin(120)}, "9.0", "sm_100 sm_120"}, // nothing would be left
		{[]piece{cubin(75), cubin(90), a, lto, unknown, odd}, "9.0", "sm_90 sm_90a lto_75 sm_120 sm_75"},
		{[]piece{cubin(75), cubin(90), a}, "10.0", "sm_75 sm_90 sm_90a"},
		{[]piece{{gpucode.Cubin, 90, 0x11 | 1<<31, 5000, ""}, ptx(90), cubin(75)}, "9.0", "sm_90 compute_90"}, // who knows whether it runs
		{[]piece{cubin(75), {kind: gpucode.Cubin, arch: 90, flags: 0x11, size: 5 << 19}}, "9.0", "sm_90"},     // is moved in parts
		{[]piece{cubin(90), {gpucode.Cubin, 100, 0x11 | 1<<24, 5000, ""}}, "9.0", "sm_90"},                    // a flag of all from 10.0 on
	} {
		b := file(c.of)
		p := plan(t, b, Options{Targets: targets(t, c.list)})
		out := memory(bytes.Clone(b))
		o := Options{Targets: targets(t, c.list)}
		if err := errors.Join(p.Apply(bytes.NewReader(b), out), check(b, out, o)); err != nil {
			t.Error(err)
		}
		if got := names(read(out)); got != c.want {
			t.Errorf("%v for %s: %s, not %s", c.of, c.list, got, c.want)
		}
	}
	f := read(file([]piece{cubin(80), cubin(90), ptx(90), ptx(100)}))
	for reason, change := range map[Reason]func(*gpucode.Container){Resource: func(c *gpucode.Container) { c.Section, c.Resource = ".rodata", true },
		Unnamed: func(c *gpucode.Container) { c.Section = "" },
		Damaged: func(c *gpucode.Container) { c.Damage = errors.New("damaged") }} {
		g := *f
		g.Containers = append([]gpucode.Container(nil), f.Containers...)
		change(&g.Containers[0])
		p, err := New(nil, &g, Options{Targets: targets(t, "9.0")})
		if err != nil || !p.empty() || p.Left[reason] != 1 {
			t.Errorf("%s: %+v, %v", reason, p, err)
		}
	}
	// Relocatable code may be linked again, so PTX that could be used stays.
	f.Containers[0].Relocatable = true
	f.Containers[0].Section = "__nv_relfatbin"
	p, err := New(nil, f, Options{Targets: targets(t, "9.0")})
	if err != nil || p.Entries != 2 || len(p.containers[0].keep) != 2 {
		t.Errorf("relocatable: %+v, %v", p, err)
	}
	// A container for others alone is emptied, also where a library has an index of its own, if something is left of the file.
	f = read(file([]piece{cubin(90)}, []piece{cubin(100), ptx(120)}, []piece{cubin(100)}))
	f.Containers[2].Section, f.Containers[2].Resource = ".cask_resource", true
	if p, err := New(nil, f, Options{Targets: targets(t, "9.0")}); err != nil || len(p.containers) != 2 || len(p.containers[0].keep)+len(p.containers[1].keep) > 0 {
		t.Errorf("emptied: %+v, %v", p, err)
	}
	f.Containers = f.Containers[1:]
	if p, err := New(nil, f, Options{Targets: targets(t, "9.0")}); err != nil || !p.empty() || p.Left[Nothing] != 2 {
		t.Errorf("nothing left: %+v, %v", p, err)
	}
	if p := plan(t, file([]piece{cubin(90), ptx(90)}), Options{Targets: targets(t, "9.0"), KeepPTX: true}); !p.empty() {
		t.Errorf("PTX that is to be kept goes: %+v", p)
	}
}

const (
	options = "-arch sm_90 -L /nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-cuda_nvcc/lib -L/gnu/store/1c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-gcc/lib "
	blanked = "-arch sm_90 -L /nix/store/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-cuda_nvcc/lib -L/gnu/store/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-gcc/lib "
)

func TestBlank(t *testing.T) {
	with := func(p piece, options string) piece { p.options = options; return p }
	b := file([]piece{with(cubin(80), options), cubin(90), with(ptx(90), options)}, []piece{with(cubin(90), options)}, []piece{with(cubin(90), "/nix/store/short-x")})
	for _, o := range []Options{{Blank: true}, {Blank: true, Targets: targets(t, "9.0+PTX")}} {
		out := memory(bytes.Clone(b))
		p := plan(t, b, o)
		if err := errors.Join(p.Apply(bytes.NewReader(b), out), check(b, out, o)); err != nil {
			t.Fatal(err)
		}
		want := 2 * len(read(out).Containers[0].Entries)
		if p.Blanked != want || bytes.Contains(out, []byte(options)) || bytes.Count(out, []byte(blanked)) != want/2 {
			t.Errorf("%v: %d blanked, not %d", o, p.Blanked, want)
		}
		if p := plan(t, out, o); !p.empty() {
			t.Errorf("%v: again: %+v", o, p)
		}
	}
	long := file([]piece{with(cubin(90), strings.Repeat(options, 2+maxOptions/len(options))), with(cubin(90), options)})
	if p := plan(t, long, Options{Blank: true}); p.Blanked != 2 {
		t.Errorf("behind long options: %d blanked", p.Blanked)
	}
	out := memory(bytes.Clone(b))
	o := Options{Targets: targets(t, "9.0+PTX")}
	if err := errors.Join(plan(t, b, o).Apply(bytes.NewReader(b), out), check(b, out, o)); err != nil || !bytes.Contains(out, []byte(options)) {
		t.Errorf("options are blanked unasked, or %v", err)
	}
}

// A file that is thinned for fewer GPUs has a new mark, and none of the old one where that container was thinned again.
func TestMarks(t *testing.T) {
	b := file([]piece{cubin(75), cubin(80), cubin(90)}, []piece{cubin(75), cubin(90)}, []piece{cubin(75)})
	marks := func(list string) {
		o := Options{Targets: targets(t, list)}
		out := memory(bytes.Clone(b))
		if err := errors.Join(plan(t, b, o).Apply(bytes.NewReader(b), out), check(b, out, o)); err != nil {
			t.Fatal(err)
		}
		b = out
	}
	marks("8.0,9.0")
	if got := read(b).ThinnedFor(); !slices.Equal(got, []string{"8.0,9.0"}) || len(read(b).Marks) != 1 {
		t.Errorf("marks %q", got)
	}
	marks("90-real")
	if got := read(b).ThinnedFor(); !slices.Equal(got, []string{"9.0"}) || len(read(b).Marks) != 1 || bytes.Count(b, []byte("runpath thin")) != 1 {
		t.Errorf("marks %q", got)
	}

	// A container may end anywhere; the next one, and so a mark, is a multiple of 8 bytes behind where it begins.
	b = file([]piece{cubin(75), cubin(80), cubin(90)})
	last := read(b).Containers[0].Entries[2]
	binary.LittleEndian.PutUint64(b[last.Off+8:], last.Size-3)
	binary.LittleEndian.PutUint64(b[8:], binary.LittleEndian.Uint64(b[8:])-3)
	clear(b[len(b)-3:])
	marks("8.0,9.0")
	marks("9.0")
	if got := read(b).ThinnedFor(); !slices.Equal(got, []string{"9.0"}) || bytes.Count(b, []byte("runpath thin")) != 1 {
		t.Errorf("behind an odd end: marks %q", got)
	}
	o := Options{Targets: targets(t, "9.0")}
	b = append(make([]byte, 4), file([]piece{cubin(75), cubin(90)})...)
	f := read(b[4:])
	f.Containers[0].Off += 4
	for i := range f.Containers[0].Entries {
		f.Containers[0].Entries[i].Off += 4
	}
	p, err := New(bytes.NewReader(b), f, o)
	if err = errors.Join(err, p.Apply(bytes.NewReader(bytes.Clone(b)), memory(b))); err != nil || len(read(b[4:]).Marks) != 1 {
		t.Errorf("where no address is a multiple of 8: %+v, %v", read(b[4:]).Marks, err)
	}

	// There is a mark where there is just room.
	for _, room := range []int{0, -8} {
		b := file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, len(gpucode.NewMark(o.Targets)) - 64 + room, ""}})
		out := memory(bytes.Clone(b))
		p := plan(t, b, o)
		if err := errors.Join(p.Apply(bytes.NewReader(b), out), check(b, out, o)); err != nil || p.Marked != (room == 0) || len(read(out).Marks) != 1+room/8 {
			t.Errorf("room %d: %v, %v", room, p.Marked, err)
		}
	}
}

// Whatever is planned, the check agrees, each GPU takes what it took, and a second time nothing goes.
func TestPlanAndCheckAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.Custom(func(t *rapid.T) piece {
			return piece{rapid.SampledFrom([]gpucode.Kind{gpucode.PTX, gpucode.Cubin, gpucode.Cubin, gpucode.LTO, 0x40}).Draw(t, "kind"),
				rapid.SampledFrom([]uint32{75, 80, 86, 87, 89, 90, 100, 120}).Draw(t, "arch"), rapid.SampledFrom([]uint64{0x11, 0x11, 0x100011, 0x1200011, 1 << 33}).Draw(t, "flags"),
				rapid.IntRange(8, 9000).Draw(t, "size"), rapid.SampledFrom([]string{"", "lto", options, blanked}).Draw(t, "options")}
		})
		b := file(rapid.SliceOfN(rapid.SliceOfN(piece, 0, 8), 1, 5).Draw(t, "containers")...)
		asked := targets(t, rapid.SampledFrom([]string{"9.0", "8.6,9.0", "8.0+PTX", "12.0", "8.7", "90-virtual", "7.5,8.9,10.0"}).Draw(t, "list"))
		o := Options{Targets: asked, KeepPTX: rapid.Bool().Draw(t, "keepPTX"), Blank: rapid.Bool().Draw(t, "blank")}
		thin := func() {
			out := memory(bytes.Clone(b))
			if err := plan(t, b, o).Apply(bytes.NewReader(b), out); err != nil {
				t.Fatal(err)
			}
			if err := check(b, out, o); err != nil {
				t.Fatal(err)
			}
			b = out
		}
		thin()
		if again := plan(t, b, o); !again.empty() {
			t.Fatalf("%d more bytes go the second time", again.Bytes)
		}
		o.Targets = asked[:1]
		thin()
		if again := plan(t, b, o); !again.empty() {
			t.Fatalf("for fewer GPUs: %d more bytes go the second time", again.Bytes)
		}
	})
}

// What a broken planner or emitter could do, the check finds.
func TestCheckFindsBreakages(t *testing.T) {
	named := cubin(90)
	named.options = options
	b := file([]piece{cubin(75), cubin(80), ptx(80), named, ptx(90)}, []piece{cubin(80), cubin(90)}, []piece{cubin(80)},
		[]piece{{gpucode.LTO, 75, 0x11, 800, ""}, {0x40, 75, 0x11, 800, ""}, {gpucode.Cubin, 75, 0x11 | 1<<40, 800, ""}, cubin(90)}, []piece{cubin(75), cubin(120)})
	o := Options{Targets: targets(t, "8.0,9.0+PTX"), Blank: true}
	good := memory(bytes.Clone(b))
	if err := errors.Join(plan(t, b, o).Apply(bytes.NewReader(b), good), check(b, good, o)); err != nil {
		t.Fatal(err)
	}
	c := read(good).Containers
	le := binary.LittleEndian
	first, last := int(c[0].Entries[0].Off), c[0].Entries[len(c[0].Entries)-1]
	end := int(c[0].Off + c[0].Size)
	mark, old := gpucode.NewMark(o.Targets), read(b).Containers[0]
	hash := bytes.Index(good, []byte(blank))
	drop := func(m memory, pieces ...gpucode.Entry) { // leaves of the first container what is given
		at := int(c[0].Off) + 16
		for _, e := range pieces {
			at += copy(m[at:], bytes.Clone(good[e.Off:e.Off+e.Bytes()]))
		}
		clear(m[at : old.Off+old.Size])
		copy(m[at:], mark)
		le.PutUint64(m[c[0].Off+8:], uint64(at)-c[0].Off-16)
	}
	all, odd := c[0].Entries, c[3].Entries
	dropOdd := func(m memory, gone int) {
		at := int(c[3].Off) + 16
		for i, e := range odd {
			if i != gone {
				at += copy(m[at:], good[e.Off:e.Off+e.Bytes()])
			}
		}
		clear(m[at : c[3].Off+c[3].Size])
		le.PutUint64(m[c[3].Off+8:], uint64(at)-c[3].Off-16)
	}
	for name, broken := range map[string]func(m memory){
		"a byte of code":              func(m memory) { m[first+100]++ },
		"a byte of an entry's header": func(m memory) { m[first+28]++ },
		"another order":               func(m memory) { drop(m, all[1], all[0], all[2], all[3]) },
		"a cubin too many gone":       func(m memory) { drop(m, all[1:]...) },
		"the asked PTX gone":          func(m memory) { drop(m, all[:len(all)-1]...) },
		"all gone":                    func(m memory) { drop(m) },
		"an entry twice":              func(m memory) { drop(m, all[0], all[0], all[1], all[2], all[3]) },
		"the length too small":        func(m memory) { le.PutUint64(m[c[0].Off+8:], c[0].Size-16-last.Bytes()) },
		"the length too large":        func(m memory) { le.PutUint64(m[c[0].Off+8:], c[0].Size-16+8) },
		"the length as before":        func(m memory) { le.PutUint64(m[c[0].Off+8:], le.Uint64(b[8:])) },
		"no zeros behind it":          func(m memory) { m[end+len(mark)] = 1 },
		"the old code behind it":      func(m memory) { copy(m[end+len(mark):], b[end+len(mark):end+4000]) },
		"the next container's magic":  func(m memory) { m[c[1].Off] = 0 },
		"the next container's code":   func(m memory) { m[c[1].Entries[0].Off+80]++ },
		"the container that stays":    func(m memory) { m[c[2].Entries[0].Off+70]++ },
		"between containers":          func(m memory) { m[c[2].Off-8] = 1 },
		"the end of the file":         func(m memory) { m[len(m)-1] = 1 },
		"zeros one byte early":        func(m memory) { m[end-1] = 0 },
		"zeros one page early":        func(m memory) { clear(m[end-600 : end]) },
		"no mark":                     func(m memory) { clear(m[end : end+len(mark)]) },
		"a mark for other GPUs":       func(m memory) { copy(m[end:], gpucode.NewMark(targets(t, "8.0,9.0"))) },
		"a mark too many":             func(m memory) { copy(m[end+len(mark):], mark) },
		"a second mark":               func(m memory) { copy(m[c[1].Off+c[1].Size:], mark) },
		"the mark elsewhere":          func(m memory) { clear(m[end : end+len(mark)]); copy(m[end+8:], mark) },
		"a hash left":                 func(m memory) { copy(m[hash:], options[len("-arch sm_90 -L /nix/store/"):][:32]) },
		"half a hash left":            func(m memory) { copy(m[hash:], options[len("-arch sm_90 -L /nix/store/"):][:16]) },
		"another letter of options":   func(m memory) { m[hash-1]++ },
		"a name blanked":              func(m memory) { m[hash+33] = 'e' },
		"LTO gone":                    func(m memory) { dropOdd(m, 0) },
		"old code in an empty one":    func(m memory) { m[c[4].Off+100] = 1 },
		"an empty one gone":           func(m memory) { clear(m[c[4].Off : c[4].Off+16]) },
		"one emptied that is asked":   func(m memory) { clear(m[c[2].Off+8 : c[2].Off+c[2].Size]) },
		"unknown kind gone":           func(m memory) { dropOdd(m, 1) },
		"unknown flag gone":           func(m memory) { dropOdd(m, 2) },
		"a container too many":        func(m memory) { copy(m[end+len(mark):], file([]piece{{gpucode.PTX, 75, 0x11, 8, ""}})) },
	} {
		m := memory(bytes.Clone(good))
		broken(m)
		if bytes.Equal(m, good) {
			t.Errorf("%s: breaks nothing", name)
		} else if err := check(b, m, o); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
	other := file([]piece{cubin(90), ptx(90), ptx(80), cubin(75)}) // what is right, and asked for otherwise
	o = Options{Targets: targets(t, "9.0")}
	thinned := memory(bytes.Clone(other))
	if err := errors.Join(plan(t, other, o).Apply(bytes.NewReader(other), thinned), check(other, thinned, o)); err != nil {
		t.Fatal(err)
	}
	if check(other, thinned, Options{Targets: o.Targets, KeepPTX: true}) == nil {
		t.Error("PTX gone with KeepPTX: not found")
	}
	if check(other, thinned, Options{Blank: true}) == nil {
		t.Error("code gone where no GPU was asked for: not found")
	}
	was, is := read(other), read(thinned)
	was.Containers[0].Section, is.Containers[0].Section = ".data", ".data"
	if compare(bytes.NewReader(other), thinned, was, is, int64(len(other)), o) == nil {
		t.Error("code gone of another section: not found")
	}
	none := file([]piece{cubin(75)}, []piece{cubin(120)})
	empty := memory(bytes.Clone(none))
	for _, c := range read(none).Containers {
		clear(empty[c.Off+8 : c.Off+c.Size])
	}
	copy(empty[16:], gpucode.NewMark(o.Targets))
	if check(none, empty, o) == nil {
		t.Error("no code left: not found")
	}
	if got, want := names(read(good)), "sm_80 compute_80 sm_90 compute_90; sm_80 sm_90; sm_80; lto_75 sm_75 sm_75 sm_90; "; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
