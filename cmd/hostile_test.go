package cmd_test

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"cuda-runpath/tests/tinyelf"
)

// A file that is made to keep explain busy does not take more memory than the machine has.
func TestMemoryOfAHostileFile(t *testing.T) {
	long(t)
	dir := t.TempDir()
	const most = 128 << 20 // bytes
	o := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}
	var list []string
	for i := range 1500 {
		d := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	for i := range 3000 { // each is looked for everywhere, until the search is given up
		o.Strings = append(o.Strings, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: fmt.Sprintf("libmissing%d.so", i)})
	}
	o.Strings = append(o.Strings, tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: strings.Join(list, ":")})
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, o.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	end, measure := measuring(t)
	defer end()
	m := measure(t, &growing{run: "runpath explain " + program, says: "libmissing0.so → not found"})
	if m.Bytes > most {
		t.Errorf("%d MiB", m.Bytes>>20)
	}
}

// outputs are the flags of audit that name a file to write.
var outputs = [][]string{{"--html"}, {"--sarif"}, {"--update-baseline", "--baseline"}}

// auditInto runs audit with its report going to a file.
func auditInto(t *testing.T, flags []string, name string) (stdout, stderr string, status int) {
	t.Helper()
	var out, log strings.Builder
	cmd := exec.Command("runpath", append(append([]string{"audit"}, flags...), name, "lib.so")...)
	cmd.Stdout, cmd.Stderr = &out, &log
	_ = cmd.Run()
	return out.String(), log.String(), cmd.ProcessState.ExitCode()
}

