package elfimage

import (
	"bytes"
	"debug/elf"
	"strings"
	"sync"
)

const (
	stringBlock = 64 << 10 // bytes searched at a time: they stay in the processor's cache
	maxName     = 255      // NAME_MAX: a longer string is no file name

	// stringContext is how many bytes before and after its ".so" a name may depend on. A directory may precede the
	// name, and a token the directory.
	stringContext = 2*maxName + 2
)

// LibraryNames calls yield once for each name that [Image.LibraryStrings] finds. Rust and Go keep strings side by
// side, so digits at the end of a name may belong to the next string; the name comes without them, too. A name
// without a version also comes with the version of the file's own soname, which cuDNN appends to the names of its
// parts.
func (im *Image) LibraryNames(yield func(name string) bool) error {
	soname, err := im.Soname()
	if err != nil {
		return err
	}
	_, version, _ := strings.Cut(soname, ".so")
	seen := map[string]bool{}
	once := func(name string) bool {
		if seen[name] {
			return true
		}
		seen[name] = true
		return yield(name)
	}
	return im.LibraryStrings(func(name string, exact bool) bool {
		if strings.HasSuffix(name, ".so") && !once(name+version) {
			return false
		}
		for {
			if !once(name) {
				return false
			}
			n := len(name) - 1
			if exact || !digit(name[n]) || !digit(name[n-1]) {
				return true
			}
			name = name[:n]
		}
	})
}

// LibraryStrings calls yield for each name of a shared library in the file's
// read-only data, as in dlopen("libcuda.so.1"), in the file's order, repetitions
// included, until yield returns false. The directory part of a path is left out,
// unless it begins with the loader's $ORIGIN, $LIB or $PLATFORM, which dlopen replaces too.
//
// exact: the name ends with a NUL. It is a string of C's, or the tail of a longer one, because linkers merge a string
// that is another one's tail. Rust and Go keep strings unterminated and side by side. A name among these begins at
// the last "lib" and may have a digit too many after ".so".
//
// GPU code, often most of a CUDA library, is not searched. Nor is a large file that is only data and calls no
// function of others, because it opens nothing. Memory use does not depend on the file's size.
func (im *Image) LibraryStrings(yield func(name string, exact bool) bool) error {
	return im.LibraryPaths(func(name string, exact bool) bool {
		if name[0] != '$' {
			name = name[strings.LastIndexByte(name, '/')+1:]
		}
		return yield(name, exact)
	})
}

