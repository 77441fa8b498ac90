package cli

import "sync"

// maxWaiting is how many results of inOrder may wait for one before them.
const maxWaiting = 64

// inOrder calls do for 0 to n-1, in several goroutines, the caller's one of them, and tell
// with what each call returns: in order, one at a time. The goroutine that has the next result
// calls tell itself.
func inOrder[T any](jobs, n int, do func(i int) T, tell func(T)) {
	var (
		mutex   sync.Mutex
		moved   = sync.NewCond(&mutex)
		next    int // to be done
		first   int // to be told
		results [maxWaiting]T
		done    [maxWaiting]bool
	)
	work := func() {
		mutex.Lock()
		defer mutex.Unlock()
		for next < n {
			if next == first+maxWaiting {
				moved.Wait()
				continue
			}
			i := next
			next++
			mutex.Unlock()
			result := do(i)
			mutex.Lock()
			results[i%maxWaiting], done[i%maxWaiting] = result, true
			for at := first % maxWaiting; done[at]; at = first % maxWaiting {
				tell(results[at])
				done[at] = false
				first++
			}
			moved.Broadcast()
		}
	}
	var others sync.WaitGroup
	for range min(jobs, n) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}
