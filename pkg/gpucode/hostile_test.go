package gpucode

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// seeds are files of every form.
func seeds() [][]byte {
	object := x86
	object.typ = elf.ET_REL
	fat := row([]piece{cubin(80), cubin(90).a(), ptx(90, 8, 4)}, nil, []piece{stub(80), {kind: LTO, arch: 75, code: 30}}, []piece{{kind: 0x40, code: 1}}, []piece{linkedStub(80), kernel(90)})
	data := append(make([]byte, 200), fat...)
	return [][]byte{
		fat, x86.image(part{".nv_fatbin", fat}, part{"__nv_relfatbin", fat}, part{".data", data}),
		form{elf.ELFCLASS32, binary.LittleEndian, elf.EM_386, elf.ET_EXEC}.image(part{".nv_fatbin", fat}),
		archive(part{"a.o", object.image(part{".nv_fatbin", fat})}, part{"another_object_file.o", object.image(part{".rodata", data})}),
	}
}

// sound checks what holds of every file that can be read.
func sound(t interface{ Fatalf(string, ...any) }, b []byte) {
	f, err := read(b)
	if err != nil {
		return
	}
	size := uint64(len(b))
	var sum Sum
	for i := range f.Containers {
		c := &f.Containers[i]
		sum.Add(c)
		if c.Off > size || c.Size > size-c.Off || c.Damage != nil && len(c.Entries) > 0 {
			t.Fatalf("%+v in a file of %d bytes", c, size)
		}
		at := c.Off + c.Size
		for k := range c.Entries {
			e := &c.Entries[k]
			if e.Off < c.Off+16 || e.Off > at || e.Bytes() > at-e.Off {
				t.Fatalf("%+v in %+v", e, c)
			}
		}
	}
	f.Judge(90, Version{13, 0})
	f.Unasked([]Target{{Arch: Arch{Capability: 90}, Real: true}})
}

// 100,000 files with some bytes changed: none stops it, and what is listed lies in the file.
func TestMutatedContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	all := seeds()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same files each time
	values := []uint64{0, 1, 7, 8, 16, 63, 64, 65, 0xBA55ED50, 1 << 31, 1<<32 - 1, 1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 64, 1<<64 - 1}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100_000 {
		b := bytes.Clone(all[random.IntN(len(all))])
		for range 1 + random.IntN(6) {
			at := random.IntN(len(b))
			if random.IntN(2) == 0 { // the headers are few among the code
				at = headers(b, random)
			}
			raw := binary.LittleEndian.AppendUint64(nil, values[random.IntN(len(values))])
			copy(b[at:], raw[:1<<random.IntN(4)])
		}
		if random.IntN(10) == 0 {
			b = b[:random.IntN(len(b))]
		}
		sound(t, b)
	}
	runtime.ReadMemStats(&after)
	if after.Sys > 64<<20 && after.Sys > before.Sys+32<<20 {
		t.Errorf("%d bytes of memory", after.Sys)
	}
}

// headers returns the offset of a byte of the ELF header, a section header or a container's or entry's header.
func headers(b []byte, random *rand.Rand) int {
	switch at := random.IntN(len(b)); random.IntN(3) {
	case 0:
		return at % 128
	case 1:
		return len(b) - 1 - at%512
	default:
		i := bytes.Index(b[at:], []byte{0x50, 0xED, 0x55, 0xBA})
		return min(len(b)-1, at+max(i, 0)+random.IntN(96))
	}
}

// What is in a container's code is none, also where the container is damaged.
func TestDamagedContainerIsPassedWhole(t *testing.T) {
	inner := row([]piece{cubin(80)})
	b, code := container(cubin(90), piece{kind: Cubin, arch: 90, code: len(inner)})
	copy(b[code[1][0]:], inner)
	b[code[0][1]+2] = 7 // the second entry's version
	f, err := read(x86.image(part{".nv_fatbin", append(b, row([]piece{ptx(75, 7, 0)})...)}))
	if err != nil || len(f.Containers) != 2 || f.Containers[0].Damage == nil || f.Containers[1].Entries[0].Name() != "compute_75" {
		t.Errorf("%v: %s", err, text(f))
	}
}

// A file cannot have so many entries that they do not fit in memory.
func TestTooManyEntries(t *testing.T) {
	pieces := make([]piece, maxEntries+1)
	for i := range pieces {
		pieces[i] = piece{kind: Cubin, arch: 80}
	}
	b, _ := container(pieces...)
	if f, err := read(b); err != nil || len(f.Containers) != 1 || f.Containers[0].Damage == nil {
		t.Errorf("in one container: %v", err)
	}
	b = bytes.Repeat(row(nil), maxEntries+1)
	if _, err := read(b); err == nil {
		t.Error("in many containers: no error")
	}
}

func FuzzRead(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { sound(t, b) })
}

// Whatever containers are made are read back as they were made.
func TestReadsWhatWasMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.Custom(func(t *rapid.T) piece {
			return piece{
				kind: rapid.SampledFrom([]Kind{PTX, Cubin, LTO, 0x10, 0x40}).Draw(t, "kind"), arch: rapid.Uint32Range(10, 130).Draw(t, "arch"),
				flags: rapid.SampledFrom([]uint64{0x11, 0x2011, 0x8011, 1<<20 | 0x11, 1<<21 | 0x11, 1<<24 | 1<<20}).Draw(t, "flags"),
				isa:   Version{rapid.Uint16Range(0, 12).Draw(t, "major"), rapid.Uint16Range(0, 9).Draw(t, "minor")},
				code:  rapid.IntRange(0, 3000).Draw(t, "code"), extra: 8 * rapid.IntRange(0, 10).Draw(t, "extra"), unpacked: rapid.Uint64Range(0, 5000).Draw(t, "unpacked"),
			}
		})
		all := rapid.SliceOfN(rapid.SliceOfN(piece, 0, 6), 0, 8).Draw(t, "containers")
		var data []byte
		for _, c := range all {
			made, _ := container(c...)
			data = append(data, make([]byte, 8*rapid.IntRange(0, 40).Draw(t, "zeros"))...)
			data = append(data, made...)
		}
		f, err := read(x86.image(part{".nv_fatbin", data}))
		if err != nil || len(f.Containers) != len(all) {
			t.Fatalf("%v: %d of %d containers", err, len(f.Containers), len(all))
		}
		for i, c := range all {
			if len(f.Containers[i].Entries) != len(c) {
				t.Fatalf("%d: %d of %d entries", i, len(f.Containers[i].Entries), len(c))
			}
			for k, p := range c {
				e := f.Containers[i].Entries[k]
				unpacked := p.unpacked
				if unpacked == 0 {
					unpacked = uint64(p.code+7) &^ 7
				}
				if e.Kind != p.kind || uint32(e.Capability) != p.arch || e.Flags != p.flags || e.Version != p.isa || e.Size != uint64(p.code+7)&^7 || e.Unpacked != unpacked ||
					(e.Variant == Specific) != (p.flags>>20&1 == 1) {
					t.Fatalf("%+v was made from %+v", e, p)
				}
			}
		}
	})
}
