package tree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The time of one file: open it, read its head, visit it, and report it or not.
func BenchmarkWalk(b *testing.B) {
	const dirs, files = 50, 100
	for _, every := range []int{1, 100} { // of how many files one is ELF
		root := b.TempDir()
		for i := range dirs {
			dir := filepath.Join(root, fmt.Sprint(i))
			if err := os.Mkdir(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for j := range files {
				data := "text\n"
				if j%every == 0 {
					data = elfData
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(j)), []byte(data), 0o644); err != nil {
					b.Fatal(err)
				}
			}
		}
		for _, jobs := range []int{1, 0} {
			b.Run(fmt.Sprintf("elf=1/%d/jobs=%d", every, jobs), func(b *testing.B) {
				found := 0
				for b.Loop() {
					found = 0
					err := Walk(context.Background(), []string{root}, Options{Jobs: jobs},
						func(f *File) (string, bool) { return f.Path, f.Err == nil && f.ELF() },
						func(string) { found++ })
					if err != nil {
						b.Fatal(err)
					}
				}
				if found != dirs*files/every {
					b.Fatalf("%d ELF files", found)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*dirs*files), "ns/file")
			})
		}
	}
}

// The time of a write beside that of the walk to it: open again, compare, write.
func BenchmarkWrite(b *testing.B) {
	path := filepath.Join(b.TempDir(), "a")
	if err := os.WriteFile(path, []byte(elfData), 0o644); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := edit(path, "XYZ"); err != nil {
			b.Fatal(err)
		}
	}
}
