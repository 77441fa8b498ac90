package hostdriver

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
	"cuda-runpath/tests/tinyelf"
)

// library writes a library of the driver into a tree, with the link of its soname.
func library(t *testing.T, dir, soname, version string, o tinyelf.Object) {
	t.Helper()
	stem, _, _ := strings.Cut(soname, ".so")
	write(t, filepath.Join(dir, stem+".so."+version), string(o.With(elf.DT_SONAME, soname).Bytes()))
	if err := os.Symlink(stem+".so."+version, filepath.Join(dir, soname)); err != nil {
		t.Fatal(err)
	}
}

// hostTree returns a tree of a host with a driver for x86-64, a library of which loads another.
func hostTree(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	if err := os.Mkdir(filepath.Join(tree, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(tree, "usr/lib64")
	library(t, dir, "libcuda.so.1", "535.1.2", tinyelf.Object{}.Needs("libnvidia-ptxjitcompiler.so.1"))
	library(t, dir, "libnvidia-ptxjitcompiler.so.1", "535.1.2", tinyelf.Object{})
	library(t, dir, "libnvidia-ml.so.1", "535.1.2", tinyelf.Object{})
	return tree
}

// The driver's 32-bit libraries are gone since the last time: their link goes too, and what somebody else made stays.
func TestInstallWithdrawsADriverThatIsGone(t *testing.T) {
	tree := hostTree(t)
	link32 := filepath.Join(tree, "run/opengl-driver-32/lib")
	library(t, filepath.Join(tree, "usr/lib32"), "libcuda.so.1", "535.1.2", tinyelf.Object{Class: elf.ELFCLASS32, Machine: elf.EM_386})
	if status, said := runs("install", "--root", tree); status != 0 || strings.Count(said, ": made (") != 2 {
		t.Fatalf("status %d, %q", status, said)
	}
	if err := os.RemoveAll(filepath.Join(tree, "usr/lib32")); err != nil {
		t.Fatal(err)
	}
	if status, said := runs("install", "--root", tree, "--dry-run"); status != 0 || !strings.Contains(said, "/run/opengl-driver-32/lib: would be removed") {
		t.Errorf("status %d, %q", status, said)
	}
	for _, args := range [][]string{{"--machine", "x86_64"}, {"--from", "/usr/lib64"}} { // which say nothing of the other machine
		runs(append([]string{"install", "--root", tree}, args...)...)
		if _, err := os.Readlink(link32); err != nil {
			t.Fatal(args, err)
		}
	}
	if status, said := runs("install", "--root", tree); status != 0 || !strings.Contains(said, "/run/opengl-driver-32/lib: removed") {
		t.Errorf("status %d, %q", status, said)
	}
	if _, err := os.Lstat(filepath.Dir(link32)); err == nil {
		t.Error("it is still there")
	}
	if err := os.MkdirAll(link32, 0o755); err != nil {
		t.Fatal(err)
	}
	if status, said := runs("install", "--root", tree); status != 0 {
		t.Errorf("status %d, %q", status, said)
	}
	if _, err := os.Lstat(link32); err != nil {
		t.Error(err)
	}
}

// --quiet says of a compat package what is a problem: not that it is used.
func TestQuietOfACompatPackage(t *testing.T) {
	tree := hostTree(t)
	library(t, filepath.Join(tree, "opt/newer"), "libcuda.so.1", "545.1.2", tinyelf.Object{})
	library(t, filepath.Join(tree, "opt/older"), "libcuda.so.1", "525.1.2", tinyelf.Object{})
	if status, said := runs("install", "--root", tree, "--quiet", "--compat", "/opt/newer"); status != 0 || said != "" {
		t.Errorf("status %d, %q", status, said)
	}
	if _, said := runs("install", "--root", tree, "--compat", "/opt/newer"); !strings.Contains(said, "/opt/newer: helps, if this GPU may") {
		t.Error(said)
	}
	if _, said := runs("install", "--root", tree, "--quiet", "--compat", "/opt/older"); !strings.Contains(said, "/opt/older: harms") {
		t.Error(said)
	}
}

// systemd takes "$" in the path of a program as it is, and "%" and what ends a word as written here (systemd-analyze verify).
func TestProgramOfTheUnit(t *testing.T) {
	tree := hostTree(t)
	for program, want := range map[string]string{
		"/usr/bin/hostDriver": "/usr/bin/hostDriver install", "/a$b": "/a$b install", "/100%": "/100%% install", "/a b": `/a\x20b install`, "/a\nb": `/a\x0ab install`,
	} {
		_, said := runs("tmpfiles", "--root", tree, "--program", program, "--part", "service")
		if !strings.Contains(said, "\nExecStart="+want+"\n") {
			t.Errorf("%s: %s", program, said)
		}
	}
	if _, said := runs("tmpfiles", "--root", tree, "--prefix", "/a$b", "--program", "/p", "--part", "service"); !strings.Contains(said, "\nExecStart=/p install --prefix /a$$b\n") {
		t.Error(said)
	}
}

// Where Home Manager or nix-system-graphics owns the driver link, hostDriver keeps a directory of its own, to which links
// among their packages lead. Nothing of theirs is changed, and their next generation finds the driver as this one does.
func TestInstallBesideAnothersLink(t *testing.T) {
	tree := hostTree(t)
	generation := func(n string) string {
		at := "/nix/store/" + strings.Repeat(n, 32) + "-non-nixos-gpu"
		for _, name := range []string{"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"} {
			file := filepath.Join(tree, at, "lib", name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/run/hostDriver/lib/"+name, file); err != nil {
				t.Fatal(err)
			}
		}
		return at
	}
	link := filepath.Join(tree, "run/opengl-driver")
	theirs := func(target string) { // as "ln -nsf" and tmpfiles' "\nL+" do
		if err := os.Symlink(target, link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
	}
	first, second := generation("0"), generation("1")
	theirs(first)
	if status, said := runs("install", "--root", tree); status != 1 || !strings.Contains(said, "made by Home Manager's targets.genericLinux.gpu: hostDriver install --beside); hostDriver leaves it alone") {
		t.Errorf("status %d, %q", status, said)
	}
	if _, said := runs("doctor", "--root", tree); !strings.Contains(said, "BAD   driver link       /run/opengl-driver/lib holds a dangling libcuda.so.1: /run/hostDriver/lib/libcuda.so.1 is gone") ||
		!strings.Contains(said, "install --beside, and hostDriverLinks among the packages of Home Manager's targets.genericLinux.gpu") {
		t.Error(said)
	}
	for _, action := range []string{"made", "unchanged"} {
		if status, said := runs("install", "--root", tree, "--beside"); status != 0 || !strings.Contains(said, "/run/hostDriver/lib: "+action) {
			t.Errorf("status %d, %q", status, said)
		}
	}
	for _, target := range []string{first, second} {
		theirs(target)
		if at, err := os.Readlink(link); at != target {
			t.Error(at, err)
		}
		if _, said := runs("doctor", "-v", "--root", tree); !strings.Contains(said, "/run/opengl-driver/lib holds 3 names; libcuda.so.1 leads to /var/lib/hostDriver/hostDriver/.hostDriver-") ||
			!strings.Contains(said, "(made by Home Manager's targets.genericLinux.gpu)") {
			t.Error(said)
		}
	}
	// Opened through their links, $ORIGIN is their directory, which has not all of the driver's libraries.
	im, f, err := host.OpenImage(sysroot.Root{Dir: tree}, "/run/hostDriver/lib/libcuda.so.1")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, list, err := im.RunPath(); list != "$ORIGIN:/run/hostDriver/lib" {
		t.Error(list, err)
	}
	// What hostDriver made is no source for it: without the driver, there is none.
	if err := os.RemoveAll(filepath.Join(tree, "usr/lib64")); err != nil {
		t.Fatal(err)
	}
	if status, said := runs("find", "--root", tree); status != 1 {
		t.Errorf("status %d, %q", status, said)
	}
	if status, said := runs("uninstall", "--root", tree, "--beside"); status != 0 || !strings.Contains(said, "/run/hostDriver/lib: removed") {
		t.Errorf("status %d, %q", status, said)
	}
	if status, said := runs("install", "--root", tree, "--beside", "--prefix", "/x"); status != 2 {
		t.Errorf("status %d, %q", status, said)
	}
	// A service that could only fail is not enabled.
	tree = hostTree(t)
	if err := os.Symlink(second, filepath.Join(tree, "run/opengl-driver")); err != nil {
		t.Fatal(err)
	}
	if status, said := runs("tmpfiles", "--root", tree, "--program", "/p"); status != 1 || !strings.Contains(said, "(made by Home Manager's targets.genericLinux.gpu: hostDriver install --beside); hostDriver leaves it alone") {
		t.Errorf("status %d, %q", status, said)
	}
	_, said := runs("tmpfiles", "--root", hostTree(t), "--beside", "--program", "/p", "--dry-run")
	if !strings.Contains(said, "\nExecStart=/p install --beside\n") || !strings.Contains(said, "\nL /run/hostDriver - - - - ../var/lib/hostDriver/hostDriver\n") {
		t.Error(said)
	}
}

// Who may not install, nor take away what root has, is told of root, and how to do without.
func TestAnOrdinaryUserIsToldOfRoot(t *testing.T) {
	tree := hostTree(t)
	if status, said := runs("install", "--root", tree); status != 0 {
		t.Fatal(said)
	}
	// Whatever the umask, that user may read all of it.
	err := filepath.WalkDir(filepath.Dir(tree), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type() == fs.ModeSymlink {
			return err
		}
		return os.Chmod(path, 0o755)
	})
	at := filepath.Join(tree, "var/lib/hostDriver/opengl-driver")
	if err := errors.Join(err, os.Chmod(at, 0o555)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(at, 0o755)
	for command, want := range map[string]string{
		"install --links": "permission denied: needs root; without it: hostDriver run PROGRAM\n",
		"uninstall":       "permission denied: needs root\n",
	} {
		said := make(chan string)
		go func() {
			runtime.LockOSThread() // which ends with its user
			if os.Geteuid() == 0 {
				unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0))
			}
			status, out := runs(append(strings.Fields(command), "--root", tree)...)
			said <- fmt.Sprint(status, " ", out)
		}()
		if got := <-said; !strings.HasPrefix(got, "1 hostDriver: ") || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", command, got)
		}
	}
}

