package elfimage

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"cuda-runpath/tests/tinyelf"
)

// Headers of both classes and byte orders, written by encoding/binary from debug/elf's own layout.
func TestDecodeHeader(t *testing.T) {
	ident := func(class elf.Class, data elf.Data) (b [elf.EI_NIDENT]byte) {
		copy(b[:], elf.ELFMAG)
		b[elf.EI_CLASS], b[elf.EI_DATA], b[elf.EI_VERSION], b[elf.EI_OSABI] = byte(class), byte(data), 1, byte(elf.ELFOSABI_LINUX)
		return b
	}
	for _, data := range []elf.Data{elf.ELFDATA2LSB, elf.ELFDATA2MSB} {
		var order binary.ByteOrder = binary.LittleEndian
		if data == elf.ELFDATA2MSB {
			order = binary.BigEndian
		}
		for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
			var b bytes.Buffer
			if class == elf.ELFCLASS64 {
				binary.Write(&b, order, elf.Header64{Ident: ident(class, data), Type: 3, Machine: 0x3e, Version: 1, Entry: 1 << 40, Phoff: 0x1122334455667788,
					Shoff: 0x99, Flags: 0xabcd, Ehsize: 64, Phentsize: 56, Phnum: 7, Shentsize: 58, Shnum: 8, Shstrndx: 5})
			} else {
				binary.Write(&b, order, elf.Header32{Ident: ident(class, data), Type: 3, Machine: 0x3e, Version: 1, Entry: 1, Phoff: 0x11223344,
					Shoff: 0x99, Flags: 0xabcd, Ehsize: 64, Phentsize: 56, Phnum: 7, Shentsize: 58, Shnum: 8, Shstrndx: 5})
			}
			h, isELF, whole := DecodeHeader(b.Bytes())
			if !isELF || !whole || h.Class != class || h.Data != data || h.OSABI != elf.ELFOSABI_LINUX || h.Type != elf.ET_DYN ||
				h.Machine != elf.EM_X86_64 || h.Version != 1 || h.Shoff != 0x99 || h.Flags != 0xabcd || h.Ehsize != 64 || h.Phentsize != 56 ||
				h.Phnum != 7 || h.Shentsize != 58 || h.Shnum != 8 || h.Shstrndx != 5 {
				t.Errorf("%v %v: %+v", class, data, h)
			}
			if want := map[elf.Class]uint64{elf.ELFCLASS32: 0x11223344, elf.ELFCLASS64: 0x1122334455667788}[class]; h.Phoff != want {
				t.Errorf("%v %v: e_phoff %#x", class, data, h.Phoff)
			}
			if _, isELF, whole := DecodeHeader(b.Bytes()[:b.Len()-1]); !isELF || whole {
				t.Errorf("%v %v: one byte short: %v, %v", class, data, isELF, whole)
			}
		}
	}
	for _, b := range []string{"", "\x7fEL", "text that is long enough for a header, and begins otherwise ....."} {
		if _, isELF, whole := DecodeHeader([]byte(b)); isELF || whole {
			t.Errorf("%q", b)
		}
	}
}

// The limit is what is said, not that there is no end.
func TestDynamicSectionAboveTheLimit(t *testing.T) {
	o := tinyelf.Object{}
	for range maxDynamic {
		o.Strings = append(o.Strings, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "libx.so"})
	}
	b := o.Bytes()
	_, err := Parse(bytes.NewReader(b), int64(len(b)))
	if err == nil || !strings.Contains(err.Error(), "dynamic section has more than 65536 entries") {
		t.Error(err)
	}
}
