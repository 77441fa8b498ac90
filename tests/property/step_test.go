package property

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A step is one command of a case's sequence.
type step struct {
	args []string // FILE stands for the file the case is about, SIDE for another one beside it
	ours bool
	// payload is appended to the file instead of running a command.
	payload []byte
	// left is a step on SIDE, which our tool must leave alone.
	left bool
	// want maps the run path before one of our steps to the one after it.
	want func([]string) []string
	tag  string // that a run path has after one of our steps
	// tool is a step that changes the tag only where it has something else to write.
	tool bool
	// parts is what one of our steps changes besides the run path, which it leaves alone where want is nil.
	parts *parts
}

func (s step) String() string {
	if s.payload != nil {
		return fmt.Sprintf("seq 100000 | head -c %d >> FILE", len(s.payload))
	}
	words := slices.Clone(s.args)
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, "$ ") {
			words[i] = "'" + w + "'"
		}
	}
	return strings.Join(words, " ")
}

const (
	driverLink = "/run/opengl-driver/lib"
	compatDir  = "/nix/store/00000000000000000000000000000000-cuda_compat-12.4/compat"
)

// newEntries makes up entries of run paths, and lists of them.
func newEntries(r *rand.Rand) (entry func() string, list func() []string) {
	entries := 0
	entry = func() string {
		entries++
		name := fmt.Sprintf("/nix/store/%032d-entry%d", r.Uint64(), entries)
		switch r.IntN(8) {
		case 0:
			return name + strings.Repeat("/long", 100+r.IntN(300)) + "/lib"
		case 1:
			return name + "-cuda_cudart-12.2.140-stubs/lib/stubs"
		}
		return name + "/lib"
	}
	list = func() []string {
		n := 1 + r.IntN(3)
		if r.IntN(12) == 0 {
			n = 200
		}
		var l []string
		for range n {
			l = append(l, entry())
		}
		if r.IntN(3) == 0 {
			l = slices.Insert(l, r.IntN(len(l)+1), pick(r, driverLink, compatDir, "$ORIGIN", "$ORIGIN/../$LIB"))
		}
		return l
	}
	return entry, list
}

// strips are what comes after a sequence.
var strips = []string{"strip", "llvm-strip", "objcopy"}

// newSequence makes up two to six complete edits, at least one of them ours.
func newSequence(r *rand.Rand, image string) (steps []step) {
	entry, list := newEntries(r)
	for n := 2 + r.IntN(5); len(steps) < n || !slices.ContainsFunc(steps, func(s step) bool { return s.ours }); {
		switch k := r.IntN(10); {
		case k < 3:
			steps = append(steps, ourStep(r, entry, list))
		case k < 7:
			steps = append(steps, partStep(r, image, list))
		case len(steps) < n:
			steps = append(steps, step{args: append(patchelfStep(r, image, entry, list), "FILE")})
		}
	}
	return steps
}

// newSteps makes up a sequence of two to seven steps, at least one of them ours. Entries of run paths are unlike each
// other, so that one found in the file's bytes tells where it came from.
func newSteps(r *rand.Rand, image string) []step {
	entry, list := newEntries(r)
	var steps []step
	payload := false
	hasOurs := func() bool { return slices.ContainsFunc(steps, func(s step) bool { return s.ours }) }
	for n := 2 + r.IntN(6); len(steps) < n || !hasOurs(); {
		switch k := r.IntN(20); {
		case k < 5 || len(steps) == n && r.IntN(2) == 0:
			steps = append(steps, ourStep(r, entry, list))
		case k < 9 || len(steps) == n:
			steps = append(steps, partStep(r, image, list))
		case k < 11 && !payload:
			payload = true
			steps = append(steps, step{payload: seq(1 + r.IntN(9000))})
		case k == 11:
			steps = append(steps, step{args: []string{"objcopy", "--only-keep-debug", "FILE", "SIDE"}},
				step{args: []string{"runpath", "set", "-q", entry(), "SIDE"}, left: true})
		case k < 16:
			if slices.ContainsFunc(steps, isPatchelf) {
				continue // one run is what an edit must survive; two, and strip, break files of every kind
			}
			steps = append(steps, step{args: append(patchelfStep(r, image, entry, list), "FILE")})
		default:
			steps = append(steps, step{args: strings.Fields(pick(r,
				"strip FILE", "strip -g FILE", "strip --strip-unneeded FILE", "strip -p -S FILE",
				"llvm-strip FILE", "llvm-strip -S FILE", "llvm-strip --strip-unneeded FILE",
				"eu-strip FILE", "eu-strip -g FILE", "eu-strip -f SIDE FILE",
				"objcopy --add-section .added=/etc/passwd FILE", "objcopy --compress-debug-sections FILE",
				"llvm-objcopy --add-section .added=/etc/passwd FILE"))})
		}
	}
	return steps
}

