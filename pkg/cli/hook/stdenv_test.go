package hook

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/tests/tinyelf"
)

// tells runs a moment with nothing stood in for: the answers, a line each, and the log.
func tells(t *testing.T, s state, moment string, args ...string) (answered, log string) {
	t.Helper()
	var out, said strings.Builder
	b := &build{answers: &answers{out: &out}, log: &said, start: start, context: t.Context()}
	b.tell(moment, strings.NewReader(with(s, state{"arguments": args}).text()))
	return strings.ReplaceAll(out.String(), "\x00", "\n"), said.String()
}

// runPath returns a file's, with the tag in front.
func runPath(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	im, err := elfimage.Parse(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	tag, list, err := im.RunPath()
	if err != nil {
		t.Fatal(err)
	}
	if tag == elf.DT_NULL {
		return ""
	}
	return tag.String() + " " + list
}

// A package: directories with libraries, and an output whose files name them.
func shrinkable(t *testing.T) (dir, out string, s state) {
	dir = t.TempDir()
	out = filepath.Join(dir, "out")
	put := func(name string, data []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	library := func(list string, needed ...string) []byte {
		o := tinyelf.Object{}
		for _, name := range needed {
			o.Strings = append(o.Strings, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: name})
		}
		if list != "" {
			o.Strings = append(o.Strings, tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: strings.ReplaceAll(list, "D/", dir+"/")})
		}
		return o.Bytes()
	}
	plain := library("")
	for _, name := range []string{"a/libone.so", "b/libone.so", "b/libtwo.so", "c/libthree.so"} {
		put(name, plain)
	}
	other := library("")
	other[18] = 183 // another machine
	put("other/libone.so", other)
	put("text/libone.so", []byte("INPUT(libone.so.1)\n"))
	put("out/lib/libuse.so", library("D/none:$ORIGIN/../lib:D/other:D/text:D/a:D/a/:D/b:relative:D/c", "libone.so", "libtwo.so"))
	put("out/lib/libnothing.so", library("D/a:D/c", "libgone.so"))
	old := tinyelf.Object{Strings: []tinyelf.Entry{{Tag: elf.DT_NEEDED, Str: "libone.so"}, {Tag: elf.DT_RPATH, Str: dir + "/a"}}}
	put("out/lib/libold.so", old.Bytes())
	put("out/lib/libbare.so", plain)
	put("out/lib/debug/.build-id/ab/cd.debug", library("D/c", "libone.so"))
	put("out/lib/libmy.build-id.so", library("D/c", "libone.so"))
	put("out/lib/object.o", tinyelf.Object{Type: elf.ET_REL}.Bytes())
	put("out/lib/broken.so", append([]byte("\x7fELF"), make([]byte, 60)...))
	static := tinyelf.Object{Strings: []tinyelf.Entry{{Tag: elf.DT_RUNPATH, Str: "/none:$ORIGIN"}}, Flags1: elf.DF_1_PIE}
	put("out/bin/static", static.Bytes())
	put("out/share/text", []byte("text"))
	os.Symlink("libuse.so", filepath.Join(out, "lib", "libuse.so.1"))
	return dir, out, state{"output:out": {out}, "TMPDIR": {"/build"}, "cudaRunpathGiven": {"elf="}, "cudaRunpathProgram": {"/T/bin/runpath"}, "NIX_BUILD_CORES": {"2"}}
}

