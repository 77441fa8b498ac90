// Package stubcode tells the toolkit's stub of libcuda.so.1 from a driver, by its code.
package stubcode

import (
	"bytes"
	"debug/elf"
)

// Answers reports whether the code of a function of libcuda.so.1, as it is called, does nothing but return
// CUDA_ERROR_STUB_LIBRARY, 34: so every function of the toolkit's stub does, and none of a driver. code is its
// beginning.
func Answers(m elf.Machine, code []byte) bool {
	switch m {
	case elf.EM_X86_64, elf.EM_386:
		// endbr, a frame
		for _, begins := range []string{"\xf3\x0f\x1e\xfa", "\xf3\x0f\x1e\xfb", "\x55", "\x48\x89\xe5", "\x89\xe5"} {
			code = bytes.TrimPrefix(code, []byte(begins))
		}
		code, ok := bytes.CutPrefix(code, []byte("\xb8\x22\x00\x00\x00")) // mov $34, %eax
		code = bytes.TrimPrefix(code, []byte("\x5d"))
		return ok && (bytes.HasPrefix(code, []byte("\xc3")) || bytes.HasPrefix(code, []byte("\xc9\xc3")))
	case elf.EM_AARCH64:
		code = bytes.TrimPrefix(code, []byte("\x5f\x24\x03\xd5"))                // bti c
		return bytes.HasPrefix(code, []byte("\x40\x04\x80\x52\xc0\x03\x5f\xd6")) // mov w0, #34; ret
	}
	return false
}
