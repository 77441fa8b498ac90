package ldconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cuda-runpath/pkg/sysroot"
)

// tree writes files below a new directory; a value that begins with "-> " is a symbolic link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, data := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(data, "-> "); ok {
			err = os.Symlink(target, at)
		} else {
			err = os.WriteFile(at, []byte(data), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDirs(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no file": {nil, nil},
		"a list with comments, blanks and slashes": {
			map[string]string{"etc/ld.so.conf": "# libc\n  /usr/local/lib/ # mine\n\n\t/opt/cuda/lib64//\n/usr/local/lib\nno/slash\n/a b\n/last"},
			[]string{"/usr/local/lib", "/opt/cuda/lib64", "/a b", "/last"},
		},
		"include in the order of the C locale, hidden files not": {
			map[string]string{
				"etc/ld.so.conf":            "include /etc/ld.so.conf.d/*.conf ld.so.conf.e/*\n/end\n",
				"etc/ld.so.conf.d/b.conf":   "/b\n",
				"etc/ld.so.conf.d/B.conf":   "/B\n",
				"etc/ld.so.conf.d/a.conf":   "/a\n",
				"etc/ld.so.conf.d/.x.conf":  "/hidden\n",
				"etc/ld.so.conf.d/c.confix": "/no\n",
				"etc/ld.so.conf.e/e":        "/e",
			},
			[]string{"/B", "/a", "/b", "/e", "/end"},
		},
		"what older versions wrote": {
			map[string]string{"etc/ld.so.conf": "hwcap 1 nosegneg\nHWCAP\t0 x\n/usr/X11R6/lib=libc6\n/with=equal\nincluded/x\n/include /y\n"},
			[]string{"/usr/X11R6/lib", "/with=equal", "/include /y"},
		},
		"links are followed inside the root": {
			map[string]string{
				"etc/ld.so.conf":          "include /etc/conf.d/*.conf\n",
				"etc/conf.d":              "-> /usr/share/conf.d",
				"usr/share/conf.d/x":      "/never",
				"usr/share/conf.d/a.conf": "-> ../../../../../etc/a",
				"etc/a":                   "/a\n",
			},
			[]string{"/a"},
		},
	} {
		got, err := Dirs(sysroot.Root{Dir: tree(t, test.files)}, Path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHostileConfs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, files := range map[string]map[string]string{
		"a file that includes itself": {"etc/ld.so.conf": "include /etc/ld.so.conf\n"},
		"files that include each other": {
			"etc/ld.so.conf": "include /etc/a /etc/a\n", "etc/a": "include /etc/ld.so.conf /etc/ld.so.conf\n",
		},
		"a directory":     {"etc/ld.so.conf/x": ""},
		"a loop of links": {"etc/ld.so.conf": "-> ld.so.conf"},
		"a bad pattern":   {"etc/ld.so.conf": "include /etc/[\n"},
		"a huge file":     {"etc/ld.so.conf": strings.Repeat("/x\n", 1<<20)},
	} {
		if dirs, err := Dirs(sysroot.Root{Dir: tree(t, files)}, Path); err == nil {
			t.Errorf("%s: %v", name, dirs)
		}
	}
	// Each star finds six times as much, and nothing of it is another directory; as many patterns that find little.
	many := map[string]string{"etc/ld.so.conf": "include /a" + strings.Repeat("/*", 12) + "\n/after\n"}
	for i := range 6 {
		many[fmt.Sprintf("a/l%d", i)] = "-> ."
	}
	patterns := map[string]string{"etc/ld.so.conf": strings.Repeat("include x*\n", 50000)}
	for i := range 200 {
		patterns[fmt.Sprintf("etc/y%d", i)] = ""
	}
	for name, files := range map[string]map[string]string{"stars": many, "patterns": patterns} {
		at := sysroot.Root{Dir: tree(t, files)}
		began := time.Now()
		if dirs, err := Dirs(at, Path); !errors.Is(err, sysroot.ErrTooMany) || len(dirs) > 0 || time.Since(began) > time.Minute {
			t.Errorf("%s: %q, %v after %v", name, dirs, err, time.Since(began))
		}
	}
	// A link that leads out of the root must not: inside, it leads to a file that is not there.
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("/secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{secret, "../../../../../../../../../../.." + secret} {
		if dirs, err := Dirs(sysroot.Root{Dir: tree(t, map[string]string{"etc/ld.so.conf": "-> " + link})}, Path); err != nil || dirs != nil {
			t.Errorf("link to %s: %v, %v", link, dirs, err)
		}
	}
}

func FuzzDirs(f *testing.F) {
	f.Add("/usr/lib # x\ninclude /etc/*.conf\nhwcap 0 x\n/a=libc5\n")
	f.Add("include ld.so.conf\n")
	root := f.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(root, "etc/ld.so.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		dirs, _ := Dirs(sysroot.Root{Dir: root}, Path)
		for _, d := range dirs {
			if !strings.HasPrefix(d, "/") || strings.Contains(d, "\n") {
				t.Errorf("%q", d)
			}
		}
	})
}
