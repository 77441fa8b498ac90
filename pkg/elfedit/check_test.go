package elfedit

import (
	"debug/elf"
	"slices"
	"strings"
	"testing"
)

// One byte too many in the list of writes, anywhere in the file, is noticed before
// anything is written: each byte that is not zero is somebody's.
func TestCheckNoticesOneByteTooMany(t *testing.T) {
	for name, l := range shapes {
		if strings.Contains(name, "across pages") || l.align > 4096 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, list := range []string{lists[1], ""} {
				old := edit(t, l.build(t), setPath(elf.DT_RUNPATH, "/x:"+lists[0]))
				im := parse(t, old)
				c := setPath(elf.DT_RUNPATH, list)
				e, err := im.plan(c)
				if err != nil || e == nil {
					t.Fatal(e, err)
				}
				planned := e.writes
				for off := range im.size {
					covered := slices.ContainsFunc(planned, func(w write) bool { return w.off <= off && off < w.off+w.len() })
					if old[off] == 0 || covered || off >= im.Shoff && off < im.Shoff+uint64(len(im.Sections))*im.ShdrSize() {
						continue
					}
					e.writes = append(slices.Clone(planned), write{off: off, data: []byte{old[off] ^ 0x41}})
					if c, err := c.normal(); err != nil || e.verify(c) == nil {
						t.Fatalf("a change of the byte at offset %#x (of %#x, section headers at %#x) is not noticed", off, im.size, im.Shoff)
					}
				}
			}
		})
	}
}
