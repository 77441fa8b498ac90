// Package property tests the whole tool chain: a program that was edited, stripped and patched in any order still does
// exactly what it did.
//
// A case takes a program, its library or its plugin, linked in one of very many ways, and does a random sequence of steps
// to it: our tools, patchelf, strip, objcopy. Everything follows from -seed and the case's number. Where a case breaks,
// the same sequence without our steps is run as its control; it counts against us only if the control passes.
//
//	tests/property/run                     200 cases
//	tests/property/run -cases 5000         more of them
//	tests/property/run -seed 7 -case 123   one case
//	tests/property/run -sequences -cases 1500   500 sequences of 2 to 6 edits, then strip, llvm-strip and objcopy of each
//	PATCHELF=/path/to/patchelf tests/property/run
package property

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	cases = flag.Uint64("cases", 5, "how many cases")
	seed  = flag.Uint64("seed", 1, "what the cases are made from")
	only  = flag.Int64("case", -1, "run only the case of this number")
	seqs  = flag.Bool("sequences", false, "complete edits only, patchelf 0.19's among them, then strip, llvm-strip or objcopy: three cases a sequence")
	keep  = flag.String("keep", "", "keep the files of cases that fail in this folder")
)

// bin is where our binaries are.
var bin string

var passed, failed, skipped int

func TestMain(m *testing.M) {
	flag.Parse()
	status := func() int {
		bin = os.Getenv("CUDA_RUNPATH_BIN")
		if bin == "" {
			var err error
			if bin, err = os.MkdirTemp("", "property-bin"); err != nil {
				panic(err)
			}
			defer os.RemoveAll(bin)
			build := exec.Command("go", "build", "-o", bin, "../../cmd/...")
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				fmt.Printf("%s%v\n", out, err)
				failed++
				return 1
			}
		}
		named := filepath.Join(bin, ourPatchelf, "patchelf")
		if err := os.MkdirAll(filepath.Dir(named), 0o777); err != nil {
			panic(err)
		}
		if err := os.Symlink("../runpath", named); err != nil && !errors.Is(err, fs.ErrExist) {
			panic(err)
		}
		return m.Run()
	}()
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	os.Exit(status)
}

