// Package inorder does many things at once, and tells of them in order.
package inorder

// Do calls do for 0 to n-1, in up to jobs goroutines, and tell, from the caller's, with what
// each call returns, in order. Few results wait for one before them, because files that are open may be among them.
func Do[T any](jobs, n int, do func(i int) T, tell func(T)) {
	if min(jobs, n) < 2 { // another thread would cost more than the file
		for i := range n {
			tell(do(i))
		}
		return
	}
	type job struct {
		i      int
		result chan T
	}
	wait := min(4*jobs, 64)
	todo, waiting := make(chan job, wait), make(chan chan T, wait)
	for range min(jobs, n) {
		go func() {
			for j := range todo {
				j.result <- do(j.i)
			}
		}()
	}
	go func() {
		for i := range n {
			j := job{i, make(chan T, 1)}
			waiting <- j.result
			todo <- j
		}
		close(todo)
		close(waiting)
	}()
	for result := range waiting {
		tell(<-result)
	}
}
