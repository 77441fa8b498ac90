package install

import (
	"strings"
	"testing"

	"cuda-runpath/pkg/host"
)

// The units: at boot, and when ldconfig has written the loader's cache again.
func TestBootFiles(t *testing.T) {
	files := BootFiles(nil, "/opt/gpu driver", "/usr/bin/hostDriver", true, "")
	if len(files) != 2 || !strings.Contains(files[0].Text, "\nExecStart=/usr/bin/hostDriver install --prefix /opt/gpu\\x20driver --copy\n") ||
		!strings.Contains(files[1].Text, "\nPathChanged=/etc/ld.so.cache\n") {
		t.Errorf("%+v", files)
	}
	if files := BootFiles(nil, host.DefaultPrefix, "/x$y%", false, ""); len(files) != 3 || !strings.Contains(files[1].Text, "\nExecStart=/x$y%% install\n") {
		t.Errorf("%+v", files)
	}
}

func TestBootFilesQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/run/opengl-driver": "/run/opengl-driver", "/a b": `/a\x20b`, "/100%": "/100%%", `/a"b`: `/a\x22b`, "/a\nL+ x": `/a\x0aL+\x20x`, `/a\b`: `/a\x5cb`,
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
