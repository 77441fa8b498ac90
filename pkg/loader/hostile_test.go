package loader

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cuda-runpath/pkg/runpath"
	"cuda-runpath/tests/tinyelf"
)

// Files made to keep us busy end, and say so.
func TestHostileFilesEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	within := func(t *testing.T, limit time.Duration, f func()) {
		t.Helper()
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		select {
		case <-done:
		case <-time.After(limit):
			t.Fatalf("not done after %v", limit)
		}
	}
	t.Run("very many entries and names", func(t *testing.T) {
		s := newStage(t)
		var list []string
		for i := range 20000 {
			list = append(list, fmt.Sprintf("/n/%d", i))
		}
		p := tinyelf.Object{Interp: realLoader}.With(elf.DT_RUNPATH, strings.Join(list, ":"))
		for i := range 20000 {
			p = p.Needs(fmt.Sprintf("l%d", i))
		}
		s.put("p", p)
		within(t, 5*time.Minute, func() {
			l := s.load("p")
			if !l.Truncated || l.Err == "" {
				t.Error("went through")
			}
			// Of what was not looked for nothing is said.
			if n := len(l.Missing()); n == 0 || n > maxSteps/maxElements {
				t.Errorf("%d are missing", n)
			}
		})
	})
	t.Run("libraries without end", func(t *testing.T) {
		s := newStage(t)
		for i := range maxObjects + 10 {
			s.put(fmt.Sprintf("l%d", i), tinyelf.Object{}.Needs(fmt.Sprintf("l%d", i+1)).With(elf.DT_RUNPATH, "$ORIGIN"))
		}
		s.put("p", prog("l0").With(elf.DT_RUNPATH, "$ORIGIN"))
		within(t, 5*time.Minute, func() {
			if l := s.load("p"); !l.Truncated || len(l.Objects) > maxObjects+1 {
				t.Errorf("%d objects", len(l.Objects))
			}
		})
	})
	t.Run("a FIFO with a library's name, as cache and as preload list", func(t *testing.T) {
		s := newStage(t)
		s.o.Root = s.dir
		s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "/"))
		os.Mkdir(s.dir+"/etc", 0o755)
		for _, name := range []string{"liba.so.1", "etc/ld.so.cache", "etc/ld.so.preload", "interp"} {
			if err := syscall.Mkfifo(s.dir+"/"+name, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		within(t, 5*time.Minute, func() {
			if l := s.load("p"); !strings.Contains(l.Err, "not a regular file") {
				t.Errorf("error: %q", l.Err)
			}
			s.put("q", tinyelf.Object{Interp: "/interp"}.Needs("libb.so.1"))
			s.load("q")
		})
	})
	t.Run("links in a circle", func(t *testing.T) {
		s := newStage(t)
		s.link("b", "a")
		s.link("a", "b")
		s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b/../a"))
		s.load("p")
	})
}

// Whatever is in a file, there is an answer or an error.
func TestDamagedFilesDoNotCrash(t *testing.T) {
	s := newStage(t)
	r := rand.New(rand.NewSource(1))
	p := prog("liba.so.1").With(elf.DT_RUNPATH, "$ORIGIN:~/x")
	p.Requires = []tinyelf.Requirement{{Library: "liba.so.1", Version: "V_1"}, {Library: "liba.so.1", Version: "V_2", Weak: true}}
	l := lib("liba.so.1").Needs("libc.so.6").With(elf.DT_RPATH, "$ORIGIN").With(elf.DT_AUXILIARY, "libb.so")
	l.Defines, l.Requires = []string{"V_1", "V_2"}, []tinyelf.Requirement{{Library: "libc.so.6", Version: "GLIBC_2.2.5"}}
	good, library := p.Bytes(), l.Bytes()
	damage := func(b []byte) string {
		b = append([]byte(nil), b...)
		for range 1 + r.Intn(6) {
			b[r.Intn(len(b))] = byte(r.Intn(256))
		}
		if r.Intn(4) == 0 {
			b = b[:r.Intn(len(b))]
		}
		return string(b)
	}
	loaded := 0
	for i := range 600 {
		dir := fmt.Sprintf("d%d/", i%7)
		s.raw(dir+"p", damage(good))
		s.raw(dir+"liba.so.1", damage(library))
		l, err := New(s.o)
		if err != nil {
			t.Fatal(err)
		}
		load, err := l.Load(s.dir + "/" + dir + "p")
		if err != nil {
			continue
		}
		for i := 0; i < len(load.Objects); i++ {
			if f := load.Objects[i].File; f != nil && load.Objects[i].Found() {
				for _, literal := range f.Literals() {
					load.Open(literal.Name, load.Objects[i], DlopenString, "")
				}
			}
		}
		loaded++
	}
	if loaded < 40 {
		t.Errorf("only %d of the damaged files were examined", loaded)
	}
}

