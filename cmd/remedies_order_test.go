package cmd_test

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/finding"
)

// places are what the run paths of TestRemediesInAnyOrder are made of; D is the directory of the tree.
var places = []string{"D/x", "D/x", "D/y", "D/z", "D/x/", "", "", "rel", "./rel", "rel/none", "$ORIGIN/rel", "$FOO/lib", "$ORIGINS/lib", "$(ORIGIN)/rel", "RIGIN/x", "D/x;D/y", "'D/z'",
	"D/open", "D/open/sub", "D/gone", "D/unused", "D/wrong", "/build/source/lib", "/tmp/nix-build-foo/lib", "/usr/lib/nothing", "/cuda/lib64/stubs", "D/stubs", "D/old",
	"/run/opengl-driver/lib", "D/cuda/compat", "/run/opengl-driver/lib/", "D/file", "D/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-gcc-13.2.0/lib", "a=b", "D/e=f", "~/lib"}

// The commands that one audit prints, followed in any order, settle all that they are for, and nothing else is wrong then: none
// takes back what another one did, nor takes away together with another one what the file loads.
func TestRemediesInAnyOrder(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	d, _ := os.Getwd()
	d, _ = filepath.EvalSymlinks(d)
	for i, dir := range []string{"x", "y", "open", "rel", "e=f"} { // the same name, different files
		library(t, dir+"/libx.so.1", "libx.so.1", "", fmt.Sprintf("-Wl,--defsym=own%d=1", i))
	}
	library(t, "z/libz9.so.1", "libz9.so.1", "")
	library(t, "y/libz9.so.1", "libz9.so.1", "", "-Wl,--defsym=other=1")
	for _, dir := range []string{"stubs", "old", "cuda/compat", "drv"} {
		library(t, dir+"/libcuda.so.1", "libcuda.so.1", "")
	}
	for _, dir := range []string{"unused", "open/sub", "store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-gcc-13.2.0/lib", "wrong"} {
		os.MkdirAll(dir, 0o755)
	}
	os.WriteFile("file", nil, 0o644)
	os.Chmod("open", 0o777)
	wrong, _ := os.ReadFile("x/libx.so.1")
	wrong[18] ^= 0xff
	os.WriteFile("wrong/libx.so.1", wrong, 0o755)
	var originals [][]byte // what the files need, and may be made to need
	for _, with := range [][]string{{"x/libx.so.1"}, {"x/libx.so.1", "z/libz9.so.1"}, {"x/libx.so.1", "stubs/libcuda.so.1"}, {"x/libx.so.1", "z/libz9.so.1", "old/libcuda.so.1", "-Wl,-z,execstack"}} {
		library(t, "file.so", "", "", with...)
		original, _ := os.ReadFile("file.so")
		originals = append(originals, original)
	}
	library(t, "nosoname/libn.so", "", "")
	library(t, "file.so", "", "", "x/libx.so.1", "nosoname/libn.so")
	original, _ := os.ReadFile("file.so")
	originals = append(originals, original)

	seed := int64(45)
	if given := os.Getenv("SEED"); given != "" {
		fmt.Sscan(given, &seed)
	}
	random := rand.New(rand.NewSource(seed))
	cases, orders := 40, 3
	if given := os.Getenv("CASES"); given != "" {
		fmt.Sscan(given, &cases)
	}
	followed := map[string]int{}
	name := func(f oneFinding) string { return f.ID + " " + f.Library + " " + f.Entry }
	for n := range cases {
		var list []string
		for range 2 + random.Intn(5) {
			list = append(list, strings.ReplaceAll(places[random.Intn(len(places))], "D/", d+"/"))
		}
		run, file := strings.Join(list, ":"), originals[random.Intn(len(originals))]
		if n == 0 { // what one says to keep, another one says to take out
			run, file = d+"/open:"+d+"/y", originals[0]
		}
		args := []string{"--assume-driver", d + "/drv"}
		if random.Intn(3) == 0 {
			args = append(args, "--nix")
		}
		begin := func() {
			os.WriteFile("file.so", file, 0o755)
			tool(t, "runpath", "set", "-q", "--keep-empty", run, "file.so")
		}
		begin()
		args = append(args, "file.so")
		before := examine(t, []string{"runpath", "audit"}, args...)["file.so"]
		found := map[string]bool{}
		for _, f := range before {
			found[name(f)] = true
		}
		for range orders {
			begin()
			var said []string
			for _, i := range random.Perm(len(before)) {
				if before[i].Command != nil {
					follow(t, before[i].Remedy)
					said = append(said, before[i].ID+": "+before[i].Whole())
					followed[before[i].ID]++
				}
			}
			after := examine(t, []string{"runpath", "audit"}, args...)["file.so"]
			for _, f := range after {
				settled := slices.ContainsFunc(before, func(b oneFinding) bool { return b.Command != nil && name(b) == name(f) })
				if settled || !found[name(f)] {
					t.Errorf("%d (SEED=%d): %q %v: %s: %s\nafter\n%s\nit has the run path %s", n, seed, run, args, f.ID, f.Message, strings.Join(said, "\n"), shownList(t, "file.so"))
				}
			}
		}
	}
	t.Log(followed)
	for _, id := range []string{finding.EmptyEntry, finding.RelativeEntry, finding.BuildEntry, finding.MangledEntry, finding.DanglingEntry, finding.Ambiguous, finding.StubEntry} {
		if followed[id] == 0 {
			t.Errorf("no remedy of %s was followed", id)
		}
	}
}
