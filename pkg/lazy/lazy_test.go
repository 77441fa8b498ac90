package lazy

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestMadeOnceAndWhenAskedFor(t *testing.T) {
	var made atomic.Int32
	v := Value[int32]{Make: func() int32 { return 10 + made.Add(1) }}
	if made.Load() != 0 {
		t.Error("made before it was asked for")
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := v.Get(); got != 11 {
				t.Errorf("Get() = %d, expected 11", got)
			}
		})
	}
	all.Wait()
}
