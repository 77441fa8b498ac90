package wrapper

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What bash does with a script is what Wrapped says: which program it starts, with which variables.
func TestWrapped(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	// prefix and suffix are the lines of nixpkgs' make-wrapper.sh, addValue.
	prefix := func(name, value string) string {
		return fmt.Sprintf("%[1]s=${%[1]s:+':'$%[1]s':'}\n%[1]s=${%[1]s/':''%[2]s'':'/':'}\n%[1]s='%[2]s'$%[1]s\n%[1]s=${%[1]s#':'}\n%[1]s=${%[1]s%%':'}\nexport %[1]s\n", name, value)
	}
	suffix := func(name, value string) string {
		return fmt.Sprintf("%[1]s=${%[1]s:+':'$%[1]s':'}\nif [[ $%[1]s != *':''%[2]s'':'* ]]; then\n    %[1]s=$%[1]s'%[2]s'\nfi\n%[1]s=${%[1]s#':'}\n%[1]s=${%[1]s%%':'}\nexport %[1]s\n", name, value)
	}
	const start = "exec -a \"$0\" \"~/bin/.p-wrapped\"  --flag \"$@\" \n"
	cases := map[string]string{
		"set":                       "export LD_LIBRARY_PATH='/x/y'\n" + start,
		"two":                       prefix("LD_LIBRARY_PATH", "/a") + prefix("LD_LIBRARY_PATH", "/b") + start,
		"again":                     prefix("LD_LIBRARY_PATH", "/a") + prefix("LD_LIBRARY_PATH", "/given") + prefix("LD_LIBRARY_PATH", "/a") + start,
		"behind":                    suffix("LD_LIBRARY_PATH", "/a") + suffix("LD_LIBRARY_PATH", "/given") + suffix("LD_PRELOAD", "/l.so") + start,
		"in double quotes":          strings.ReplaceAll(prefix("LD_LIBRARY_PATH", "/a"), "'/a'", `"/a"`) + start,
		"default":                   "export LD_AUDIT=${LD_AUDIT-'/a b'}\nexport LD_LIBRARY_PATH=${LD_LIBRARY_PATH-'/none'}\n" + start,
		"default of nothing":        "export LD_LIBRARY_PATH=\nexport LD_LIBRARY_PATH=${LD_LIBRARY_PATH-/none}${LD_LIBRARY_PATH+:/a}\n" + start,
		"no comment":                "export LD_LIBRARY_PATH=/a#b:/c\n" + start,
		"unset":                     "unset LD_LIBRARY_PATH\n" + start,
		"empty":                     "LD_LIBRARY_PATH=\n" + start,
		"old":                       "export LD_LIBRARY_PATH='/x'${LD_LIBRARY_PATH:+':'}$LD_LIBRARY_PATH\n" + start,
		"not exported":              "LD_PRELOAD=/none.so\nLD_LIBRARY_PATH=/x\n" + start,
		"dirname":                   `exec "$(dirname "$0")/../libexec/p" "$@"`,
		"backticks":                 "exec `dirname $0`/../libexec/p \"$@\"",
		"DIR":                       "DIR=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" >/dev/null 2>&1 && pwd)\nexport LD_LIBRARY_PATH=\"$DIR/../lib:$LD_LIBRARY_PATH\"\nexec \"$DIR/.p-wrapped\" \"$@\"",
		"readlink":                  "here=\"$(dirname \"$(readlink -f \"${0}\")\")\"\nexec \"${here}/.p-wrapped\" \"$@\"",
		"cut":                       "here=${0%/*}\nLD_LIBRARY_PATH=$here/../lib exec $here/.p-wrapped \"$@\"",
		"cd":                        "cd \"$(dirname \"$0\")/..\" || exit 1\nexec ./libexec/p \"$@\"",
		"if":                        "if [ -n \"$LD_LIBRARY_PATH\" ]; then\n  export LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH\nelse\n  export LD_LIBRARY_PATH=/y\nfi\n" + start,
		"else":                      "if [ -z \"${LD_LIBRARY_PATH}\" ]\nthen\n  export LD_LIBRARY_PATH=/x\nelif [ -d ~/bin ]; then\n  export LD_LIBRARY_PATH=/y\nelse\n exec /none\nfi\n" + start,
		"not":                       "if ! [ -d ~/none ]; then LD_LIBRARY_PATH+=:/z; fi\n[ -e ~/none ] && exit 3\n[[ -f ~/bin/.p-wrapped ]] || exec /none\n" + start,
		"and":                       "[ -n \"$LD_LIBRARY_PATH\" ] && LD_LIBRARY_PATH=\"/v:$LD_LIBRARY_PATH\"\n[ -n \"$LD_PRELOAD\" ] && export LD_PRELOAD=/none.so\n" + start,
		"function":                  "usage() {\n  export LD_LIBRARY_PATH=/none\n  exec /none\n}\nfunction other {\n exec /none\n}\n" + start,
		"env":                       "exec env LD_LIBRARY_PATH=/e -u LD_PRELOAD \"~/bin/.p-wrapped\" \"$@\"",
		"env after":                 "exec env -u LD_LIBRARY_PATH LD_PRELOAD=~/l.so ~/bin/.p-wrapped \"$@\"",
		"env -i":                    "export LD_PRELOAD=/none.so\nexec env -i LD_AUDIT=/a LD_LIBRARY_PATH=$LD_LIBRARY_PATH ~/bin/.p-wrapped \"$@\"",
		"env -":                     "export LD_PRELOAD=/none.so\nenv - ~/bin/.p-wrapped \"$@\"",
		"env -i of another program": "export LD_AUDIT=/a\nenv -i true\n" + start,
		"without exec":              "LD_LIBRARY_PATH=/w:/v \"~/bin/.p-wrapped\" \"$@\"\n",
		"true":                      "if true; then\n  exec ~/libexec/p\nfi\n" + start,
		"quotes":                    "export LD_LIBRARY_PATH='/it'\\''s/$HERE':\"/a\\\"b\"\n" + start,
		"comment":                   "# exec /none\necho hello >/dev/null 2>&1 # exec /none; it's\n" + start,
		"for, of which no more":     "for x in 1 2; do\n  Y=$x\ndone\ncase $1 in\n  a) exec /none;;\nesac\n" + start,
		"a function that is called": "lib() {\n  export LD_LIBRARY_PATH=$1\n  return\n  exec /none\n}\nmain() {\n  lib /f\n  exec ~/bin/.p-wrapped \"$@\"\n}\nmain \"$@\"\n",
		"set --":                    "set -- --flag \"$@\"\nset -- ~/bin/.p-wrapped \"$@\"\nexec \"$@\"\n",
		"shift of two":              "set -- a ~/none ~/libexec/p\nshift 2\nexec \"$1\"\n",
		"shift":                     "set -- a ~/libexec/p\nshift\nexec \"$1\" \"${@}\"\n",
		"nice":                      "LD_LIBRARY_PATH=/n exec nice -n 5 env A=1 nohup ~/libexec/p \"$@\" 2>/dev/null\n",
		"timeout":                   "timeout -s INT 9 ionice -c 3 ~/libexec/p \"$@\"\n",
		"both streams":              "D=$( cd -- \"$( dirname -- \"${BASH_SOURCE[0]}\" )\" &> /dev/null && pwd )\nexec 3>&1\nexec \"$D/.p-wrapped\" \"$@\" &> /dev/stdout\n",
		"uname":                     "ARCH=\"$(uname -m)\"\nif [ \"$ARCH\" = none ]; then\n /none \"$@\"\nelif [ \"$ARCH\" = \"MACHINE\" ]; then\n ~/libexec/p \"$@\"\nelse\n /none \"$@\"\nfi\n",
		"the kernel":                "[ `uname` = Linux ] && [ \"$(uname -s)$(arch)\" = LinuxMACHINE ] && exec ~/libexec/p \"$@\"\n",
		"npm's shim":                "basedir=$(dirname \"$(echo \"$0\" | sed -e 's,\\\\,/,g')\")\n\ncase `uname` in\n    *CYGWIN*|*MINGW*|*MSYS*)\n      if command -v cygpath > /dev/null 2>&1; then\n        basedir=`cygpath -w \"$basedir\"`\n      fi\n    ;;\nesac\n\nif [ -x \"$basedir/.p-wrapped\" ]; then\n  exec \"$basedir/.p-wrapped\"  \"$basedir/../x.js\" \"$@\"\nelse\n  exec node  \"$basedir/../x.js\" \"$@\"\nfi\n",
		"a case of a known word":    "case $(uname) in\n  Darwin|*BSD) exec /none \"$@\" ;;\n  (L*x) LD_LIBRARY_PATH=/l;;\n  *) LD_LIBRARY_PATH=/m\nesac\nexport LD_LIBRARY_PATH\ncase a/b in a/b) case x in y) exec /none \"$@\";; esac ;; esac\nexec ~/libexec/p \"$@\"\n",
		"a pipe and a condition":    "if echo x | grep -q y; then\n exec /none\nfi\n" + start,
	}
	dir := t.TempDir()
	for _, d := range []string{"bin", "libexec", "real"} {
		os.Mkdir(dir+"/"+d, 0o755)
	}
	shows := "#!/bin/sh\nprintf '%s\\n' \"$0\" \"LD_LIBRARY_PATH=$LD_LIBRARY_PATH\" \"LD_AUDIT=$LD_AUDIT\" \"LD_PRELOAD=$LD_PRELOAD\"\n"
	for _, p := range []string{"/bin/.p-wrapped", "/libexec/p"} {
		os.WriteFile(dir+p, []byte(shows), 0o755)
	}
	printed, err := exec.Command("uname", "-m").Output()
	if err != nil {
		t.Fatal(err)
	}
	machine := strings.TrimSpace(string(printed))
	names := []string{"LD_LIBRARY_PATH", "LD_AUDIT", "LD_PRELOAD"}
	for _, given := range []string{"", "/given", "/g:/given:/h"} {
		for name, text := range cases {
			if name == "env" { // env(1) takes -u only before what it sets
				continue
			}
			text = "#! /bin/bash -e\n" + strings.NewReplacer("~", dir, "MACHINE", machine).Replace(text)
			at := dir + "/bin/p"
			os.WriteFile(at, []byte(text), 0o755)
			// LD_PRELOAD and LD_AUDIT of no file would be warned of, and do nothing else.
			cmd := exec.Command(bash, "-c", `exec "$0" 2>/dev/null`, at)
			if cmd.Env = []string{"PATH=/bin:/usr/bin"}; given != "" {
				cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+given)
			}
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v, %s", name, err, out)
			}
			w := Wrapped([]byte(text), Surroundings{File: at,
				Variable: func(name string) string { return map[string]string{"LD_LIBRARY_PATH": given}[name] },
				Real:     func(file string) string { real, _ := filepath.EvalSymlinks(file); return real },
				IsDir: func(file string) (bool, bool) {
					st, err := os.Stat(file)
					return err == nil && st.IsDir(), err == nil
				},
				Machine: func() string { return machine },
			})
			got := w.Program + "\n"
			for _, name := range names {
				value, set := w.Set[name]
				if !set && name == "LD_LIBRARY_PATH" && !w.Bare {
					value = given
				}
				got += name + "=" + value + "\n"
			}
			want := string(out)
			if first, rest, _ := strings.Cut(want, "\n"); true {
				want = filepath.Clean(first) + "\n" + rest
			}
			if maybe := strings.Contains(text, "exec /none;;") || strings.Contains(name, "pipe"); got != want || (w.Unsure != nil) != maybe {
				t.Errorf("%s, %q given: %q, unsure %q; bash: %q", name, given, got, w.Unsure, want)
			}
		}
	}
}

