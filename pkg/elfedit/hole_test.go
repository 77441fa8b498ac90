package elfedit

import (
	"debug/elf"
	"io"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// sparse is a file in memory with a hole after data, and data after that.
type sparse struct {
	head, tail []byte
	size       int64
	read       int64 // bytes of the hole that were read
	wrote      int64
	end        int64
}

func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(s.head)) {
		copy(p, s.head[off:])
	}
	at := s.size - int64(len(s.tail))
	if from, to := max(off, int64(len(s.head))), min(off+int64(len(p)), at); from < to {
		s.read += to - from
	}
	if off+int64(len(p)) > at {
		copy(p[max(0, at-off):], s.tail[max(0, off-at):])
	}
	if off+int64(len(p)) > s.size {
		return int(max(0, s.size-off)), io.EOF
	}
	return len(p), nil
}

func (s *sparse) NextData(off int64) int64 {
	if at := s.size - int64(len(s.tail)); off >= int64(len(s.head)) && off < at {
		return at
	}
	return off
}

func (s *sparse) WriteAt(p []byte, off int64) (int, error) {
	s.wrote += int64(len(p))
	s.end = max(s.end, off+int64(len(p)))
	return len(p), nil
}

func (s *sparse) Truncate(size int64) error { s.end = size; return nil }

// A hole of gigabytes after the image is neither searched nor copied.
func TestHolesAreHoles(t *testing.T) {
	for _, tail := range []string{"", "tail"} {
		b := shapes["library"].build(t)
		f := &sparse{head: b, tail: []byte(tail), size: 5 << 30}
		im, err := elfimage.Parse(f, f.size)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Plan(im, setPath(elf.DT_RUNPATH, lists[2]))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Apply(f); err != nil {
			t.Fatal(err)
		}
		if f.read > 1<<20 || f.wrote > 1<<20 {
			t.Errorf("tail %q: %d bytes of the hole were read, %d bytes written", tail, f.read, f.wrote)
		}
		if e.Growth() > 3<<20 {
			t.Errorf("tail %q: the file grows by %d bytes", tail, e.Growth())
		}
		if f.end != f.size+e.Growth() {
			t.Errorf("tail %q: the file ends at %d, the plan said %d", tail, f.end, f.size+e.Growth())
		}
	}
}
