package inorder

import (
	"math/rand"
	"runtime"
	"sync/atomic"
	"testing"
)

func TestInOrder(t *testing.T) {
	for _, n := range []int{0, 1, 2, 64, 640} {
		for _, jobs := range []int{1, 2, 5} {
			var telling atomic.Int32
			told := 0
			Do(jobs, n, func(i int) int {
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

// However long the first one takes, the results behind it do not pile up, and hold files open: some for each processor.
func TestFewResultsWait(t *testing.T) {
	for jobs, wait := range map[int]int32{2: 8, 3: 12, 16: 64, 40: 64} {
		var begun atomic.Int32
		Do(jobs, 640, func(i int) bool {
			begun.Add(1)
			if i > 0 {
				return true
			}
			for begun.Load() < wait {
				runtime.Gosched()
			}
			for range 1000 {
				runtime.Gosched()
			}
			if n := begun.Load(); n > wait+2 { // one is told, one is about to wait
				t.Errorf("%d have begun, %d jobs", n, jobs)
			}
			return true
		}, func(bool) {})
	}
}
