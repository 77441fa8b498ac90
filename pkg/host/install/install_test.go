package install

import (
	"debug/elf"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/host/offer"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
	"golang.org/x/sys/unix"
)

// What is judged without the lock may go, or come, in between: that is no error.
func TestJudgeWhileOthersInstall(t *testing.T) {
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib")
	links := t.TempDir()
	if err := os.Symlink("/elsewhere/libcuda.so.1", filepath.Join(links, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Symlink(generation+"0", lib) // as an installation,
			os.Remove(lib)                  // as its removal,
			os.Rename(links, lib)           // and as a directory of links that an installation replaces
			os.Rename(lib, links)
		}
	}()
	in := hosttest.Open(t, dir)
	counts := map[string]int{}
	for range 50000 {
		i := &Link{Path: lib}
		if err := i.judge(in, &offer.Offer{}, generation+"1"); err != nil {
			t.Error(err)
			break
		}
		counts[i.Action]++
	}
	close(stop)
	<-stopped
	if counts["made"] == 0 || counts["replaced"] == 0 {
		t.Errorf("the test tests nothing: %v", counts)
	}
}

func TestGenerationsAreDirectlyInThePrefix(t *testing.T) {
	for name, want := range map[string]bool{".hostDriver-0a1b": true, ".hostDriver-0a1b/../x": false, "/run/.hostDriver-0a1b": false, "lib": false} {
		if got := isGeneration(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What is in the place of the link decides what is done: ours, and directories of links to the driver's libraries, are
// replaced; anything else is somebody's own.
func TestWhatIsThereAlready(t *testing.T) {
	for name, c := range map[string]struct {
		there  func(lib string) error
		action string // "": it stays
	}{
		"nothing": {func(string) error { return nil }, "made"},
		"an older generation": {func(lib string) error {
			return errors.Join(os.Mkdir(filepath.Dir(lib)+"/"+generation+"0", 0o755), os.Symlink(generation+"0", lib))
		}, "replaced"},
		"a link of ours that dangles": {func(lib string) error { return os.Symlink(generation+"0", lib) }, "replaced"},
		"links made by hand": {func(lib string) error {
			return errors.Join(os.Mkdir(lib, 0o755), os.Symlink("/old/libcuda.so.1", lib+"/libcuda.so.1"))
		}, "replaced"},
		"an empty directory": {func(lib string) error { return os.Mkdir(lib, 0o755) }, "replaced"},
		"somebody's file in it": {func(lib string) error {
			return errors.Join(os.Mkdir(lib, 0o755), os.WriteFile(lib+"/mine", nil, 0o644))
		}, ""},
		"somebody's link": {func(lib string) error { return os.Symlink("/elsewhere", lib) }, ""},
		"a file":          {func(lib string) error { return os.WriteFile(lib, nil, 0o644) }, ""},
	} {
		h, m := withDriver(t)
		d, err := h.Find(m)
		if err != nil {
			t.Fatal(err)
		}
		lib := filepath.Join(h.Root.Dir, "usr/driver/lib")
		if err := os.Mkdir(filepath.Dir(lib), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := c.there(lib); err != nil {
			t.Fatal(err)
		}
		before := hosttest.Modes(t, filepath.Dir(lib))
		o := offer.Private(h, d)
		for _, dryRun := range []bool{true, false} {
			in, err := Make(h, d, o, Site{Prefix: "/usr/driver"}, dryRun)
			if (err == nil) != (c.action != "") || err == nil && in.Action != c.action {
				t.Errorf("%s: %+v, %v", name, in, err)
			}
			if dryRun && !maps.Equal(before, hosttest.Modes(t, filepath.Dir(lib))) {
				t.Errorf("%s: a dry run changed something", name)
			}
		}
		if c.action == "" {
			if !maps.Equal(before, hosttest.Modes(t, filepath.Dir(lib))) {
				t.Errorf("%s: it was changed", name)
			}
			if _, err := Remove(h, Site{Prefix: "/usr/driver"}, false); err == nil || !strings.Contains(err.Error(), "was not made by hostDriver install; leaving it alone") {
				t.Errorf("%s: Remove: %v", name, err)
			}
			continue
		}
		if entries, err := os.ReadDir(filepath.Dir(lib)); err != nil || len(entries) != 2 {
			t.Errorf("%s: left: %v, %v", name, entries, err)
		}
		if in, err := Make(h, d, o, Site{Prefix: "/usr/driver"}, false); err != nil || in.Action != "unchanged" {
			t.Errorf("%s: again: %+v, %v", name, in, err)
		}
		if err := os.WriteFile(filepath.Join(lib, "libmine.so"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if in, err := Make(h, d, o, Site{Prefix: "/usr/driver"}, false); err != nil || in.Action != "replaced" {
			t.Errorf("%s: where somebody added a file: %+v, %v", name, in, err)
		}
		if _, err := os.Lstat(filepath.Join(lib, "libmine.so")); err == nil {
			t.Errorf("%s: the added file is there", name)
		}
		if done, err := Remove(h, Site{Prefix: "/usr/driver"}, true); err != nil || len(done) != 1 {
			t.Errorf("%s: Remove, dry run: %v, %v", name, done, err)
		}
		if done, err := Remove(h, Site{Prefix: "/usr/driver"}, false); err != nil || len(done) != 1 || done[0].Action != "removed" {
			t.Errorf("%s: Remove: %v, %v", name, done, err)
		}
		if _, err := os.Lstat(filepath.Dir(lib)); err == nil {
			t.Errorf("%s: Remove leaves something", name)
		}
		if done, err := Remove(h, Site{Prefix: "/usr/driver"}, false); err != nil || len(done) != 0 {
			t.Errorf("%s: Remove again: %v, %v", name, done, err)
		}
	}
}

// What cannot be copied leaves nothing, and no link.
func TestAnInstallationThatFailsLeavesNothing(t *testing.T) {
	h, _ := withDriver(t)
	if err := os.WriteFile(filepath.Join(h.Root.Dir, "usr/text"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := &offer.Offer{Root: h.Root, Entries: []offer.Entry{{Name: driver.LibCUDA, Copy: filepath.Join(h.Root.Dir, "usr/text")}}}
	if _, err := Make(h, &host.Driver{Machine: "x86_64"}, o, Site{Prefix: "/usr/driver"}, false); err == nil || !strings.Contains(err.Error(), "usr/text: not an ELF file") {
		t.Errorf("Make: %v", err)
	}
	left, err := os.ReadDir(filepath.Join(h.Root.Dir, "usr/driver"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Another process that holds the lock and does not go on (it is stopped) is not waited for without end.
func TestAnInstallationDoesNotWaitForEver(t *testing.T) {
	defer func(d time.Duration) { plainfile.LockWait = d }(plainfile.LockWait)
	plainfile.LockWait = 300 * time.Millisecond
	h, m := withDriver(t)
	d := &host.Driver{Machine: m.Name}
	if _, err := Make(h, d, &offer.Offer{Entries: []offer.Entry{{Name: driver.LibCUDA, Target: "/x"}}}, Site{Prefix: "/usr/driver"}, false); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(h.Root.Dir, "usr/driver", lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_, err = Make(h, d, &offer.Offer{Entries: []offer.Entry{{Name: driver.LibCUDA, Target: "/y"}}}, Site{Prefix: "/usr/driver"}, false)
	if err == nil || !strings.Contains(err.Error(), "/usr/driver/.lock for 300ms; is it stopped?") {
		t.Error(err)
	}
}

// withDriver returns a host with a driver, for which nothing was installed.
func withDriver(t *testing.T) (*host.Host, host.Machine) {
	t.Helper()
	m, err := host.MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	return &host.Host{Root: sysroot.Root{Dir: hosttest.Copied("usr/lib64", "535.1.2").Make(t)}}, m
}

// Vendors' files are exchanged with the libraries, and what somebody else has beside them stays.
func TestBesideTheLibraries(t *testing.T) {
	h, m := withDriver(t)
	opencl := tinyelf.Object{}.With(elf.DT_SONAME, "libnvidia-opencl.so.1").Bytes()
	at := filepath.Join(h.Root.Dir, "usr/lib64/libnvidia-opencl.so.535.1.2")
	if err := os.WriteFile(at, opencl, 0o755); err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(h.Root.Dir, "usr/driver")
	step := func(what, action string, icd bool) {
		t.Helper()
		d, err := h.Find(m)
		if err != nil {
			t.Fatal(err)
		}
		in, err := Make(h, d, offer.Links(d), Site{Prefix: "/usr/driver"}, false)
		if err != nil || in.Action != action {
			t.Errorf("%s: %+v, %v", what, in, err)
		}
		b, err := os.ReadFile(filepath.Join(top, "etc/OpenCL/vendors/nvidia.icd"))
		if want := "/usr/driver/lib/libnvidia-opencl.so.1\n"; icd && string(b) != want || !icd && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %q, %v", what, b, err)
		}
	}
	step("at first", "made", true)
	step("again", "unchanged", true)
	if err := os.Remove(filepath.Join(top, "etc")); err != nil {
		t.Fatal(err)
	}
	step("after a kill before the link", "replaced", true)
	if err := os.Rename(at, at+".old"); err != nil {
		t.Fatal(err)
	}
	step("a driver without it", "replaced", false)
	if left, err := os.ReadDir(top); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := errors.Join(os.Rename(at+".old", at), os.Mkdir(filepath.Join(top, "etc"), 0o755), os.WriteFile(filepath.Join(top, "etc/mine"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	step("somebody's directory", "replaced", false)
	step("somebody's directory, again", "unchanged", false)
	if _, err := Remove(h, Site{Prefix: "/usr/driver"}, false); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(top); err != nil || len(left) != 1 || left[0].Name() != "etc" {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.RemoveAll(filepath.Join(top, "etc")); err != nil {
		t.Fatal(err)
	}
	step("once more", "made", true)
	if _, err := Remove(h, Site{Prefix: "/usr/driver"}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(top); err == nil {
		t.Error("Remove leaves something")
	}
}

// What programs see is a link to where the copies are. It is made whatever of ours is in its place, and nothing of somebody
// else's goes.
func TestTheLinkToTheCopies(t *testing.T) {
	old := func(at string) error { // as hostDriver made it before there was a link
		return errors.Join(os.MkdirAll(at+"/"+generation+"0/share", 0o755), os.Symlink(generation+"0", at+"/lib"), os.Symlink("lib/share", at+"/share"), os.Mkdir(at+"/"+offer.Fresh+"1", 0o755))
	}
	for name, c := range map[string]struct {
		there  func(at string) error
		action string // "": it stays
	}{
		"nothing":                         {func(string) error { return nil }, "made"},
		"our link, after boot":            {func(at string) error { return os.Symlink("../var/lib/hostDriver/driver", at) }, "made"},
		"our link, absolute":              {func(at string) error { return os.Symlink("/var/lib/hostDriver/driver", at) }, "replaced"},
		"an older hostDriver's directory": {old, "replaced"},
		"links by tmpfiles": {func(at string) error {
			return errors.Join(os.MkdirAll(at+"/lib/etc/OpenCL/vendors", 0o755), os.Symlink("/old/libcuda.so.1", at+"/lib/libcuda.so.1"),
				os.Symlink("../factory", at+"/lib/etc/OpenCL/vendors/nvidia.icd"))
		}, "replaced"},
		"an older one's, and somebody's file": {func(at string) error { return errors.Join(old(at), os.WriteFile(at+"/mine", nil, 0o644)) }, ""},
		"somebody's directory":                {func(at string) error { return os.MkdirAll(at+"/share", 0o755) }, ""},
		"somebody's libraries": {func(at string) error {
			return errors.Join(os.MkdirAll(at+"/lib", 0o755), os.WriteFile(at+"/lib/libmine.so", nil, 0o644))
		}, ""},
		"somebody's link": {func(at string) error { return os.Symlink("/elsewhere", at) }, ""},
		"a file":          {func(at string) error { return os.WriteFile(at, nil, 0o644) }, ""},
	} {
		h, m := withDriver(t)
		d, err := h.Find(m)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(h.Root.Dir, "run/driver")
		mkdirs(t, filepath.Dir(at))
		if err := c.there(at); err != nil {
			t.Fatal(err)
		}
		before := hosttest.Modes(t, h.Root.Dir)
		s := Site{"/run/driver", "/var/lib/hostDriver"}
		for _, dryRun := range []bool{true, false} {
			in, err := Make(h, d, offer.Copies(h, d), s, dryRun)
			if (err == nil) != (c.action != "") || err == nil && in.Action != c.action {
				t.Errorf("%s: %+v, %v", name, in, err)
			}
			if dryRun && !maps.Equal(before, hosttest.Modes(t, h.Root.Dir)) {
				t.Errorf("%s: a dry run changed something", name)
			}
		}
		if c.action == "" {
			if things, err := made.Read(h); err != nil || len(things) > 0 {
				t.Errorf("%s: what was refused is on record: %v, %v", name, things, err)
			}
			for at, mode := range before {
				if now, err := os.Lstat(at); err != nil || now.Mode() != mode {
					t.Errorf("%s: %s was %v: %v", name, at, mode, err)
				}
			}
			continue
		}
		if target, err := os.Readlink(at); target != "../var/lib/hostDriver/driver" {
			t.Errorf("%s: %s, %v", name, target, err)
		}
		if _, err := os.Stat(at + "/lib/libcuda.so.1"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if in, err := Make(h, d, offer.Copies(h, d), s, false); err != nil || in.Action != "unchanged" {
			t.Errorf("%s: again: %+v, %v", name, in, err)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
		if in, err := Make(h, d, offer.Copies(h, d), s, false); err != nil || in.Action != "made" {
			t.Errorf("%s: after a boot: %+v, %v", name, in, err)
		}
		// Another state directory: the first one's copies go, and so does all by one removal, whichever is asked for.
		other := Site{"/run/driver", "/srv/other"}
		if in, err := Make(h, d, offer.Links(d), other, false); err != nil || in.Action != "replaced" {
			t.Errorf("%s: elsewhere: %+v, %v", name, in, err)
		}
		if _, err := os.Lstat(filepath.Join(h.Root.Dir, "var/lib/hostDriver/driver")); err == nil {
			t.Errorf("%s: the copies are still in the first state directory", name)
		}
		if done, err := Remove(h, s, false); err != nil || len(done) != 1 || done[0].Action != "removed" {
			t.Errorf("%s: Remove: %v, %v", name, done, err)
		}
		for _, dir := range []string{"run", "var/lib/hostDriver", "srv/other"} {
			left, _ := os.ReadDir(filepath.Join(h.Root.Dir, dir))
			if len(left) > 0 && filepath.Join(dir, left[len(left)-1].Name()) != "var/lib/hostDriver/made.json" || len(left) > 1 {
				t.Errorf("%s: left in %s: %v", name, dir, left)
			}
		}
		if done, err := Remove(h, s, false); err != nil || len(done) != 0 {
			t.Errorf("%s: Remove again: %v, %v", name, done, err)
		}
	}
}

// Whoever could write the state directory would put libraries into every program.
func TestStateOfOthersIsRefused(t *testing.T) {
	h, m := withDriver(t)
	d, err := h.Find(m)
	if err != nil {
		t.Fatal(err)
	}
	mkdirs(t, filepath.Join(h.Root.Dir, "run"), filepath.Join(h.Root.Dir, "srv/shared"))
	if err := os.Chmod(filepath.Join(h.Root.Dir, "srv/shared"), 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = Make(h, d, offer.Copies(h, d), Site{"/run/driver", "/srv/shared/new"}, false)
	if err == nil || !strings.Contains(err.Error(), "anyone can write /srv/shared") || !strings.Contains(err.Error(), "--state-dir") {
		t.Error(err)
	}
}

// An uninstall may take the state directory away while it is looked at.
func TestFitWhileTheDirectoryGoes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(dir+"/var/lib", 0o755)); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				os.Mkdir(dir+"/var/lib/hostDriver", 0o755)
				os.Remove(dir + "/var/lib/hostDriver")
			}
		}
	}()
	h := &host.Host{Root: sysroot.Root{Dir: dir}}
	for range 5000 {
		if err := (Site{State: "/var/lib/hostDriver"}).Fit(h, "/run/opengl-driver", false); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	<-ended
}
