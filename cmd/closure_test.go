package cmd_test

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/tests/tinyelf"
)

// bindsStore reports whether a directory can be put in the place of /nix for a process.
func bindsStore() bool {
	return exec.Command("unshare", "-rm", "sh", "-c", "mount --bind /tmp /nix").Run() == nil
}

// What resolution notes alone keep in a closure is counted: not what a run path, another file of the package or another
// package names, too, and not what was asked about.
func TestClosureKeptByNotes(t *testing.T) {
	long(t)
	if _, err := exec.LookPath("nix-store"); err != nil {
		t.Skip("no nix-store")
	}
	if !bindsStore() {
		t.Skip("nowhere to bind a store to")
	}
	t.Setenv("NIX_REMOTE", "")
	t.Setenv("NIX_CONFIG", "build-users-group =")
	t.Setenv("HOME", t.TempDir())
	root := t.TempDir()
	at := func(i int, name string) string { return fmt.Sprintf("/nix/store/%032d-%s", i, name) }
	prog, other := at(1, "prog"), at(2, "other")
	noted, deep, listed, text, elsewhere, twice := at(3, "noted"), at(4, "deep"), at(5, "listed"), at(6, "text"), at(7, "elsewhere"), at(8, "twice")
	put := func(name string, contents []byte) {
		os.MkdirAll(filepath.Dir(root+name), 0o755)
		if err := os.WriteFile(root+name, contents, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	says := func(list string, dirs ...string) []byte {
		o := tinyelf.Object{Stack: elf.PF_R | elf.PF_W}.With(elf.DT_RUNPATH, list)
		for _, dir := range dirs {
			o.Resolution += fmt.Sprintf("lib%c.so\x00?%s/lib:=%s/lib/libx.so\x00", 'a'+len(o.Resolution)%26, dir, dir)
		}
		o.Resolution += "\x00"
		return o.Bytes()
	}
	put(prog+"/lib/liba.so", says(listed+"/lib", noted, listed, text, elsewhere, twice, other, prog))
	put(prog+"/lib/libb.so", says("/nowhere", twice))
	put(prog+"/share/doc", []byte("see "+text+"/share\n"))
	put(other+"/lib/libc.so", says(elsewhere+"/lib"))
	for _, p := range []string{noted, deep, listed, text, elsewhere, twice} {
		put(p+"/lib/libx.so", says("/nowhere"))
	}
	var db strings.Builder
	for p, refs := range map[string][]string{prog: {noted, listed, text, elsewhere, twice, other}, other: {elsewhere}, noted: {deep}, deep: nil, listed: nil, text: nil, elsewhere: nil, twice: nil} {
		fmt.Fprintf(&db, "%s\n%064d\n100\n\n%d\n%s", p, 0, len(refs), strings.Join(append(refs, ""), "\n"))
	}
	load := exec.Command("nix-store", "--store", root, "--load-db")
	load.Stdin = strings.NewReader(db.String())
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	audit := func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"-rm", "sh", "-c", `mount --bind "$0/nix" /nix && exec runpath audit "$@"`, root}, args...)...)
	}
	text1, _ := audit("--closure", prog, other).Output()
	for _, want := range []string{
		"resolution notes alone keep 2 store paths in the closure:\n",
		"  " + noted + ", 1 kB: " + prog + "/lib/liba.so\n",
		"  " + twice + ", 1 kB: " + prog + "/lib/liba.so, " + prog + "/lib/libb.so\n",
	} {
		if !strings.Contains(string(text1), want) {
			t.Errorf("not said: %q\n%s", want, text1)
		}
	}
	document, _ := audit("--json", "--closure", prog, other).Output()
	var doc struct {
		Summary explain.Summary `json:"summary"`
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatalf("%v: %s", err, document)
	}
	if k := doc.Summary.KeptByNotes; len(k) != 2 || k[0].Object != noted || k[0].Bytes != 200 || k[1].Object != twice || k[1].Bytes != 100 || len(k[1].Files) != 2 {
		t.Errorf("%+v", k)
	}
	if out, _ := audit("--closure", prog, other, noted, twice).Output(); strings.Contains(string(out), "notes alone keep") {
		t.Errorf("what was asked about is kept by nothing else: %s", out)
	}
}
