package elfimage_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"cuda-runpath/pkg/elfimage"
)

// library returns a library that has nothing but a run path and a needed library.
func library() []byte {
	const headers = 64 + 2*56 // bytes: the ELF header and two program headers
	const names = "\x00libm.so.6\x00$ORIGIN/../lib\x00"
	dynamic := []elf.Dyn64{{Tag: int64(elf.DT_NEEDED), Val: 1}, {Tag: int64(elf.DT_RUNPATH), Val: 11},
		{Tag: int64(elf.DT_STRTAB), Val: headers + 5*16}, {Tag: int64(elf.DT_STRSZ), Val: uint64(len(names))}, {}}
	size := uint64(headers + 5*16 + len(names))
	var file bytes.Buffer
	for _, part := range []any{
		elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1}, Type: uint16(elf.ET_DYN),
			Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Filesz: size, Memsz: size, Align: 4096},
		elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Flags: uint32(elf.PF_R), Off: headers, Vaddr: headers, Filesz: 5 * 16, Memsz: 5 * 16},
		dynamic, []byte(names),
	} {
		_ = binary.Write(&file, binary.LittleEndian, part) // a Buffer takes all
	}
	return file.Bytes()
}

func Example() {
	file := library() // an *os.File does as well
	im, err := elfimage.Parse(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer im.Release()
	needed, err := im.Needed()
	fmt.Println(im.Machine, needed, err)
	fmt.Println(im.RunPath())
	// Output:
	// EM_X86_64 [libm.so.6] <nil>
	// DT_RUNPATH $ORIGIN/../lib <nil>
}
