package tree_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"cuda-runpath/pkg/tree"
)

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, content := range map[string]string{"library.so": "\x7fELF…", "README": "no ELF file"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			fmt.Println(err)
			return
		}
	}
	visit := func(f *tree.File) (line string, keep bool) { // in several goroutines
		if f.Err != nil {
			return f.Err.Error(), true
		}
		if !f.ELF() {
			return "", false
		}
		err := f.Write(func(w tree.Writer) error { // locked, and only if it is as it was read
			_, err := w.WriteAt([]byte("!"), f.Size())
			return err
		})
		return fmt.Sprint(filepath.Base(f.Path), " ", f.Size(), " ", err), true
	}
	err = tree.Walk(context.Background(), []string{dir}, tree.Options{}, visit, func(line string) { fmt.Println(line) })
	after, _ := os.ReadFile(filepath.Join(dir, "library.so"))
	fmt.Printf("%q %v\n", after, err)
	// Output:
	// library.so 7 <nil>
	// "\x7fELF…!" <nil>
}
