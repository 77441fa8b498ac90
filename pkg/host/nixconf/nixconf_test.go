package nixconf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cuda-runpath/pkg/sysroot"
)

// tree writes files and returns the directory that they are in.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  Config
	}{
		"none":    {nil, Config{}},
		"nothing": {map[string]string{"nix.conf": "# pre-build-hook = /no\n\nx\nx y\nmax-jobs = 4\n"}, Config{}},
		"all": {map[string]string{"nix.conf": "pre-build-hook = /h # not this\nsandbox=true\nsandbox = relaxed\nsystem-features = kvm cuda\nextra-sandbox-paths = /a /b=/c\n"},
			Config{Hook: "/h", Sandbox: "relaxed", Features: []string{"kvm", "cuda"}, Paths: []string{"/a", "/b=/c"}}},
		"older names":        {map[string]string{"nix.conf": "build-use-chroot = false\nbuild-chroot-dirs = /a\n"}, Config{Sandbox: "false", Paths: []string{"/a"}}},
		"a later one counts": {map[string]string{"nix.conf": "system-features = a\nextra-system-features = b\nsystem-features = c\nextra-system-features = d\n"}, Config{Features: []string{"c", "d"}}},
		"includes": {map[string]string{"nix.conf": "include sub/a\n!include missing\nsandbox = 2\n", "sub/a": "sandbox = 1\ninclude b\n", "sub/b": "pre-build-hook = /b\n"},
			Config{Hook: "/b", Sandbox: "2"}},
		"an absolute include, in the tree": {map[string]string{"nix.conf": "include /etc/x\n", "etc/x": "pre-build-hook = /x\n"}, Config{Hook: "/x"}},
		"each file once": {map[string]string{"nix.conf": strings.Repeat("include nix.conf\ninclude a\n", 6), "a": strings.Repeat("include nix.conf\ninclude ./a\nextra-system-features = f\n", 1) + strings.Repeat("include a\n", 6)},
			Config{Features: []string{"f"}}},
		"a file that is too large": {map[string]string{"nix.conf": "include a\nsandbox = 1\n", "a": "sandbox = 2\n" + strings.Repeat("#", maxSize)}, Config{Sandbox: "1"}},
	} {
		dir := tree(t, c.files)
		got, err := Read(sysroot.Root{Dir: dir}, "/nix.conf")
		if err != nil || got.Hook != c.want.Hook || got.Sandbox != c.want.Sandbox || !slices.Equal(got.Features, c.want.Features) || !slices.Equal(got.Paths, c.want.Paths) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := Read(sysroot.Root{Dir: tree(t, map[string]string{"nix.conf/x": ""})}, "/nix.conf"); err == nil {
		t.Error("a directory was read")
	}
}

// Which file the lines belong in, and what is in it then. What the command line makes of it: cli/hostdriver.
func TestPlan(t *testing.T) {
	const hook = "/etc/nix/hostDriver-sandbox"
	for name, c := range map[string]struct {
		files map[string]string
		file  string
		text  string // before our lines
		err   string
	}{
		"none":                  {nil, "nix.conf", "", ""},
		"some":                  {map[string]string{"nix.conf": "x = y"}, "nix.conf", "x = y\n", ""},
		"a file for one's own":  {map[string]string{"nix.conf": "!include nix.custom.conf\n", "nix.custom.conf": "z = 1\n"}, "nix.custom.conf", "z = 1\n", ""},
		"another file":          {map[string]string{"nix.conf": "include other.conf\n", "other.conf": "z = 1\n"}, "nix.conf", "include other.conf\n", ""},
		"one that includes it":  {map[string]string{"nix.conf": "include other.conf\n", "other.conf": "!include nix.custom.conf\n"}, "nix.custom.conf", "", ""},
		"features replaced":     {map[string]string{"nix.conf": "!include nix.custom.conf\nsystem-features = kvm\n"}, "", "", "replaces the system features"},
		"another hook":          {map[string]string{"nix.conf": "pre-build-hook = /other\n"}, "", "", "another pre-build-hook"},
		"this hook, by hand":    {map[string]string{"nix.conf": "pre-build-hook = " + hook + "\n"}, "nix.conf", "pre-build-hook = " + hook + "\n", ""},
		"our lines cut off":     {map[string]string{"nix.conf": begin + "\n"}, "", "", "correct it by hand"},
		"our lines, once again": {map[string]string{"nix.conf": "a = b\n" + Lines("/old") + "c = d\n"}, "nix.conf", "a = b\nc = d\n", ""},
	} {
		dir := tree(t, c.files)
		in, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		p, err := Plan(sysroot.Root{}, in, filepath.Join(dir, "nix.conf"), hook)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || p.File != filepath.Join(dir, c.file) || p.Text != c.text+Lines(hook) || !p.Changed {
			t.Errorf("%s: %+v, %v", name, p, err)
			continue
		}
		if err := p.Write(); err != nil {
			t.Fatal(err)
		}
		if again, err := Plan(sysroot.Root{}, in, filepath.Join(dir, "nix.conf"), hook); err != nil || again.Changed || again.Text != p.Text {
			t.Errorf("%s: again: %+v, %v", name, again, err)
		}
		for _, changed := range []bool{true, false} {
			p, err := Without(sysroot.Root{}, in, p.File)
			if err != nil || p.Text != c.text || p.Changed != changed {
				t.Fatalf("%s: without ours: %+v, %v", name, p, err)
			}
			if err := p.Write(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := Plan(sysroot.Root{}, nil, filepath.Join(t.TempDir(), "nix.conf"), "/with space"); err == nil {
		t.Error("nix.conf has no quotes")
	}
}

// What another process writes between the reading and the writing is not lost, and the directory that was read is the one
// that is written to.
func TestPlanOfAFileThatChanges(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"another writes": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "nix.conf"), []byte("theirs = 1\n"), 0o644)
		},
		"another replaces": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "new"), []byte("x = y\n"), 0o644), os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "nix.conf")))
		},
		"the directory is another": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "nix.conf"), []byte("theirs = 1\n"), 0o644))
		},
	} {
		dir := filepath.Join(tree(t, map[string]string{"nix/nix.conf": "x = y\n"}), "nix")
		in, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		conf := filepath.Join(dir, "nix.conf")
		p, err := Plan(sysroot.Root{}, in, conf, "/etc/nix/hostDriver-sandbox")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the clock of a file system goes in steps
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(conf)
		if err := p.Write(); (err == nil) != (name == "the directory is another") {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(conf); string(now) != string(before) {
			t.Errorf("%s: it holds %q, %v", name, now, err)
		}
	}
}
