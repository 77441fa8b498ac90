package cmd_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/remedy"
)

// A situation is a tree of files as compilers, packagers and installers leave them, and what
// is to be said of it. The loader of this machine is the judge: of what is broken before, and of
// what works once the printed remedies have been followed.
type situation struct {
	name string
	// make builds the files in an empty directory, $W, with the functions of prelude.
	make string
	// works succeeds where the files work.
	works string
	// fine says that works succeeds from the start: then nothing is to be found but notes.
	fine bool
	ask  string // a command; --json is added
	// id is the finding's (or the origin of a verdict of explain, or the subject of a fact of hostDriver doctor),
	// and says are words of its message or its remedy.
	id, says string
	// hand does what a remedy in words says, where there is no command.
	hand string
	// never are words that no remedy may have.
	never string
}

// prelude are functions of the shell: so PATH SONAME ARGS… makes a library, prog PATH ARGS… a
// program, which opens the files that it is called with; load FILE is a program without a run path.
// A library is assembled, from one function, and the program is compiled once: $LOADER.
const prelude = `set -e
W=$PWD
so() { p=$1 s=$2; shift 2; case $p in */*) mkdir -p "${p%/*}" ;; esac
  printf '.globl "f_%s"\n.type "f_%s", %%function\n"f_%s": ret\n.section .note.GNU-stack,"",%%progbits\n' "${p##*/}" "${p##*/}" "${p##*/}" |
    cc -shared -o "$p" ${s:+-Wl,-soname,$s} -Wl,--enable-new-dtags,--no-as-needed -xassembler - -xnone "$@"; }
prog() { p=$1; shift; case $p in */*) mkdir -p "${p%/*}" ;; esac; cc -o "$p" -Wl,--enable-new-dtags,--no-as-needed "$LOADER" "$@"; }
`

const loaderProgram = `#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++)
		if (!dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL)) { puts(dlerror()); return 1; }
	return 0;
}
`

// openers makes o.c, a program that opens NAME and needs it to be the driver, that in drv, and a stub.
const openers = `echo '#include <dlfcn.h>
int main(void) { void *h = dlopen(NAME, RTLD_NOW); int (*f)(void) = h ? (int (*)(void))dlsym(h, "real") : 0; return f ? f() : 3; }' >o.c; echo 'int real(void) { return 0; }' | cc -shared -o libcuda.so.1 -Wl,-soname,libcuda.so.1 -xc -; mkdir -p drv; mv libcuda.so.1 drv; so cuda/stubs/libcuda.so libcuda.so.1; `

// mangled is a program whose run path is to be $ORIGIN/../lib.
func mangled(how, quoted string) situation {
	return situation{name: how + " in the run path", make: `so lib/libx.so libx.so; prog bin/p lib/libx.so; runpath set -q ` + quoted + ` bin/p`,
		works: `bin/p`, ask: "runpath audit bin/p", id: "mangled-entry", says: "$ORIGIN/../lib was probably meant"}
}

// leftover is a program whose run path has a directory of the build.
func leftover(dir string) situation {
	return situation{name: dir + " in the run path", make: `so lib/libx.so libx.so; prog p lib/libx.so -Wl,-rpath,` + dir,
		works: `./p`, ask: "runpath audit .", id: "build-directory-entry", says: dir}
}