// A report goes where ">" would put it: into what is there, whatever that is.
func TestReportsAreWrittenAsAShellDoes(t *testing.T) {
	t.Chdir(t.TempDir())
	shared(t, "lib.so", "-Wl,--enable-new-dtags,-rpath,/nowhere")
	for _, flags := range outputs {
		for _, name := range []string{"pipe", "link", "real", "private", "twice"} {
			os.Remove(name)
		}
		if err := unix.Mkfifo("pipe", 0o600); err != nil {
			t.Fatal(err)
		}
		got := make(chan string)
		go func() {
			f, err := os.Open("pipe")
			if err != nil {
				got <- err.Error()
				return
			}
			defer f.Close()
			b, _ := io.ReadAll(f)
			got <- string(b)
		}()
		_, said, status := auditInto(t, flags, "pipe")
		select {
		case text := <-got:
			if status != 0 || len(text) < 50 {
				t.Errorf("%s: through a pipe came %q: %d %s", flags, text, status, said)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: nothing came through a pipe: %d %s", flags, status, said)
		}
		if info, err := os.Lstat("pipe"); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
			t.Errorf("%s: the pipe is one no more: %v", flags, info.Mode())
		}
		if err := os.WriteFile("real", []byte(strings.Repeat("before ", 1<<20)), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("real", "link"); err != nil {
			t.Fatal(err)
		}
		if err := os.Link("real", "twice"); err != nil {
			t.Fatal(err)
		}
		auditInto(t, flags, "link")
		want, err := os.ReadFile("twice")
		if info, _ := os.Lstat("link"); err != nil || info.Mode()&os.ModeSymlink == 0 || strings.Contains(string(want), "before before") || len(want) < 50 {
			t.Errorf("%s: a link is not followed, or the file has another name no more: %d bytes", flags, len(want))
		}
		if info, err := os.Stat("real"); err != nil || info.Mode() != 0o640 {
			t.Errorf("%s: the mode is %v now", flags, info.Mode())
		}
		var full unix.Stat_t
		if err := unix.Stat("/dev/full", &full); err != nil {
			t.Fatal(err)
		}
		if _, said, status := auditInto(t, flags, "/dev/full"); status != 1 || !strings.Contains(said, "writing /dev/full: no space left on device") {
			t.Errorf("%s: /dev/full: %d %s", flags, status, said)
		}
		if now := (unix.Stat_t{}); unix.Stat("/dev/full", &now) != nil || now.Ino != full.Ino {
			t.Fatalf("%s: /dev/full is another file now", flags)
		}
		stdout, said, status := auditInto(t, flags, "-")
		if _, err := os.Lstat("-"); err == nil || status != 0 || len(stdout) < 50 || strings.Contains(stdout, "1 file checked") {
			t.Errorf("%s: on stdout: %d %q %s", flags, status, stdout, said)
		}
	}
}

// Whoever owns the directory of a report may exchange what is in it at any moment. No other
// file gets its contents or its mode.
func TestReportsChangeNoOtherFile(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	shared(t, "lib.so", "-Wl,--enable-new-dtags,-rpath,/nowhere")
	if err := os.WriteFile("victim", []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range outputs {
		if err := os.Mkdir("out", 0o777); err != nil {
			t.Fatal(err)
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				entries, _ := os.ReadDir("out")
				for _, e := range entries {
					if e.Name() != "report" {
						at := filepath.Join("out", e.Name())
						os.Remove(at)
						os.Symlink(wd+"/victim", at)
					}
				}
			}
		}()
		for range 30 {
			auditInto(t, flags, "out/report")
			if info, err := os.Lstat("out/report"); err == nil && info.Mode()&os.ModeSymlink != 0 {
				os.Remove("out/report") // what stood under the temporary name when it was renamed: the attacker's own
			}
		}
		close(stop)
		<-done
		os.RemoveAll("out")
		b, err := os.ReadFile("victim")
		if err != nil || string(b) != "secret" {
			t.Fatalf("%s: the victim holds %d bytes, %v", flags, len(b), err)
		}
		if info, _ := os.Stat("victim"); info.Mode() != 0o600 {
			t.Fatalf("%s: the victim's mode is %v", flags, info.Mode())
		}
	}
}

// unseen is a name that a terminal would obey: an escape sequence (of both kinds), DEL, a change of direction.
const unseen = "a\x1b[31m\u009b\x7f\u202eb\u2066\u200f"

// Whatever names and contents are, nothing of them is for the terminal to obey, be it text or JSON.
func TestNothingUnseenIsPrinted(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"d", "x/stubs"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shared(t, "x/"+unseen+".so", "-Wl,-soname,"+unseen+".so")
	shared(t, "d/"+unseen+".so", "-Wl,-soname,"+unseen+",--enable-new-dtags,-rpath,/"+unseen+":$ORIGIN/../x:x::/"+unseen+"/stubs:"+unseen, "-Wl,--no-as-needed", "-xnone", "x/"+unseen+".so")
	if out, err := exec.Command("cc", "-xc", "-o", "d/"+unseen, "-Wl,-rpath,/"+unseen+",--dynamic-linker=/"+unseen, "-Wl,--unresolved-symbols=ignore-all", "-Wl,-e,0", "/dev/null", "-Wl,--no-as-needed", "-xnone", "x/"+unseen+".so").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := func(path, contents string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(contents), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text("d/"+unseen+".py", "import ctypes\nx = '"+unseen+"'; ctypes.CDLL('libcuda.so.1') # "+unseen+"\nctypes.CDLL('libcuda.so.1')\n")
	text("d/broken"+unseen, "\x7fELF")
	if err := os.Symlink("../x", "d/link"+unseen); err != nil {
		t.Fatal(err)
	}
	var elfs, all []string
	for _, name := range []string{".so", "", ".py"} {
		all = append(all, "d/"+unseen+name)
	}
	elfs = all[:2]
	lines := [][]string{
		{"runpath", "show", "d"}, {"runpath", "audit", "-v", "d"}, {"runpath", "audit", "--sarif", "-", "d"}, {"runpath", "audit", "--html", "-", "d"},
		{"runpath", "audit", "--update-baseline", "--baseline", "-", "d"}, {"noRunpathAmbiguity", "-v", "d"}, {"runpath", "gpu", "d"}, {"runpath", "gpu", "--for", "9.0", "d"},
		{"runpath", "scripts", "-v", "d"}, {"runpath", "scripts", "--substitute", "d"}, {"runpath", "scripts", "--substitute", "--driver-link", "/" + unseen, "d"},
		append([]string{"runpath", "explain", "--all"}, elfs...), append([]string{"runpath", "explain", "-v"}, all...), append([]string{"runpath", "explain", "--unused", "--undefined", "--versions"}, elfs...),
		append([]string{"runpath", "explain", "--graph"}, elfs...), {"runpath", "explain", "--lib", unseen, elfs[0]},
		{"stubReplace", "-v", "--dry-run", "d"}, {"autoAddDriverRunpath", "-v", "--dry-run", "--driver-link", "/" + unseen, "d"}, {"runpath", "shrink", "--dry-run", "d"},
		{"runpath", "set", "--dry-run", "/" + unseen, "d"}, {"runpath", "set", unseen, "d"}, {"runpath", "edit", "--dry-run", "--add-needed", unseen, "d"},
		{"runpath", "edit", "--dry-run", "--soname", unseen, "--interpreter", "/" + unseen, "--remove-needed", unseen + ".so", "d"},
		{"autoPatchelf", "-v", "--dry-run", "--append-rpaths", "/" + unseen, "d"}, {"autoPatchelf", "--structured-logs", "--dry-run", "--append-rpaths", "/" + unseen, "d"}, {"autoPatchelf", "--undo", "d/" + unseen},
		{"hostDriver", "doctor", elfs[1]}, {"hostDriver", "doctor", all[2]}, {"hostDriver", "find", "--from", "d"}, {"hostDriver", "run", unseen}, {"runpath", unseen}, {"runpath", "--" + unseen}, {"runpath", "set", "--" + unseen, "d"}, {"hostDriver", "--" + unseen},
		{"patchelf", "--print-rpath", "--print-soname", "--print-needed", elfs[0]},
	}
	for _, line := range lines {
		for _, args := range [][]string{line, append(append([]string{}, line...), "--json")} {
			if args[0] == "patchelf" { // which prints what is there, as patchelf does
				continue
			}
			out, _ := exec.Command(args[0], args[1:]...).CombinedOutput()
			if i := strings.IndexFunc(string(out), func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q prints %q", args, out[max(0, i-60):min(len(out), i+20)])
			}
		}
	}
}

// What opening a device does nobody has asked for: a FIFO, which tells who opens it, stands for a tape or a watchdog with
// the name of a library, a cache or an argument.
func TestWhatIsNoRegularFileIsNotOpened(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"tree", "odd", "root/usr/lib64", "root/etc"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	shared(t, "odd/libodd.so", "-Wl,-soname,libodd.so")
	shared(t, "tree/lib.so", "-Wl,--no-as-needed", "-Wl,--enable-new-dtags,-rpath,"+wd+"/odd", "-Lodd", "-lodd")
	if err := os.Remove("odd/libodd.so"); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(watch)
	watched := map[int]string{}
	for _, name := range []string{"odd/libodd.so", "tree/odd.so", "root/usr/lib64/libcuda.so.1", "root/etc/ld.so.cache", "root/etc/ld.so.preload"} {
		if err := unix.Mkfifo(name, 0o666); err != nil {
			t.Fatal(err)
		}
		n, err := unix.InotifyAddWatch(watch, name, unix.IN_OPEN)
		if err != nil {
			t.Skip(err)
		}
		watched[n] = name
	}
	if err := os.Symlink("odd.so", "tree/link.so"); err != nil {
		t.Fatal(err)
	}
	opened := func() (names []string) {
		b := make([]byte, 4096)
		for n, _ := unix.Read(watch, b); n >= unix.SizeofInotifyEvent; n -= unix.SizeofInotifyEvent {
			names = append(names, watched[int(b[0])])
			b = b[unix.SizeofInotifyEvent:]
		}
		return names
	}
	if f, err := os.OpenFile("tree/odd.so", os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil || len(opened()) != 1 {
		t.Fatal("the test tests nothing: ", err)
	} else {
		f.Close()
	}
	for _, args := range [][]string{
		{"runpath", "show", "tree"}, {"runpath", "show", "tree/odd.so"}, {"runpath", "show", "tree/link.so"}, {"runpath", "list", "tree/lib.so"},
		{"runpath", "explain", "tree/lib.so"}, {"runpath", "explain", "tree/odd.so"}, {"runpath", "explain", "tree/link.so"}, {"runpath", "explain", "--root", "root", "tree/lib.so"},
		{"runpath", "audit", "tree"}, {"runpath", "audit", "--root", "root", "tree"}, {"runpath", "manifest", "tree"}, {"runpath", "manifest", "--diff", "tree", "root"}, {"runpath", "references", "tree", "tree/odd.so", "tree/link.so"}, {"runpath", "scripts", "tree/link.so", "tree/odd.so"},
		{"runpath", "gpu", "tree/lib.so", "tree/odd.so", "tree/link.so"}, {"runpath", "shrink", "--dry-run", "tree/lib.so"}, {"runpath", "normalize", "--dry-run", "tree/odd.so", "tree/lib.so"},
		{"autoPatchelf", "--dry-run", "--libs", "odd", "--libs", "tree/odd.so", "tree"}, {"autoPatchelf", "--undo", "tree/odd.so"}, {"stubReplace", "tree/lib.so"},
		{"addCudaCompatRunpath", "tree/link.so"}, {"noRunpathAmbiguity", "tree/link.so", "tree"}, {"runpath", "gpu", "--for", "9.0", "tree/link.so", "tree/lib.so"},
		{"runpath", "patchelf", "--shrink-rpath", "tree/lib.so"}, {"runpath", "patchelf", "--print-rpath", "tree/link.so"},
		{"hostDriver", "find", "--root", "root", "--machine", "x86_64"}, {"hostDriver", "doctor", "--root", "root"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		out, _ := cmd.CombinedOutput()
		if names := opened(); len(names) > 0 {
			t.Errorf("%q opens %q: %s", args, names, out)
		}
		if strings.Contains(string(out), "USAGE") || strings.Contains(string(out), "not defined") {
			t.Errorf("%q: %s", args, out)
		}
	}
}
