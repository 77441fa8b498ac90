package fixup

import (
	"fmt"
	"runtime"
	"testing"
)

// Libraries that need each other in a circle, of each of which there are three copies, and each of which lacks something:
// all choices on the way to a fault may be to blame for it.
func TestMuchThatIsMissingBehindManyChoices(t *testing.T) {
	s := newStageIn(t)
	const length = 40
	for _, dir := range []string{"a", "b", "c"} {
		for i := range length {
			s.put(fmt.Sprintf("out/%s/lib%d.so", dir, i), lib(fmt.Sprintf("lib%d.so", i),
				fmt.Sprintf("lib%d.so", (i+1)%length), fmt.Sprintf("libgone%d.so", i)).Object)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := s.resolve()
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 500 {
		t.Errorf("%d MB were allocated", got)
	}
	for name, p := range r.by {
		if n := p.Needs; n[0].Outcome != Found || n[1].Outcome != Missing || len(n[0].refused) > 0 {
			t.Errorf("%s: %v, %v, refused: %v", name, n[0].Outcome, n[1].Outcome, n[0].refused)
		}
	}
}