// A run path of a megabyte costs no more than its first entries: a token that is
// repeated makes no path longer than any that can be opened, and of 200,000
// directories only the first are looked at, with a sentence that says so.
func TestHostileRunPaths(t *testing.T) {
	if got := (runpath.Tokens{Origin: "/" + strings.Repeat("x", 4000)}).Expand(strings.Repeat("$ORIGIN/", 20000)); len(got) > 2*8192 {
		t.Errorf("%d bytes", len(got))
	}
	var list strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&list, "/none/%d:", i)
	}
	s := newStage(t)
	s.noReal = true
	s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, list.String()))
	l := s.load("p")
	if !l.Truncated || !strings.Contains(l.Err, "has 200001 entries: only the first 4096") {
		t.Errorf("truncated %v, error %q", l.Truncated, l.Err)
	}
	if n := len(l.Objects[1].Tried); n < 4096 || n > 4096+10 {
		t.Errorf("%d places tried", n)
	}
}

// A file with a hole may seem to have any number of symbols: more than a bound are not
// looked at, and memory stays small.
func TestHostileSymbolTables(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const hole = 1 << 40
	s := newStage(t)
	s.noReal = true
	s.put("p", prog("liba.so").With(elf.DT_RUNPATH, "~"))
	patch := func(change func(b []byte, at func(elf.DynTag) uint64)) {
		b := lib("liba.so").Bytes()
		le := binary.LittleEndian
		// The first program header is PT_LOAD, the second PT_DYNAMIC.
		le.PutUint64(b[64+32:], hole)
		le.PutUint64(b[64+40:], hole)
		dynamic := le.Uint64(b[64+56+8:])
		change(b, func(tag elf.DynTag) uint64 {
			for at := dynamic; ; at += 16 {
				if elf.DynTag(le.Uint64(b[at:])) == tag {
					return at + 8
				}
			}
		})
		s.raw("liba.so", string(b))
		if err := os.Truncate(s.dir+"/liba.so", hole); err != nil {
			t.Skip("no files with holes here: ", err)
		}
	}
	for _, c := range []struct {
		what, why string
		change    func(b []byte, at func(elf.DynTag) uint64)
	}{
		{"symbols", "dynamic symbols with", func(b []byte, at func(elf.DynTag) uint64) {
			hash := binary.LittleEndian.Uint64(b[at(elf.DT_HASH):])
			binary.LittleEndian.PutUint32(b[hash+4:], 1<<30)
		}},
		{"names", "bytes of names", func(b []byte, at func(elf.DynTag) uint64) {
			binary.LittleEndian.PutUint64(b[at(elf.DT_STRSZ):], hole/2)
		}},
		{"buckets", "the symbols cannot be read", func(b []byte, at func(elf.DynTag) uint64) {
			binary.LittleEndian.PutUint64(b[at(elf.DT_HASH)-8:], uint64(elf.DT_GNU_HASH))
			hash := binary.LittleEndian.Uint64(b[at(elf.DT_GNU_HASH):])
			for i, v := range []uint32{1 << 26, 1, 0, 0} {
				binary.LittleEndian.PutUint32(b[hash+4*uint64(i):], v)
			}
		}},
		{"chain", "the symbols cannot be read", func(b []byte, at func(elf.DynTag) uint64) {
			binary.LittleEndian.PutUint64(b[at(elf.DT_HASH)-8:], uint64(elf.DT_GNU_HASH))
			hash := binary.LittleEndian.Uint64(b[at(elf.DT_GNU_HASH):])
			for i, v := range []uint32{1, 0, 1 << 27, 0} {
				binary.LittleEndian.PutUint32(b[hash+4*uint64(i):], v)
			}
		}},
		{"relocations", "more than", func(b []byte, at func(elf.DynTag) uint64) {
			binary.LittleEndian.PutUint64(b[at(elf.DT_SONAME)-8:], uint64(elf.DT_RELASZ))
			binary.LittleEndian.PutUint64(b[at(elf.DT_RELASZ):], hole/2)
			binary.LittleEndian.PutUint64(b[at(elf.DT_SYMENT)-8:], uint64(elf.DT_RELA))
		}},
	} {
		patch(c.change)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l := s.load("p")
		err := lookUp(l)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", c.what, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 128<<20 {
			t.Errorf("%s: %d MB", c.what, n>>20)
		}
	}
}

// lookUp looks all symbols up that the objects of a load refer to.
func lookUp(s *Load) error {
	there := slices.DeleteFunc(slices.Clone(s.Objects), func(o *Object) bool { return o.File == nil || !o.Found() })
	scope, err := NewScope(s.Interp, there)
	for i := 0; i < len(there) && err == nil; i++ {
		_, err = scope.Unbound(there[i])
	}
	return err
}
