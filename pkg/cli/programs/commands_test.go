package programs_test

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/cli/ambiguity"
	"cuda-runpath/pkg/cli/autopatchelf"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/programs"
	"cuda-runpath/pkg/cli/urfave"
	"cuda-runpath/tests/tinyelf"
)

// What each command prints to stdout and stderr, and its status: 0 done, 1 something is wrong, 2 the command line is.
func TestCommands(t *testing.T) {
	if _, err := os.Stat("/lib64/ld-linux-x86-64.so.2"); err != nil {
		t.Skip("the files are for x86-64")
	}
	t.Chdir(t.TempDir())
	t.Setenv("NO_COLOR", "1")
	for name, text := range map[string]string{
		"bin/app":     string(tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs("liba.so", "libnone.so").With(elf.DT_RUNPATH, "$ORIGIN/../lib:/opt/stubs:").Bytes()),
		"lib/liba.so": string(tinyelf.Object{}.With(elf.DT_SONAME, "liba.so").Bytes()),
		"lib/libb.so": string(tinyelf.Object{}.Needs("liba.so").With(elf.DT_RPATH, "/build/x").Bytes()),
		"lib/cut.so":  string(tinyelf.Object{}.Bytes()[:100]),
		"lib/odd\xff": string(tinyelf.Object{}.Bytes()),
		"open.py":     "#!/bin/sh\nimport ctypes\nctypes.CDLL(\"libcuda.so.1\")\n",
		"text":        "see /nix/store/abcdfghijklmnpqrsvwxyz0123456789-x/lib\n",
	} {
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	programs := map[string]*command.Command{"runpath": programs.RunPath(), "autoPatchelf": autopatchelf.Command(), "noRunpathAmbiguity": ambiguity.Command()}
	for _, tool := range editors.Tools() {
		programs[tool.Name] = tool.Command()
	}
	for _, c := range []struct {
		line   string
		status int
		prints string // a regular expression
	}{
		{"runpath show bin", 0, `^bin/app\n  DT_RUNPATH   \$ORIGIN/\.\./lib\n  DT_RUNPATH   /opt/stubs\n  DT_RUNPATH   \(empty: the working directory\)\n  needed       liba\.so\n  needed       libnone\.so\n  interpreter  /lib64/ld-linux-x86-64\.so\.2\n$`},
		{"runpath show --json lib", 1, `^lib/cut\.so: program header table .*\n\{"version":2,"files":\[\n\{"path":"lib/cut\.so","action":"failed",(.*\n){3}\{"path":"lib/odd\\ufffd","path_base64":"bGliL29kZP8=",.*\n\],"summary":\{"edited":0,"unchanged":3,"skipped":0,"failed":1\}\}\n$`},
		{"runpath show -v .", 1, `\n\./text\n  skipped      not an ELF file\n$`},
		{"runpath show text", 0, `^text\n  skipped      not an ELF file\n$`},
		{"runpath show lib/no", 1, `^lib/no: no such file or directory\n$`},
		{"runpath show", 2, `^runpath: no file or directory is given \(see runpath show --help\)\n$`},
		{"runpath explain bin/app lib/liba.so", 1, `^/.*/bin/app  \(.*\)\n├── liba\.so → .*/bin/\.\./lib/liba\.so  DT_RUNPATH: \$ORIGIN/\.\./lib\n└── libnone\.so → not found\n        tried /.*/bin/\.\./lib/libnone\.so \(DT_RUNPATH\): does not exist\n(.*\n)+libnone\.so, which the file needs, is not found\n  fix: .*\nentry 2, /opt/stubs, is a stub directory\n(.*\n)+\n/.*/lib/liba\.so  \(.*\)\nthe file asks for an executable stack .*\n  fix: .*\n$`},
		{"runpath explain -q --json bin/app lib/libb.so", 1, `^\{"version":2,"files":\[\n\{"path":"bin/app","action":"unchanged","tag":"DT_RUNPATH","before":\["\$ORIGIN/\.\./lib","/opt/stubs",""\],"after":\["\$ORIGIN/\.\./lib","/opt/stubs",""\],.*"missing":1,.*\n\{"path":"lib/libb\.so",.*"rule":"not found",.*\n\],"summary":\{"files":2,"failed":0,"missing":2\}\}\n$`},
		{"runpath explain --lib liba.so --all bin/app", 1, `\)\n└── liba\.so → [^\n]*\n$`},
		{"runpath explain --dot bin/app", 1, `^digraph load \{\n(.*\n)+  "not found: libnone\.so" \[label="libnone\.so\\nnot found", fillcolor=mistyrose\];\n\}\n$`},
		{"runpath explain --unused bin/app", 1, `^bin/app: cannot find out what of it is unused: a library is missing\n`},
		{"runpath explain --unused --dot bin/app", 2, `cannot be combined with --dot or --lib`},
		{"runpath explain --env LD_DEBUG=1 bin/app", 2, `--env LD_DEBUG=1: only LD_LIBRARY_PATH, LD_PRELOAD, LD_AUDIT, LD_BIND_NOW, LD_HWCAP_MASK, GLIBC_TUNABLES, NIX_LD and NIX_LD_LIBRARY_PATH are understood`},
		{"runpath explain --cpu z80 bin/app", 2, `--cpu "z80": native, baseline, .* or z17 \(see runpath explain --help\)`},
		{"runpath explain open.py", 1, `^open\.py: not an ELF file but a script: see runpath explain /bin/sh; for calls that open the driver by name, runpath scripts open\.py\n$`},
		{"runpath audit .", 1, `\./bin/app: error: libnone\.so, which the file needs, is not found\. fix: .* \[unresolved-library\]\n(.*\n)*4 executable-stack, 1 stub-entry, .*\n5 files checked, 1 skipped: 5 errors, 4 warnings, 2 notes \(-v\); 1 file could not be examined\n$`},
		{"runpath audit -q --json bin", 1, `^\{"version":2,"files":\[\n.*"id":"stub-entry".*\n\],"summary":\{"checked":1,"skipped":0,"failed":0,"errors":\d+,`},
		{"runpath audit --baseline b --update-baseline .", 0, `^6 files checked, 1 skipped: 0 errors, 0 warnings, \d+ accepted by the baseline\nb: \d+ accepted findings\n$`},
		{"runpath audit --baseline b --sarif s --html h .", 0, `^6 files checked, 2 skipped: 0 errors, 0 warnings, \d+ accepted by the baseline\n$`},
		{"runpath audit --update-baseline .", 2, `--update-baseline needs --baseline FILE`},
		{"runpath audit --list-findings", 0, `\nstub-entry             error    stub directory in the run path\n`},
		{"runpath audit --explain stub-entry", 0, `^stub-entry \(error\): stub directory in the run path\n.+\n$`},
		{"runpath audit --ignore-finding none .", 2, `--ignore-finding none: there is no such finding \(--list-findings lists them\)`},
		{"runpath audit --sarif - --html - .", 2, `stdout takes one document`},
		{"noRunpathAmbiguity bin lib/liba.so", 1, `^bin/app: error: entry 2, /opt/stubs, is a stub directory \[stub-entry\]; fix:\n    stubReplace bin/app\nbin/app: error: entry 3 .*\[empty-entry\]; fix:\n    runpath normalize bin/app\n    # if .*\n2 files checked, 0 skipped: 2 errors, 0 warnings\n$`},
		{"runpath audit --nix bin", 1, `is a stub directory.*\. fix: add stubReplace to nativeBuildInputs`},
		{"noRunpathAmbiguity --nix bin", 1, `is a stub directory\. fix: add stubReplace to nativeBuildInputs`},
		{"noRunpathAmbiguity --stub [ bin", 2, `--stub: "\[" is not a valid pattern`},
		{"runpath gpu .", 1, `^\./lib/cut\.so: program .*\n0 files with GPU code, 0 containers, 0\.0 kB; 1 could not be read\n$`},
		{"runpath gpu --cuda 12.0 .", 2, `--cuda is for --for`},
		{"runpath gpu --for 9.0 --malformed warn .", 0, `^\./lib/cut\.so: warning: skipped: program .*\n0 files with GPU code, 0 containers, 0\.0 kB\n$`},
		{"runpath thin --for 9.0 bin/app", 0, `^bin/app: skipped: no GPU code\n0 edited, 0 unchanged, 1 skipped, 0 failed: removed 0 of 0 cubins and PTX`},
		{"runpath thin --for 9.9 bin/app", 2, `^runpath: --for 9\.9: no GPU with this number is known here, and no file has code for it: `},
		{"runpath thin --nix --for 9.9 bin/app", 0, `^warning: --for 9\.9: no GPU with this number is known here; the general rule is applied to it\. Did you mean 8\.9 or 9\.0\?\nbin/app: skipped: no GPU code\n`},
		{"runpath gpu --for 9.9 bin", 0, `^warning: --for 9\.9: no GPU with this number is known here; `},
		{"runpath thin --keep-ptx bin", 2, `--for LIST is required, or --blank-options`},
		{"runpath references text", 0, `^/nix/store/abcdfghijklmnpqrsvwxyz0123456789-x\n  text: other: /nix/store/abcdfghijklmnpqrsvwxyz0123456789-x/lib\n1 store path named in 1 file\n$`},
		{"runpath references --to /tmp text", 2, `--to /tmp: not a store path`},
		{"runpath scripts .", 0, `^\./open\.py: 3: opens libcuda\.so\.1 by name: ctypes\.CDLL\("libcuda\.so\.1"\)\n1 script searched: 1 place, 0 not fixable\n$`},
		{"runpath scripts --substitute .", 0, `^substituteInPlace \./open\.py --replace-fail '"libcuda\.so\.1"' `},
		{"runpath scripts --fix .", 0, `\n1 script searched: 1 place, 0 not fixable; 1 file edited\n$`},
		{"runpath scripts --fix --substitute .", 2, `exclude each other`},
		{"stubReplace --dry-run bin", 0, `^bin/app: \$ORIGIN/\.\./lib:/opt/stubs: -> /run/opengl-driver/lib:\$ORIGIN/\.\./lib \(removed stub directory /opt/stubs; dropped 1 empty entry, .*\)\n1 would be edited, 0 unchanged, 0 skipped, 0 failed\n$`},
		{"stubReplace --offer= bin", 2, `--offer: no directory is given`},
		{"runpath normalize --when needed bin", 2, `--when is for autoAddDriverRunpath: give --tool autoAddDriverRunpath too`},
		{"runpath normalize --tool stubReplace --when needed bin", 2, `--when is for autoAddDriverRunpath`},
		{"runpath normalize --tool none bin", 2, `--tool "none": stubReplace, autoAddDriverRunpath or addCudaCompatRunpath`},
		{"runpath normalize --opened bin", 2, `--opened and --libs DIR go together`},
		{"runpath normalize --dry-run bin", 0, `^bin/app: .* -> \$ORIGIN/\.\./lib:/opt/stubs \(dropped 1 empty entry, `},
		{"autoAddDriverRunpath --dry-run --when needed bin", 0, `^0 would be edited, 0 unchanged, 1 skipped, 0 failed\n$`},
		{"autoAddDriverRunpath --dry-run --position last bin", 0, `^bin/app: .* -> \$ORIGIN/\.\./lib:/opt/stubs:/run/opengl-driver/lib \(`},
		{"runpath normalize --tool stubReplace --tool autoAddDriverRunpath bin", 0, `^bin/app: .* -> /run/opengl-driver/lib:\$ORIGIN/\.\./lib \(.*\)\n1 edited, 0 unchanged, 0 skipped, 0 failed\n$`},
		{"autoAddDriverRunpath -v bin", 0, `^bin/app: unchanged\n0 edited, 1 unchanged, 0 skipped, 0 failed\n$`},
		{"runpath gpu --for 9.0 --strict --warn bin", 2, `--strict makes warnings errors, and --warn errors warnings`},
		{"addCudaCompatRunpath bin", 2, `--compat DIR is required`},
		{"addCudaCompatRunpath --position middle --compat /c bin", 2, `--position "middle": first or last`},
		{"addCudaCompatRunpath --compat c bin", 2, `--compat: "c" is relative: the loader would search it below the working directory`},
		{"addCudaCompatRunpath --compat /run/opengl-driver/lib bin", 2, `--compat /run/opengl-driver/lib is the driver link`},
		{"addCudaCompatRunpath --compat /c --json bin", 0, `"before":\["/run/opengl-driver/lib","\$ORIGIN/\.\./lib"\],"after":\["/c","/run/opengl-driver/lib","\$ORIGIN/\.\./lib"\]\}\n\],"summary":\{"edited":1,`},
		{"runpath set /a:/b bin", 0, `^bin/app: /c:.* -> /a:/b\n`},
		{"stubReplace --dry-run --stub a bin", 0, `^bin/app: /a:/b -> /run/opengl-driver/lib:/b \(removed stub directory /a\)\n`},
		{"runpath set bin/app /a", 2, `"bin/app" is a file: set LIST PATH\.\.\. is the order`},
		{"runpath add --first /c bin", 0, `^bin/app: /a:/b -> /c:/a:/b\n`},
		{"runpath add /a bin", 0, `^0 edited, 1 unchanged`},
		{"runpath remove /a bin", 0, `^bin/app: /c:/a:/b -> /c:/b\n`},
		{"runpath remove --all --dedupe bin", 2, `--dedupe applies to the entries that stay, and with --all none does`},
		{"runpath shrink --keep /c bin", 0, `^bin/app: /c:/b -> /c \(removed /b, which nothing uses\)\n`},
		{"runpath edit --replace-needed liba.so=libb.so bin", 0, `^bin/app: needed liba\.so libnone\.so -> libb\.so libnone\.so\n1 edited, `},
		{"runpath edit --first --add-needed liba.so bin", 0, `^bin/app: needed libb\.so libnone\.so -> liba\.so libb\.so libnone\.so\n`},
		{"runpath edit --soname libq.so lib/liba.so", 0, `^lib/liba\.so: soname liba\.so -> libq\.so\n`},
		{"runpath edit --clear-execstack bin", 0, `^bin/app: execstack \(none\) -> not executable\n`},
		{"runpath edit --add-needed libz.so --remove-needed libb.so --add-entry /z bin", 0, `^bin/app: needed liba\.so libb\.so libnone\.so -> liba\.so libnone\.so libz\.so; runpath /c -> /c /z\n`},
		{"runpath edit --first bin", 2, `--first applies only to --add-needed`},
		{"runpath edit bin", 2, `no change is given`},
		{"runpath cache write --dry-run bin", 0, `^bin/app: resolution note written\n`},
		{"autoPatchelf --libs= bin", 2, `--libs: no directory is given`},
		{"autoPatchelf --enforce-priority high bin", 2, `--enforce-priority "high": suggested, recommended or required`},
		{"autoPatchelf --when needed bin", 2, `--when is for a --tool: name the tool too`},
		{"autoPatchelf --force bin", 2, `--force is for --undo`},
		{"autoPatchelf --json --structured-logs bin", 2, `both print to stdout`},
		{"autoPatchelf --dry-run bin lib", 1, `\nlibnone\.so is missing, which bin/app needs\n  fix: --libs DIR, .*\n2 would be edited, 2 unchanged, 1 skipped, 0 failed, 1 library missing\n$`},
		{"autoPatchelf -v --ignore-missing lib[nz]* --tool autoAddDriverRunpath bin lib", 0, `^bin/app: libnone\.so is missing and ignored .*\nbin/app: /c:/z -> /run/opengl-driver/lib:.*\n(.*\n)+"lib/odd\\xff": \(no run path\) -> /run/opengl-driver/lib\n4 edited, 0 unchanged, 1 skipped, 0 failed\n$`},
		{"autoPatchelf --undo bin", 0, `/bin/app: .* -> /c:/z\n1 edited, 0 unchanged, 0 skipped, 0 failed\n$`},
		{"autoPatchelf --paths bin --structured-logs --ignore-missing *", 0, `\{"IgnoredDependency":\{"file":"bin/app","name":"libnone\.so","pattern":"\*"\}\}\n`}} {
		words := strings.Fields(c.line)
		var said bytes.Buffer
		status := urfave.Run(programs[words[0]], slices.Clone(words), &said, &said)
		if status != c.status || !regexp.MustCompile(c.prints).Match(said.Bytes()) {
			t.Errorf("%s: status %d\n%s", c.line, status, said.Bytes())
		}
	}
}

// Of two run paths audit --fix leaves the one that the loader heeds, which --undo brings back.
func TestFixOfTwoRunPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("NO_COLOR", "1")
	for name, list := range map[string]string{"stubs.so": "/opt/stubs", "alone.so": "/opt/lib"} {
		file := tinyelf.Object{}.With(elf.DT_RUNPATH, list).With(elf.DT_RPATH, "/opt/other").Bytes()
		if err := os.WriteFile(name, file, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(app *command.Command, line string, says ...string) string {
		t.Helper()
		var said bytes.Buffer
		urfave.Run(app, strings.Fields(line), &said, &said)
		for _, want := range says {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: not said: %s\n%s", line, want, said.Bytes())
			}
		}
		return said.String()
	}
	const lost = `DT_RPATH "/opt/other" is lost; the loader ignored it, because the file also has a DT_RUNPATH`
	run(programs.RunPath(), "runpath audit --fix .", "stubs.so: /opt/stubs -> /run/opengl-driver/lib ("+lost, "alone.so: /opt/lib -> /opt/lib ("+lost)
	run(programs.RunPath(), "runpath audit --fix .", "0 errors")
	run(autopatchelf.Command(), "autoPatchelf --undo .", "stubs.so: /run/opengl-driver/lib -> /opt/stubs")
	run(programs.RunPath(), "runpath show stubs.so", "DT_RUNPATH   /opt/stubs")
	if said := run(programs.RunPath(), "runpath show alone.so stubs.so"); strings.Contains(said, "DT_RPATH") {
		t.Errorf("there is a DT_RPATH: %s", said)
	}
}

// Of files in a store, which nobody may edit, it is said what the package's author writes; of others, the command. It is
// where they are that counts, however they are named.
func TestFixOfFilesInAStore(t *testing.T) {
	if _, err := os.Stat("/lib64/ld-linux-x86-64.so.2"); err != nil {
		t.Skip("the files are for x86-64")
	}
	t.Chdir(t.TempDir())
	t.Setenv("NO_COLOR", "1")
	const object = "store/abcdfghijklmnpqrsvwxyz0123456789-x"
	for _, name := range []string{"local/a", "local/b", object + "/a", object + "/b"} {
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, tinyelf.Object{}.With(elf.DT_RUNPATH, "/opt/stubs").Bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink(object, "result")
	os.MkdirAll(object+"2", 0o755)
	os.Symlink("../../local/b", object+"2/to-local")
	here, _ := os.Getwd()
	programs := map[string]*command.Command{"audit": programs.RunPath(), "noRunpathAmbiguity": ambiguity.Command()}
	const words, run = "fix: for today, edit a copy; for good, add stubReplace to nativeBuildInputs", "    stubReplace "
	for _, c := range []struct {
		dir, line string
		want      []string // what is said, beside the files and the finding
	}{
		{"", "audit result/", []string{words}},
		{"", "audit result/a", []string{words}},
		{object, "audit a", []string{words}},
		{"", "audit local", []string{run + "local/a local/b"}},
		{"", "audit local result", []string{run + "local/a local/b", words}},
		{"", "audit result local", []string{words, run + "local/a local/b"}},
		{"", "audit " + object + "2", []string{run + here + "/local/b"}},
		{"", "noRunpathAmbiguity result/a local/a", []string{words, run + "local/a"}},
		{object, "noRunpathAmbiguity a", []string{words}},
	} {
		t.Run(c.dir+" "+c.line, func(t *testing.T) {
			t.Chdir("./" + c.dir)
			argv := strings.Fields(c.line)
			program := programs[argv[0]]
			if argv[0] == "audit" {
				argv = append([]string{"runpath"}, argv...)
			}
			var said bytes.Buffer
			urfave.Run(program, argv, &said, &said)
			if got := regexp.MustCompile(`fix: for today, edit a copy; for good, add stubReplace to nativeBuildInputs|(?m)^    stubReplace .*$`).FindAllString(said.String(), -1); !slices.Equal(got, c.want) {
				t.Errorf("%q, not %q:\n%s", got, c.want, said.Bytes())
			}
		})
	}
}
