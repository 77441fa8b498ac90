package install

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
)

// A line by which systemd makes the link at boot, and the units: before anything that asks for nothing else, and when ldconfig has
// written the loader's cache again.
func TestBootFiles(t *testing.T) {
	h := &host.Host{Root: sysroot.Root{Dir: t.TempDir()}}
	mkdirs(t, filepath.Join(h.Root.Dir, "run"))
	text := func(s Site, program string, words ...string) string {
		t.Helper()
		files, err := BootFiles(h, s, []string{path.Join(s.Prefix, "lib"), s.Prefix + "-32/lib"}, &Program{Path: program}, words...)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, f := range files {
			fmt.Fprintf(&b, "%s %s %s\n", f.Path, f.Link, f.Text)
		}
		return b.String()
	}
	for _, c := range []struct {
		text string
		want []string
	}{
		{text(Site{host.DefaultPrefix, host.StateDir}, "/x$y%"), []string{
			"\nL /run/opengl-driver - - - - ../var/lib/hostDriver/opengl-driver\nL /run/opengl-driver-32 - - - - ../var/lib/hostDriver/opengl-driver-32\n",
			"\nExecStart=/x$y%% install\n", "\nPathChanged=/etc/ld.so.cache\n", "\nBefore=basic.target ", "\nDefaultDependencies=no\n",
			"\nRequiresMountsFor=/ /var/lib/hostDriver\n", "basic.target.wants/hostDriver.service /etc/systemd/system/hostDriver.service",
		}},
		{text(Site{"/run/gpu driver", "/srv/100%"}, "/bin/x", "--prefix", "/run/gpu driver", "--state-dir", "/srv/100%"), []string{
			`L /run/gpu\x20driver - - - - ../srv/100%%/gpu\x20driver`, `ExecStart=/bin/x install --prefix /run/gpu\x20driver --state-dir /srv/100%%`,
		}},
	} {
		for _, want := range c.want {
			if !strings.Contains(c.text, want) {
				t.Errorf("no %q in:\n%s", want, c.text)
			}
		}
	}
	// A directory that is no link is there after a boot, too.
	if said := text(Site{"/opt/gpu driver", ""}, "/usr/bin/hostDriver"); strings.Contains(said, "tmpfiles.d") || !strings.Contains(said, "\nExecStart=/usr/bin/hostDriver install\n") {
		t.Error(said)
	}
}

func TestBootFilesQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/run/opengl-driver": "/run/opengl-driver", "/a b": `/a\x20b`, "/100%": "/100%%", `/a"b`: `/a\x22b`, "/a\nL+ x": `/a\x0aL+\x20x`, `/a\b`: `/a\x5cb`, "/ü": "/ü",
		"/\u202ea\u009b\xff\x7f": `/\xe2\x80\xaea\xc2\x9b\xff\x7f`, // unseen, to a terminal
	} {
		if got := specifier(in); got != want {
			t.Errorf("specifier(%q) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"/usr/bin/x": "/usr/bin/x", "/a b$": `/a\x20b$$`, "/%h": "/%%h", "/a\nExecStart=x": `/a\x0aExecStart=x`} {
		if got := unitWord(in); got != want {
			t.Errorf("unitWord(%q) = %s, want %s", in, got, want)
		}
	}
}
