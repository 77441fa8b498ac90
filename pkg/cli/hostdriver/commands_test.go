package hostdriver

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cuda-runpath/tests/tinyelf"
)

// What each command prints, and its status: 0 done, 1 something is wrong, 2 the command line is.
func TestCommands(t *testing.T) {
	tree, empty, linked := hostTree(t), t.TempDir(), t.TempDir()
	if err := errors.Join(os.MkdirAll(linked+"/run", 0o755), os.Symlink("/opt/driver", linked+"/run/opengl-driver")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(tree, "usr/lib64/libcuda.so.99"), "")
	write(t, filepath.Join(linked, "lib.so"), string(tinyelf.Object{}.Needs("libcuda.so.1").Bytes()))
	write(t, filepath.Join(tree, "program"), string(tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Bytes()))
	for _, c := range []struct {
		args   string // TREE, EMPTY, LINKED: these trees
		status int
		prints string // a regular expression
	}{
		{"find --root TREE", 0, `^x86_64 driver 535\.1\.2 in /usr/lib64 \(.*\)\n  libcuda\.so\.1 +cuda +/usr/lib64/libcuda\.so\.535\.1\.2\n  libnvidia-ml\.so\.1 (.*\n)+$`},
		{"find --root TREE --verbose", 0, `hostDriver: /usr/lib64/libcuda\.so\.99: not used: an empty file`},
		{"find --root TREE --json", 0, `"error": null`},
		{"find --root EMPTY", 1, `^hostDriver: no NVIDIA driver found: no libcuda\.so\.1 for x86_64 in the loader's cache or any of \d+ known places; --from DIR names another\n$`},
		{"find --root EMPTY --json", 1, `"error": "no NVIDIA driver found`},
		{"find --root TREE --machine i386", 1, `no libcuda\.so\.1 for i386`},
		{"find --root TREE --from /opt", 1, `no libcuda\.so\.1`},
		{"find --root TREE --from opt", 2, `--from "opt": not an absolute path`},
		{"find --root TREE --machine vax", 2, `there is no driver for the machine "vax"`},
		{"find --root /no/such", 1, `no such file or directory`},
		{"find --root TREE/program", 2, `not a directory`},
		{"find more", 2, `find takes no arguments: "more"`},
		{"install --root TREE --prefix lib", 2, `--prefix "lib": an absolute path is needed`},
		{"install --root TREE --prefix //", 2, `--prefix "//": an absolute path is needed`},
		{"install --root TREE --dry-run", 0, `/run/opengl-driver/lib: would be made \(x86_64 driver 535\.1\.2, 9 names\)\n`},
		{"install --root TREE --dry-run --links", 0, `/run/opengl-driver/lib/libcuda\.so -> /usr/lib64/libcuda\.so\.1\n`},
		{"install --root TREE --dry-run --copy", 0, `/run/opengl-driver/lib/libcuda\.so\.535\.1\.2 a copy of .*/usr/lib64/libcuda\.so\.535\.1\.2 with run path \$ORIGIN\n`},
		{"install --root TREE --json --compat /opt/none", 1, `^\{\n.*"dry_run": false(.*\n)+hostDriver: no compat package in /opt/none: libcuda\.so\.1: no such file or directory\n$`},
		{"install --root TREE", 0, `unchanged`},
		{"install --root TREE --quiet", 0, `^$`},
		{"install --root EMPTY", 1, `no NVIDIA driver found`},
		{"doctor --root TREE", 1, `BAD   device nodes +there is no GPU`},
		{"doctor --root EMPTY", 1, `driver link .*\n +-> once the host has a driver: (sudo )?\S+ install, or start programs with`},
		{"doctor --root LINKED", 1, `driver link .*\n +-> .*remove /run/opengl-driver, a link to /opt/driver, if nothing else needs it, then (sudo )?\S+ install`},
		{"doctor --root LINKED /lib.so", 1, `\nBAD   libcuda\.so\.1 .*\n( .*\n)* +-> once the host has a driver: hostDriver run PROGRAM; or for good`},
		{"doctor --root TREE --json", 1, `"works": false`},
		{"doctor --root TREE a b", 2, `one program at a time: "b"`},
		{"uninstall --root TREE --dry-run", 0, `/run/opengl-driver/lib: would be removed`},
		{"uninstall --root TREE", 0, `/run/opengl-driver/lib: removed`},
		{"uninstall --root TREE", 0, `^nothing is installed there\n$`},
		{"tmpfiles --root TREE --program /p --dry-run", 0, `^# /etc/tmpfiles\.d/hostDriver\.conf\n# Made by(.*\n)+L /run/opengl-driver - - - - \.\./var/lib/hostDriver/opengl-driver\n(.*\n)+# /etc/systemd/system/hostDriver\.path\n`},
		{"tmpfiles --root TREE --part path", 0, `^# Made by: .*\n\[Unit\]\n(.*\n)+PathChanged=/etc/ld\.so\.cache\n`},
		{"tmpfiles --root TREE --part more", 2, `--part "more": tmpfiles, service or path`},
		{"tmpfiles --root TREE --prefix /usr/x --part tmpfiles", 2, `programs see the directory of the libraries itself`},
		{"tmpfiles --root TREE --part tmpfiles --write EMPTY", 2, `--part prints a file`},
		{"tmpfiles --root TREE --copy --links --program /p", 2, `two ways`},
		{"tmpfiles --root TREE --beside --links --program /p", 2, `need copies`},
		{"tmpfiles --root TREE --links --state-dir /srv/x --from /usr/lib64 --program /p --part service", 0, `\nExecStart=/p install --links --state-dir /srv/x --from /usr/lib64\n`},
		{"tmpfiles --root TREE --state-dir x", 2, `an absolute path is needed`},
		{"tmpfiles --root TREE --compat opt/compat", 2, `--compat "opt/compat": an absolute path is needed`},
		{"tmpfiles --root TREE --compat /opt/compat --program /p --part service", 0, `\nExecStart=/p install --compat /opt/compat\n`},
		{"tmpfiles --root TREE --json --dry-run", 0, `"path": "/etc/systemd/system/hostDriver\.path"`},
		{"tmpfiles --root TREE --write EMPTY", 0, `^EMPTY/etc/tmpfiles\.d/hostDriver\.conf: written\nEMPTY/usr/local/libexec/hostDriver: written\n(EMPTY/etc/.*hostDriver\.(service|path): written\n){4}$`},
		{"tmpfiles --root TREE --write EMPTY", 0, `^(EMPTY/(etc|usr)/.*: unchanged\n){6}$`},
		{"tmpfiles --root TREE --write EMPTY/x --dry-run --program /p", 0, `^# /etc/tmpfiles\.d/hostDriver\.conf\n(.*\n)+# .*basic\.target\.wants/hostDriver\.service: a link to /etc`},
		{"run --root TREE", 2, `no program is given`},
		{"run --root TREE --method other -- true", 2, `--method "other": auto, namespace or library-path`},
		{"run --root TREE --compat nowhere -- true", 2, `--compat nowhere: a compat directory is needed`},
		{"run --root TREE --cache EMPTY/cache --method library-path -- /no/such", 1, `^$`}, // which Main says, with status 127
		{"run --root EMPTY --cache EMPTY/cache -- true", 1, `no NVIDIA driver found`},
		{"sandbox a b c", 2, `a derivation is needed`},
		{"sandbox --configure more", 2, `sandbox takes no arguments`},
		{"sandbox --root EMPTY --conf x", 2, `an absolute path is needed`},
		{"sandbox --root EMPTY --conf /x/nix.conf --program /p --dry-run", 0, `^# /x/hostDriver-sandbox, mode 755\n#!/bin/sh\n(.*\n)+# /x/nix\.conf\n(.*\n)+extra-system-features = cuda gpu nvidia-gpu opengl\n`},
	} {
		var args []string
		replace := strings.NewReplacer("TREE", tree, "EMPTY", empty, "LINKED", linked)
		for _, arg := range strings.Fields(c.args) {
			args = append(args, replace.Replace(arg))
		}
		status, said := runs(args...)
		if status != c.status || !regexp.MustCompile(replace.Replace(c.prints)).MatchString(said) {
			t.Errorf("%s: status %d, %q", c.args, status, said)
		}
		if start := strings.IndexByte(said, '{'); strings.Contains(c.args, "--json") {
			var document struct{ Version int }
			if err := json.NewDecoder(strings.NewReader(said[max(start, 0):])).Decode(&document); err != nil || document.Version != 2 {
				t.Errorf("%s: %v, version %d", c.args, err, document.Version)
			}
		}
	}
}