// LibraryPaths is LibraryStrings with the directory part if the whole C string is a path.
func (im *Image) LibraryPaths(yield func(name string, exact bool) bool) error {
	spans := im.readOnlyData()
	total := uint64(0)
	for i, s := range spans {
		if total += min(s.size, im.size); total > 2*im.size { // they overlap in a malicious file
			spans = spans[:i]
			break
		}
	}
	if total >= dataOnly && im.callsNobody() {
		return nil
	}
	for _, s := range spans {
		if s.size > im.size || s.off > im.size-s.size {
			continue
		}
		if more, err := im.libraries(s, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// dataOnly is the size in bytes from which it is worth asking whether a file calls any function.
const dataOnly = 256 << 10

// callsNobody reports whether the file has few dynamic symbols and none of them is undefined, except the hooks of the
// C runtime.
func (im *Image) callsNobody() bool {
	const few = 64
	size := im.SymSize()
	off, n, known := im.DynSymbols()
	if !known || n == 0 || n > few {
		return false
	}
	nobody := true
	err := im.EachPiece(off, n, size, func(at uint64, b []byte) {
		for ; uint64(len(b)) >= size; b, at = b[size:], at+size {
			info, _ := im.SymbolInfo(b)
			if section, _ := im.Symbol(b); at > off && section == elf.SHN_UNDEF && elf.ST_BIND(info) != elf.STB_WEAK {
				nobody = false
			}
		}
	})
	return err == nil && nobody
}

// stringBuffer holds a block, and the bytes around it that a name in it may depend on.
type stringBuffer [stringContext + stringBlock + stringContext]byte

var stringBuffers = sync.Pool{New: func() any { return new(stringBuffer) }}

// libraries yields the names in a part of the file, until yield returns false.
func (im *Image) libraries(s span, yield func(string, bool) bool) (more bool, err error) {
	buf := stringBuffers.Get().(*stringBuffer)
	defer stringBuffers.Put(buf)
	for at := uint64(0); at < s.size; at += stringBlock {
		from, end := at-min(at, stringContext), min(at+stringBlock, s.size)
		b := buf[:min(end+stringContext, s.size)-from]
		if err := ReadFull(im, b, s.off+from); err != nil {
			return false, err
		}
		if !eachLibrary(b, int(at-from), int(end-from), yield) {
			return false, nil
		}
	}
	return true, nil
}

type span struct{ off, size uint64 }

// readOnlyData returns the parts of the file that may hold string constants. These are the allocated sections that
// are neither writable nor code, or without section headers the segments that are not writable.
func (im *Image) readOnlyData() []span {
	var spans []span
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&(elf.SHF_WRITE|elf.SHF_EXECINSTR) != 0 {
			continue
		}
		switch name := im.SectionName(i); {
		case strings.Contains(name, "nv_fatbin"), strings.Contains(name, "nv_relfatbin"),
			strings.HasPrefix(name, ".eh_frame"), name == ".gcc_except_table", name == ".interp":
			continue
		}
		spans = append(spans, span{s.Off, s.Size})
	}
	if len(im.Sections) > 0 {
		return spans
	}
	for i := range im.Progs {
		if p := &im.Progs[i]; p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 {
			spans = append(spans, span{p.Off, p.Filesz})
		}
	}
	return spans
}

// Constants returns the file's read-only data, its parts in the file's order with a NUL between them; nil if that is
// more than limit bytes.
func (im *Image) Constants(limit uint64) ([]byte, error) {
	spans, size := im.readOnlyData(), uint64(0)
	for _, s := range spans {
		if s.size > im.size || s.off > im.size-s.size {
			return nil, Malformed(s.off, "read-only data beyond the end of the file")
		}
		if size += s.size + 1; size > limit {
			return nil, nil
		}
	}
	b := make([]byte, 0, size)
	for _, s := range spans {
		at := len(b)
		b = b[:at+int(s.size)+1]
		if err := ReadFull(im, b[at:at+int(s.size)], s.off); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// eachLibrary yields the library names whose ".so" begins between from and limit.
func eachLibrary(b []byte, from, limit int, yield func(string, bool) bool) bool {
	suffix := []byte(".so")
	for dot := from; ; dot++ {
		next := bytes.Index(b[dot:min(limit+len(suffix)-1, len(b))], suffix)
		if next < 0 {
			return true
		}
		dot += next
		start := dot
		for start > 0 && dot-start < maxName && nameByte(b[start-1]) {
			start--
		}
		after := dot + len(".so")
		end := after
		for end < len(b) && end-dot < maxName && (b[end] == '.' && end+1 < len(b) && digit(b[end+1]) ||
			digit(b[end]) && end > after) {
			end++
		}
		exact := end < len(b) && b[end] == 0
		if !exact {
			k := bytes.LastIndex(b[start:dot], []byte("lib"))
			if k < 0 {
				continue
			}
			start += k
		}
		if exact && start > 0 && b[start-1] == '/' {
			start = withDirectory(b, start)
		}
		if start < dot && !yield(string(b[start:end]), exact) {
			return false
		}
	}
}

// withDirectory returns the beginning of the string that has a name at start, if that is a path or begins with a
// token of the loader; else start.
func withDirectory(b []byte, start int) int {
	from, dollar := start, false
	for from > 0 && start-from < maxName && (nameByte(b[from-1]) || bytes.IndexByte([]byte("/${}"), b[from-1]) >= 0) {
		from--
		dollar = dollar || b[from] == '$'
	}
	if from > 0 && b[from-1] != 0 {
		return start
	}
	for _, token := range []string{"$ORIGIN/", "${ORIGIN}/", "$LIB/", "${LIB}/", "$PLATFORM/", "${PLATFORM}/"} {
		if bytes.HasPrefix(b[from:start], []byte(token)) {
			return from
		}
	}
	if dollar {
		return start
	}
	return from
}

// nameByte reports whether names of libraries have such a byte in practice.
func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c) || c == '_' || c == '-' || c == '.' || c == '+'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