// lookAtSources makes "go test" run again, instead of showing an old result, when what the binaries are built from has
// changed: they are no imports of this package.
func lookAtSources(t *testing.T) {
	for _, root := range []string{"../../cmd", "../../pkg", "testdata"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestProperty(t *testing.T) {
	lookAtSources(t)
	if runtime.GOARCH != "amd64" {
		skipped++
		t.Skip("the variants are x86-64 ones")
	}
	for _, tool := range []string{"gcc", "eu-elflint"} {
		if _, err := exec.LookPath(tool); err != nil {
			skipped++
			t.Skip("needed in every case: ", err)
		}
	}
	work := t.TempDir()
	if err := placeLoaders(work); err != nil {
		t.Fatal(err)
	}
	shop := &workshop{dir: work, made: map[string]*made{}}
	numbers := make(chan uint64)
	go func() {
		defer close(numbers)
		if *only >= 0 {
			numbers <- uint64(*only)
			return
		}
		for n := range *cases {
			numbers <- n
		}
	}()

	var mu sync.Mutex
	variants := map[uint64]*variant{}
	reasons := map[string]int{}
	var edits, steps, theirs int
	var scratch atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			dir := filepath.Join(work, fmt.Sprint("worker-", scratch.Add(1)))
			for n := range numbers {
				s := newScenario(*seed, n)
				s.dir = dir
				for try := range uint64(8) { // not every linker knows every option
					number := n/casesPerVariant + try<<32
					if *seqs {
						number = n/uint64(len(strips)) + try<<32
					}
					mu.Lock()
					v := variants[number]
					if v == nil {
						v = newVariant(*seed, number)
						variants[number] = v
					}
					mu.Unlock()
					v.build(shop, number)
					if s.v = v; v.err == nil {
						break
					}
				}
				if s.v.err != nil {
					mu.Lock()
					skipped++
					reasons[s.v.err.Error()]++
					mu.Unlock()
					continue
				}
				if v := s.v; v.linker == "mold" && oldPatchelf() {
					// To it, mold's NOBITS sections (sh_offset 0) stand where the headers grow, and it moves .bss away.
					s.steps = slices.DeleteFunc(s.steps, isPatchelf)
				}
				out, err := s.play(s.steps)
				if out.failure != nil {
					s.shrink(&out)
				}
				mu.Lock()
				steps += len(s.steps)
				edits += out.edits
				switch {
				case errors.Is(err, exec.ErrNotFound):
					skipped++
					reasons[err.Error()]++
				case err != nil:
					failed++
					t.Errorf("case %d: %v", n, err)
				case out.failure != nil:
					failed++
					t.Errorf("case %d of seed %d: %s\n%s", n, *seed, out.failure.what, s.story(n, out.failure.step))
				case out.theirs != "" && out.edits == 0:
					skipped++
					reasons[out.theirs[:strings.Index(out.theirs, ":")]]++
				default:
					passed++
				}
				if out.theirs != "" {
					theirs++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()

	built, unbuilt := 0, map[string]int{}
	for _, v := range variants {
		if v.err == nil {
			built++
		} else {
			unbuilt[strings.TrimSpace(v.err.Error())+" ["+v.String()+"]"]++
		}
	}
	fmt.Printf("seed %d: %d steps on %d variants, %d of them edits that were checked; %d cases ended early because their control breaks too\n",
		*seed, steps, built, edits, theirs)
	if testing.Verbose() {
		for _, reason := range sorted(unbuilt) {
			fmt.Printf("not built (%d): %s\n", unbuilt[reason], reason)
		}
	}
	for _, reason := range sorted(reasons) {
		fmt.Printf("skipped (%d): %s\n", reasons[reason], reason)
	}
	if passed == 0 && failed == 0 && *only < 0 {
		t.Error("no case ran at all")
	}
}

// oldPatchelf reports whether patchelf is older than 0.18.
var oldPatchelf = sync.OnceValue(func() bool {
	out, _ := exec.Command(program("patchelf"), "--version").Output()
	var major, minor int
	fmt.Sscanf(string(out), "patchelf %d.%d", &major, &minor)
	return major == 0 && minor < 18
})

// casesPerVariant spreads the cost of linking a variant.
const casesPerVariant = 4

// shrink leaves out the steps without which the case fails as well.
func (s *scenario) shrink(out *outcome) {
	s.steps = s.steps[:out.failure.step+1]
	for i := 0; i < len(s.steps)-1; {
		fewer := slices.Delete(slices.Clone(s.steps), i, i+1)
		if o, err := s.play(fewer); err == nil && o.failure != nil {
			s.steps, *out = fewer[:o.failure.step+1], o
			i = 0
			continue
		}
		i++
	}
	s.play(s.steps) // leaves the files as they failed
}

// story tells how to see a failure again, and keeps its files where -keep says so.
func (s *scenario) story(n uint64, last int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s of %v\n", s.target, s.v)
	for _, st := range s.steps[:last+1] {
		fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(st.String(), "FILE", s.target))
	}
	if *keep != "" {
		to := filepath.Join(*keep, fmt.Sprintf("seed%d-case%d", *seed, n))
		os.RemoveAll(to)
		for from, name := range map[string]string{s.v.dir: "linked", filepath.Join(s.dir, "case"): "case", filepath.Join(s.dir, "control"): "control"} {
			if err := os.CopyFS(filepath.Join(to, name), os.DirFS(from)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(&b, "  %v\n", err)
			}
		}
		if err := os.WriteFile(filepath.Join(to, "steps"), []byte(b.String()), 0o666); err != nil {
			fmt.Fprintf(&b, "  %v\n", err)
		}
		fmt.Fprintf(&b, "  kept in %s\n", to)
	}
	fmt.Fprintf(&b, "  again: tests/property/run -seed %d -case %d -keep DIR\n", *seed, n)
	return b.String()
}

func sorted(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
