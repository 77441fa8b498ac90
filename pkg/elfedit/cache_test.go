package elfedit

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"
	"testing"
)

// A resolution cache that patchelf has built does not outlive what it was built from,
// alone in its PT_NOTE or among other notes.
func TestStaleResolutionCacheGoes(t *testing.T) {
	const text = "libc.so.6\x00=/nix/store/22222222222222222222222222222222-glibc/lib/libc.so.6\x00"
	for _, note := range []int{0, 20} {
		for _, noSections := range []bool{false, true} {
			l := plain().with(func(l *shape) { l.note, l.cache, l.noSections = note, text, noSections })
			t.Run(fmt.Sprintf("note %d, no sections %v", note, noSections), func(t *testing.T) {
				old := l.build(t)
				c, err := parse(t, old).ResolutionCache()
				if c == nil || err != nil || !strings.HasPrefix(c.Description, "libc.so.6\x00") {
					t.Fatalf("the cache of before is %+v, %v", c, err)
				}
				for _, change := range []Change{setPath(elf.DT_RUNPATH, lists[0]), setPath(elf.DT_RUNPATH, lists[2]),
					{Needed: &Needed{Names: []string{"liba.so"}}}, {Interpreter: ptr("/l")}, {Interpreter: ptr(storeInterp)}} {
					b := edit(t, old, change)
					if bytes.Contains(b, []byte("2222222222")) {
						t.Errorf("%+v: the cache is still in the file", change)
					}
					if c, err := parse(t, b).ResolutionCache(); c != nil || err != nil {
						t.Errorf("%+v: the cache is %+v, %v", change, c, err)
					}
					checkSections(t, parse(t, b))
					if note > 0 { // patchelf puts one alone at the end of the file, in nobody's way
						edit(t, b, setPath(elf.DT_RUNPATH, lists[2]+":/again"))
					}
				}
				b := edit(t, old, Change{Soname: ptr("other.so")})
				if c, err := parse(t, b).ResolutionCache(); c == nil || err != nil {
					t.Errorf("after another soname the cache is gone (%v)", err)
				}
			})
		}
	}
}
