package runpath_test

import (
	"fmt"
	"strings"

	"cuda-runpath/pkg/runpath"
)

func Example() {
	settings := runpath.Settings{
		DriverLink: "/run/opengl-driver/lib",
		IsStub:     func(entry string) bool { return strings.HasSuffix(entry, "/stubs") },
		IsCompat:   func(string) bool { return false },
	}
	list := runpath.Parse("/nix/store/…-cuda/lib/stubs:$ORIGIN::/nix/store/…-zlib/lib")
	after, notes := settings.Apply(list, runpath.ReplaceStubs)
	fmt.Println(after)
	fmt.Println(notes.Stubs, notes.Empties)
	// Output:
	// /run/opengl-driver/lib:$ORIGIN:/nix/store/…-zlib/lib
	// [/nix/store/…-cuda/lib/stubs] 1
}
