package elfedit

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// A program of each linker, whose edit stops after each of its writes: it starts, also when
// strip has been at it, and the next edit does what the first was to do.
func TestEditsThatStop(t *testing.T) {
	if testing.Short() {
		t.Skip("runs linkers and what they make")
	}
	dir := t.TempDir()
	source := `#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void early(void) { setenv("EARLY", "yes", 1); }
int main(int argc, char **argv) { char b[64]; snprintf(b, sizeof b, "%s %d", getenv("EARLY"), argc); return puts(b) < 0; }
`
	if err := os.WriteFile(dir+"/main.c", []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	ld, err := exec.Command("sh", "-c", "gcc -o "+dir+"/program "+dir+"/main.c && readelf -l "+dir+"/program | sed -n 's/.*program interpreter: \\(.*\\)\\]/\\1/p'").Output()
	if err != nil {
		t.Skip("no gcc or readelf")
	}
	libc, err := exec.Command("gcc", "-print-file-name=libc.so.6").Output()
	if err != nil {
		t.Fatal(err)
	}
	interp := filepath.Join(dir, "a-loader-with-a-longer-name.so")
	if err := errors.Join(os.Symlink(strings.TrimSpace(string(libc)), dir+"/libother-c-library.so.6"), os.Symlink(strings.TrimSpace(string(ld)), interp)); err != nil {
		t.Fatal(err)
	}
	long, middle, longer := strings.Repeat("/a/directory/that/is/not/there:", 65)+"/last", strings.Repeat("/m:", 100)+"/last", strings.Repeat("/another/directory:", 300)+"/last"
	list := func(s string) Change { return setPath(elf.DT_RUNPATH, s) }
	stack, abi := true, byte(elf.ELFOSABI_LINUX)
	several := list(long)
	several.Interpreter, several.ExecStack, several.OSABI, several.DebugTag = &interp, &stack, &abi, true
	several.Needed = &Needed{Names: []string{"libother-c-library.so.6"}, Renamed: map[string]string{"libc.so.6": "libother-c-library.so.6"}}
	chains := map[string][]Change{
		"long first":  {list(long), list("/short"), list(longer)},
		"short first": {list("/short"), list(middle), list(long)},
		"interpreter": {{Interpreter: &interp}, list(long)},
		"library":     {{Needed: several.Needed}, list(long)},
		"stack":       {{ExecStack: &stack}, list("/short")},
		"versions":    {{ClearVersions: []string{"puts"}}, list(middle)},
		"several":     {several, list(longer)},
	}
	for _, linker := range []string{"bfd", "gold", "lld", "mold"} {
		for _, mode := range []string{"-pie", "-no-pie -Wl,-rpath,/old,-z,norelro", "-pie -Wl,-rpath,/old,--hash-style=sysv"} {
			path := filepath.Join(dir, "program")
			args := append([]string{"-fuse-ld=" + linker, "-o", path, dir + "/main.c"}, strings.Fields(mode)...)
			if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
				t.Logf("%s %s: not to be had: %.100s", linker, mode, out)
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for name, chain := range chains {
				t.Run(linker+" "+mode+", "+name, func(t *testing.T) {
					b := b
					for n, c := range chain {
						b = stopped(t, dir, b, c, fmt.Sprintf("edit %d", n))
					}
				})
			}
		}
	}
}

// stopped stops an edit after each of its writes, and returns the file after all of them.
func stopped(t *testing.T, dir string, b []byte, c Change, what string) []byte {
	t.Helper()
	states := statesOf(t, planned(t, b, c))
	for i, state := range states {
		what := fmt.Sprintf("%s, after %d of %d writes", what, i, len(states)-1)
		starts(t, dir, state, what, false)
		starts(t, dir, state, what, true)
		if im := asItIs(t, state); im.Stopped() { // section headers overlap for the moment
		} else if err := im.Contradiction(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		e, err := parse(t, state).plan(c)
		if err != nil {
			t.Errorf("%s: the next edit: %v", what, err)
			continue
		}
		if e != nil {
			again := statesOf(t, e)
			state = again[len(again)-1]
		}
		if e, err := parse(t, state).plan(c); e != nil || err != nil {
			t.Errorf("%s, edited again: there is another edit to make, %v", what, err)
		}
		starts(t, dir, state, what+", edited again", false)
		starts(t, dir, state, what+", edited again", true)
	}
	return states[len(states)-1]
}

// An edit leaves a file that Stopped knows from the write that switches the headers to the one
// that takes the covers away, without a gap, and no other; by then its record is gone; what finishes it is an edit of nothing.
func TestStopped(t *testing.T) {
	known := 0
	for name, l := range shapes {
		e, err := parse(t, l.build(t)).plan(setPath(elf.DT_RUNPATH, lists[1]))
		if err != nil || e == nil {
			t.Fatalf("%s: %v, %v", name, e, err)
		}
		said := ""
		for _, state := range statesOf(t, e) {
			im := parse(t, state)
			if !asItIs(t, state).Stopped() {
				if r, _, _ := readRecord(state); r != nil && strings.Contains(said, "S") {
					t.Errorf("%s, %s: the record is still there", name, said)
				}
				said += "-"
				continue
			}
			said += "S"
			_, list, err := im.RunPath()
			if err != nil {
				t.Fatal(err)
			}
			again := statesOf(t, planned(t, state, setPath(elf.DT_RUNPATH, list)))
			if asItIs(t, again[len(again)-1]).Stopped() {
				t.Errorf("%s, %s: the next edit does not finish it", name, said)
			}
		}
		if inside := strings.Trim(said, "-"); strings.Contains(inside, "-") || strings.HasPrefix(said, "S") || strings.HasSuffix(said, "S") {
			t.Errorf("%s: %s", name, said)
		} else if inside != "" {
			known++
		}
	}
	if known < len(shapes)/3 {
		t.Errorf("stopped in its middle, %d of %d files are known", known, len(shapes))
	}
}

// In every state of an edit, what .dynamic and the program headers refer to has a section: strip keeps nothing else. A state
// from the first write of the headers on may lack none that the file has before.
func TestWhatIsReferredToHasASection(t *testing.T) {
	lacking := func(im *elfimage.Image) (all []string) {
		var loaded []span
		for i := range im.Sections {
			if s := &im.Sections[i]; s.HasBytes() && s.Flags&elf.SHF_ALLOC != 0 {
				loaded = append(loaded, span{s.Off, s.Size})
			}
		}
		slices.SortFunc(loaded, func(a, b span) int { return cmp.Compare(a.off, b.off) })
		for _, o := range im.Owners() {
			at := o.Off
			for _, s := range loaded {
				if s.off <= at {
					at = max(at, s.end())
				}
			}
			if at < o.End() && (o.Kind == elfimage.OfDynamic || o.Kind == elfimage.OfSegment) {
				all = append(all, fmt.Sprint(o.Kind, o.Tag))
			}
		}
		return all
	}
	for name, l := range shapes {
		if l.noSections {
			continue
		}
		for _, list := range lists {
			e := planned(t, l.build(t), setPath(elf.DT_RUNPATH, list))
			states := statesOf(t, e)
			if l.tail != "" { // ends the file instead
				for i, state := range states[e.prepared:] {
					if !bytes.HasSuffix(state, []byte(l.tail)) {
						t.Errorf("%s, %d bytes: after %d writes, appended data does not end the file", name, len(list), e.prepared+i)
					}
				}
				continue
			}
			before := lacking(asItIs(t, states[0]))
			for i, state := range states {
				for _, what := range lacking(asItIs(t, state)) {
					if !slices.Contains(before, what) {
						t.Errorf("%s, %d bytes: after %d writes of %d, %s has no section", name, len(list), i, len(states)-1, what)
					}
				}
			}
		}
	}
}

// starts runs a program, where it is said so after strip.
func starts(t *testing.T, dir string, b []byte, what string, stripped bool) {
	t.Helper()
	path := filepath.Join(dir, "now")
	os.Remove(path)
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if stripped {
		what += ", stripped"
		if out, err := exec.Command("strip", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: strip: %v, %.200s", what, err, out)
			return
		}
	}
	cmd := exec.Command(path)
	cmd.Env = []string{"LD_BIND_NOW=1", "LD_LIBRARY_PATH=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "yes 1\n" {
		t.Errorf("%s: %v, %.200q", what, err, out)
	}
}

func planned(t *testing.T, b []byte, c Change) *Edit {
	t.Helper()
	e, err := parse(t, b).plan(c)
	if err != nil || e == nil {
		t.Fatalf("%v, %v", e, err)
	}
	return e
}

// Ranges of two segments do not become one: strip gives the segments other places, and the record of an edit names a range
// by one address.
func TestDeadRangesAreOfOneSegment(t *testing.T) {
	l := &layout{progs: []elfimage.Prog{{Type: elf.PT_LOAD, Off: 0, Filesz: 100}, {Type: elf.PT_LOAD, Off: 100, Filesz: 100}}}
	got := l.joined([]span{{90, 10}, {100, 20}, {10, 5}, {15, 5}, {18, 4}, {50, 1}})
	if want := []span{{10, 12}, {50, 1}, {90, 10}, {100, 20}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
