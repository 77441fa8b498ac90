package elfedit

import (
	"bytes"
	"debug/elf"
	"fmt"
	"runtime"
	"testing"

	"cuda-runpath/pkg/elfimage"
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
	soname := "libof-another-name.so.1"
	for name, l := range shapes {
		for i, list := range lists {
			j := &job{name: fmt.Sprintf("%s/%d", name, i), old: l.build(t), c: setPath(elf.DT_RUNPATH, list)}
			if i == 1 { // several parts
				j.c.Soname, j.c.Needed = &soname, &Needed{Names: []string{"libnew.so.1", "libc.so.6"}}
			}
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
		if b, err := j.im.Read(0, j.im.size); err != nil || !bytes.Equal(b, j.old) {
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

// countingReader counts how often each byte is read.
type countingReader struct {
	b     []byte
	times []int
}

func (r *countingReader) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		if at := off + int64(i); at < int64(len(r.times)) {
			r.times[at]++
		}
	}
	return bytes.NewReader(r.b).ReadAt(p, off)
}

// An edit of a small file reads no byte of it twice, whatever looks at it: the parse, the
// plan, the check of what the plan leaves.
func TestSmallFileIsReadOnce(t *testing.T) {
	for name, l := range shapes {
		b := l.build(t)
		if len(b) > 64*elfimage.PageSize { // not kept
			continue
		}
		for i, c := range []Change{setPath(elf.DT_RUNPATH, lists[0]), setPath(elf.DT_RUNPATH, lists[len(lists)-1])} {
			r := &countingReader{b: b, times: make([]int, len(b))}
			head := b[:min(len(b), elfimage.HeadSize)]
			im, err := elfimage.ParseHead(r, int64(len(b)), head)
			if err != nil {
				t.Fatal(err)
			}
			e, err := Plan(im, c)
			if err != nil || e == nil {
				t.Fatalf("%s/%d: %v, %v", name, i, e, err)
			}
			if err := e.Apply(&memFile{b: bytes.Clone(b)}); err != nil {
				t.Fatal(err)
			}
			im.Release()
			for at, n := range r.times {
				if at < len(head) {
					n++ // it was given to the parse
				}
				if n > 1 {
					t.Errorf("%s/%d: offset %#x is read %d times", name, i, at, n)
					break
				}
			}
		}
	}
}

// A plan takes little memory of its own: what is read of the file is in that of the image before.
func TestPlansUseMemoryAgain(t *testing.T) {
	const most = 120 // allocations; some sixty where the pool has dropped nothing
	interpreter := "/lib/another-loader.so"
	for name, c := range map[string]Change{
		"run path": setPath(elf.DT_RUNPATH, lists[0]),
		"three parts": {RunPath: &RunPath{Tag: elf.DT_RUNPATH, List: lists[1]}, Interpreter: &interpreter,
			Needed: &Needed{Names: []string{"libnew.so.1", "libc.so.6"}}},
	} {
		b := plain().build(t)
		n := testing.AllocsPerRun(200, func() {
			im, err := elfimage.ParseHead(bytes.NewReader(b), int64(len(b)), b[:min(len(b), elfimage.HeadSize)])
			if err != nil {
				t.Fatal(err)
			}
			if e, err := Plan(im, c); err != nil || e == nil {
				t.Fatal(e, err)
			}
			im.Release()
		})
		if n > most {
			t.Errorf("%s: a plan takes %v allocations, more than %d", name, n, most)
		}
	}
}
