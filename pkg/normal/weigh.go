package normal

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"sync"

	"cuda-runpath/pkg/store"
)

// Weigh returns the store path that a directory is in, else the directory, and the bytes of the files in that: what an
// entry adds to a closure.
func Weigh(dir string) (root string, bytes int64) {
	root = cmp.Or(store.Path(dir), dir)
	weigh, _ := weights.LoadOrStore(root, sync.OnceValue(func() (bytes int64) {
		filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				if st, err := e.Info(); err == nil {
					bytes += st.Size()
				}
			}
			return nil
		})
		return bytes
	}))
	return root, weigh.(func() int64)()
}

// weights are functions that return what [Weigh] does, by root: many files name one library.
var weights sync.Map