// What is not known is left out, and said.
func TestWrappedUnsure(t *testing.T) {
	at := Surroundings{File: "/bin/p", Find: func(name string) string { return "/usr/bin/" + name }, Variable: func(string) string { return "" }, Real: func(string) string { return "" }, IsDir: func(string) (bool, bool) { return false, false }}
	for text, want := range map[string]string{
		"export LD_LIBRARY_PATH=$HOME/lib:/a\nexec /p \"$@\"":                        "/p map[LD_LIBRARY_PATH:/a] [LD_LIBRARY_PATH]",
		"export LD_LIBRARY_PATH=$(cat file):/a:$X\nexec /p":                          "/p map[LD_LIBRARY_PATH:/a] [LD_LIBRARY_PATH]",
		"if grep -q x /f; then\nexport LD_LIBRARY_PATH=/a\nfi\nexec /p":              "/p map[LD_LIBRARY_PATH:] [LD_LIBRARY_PATH]",
		"export LD_LIBRARY_PATH=/b\nif [ -n \"$X\" ]; then unset X\nfi\nexec \"$X\"": " map[LD_LIBRARY_PATH:/b] [the program]",
		"exec \"$HERE/app\" \"$@\"":                                                  " map[] [the program]",
		"exec /lib/ld-linux.so.2 --library-path /a:b --inhibit-cache /p \"$@\"":      "/p map[LD_LIBRARY_PATH:/a:b] []",
		"cd /x\nexport LD_LIBRARY_PATH=lib:/b\nexec ./p \"$@\"":                      "/x/p map[LD_LIBRARY_PATH:/x/lib:/b] []",
		"exec /lib/ld-linux.so.2 --list /p":                                          "/lib/ld-linux.so.2 map[] []",
		"d=`echo \"$0\" | sed -e s,x,,`\nexec \"$d\"ed \"$@\"":                       " map[] [the program]",
		"ls": " map[] []",
		"if [ \"$1\" = a ]; then\nls\nfi\nif ! enable -f \"$1\"; then\nls\nfi":       " map[] []",
		"case $1 in\n a) exec /none;;\n *) exec /p \"$@\";;\nesac":                   "/p map[] [the program]",
		"case $1 in\n a) /p -a \"$@\";;\n *) exec /p \"$@\";;\nesac":                 "/p map[] []",
		"if command -v ls &> /dev/null; then export LD_LIBRARY_PATH=/a; fi\nexec /p": "/p map[LD_LIBRARY_PATH:] [LD_LIBRARY_PATH]",
		"if [ \"$X\" = a ]; then\n/a \"$@\"\nelse\n/b \"$@\"\nfi":                    "/b map[] [the program]",
		"if [ \"$(uname -m)\" = a ]; then\nexec /a\nfi\nexec /b":                     "/b map[] [the program]",
		"case $X in\na) exec /a;;\nesac\ncase b in\n*) exec /b;;\nesac":              "/b map[] [the program]",
		"exec \"/p-$(uname -s | tr A-Z a-z)\" \"$@\"":                                " map[] [the program]",
		"exec \"/p-$(uname -s || echo x)\" \"$@\"":                                   " map[] [the program]",
		"/a \"$@\"\n/b \"$@\"":                            "/b map[] []",
		". /etc/profile\nexec /p":                         "/p map[] [the environment]",
		"eval \"$(setup)\"\n/p \"$@\"":                    "/p map[] [the environment]",
		"f() { f; f; }\nf\nexec /p":                       "/p map[] []",
		"set -- a ~/bin/p\nshift $N\nexec \"$1\"":         " map[] [the program]",
		"if [ \"$1\" = a ]; then\nshift\nfi\nexec \"$1\"": " map[] [the program]",
	} {
		w := Wrapped([]byte("#!/bin/sh\n"+text), at)
		if got := fmt.Sprint(w.Program, " ", w.Set, " ", w.Unsure); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestCompiled(t *testing.T) {
	for text, want := range map[string]string{
		"\x7fELF\x00\n# …:\n\n\nmakeCWrapper '/bin/app' \\\n    --inherit-argv0\n\n\n# (Use":                                                                           "/bin/app map[]",
		"\x7fELF\x00\n# …:\n\n\nmakeCWrapper '/bin/app'\n\n\n# (Use":                                                                                                   "/bin/app map[]",
		"\nmakeCWrapper '/bin/app' \\\n    --prefix 'LD_LIBRARY_PATH' ':' '/a' \\\n    --suffix 'LD_LIBRARY_PATH' ':' '/b' \\\n    --set 'LD_PRELOAD' '/it'\\''s'\n\n": "/bin/app map[LD_LIBRARY_PATH:/a:/given:/b LD_PRELOAD:/it's]",
		"\nmakeCWrapper '/bin/app' \\\n    --set-default 'LD_LIBRARY_PATH' '/a' \\\n    --set-default 'LD_AUDIT' '/b' \\\n    --argv0 '--set' \\\n    --chdir '/'\n\n": "/bin/app map[LD_AUDIT:/b]",
		"\nmakeCWrapper '/bin/app' \\\n    --unset 'LD_LIBRARY_PATH'\n\n":                                                                                              "/bin/app map[LD_LIBRARY_PATH:]",
		"\nmakeCWrapper '/bin/it'\\''s' \\\n    --inherit-argv0\n":                                                                                                     "/bin/it's map[]",
		"\nmakeCWrapper /bin/it's here \\\n    --set 'LD_PRELOAD' '/p'\n\n\n\n# (Use":                                                                                  "/bin/it's here map[LD_PRELOAD:/p]",
		"\nmakeCWrapper /bin/app\n\n\n\n# (Use":                                                                                                                        "/bin/app map[]",
		" makeCWrapper EXECUTABLE":                                                                                                                                     " map[]",
	} {
		w := Compiled([]byte(text), Surroundings{File: "/bin/p", Variable: func(name string) string { return map[string]string{"LD_LIBRARY_PATH": "/given"}[name] }})
		if got := fmt.Sprint(w.Program, " ", w.Set); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