// What stdenv's patchELF drops by `patchelf --shrink-rpath` is dropped, in the files that it takes.
func TestShrink(t *testing.T) {
	dir, out, s := shrinkable(t)
	answers, log := tells(t, s, "patchELF", out)
	if !strings.HasSuffix(answers, "\nstatus 0\n") || !strings.Contains(answers, "log shrinking the run paths of ELF files in "+out) {
		t.Errorf("answers: %s", answers)
	}
	for name, want := range map[string]string{
		"lib/libuse.so":                   "DT_RUNPATH $ORIGIN/../lib:D/a:D/b:relative",
		"lib/libnothing.so":               "",
		"lib/libold.so":                   "DT_RUNPATH D/a",
		"lib/debug/.build-id/ab/cd.debug": "DT_RUNPATH D/c",
		"lib/libmy.build-id.so":           "DT_RUNPATH D/c", // stdenv's pattern is "any character, build-id", anywhere
	} {
		if got := strings.ReplaceAll(runPath(t, filepath.Join(out, name)), dir+"/", "D/"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, want := range []string{`warning: .*/bin/static: a static-PIE program has no run path to edit`, `/lib/broken.so: .*unknown data encoding`, `/lib/libnothing.so: removed D/a, D/c`, `/lib/libuse.so: removed D/none, D/other, D/text, D/a/, D/c`} {
		if !regexp.MustCompile(want).MatchString(strings.ReplaceAll(log, dir+"/", "D/")) {
			t.Errorf("no %s in the log:\n%s", want, log)
		}
	}
	if strings.Contains(log, "object.o") || strings.Contains(log, "share/text") {
		t.Errorf("says something of what is left alone:\n%s", log)
	}
	if _, again := tells(t, s, "patchELF", out); strings.Contains(again, "removed") {
		t.Errorf("a second time:\n%s", again)
	}
	if answers, _ := tells(t, s, "patchELF", out+"/none"); answers != "status 0\n" {
		t.Errorf("no such directory: %s", answers)
	}
	if answers, _ := tells(t, with(s, state{"cudaRunpathStrict": {"1"}}), "patchELF", out); !strings.HasSuffix(answers, "\nstatus 1\n") {
		t.Errorf("strict: %s", answers)
	}
}

// Hard links are one file, under whichever name stdenv would take it.
func TestShrinkByAnotherName(t *testing.T) {
	dir, out, s := shrinkable(t)
	name := filepath.Join(out, "lib", "zzz.so")
	if err := os.Link(filepath.Join(out, "lib/debug/.build-id/ab/cd.debug"), name); err != nil {
		t.Fatal(err)
	}
	tells(t, s, "patchELF", out)
	if got := runPath(t, name); got != "" {
		t.Errorf("%s keeps %s (%s)", name, got, dir)
	}
}

// The audit names every file, with the entry or the line, after what is shrunk has gone.
func TestAuditTmpdir(t *testing.T) {
	_, out, s := shrinkable(t)
	put := func(name, text string) {
		path := filepath.Join(out, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path, []byte(text), 0o755)
	}
	library := func(list string) string {
		return string(tinyelf.Object{Strings: []tinyelf.Entry{{Tag: elf.DT_RUNPATH, Str: list}}}.Bytes())
	}
	const script = "#!/bin/sh\n# /build\nexport X=/build/x\nexec /build/source/.app-wrapped /build/\n"
	put("bin/app", script)
	put("bin/.app-wrapped", "x")
	put("bin/unwrapped", script)
	put("bin/linked", script)
	os.Symlink("/none", filepath.Join(out, "bin/.linked-wrapped"))
	put("bin/text", "echo /build/x\n")
	put("bin/.text-wrapped", "x")
	put("bin/nul", "\x00#!/bin/sh\n/build/x\n")
	put("bin/.nul-wrapped", "x")
	put("lib/bad.so", library("/a:/build/lib:/build/lib64"))
	put("lib/fine.so", library("/build:/buildx/lib:/x/build/lib:$ORIGIN/build/"))
	put("lib/debug/.build-id/x.debug", library("/build/lib"))
	put("lib/x.build-id.so", library("/build/lib"))
	os.Link(filepath.Join(out, "lib/bad.so"), filepath.Join(out, "lib/bad.so.1")) // one file, which is named once
	answers, log := tells(t, s, "auditTmpdir", out)
	if !strings.HasSuffix(answers, "\nstatus 1\n") || !strings.Contains(answers, "error in "+out+" 4 files name $TMPDIR (/build/)") {
		t.Errorf("answers: %s", answers)
	}
	want := strings.NewReplacer("OUT", out).Replace(`OUT/bin/app:3: forbidden reference to /build/: export X=/build/x
OUT/bin/app:4: forbidden reference to /build/: exec /build/source/.app-wrapped /build/
OUT/bin/nul:2: forbidden reference to /build/: /build/x
OUT/lib/bad.so: forbidden reference to /build/: entry 2 of the run path, /build/lib
OUT/lib/bad.so: forbidden reference to /build/: entry 3 of the run path, /build/lib64
OUT/lib/x.build-id.so: forbidden reference to /build/: entry 1 of the run path, /build/lib
`)
	var found string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "forbidden") {
			found += line
		}
	}
	if found != want {
		t.Errorf("the log says\n%s, want\n%s", found, want)
	}
	// In one walk with the shrink step, where stdenv's own entry comes next.
	inHook := state{"hookName": {"fixupOutput"}, "hook": {`x; patchELF "$prefix"; fi`}, "fixupOutputHooks": {`x; patchELF "$prefix"; fi`, `y; auditTmpdir "$prefix"; fi`}}
	for _, c := range []struct {
		more  state
		audit bool
	}{
		{nil, true},
		{state{"noAuditTmpdir": {"1"}}, false},
		{state{"hookName": {"postFixup"}}, false},
		{state{"fixupOutputHooks": {`x; patchELF "$prefix"; fi`, "other", `y; auditTmpdir "$prefix"; fi`}}, false},
		{state{"fixupOutputHooks": {`x; patchELF "$prefix"; fi`}}, false},
	} {
		answers, log := tells(t, with(with(s, inHook), c.more), "patchELF", out)
		// The shrink step takes what nothing needs: no run path of the others stays.
		if c.audit != strings.Contains(log, "bin/app:3: forbidden") || strings.Contains(log, "lib/bad.so: forbidden") {
			t.Errorf("%v: %s%s", c.more, answers, log)
		}
	}
	_, clean, s2 := shrinkable(t)
	if answers, _ := tells(t, with(s2, inHook), "patchELF", clean); !strings.Contains(answers, "audited "+clean+"\nstatus 0\n") {
		t.Errorf("nothing is found: %s", answers)
	}
	if answers, _ := tells(t, s2, "patchELF", clean); strings.Contains(answers, "audited") {
		t.Errorf("shrunk alone: %s", answers)
	}
	link := filepath.Join(t.TempDir(), "link") // find(1) does not follow one
	os.Symlink(out, link)
	if answers, log := tells(t, s, "auditTmpdir", link); strings.Contains(log, "forbidden") || answers != "status 0\n" {
		t.Errorf("a link to the output: %s%s", answers, log)
	}
	if answers, log := tells(t, with(s, state{"TMPDIR": {""}}), "auditTmpdir", out); strings.Contains(log, "forbidden") || !strings.HasSuffix(answers, "status 0\n") {
		t.Errorf("no $TMPDIR: %s%s", answers, log)
	}
}

