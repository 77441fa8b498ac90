package elfimage

import (
	"bytes"
	"debug/elf"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	stringBuffer = 64 << 10 // bytes read at a time: what stays in the processor's cache
	maxName      = 255      // NAME_MAX: a longer string is no file name
)

// LibraryNames calls yield for each name that [Image.LibraryStrings] finds, once. Where a
// name is not a string of its own (Rust and Go keep strings side by side), digits at its
// end may be the next string's: the name without them comes too.
func (im *Image) LibraryNames(yield func(name string) bool) error {
	seen := map[string]bool{}
	return im.LibraryStrings(func(name string, exact bool) bool {
		for {
			if !seen[name] {
				seen[name] = true
				if !yield(name) {
					return false
				}
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
// exact tells a NUL-terminated name: C's, or the tail of a longer string, because
// linkers merge a string that is another one's tail. Rust and Go keep strings
// unterminated and side by side; what is told from them begins at the last "lib"
// and may have a digit too many after ".so".
//
// GPU code, often most of a CUDA library, is not searched, nor is a large file that is
// data only and calls no function of another: it opens nothing. Memory use does not
// depend on the file's size.
func (im *Image) LibraryStrings(yield func(name string, exact bool) bool) error {
	pooled := stringBuffers.Get().(*[stringBuffer]byte)
	defer stringBuffers.Put(pooled)
	buf := pooled[:0]
	spans := im.readOnlyData()
	total := uint64(0)
	for i, s := range spans {
		if total += min(s.size, im.size); total > 2*im.size { // they overlap: made to keep us busy
			spans = spans[:i]
			break
		}
	}
	if total >= minMapped && im.callsNobody() {
		return nil
	}
	for _, s := range spans {
		if s.size > im.size || s.off > im.size-s.size {
			continue
		}
		if m, ok := im.mapped(s.off, s.size); ok {
			more, err := m.libraries(yield)
			m.unmap()
			if err != nil || !more {
				return err
			}
			continue
		}
		b, searched := buf[:0], 0 // what is in memory, and how much of it was searched
		for at, end := s.off, s.off+s.size; at < end; {
			kept := len(b)
			n := int(min(uint64(stringBuffer-kept), end-at))
			b = buf[:kept+n]
			if err := ReadFull(im.r, b[kept:], at); err != nil {
				return err
			}
			at += uint64(n)
			limit := len(b)
			if at < end {
				limit = max(searched, len(b)-maxName) // a name after it may not be whole yet
			}
			if !eachLibrary(b, searched, limit, yield) {
				return nil
			}
			from := max(0, limit-maxName) // a name that is still to be found may begin here
			searched = limit - from
			b = buf[:copy(buf[:cap(buf)], b[from:])]
		}
	}
	return nil
}

// callsNobody reports whether the file has a table of few dynamic symbols in which nothing
// is undefined but what may be: the hooks of the C runtime.
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
			info, section := b[4], im.Order.Uint16(b[6:])
			if !im.Is64() {
				info, section = b[12], im.Order.Uint16(b[14:])
			}
			if at > off && section == uint16(elf.SHN_UNDEF) && elf.ST_BIND(info) != elf.STB_WEAK {
				nobody = false
			}
		}
	})
	return err == nil && nobody
}

var stringBuffers = sync.Pool{New: func() any { return new([stringBuffer]byte) }}

// A mapper is a reader that can map a part of its file: unmap is called when the bytes,
// which may fault where the file is cut off meanwhile, are no longer read.
type mapper interface {
	Map(off int64, n int) (b []byte, unmap func(), err error)
}

// minMapped is the size in bytes from which mapping costs less than copying.
const minMapped = 256 << 10

type mapping struct {
	b     []byte
	unmap func()
}

// mapped maps a part of the file where that is worth it and the reader can.
func (im *Image) mapped(off, n uint64) (m mapping, ok bool) {
	w, isWindow := im.r.(*window)
	if !isWindow || n < minMapped || n > math.MaxInt32 {
		return m, false
	}
	r, can := w.r.(mapper)
	if !can {
		return m, false
	}
	var err error
	m.b, m.unmap, err = r.Map(int64(off), int(n))
	return m, err == nil
}

// libraries is eachLibrary for all of the bytes. The error says that they cannot be read.
//
// Several goroutines search a large part, a piece each: where many programs are looked at,
// all wait for the one large library that most of them load.
func (m mapping) libraries(yield func(string, bool) bool) (more bool, err error) {
	const piece = 256 << 10
	n := (len(m.b) + piece - 1) / piece
	workers := min(n, runtime.GOMAXPROCS(0))
	if n < 8 || workers == 1 {
		return m.search(0, len(m.b), yield)
	}
	type name struct {
		text  string
		exact bool
	}
	type result struct {
		names []name
		err   error
	}
	results := make([]result, 4*workers) // of some pieces at a time: how many names there are depends on the file
	for from := 0; from < n; from += len(results) {
		count := min(len(results), n-from)
		var next atomic.Int64
		work := func() {
			for i := int(next.Add(1)) - 1; i < count; i = int(next.Add(1)) - 1 {
				r := &results[i]
				r.names = r.names[:0]
				at := (from + i) * piece
				_, r.err = m.search(at, min(at+piece, len(m.b)), func(text string, exact bool) bool {
					r.names = append(r.names, name{text, exact})
					return true
				})
			}
		}
		var others sync.WaitGroup
		for range min(workers, count) - 1 {
			others.Go(work)
		}
		work()
		others.Wait()
		for _, r := range results[:count] {
			if r.err != nil {
				return false, r.err
			}
			for _, name := range r.names {
				if !yield(name.text, name.exact) {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// search is eachLibrary for some of the bytes.
func (m mapping) search(from, to int, yield func(string, bool) bool) (more bool, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(interface{ Addr() uintptr }); !ok { // no fault of the hardware
				panic(r)
			}
			err = io.ErrUnexpectedEOF
		}
	}()
	return eachLibrary(m.b, from, to, yield), nil
}

type span struct{ off, size uint64 }

// readOnlyData returns the parts of the file that may hold string constants:
// allocated sections that are neither writable nor code, and without section
// headers the segments that are not writable.
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

// eachLibrary yields the library names whose ".so" begins at from or after it, and before limit.
func eachLibrary(b []byte, from, limit int, yield func(string, bool) bool) bool {
	for i := from; i < limit; {
		// Not bytes.Index: it takes to comparing byte by byte where periods are many.
		j := bytes.IndexByte(b[i:limit], '.')
		if j < 0 {
			return true
		}
		dot := i + j
		i = dot + 1
		if dot+len(".so") > len(b) || b[dot+1] != 's' || b[dot+2] != 'o' {
			continue
		}
		i = dot + len(".so")
		start := dot
		for start > 0 && dot-start < maxName && nameByte(b[start-1]) {
			start--
		}
		end := i
		for end < len(b) && end-dot < maxName && (b[end] == '.' && end+1 < len(b) && digit(b[end+1]) || digit(b[end]) && end > i) {
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
			start = withToken(b, start)
		}
		if start < dot && !yield(string(b[start:end]), exact) {
			return false
		}
	}
	return true
}

// withToken returns where the string begins that has a name at start, where it begins
// with a token of the loader, else start.
func withToken(b []byte, start int) int {
	from := start
	for from > 0 && start-from < maxName && (nameByte(b[from-1]) || bytes.IndexByte([]byte("/${}"), b[from-1]) >= 0) {
		from--
	}
	for _, token := range []string{"$ORIGIN/", "${ORIGIN}/", "$LIB/", "${LIB}/", "$PLATFORM/", "${PLATFORM}/"} {
		if bytes.HasPrefix(b[from:start], []byte(token)) && (from == 0 || b[from-1] == 0) {
			return from
		}
	}
	return start
}

// nameByte tells the bytes that names of libraries are made of in practice.
func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c) || c == '_' || c == '-' || c == '.' || c == '+'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
