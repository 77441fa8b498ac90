package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
)

// Which program root's units start: one that only root can replace, and whose store path stays.
func TestChooseProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: the files of others cannot be made")
	}
	const object = "/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-hostDriver"
	h := &host.Host{Root: sysroot.Root{Dir: t.TempDir()}}
	put := func(name string, uid int) {
		at := filepath.Join(h.Root.Dir, name)
		mkdirs(t, filepath.Dir(at))
		if err := os.WriteFile(at, []byte("program"), 0o755); err != nil {
			t.Fatal(err)
		}
		for dir := at; uid != 0 && filepath.Base(dir) != "home"; dir = filepath.Dir(dir) {
			if err := os.Chown(dir, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(object+"/bin/hostDriver", 0)
	put("/home/u/bin/hostDriver", 4321)
	put("/opt/bin/hostDriver", 0)
	mkdirs(t, filepath.Join(h.Root.Dir, "nix/var/nix/gcroots"), filepath.Join(h.Root.Dir, "home/u/.nix-profile"))
	for link, target := range map[string]string{"profile": object + "/bin/hostDriver", "home/u/hostDriver": object + "/bin/hostDriver", "opt/later": "/home/u/later"} {
		if err := os.Symlink(target, filepath.Join(h.Root.Dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for named, c := range map[string]struct{ path, root, err string }{
		"/opt/bin/hostDriver":         {path: "/opt/bin/hostDriver"},
		"/not/there/yet":              {path: "/not/there/yet"},
		"/home/u/bin/hostDriver":      {err: "/home/u/bin/hostDriver: /home/u belongs to user 4321: root would run"},
		"/home/u/hostDriver":          {err: "belongs to user 4321"},
		"/home/u/not/there":           {err: "belongs to user 4321"},
		"/opt/later/hostDriver":       {err: "leads nowhere"},
		object + "/bin/hostDriver":    {path: object + "/bin/hostDriver", root: "/nix/var/nix/gcroots/hostDriver-units"},
		"/profile":                    {path: object + "/bin/hostDriver", root: "/nix/var/nix/gcroots/hostDriver-units"},
		"relative":                    {err: "an absolute path is needed"},
		"/opt/../home/u/x/hostDriver": {err: "belongs to user 4321"},
	} {
		p, err := ChooseProgram(&host.Host{Root: h.Root}, named, "units")
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %+v, %v", named, p, err)
			}
		case err != nil || p.Path != c.path || p.Root != c.root:
			t.Errorf("%s: %+v, %v", named, p, err)
		}
	}
	// On the running system, root could not start what is not there, or is no program.
	for _, named := range []string{"/etc/passwd", "/usr/bin/no-such-program", "/usr/bin"} {
		if p, err := ChooseProgram(&host.Host{}, named, "units"); err == nil || !strings.Contains(err.Error(), "root could not start it") {
			t.Errorf("%s: %+v, %v", named, p, err)
		}
	}
	// The one that runs is not there: a copy of it.
	p, err := ChooseProgram(h, "", "units")
	if err != nil || p.Path != "/usr/local/libexec/hostDriver" || len(p.Needs()) != 1 || len(p.Needs()[0].Program) < 1<<20 {
		t.Errorf("%v", err)
	}
	// Where others could replace that, there is none.
	mkdirs(t, filepath.Join(h.Root.Dir, "usr/local"))
	if err := os.Chown(filepath.Join(h.Root.Dir, "usr/local"), 4321, 4321); err != nil {
		t.Fatal(err)
	}
	if p, err := ChooseProgram(&host.Host{Root: h.Root}, "", "units"); err == nil || !strings.Contains(err.Error(), "--program FILE") {
		t.Errorf("%+v, %v", p, err)
	}
}
