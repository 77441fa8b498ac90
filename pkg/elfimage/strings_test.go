package elfimage

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cuda-runpath/tests/tinyelf"
)

// fromBytes makes an image of which nothing is known but one section's contents.
func fromBytes(data []byte, s Section) *Image {
	s.Size = uint64(len(data))
	return &Image{Class: elf.ELFCLASS64, Order: binary.LittleEndian, window: newWindow(bytes.NewReader(data), uint64(len(data)), nil), Sections: []Section{s}}
}

func rodata(data []byte) *Image {
	return fromBytes(data, Section{Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC})
}

func libraries(t *testing.T, im *Image) (exact, loose []string) {
	t.Helper()
	err := im.LibraryStrings(func(name string, terminated bool) bool {
		if terminated {
			exact = append(exact, name)
		} else {
			loose = append(loose, name)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return exact, loose
}

func TestLibraryStrings(t *testing.T) {
	for _, c := range []struct {
		data         string
		exact, loose []string
	}{
		{data: "libcuda.so.1\x00", exact: []string{"libcuda.so.1"}},
		{data: "\x00libcuda.so\x00x\x00plugin.so\x00", exact: []string{"libcuda.so", "plugin.so"}},
		{data: "/usr/lib/libcuda.so.1\x00%s/libnvidia-ml.so.1\x00", exact: []string{"libcuda.so.1", "libnvidia-ml.so.1"}},
		{data: "cannot load libcuda.so.1\x00", exact: []string{"libcuda.so.1"}}, // the tail may be a merged string
		{data: "cannot load libcuda.so.1, sorry\x00", loose: []string{"libcuda.so.1"}},
		{data: "nvcuda.dlllibcuda.so.1libcuda.solibnvidia-ml.so.1", loose: []string{"libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"}}, // Rust
		{data: ".so\x00also\x00a.sort\x00x.source\x00"},
		{data: "libstdc++.so.6\x00libfoo-1.2.so.3.4.5\x00", exact: []string{"libstdc++.so.6", "libfoo-1.2.so.3.4.5"}},
		{data: "libcuda.so.1"}, // the section ends in the middle: see loose
	} {
		exact, loose := libraries(t, rodata([]byte(c.data)))
		if c.data == "libcuda.so.1" {
			c.loose = []string{"libcuda.so.1"}
		}
		if diff := cmp.Diff([][]string{c.exact, c.loose}, [][]string{exact, loose}); diff != "" {
			t.Errorf("%q: %s", c.data, diff)
		}
	}
}

// A name without a version comes with that of the file's own soname too.
func TestLibraryNames(t *testing.T) {
	for soname, want := range map[string][]string{
		"libcudnn.so.9":   {"libcudnn_ops.so.9", "libcudnn_ops.so", "libx.so.17", "libx.so.1"},
		"libcudnn.so":     {"libcudnn_ops.so", "libx.so.17", "libx.so.1"},
		"libcudnn.node.9": {"libcudnn_ops.so", "libx.so.17", "libx.so.1"},
		"":                {"libcudnn_ops.so", "libx.so.17", "libx.so.1"},
	} {
		o := tinyelf.Object{Data: "\x00libcudnn_ops.so\x00open libx.so.17 of them\x00"}
		if soname != "" {
			o.Strings = []tinyelf.Entry{{Tag: elf.DT_SONAME, Str: soname}}
		}
		b := o.Bytes()
		im, err := Parse(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := im.LibraryNames(func(name string) bool { got = append(got, name); return true }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", soname, diff)
		}
	}
}

func TestLibraryStringsOnlyInReadOnlyData(t *testing.T) {
	data := []byte("libcuda.so.1\x00")
	for _, s := range []Section{
		{Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE},
		{Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR},
		{Type: elf.SHT_PROGBITS},
		{Type: elf.SHT_STRTAB, Flags: elf.SHF_ALLOC},
	} {
		if exact, loose := libraries(t, fromBytes(data, s)); exact != nil || loose != nil {
			t.Errorf("section %+v gives %q %q", s, exact, loose)
		}
	}
	im := rodata(data)
	im.Sections, im.Progs = nil, []Prog{
		{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_W, Filesz: uint64(len(data))},
		{Type: elf.PT_LOAD, Flags: elf.PF_R, Filesz: uint64(len(data))},
	}
	if exact, _ := libraries(t, im); len(exact) != 1 {
		t.Errorf("without section headers: %q", exact)
	}
}

func TestLibraryStringsStopsWhenAsked(t *testing.T) {
	n := 0
	err := rodata([]byte("liba.so\x00libb.so\x00")).LibraryStrings(func(string, bool) bool { n++; return false })
	if err != nil || n != 1 {
		t.Errorf("%d names, %v", n, err)
	}
}

func TestLibraryStringsOfAFileThatIsCut(t *testing.T) {
	data := make([]byte, 16*stringBlock)
	copy(data[2:], "libfirst.so.1")
	copy(data[8*stringBlock:], "libcuda.so.1")
	for _, left := range []int{len(data), 8 * stringBlock, 4096, 0} {
		im := rodata(data)
		im.window = newWindow(bytes.NewReader(data[:left]), uint64(len(data)), nil)
		var got []string
		err := im.LibraryStrings(func(name string, _ bool) bool { got = append(got, name); return true })
		if whole := left == len(data); whole != (err == nil) || whole && len(got) != 2 {
			t.Errorf("%d bytes left: %q, %v", left, got, err)
		}
	}
}

// A file in which many sections are the same bytes takes no longer than one in which few are.
func TestLibraryStringsOfOverlappingSections(t *testing.T) {
	im := rodata(append(make([]byte, 1<<16), "libcuda.so.1\x00"...))
	for range 1000 {
		im.Sections = append(im.Sections, im.Sections[0])
	}
	exact, _ := libraries(t, im)
	if len(exact) == 0 || len(exact) > 2 {
		t.Errorf("%d names", len(exact))
	}
}

// Names must be found once each wherever they lie with respect to the buffer's end.
func TestLibraryStringsAcrossBuffers(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for round := range 20 {
		data := bytes.Repeat([]byte{0}, 3*stringBlock+rng.Intn(1000))
		var want []string
		put := func(at int) {
			name := fmt.Sprintf("lib%s%d.so.%d", strings.Repeat("x", rng.Intn(200)), len(want), rng.Intn(100))
			copy(data[at:], name)
			want = append(want, name)
		}
		at := 1
		for at+600 < len(data) {
			put(at)
			at += 300 + rng.Intn(50_000)
			// Thick around the ends of buffers.
			if near := at % stringBlock; near > stringBlock-2000 || near < 2000 {
				at -= at % 300
				at += 300 - at%300 + rng.Intn(40)
			}
		}
		if exact, loose := libraries(t, rodata(data)); cmp.Diff(want, exact) != "" || loose != nil {
			t.Fatalf("round %d: %s %q", round, cmp.Diff(want, exact), loose)
		}
	}
	// One name at every offset around the end of the first block.
	for _, name := range []string{"libcuda.so.1", "lib" + strings.Repeat("x", 240) + ".so." + strings.Repeat("7", 240), "$ORIGIN/" + strings.Repeat("y", 230) + "/libz.so"} {
		for at := stringBlock - 600; at < stringBlock+300; at++ {
			data := make([]byte, stringBlock+2000)
			copy(data[at:], name)
			if exact, _ := libraries(t, rodata(data)); cmp.Diff([]string{name}, exact) != "" {
				t.Fatalf("%s at %#x: %q", name, at, exact)
			}
		}
	}
}

func note(order binary.AppendByteOrder, owner string, typ uint32, desc string) []byte {
	var b []byte
	b = order.AppendUint32(b, uint32(len(owner)+1))
	b = order.AppendUint32(b, uint32(len(desc)))
	b = order.AppendUint32(b, typ)
	pad := func() {
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	b = append(b, owner+"\x00"...)
	pad()
	b = append(b, desc...)
	pad()
	return b
}

func TestDlopenNotes(t *testing.T) {
	const cuda = `[{"soname":["libcuda.so.1","libcuda.so"],"feature":"gpu","description":"GPU","priority":"suggested"}]`
	want := []DlopenNote{{Sonames: []string{"libcuda.so.1", "libcuda.so"}, Feature: "gpu", Description: "GPU", Priority: "suggested"}}
	for _, order := range []interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}{binary.LittleEndian, binary.BigEndian} {
		data := note(order, "GNU", 3, "build id")
		data = append(data, note(order, "FDO", dlopenType, "not JSON")...)
		data = append(data, note(order, "XXX", dlopenType, cuda)...)
		data = append(data, note(order, "FDO", 1, cuda)...)
		data = append(data, note(order, "FDO", dlopenType, cuda+"\x00")...)
		im := fromBytes(data, Section{Type: elf.SHT_NOTE, Flags: elf.SHF_ALLOC})
		im.Order = order
		got, err := im.DlopenNotes()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v by section: %v %s", order, err, diff)
		}
		im.Sections, im.Progs = nil, []Prog{{Type: elf.PT_NOTE, Filesz: uint64(len(data)), Align: 4}}
		if got, err = im.DlopenNotes(); cmp.Diff(want, got) != "" || err != nil {
			t.Errorf("%v by segment: %v %v", order, err, got)
		}
		for cut := range data { // cut anywhere: no crash, and never more than there was
			im.Progs[0].Filesz = uint64(cut)
			if got, err := im.DlopenNotes(); err != nil || len(got) > 1 {
				t.Errorf("cut at %d: %v %v", cut, got, err)
			}
		}
	}
}

// What is between two parts of the read-only data is not what is between them in the file.
func TestConstants(t *testing.T) {
	im := rodata([]byte("first\x00WRITABLEsecond"))
	im.Sections[0].Size = 6
	im.Sections = append(im.Sections,
		Section{Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE, Off: 6, Size: 8},
		Section{Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Off: 14, Size: 6})
	const want = "first\x00\x00second\x00"
	if got, err := im.Constants(uint64(len(want))); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if got, err := im.Constants(uint64(len(want)) - 1); err != nil || got != nil {
		t.Errorf("of more than the limit: %q, %v", got, err)
	}
	im.Sections[2].Size = 7
	if got, err := im.Constants(100); err == nil {
		t.Errorf("beyond the end: %q", got)
	}
}
