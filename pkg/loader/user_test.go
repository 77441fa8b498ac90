package loader

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What may not be read, or is in a directory that may not be searched, ends no list: the loader goes on with the next
// entry. As root all can be read, so this runs as another user, in a process of its own.
func TestWhatMayNotBeReadEndsNoList(t *testing.T) {
	const env = "LOADER_TEST_AS_ANOTHER_USER"
	if os.Getenv(env) != "" || os.Getuid() != 0 {
		whatMayNotBeRead(t)
		return
	}
	dir, err := os.MkdirTemp("", "loader")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Skip(err)
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "test")
	if err := errors.Join(os.WriteFile(self, program, 0o755), os.Chmod(self, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env+"=1", "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

func whatMayNotBeRead(t *testing.T) {
	for _, closed := range []string{"a", "a/liba.so.1"} {
		for _, musl := range []bool{false, true} {
			s := newStage(t)
			p := prog("liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b")
			if musl {
				s.noReal, p.Interp = true, s.dir+"/ld-musl-x86_64.so.1"
				s.put("ld-musl-x86_64.so.1", lib("libc.musl-x86_64.so.1"))
			}
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("b/liba.so.1", lib("liba.so.1"))
			s.put("p", p)
			if err := os.Chmod(s.dir+"/"+closed, 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Chmod(s.dir+"/a", 0o755) })
			o := s.want("p", "liba.so.1", "~/b/liba.so.1", ByRunPath)
			if len(o.Tried) == 0 || !strings.Contains(o.Tried[0].Why, "may not be read") {
				t.Errorf("%s, musl %v: tried %+v", closed, musl, o.Tried)
			}
		}
	}
}
