package fixup

import (
	"debug/elf"
	"fmt"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Libraries that need each other in a circle, of each of which there are three copies, and each of which lacks something:
// all choices on the way to a fault may be to blame for it.
func TestMuchThatIsMissingBehindManyChoices(t *testing.T) {
	s := newStageIn(t)
	const length = 40
	for _, dir := range []string{"a", "b", "c"} {
		for i := range length {
			s.put(fmt.Sprintf("out/%s/lib%d.so", dir, i), lib(fmt.Sprintf("lib%d.so", i),
				fmt.Sprintf("lib%d.so", (i+1)%length), fmt.Sprintf("libgone%d.so", i)).Object)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := s.resolve()
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 500 {
		t.Errorf("%d MB were allocated", got)
	}
	for name, p := range r.by {
		if n := p.Needs; n[0].Outcome != Found || n[1].Outcome != Missing || len(n[0].refused) > 0 {
			t.Errorf("%s: %v, %v, refused: %v", name, n[0].Outcome, n[1].Outcome, n[0].refused)
		}
	}
}

// Each candidate that lacks something itself is refused in turn.
func TestCandidatesThatLackSomethingThemselves(t *testing.T) {
	s := newStage(t)
	s.put("a/libx.so", lib("libx.so", "libgone1.so").Object)
	s.put("b/libx.so", lib("libx.so", "libinner.so").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("b/libinner.so", lib("libinner.so", "libgone2.so").Object)
	s.put("c/libx.so", lib("libx.so").Object)
	s.put("d/libx.so", lib("libx.so").Object)
	s.put("out/libp.so", lib("libp.so", "libx.so").Object)
	s.libs("~/a", "~/b", "~/c", "~/d")
	r := s.resolve()
	r.list("out/libp.so", "~/c")
	r.rejected("out/libp.so", "libx.so", "~/a/libx.so", "needs libgone1.so, which is missing")
	// Where none is whole, nixpkgs' choice stays, and what it lacks is said.
	s.src.Libs = nil
	s.libs("~/a", "~/b")
	r = s.resolve()
	r.list("out/libp.so", "~/a")
	if p := r.plan("out/libp.so"); len(p.lacks) != 1 || p.lacks[0].names[0] != "libgone1.so" {
		t.Errorf("%+v", p.lacks)
	}
}

// A refusal with which a program fails that would start is taken back, though one that fails anyway then fails at more.
func TestARefusalThatHelpsNobody(t *testing.T) {
	s := newStage(t)
	s.put("libs0/libx.so", lib("libx.so").defines("V_1").Object)
	s.put("libs1/libx.so", lib("libx.so").defines("V_2").Object)
	s.put("out/lib/liba.so", lib("liba.so", "libx.so").Object)
	s.put("out/lib/libold.so", lib("libold.so", "libx.so").requires("libx.so", "V_1").Object)
	for _, name := range []string{"libnew.so", "libnewer.so"} {
		s.put("out/lib/"+name, lib(name, "libx.so").requires("libx.so", "V_2").Object)
	}
	s.put("out/starts", prog("liba.so", "libold.so").Object)
	s.put("out/fails", prog("liba.so", "libnew.so", "libnewer.so", "libgone.so").Object)
	s.libs("~/libs0", "~/libs1")
	r := s.resolve()
	r.list("out/lib/liba.so", "~/libs0")
	if len(r.need("out/lib/liba.so", "libx.so").tried) != 1 {
		t.Error("it was never refused")
	}
}

// A library and a program want different copies of one library, and a third does for both: the program's is always the first to be
// loaded, so that is the one to change. It was the one whose path comes last, and the library could not be opened.
func TestAProgramsLibraryIsThereBeforeAPluginIs(t *testing.T) {
	for _, at := range []string{"out/bin/p", "out/ap/p"} {
		s := newStageIn(t)
		s.put("out/a/libz.so", lib("libz.so").defines("V_1").Object)
		s.put("out/b/libv.so", lib("libv.so", "libz.so").requires("libz.so", "V_1").Object)
		s.put("out/c/libz.so", lib("libz.so").defines("V_2").Object)
		s.put("libs/libz.so", lib("libz.so").Object) // has every version
		s.put(at, prog("libz.so").requires("libz.so", "V_2").Object)
		s.libs("~/libs")
		r := s.resolve()
		r.list("out/b/libv.so", "~/out/a")
		r.list(at, "~/libs")
	}
}

// What is kept of a start is little for each library in it, and no more where each of them lacks something.
func TestWhatIsKeptOfManyStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	kept := func(length int) int64 {
		s := newStageIn(t)
		for _, dir := range []string{"a", "b", "c"} {
			for i := range length {
				s.put(fmt.Sprintf("out/%s/lib%d.so", dir, i), lib(fmt.Sprintf("lib%d.so", i),
					fmt.Sprintf("lib%d.so", (i+1)%length), fmt.Sprintf("libgone%d.so", i)).Object)
			}
		}
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC() // what finalizers and pools kept goes with the second
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		r := s.resolve()
		after := heap()
		runtime.KeepAlive(r)
		return after - before
	}
	const few, many = 20, 120
	// Each of the 3*many libraries is a start with as many in it.
	if each := (kept(many) - kept(few)) / (3*many*many - 3*few*few); each > 400 {
		t.Errorf("%d bytes are kept for each library of a start", each)
	}
}

// Many versions of one library, each of which does for its own users alone: twice as many are twice the work, or little more.
func TestManyVersionsOfOneLibrary(t *testing.T) {
	work := func(versions int) uint64 {
		s := newStageIn(t)
		for i := range versions {
			v := fmt.Sprintf("V%d", i)
			s.put(fmt.Sprintf("out/d%d/libx.so", i), lib("libx.so").defines(v).Object)
			for k := range 3 {
				s.put(fmt.Sprintf("out/d%d/plug%d-%d.so", i, i, k), lib(fmt.Sprintf("plug%d-%d.so", i, k), "libx.so").requires("libx.so", v).Object)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := s.resolve()
		runtime.ReadMemStats(&after)
		for name, p := range r.by {
			for _, n := range p.Needs {
				if n.Outcome != Found || path.Dir(n.Candidate.Path) != path.Dir(p.Object.Path) {
					t.Errorf("%s: %v %s", name, n.Outcome, n.Candidate.Path)
				}
			}
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := work(10), work(40)
	if many > 11*few { // it is 7.4 to 8.1; were it quadratic, 16
		t.Errorf("%d kB were allocated for 10 versions, %d kB for 40", few>>10, many>>10)
	}
}

// Where no choice is right, each run takes the one with which less fails. It was the one that it came to last, so that each
// run wrote what the one before it had undone.
func TestASecondRunWhereNoChoiceIsRight(t *testing.T) {
	s := newStage(t)
	k := lib("libk.so", "libq.so").requires("libq.so", "V_2")
	q := lib("libq.so", "libv.so").requires("libv.so", "V_2").defines("V_1", "V_2")
	s.put("out/a/bin/run", prog("libq.so", "libv.so").requires("libq.so", "V_1").requires("libv.so", "V_1").Object)
	s.put("out/a/lib/libk.so", k.Object)
	s.put("out/b/deps/libq.so", q.Object)
	s.put("out/b/deps/libv.so", lib("libv.so").defines("V_1").Object)
	s.put("libs0/libv.so", lib("libv.so").defines("V_2").Object)
	s.put("libs1/libq.so", lib("libq.so").defines("V_2").Object)
	s.libs("~/libs0", "~/libs1")
	for range 3 {
		r := s.resolve()
		if v := r.index.verify(); len(v) == 0 || v[0].plan != r.plan("out/a/bin/run") {
			t.Fatalf("the program is to fail, and to stay as it is: %v", v)
		}
		r.list("out/a/lib/libk.so", "~/out/b/deps")
		r.list("out/b/deps/libq.so", "~/libs0")
		s.put("out/a/lib/libk.so", k.with(elf.DT_RUNPATH, "~/out/b/deps").Object)
		s.put("out/b/deps/libq.so", q.with(elf.DT_RUNPATH, "~/libs0").Object)
	}
}

// A fault of another kind is no worse than the one that it takes the place of, either.
func TestASecondRunWhereOneThingOrAnotherIsMissing(t *testing.T) {
	s := newStage(t)
	q := lib("libq.so", "libu.so", "libv.so").requires("libu.so", "V_2").requires("libv.so", "V_2")
	s.put("out/deps/libk.so", lib("libk.so", "libu.so", "libv.so").requires("libu.so", "V_1").requires("libv.so", "V_1").
		with(elf.DT_RUNPATH, "$ORIGIN/../lib").Object)
	s.put("out/deps/libq.so", q.Object)
	s.put("out/deps/libu.so", lib("libu.so", "libv.so").requires("libv.so", "V_2").defines("V_1", "V_2").Object)
	s.put("out/lib/libv.so", lib("libv.so").defines("V_1").Object)
	s.put("libs/libu.so", lib("libu.so").defines("V_2").Object)
	s.libs("~/libs")
	for range 3 {
		r := s.resolve()
		r.list("out/deps/libq.so", "~/out/deps")
		s.put("out/deps/libq.so", q.with(elf.DT_RUNPATH, r.plan("out/deps/libq.so").After.String()).Object)
	}
}

// By hand, what a file finds today is not what it must have, where it cannot be loaded today because of what it brings.
func TestByHandAFileThatFindsAllAndCannotBeLoaded(t *testing.T) {
	s := newStage(t)
	s.put("out/deps/libq.so", lib("libq.so", "libu.so", "libv.so").requires("libv.so", "V_1").with(elf.DT_RUNPATH, "$ORIGIN/../lib").Object)
	s.put("out/lib/libu.so", lib("libu.so", "libv.so").requires("libv.so", "V_2").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("out/lib/libv.so", lib("libv.so").defines("V_1").Object)
	s.put("libs/libv.so", lib("libv.so").defines("V_1", "V_2").Object)
	s.libs("~/libs")
	s.byHand()
	r := s.resolve()
	r.list("out/lib/libu.so", "~/libs:$ORIGIN")
	r.list("out/deps/libq.so", "~/libs:$ORIGIN/../lib")
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

// That what a library needs is missing is said once, of that library: who gets it is edited all the same, in the first run, as files
// are in which something is missing. It was edited in the second, when others of the tree had what they need.
func TestByHandWhatIsMissingForWhatAPluginBrings(t *testing.T) {
	s := newStage(t)
	s.put("out/a/plugin.so", lib("plugin.so", "libu.so", "libv.so").requires("libv.so", "V_2").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("out/b/libu.so", lib("libu.so", "libv.so").requires("libv.so", "V_1").Object)
	s.put("libs/libv.so", lib("libv.so").defines("V_2").Object)
	s.libs("~/libs")
	s.byHand()
	r := s.resolve()
	r.outcome("out/b/libu.so", "libv.so", Missing)
	r.list("out/a/plugin.so", "$ORIGIN:$ORIGIN/../b:~/libs")
	if surprises := r.apply(); len(surprises) > 0 {
		t.Errorf("%+v", surprises)
	}
}

// Two plugins find what they need, and need two files of one name: that one of them brings its own is new.
func TestByHandAPluginGetsWhatClashesWithAnother(t *testing.T) {
	s := newStage(t)
	s.put("out/a/plugin0.so", lib("plugin0.so", "libv.so").requires("libv.so", "V_1").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("out/a/libv.so", lib("libv.so").defines("V_1").Object)
	s.put("out/b/plugin2.so", lib("plugin2.so", "libu.so").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("out/c/libu.so", lib("libu.so", "libv.so").requires("libv.so", "V_2").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("out/c/libv.so", lib("libv.so").defines("V_2").Object)
	s.byHand()
	warned := func() (all []string) {
		for _, p := range s.resolve().plans {
			all = append(all, p.Conflicts...)
		}
		return all
	}
	if got := warned(); len(got) != 1 || !strings.HasSuffix(got[0], "in a process that loads both, this one fails if the other comes first") {
		t.Errorf("%q", got)
	}
	s.put("out/b/plugin2.so", lib("plugin2.so").Object)
	if got := warned(); len(got) > 0 {
		t.Errorf("nothing is changed, and %q", got)
	}
}

// A refusal is taken back alone. Two were taken back at once, of which the one makes up for the other: libu.so's first copy lacks one
// library less than its second, and libz.so's first lacks one more.
func TestARefusalIsTakenBackAlone(t *testing.T) {
	s := newStage(t)
	s.put("out/a/libu.so", lib("libu.so", "libgone1.so").Object)
	s.put("out/d/libu.so", lib("libu.so", "libgone2.so", "libgone3.so").Object)
	s.put("out/b/libz.so", lib("libz.so", "libgone4.so").Object)
	s.put("out/c/libz.so", lib("libz.so").Object)
	s.put("out/p", prog("libu.so", "libz.so").Object)
	s.resolve().list("out/p", "~/out/a:~/out/c")
}

// A clash is as bad as the processes are many in which it is met. To one plugin went another library for what a second one needs, and
// with it a clash with a third and a fourth, of which the second has one in any case.
func TestAClashForSeveralOthers(t *testing.T) {
	s := newStage(t)
	s.put("out/p0/libk.so", lib("libk.so").defines("V_1").Object)
	s.put("out/p0/plugin0.so", lib("plugin0.so", "libk.so").requires("libk.so", "V_1").Object)
	s.put("out/p1/plugin3.so", lib("plugin3.so", "libk.so").requires("libk.so", "V_2").Object)
	s.put("out/p2/libv.so", lib("libv.so").defines("V_1", "V_2").Object)
	s.put("out/p2/plugin1.so", lib("plugin1.so", "libv.so").requires("libv.so", "V_2").Object)
	s.put("out/p2/plugin2.so", lib("plugin2.so", "libv.so").requires("libv.so", "V_2").Object)
	s.put("libs/libk.so", lib("libk.so", "libv.so").requires("libv.so", "V_1").defines("V_1", "V_2").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("libs/libv.so", lib("libv.so").defines("V_1").Object)
	s.libs("~/libs")
	s.resolve().list("out/p0/plugin0.so", "~/out/p0")
}

// What can be in one process with the libraries that nixpkgs' program takes, and cannot with those that the run does, makes the run
// fail: here that program's list has another order, and so leads to another libu.so than the one for which it has the entry.
func TestABuildIsWorseThanNixpkgs(t *testing.T) {
	s := newStage(t)
	s.put("out/p0/libu.so", lib("libu.so", "libv.so").requires("libv.so", "V_1").defines("V_1").Object)
	s.put("out/p1/libu.so", lib("libu.so", "libv.so").requires("libv.so", "V_2").defines("V_1").Object)
	s.put("out/p1/libk.so", lib("libk.so").Object)
	s.put("out/p2/libv.so", lib("libv.so").defines("V_2").Object)
	s.put("out/p2/plugin.so", lib("plugin.so", "libv.so").requires("libv.so", "V_2").Object)
	s.put("out/p2/run", prog("libk.so", "libu.so").requires("libu.so", "V_1").Object)
	s.put("libs/libv.so", lib("libv.so").defines("V_1").Object)
	s.libs("~/libs")
	worse := func() (all []string) {
		r := s.resolve()
		for _, p := range r.plans {
			if p.Worse != nil {
				all = append(all, strings.ReplaceAll(p.Object.Path+": "+p.Worse.Error(), s.dir, "~"))
			}
		}
		if len(s.set.Ignore) > 0 {
			all = append(all, r.resolver.UnusedPatterns(r.plans)...)
		}
		return all
	}
	want := []string{"~/out/p2/plugin.so: ~/out/p2/run can load it with the libraries that nixpkgs' program takes, and not with these: " +
		"~/out/p0/libu.so takes ~/libs/libv.so, which lacks V_2 that ~/out/p2/plugin.so needs; fix: give the package one libv.so that does " +
		`for both; or autoPatchelfIgnoreMissingDeps = [ "libv.so" ] if they are never in one process`}
	if diff := cmp.Diff(want, worse()); diff != "" {
		t.Error(diff)
	}
	s.set.Ignore = []string{"libv.*"}
	if got := worse(); len(got) > 0 {
		t.Errorf("who ignores it has accepted it: %q", got)
	}
	s.set.Ignore = nil
	s.put("out/p2/plugin.so", lib("plugin.so", "libv.so").requires("libv.so", "V_2").requires("libv.so", "V_3").Object) // fails in any case
	if got := worse(); len(got) > 0 {
		t.Errorf("nothing is worse, and %q", got)
	}
}

// By hand, what a plugin finds only in a program whose DT_RPATH it inherits is what meets the libraries of other plugins there.
func TestByHandAPluginGetsWhatClashesWithWhatAnotherInherits(t *testing.T) {
	s := newStage(t)
	s.put("out/bin/run", onStage("libc.so.6").opens("libc.so.6").with(elf.DT_RPATH, "$ORIGIN/../lib").Object)
	s.put("out/lib/libq.so", lib("libq.so").defines("V_1", "V_2").Object)
	s.put("out/deps/libq.so", lib("libq.so").defines("V_1").Object)
	s.put("out/a/plugin0.so", lib("plugin0.so", "libq.so").requires("libq.so", "V_1").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("out/b/plugin1.so", lib("plugin1.so", "libq.so").requires("libq.so", "V_2").Object)
	s.byHand()
	r := s.resolve()
	r.list("out/a/plugin0.so", "$ORIGIN:$ORIGIN/../lib")
	if p := r.plan("out/b/plugin1.so"); p.Changes() || !p.need("libq.so").inherited {
		t.Errorf("%+v", p.need("libq.so"))
	}
}

// By hand, what a plugin has loaded without the run's help is in a process by the run all the same, where that makes it one that can
// be opened.
func TestByHandAPluginCanBeOpenedAndBringsWhatClashes(t *testing.T) {
	s := newStage(t)
	s.put("out/a/plugin0.so", lib("plugin0.so", "libv.so").requires("libv.so", "V_1").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("out/a/libv.so", lib("libv.so").defines("V_1").Object)
	s.put("out/b/plugin2.so", lib("plugin2.so", "libk.so", "libu.so").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("out/b/libu.so", lib("libu.so", "libv.so").requires("libv.so", "V_2").with(elf.DT_RUNPATH, "$ORIGIN").Object)
	s.put("out/b/libv.so", lib("libv.so").defines("V_2").Object)
	s.put("out/c/libk.so", lib("libk.so").Object)
	s.byHand()
	var warned []string
	for _, p := range s.resolve().plans {
		warned = append(warned, p.Conflicts...)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "libv.so") {
		t.Errorf("%q", warned)
	}
}

// By hand, a program that cannot open a plugin for what it has loaded, or would load, makes that find nothing: the plugin is for the
// run to mend at once. It was left to the second one, and what that could do nothing for was edited by it.
func TestByHandAProgramThatCannotOpenAPlugin(t *testing.T) {
	for at, program := range map[string]object{"loaded": onStage("libv.so", "libc.so.6"), "brought": onStage("libc.so.6")} {
		t.Run(at, func(t *testing.T) {
			s := newStage(t)
			s.put("out/bin/run", program.opens("libc.so.6").with(elf.DT_RPATH, "$ORIGIN/../lib").Object)
			s.put("out/lib/libk.so", lib("libk.so", "libv.so").requires("libv.so", "V_2").Object)
			s.put("out/lib/libv.so", lib("libv.so").defines("V_1").Object)
			s.put("out/plugins/plugin.so", lib("plugin.so", "libk.so").Object)
			s.put("libs/libv.so", lib("libv.so").defines("V_2").Object)
			s.libs("~/libs")
			s.byHand()
			r := s.resolve()
			r.list("out/plugins/plugin.so", "$ORIGIN/../lib")
		})
	}
}

// A candidate that could not be refused, because no run path led to what was left, can be when another refusal has been taken back.
func TestARefusalThatCouldNotBeMade(t *testing.T) {
	s := newStage(t)
	s.put("out/a/libu.so", lib("libu.so", "libv.so").requires("libv.so", "V_2").defines("V_1", "V_2").Object)
	s.put("out/a/libv.so", lib("libv.so").defines("V_1").Object)
	s.put("out/b/libk.so", lib("libk.so", "libu.so", "libv.so").requires("libu.so", "V_1").requires("libv.so", "V_1").Object)
	s.put("out/b/libv.so", lib("libv.so").defines("V_1").Object)
	s.put("libs0/libu.so", lib("libu.so").defines("V_2").Object)
	s.put("libs0/libv.so", lib("libv.so").defines("V_1", "V_2").Object)
	s.put("libs1/libu.so", lib("libu.so").defines("V_1", "V_2").Object)
	s.put("libs1/libv.so", lib("libv.so").defines("V_2").Object)
	s.libs("~/libs0", "~/libs1")
	r := s.resolve()
	r.list("out/b/libk.so", "~/out/b:~/libs1")
	if v := r.index.verify(); len(v) > 0 {
		t.Errorf("%+v", v)
	}
}
