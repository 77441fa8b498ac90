package autopatchelf

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cuda-runpath/pkg/cli/command"
)

func TestArgparseLists(t *testing.T) {
	valued := func(name string) bool { return name == "jobs" || name == "driver-link" }
	for in, want := range map[string]string{
		// Our own form is left as it is.
		"autoPatchelf --libs a --libs b .venv": "autoPatchelf --libs a --libs b .venv",
		// nixpkgs' hook.
		"ap --ignore-missing --paths /out /dev --libs /a /b --runtime-dependencies --append-rpaths $ORIGIN --extra-args": "ap --in-build --libs=/a --libs=/b --append-rpaths=$ORIGIN -- /out /dev",
		"ap --no-recurse --ignore-missing x* y --paths p --keep-libc":                                                    "ap --in-build --no-recurse --keep-libc --ignore-missing=x* --ignore-missing=y -- p",
		"ap --paths p --extra-args --page-size 65536 --libs z":                                                           "ap --in-build --extra-arg=--page-size --extra-arg=65536 --extra-arg=--libs --extra-arg=z -- p",
		// The last one counts, and names may be cut short.
		"ap --libs a --paths p --libs b c":   "ap --in-build --libs=b --libs=c -- p",
		"ap --lib a --pa q --paths p":        "ap --in-build --libs=a -- p",
		"ap --libs=a --paths=p --structured": "ap --in-build --structured-logs --libs=a -- p",
		// Ours among them.
		"ap --jobs 4 --paths p --driver-link /d --json --libs a": "ap --in-build --jobs 4 --driver-link /d --json --libs=a -- p",
		"ap --path p --lib /l --extra --libs z":                  "ap --in-build --extra-arg=--libs --extra-arg=z --libs=/l -- p",
		// --paths after --extra-args is patchelf's.
		"ap p --extra-args --paths": "ap p --extra-args --paths",
	} {
		got, err := autoPatchelfArguments(strings.Fields(in), valued)
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
	for _, in := range []string{"ap stray --paths p", "ap --paths p --ignore x", "ap --jobs 4 5 --paths p"} {
		var misuse command.Misuse
		if got, err := autoPatchelfArguments(strings.Fields(in), valued); !errors.As(err, &misuse) {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
}