var situations = []situation{
	// A library that is somewhere in the tree is not found for that.
	{name: "a wheel's extension does not find the libraries beside it",
		make:  `so pkg/pkg.libs/libfoo.so.1 libfoo.so.1; so pkg/_ext.so "" pkg/pkg.libs/libfoo.so.1`,
		works: `load pkg/_ext.so`, ask: "runpath audit .", id: "unresolved-library", says: "pkg/pkg.libs"},
	{name: "extensions need libraries of two directories beside, which need each other",
		make:  `so blas/libblas.so.3 libblas.so.3; so lapack/liblapack.so.3 liblapack.so.3 blas/libblas.so.3; so np/_umath.so "" lapack/liblapack.so.3 blas/libblas.so.3`,
		works: `load np/_umath.so`, ask: "runpath audit .", id: "unresolved-library", says: "blas"},
	{name: "a plugin needs a library that its program has loaded",
		make:  `so lib/libcore.so.1 libcore.so.1; prog app lib/libcore.so.1 -Wl,-rpath,'$ORIGIN/lib'; so plugins/p.so "" lib/libcore.so.1`,
		works: `./app plugins/p.so`, fine: true, ask: "runpath audit --strict .", id: "unresolved-library", says: "loaded before"},
	{name: "a plugin needs a library that only another plugin's run path leads to",
		make:  `so libs/libfoo.so.1 libfoo.so.1; so a.so "" libs/libfoo.so.1 -Wl,-rpath,'$ORIGIN/libs'; so b.so "" libs/libfoo.so.1`,
		works: `load ./b.so`, ask: "runpath audit --strict .", id: "unresolved-library", says: "loaded before"},
	{name: "a launcher opens the virtual machine by a path that it computes, then a library that needs it",
		make: `so vm/libvm.so libvm.so; so libj.so "" vm/libvm.so; echo '#include <dlfcn.h>
#include <stdio.h>
int main(void) { char b[99]; snprintf(b, 99, "%s/libvm.so", "./vm"); return !dlopen(b, RTLD_NOW) || !dlopen("./libj.so", RTLD_NOW); }' | cc -o launch -xc -`,
		works: `./launch`, fine: true, ask: "runpath audit --strict .", id: "unresolved-library", says: "libvm.so"},
	{name: "a program's library lies in a directory of its own",
		make:  `so lib/libfoo.so.1 libfoo.so.1; prog bin/app lib/libfoo.so.1`,
		works: `bin/app`, ask: "runpath audit .", id: "unresolved-library", says: "runpath add"},
	{name: "a plugin needs a library that is nowhere",
		make:  `so libfoo.so.1 libfoo.so.1; so p.so "" libfoo.so.1; mkdir found; mv libfoo.so.1 found; mv found ../found.$$; echo $$ >n`,
		works: `load ./p.so`, ask: "runpath audit p.so", id: "unresolved-library", says: "libfoo.so.1, which the file needs, is not found",
		hand: `mv ../found.$(cat n) found; runpath add $W/found p.so`},

	// A needed library that is named by a path is searched for nowhere.
	{name: "a program was linked with a library without a soname, by a path below the build directory",
		make:  `so build/libns.so ""; prog p build/libns.so`,
		works: `cd / && $W/p`, ask: "runpath audit .", id: "relative-needed", says: "runpath edit --replace-needed build/libns.so=libns.so"},
	{name: "the same, with a run path that leads to it",
		make:  `so build/libns.so ""; prog p build/libns.so -Wl,-rpath,'$ORIGIN/build'`,
		works: `cd / && $W/p`, ask: "noRunpathAmbiguity p", id: "relative-needed", says: "working directory"},
	{name: "a library was linked with ./ before the name",
		make:  `so libns.so ""; so pkg/liba.so "" ./libns.so; mv libns.so pkg`,
		works: `cd / && load $W/pkg/liba.so`, ask: "runpath audit .", id: "relative-needed", says: "no run path"},
	{name: "a program's library names a library by a relative path",
		make:  `so build/libns.so ""; so lib/liba.so.1 liba.so.1 build/libns.so; prog p lib/liba.so.1 -Wl,-rpath,'$ORIGIN/lib'; mv build/libns.so lib`,
		works: `./p`, ask: "runpath audit p", id: "unresolved-dependency", says: "runpath edit --replace-needed build/libns.so=libns.so", never: "runpath add $W"},
	{name: "a program names a library by an absolute path that is gone",
		make:  `so old/libns.so ""; prog p $W/old/libns.so; mv old lib`,
		works: `./p`, ask: "runpath audit .", id: "unresolved-library", says: "runpath edit --replace-needed"},
	{name: "a program names a library by an absolute path in the directory of its build",
		make:  `so lib/libns.so libns.so; prog p lib/libns.so; runpath edit --replace-needed libns.so=/build/source/libns.so p`,
		works: `./p`, ask: "runpath audit .", id: "build-directory-needed", says: "/build/source/libns.so"},
	{name: "noRunpathAmbiguity sees a library in a home directory that is named by its path",
		make:  `so lib/libns.so libns.so; prog p lib/libns.so -Wl,-rpath,'$ORIGIN/lib'; runpath edit --replace-needed libns.so=/home/ci/build/libns.so p`,
		works: `./p`, ask: "noRunpathAmbiguity p", id: "build-directory-needed", says: "no run path"},
	{name: "a program names its library relative to itself",
		make:  `so lib/libx.so libx.so; prog p lib/libx.so; runpath edit --replace-needed 'libx.so=$ORIGIN/lib/libx.so' p`,
		works: `cd / && $W/p`, fine: true, ask: "runpath audit --strict ."},
	{name: "a program names its library by its path, as nixpkgs does it",
		make:  `so lib/libx.so libx.so; prog p lib/libx.so; runpath edit --replace-needed libx.so=$W/lib/libx.so p`,
		works: `cd / && $W/p`, fine: true, ask: "runpath audit --strict ."},

	// The loader reads program headers.
	{name: "the section headers are cut off",
		make:  `so libx.so libx.so; prog p libx.so -Wl,-rpath,'$ORIGIN'; for f in p libx.so; do truncate -s $(readelf -h $f | awk '/Start of section headers/{print $5}') $f; done`,
		works: `./p`, fine: true, ask: "runpath audit --strict p libx.so"},
	{name: "e_ehsize, e_shentsize and the section count are nonsense",
		make:  `prog p; printf '\001\002' | dd of=p bs=1 seek=52 conv=notrunc 2>/dev/null; printf '\001\002\003\377' | dd of=p bs=1 seek=58 conv=notrunc 2>/dev/null`,
		works: `./p`, fine: true, ask: "runpath explain p"},

	// Trees of symbolic links to what is elsewhere, as symlinkJoin and buildEnv make them.
	{name: "the linked library does not find the one that is linked beside it",
		make:  `so store/b/lib/libb.so libb.so; so store/a/lib/liba.so liba.so store/b/lib/libb.so; mkdir -p env/lib; ln -s $W/store/*/lib/* env/lib`,
		works: `load env/lib/liba.so`, ask: "runpath audit env", id: "unresolved-library", says: "env/lib"},
	{name: "the linked library finds the one beside it by its $ORIGIN, which is where the link is",
		make:  `so store/b/lib/libb.so libb.so; so store/a/lib/liba.so liba.so store/b/lib/libb.so -Wl,-rpath,'$ORIGIN'; mkdir -p env/lib; ln -s $W/store/*/lib/* env/lib`,
		works: `load env/lib/liba.so`, fine: true, ask: "runpath audit --strict env"},
	{name: "the same library is linked into two directories, and finds its own in one",
		make:  `so store/b/lib/libb.so libb.so; so store/a/lib/liba.so liba.so store/b/lib/libb.so -Wl,-rpath,'$ORIGIN'; mkdir -p env/lib env/plugins; ln -s $W/store/*/lib/* env/lib; ln -s $W/store/a/lib/liba.so env/plugins`,
		works: `load env/lib/liba.so && load env/plugins/liba.so`, ask: "runpath audit env", id: "unresolved-library", says: "libb.so"},
	{name: "a linked program's $ORIGIN is where the program is",
		make:  `so store/b/lib/libb.so libb.so; prog store/app/bin/app store/b/lib/libb.so -Wl,-rpath,'$ORIGIN/../lib'; mkdir -p env/bin env/lib; ln -s $W/store/app/bin/app env/bin; ln -s $W/store/b/lib/libb.so env/lib`,
		works: `env/bin/app`, ask: "runpath audit env", id: "unresolved-library", says: "env/lib"},
	{name: "a directory is linked as a whole",
		make:  `so store/b/lib/libb.so libb.so; so store/a/lib/liba.so liba.so store/b/lib/libb.so; mkdir -p env; ln -s $W/store/a/lib env/lib`,
		works: `load env/lib/liba.so`, ask: "runpath audit env store/b", id: "unresolved-library", says: "store/b/lib"},
	{name: "there is no ELF file in the directory",
		make: `mkdir -p empty/bin; echo hello >empty/bin/readme`, works: `true`, fine: true, ask: "runpath audit empty", id: "nothing-checked", says: "no ELF file"},
	{name: "a linked tree with nothing wrong in it is not nothing",
		make: `prog store/app/bin/app; mkdir -p env; ln -s $W/store/app/bin env/bin`, works: `env/bin/app`, fine: true, ask: "runpath audit --strict env"},

	// A path that is given to dlopen is searched for nowhere either.
	{name: "a program opens the stub by its path",
		make:  openers + `cc -DNAME="\"$W/cuda/stubs/libcuda.so\"" o.c -o p`,
		works: `./p`, ask: "runpath audit --strict --driver-link $PWD/drv p", id: "stub-loaded", says: "open libcuda.so by its name", never: "autoAddDriverRunpath",
		hand: `cc -DNAME='"libcuda.so.1"' o.c -o p; autoAddDriverRunpath --driver-link $W/drv p`},
	{name: "explain says the same of it",
		make:  openers + `cc -DNAME="\"$W/cuda/stubs/libcuda.so\"" o.c -o p`,
		works: `./p`, ask: "runpath explain --driver-link $PWD/drv p", id: "stub", says: "open libcuda.so by its name", never: "autoAddDriverRunpath",
		hand: `cc -DNAME='"libcuda.so.1"' o.c -o p; autoAddDriverRunpath --driver-link $W/drv p`},
	{name: "a program opens the driver by a path of another distribution",
		make:  openers + `cc -DNAME='"/usr/lib/none/libcuda.so.1"' o.c -o p`,
		works: `./p`, ask: "runpath audit --strict --driver-link $PWD/drv p", id: "no-driver-link", says: "open libcuda.so.1 by its name",
		hand: `cc -DNAME='"libcuda.so.1"' o.c -o p; autoAddDriverRunpath --driver-link $W/drv p`},
	{name: "a program opens the driver by a path below its working directory",
		make:  openers + `cc -DNAME='"cuda/none/libcuda.so.1"' o.c -o p`,
		works: `./p`, ask: "runpath explain --driver-link $PWD/drv p", id: "nowhere", says: "open libcuda.so.1 by its name", never: "autoAddDriverRunpath",
		hand: `cc -DNAME='"libcuda.so.1"' o.c -o p; autoAddDriverRunpath --driver-link $W/drv p`},
	{name: "a program opens the driver by its name, and has a path as well",
		make:  openers + `sed -i 's|dlopen(NAME, RTLD_NOW)|dlopen("/usr/lib/none/libcuda.so.1", 1) ? : dlopen(NAME, 1)|' o.c; cc -fno-merge-constants -DNAME='"libcuda.so.1"' o.c -o p`,
		works: `./p`, ask: "runpath audit --strict --nix --driver-link $PWD/drv p", id: "no-driver-link", says: "autoAddDriverRunpath --driver-link"},

	// Entries that are not what was meant.
	mangled(`$O of make in $ORIGIN`, `'RIGIN/../lib'`),
	mangled(`a backslash before the dollar`, `'\$ORIGIN/../lib'`),
	mangled(`quotes around the entry`, `'"$ORIGIN/../lib"'`),
	mangled(`dyld's @loader_path`, `'@loader_path/../lib'`),
	mangled(`a semicolon between entries`, `'$ORIGIN/nothing;$ORIGIN/../lib'`),
	mangled(`a trailing blank`, `'$ORIGIN/../lib '`),
	mangled(`two dollars`, `'$$ORIGIN/../lib'`),
	mangled(`make's parentheses`, `'$(ORIGIN)/../lib'`),
	mangled(`braces without a dollar`, `'{ORIGIN}/../lib'`),
	{name: "a home directory as a shell writes it",
		make:  `so lib/libx.so libx.so; prog bin/p lib/libx.so -Wl,-rpath,'~/lib'`,
		works: `bin/p`, ask: "runpath audit .", id: "mangled-entry", says: "~/lib"},
	leftover("/root/project/lib"),
	leftover("/workspace/build/lib"),
	leftover("/github/workspace/lib"),
	leftover("/var/lib/jenkins/jobs/a/lib"),
	leftover("/home/ci/lib"),

	// What has the name is not what is needed.
	{name: "the library in the run path is for another machine",
		make:  `so right/libx.so libx.so; so wrong/libx.so libx.so; prog p right/libx.so -Wl,-rpath,'$ORIGIN/wrong'; printf '\267\0' | dd of=wrong/libx.so bs=1 seek=18 conv=notrunc 2>/dev/null; mkdir t; mv wrong p t`,
		works: `t/p`, ask: "runpath audit t", id: "unresolved-library", says: "for another machine", never: "runpath add $W/t/wrong",
		hand: `runpath add $W/right t/p`},
	{name: "the same, with the right one in the audit",
		make:  `so right/libx.so libx.so; so wrong/libx.so libx.so; prog p right/libx.so -Wl,-rpath,'$ORIGIN/wrong'; printf '\267\0' | dd of=wrong/libx.so bs=1 seek=18 conv=notrunc 2>/dev/null`,
		works: `./p`, ask: "runpath audit .", id: "unresolved-library", says: "right"},
	{name: "the file of a library has another name than its soname",
		make:  `so lib/libreal.so libfoo.so.1; prog p lib/libreal.so`,
		works: `./p`, ask: "runpath audit .", id: "unresolved-library", says: "ln -s libreal.so"},
	{name: "a dependency of a program with DT_RPATH is missing",
		make:  `so lib/libb.so libb.so; so lib2/liba.so liba.so lib/libb.so; prog p lib2/liba.so -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib2'`,
		works: `./p`, ask: "runpath audit .", id: "unresolved-dependency", says: "lib ./p", never: "DT_RUNPATH"},
	{name: "the same, where the library has a DT_RUNPATH",
		make:  `so lib/libb.so libb.so; so lib2/liba.so liba.so lib/libb.so -Wl,-rpath,/none; prog p lib2/liba.so -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib2:$ORIGIN/lib'`,
		works: `./p`, ask: "runpath audit .", id: "unresolved-dependency", says: "it has a DT_RUNPATH, so the program's DT_RPATH is not searched"},
	{name: "a library that was built against musl is loaded by glibc, which finds a linker script",
		make:  `command -v musl-gcc >/dev/null || exit 9; echo 'int g(void) { return 0; }' >g.c; musl-gcc -shared -fPIC -o lib/libg.so g.c 2>/dev/null || { mkdir lib; musl-gcc -shared -fPIC -o lib/libg.so g.c; }; prog p lib/libg.so -Wl,-rpath,'$ORIGIN/lib'`,
		works: `./p`, ask: "runpath audit p", id: "libc-mismatch", says: "musl's C library", hand: `cc -shared -fPIC -o lib/libg.so g.c`},
	{name: "a library of Alpine is loaded by glibc",
		make:  `so libc.musl-x86_64.so.1 libc.musl-x86_64.so.1; so lib/libg.so libg.so libc.musl-x86_64.so.1; rm libc.musl-x86_64.so.1; prog p lib/libg.so -Wl,-rpath,'$ORIGIN/lib',--allow-shlib-undefined`,
		works: `./p`, ask: "runpath audit p", id: "libc-mismatch", says: "musl's C library", hand: `so lib/libg.so libg.so`},
	{name: "a linker script lies where a library is looked for",
		make:  `so lib/libx.so libx.so; prog p lib/libx.so -Wl,-rpath,'$ORIGIN/lib'; mv lib/libx.so lib/libx.so.1; echo 'INPUT(libx.so.1)' >lib/libx.so`,
		works: `./p`, ask: "runpath audit p", id: "load-error", says: "text for the linker", hand: `ln -sf libx.so.1 lib/libx.so`},
	{name: "two libraries name each other by DT_AUXILIARY, and the loader crashes",
		make:  `so libb.so libb.so; so liba.so liba.so -Wl,-f,libb.so,-rpath,'$ORIGIN'; so libb.so libb.so -Wl,-f,liba.so,-rpath,'$ORIGIN'; prog p liba.so -Wl,-rpath,'$ORIGIN'`,
		works: `./p`, ask: "runpath audit .", id: "load-error", says: "DT_AUXILIARY", hand: `so libb.so libb.so`},
}

