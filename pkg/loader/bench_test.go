package loader

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/tests/tinyelf"
)

// BenchmarkLoad measures a program with 60 libraries, each of which needs three
// others and has a run path of eight directories, in the last of which they lie:
// with a loader that knows nothing of the file system yet, and with one that has
// seen it all, as in a run over many programs.
func BenchmarkLoad(b *testing.B) {
	const libraries = 60
	dir := b.TempDir()
	var list []string
	for i := range 8 {
		list = append(list, fmt.Sprintf("%s/%d", dir, i))
		if err := os.Mkdir(list[i], 0o755); err != nil {
			b.Fatal(err)
		}
	}
	runPath := strings.Join(list, ":")
	name := func(i int) string { return fmt.Sprintf("lib%d.so.1", i%libraries) }
	put := func(path string, o tinyelf.Object) {
		if err := os.WriteFile(path, o.With(elf.DT_RUNPATH, runPath).Bytes(), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for i := range libraries {
		l := lib(name(i)).Needs(name(i+1), name(2*i+1), name(5*i+3))
		l.Defines = []string{"V_1", "V_2"}
		l.Requires = []tinyelf.Requirement{{Library: name(i + 1), Version: "V_2"}}
		put(list[7]+"/"+name(i), l)
	}
	put(dir+"/p", prog(name(0)))
	load := func(l *Loader) {
		s, err := l.Load(dir + "/p")
		if err != nil {
			b.Fatal(err)
		}
		if s.Err != "" || len(s.Objects) != libraries+1 {
			b.Fatalf("%q: %d objects", s.Err, len(s.Objects))
		}
	}
	fresh := func() *Loader {
		l, err := New(Options{})
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			load(fresh())
		}
	})
	b.Run("again", func(b *testing.B) {
		l := fresh()
		load(l)
		b.ReportAllocs()
		for b.Loop() {
			load(l)
		}
	})
}

// BenchmarkUnbound measures what looking symbols up adds: the programs of this machine, a loader that knows nothing yet.
func BenchmarkUnbound(b *testing.B) {
	var programs []string
	all, _ := filepath.Glob("/usr/bin/*")
	for _, p := range all {
		if st, err := os.Lstat(p); err == nil && st.Mode().IsRegular() && len(programs) < 300 {
			programs = append(programs, p)
		}
	}
	for _, look := range []bool{false, true} {
		b.Run(fmt.Sprint(look), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l, err := New(Options{NoTries: true})
				if err != nil {
					b.Fatal(err)
				}
				for _, p := range programs {
					if s, err := l.Load(p); err == nil && look {
						lookUp(s)
					}
				}
			}
		})
	}
}
