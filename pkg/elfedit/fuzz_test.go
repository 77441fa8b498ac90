package elfedit

import (
	"bytes"
	"debug/elf"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// seed adds a built file of every shape: each class, byte order and machine that
// the editor treats differently, before and after an edit.
func seed(f *testing.F, add func(b []byte)) {
	for name, l := range shapes {
		if l.align > 4096 || strings.HasPrefix(name, ".dynamic across") {
			continue // large, and nothing that the small ones lack
		}
		b := l.build(f)
		add(b)
		add(edit(f, b, setPath(elf.DT_RUNPATH, lists[1])))
	}
}

// allocated runs fn and returns the bytes that it allocated in all.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzParse reads everything that a file offers. It must neither crash nor hang,
// nor allocate what a header asks for and the file's size does not bear out.
func FuzzParse(f *testing.F) {
	seed(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		n := allocated(func() {
			im, err := parseFile(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				return
			}
			im.SkipReason()
			im.RunPath()
			im.Shadowed()
			im.Needed()
			im.Soname()
			im.Interpreter()
			im.DlopenNotes()
			im.LibraryStrings(func(string, bool) bool { return true })
			for i := range min(len(im.Sections), 16) {
				im.SectionName(i)
			}
		})
		// The scan for library names has a buffer of a megabyte.
		if limit := uint64(8<<20 + 64*len(b)); n > limit {
			t.Errorf("%d bytes allocated for a file of %d", n, len(b))
		}
	})
}

// FuzzEdit plans and applies an edit. Whatever is planned must read back, leave
// what the loader sees as it was, and be nothing to do the second time.
func FuzzEdit(f *testing.F) {
	seed(f, func(b []byte) {
		for _, list := range []string{"", lists[0], lists[1]} {
			f.Add(b, list, false)
		}
		f.Add(b, lists[1], true)
	})
	f.Fuzz(func(t *testing.T, b []byte, list string, rpath bool) {
		c := setPath(elf.DT_RUNPATH, list)
		if rpath {
			c.RunPath.Tag = elf.DT_RPATH
		}
		file := &memFile{b: slices.Clone(b)}
		im, err := parseFile(file, int64(len(b)))
		if err != nil {
			return
		}
		var e *Edit
		n := allocated(func() { e, err = im.plan(c) })
		if limit := uint64(1<<20 + 64*(len(b)+len(list))); n > limit {
			t.Errorf("%d bytes allocated for a file of %d and a list of %d", n, len(b), len(list))
		}
		if err != nil || e == nil {
			if !bytes.Equal(file.b, b) {
				t.Error("a plan wrote to the file")
			}
			return
		}
		if err := e.Apply(file); err != nil {
			t.Fatal(err)
		}
		after, err := parseFile(file, int64(len(file.b)))
		if err != nil {
			t.Fatalf("does not read back: %v", err)
		}
		tag, now, err := after.RunPath()
		if err != nil || now != list || list != "" && tag != c.RunPath.Tag {
			t.Errorf("run path is %v %q, %v; asked for %q", tag, now, err, list)
		}
		if again, err := after.plan(c); again != nil || err != nil {
			t.Errorf("the second plan is %v, %v", again, err)
		}
	})
}
