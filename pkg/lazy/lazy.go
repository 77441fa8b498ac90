// Package lazy makes values when they are first asked for. Go makes the function that
// sync.OnceValue returns before main, whether or not it is called; a variable of the
// package level that is a [Value] is data of the program's file, and costs a start nothing.
package lazy

import "sync"

// Value is what Make returns. Make is called once, by the first Get.
type Value[T any] struct {
	Make  func() T
	once  sync.Once
	value T
}

// Get returns the value. It may be called from several goroutines.
func (v *Value[T]) Get() T {
	v.once.Do(func() { v.value = v.Make() })
	return v.value
}
