// Package sweep is what the checkers of many files share: which ELF files are below some directories, and checking
// several of them at a time.
package sweep

import (
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Files returns the ELF files below the directories that take wants; what cannot be read is passed over. The file is at
// its first byte.
func Files(roots []string, take func(path string, f *os.File, st fs.FileInfo) bool) (paths []string) {
	wanted := func(path string) bool {
		f, err := os.Open(path)
		if err != nil {
			return false
		}
		defer f.Close()
		var magic [len(elf.ELFMAG)]byte
		if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != elf.ELFMAG {
			return false
		}
		st, err := f.Stat()
		if err != nil {
			return false
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return false
		}
		return take(path, f, st)
	}
	for _, root := range roots {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && wanted(path) {
				paths = append(paths, path)
			}
			return nil
		})
	}
	return paths
}

// Each checks the items, jobs of them at a time, and hands each result to report, one after the other. check also gets
// the number of its worker, from 0 to jobs-1. No new item is begun after the budget, where that is not 0; what was not
// begun is returned.
func Each[T, R any](items []T, jobs int, budget time.Duration, check func(worker int, item T) R, report func(R)) (left []T) {
	started := time.Now()
	work, done := make(chan T), make(chan R)
	var wg sync.WaitGroup
	for i := range jobs {
		wg.Go(func() {
			for item := range work {
				done <- check(i, item)
			}
		})
	}
	go func() {
		for i, item := range items {
			if budget > 0 && time.Since(started) > budget {
				left = items[i:]
				break
			}
			work <- item
		}
		close(work)
		wg.Wait()
		close(done) // after left is set
	}()
	for r := range done {
		report(r)
	}
	return left
}
