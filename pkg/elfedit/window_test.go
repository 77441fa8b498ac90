package elfedit

import (
	"bytes"
	"debug/elf"
	"fmt"
	"runtime"
	"testing"
)

// alone plans and applies a change with memory that no other image has had.
func alone(t *testing.T, b []byte, c Change) []byte {
	t.Helper()
	f := &memFile{b: bytes.Clone(b)}
	runtime.GC() // empties a sync.Pool
	runtime.GC()
	im, err := parseFile(f, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	e, err := im.plan(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Apply(f); err != nil {
		t.Fatal(err)
	}
	return f.b
}

// Images take their memory from one pool, and plans are kept in it until they are
// applied: none may see another's, nor what an earlier one has left behind.
func TestImagesDoNotShareMemory(t *testing.T) {
	type job struct {
		name string
		old  []byte
		want []byte
		c    Change

		file *memFile
		im   *image
		e    *Edit
	}
	var jobs []*job
	for name, l := range shapes {
		for i, list := range lists {
			j := &job{name: fmt.Sprintf("%s/%d", name, i), old: l.build(t), c: setPath(elf.DT_RUNPATH, list)}
			j.want = alone(t, j.old, j.c)
			jobs = append(jobs, j)
		}
	}
	plan := func(j *job) {
		var err error
		j.file = &memFile{b: bytes.Clone(j.old)}
		if j.im, err = parseFile(j.file, int64(len(j.old))); err != nil {
			t.Fatal(err)
		}
		if j.e, err = j.im.plan(j.c); err != nil {
			t.Fatal(err)
		}
		if b, held := j.im.View(0, j.im.size); held && !bytes.Equal(b, j.old) {
			t.Errorf("%s: the plan changed what was read of the file", j.name)
		}
	}
	apply := func(j *job) {
		if err := j.e.Apply(j.file); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(j.file.b, j.want) {
			t.Errorf("%s: with other images the edit is another one", j.name)
		}
		j.im.Release()
		j.im.Release() // for nothing
	}
	for range 3 { // with new memory, then with that of the round before
		for _, j := range jobs { // all are planned before the first is applied
			plan(j)
		}
		for _, j := range jobs {
			apply(j)
		}
		for i, j := range jobs { // and with one other in between
			plan(j)
			if i > 0 {
				apply(jobs[i-1])
			}
		}
		apply(jobs[len(jobs)-1])
	}
}