// seq is what "seq 100000 | head -c n" prints: bytes that are not the same in two places.
func seq(n int) []byte {
	var b []byte
	for i := 1; len(b) < n; i++ {
		b = fmt.Appendln(b, i)
	}
	return b[:n]
}

// ourStep is one of our tools. The maps in it state the contract again, for the entries that newSteps makes.
func ourStep(r *rand.Rand, entry func() string, list func() []string) step {
	s := step{ours: true, tag: kept}
	isStub := func(e string) bool { return strings.HasSuffix(e, "/stubs") }
	tool := func(name string, stubs, driver, compat bool) {
		s.tool, s.args = true, []string{name, "-q", "--compat", compatDir}
		s.want = func(before []string) []string {
			driver, compat := driver, compat
			var after, others []string
			for _, e := range before {
				compat = compat || e == compatDir
				driver = driver || e == driverLink || stubs && isStub(e)
				if e != compatDir && e != driverLink && !(stubs && isStub(e)) {
					others = append(others, e)
				}
			}
			if compat {
				after = append(after, compatDir)
			}
			if driver {
				after = append(after, driverLink)
			}
			return append(after, others...)
		}
	}
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		l := list()
		s.args = []string{"runpath", "set", "-q", strings.Join(l, ":")}
		s.want = func([]string) []string { return l }
	case 4:
		e := entry()
		s.args = []string{"runpath", "add", "-q", e}
		s.want = func(before []string) []string { return append(slices.Clone(before), e) }
	case 5:
		e := entry()
		s.args = []string{"runpath", "add", "--first", "-q", e}
		s.want = func(before []string) []string { return append([]string{e}, before...) }
	case 6:
		s.args = []string{"runpath", "remove", "--all", "-q"}
		s.want = func([]string) []string { return nil }
		s.tag = ""
	case 7:
		tool("stubReplace", true, false, false)
	case 8:
		tool("autoAddDriverRunpath", false, true, false)
	case 9:
		tool("addCudaCompatRunpath", false, false, true)
	}
	if s.tag != "" && r.IntN(8) == 0 {
		s.args = slices.Insert(s.args, len(s.args), "--force-rpath")
		s.tag = "RPATH"
		if s.args[0] == "runpath" { // flags come before the arguments
			s.args = append(slices.Clone(s.args[:2]), append([]string{"--force-rpath"}, s.args[2:len(s.args)-1]...)...)
		}
	}
	s.args = append(s.args, "FILE")
	return s
}

func patchelfStep(r *rand.Rand, image string, entry func() string, list func() []string) []string {
	for {
		switch r.IntN(7) {
		case 0, 1:
			return []string{"patchelf", "--set-rpath", strings.Join(list(), ":")}
		case 2:
			return []string{"patchelf", "--force-rpath", "--set-rpath", strings.Join(list(), ":")}
		case 3:
			return []string{"patchelf", "--add-needed", "libm.so.6"}
		case 4:
			if image != "app" {
				return []string{"patchelf", "--set-soname", "lib" + strings.Repeat("n", 1+r.IntN(200)) + ".so"}
			}
			return []string{"patchelf", "--set-interpreter", "/lib64/ld-linux-x86-64.so.2"}
		case 5:
			return []string{"patchelf", "--shrink-rpath"}
		case 6:
			return []string{"patchelf", "--remove-rpath"}
		}
	}
}