// Where a run path cannot be looked up, patchelf fails, and stdenv's build goes on: the file stays as it is, and is
// searched for $TMPDIR all the same.
func TestShrinkWhatCannotBeLookedUp(t *testing.T) {
	_, out, s := shrinkable(t)
	os.Symlink("loop", filepath.Join(out, "loop"))
	for _, entry := range []string{filepath.Join(out, "lib/libbare.so"), filepath.Join(out, "loop"), "/opt/" + strings.Repeat("a", 300)} {
		name := filepath.Join(out, "lib/odd.so")
		list := entry + ":/build/lib"
		object := tinyelf.Object{Strings: []tinyelf.Entry{{Tag: elf.DT_NEEDED, Str: "libone.so"}, {Tag: elf.DT_RUNPATH, Str: list}}}
		os.WriteFile(name, object.Bytes(), 0o755)
		answers, log := tells(t, s, "patchELF", out)
		if got := runPath(t, name); got != "DT_RUNPATH "+list || !strings.HasSuffix(answers, "\nstatus 0\n") ||
			!strings.Contains(log, "warning: "+name+": ") {
			t.Errorf("%.80s: %s\n%s%s", entry, got, answers, log)
		}
		inHook := state{"hookName": {"fixupOutput"}, "hook": {"p"}, "fixupOutputHooks": {"p", `auditTmpdir "$prefix"`}}
		if answers, log := tells(t, with(s, inHook), "patchELF", out); !strings.HasSuffix(answers, "\nstatus 1\n") ||
			!strings.Contains(log, name+": forbidden reference to /build/: entry 2") {
			t.Errorf("%.80s, audited: %s%s", entry, answers, log)
		}
	}
}
