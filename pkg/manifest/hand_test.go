package manifest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Changes made by hand are each said in one line, and in no other, but for what is wrong with a new library and for a
// file that comes while others move. Sizes are left out.
func TestEachChangeIsALine(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	// so OUT FLAG… makes a library of what it reads, and opens NAME OUT one that opens another.
	const functions = `
so() { mkdir -p "$(dirname "$1")"; cc -shared -fPIC -nostdlib -Wl,-soname,"$(basename "$1")" -o "$1" -x c - -x none "${@:2}"; }
F='int f(void){return 1;}'
opens() { so "$2" <<<"extern void *dlopen(const char *, int); void *f(void) { return dlopen(\"$1\", 2); }"; }
`
	all := []struct{ name, before, change, want string }{
		{"an executable stack", `so lib/libx.so <<<"$F"`, `so lib/libx.so -z execstack <<<"$F"`, "flags: lib/libx.so: now has executable stack"},
		{"RELRO", `so lib/libx.so -z relro <<<"$F"`, `so lib/libx.so -z norelro <<<"$F"`, "flags: lib/libx.so: no longer has RELRO"},
		{"BIND_NOW", `so lib/libx.so -z lazy <<<"$F"`, `so lib/libx.so -z now <<<"$F"`, "flags: lib/libx.so: now has BIND_NOW"},
		{"NODELETE", `so lib/libx.so <<<"$F"`, `so lib/libx.so -z nodelete <<<"$F"`, "flags: lib/libx.so: now has NODELETE"},
		{"SYMBOLIC", `so lib/libx.so <<<"$F"`, `so lib/libx.so -Wl,-Bsymbolic <<<"$F"`, "flags: lib/libx.so: now has SYMBOLIC"},
		{"a mode", `so bin/p <<<"$F"`, `chmod 644 bin/p`, "mode: bin/p: is not executable any more"},
		{"setuid", `so bin/p <<<"$F"`, `chmod 4755 bin/p`, "mode: bin/p: is setuid now"},
		{"setgid", `so bin/p <<<"$F"; chmod 2755 bin/p`, `chmod 755 bin/p`, "mode: bin/p: is not setgid any more"},
		{"a link is gone", `so lib/libx.so.1.2 <<<"$F"; ln -s libx.so.1.2 lib/libx.so.1`, `rm lib/libx.so.1`, "link: lib/libx.so.1: is gone: a link to lib/libx.so.1.2"},
		{"a link is new", `so lib/libx.so.1 <<<"$F"`, `ln -s libx.so.1 lib/libx.so`, "link: lib/libx.so: is new: a link to lib/libx.so.1"},
		{"a link leads elsewhere", `so lib/liba.so <<<"$F"; so lib/libb.so <<<"$F"; ln -s liba.so lib/libx.so`, `ln -sf libb.so lib/libx.so`, "link: lib/libx.so: leads to lib/libb.so, not to lib/liba.so"},
		{"the link of a file that is renamed", `so lib/libx.so.1.2 -Wl,-soname,libx.so.1 <<<"$F"; ln -s libx.so.1.2 lib/libx.so.1`, `mv lib/libx.so.1.2 lib/libx.so.1.3; ln -sf libx.so.1.3 lib/libx.so.1`,
			"identity: lib/libx.so.1.3: was called libx.so.1.2"},
		{"the order of DT_NEEDED", `so o/libv.so <<<"$F"; so o/libw.so <<<"int w;"; so lib/libx.so -Wl,--no-as-needed o/libv.so o/libw.so <<<"$F"`,
			`so lib/libx.so -Wl,--no-as-needed o/libw.so o/libv.so <<<"$F"`, "needed: lib/libx.so: needs libraries in another order"},
		{"the order of DT_NEEDED, and a library more", `for l in v w x; do so o/lib$l.so <<<"int $l;"; done; so lib/libx.so -Wl,--no-as-needed o/libv.so o/libw.so <<<"$F"`,
			`so lib/libx.so -Wl,--no-as-needed o/libw.so o/libv.so o/libx.so <<<"$F"`,
			"needed: lib/libx.so: now needs libx.so\nneeded: lib/libx.so: needs libraries in another order"},
		{"the order of DT_NEEDED, and another number", `so ../o/libv.so.1 <<<"$F"; so ../o/libw.so <<<"int w;"; so lib/libx.so -Wl,--no-as-needed ../o/libv.so.1 ../o/libw.so <<<"$F"`,
			`so ../o/libv.so.2 <<<"$F"; so lib/libx.so -Wl,--no-as-needed ../o/libw.so ../o/libv.so.2 <<<"$F"`,
			"needed: lib/libx.so: needs libv.so.2, not libv.so.1\nneeded: lib/libx.so: needs libraries in another order"},
		{"a wrapper's variable", `so bin/p <<<"$F"; printf '#!/bin/sh\nexport LD_LIBRARY_PATH=/run/opengl-driver/lib\nexec /p/bin/p "$@"\n' >bin/w; chmod +x bin/w`,
			`sed -i /export/d bin/w`, "identity: bin/w: the wrapper's LD_LIBRARY_PATH none, not /run/opengl-driver/lib"},
		{"another library", `so ../o/libv.so.1 <<<"$F"; so lib/libx.so -Wl,--no-as-needed ../o/libv.so.1 <<<"$F"`, `so ../o/libv.so.2 <<<"$F"; so lib/libx.so -Wl,--no-as-needed ../o/libv.so.2 <<<"$F"`,
			"needed: lib/libx.so: needs libv.so.2, not libv.so.1"},
		{"a version of a library that is not here", `echo 'V_1.9{f;};' >../m; so ../o/libv.so -Wl,--version-script=../m <<<"$F"; so lib/libx.so ../o/libv.so <<<'int f(void); int g(void) { return f(); }'`,
			`echo 'V_1.10{f;};' >../m; so ../o/libv.so -Wl,--version-script=../m <<<"$F"; so lib/libx.so ../o/libv.so <<<'int f(void); int g(void) { return f(); }'`,
			"version-needed: needs V 1.10, not 1.9: lib/libx.so"},
		{"one more library, which is not found", `so lib/libv1.so <<<"$F"; so lib/libx.so -Wl,--no-as-needed,-rpath,'$ORIGIN' lib/libv1.so <<<"$F"`,
			`so ../o/libv2.so <<<"$F"; so lib/libx.so -Wl,--no-as-needed,-rpath,'$ORIGIN' lib/libv1.so ../o/libv2.so <<<"$F"`,
			"not-found: lib/libx.so: does not find libv2.so\nneeded: lib/libx.so: now needs libv2.so"},
		{"the driver's library, which is not found", `so lib/libx.so <<<"$F"`, `so ../o/libcuda.so.1 <<<"$F"; so lib/libx.so -Wl,--no-as-needed ../o/libcuda.so.1 <<<"$F"`,
			"not-found: lib/libx.so: does not find libcuda.so.1\nneeded: lib/libx.so: now needs libcuda.so.1"},
		{"a stub", `so stubs/libcuda.so.1 <<<"$F"; so lib/libx.so -Wl,-rpath,'$ORIGIN/../stubs' <<<"$F"`, `so lib/libx.so -Wl,--no-as-needed,-rpath,'$ORIGIN/../stubs' stubs/libcuda.so.1 <<<"$F"`,
			"stub: lib/libx.so: loads a stub in place of libcuda.so.1\nneeded: lib/libx.so: now needs libcuda.so.1"},
		{"a new library that loads a stub and does not find another", `so stubs/libcuda.so.1 <<<"$F"`,
			`so ../o/libv.so <<<"$F"; so lib/libx.so -Wl,--no-as-needed,-rpath,'$ORIGIN/../stubs' stubs/libcuda.so.1 ../o/libv.so <<<"$F"`,
			"stub: lib/libx.so: loads a stub in place of libcuda.so.1\nnot-found: lib/libx.so: does not find libv.so\nfile-added: lib/libx.so: is new (library, "},
		{"a version that a library does not have", `echo 'V_1{f;};' >../m; so lib/libv.so -Wl,--version-script=../m <<<"$F"; so lib/libx.so -Wl,-rpath,'$ORIGIN' lib/libv.so <<<'int f(void); int g(void) { return f(); }'`,
			`echo 'V_2{f;};' >../m; so ../o/libv.so -Wl,--version-script=../m <<<"$F"; so lib/libx.so -Wl,-rpath,'$ORIGIN' ../o/libv.so <<<'int f(void); int g(void) { return f(); }'`,
			"not-found: lib/libx.so: cannot be loaded any more: "},
		{"a name in a string", `opens libcudnn.so.8 lib/libx.so`, `opens libcudnn.so.9 lib/libx.so`, "opened: lib/libx.so: names libcudnn.so.9, not libcudnn.so.8, and may open it"},
		{"a directory", `so lib64/libx.so <<<"$F"`, `mv lib64 lib32`, "moved: lib64 → lib32: 1 file"},
		{"a version of Python", `for i in a b c d e; do so lib/python3.11/site/$i.so <<<"$F"; done`, `mv lib/python3.11 lib/python3.12`, "moved: lib/python3.11 → lib/python3.12: 5 files"},
		{"napi-v3", `so bin/napi-v3/x.node <<<"$F"; so bin/napi-v3/y.node <<<"$F"`, `mv bin/napi-v3 bin/napi-v6`, "moved: bin/napi-v3 → bin/napi-v6: 2 files"},
		{"a soname", `so lib/libx.so <<<"$F"`, `so lib/libx.so -Wl,-soname,libx.so.2 <<<"$F"`, "identity: lib/libx.so: soname libx.so.2, not libx.so"},
		{"a run path", `so lib/libx.so -Wl,-rpath,/a <<<"$F"`, `so lib/libx.so -Wl,-rpath,/a:/b <<<"$F"`, "run-path: lib/libx.so: run path: now has /b"},
		{"a debug file", `mkdir lib; cc -shared -nostdlib -g -o lib/libx.so -x c - <<<"$F"`, `objcopy --only-keep-debug lib/libx.so x; mv x lib/libx.so`, "file-kind: lib/libx.so: is now a debug file, not a library"},
		{"a file is gone", `so lib/liba.so <<<"$F"; so lib/libb.so <<<"$F"`, `rm lib/libb.so`, "file-removed: lib/libb.so: is gone (library, "},
		{"two equal copies", `so v3/lib2.so <<<"$F"`, `mv v3 v6; so v6/lib1.so <<<"$F"`, "file-added: v6/lib1.so: is new (library, \nmoved: v3 → v6: 1 file"},
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			read := func(script string) *Document {
				cmd := exec.Command("bash", "-euc", functions+script)
				cmd.Dir = filepath.Join(dir, "p")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				r := &root{T: t, dir: dir}
				return r.read("/p")
			}
			if err := os.Mkdir(filepath.Join(dir, "p"), 0o755); err != nil {
				t.Fatal(err)
			}
			before := read(c.before)
			got := Compare(before, read(c.change))
			if got = slices.DeleteFunc(got, func(c Change) bool { return c.Kind == Size }); len(got) == 0 {
				t.Fatal("nothing is said")
			}
			var said []string
			for _, c := range got {
				if rank(c.Kind) < 0 {
					t.Errorf("the kind %s is none of Kinds", c.Kind)
				}
				at := c.Kind + ": "
				if c.File != "" {
					at += c.File + ": "
				}
				said = append(said, at+c.Text)
			}
			want := strings.Split(c.want, "\n")
			if !slices.EqualFunc(said, want, strings.HasPrefix) {
				t.Errorf("%s\nwant: %s", strings.Join(said, "\n"), c.want)
			}
		})
	}
}
