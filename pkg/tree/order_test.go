package tree

import (
	"math/rand"
	"runtime"
	"sync/atomic"
	"testing"
)

func TestInOrder(t *testing.T) {
	for _, n := range []int{0, 1, 2, maxWaiting, 10 * maxWaiting} {
		for _, jobs := range []int{1, 2, 5} {
			var telling atomic.Int32
			told := 0
			InOrder(jobs, n, func(i int) int {
				for range rand.Intn(50) {
					runtime.Gosched()
				}
				return i
			}, func(i int) {
				if i != told || telling.Add(1) != 1 {
					t.Errorf("%d of %d, %d jobs: told when it is %d's turn", i, n, jobs, told)
				}
				runtime.Gosched()
				telling.Add(-1)
				told++
			})
			if told != n {
				t.Errorf("%d of %d told, %d jobs", told, n, jobs)
			}
		}
	}
}

// However long the first one takes, the results behind it do not pile up.
func TestInOrderWaits(t *testing.T) {
	var begun atomic.Int32
	InOrder(3, 10*maxWaiting, func(i int) bool {
		begun.Add(1)
		if i > 0 {
			return true
		}
		for begun.Load() < maxWaiting {
			runtime.Gosched()
		}
		for range 1000 {
			runtime.Gosched()
		}
		if n := begun.Load(); n > maxWaiting+2 { // one is told, one is about to wait
			t.Errorf("%d have begun", n)
		}
		return true
	}, func(bool) {})
}
