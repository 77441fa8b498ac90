package explain_test

import (
	"debug/elf"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/doctor"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/starts"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/tinyelf"
)

// situation makes a tree with a program, /app/p, of a number, and returns the files.
func situation(seed uint64) map[string][]byte {
	r := rand.New(rand.NewPCG(seed, 1))
	is := func(percent int) bool { return r.IntN(100) < percent }
	files := map[string][]byte{}
	lib := func(name string) tinyelf.Object { return tinyelf.Object{}.With(elf.DT_SONAME, name) }
	put := func(at string, o tinyelf.Object) {
		switch {
		case is(4):
			o.Class = elf.ELFCLASS32
			if o.Interp == "" {
				o.Machine = elf.EM_386
			}
		case is(3) && at != "/app/p":
			files[at] = []byte("/* GNU ld script */\n")
			return
		}
		files[at] = o.Bytes()
	}
	const interp, cuda, nvml = "/lib64/ld-linux-x86-64.so.2", driver.LibCUDA, "libnvidia-ml.so.1"
	if is(92) {
		files[interp] = lib("ld-linux-x86-64.so.2").Bytes()
	}
	dirs := []string{"/app/lib", "/other/lib", "$ORIGIN/lib", driver.Link, "/cuda/lib64/stubs", "/cuda/compat", "/nowhere", "/opt/driver"}
	list := func() string {
		var out []string
		for range 1 + r.IntN(5) {
			out = append(out, dirs[r.IntN(len(dirs))])
		}
		return strings.Join(out, ":")
	}
	names := []string{"liba.so.1", "libb.so.1", "libgone.so.1", cuda, nvml, "sub/liba.so.1", "libc.musl-x86_64.so.1"}
	asks := func(o tinyelf.Object, self string) tinyelf.Object {
		for i, n := range names {
			if n != self && is([]int{45, 25, 5, 45, 10, 2, 2}[i]) {
				o = o.Needs(n)
			}
		}
		if is(12) {
			o.Requires = []tinyelf.Requirement{{Library: "libb.so.1", Version: "V_2"}}
			o = o.Needs("libb.so.1")
		}
		if is(20) {
			o.Data = "x\x00" + []string{cuda, nvml, "/opt/none/" + cuda}[r.IntN(3)] + "\x00"
		}
		if l := list(); l != "" {
			o = o.With([]elf.DynTag{elf.DT_RUNPATH, elf.DT_RUNPATH, elf.DT_RPATH}[r.IntN(3)], l)
		}
		return o
	}
	p := asks(tinyelf.Object{Interp: interp}, "")
	if is(2) {
		p.Interp = ""
	}
	// A resolution note, and a loader that reads it; of another sequence, so that situations stay what they were.
	rest := r
	r = rand.New(rand.NewPCG(seed, 2))
	if is(50) {
		for _, n := range []string{"liba.so.1", cuda, "libc.so.6"} {
			var places []string
			for range r.IntN(3) {
				dir := dirs[r.IntN(len(dirs))]
				places = append(places, []string{"?" + dir, "=" + dir + "/" + n}[r.IntN(2)])
			}
			if places != nil {
				p.Resolution += n + "\x00" + strings.Join(places, ":") + "\x00"
			}
		}
		if p.Resolution != "" && is(95) {
			p.Resolution += "\x00"
		}
	}
	if files[interp] != nil && is(50) {
		reader := lib("ld-linux-x86-64.so.2")
		reader.Data = "\x00RESCACHE\x00"
		files[interp] = reader.Bytes()
	}
	r = rest
	put("/app/p", p)
	for _, dir := range []string{"/app/lib", "/other/lib"} {
		if is(70) {
			put(dir+"/liba.so.1", asks(lib("liba.so.1"), "liba.so.1"))
		}
		if is(60) {
			b := lib("libb.so.1")
			if b.Defines = []string{"V_1"}; is(50) {
				b.Defines = []string{"V_1", "V_2"}
			}
			put(dir+"/libb.so.1", b)
		}
	}
	real := func(dir, version string) {
		put(dir+"/libcuda.so."+version, lib(cuda))
		files[dir+"/"+cuda] = []byte("-> libcuda.so." + version)
	}
	if is(50) {
		put("/cuda/lib64/stubs/"+cuda, lib(cuda))
	}
	if is(20) { // a stub behind a link
		files["/other/lib/"+cuda] = []byte("-> /cuda/lib64/stubs/" + cuda)
	}
	if is(70) {
		real("/cuda/compat", []string{"470.57.02", "460.32.03", "580.95.05"}[r.IntN(3)])
	}
	if is(75) {
		real("/usr/lib64", "550.54.14")
		files["/proc/driver/nvidia/version"] = []byte("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu\n")
	}
	if is(50) {
		files[driver.Link+"/"+cuda] = []byte("-> /usr/lib64/" + cuda)
	}
	if is(30) {
		real("/opt/driver", []string{"525.60.13", "550.54.14"}[r.IntN(2)])
	}
	return files
}

