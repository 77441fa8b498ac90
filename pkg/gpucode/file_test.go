package gpucode

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

func TestRead(t *testing.T) {
	two := row([]piece{cubin(80), cubin(90), cubin(90).a(), ptx(90, 8, 4)}, []piece{stub(80)})
	twoText := ".nv_fatbin sm_80 sm_90 sm_90a compute_90/8.4; .nv_fatbin sm_80; "
	gap := append(append(bytes.Clone(two), make([]byte, 24)...), row([]piece{cubin(120).f()})...)
	object := x86
	object.typ = elf.ET_REL
	rest := row([]piece{cubin(100), cubin(103)})
	data := bytes.Repeat([]byte("some data "), 2000)
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"a library":                   {x86.image(part{".rodata", data}, part{".nv_fatbin", two}), twoText},
		"zeros between containers":    {x86.image(part{".nv_fatbin", gap}), twoText + ".nv_fatbin sm_120f; "},
		"relocatable code":            {x86.image(part{".nv_fatbin", two}, part{"__nv_relfatbin", row([]piece{ptx(80, 7, 0)})}), twoText + "__nv_relfatbin relocatable compute_80/7.0; "},
		"nothing":                     {x86.image(part{".rodata", data}), ""},
		"an empty section":            {x86.image(part{".nv_fatbin", nil}), ""},
		"an empty container":          {x86.image(part{".nv_fatbin", row(nil, []piece{ptx(80, 7, 8)})}), ".nv_fatbin; .nv_fatbin compute_80/7.8; "},
		"a kind that is not known":    {x86.image(part{".nv_fatbin", row([]piece{{kind: 0x40, arch: 90, code: 8}, {kind: LTO, arch: 75, code: 8}})}), ".nv_fatbin sm_90 lto_75; "},
		"in data, beside nvcc's":      {x86.image(part{".nv_fatbin", nil}, part{".ldata", append(bytes.Clone(data[:8000]), rest...)}), ".ldata resource sm_100 sm_103; "},
		"in data, but not nvcc's":     {x86.image(part{".ldata", append(bytes.Clone(data[:8000]), rest...)}), ""},
		"an object":                   {object.image(part{".nv_fatbin", two}), twoText},
		"an object's relocatable":     {object.image(part{"__nv_relfatbin", row([]piece{cubin(80)})}), "__nv_relfatbin sm_80; "},
		"an object's array":           {object.image(part{".rodata", rest}), ".rodata resource sm_100 sm_103; "},
		"an archive":                  {archive(part{"a.o", object.image(part{".nv_fatbin", two})}, part{"text", []byte("text\n")}, part{"a_long_name_of_an_object.o", object.image(part{".data", rest})}), twoText + ".data resource sm_100 sm_103; "},
		"nvcc -fatbin":                {two, strings.ReplaceAll(twoText, ".nv_fatbin", "")},
		"32 bits":                     {form{elf.ELFCLASS32, binary.LittleEndian, elf.EM_386, elf.ET_DYN}.image(part{".nv_fatbin", two}), twoText},
		"aarch64":                     {form{elf.ELFCLASS64, binary.LittleEndian, elf.EM_AARCH64, elf.ET_EXEC}.image(part{".nv_fatbin", two}), twoText},
		"ppc64le":                     {form{elf.ELFCLASS64, binary.LittleEndian, elf.EM_PPC64, elf.ET_DYN}.image(part{".nv_fatbin", two}), twoText},
		"big-endian":                  {form{elf.ELFCLASS64, binary.BigEndian, elf.EM_PPC64, elf.ET_DYN}.image(part{".nv_fatbin", two}), twoText},
		"a core file":                 {form{elf.ELFCLASS64, binary.LittleEndian, elf.EM_X86_64, elf.ET_CORE}.image(part{".nv_fatbin", two}), ""},
		"a magic in other data":       {x86.image(part{".nv_fatbin", nil}, part{".rodata", append([]byte("\x50\xED\x55\xBA\x01\x00\x10\x00\x40\x00\x00\x00\x00\x00\x00\x00"), data[:800]...)}), ""},
		"a magic off its alignment":   {x86.image(part{".nv_fatbin", nil}, part{".rodata", append(make([]byte, 260), rest...)}), ""},
		"a magic that is all of data": {x86.image(part{".nv_fatbin", nil}, part{".rodata", []byte("\x50\xED\x55\xBA\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00")}), ""},
	} {
		f, err := read(c.file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := text(f); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
	if _, err := read([]byte("text")); !errors.Is(err, ErrNotCode) {
		t.Error(err)
	}
}

// A file whose section headers are gone: what is loaded is searched.
func TestReadWithoutSectionHeaders(t *testing.T) {
	b := x86.image(part{".rodata", make([]byte, 5000)}, part{".nv_fatbin", row([]piece{cubin(80)}, []piece{ptx(80, 8, 4)})})
	copy(b[40:48], make([]byte, 8)) // e_shoff
	copy(b[60:64], make([]byte, 4)) // e_shnum, e_shstrndx
	f, err := read(b)
	if err != nil || !f.Sectionless || text(f) != " sm_80;  compute_80/8.4; " {
		t.Fatalf("%v: %+v", err, f)
	}
}

func TestDamage(t *testing.T) {
	put := func(b []byte, at int, v uint64, size int) []byte {
		b = bytes.Clone(b)
		raw := binary.LittleEndian.AppendUint64(nil, v)
		copy(b[at:at+size], raw)
		return b
	}
	first, _ := container(cubin(80), ptx(80, 8, 4))
	second, _ := container(cubin(90))
	both := append(bytes.Clone(first), second...)
	for name, c := range map[string]struct {
		row  []byte
		want string
	}{
		"a container that ends behind its section": {put(both, 8, 1<<40, 8), ".nv_fatbin damaged: a container of 1099511627776 bytes is cut off after"},
		"a container of a size that wraps around":  {put(both, 8, 1<<64-8, 8), ".nv_fatbin damaged: a container of 18446744073709551608 bytes"},
		"another version":                          {put(both, 4, 2, 2), ".nv_fatbin damaged: a container of version 2"},
		"no header":                                {put(both, 6, 0, 2), ".nv_fatbin damaged: a container of version 1 with a header of 0 bytes"},
		"an entry without header":                  {put(both, 16+4, 0, 4), ".nv_fatbin damaged: an entry with a header of 0"},
		"an entry's header of 4 GB":                {put(both, 16+4, 1<<32-1, 4), ".nv_fatbin damaged: an entry with a header of 4294967295"},
		"an entry's code of 2^64":                  {put(both, 16+8, 1<<64-64, 8), ".nv_fatbin damaged: an entry with a header of 64 and code of 18446744073709551552"},
		"an entry of another form":                 {put(both, 16+2, 7, 2), ".nv_fatbin damaged: an entry of an unknown form"},
		"a remainder":                              {put(both, 16+8, 4008+696+80-16, 8), ".nv_fatbin damaged: 16 bytes at the end of a container are not an entry"},
	} {
		f, err := read(x86.image(part{".nv_fatbin", c.row}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := text(f)
		if !strings.HasPrefix(got, c.want) || !strings.HasSuffix(got, "; .nv_fatbin sm_90; ") || !strings.Contains(got, "(offset 0x") {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
		if n := f.Judge(80, Version{}); n.Error != 209 {
			t.Errorf("%s: what is damaged runs: %+v", name, n)
		}
	}
	for name, b := range map[string][]byte{
		"a section header table outside": put(x86.image(part{".nv_fatbin", both}), 40, 1<<60, 8),
		"an archive's member outside":    archive(part{"a.o", both})[:300],
	} {
		if f, err := read(b); err == nil {
			t.Errorf("%s: %s", name, text(f))
		}
	}
}

// watched notes what is read.
type watched struct {
	io.ReaderAt
	n    int64
	most int
	code [][2]int64 // not to be read
	bad  []string
}

func (w *watched) ReadAt(p []byte, off int64) (int, error) {
	w.n += int64(len(p))
	w.most = max(w.most, len(p))
	for _, c := range w.code {
		// What follows a container's header by less than an entry's header is read with it.
		if off < c[1] && c[0] < off+int64(len(p)) && len(p) > 80 {
			w.bad = append(w.bad, fmt.Sprintf("%d bytes at %#x", len(p), off))
		}
	}
	return w.ReaderAt.ReadAt(p, off)
}

// synthetic is a file of which only some parts are there; the rest are the fillers of code.
type synthetic struct {
	parts map[int64][]byte // by multiples of 4096
}

func (s synthetic) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		at := off + int64(i)
		p[i] = filler
		if page := s.parts[at&^4095]; page != nil {
			p[i] = page[at&4095]
		}
	}
	return len(p), nil
}

func (s synthetic) put(off int64, b []byte) {
	for i, c := range b {
		at := off + int64(i)
		if s.parts[at&^4095] == nil {
			s.parts[at&^4095] = bytes.Repeat([]byte{filler}, 4096)
		}
		s.parts[at&^4095][at&4095] = c
	}
}

// 444 containers in 456 MB, as libtorch_cuda.so has them: some hundred kilobytes are read, all of them headers, and
// the memory is for what is listed.
func TestOnlyHeadersAreRead(t *testing.T) {
	const containers, entries, code = 444, 7, 146_000
	var size int64 = 4096
	file := synthetic{map[int64][]byte{}}
	w := &watched{ReaderAt: file}
	for range containers {
		var pieces []piece
		for i := range entries {
			pieces = append(pieces, piece{kind: Cubin, arch: uint32(75 + 5*i), code: 0})
		}
		made, _ := container(pieces...)
		binary.LittleEndian.PutUint64(made[8:], entries*(64+code))
		file.put(size, made[:16])
		size += 16
		for i := range entries {
			head := made[16+64*i:][:64]
			binary.LittleEndian.PutUint64(head[8:], code)
			file.put(size, head)
			w.code = append(w.code, [2]int64{size + 64, size + 64 + code})
			size += 64 + code
		}
	}
	shell := x86.image(part{".nv_fatbin", nil})
	// The section of the made file is at 0x80; it gets the real place and size.
	fat := shell[len(shell)-2*64:][:64]
	binary.LittleEndian.PutUint64(fat[24:], 4096)
	binary.LittleEndian.PutUint64(fat[32:], uint64(size)-4096)
	table := size + 16384 // what is read around it is none of the code
	file.put(0, shell[:64+56])
	names := bytes.Index(shell, []byte("\x00.nv_fatbin\x00"))
	file.put(int64(names), shell[names:names+32])
	file.put(table, shell[len(shell)-3*64:])
	var head [4096]byte
	file.put(40, binary.LittleEndian.AppendUint64(nil, uint64(table)))
	file.ReadAt(head[:], 0)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := Read(w, table+3*64, head[:])
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if got, all := len(f.Containers), len(f.Containers[0].Entries); got != containers || all != entries {
		t.Errorf("%d containers with %d entries", got, all)
	}
	for _, bad := range w.bad {
		t.Errorf("read of code: %s", bad)
	}
	if w.n > 1<<20 {
		t.Errorf("%d bytes are read of %d", w.n, size)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes of memory", used)
	}
}

// A hole in a section, as thinning in place leaves it, is not read.
type holed struct {
	*bytes.Reader
	from, to int64
	read     int
}

func (h *holed) NextData(off int64) int64 {
	if off >= h.from && off < h.to {
		return h.to
	}
	return off
}

func (h *holed) ReadAt(p []byte, off int64) (int, error) {
	if off < h.to && off+int64(len(p)) > h.from {
		h.read += len(p)
	}
	return h.Reader.ReadAt(p, off)
}

func TestHolesAreNotRead(t *testing.T) {
	first, _ := container(cubin(80))
	second, _ := container(cubin(90))
	b := x86.image(part{".nv_fatbin", append(append(bytes.Clone(first), make([]byte, 4<<20)...), second...)})
	from := int64(bytes.Index(b, first) + len(first))
	h := &holed{Reader: bytes.NewReader(b), from: (from + 4095) &^ 4095, to: (from + 4<<20) &^ 4095}
	f, err := Read(h, int64(len(b)), b[:4096])
	if err != nil || text(f) != ".nv_fatbin sm_80; .nv_fatbin sm_90; " {
		t.Fatal(err, text(f))
	}
	if h.read > 256<<10 {
		t.Errorf("%d bytes of the hole are read", h.read)
	}
}

// The work is bounded by the file's size, whatever its headers say: a file of containers within containers.
func TestNestedContainers(t *testing.T) {
	const n = 40_000
	b := make([]byte, 64*n)
	le := binary.LittleEndian
	for at := 0; at+64 <= len(b); at += 64 {
		le.PutUint16(b[at:], uint16(Cubin))
		le.PutUint16(b[at+2:], 0x0101)
		le.PutUint32(b[at+4:], 64)
		le.PutUint32(b[at+48:], 0xBA55ED50) // of a container whose first entry is the next one
		le.PutUint16(b[at+52:], 1)
		le.PutUint16(b[at+54:], 16)
		le.PutUint64(b[at+56:], uint64(len(b)-at-64))
	}
	b[len(b)-64+2] = 9 // the last is broken
	for _, name := range []string{".nv_fatbin", ".rodata"} {
		w := &watched{}
		file := x86.image(part{".nvFatBinSegment", make([]byte, 24)}, part{name, b})
		w.ReaderAt = bytes.NewReader(file)
		if _, err := Read(w, int64(len(file)), file[:4096]); err != nil {
			t.Fatal(err)
		}
		if w.n > 4*int64(len(file)) {
			t.Errorf("%s: %d bytes read of %d", name, w.n, len(file))
		}
	}
	// Segments and sections that all have the same bytes are searched once.
	file := x86.image(part{".nv_fatbin", nil}, part{".a", b}, part{".b", nil}, part{".c", nil}, part{".d", nil})
	im, err := elfimage.ParseSections(bytes.NewReader(file), int64(len(file)), file[:4096])
	if err != nil {
		t.Fatal(err)
	}
	for i := 3; i < 6; i++ {
		at := int(im.Shoff) + 64*i
		le.PutUint64(file[at+24:], im.Sections[2].Off)
		le.PutUint64(file[at+32:], im.Sections[2].Size)
	}
	w := &watched{ReaderAt: bytes.NewReader(file)}
	if _, err := Read(w, int64(len(file)), file[:4096]); err != nil || w.n > 4*int64(len(file)) {
		t.Errorf("%v: %d bytes read of %d", err, w.n, len(file))
	}
}

// cuobjdump, where there is one, lists the same. The cubins of the made files are ELF headers alone, which is all that it
// looks at for its list.
func TestAgreesWithCuobjdump(t *testing.T) {
	cuobjdump, err := exec.LookPath("cuobjdump")
	if err != nil {
		t.Skip(err)
	}
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "k.cu")
	if err := os.WriteFile(source, []byte("__global__ void k(int *p) { *p = 1; }\nint main() { k<<<1, 1>>>(0); return 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^(ELF|PTX) file +\d+: .*\.sm_(\d+[af]?)\.(?:cubin|ptx)$`)
	for i, flags := range []string{
		"-gencode arch=compute_80,code=sm_80",
		"-gencode arch=compute_75,code=sm_75 -gencode arch=compute_86,code=sm_86 -gencode arch=compute_89,code=[sm_89,compute_89]",
		"-gencode arch=compute_90,code=compute_90",
		"-gencode arch=compute_80,code=[sm_80,compute_80] -rdc=true",
		"-gencode arch=compute_80,code=[sm_80,compute_80] -Xfatbin=-compress-all",
		"-gencode arch=compute_80,code=[sm_80,compute_80] --no-compress",
		"-gencode arch=compute_80,code=[lto_80,sm_80] -rdc=true -c",
		"-gencode arch=compute_80,code=sm_80 -c", "-gencode arch=compute_80,code=[sm_80,compute_80] -rdc=true -c",
		"-gencode arch=compute_80,code=[sm_80,compute_80] -fatbin", "-arch=sm_75 -G", "-arch=sm_86 -lineinfo -cudart shared", "-arch=sm_86 -lib",
	} {
		out := filepath.Join(dir, fmt.Sprintf("k%d", i))
		if strings.Contains(flags, "-c") && !strings.Contains(flags, "-cudart") && !strings.Contains(flags, "-compress") {
			out += ".o"
		}
		args := append(strings.Fields(flags), "--allow-unsupported-compiler", "-o", out, source)
		if said, err := exec.Command(nvcc, args...).CombinedOutput(); err != nil {
			t.Errorf("nvcc %s: %v: %s", flags, err, said)
			continue
		}
		listed, _ := exec.Command(cuobjdump, "-lelf", "-lptx", "-all", out).Output()
		theirs := map[string]int{}
		for _, m := range line.FindAllStringSubmatch(string(listed), -1) {
			theirs[m[1]+" "+m[2]]++
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		f, err := read(b)
		if err != nil {
			t.Errorf("%s: %v", flags, err)
			continue
		}
		ours := map[string]int{}
		for _, c := range f.Containers {
			for _, e := range c.Entries {
				if what, ok := map[Kind]string{Cubin: "ELF", PTX: "PTX"}[e.Kind]; ok {
					ours[what+" "+e.digits()]++
				}
			}
		}
		if fmt.Sprint(ours) != fmt.Sprint(theirs) {
			t.Errorf("%s: %v, and cuobjdump has %v", flags, ours, theirs)
		}
	}
}

// What "runpath thin" leaves behind a container is read, and is no container; what only resembles it is.
func TestMarks(t *testing.T) {
	targets, err := ParseTargets("8.6+PTX,9.0a")
	if err != nil {
		t.Fatal(err)
	}
	mark := NewMark(targets)
	if len(mark)%8 != 0 {
		t.Errorf("a mark of %d bytes", len(mark))
	}
	const at = containerHeader + entryHeader // of the text
	change := func(at int, by string) []byte {
		return append(append(bytes.Clone(mark[:at]), by...), mark[at+len(by):]...)
	}
	for name, c := range map[string]struct {
		mark       []byte
		lists      []string
		containers int
	}{
		"as it is written":   {mark, []string{"8.6+PTX,9.0a"}, 2},
		"twice":              {append(bytes.Clone(mark), mark...), []string{"8.6+PTX,9.0a"}, 2},
		"other text":         {change(at, "T"), nil, 3},
		"no list":            {change(at+len(markText), "\x00"), nil, 3},
		"no list of GPUs":    {change(at+len(markText), "\x1b"), nil, 3},
		"another kind":       {change(16, "\x01"), nil, 3},
		"nothing but a head": {[]byte("\x50\xED\x55\xBA\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00"), nil, 3},
	} {
		b := append(append(row([]piece{cubin(80), cubin(90)}), c.mark...), row([]piece{cubin(90)})...)
		f, err := Read(bytes.NewReader(b), int64(len(b)), b[:min(len(b), 4096)])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := f.ThinnedFor(); !slices.Equal(got, c.lists) || len(f.Containers) != c.containers {
			t.Errorf("%s: %q, %d containers", name, got, len(f.Containers))
		}
	}
	if long, _ := ParseTargets(strings.Join(allTargets(), ",")); NewMark(long) != nil {
		t.Error("a mark that is not read is written")
	}
}

func allTargets() (all []string) {
	for n := 20; n < 1000; n++ {
		all = append(all, fmt.Sprintf("sm_%d", n))
	}
	return all
}

// What thin has emptied is a container, wherever it is.
func TestEmptyContainers(t *testing.T) {
	f, err := read(x86.image(part{".nv_fatbin", row([]piece{cubin(90)}, nil)}, part{".cask_resource", append(make([]byte, 16), row(nil, []piece{cubin(100)}, nil)...)}))
	if want := ".nv_fatbin sm_90; .nv_fatbin; .cask_resource resource; .cask_resource resource sm_100; .cask_resource resource; "; err != nil || text(f) != want {
		t.Errorf("%s, %v; want %s", text(f), err, want)
	}
}
