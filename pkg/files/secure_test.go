package files

import (
	"encoding/binary"
	"os"
	"testing"

	"cuda-runpath/tests/tinyelf"

	"golang.org/x/sys/unix"
)

// A program has more rights than its caller by a set-user-ID bit, by a set-group-ID bit where its group may execute it, and by
// capabilities: permitted ones, in either word, or any with the effective bit. Inheritable ones alone give nothing to a caller
// who has none (cap_bprm_creds_from_file of security/commoncap.c).
func TestMoreRightsThanTheCaller(t *testing.T) {
	p := t.TempDir() + "/p"
	if err := os.WriteFile(p, tinyelf.Object{Interp: "/lib/ld.so"}.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	secure := func() string { return New(Options{}).Open(p).Secure() }
	for mode, want := range map[os.FileMode]string{
		0o755: "", 0o755 | os.ModeSetuid: "set-user-ID", 0o755 | os.ModeSetgid: "set-group-ID", 0o745 | os.ModeSetgid: "", 0o700 | os.ModeSetgid: "",
		0o755 | os.ModeSetgid | os.ModeSetuid: "set-user-ID",
	} {
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		if got := secure(); got != want {
			t.Errorf("%v: %q, want %q", mode, got, want)
		}
	}
	os.Chmod(p, 0o755)
	const v2, effective, net = 0x02000000, 1, 1 << 10
	for _, c := range []struct {
		what  string
		words []uint32 // magic and flags; permitted, inheritable; the same for the capabilities from 32 on
		want  bool
	}{
		{"permitted", []uint32{v2, net, 0, 0, 0}, true},
		{"permitted, above 31", []uint32{v2, 0, 0, 1, 0}, true},
		{"permitted and effective", []uint32{v2 | effective, net, 0, 0, 0}, true},
		{"inheritable", []uint32{v2, 0, net, 0, 0}, false},
		{"inheritable, above 31", []uint32{v2, 0, 0, 0, 1}, false},
		{"inheritable and effective", []uint32{v2 | effective, 0, net, 0, 0}, true},
		{"none", []uint32{v2, 0, 0, 0, 0}, false},
	} {
		var b []byte
		for _, w := range c.words {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		if err := unix.Setxattr(p, "security.capability", b, 0); err != nil {
			t.Skip("capabilities of files: ", err)
		}
		if got := secure() == "file capabilities"; got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	os.Chmod(p, 0o644)
	unix.Setxattr(p, "security.capability", binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 2}, net), 0), 0)
	if got := secure(); got != "" {
		t.Errorf("a file that is no program: %q", got)
	}
}
