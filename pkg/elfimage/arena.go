package elfimage

// An Arena hands out slices of memory that is used again after Reset. Planning the edits of
// thousands of small files would otherwise spend its time in the memory allocator.
type Arena[T any] struct {
	all  []T
	used int
}

// arenaMost is the number of elements from which a slice is allocated by itself, so that
// no arena holds on to much.
const arenaMost = 4096

// Take returns n elements, which hold anything, for use until Reset. Appending to them
// does not write to what else was taken.
func (a *Arena[T]) Take(n int) []T {
	if n > arenaMost {
		return make([]T, n)
	}
	if n > len(a.all)-a.used { // what was taken of the full one lives on by itself
		a.all, a.used = make([]T, max(64, 2*n, min(2*len(a.all), arenaMost))), 0
	}
	from := a.used
	a.used += n
	return a.all[from:a.used:a.used]
}

// Empty returns a slice of length 0 with room for n elements.
func (a *Arena[T]) Empty(n int) []T { return a.Take(n)[:0] }

// Clone returns a copy of s.
func (a *Arena[T]) Clone(s []T) []T {
	c := a.Take(len(s))
	copy(c, s)
	return c
}

// Reset makes all memory free again: what was taken must not be used any more.
func (a *Arena[T]) Reset() { a.used = 0 }
