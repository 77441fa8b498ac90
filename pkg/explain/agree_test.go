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
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/loader/tinyelf"
	"cuda-runpath/pkg/sysroot"
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
	explain.Unresolved: "missing", explain.UnresolvedIndirect: "missing", explain.LibcMismatch: "missing", explain.MissingVersion: "too old",
	explain.NoInterpreter: "no interpreter", explain.LoadError: "stops", explain.StubLoaded: "stub", explain.CompatHarms: "harms",
	explain.NoDriverLink: "nowhere", explain.DriverAbsent: "nowhere",
	explain.NoteNamesStub: "note-stub", explain.NoteBypassesDriver: "note-bypass", explain.StaleNote: "note-stale", explain.UnreadNote: "note-unread",
	audit.RelativeNeeded: "missing", // as none of these names leads to a file
}

func (c conclusions) add(kind, library string) {
	if k := kinds[kind]; k != "" {
		c[k+" "+library] = true
	}
}

// explained is what the document of explain says, which is not made from problems.
func explained(load *loader.Load, l *explain.Layout) (c, ofMain conclusions) {
	c, ofMain = conclusions{}, conclusions{}
	f := explain.Describe(load, l.Driver(load))
	if strings.HasSuffix(f.Error, "does not exist") {
		c.add(explain.NoInterpreter, "")
	}
	for _, lib := range f.Libraries {
		switch {
		case !lib.Certain:
		case lib.Path == nil && !driver.Provides(lib.Soname) && (load.Interp.Found || !slices.Contains(loader.GLibcLibraries, lib.Soname)): // else it would lie beside the loader
			c.add(explain.Unresolved, lib.Soname)
		case lib.Path != nil && lib.Error != "":
			if loader.MuslOnly(lib.Soname) {
				c.add(explain.LibcMismatch, lib.Soname)
			} else {
				c.add(explain.LoadError, lib.Soname)
			}
		}
		if lib.Certain && len(lib.Lacks) > 0 && (load.Interp.Found || lib.ListOf != "") {
			c.add(explain.MissingVersion, lib.Soname)
		}
	}
	if len(f.Lacks) > 0 {
		c.add(explain.MissingVersion, "")
	}
	for _, v := range f.Driver {
		kind := map[explain.Origin]string{explain.FromStub: explain.StubLoaded, explain.FromNowhere: explain.NoDriverLink}[v.Origin]
		if v.Origin == explain.FromCompat && !v.Good {
			kind = explain.CompatHarms
		}
		c.add(kind, v.Soname)
		if o := v.Object; o.NeededBy == load.Main || o.Found() && o.Certain() {
			ofMain.add(kind, v.Soname)
		}
	}
	return c, ofMain
}

