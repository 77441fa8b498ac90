// Command judge compares an ELF file before an edit with the same file after it, and prints each difference that the
// edit is not about. Its status is 1 where there is one.
//
//	go run ./tests/judge/judge '{"RunPath":{"Tag":"RUNPATH","List":"/some/lib"}}' BEFORE AFTER
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"cuda-runpath/tests/judge"
)

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: judge EXPECT BEFORE AFTER; EXPECT is a judge.Expect in JSON"))
	}
	var want judge.Expect
	expect := json.NewDecoder(strings.NewReader(os.Args[1]))
	expect.DisallowUnknownFields()
	if err := expect.Decode(&want); err != nil {
		fail(err)
	}
	before, err := judge.Open(os.Args[2])
	if err != nil {
		fail(err)
	}
	after, err := judge.Open(os.Args[3])
	if err != nil {
		fail(err)
	}
	status := 0
	for _, f := range judge.Compare(before, after, want) {
		fmt.Println(f)
		if !f.Remark {
			status = 1
		}
	}
	os.Exit(status)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
