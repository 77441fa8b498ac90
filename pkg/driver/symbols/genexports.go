//go:build ignore

// Genexports prints the names of the CUDA driver API: the functions among the dynamic symbols of the files that are
// named, each a toolkit's stub (lib64/stubs/libcuda.so), a driver's libcuda.so.1 or a list of names like the one that
// is printed. A name that a release has dropped is still the driver's. The debugger's interface, cudbg, is left out.
//
//	go run genexports.go exports.txt /usr/local/cuda/lib64/stubs/libcuda.so >new && mv new exports.txt
package main

import (
	"debug/elf"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	var names []string
	of := regexp.MustCompile(`^cu[A-Z]`)
	for _, p := range os.Args[1:] {
		if b, err := os.ReadFile(p); err != nil {
			fail(err)
		} else if !strings.HasPrefix(string(b), elf.ELFMAG) {
			names = append(names, strings.Fields(string(b))...)
			continue
		}
		f, err := elf.Open(p)
		if err != nil {
			fail(err)
		}
		symbols, err := f.DynamicSymbols()
		if err != nil {
			fail(fmt.Errorf("%s: %w", p, err))
		}
		for _, s := range symbols {
			if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC && of.MatchString(s.Name) {
				names = append(names, s.Name)
			}
		}
		f.Close()
	}
	slices.Sort(names)
	fmt.Println(strings.Join(slices.Compact(names), "\n"))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "genexports:", err)
	os.Exit(1)
}