// Of each situation doctor, audit, explain and noRunpathAmbiguity conclude the same, as far as it is their question.
func TestCommandsAgree(t *testing.T) {
	n := 500
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
	layout := explain.Layout{CompatVerdict: host.CompatJudge(root, "")}
	load, err := l.Load("/app/p")
	if err != nil {
		t.Fatal(err)
	}
	load.DlopenAll(explain.Likely(load, false), driver.NeedsDriver)
	e, ofMain := explained(load, &layout)
	said = conclusions{}

	auditor := audit.New(l, audit.Options{Layout: layout})
	u := auditor.Begin()
	p := u.Take("/app/p", -1)
	u.Examine(p)
	report := u.Finish(p)
	a := conclusions{}
	for _, f := range report.Findings {
		looked := func(o *loader.Object) bool { return o.Name == f.Library } // the loader may have stopped before
		if f.ID != audit.RelativeNeeded || load.Interp.Found && slices.ContainsFunc(load.Objects, looked) {
			a.add(f.ID, f.Library)
		}
	}

	h := &host.Host{Root: sysroot.Root{Dir: root}}
	m, _ := host.MachineNamed("x86_64")
	d := h.Excluding(m, host.DefaultPrefix).Doctor(m, "/app/p", host.DefaultPrefix)
	doc := conclusions{}
	for _, f := range d.Facts {
		doc.add(f.Kind, f.Library)
	}

	// Of notes the program alone has one here. The document of explain has no word for them.
	notes := func(c conclusions) (out []string) {
		for k := range c {
			if strings.HasPrefix(k, "note-") {
				out = append(out, k)
				said[k] = true
				delete(c, k)
			}
		}
		slices.Sort(out)
		return out
	}
	if x, y := notes(a), notes(doc); !slices.Equal(x, y) {
		wrong("audit says %q\ndoctor says %q", x, y)
	}

	// What is missing, too old or broken, and whether the program starts, is everybody's question.
	everybody := func(c conclusions) (out []string) {
		for k := range c {
			if kind, _, _ := strings.Cut(k, " "); kind != "stub" && kind != "harms" && kind != "nowhere" && !(kind == "stops" && driver.Provides(path.Base(k[6:]))) {
				out = append(out, k)
			}
		}
		slices.Sort(out)
		return out
	}
	if x, y, z := everybody(e), everybody(a), everybody(doc); !slices.Equal(x, y) || !slices.Equal(x, z) {
		wrong("explain says %q\naudit   says %q\ndoctor  says %q", x, y, z)
	}
	// Of the driver, audit speaks of what the file itself asks for, doctor of each of the driver's libraries.
	for _, kind := range []string{"stub", "harms", "nowhere"} {
		for _, name := range []string{driver.LibCUDA, "libnvidia-ml.so.1", "/opt/none/" + driver.LibCUDA} {
			k := kind + " " + name
			if ofMain[k] && !a[kind+" "+path.Base(name)] && !a[k] {
				wrong("explain says %q, audit says %v", k, a)
			}
			if a[k] && !e[k] && !e[kind+" /opt/none/"+name] {
				wrong("audit says %q, explain says %v", k, e)
			}
			// Of what the file would open by a string, doctor lets it open libcuda.so.1 alone; it never says more than explain.
			if certain := slices.ContainsFunc(load.Objects, func(o *loader.Object) bool { return o.Name == name && o.Certain() }); doc[k] != e[k] && (doc[k] || certain || name == driver.LibCUDA) {
				wrong("%q: explain %v, doctor %v: %v", k, e[k], doc[k], doc)
			}
		}
	}
	// noRunpathAmbiguity asks which directory of the run path wins; who else speaks of that says the same.
	ambiguity := auditor.Ambiguity("/app/p")
	for _, f := range ambiguity.Findings {
		if !slices.ContainsFunc(report.Findings, func(g audit.Finding) bool { return g.ID == f.ID && g.Message == f.Message }) {
			wrong("noRunpathAmbiguity alone says %s", f.Message)
		}
		for _, c := range f.Candidates {
			o := explain.Find(load, f.Library)
			if c.Wins && f.Severity == audit.Error && o.Found() && o.NeededBy == load.Main && o.Path != c.Path {
				wrong("noRunpathAmbiguity: %s wins; explain: %s", c.Path, o.Path)
			}
		}
	}
	for _, o := range load.Objects {
		if v := (&explain.Case{Layout: &layout, Load: load}).Verdict(o); v != nil && o.Found() && o.List == load.Main && layout.StubDirs.Contains(path.Dir(o.Path)) &&
			!slices.ContainsFunc(ambiguity.Findings, func(f audit.Finding) bool {
				return f.ID == audit.StubEntry && *f.Entry == strings.TrimPrefix(o.Entry, "?") || f.ID == explain.NoteNamesStub && f.Library == o.Name && o.Rule == loader.ByNote
			}) {
			wrong("%s is loaded from a stub directory of the run path or the note, and noRunpathAmbiguity has nothing", o.Name)
		}
	}
	maps.Copy(said, e)
	return said, failed
}
