package scripts

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"cuda-runpath/pkg/scripts/syntax"
	"cuda-runpath/pkg/tree"
)

// A script is never written in place: who has the old file open reads the old text to its end, and so does a reader after a kill.
// Its names in the walk lead to the new one, others to the old one.
func TestWriteMakesANewFile(t *testing.T) {
	const before = "import ctypes\nctypes.CDLL(\"libcuda.so.1\")\n"
	after := "import ctypes\nctypes.CDLL(\"/d/libcuda.so.1\")\n" + strings.Repeat("#", 9000)
	for name, c := range map[string]struct {
		names []string
		left  int
	}{
		"one name":          {[]string{"in/a.py"}, 0},
		"two in the walk":   {[]string{"in/a.py", "in/sub/b.py"}, 0},
		"one outside of it": {[]string{"in/a.py", "in/sub/b.py", "out.py"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.MkdirAll("in/sub", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("in/a.py", []byte(before), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, other := range c.names[1:] {
				if err := os.Link("in/a.py", other); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod("in/a.py", 0o751); err != nil {
				t.Fatal(err)
			}
			old, err := os.Open("in/a.py")
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			edited := 0
			err = tree.Walk(context.Background(), []string{"in"}, tree.Options{AnyLinked: true}, func(f *tree.File) (struct{}, bool) {
				if text, lang, err := Read(f); err != nil {
					t.Error(err)
				} else if text != "" && lang == syntax.Python && f.SameAs == "" {
					edited++
					if err := Write(f, after); err != nil || f.OutsideLinks() != c.left {
						t.Errorf("%v, %d links left", err, f.OutsideLinks())
					}
				}
				return struct{}{}, false
			}, func(struct{}) {})
			if err != nil || edited != 1 {
				t.Errorf("%d edited: %v", edited, err)
			}
			if text, err := io.ReadAll(old); string(text) != before || err != nil {
				t.Errorf("the old file has now %d bytes: %v", len(text), err)
			}
			was, _ := old.Stat()
			for _, name := range c.names {
				now, err := os.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				in := strings.HasPrefix(name, "in/")
				if text, _ := os.ReadFile(name); os.SameFile(now, was) == in || (string(text) == after) != in {
					t.Errorf("%s leads to the wrong file", name)
				}
				if first, _ := os.Stat("in/a.py"); in && !os.SameFile(first, now) || now.Mode() != 0o751 {
					t.Errorf("%s: mode %v, or torn from in/a.py", name, now.Mode())
				}
			}
		})
	}
}
