package elfedit_test

import (
	"debug/elf"
	"fmt"
	"os"

	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
)

// show prints what a file has for a run path.
func show(f *os.File) (*elfimage.Image, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	im, err := elfimage.Parse(f, st.Size())
	if err != nil {
		return nil, err
	}
	tag, list, err := im.RunPath()
	fmt.Println(tag, list)
	return im, err
}

func Example() {
	f, err := elfedit.NewLibrary() // of the tests; else os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	im, err := show(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	edit, err := elfedit.Plan(im, elfedit.Change{RunPath: &elfedit.RunPath{Tag: elf.DT_RUNPATH, List: "/run/opengl-driver/lib:$ORIGIN"}})
	if err != nil { // nothing has been written
		fmt.Println(err)
		return
	}
	if edit != nil { // else it says so already
		err = edit.Apply(f)
	}
	im.Release()
	fmt.Println(err)
	if im, err = show(f); err == nil {
		im.Release()
	}
	// Output:
	// DT_RPATH /usr/lib/old
	// <nil>
	// DT_RUNPATH /run/opengl-driver/lib:$ORIGIN
}
