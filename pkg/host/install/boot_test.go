package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/sysroot"
)

// The units: at boot, and when ldconfig has written the loader's cache again.
func TestBootFiles(t *testing.T) {
	files := BootFiles(nil, "/opt/gpu driver", "/usr/bin/hostDriver", "--copy")
	if len(files) != 2 || !strings.Contains(files[0].Text, "\nExecStart=/usr/bin/hostDriver install --prefix /opt/gpu\\x20driver --copy\n") ||
		!strings.Contains(files[1].Text, "\nPathChanged=/etc/ld.so.cache\n") {
		t.Errorf("%+v", files)
	}
	if files := BootFiles(nil, host.DefaultPrefix, "/x$y%"); len(files) != 3 || !strings.Contains(files[1].Text, "\nExecStart=/x$y%% install\n") {
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

// Nobody waits for the reader of a FIFO that has a unit's name.
func TestBootFileThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	unit := filepath.Join(dir, "etc/hostDriver.service")
	if err := errors.Join(os.Mkdir(filepath.Dir(unit), 0o755), unix.Mkfifo(unit, 0o644)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := WriteBootFile(sysroot.Root{Dir: dir}, BootFile{"/etc/hostDriver.service", "text"})
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, plainfile.ErrNotRegular) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}
