package loader_test

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/tests/tinyelf"
)

func Example() {
	root, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	for name, o := range map[string]tinyelf.Object{
		"/bin/app":       tinyelf.Object{Interp: "/lib/ld.so"}.With(elf.DT_RUNPATH, "$ORIGIN/../lib").Needs("liba.so.1", "libgone.so.1"),
		"/lib/ld.so":     tinyelf.Object{}.With(elf.DT_SONAME, "ld.so"),
		"/lib/liba.so.1": tinyelf.Object{}.With(elf.DT_SONAME, "liba.so.1"),
	} {
		os.MkdirAll(filepath.Dir(root+name), 0o755)
		if err := os.WriteFile(root+name, o.Bytes(), 0o755); err != nil {
			fmt.Println(err)
			return
		}
	}
	l, err := loader.New(loader.Options{Root: root})
	if err != nil {
		fmt.Println(err)
		return
	}
	load, err := l.Load("/bin/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range load.Objects[1:] { // the first is the program
		if o.Found() {
			fmt.Printf("%s: %s, by %s, %q\n", o.Name, o.Path, o.Rule, o.Entry)
		} else {
			fmt.Printf("%s: not found\n", o.Name)
		}
	}
	// Output:
	// liba.so.1: /bin/../lib/liba.so.1, by DT_RUNPATH, "$ORIGIN/../lib"
	// libgone.so.1: not found
}