// The links of an image are followed as that system would follow them, and nothing is written through one in the file's place.
func TestBootFilesOfAnImage(t *testing.T) {
	tree := hostTree(t)
	for name, c := range map[string]struct {
		links  map[string]string
		status int
		says   string
		unit   string // where the service is then
	}{
		"plain":                        {nil, 0, "hostDriver.service", "etc/systemd/system/hostDriver.service"},
		"a link inside":                {map[string]string{"etc/systemd": "/usr/lib/units"}, 0, "", "usr/lib/units/system/hostDriver.service"},
		"one that leads out, absolute": {map[string]string{"etc/systemd/system": "OUTSIDE"}, 1, "a link that leads nowhere", ""},
		"one that leads out, by ..":    {map[string]string{"etc/systemd/system": "../../../../../../../../../../usr/lib/units"}, 0, "", "usr/lib/units/hostDriver.service"},
		"one in the file's place":      {map[string]string{"etc/systemd/system/hostDriver.service": "/dev/null"}, 1, "is a link to /dev/null; hostDriver leaves it alone", ""},
	} {
		image, outside := t.TempDir(), t.TempDir()
		if err := os.MkdirAll(filepath.Join(image, "usr/lib/units"), 0o755); err != nil {
			t.Fatal(err)
		}
		for at, target := range c.links {
			at = filepath.Join(image, at)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(strings.ReplaceAll(target, "OUTSIDE", outside), at)); err != nil {
				t.Fatal(err)
			}
		}
		status, said := runs("tmpfiles", "--root", tree, "--write", image, "--program", "/p")
		if status != c.status || !strings.Contains(said, c.says) {
			t.Errorf("%s: status %d, %q", name, status, said)
		}
		if c.unit != "" && !strings.Contains(read(t, filepath.Join(image, c.unit)), "ExecStart=") {
			t.Errorf("%s: it is not in %s", name, c.unit)
		}
		if left, _ := os.ReadDir(outside); len(left) > 0 {
			t.Errorf("%s: written outside: %v", name, left)
		}
	}
}

// Arguments after the program's name are the program's.
func TestOwnArguments(t *testing.T) {
	for in, want := range map[string]string{
		"run prog -v": "run -- prog -v", "run -v prog --json": "run -v -- prog --json", "run --cache d prog -x": "run --cache d -- prog -x",
		"run --cache=d prog": "run --cache=d -- prog", "run -- prog": "run -- prog", "run": "run", "find run": "find run", "run -v": "run -v",
	} {
		if got := strings.Join(ownArguments(strings.Fields("hostDriver "+in)), " "); got != "hostDriver "+want {
			t.Errorf("%s: %s", in, got)
		}
	}
	if got := whole("sh"); !filepath.IsAbs(got) {
		t.Error(got)
	}
	if got := whole("no-such-program"); got != "no-such-program" {
		t.Error(got)
	}
}