// Of a driver that has nothing to put there, what somebody else has beside lib is no reason to install again.
func TestSomebodyElsesBesideTheLink(t *testing.T) {
	tree := hostTree(t)
	for _, want := range []string{"lib: made", "lib: unchanged", "lib: unchanged"} {
		if status, said := runs("install", "--root", tree); status != 0 || !strings.Contains(said, want) {
			t.Errorf("status %d, %q, not %q", status, said, want)
		}
		if err := os.MkdirAll(filepath.Join(tree, "run/opengl-driver/share"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// The directory of the last installation is the next one's, also where it was an earlier one's before.
func TestTheLastStateDirectory(t *testing.T) {
	tree := hostTree(t)
	for _, dir := range []string{"/a", "/b", "/a", ""} {
		args := []string{"install", "--root", tree, "--machine", "x86_64"}
		if dir != "" {
			args = append(args, "--state-dir", dir)
		}
		if status, said := runs(args...); status != 0 {
			t.Fatalf("status %d, %q", status, said)
		}
	}
	if target, err := os.Readlink(filepath.Join(tree, "run/opengl-driver")); target != "../a/opengl-driver" {
		t.Error(target, err)
	}
}

// In a directory as /tmp, others may make what is to hold the copies before root does, and again once it is gone.
func TestStateDirectoryInAStickyOne(t *testing.T) {
	tree := hostTree(t)
	if err := errors.Join(os.Mkdir(filepath.Join(tree, "tmp"), 0), os.Chmod(filepath.Join(tree, "tmp"), 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/tmp", "/tmp/x"} {
		status, said := runs("install", "--root", tree, "--machine", "x86_64", "--state-dir", dir)
		if status != 1 || !strings.Contains(said, "anyone can write /tmp; ") {
			t.Errorf("%s: status %d, %q", dir, status, said)
		}
	}
}

// A link of somebody else's for 32-bit programs is no fault of an installation that has nothing for them.
func TestInstallBesideAnothersLinkOf32Bits(t *testing.T) {
	tree := hostTree(t)
	if err := os.Symlink("/elsewhere", filepath.Join(tree, "run/opengl-driver-32")); err != nil {
		t.Fatal(err)
	}
	if status, said := runs("install", "--root", tree); status != 0 {
		t.Errorf("status %d, %q", status, said)
	}
}

// A unit that somebody else wrote under the same name stays.
func TestSomebodyElsesUnit(t *testing.T) {
	tree := hostTree(t)
	unit := filepath.Join(tree, "etc/systemd/system/hostDriver.service")
	write(t, unit, "[Service]\n")
	status, said := runs("tmpfiles", "--root", tree, "--program", "/p")
	if b, err := os.ReadFile(unit); status != 1 || string(b) != "[Service]\n" || !strings.Contains(said, "hostDriver.service is there already") {
		t.Errorf("status %d, %q; %q, %v", status, said, b, err)
	}
}

// Where nothing reads the files, that is said; where systemd is there, it is not.
func TestTmpfilesWithoutSystemd(t *testing.T) {
	tree := hostTree(t)
	const says = "without systemd nothing here reads these files"
	if status, said := runs("tmpfiles", "--root", tree, "--program", "/p"); status != 0 || strings.Count(said, says) != 1 {
		t.Errorf("status %d, %q", status, said)
	}
	write(t, filepath.Join(tree, "usr/bin/systemd-tmpfiles"), "")
	if status, said := runs("tmpfiles", "--root", tree, "--program", "/p"); status != 0 || strings.Contains(said, says) {
		t.Errorf("status %d, %q", status, said)
	}
}

// What is gone is gone: also the directory that a driver link was in, and the system's /run.
func TestUninstallOfWhatIsGone(t *testing.T) {
	tree := hostTree(t)
	if err := os.MkdirAll(tree+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--prefix", "/a/b/driver"}, {"--prefix", "/a/b/other", "--state-dir", "/srv/made/here"}} {
		if status, said := runs(append([]string{"install", "--root", tree}, args...)...); status != 0 {
			t.Fatalf("status %d, %q", status, said)
		}
	}
	if err := os.RemoveAll(tree + "/a"); err != nil {
		t.Fatal(err)
	}
	if status, said := runs("uninstall", "--root", tree); status != 0 || strings.Contains(said, "stays") {
		t.Errorf("status %d, %q", status, said)
	}
	for _, root := range []string{tree, t.TempDir()} { // no record, no /run
		if status, said := runs("uninstall", "--root", root); status != 0 || said != "nothing is installed there\n" {
			t.Errorf("status %d, %q", status, said)
		}
	}
	for _, dir := range []string{"/srv", "/var/lib/hostDriver"} {
		if _, err := os.Lstat(tree + dir); err == nil {
			t.Errorf("%s, which install made, is still there", dir)
		}
	}
}

// Directories that were made for something go with it, if nothing else is in them by then.
func TestUninstallTakesItsDirectories(t *testing.T) {
	tree := hostTree(t)
	if err := os.MkdirAll(tree+"/var/lib", 0o755); err != nil { // which every system has
		t.Fatal(err)
	}
	before := hosttest.Modes(t, tree)
	if status, said := runs("tmpfiles", "--root", tree, "--program", "/p"); status != 0 {
		t.Fatalf("status %d, %q", status, said)
	}
	write(t, tree+"/etc/tmpfiles.d/other.conf", "")
	if status, said := runs("uninstall", "--root", tree); status != 0 {
		t.Errorf("status %d, %q", status, said)
	}
	after := hosttest.Modes(t, tree)
	for _, kept := range []string{"/etc", "/etc/tmpfiles.d", "/etc/tmpfiles.d/other.conf"} {
		if _, ok := after[tree+kept]; !ok {
			t.Errorf("%s is gone", kept)
		}
		delete(after, tree+kept)
	}
	if !maps.Equal(before, after) {
		t.Errorf("%v", after)
	}
}

// Root makes nothing for everybody where somebody else could exchange it.
func TestNothingInDirectoriesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make what is another user's")
	}
	tree := hostTree(t)
	write(t, tree+"/etc/nix/nix.conf", "# root's\n")
	if err := errors.Join(os.MkdirAll(tree+"/home/other/nix", 0o755), os.Symlink("/etc/nix/nix.conf", tree+"/home/other/link.conf"), os.Symlink("/etc/nix", tree+"/home/other/dir"),
		os.Symlink("/srv/x", tree+"/home/other/driver"), os.Chown(tree+"/home/other", 1234, 1234), os.Chown(tree+"/home/other/nix", 1234, 1234)); err != nil {
		t.Fatal(err)
	}
	before := hosttest.Modes(t, tree)
	for _, command := range []string{"sandbox --program /p --conf /home/other/link.conf", "sandbox --program /p --conf /home/other/nix/nix.conf", "sandbox --program /p --conf /home/other/dir/nix.conf",
		"sandbox --dry-run --program /p --conf /home/other/nix/nix.conf", "install --prefix /home/other/nix/driver", "install --prefix /home/other/p", "tmpfiles --program /p --prefix /home/other/p"} {
		if status, said := runs(append(strings.Fields(command), "--root", tree)...); status != 1 || !strings.Contains(said, "belongs to user 1234") {
			t.Errorf("%s: status %d, %q", command, status, said)
		}
	}
	if after := hosttest.Modes(t, tree); !maps.Equal(before, after) || read(t, tree+"/etc/nix/nix.conf") != "# root's\n" {
		t.Error("something was made")
	}
}