func makeTree(t *testing.T, files map[string][]byte) string {
	root := t.TempDir()
	for _, at := range slices.Sorted(maps.Keys(files)) {
		os.MkdirAll(filepath.Dir(root+at), 0o755)
		var err error
		if target, ok := strings.CutPrefix(string(files[at]), "-> "); ok {
			err = os.Symlink(target, root+at)
		} else {
			err = os.WriteFile(root+at, files[at], 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// conclusions are a command's, in its own words: a kind and a library.
type conclusions map[string]bool

// kinds are those of which more than one command speaks.
var kinds = map[string]string{
	finding.Unresolved: "missing", finding.UnresolvedIndirect: "missing", finding.LibcMismatch: "missing", finding.MissingVersion: "too old",
	finding.NoInterpreter: "no interpreter", finding.LoadError: "stops", finding.StubLoaded: "stub", finding.CompatHarms: "harms",
	finding.NoDriverLink: "nowhere", finding.DriverAbsent: "nowhere",
	finding.NoteNamesStub: "note-stub", finding.NoteBypassesDriver: "note-bypass", finding.StaleNote: "note-stale", finding.UnreadNote: "note-unread",
	finding.RelativeNeeded: "missing", // as none of these names leads to a file
}

func (c conclusions) add(kind, library string) {
	if k := kinds[kind]; k != "" {
		c[k+" "+library] = true
	}
}

// explained is what explain says.
func explained(its *explain.Case) conclusions {
	c := conclusions{}
	for _, f := range its.Conclusions() {
		c.add(f.ID, f.Library)
	}
	return c
}

// Of each situation doctor, audit, explain and noRunpathAmbiguity conclude the same, as far as it is their question.
func TestCommandsAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	n := 200
	if more, err := strconv.Atoi(os.Getenv("AGREE")); err == nil { // another number of situations
		n = more
	}
	seen := map[string]int{}
	for seed := range uint64(n) {
		files := situation(seed)
		root := makeTree(t, files)
		said, failed := agree(t, root)
		for k := range said {
			kind, _, _ := strings.Cut(k, " ")
			seen[kind]++
		}
		if len(failed) > 0 {
			t.Errorf("situation %d:\n%s", seed, strings.Join(failed, "\n"))
		}
		os.RemoveAll(root)
	}
	t.Logf("%d situations: %v", n, seen)
	for _, kind := range kinds {
		if kind, _, _ = strings.Cut(kind, " "); seen[kind] < n/100 {
			t.Errorf("%d situations are %q", seen[kind], kind)
		}
	}
}

func agree(t *testing.T, root string) (said conclusions, failed []string) {
	wrong := func(format string, args ...any) { failed = append(failed, fmt.Sprintf(format, args...)) }
	l, err := loader.New(loader.Options{Root: root, Opened: true})
	if err != nil {
		t.Fatal(err)
	}
	options := explain.Options{Layout: explain.Layout{CompatVerdict: host.CompatJudge(root, "")}}
	state, err := starts.Begin(l, "/app/p", starts.Wrappers)
	if err != nil {
		t.Fatal(err)
	}
	its, load := explain.New(l, options).Case(state), state.Load
	e := explained(its)
	said = conclusions{}

	u := audit.New(l, audit.Options{Options: options})
	p := u.Take("/app/p", -1)
	u.Examine(p)
	report := u.Finish(p)
	a := conclusions{}
	for _, f := range report.Findings {
		a.add(f.ID, f.Library)
	}

	h := &host.Host{Root: sysroot.Root{Dir: root}}
	m, _ := host.MachineNamed("x86_64")
	d := (&doctor.Doctor{Host: h, Machine: m, Prefix: host.DefaultPrefix}).Diagnose("/app/p")
	doc := conclusions{}
	for _, f := range d.Facts {
		doc.add(f.Kind, f.Library)
	}

	same := func(c conclusions) (out []string) {
		for k := range c {
			out, said[k] = append(out, k), true
		}
		slices.Sort(out)
		return out
	}
	if x, y, z := same(e), same(a), same(doc); !slices.Equal(x, y) || !slices.Equal(x, z) {
		wrong("explain says %q\naudit   says %q\ndoctor  says %q", x, y, z)
	}
	// noRunpathAmbiguity asks which directory of the run path wins; who else speaks of that says the same.
	ambiguity := u.Ambiguity("/app/p")
	for _, f := range ambiguity.Findings {
		if !slices.ContainsFunc(report.Findings, func(g finding.Finding) bool { return g.ID == f.ID && g.Message == f.Message }) {
			wrong("noRunpathAmbiguity alone says %s", f.Message)
		}
		for _, c := range f.Candidates {
			o := its.Find(f.Library)
			if c.Wins && f.Severity == finding.Error && o.Found() && o.NeededBy == load.Main && o.Path != c.Path {
				wrong("noRunpathAmbiguity: %s wins; explain: %s", c.Path, o.Path)
			}
		}
	}
	for _, o := range load.Objects {
		if v := its.Verdict(o); v != nil && o.Found() && o.List == load.Main && its.StubDirs.Contains(path.Dir(o.Path)) &&
			!slices.ContainsFunc(ambiguity.Findings, func(f finding.Finding) bool {
				return f.ID == finding.StubEntry && *f.Entry == strings.TrimPrefix(o.Entry, "?") || f.ID == finding.NoteNamesStub && f.Library == o.Name && o.Rule == loader.ByNote
			}) {
			wrong("%s is loaded from a stub directory of the run path or the note, and noRunpathAmbiguity has nothing", o.Name)
		}
	}
	return said, failed
}
