package host

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a root of somebody else's holds much of takes time in proportion to that: eight times as much, not sixty-four. The
// parts are tried by themselves, for so many files cannot be made in a test.
func TestTimeForAHostileRootIsLinear(t *testing.T) {
	m, _ := MachineNamed("x86_64")
	for name, c := range map[string]struct {
		n  int
		do func(n int)
	}{
		"directories that are looked at": {5000, func(n int) {
			h := &Host{}
			for i := range 2 * n { // each twice
				h.Saw(fmt.Sprint("/none/", i%n))
			}
			if len(h.Inputs) != n {
				t.Errorf("%d inputs of %d", len(h.Inputs), n)
			}
		}},
		"names of one library, and libraries of one name": {5000, func(n int) {
			found := newCandidates()
			for i := range 2 * n {
				found.add("a", Library{File: "/a", Links: []string{"a", fmt.Sprint(i % n)}})
				found.add("b", Library{File: fmt.Sprint("/b", i%n), Links: []string{"b"}})
			}
			if len(found.of["a"]) != 1 || len(found.of["a"][0].Links) != n+1 || len(found.of["b"]) != n {
				t.Errorf("%d names, %d libraries, of %d", len(found.of["a"][0].Links), len(found.of["b"]), n)
			}
		}},
		"directories, and libraries that are needed": {500, func(n int) {
			var places []place
			d := &Driver{}
			for i := range n {
				places = append(places, place{fmt.Sprint("/none/", i), ""})
				d.Libraries = append(d.Libraries, needing(i))
			}
			if got := (&Host{}).needs(d, m, nil, places); len(got) != n {
				t.Errorf("%d of %d", len(got), n)
			}
		}},
	} {
		takes := func(n int) time.Duration {
			var before, after unix.Rusage
			unix.Getrusage(unix.RUSAGE_SELF, &before)
			c.do(n)
			unix.Getrusage(unix.RUSAGE_SELF, &after)
			return time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
		}
		one, eight := takes(c.n), takes(8*c.n)
		t.Logf("%s: %v, eight times as many: %v", name, one, eight)
		if eight > 20*one+100*time.Millisecond {
			t.Errorf("%s: %v for %d, %v for eight times as many", name, one, c.n, eight)
		}
	}
}

// needing returns a library that needs one that no other does and one that all need.
func needing(i int) Library {
	return Library{Soname: fmt.Sprint("l", i), Links: []string{fmt.Sprint("l", i)}, Needs: []string{fmt.Sprint("none", i), fmt.Sprint("none", 0)}}
}
