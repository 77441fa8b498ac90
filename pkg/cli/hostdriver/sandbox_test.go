package hostdriver

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// block returns our lines for a nix.conf in a directory.
func block(dir string) string {
	return "# hostDriver sandbox: builds that ask for a GPU get it.\npre-build-hook = " + dir + "/hostDriver-sandbox\n" +
		"extra-system-features = cuda gpu nvidia-gpu opengl\n# hostDriver sandbox: end\n"
}

// Where sandbox puts its lines, or why it does not. DIR stands for the directory of nix.conf.
func TestConfigure(t *testing.T) {
	const begin = "# hostDriver sandbox: builds that ask for a GPU get it.\n"
	for name, c := range map[string]struct {
		before, after map[string]string // after: BLOCK are our lines; nil: nothing changes
		says          string
	}{
		"no file":                      {nil, map[string]string{"nix.conf": "BLOCK"}, "DIR/nix.conf: written"},
		"what is there stays":          {map[string]string{"nix.conf": "# mine\nx = y\n"}, map[string]string{"nix.conf": "# mine\nx = y\nBLOCK"}, "written"},
		"a last line without its end":  {map[string]string{"nix.conf": "x = y"}, map[string]string{"nix.conf": "x = y\nBLOCK"}, "written"},
		"an older block":               {map[string]string{"nix.conf": begin + "old\n# hostDriver sandbox: end\nx = y\n"}, map[string]string{"nix.conf": "x = y\nBLOCK"}, "written"},
		"a block without its end":      {map[string]string{"nix.conf": begin + "x = y\n"}, nil, "correct it by hand"},
		"another hook":                 {map[string]string{"nix.conf": "pre-build-hook = /other\n"}, nil, "another pre-build-hook, /other"},
		"another hook, included":       {map[string]string{"nix.conf": "include a\n", "a": "pre-build-hook = /other\n"}, nil, "another pre-build-hook, /other"},
		"a file that includes itself":  {map[string]string{"nix.conf": strings.Repeat("include nix.conf\n", 6)}, map[string]string{"nix.conf": strings.Repeat("include nix.conf\n", 6) + "BLOCK"}, "written"},
		"two that include each other":  {map[string]string{"nix.conf": strings.Repeat("include a\n", 8), "a": strings.Repeat("include nix.conf\ninclude a\n", 8)}, map[string]string{"nix.conf": strings.Repeat("include a\n", 8) + "BLOCK"}, "written"},
		"somebody's own hook":          {map[string]string{"hostDriver-sandbox": "mine"}, nil, "was not made by hostDriver"},
		"a file for one's own":         {map[string]string{"nix.conf": "x = y\n!include nix.custom.conf\n"}, map[string]string{"nix.custom.conf": "BLOCK"}, "DIR/nix.custom.conf: written"},
		"which is there":               {map[string]string{"nix.conf": "!include ./nix.custom.conf\nx = y\n", "nix.custom.conf": "z = a"}, map[string]string{"nix.custom.conf": "z = a\nBLOCK"}, "DIR/nix.custom.conf: written"},
		"which counts less":            {map[string]string{"nix.conf": "!include nix.custom.conf\nsystem-features = kvm\n"}, nil, "replaces the system features after it includes"},
		"which is included in between": {map[string]string{"nix.conf": "!include nix.custom.conf\nextra-system-features = kvm\n"}, map[string]string{"nix.custom.conf": "BLOCK"}, "written"},
		"whose hook is replaced":       {map[string]string{"nix.conf": "!include nix.custom.conf\npre-build-hook = /other\n"}, nil, "another pre-build-hook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree, began := t.TempDir(), time.Now()
			dir := filepath.Join(tree, "nix")
			// Another of these tests may be without a umask meanwhile.
			if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(tree, 0o755), os.Chmod(dir, 0o755)); err != nil {
				t.Fatal(err)
			}
			for file, text := range c.before {
				write(t, filepath.Join(dir, file), text)
			}
			args := []string{"sandbox", "--root", tree, "--conf", "/nix/nix.conf", "--program", "/p"}
			status, said := runs(args...)
			if !strings.Contains(said, strings.ReplaceAll(c.says, "DIR", "/nix")) || (status == 0) != (c.after != nil) {
				t.Errorf("status %d, said %q", status, said)
			}
			want := map[string]string{}
			for file, text := range c.before {
				want[file] = text
			}
			for file, text := range c.after {
				want[file] = strings.ReplaceAll(text, "BLOCK", block("/nix"))
				want["hostDriver-sandbox"] = read(t, filepath.Join(dir, "hostDriver-sandbox"))
			}
			have, _ := os.ReadDir(dir)
			for _, e := range have {
				if _, ok := want[e.Name()]; !ok {
					t.Errorf("%s was made", e.Name())
				}
			}
			for file, text := range want {
				if got := read(t, filepath.Join(dir, file)); got != text {
					t.Errorf("%s is %q, want %q", file, got, text)
				}
			}
			if c.after != nil {
				if status, said := runs(args...); status != 0 || !strings.Contains(said, "unchanged") {
					t.Errorf("again: status %d, said %q", status, said)
				}
				args[len(args)-1] = "/other/p"
				if status, said := runs(args...); status != 0 || !strings.Contains(read(t, filepath.Join(dir, "hostDriver-sandbox")), "exec /other/p sandbox") {
					t.Errorf("with another program: status %d, said %q", status, said)
				}
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

// nix.conf keeps its owner, mode and extended attributes: it may hold access tokens.
func TestConfigureKeepsWhatTheFileIs(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "nix.conf")
	write(t, conf, "access-tokens = secret\n")
	if err := errors.Join(os.Chown(conf, -1, 1234), os.Chmod(conf, 0o640)); err != nil {
		t.Skip("another group cannot be given: ", err)
	}
	attributes := unix.Setxattr(conf, "user.origin", []byte("mine"), 0)
	if status, said := runs("sandbox", "--configure", "--write", "--root", dir, "--conf", "/nix.conf", "--program", "/p"); status != 0 {
		t.Fatal(said)
	}
	var st unix.Stat_t
	if err := unix.Stat(conf, &st); err != nil || st.Gid != 1234 || fs.FileMode(st.Mode).Perm() != 0o640 {
		t.Errorf("group %d, mode %o, %v", st.Gid, st.Mode, err)
	}
	value := make([]byte, 10)
	if n, err := unix.Getxattr(conf, "user.origin", value); attributes == nil && (err != nil || string(value[:n]) != "mine") {
		t.Errorf("user.origin: %q, %v", value, err)
	}
	if !strings.Contains(read(t, conf), "secret\n# hostDriver") {
		t.Error("its lines are not those that were there, and ours")
	}
}

// A nix.conf that is a link is somebody else's, who generates it.
func TestConfigureLeavesLinksAlone(t *testing.T) {
	for _, link := range []string{"nix.conf", "nix.custom.conf"} {
		dir := t.TempDir()
		conf := filepath.Join(dir, "nix.conf")
		if link == "nix.custom.conf" {
			write(t, conf, "!include nix.custom.conf\n")
		}
		if err := os.Symlink("/nix/store/x", filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		status, said := runs("sandbox", "--root", dir, "--conf", "/nix.conf", "--program", "/p")
		if status != 1 || !strings.Contains(said, link+" is a link to /nix/store/x: add these lines to what generates it") {
			t.Errorf("status %d, said %q", status, said)
		}
		if _, err := os.Lstat(filepath.Join(dir, "hostDriver-sandbox")); err == nil {
			t.Error("a hook was left")
		}
	}
}

// The features that a derivation asks for are those of exactly that name.
func TestWhoAsksForAGPU(t *testing.T) {
	tree := t.TempDir() // without a GPU, a derivation that asks makes it say so
	for env, asks := range map[string]bool{
		`("requiredSystemFeatures","kvm cuda")`:                      true,
		`("requiredSystemFeatures","opengl")`:                        true,
		`("__json","{\"requiredSystemFeatures\":[\"nvidia-gpu\"]}")`: true,
		`("__json","{\"requiredSystemFeatures\":\"kvm gpu\"}")`:      true,
		`("name","cuda")`:                                                       false,
		`("requiredSystemFeatures","cudax")`:                                    false,
		`("requiredSystemFeatures","")`:                                         false,
		`("buildInputs","cuda gpu")`:                                            false,
		`("requiredsystemfeatures","cuda")`:                                     false,
		`("__json","{\"name\":\"cuda\",\"requiredSystemFeatures\":[\"kvm\"]}")`: false,
		`("__json","{\"requiredSystemFeatures\":null,\"x\":\"gpu\"}")`:          false,
		`("__json","{\"requiredsystemfeatures\":[\"cuda\"]}")`:                  false,
		`("__json","{\"RequiredSystemFeatures\":[\"cuda\"]}")`:                  false,
	} {
		drv := filepath.Join(tree, "x.drv")
		write(t, drv, `Derive([("out","/nix/store/x","","")],[],[],"x86_64-linux","/bin/sh",[],[`+env+`])`)
		status, said := runs("sandbox", "--root", tree, "--cache", tree, drv)
		if got := status == 1 && strings.Contains(said, "asks for a GPU: this machine has no NVIDIA GPU device"); got != asks || !asks && said != "" {
			t.Errorf("%s: status %d, %q", env, status, said)
		}
	}
	for _, text := range []string{"cuda", "Derive([", `DrvWithVersion("xp-dyn-drv",[],"cuda")`,
		`Derive([("out","/x","","")],[],[],"x","/bin/sh",[],[("__json","{cuda")])`, `Derive([],[],[],"x","/bin/sh",[],[("__json","{\"requiredSystemFeatures\":7,\"x\":\"cuda\"}")])`} {
		drv := filepath.Join(tree, "x.drv")
		write(t, drv, text)
		if status, said := runs("sandbox", "--root", tree, drv); status != 0 || said != "" && !strings.Contains(said, "cannot find out whether it asks for a GPU") {
			t.Errorf("%s: status %d, %q", text, status, said)
		}
	}
	if status, said := runs("sandbox", "--root", tree, "/no/such.drv"); status != 0 || !strings.Contains(said, "/no/such.drv") {
		t.Errorf("status %d, %q", status, said)
	}
}