// inform is what one element of a JSON document says is wrong.
type inform struct {
	id, severity, text string
	remedy.Remedy
}

// informs collects what the findings, verdicts and facts of a document say, in its order.
func informs(v any) (all []inform) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			all = append(all, informs(e)...)
		}
	case map[string]any:
		text := func(keys ...string) string {
			for _, k := range keys {
				if s, ok := v[k].(string); ok {
					return s
				}
			}
			return ""
		}
		if message := text("message", "text"); message != "" {
			i := inform{id: text("id", "origin", "subject"), severity: text("severity", "verdict"), text: message}
			i.Fix, i.Advice = text("fix"), text("advice")
			if argv, ok := v["command"].([]any); ok {
				for _, a := range argv {
					i.Command = append(i.Command, a.(string))
				}
			}
			if good, ok := v["good"].(bool); ok && !good || i.severity == "bad" {
				i.severity = "error"
			}
			return append(all, i)
		}
		for _, key := range []string{"files", "findings", "facts", "driver"} {
			all = append(all, informs(v[key])...)
		}
	}
	return all
}

func TestSituations(t *testing.T) {
	long(t)
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip(err)
	}
	bin := t.TempDir()
	source, object := filepath.Join(bin, "load.c"), filepath.Join(bin, "load.o")
	os.WriteFile(source, []byte(loaderProgram), 0o644)
	if err := errors.Join(compile(object, "-c", source), compile(filepath.Join(bin, "load"), object)); err != nil {
		t.Fatal(err)
	}
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			dir, _ := filepath.EvalSymlinks(t.TempDir())
			t.Chdir(dir)
			sh := func(script string) (string, error) {
				cmd := exec.Command("sh", "-c", prelude+script)
				cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":"+bin, "LOADER="+object, "LC_ALL=C")
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := sh(s.make); err != nil && err.(*exec.ExitError).ExitCode() == 9 {
				t.Skip("no musl-gcc")
			} else if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := sh(s.works)
			if (err == nil) != s.fine {
				t.Fatalf("before: %v: %s", err, out)
			}
			look := func() (all []inform) {
				answer := onlyStdout(append(strings.Fields(strings.ReplaceAll(s.ask, "$PWD", dir)), "--json")...)
				var doc any
				if err := json.Unmarshal(answer, &doc); err != nil {
					t.Fatalf("%s: %v: %s", s.ask, err, answer)
				}
				return informs(doc)
			}
			found := false
			for round := range 6 {
				all := look()
				var worst *inform
				for i := range all {
					f := &all[i]
					found = found || f.id == s.id && strings.Contains(f.text+"\n"+f.Whole(), s.says)
					if s.never != "" && strings.Contains(f.Whole(), s.never) {
						t.Errorf("%s: %s", f.text, f.Whole())
					}
					if f.severity == "error" && worst == nil {
						worst = f
					}
				}
				if !found && s.id != "" {
					t.Fatalf("nothing says %q of %s: %+v", s.says, s.id, all)
				}
				switch {
				case worst != nil && s.fine:
					t.Fatalf("it works, but: %+v", *worst)
				case worst == nil && round == 0 && !s.fine:
					t.Fatalf("it does not work, but no error is found: %+v", all)
				case worst == nil:
					if out, err := sh(s.works); err != nil {
						t.Errorf("after: %v: %s", err, out)
					}
					return
				case worst.Command != nil:
					line := remedy.Quote(worst.Command...)
					t.Logf("%s: %s", worst.text, line)
					if worst.Fix != line {
						t.Fatalf("printed is %q, but the command is %q", worst.Fix, line)
					}
					if out, status := combined(worst.Command...); status != 0 {
						t.Fatalf("%s: status %d: %s", line, status, out)
					}
				case s.hand == "":
					t.Fatalf("no command to follow: %+v", *worst)
				default:
					if out, err := sh(s.hand); err != nil {
						t.Fatalf("%s: %v: %s", s.hand, err, out)
					}
				}
			}
			t.Errorf("there is no end of remedies: %+v", look())
		})
	}
}
