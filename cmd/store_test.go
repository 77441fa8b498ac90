package cmd_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/remedy"
)

// storeHash is the hash of the store paths that these tests make.
const storeHash = "0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-"

// finish makes a directory of a store what a finished store path is: nobody may write it, and it is of 1970-01-01.
func finish(t *testing.T, object string) {
	t.Helper()
	err := filepath.WalkDir(object, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type()&os.ModeSymlink == 0 {
			err = os.Chmod(path, map[bool]os.FileMode{true: 0o555, false: 0o444}[e.IsDir()])
		}
		of1970 := unix.Timespec{Sec: 1}
		return errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{of1970, of1970}, unix.AT_SYMLINK_NOFOLLOW))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { writableAll(object) })
}

// storeOf makes a store with a package that is finished, one that is being built, and one that a build has copied with its
// mode and time but for the directory itself; and a package in another system's root.
func storeOf(t *testing.T) (store string) {
	t.Helper()
	t.Chdir(t.TempDir())
	d, _ := os.Getwd()
	d, _ = filepath.EvalSymlinks(d)
	store = d + "/nix/store"
	os.MkdirAll("keep", 0o755)
	os.WriteFile("keep/cubin.s", []byte(".section .nv_fatbin,\"a\"; .4byte 0xBA55ED50; .2byte 1, 16; .8byte 2f-1f; 1: "+entryOf(2, 80)+entryOf(2, 90)+"2:\n"), 0o644)
	library(t, "keep/libneeded.so.1", "libneeded.so.1", "")
	library(t, "keep/lib.so", "libx.so.1", "", "keep/cubin.s", "keep/libneeded.so.1", "-Wl,-z,execstack", "-Wl,-rpath,/cuda/stubs:/a:/a:"+d+"/keep:"+d+"/gone")
	for _, object := range []string{"done", "building", "copied"} {
		at := "nix/store/" + storeHash + object
		os.MkdirAll(at+"/lib", 0o755)
		if out, err := exec.Command("cp", "keep/lib.so", at+"/lib/").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		os.WriteFile(at+"/lib/s.py", []byte("import ctypes\nctypes.CDLL('libcuda.so.1')\n"), 0o644)
	}
	finish(t, "nix/store/"+storeHash+"done")
	finish(t, "nix/store/"+storeHash+"copied")
	os.Chmod("nix/store/"+storeHash+"copied", 0o755)
	if os.Getuid() != 0 { // who needs leave to make a copy beside a file
		os.Chmod("nix/store/"+storeHash+"copied/lib", 0o755)
		os.Chmod("nix/store/"+storeHash+"done/lib", 0o755)
	}
	os.Mkdir("nix/store/.links", 0o755)
	os.Link("nix/store/"+storeHash+"done/lib/lib.so", "nix/store/.links/1111111111111111111111111111111111111111111111111111")
	os.Symlink("nix/store/"+storeHash+"done", "result")
	if out, err := exec.Command("cp", "-a", "--parents", "nix/store/"+storeHash+"done", "keep/").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { writableAll(d) })
	return store
}

// everyEditor are the commands that change a file, what they take beside it, and which file of the package they are for.
var everyEditor = [][]string{
	{"stubReplace"}, {"autoAddDriverRunpath"}, {"addCudaCompatRunpath", "--compat", "/c/compat"}, {"autoPatchelf", "--append-rpaths", "/r"},
	{"autoPatchelf", "--no-record", "--append-rpaths", "/r"}, {"runpath", "thin", "--for", "9.0"},
	{"runpath", "set", "/b"}, {"runpath", "set", "--in-place", "/b"}, {"runpath", "add", "/b"}, {"runpath", "remove", "/a"}, {"runpath", "remove", "--all"},
	{"runpath", "edit", "--add-entry", "/b"}, {"runpath", "normalize", "--dedupe"}, {"runpath", "shrink"}, {"runpath", "cache", "write"},
	{"runpath", "scripts", "--fix"},
}

// A finished store path is refused, however it is named and whatever a build's variables say; nothing of it changes. What
// is no finished path is edited.
func TestEditorsRefuseTheStore(t *testing.T) {
	store := storeOf(t)
	object := store + "/" + storeHash + "done"
	t.Setenv("out", object)
	t.Setenv("NIX_BUILD_TOP", t.TempDir())
	t.Setenv("IN_NIX_SHELL", "impure")
	was := everything(t, object)
	os.Symlink(store, "link")
	for _, how := range []struct {
		name, variable string
		flags          []string
	}{
		{"NIX_STORE", store, nil}, {"a link", filepath.Dir(filepath.Dir(store)) + "/link", nil}, {"--store", "", []string{"--store", store}},
	} {
		t.Setenv("NIX_STORE", how.variable)
		for i, editor := range everyEditor {
			if i > 1 && how.name != "NIX_STORE" {
				break // which stores there are, all ask alike
			}
			run := func(flags ...string) (string, int) {
				return combined(slices.Concat(editor, how.flags, flags)...)
			}
			line := how.name + ": " + strings.Join(editor, " ")
			file := "lib/lib.so"
			if editor[len(editor)-1] == "--fix" {
				file = "lib/s.py"
			}
			for _, argument := range []string{object + "/" + file, object + "/lib", object, "result/" + file, "nix/store/" + storeHash + "done", "nix/store/.links", store} {
				copied, _ := os.ReadFile(store + "/" + storeHash + "copied/" + file)
				building, _ := os.ReadFile(store + "/" + storeHash + "building/" + file)
				said, status := run(argument)
				if status != 1 || !strings.Contains(said, "finished") || !strings.Contains(said, "chmod -R u+w") || !strings.Contains(said, "--even-in-store") {
					t.Fatalf("%s %s: status %d: %s", line, argument, status, said)
				}
				if now := everything(t, object); now != was {
					t.Fatalf("%s %s changes the store: %s", line, argument, said)
				}
				if argument == store { // the others are done
					for _, other := range []struct{ name, was string }{{"copied", string(copied)}, {"building", string(building)}} {
						at := store + "/" + storeHash + other.name + "/" + file
						if now, _ := os.ReadFile(at); string(now) == other.was {
							t.Errorf("%s %s leaves %s as it is: %s", line, argument, at, said)
						}
						os.Remove(at)
						os.WriteFile(at, []byte(other.was), 0o444)
					}
				}
			}
			if said, status := run("--dry-run", object+"/"+file); status != 0 || everything(t, object) != was {
				t.Errorf("%s --dry-run: status %d: %s", line, status, said)
			}
			elsewhere := "keep/nix/store/" + storeHash + "done/" + file
			before, _ := os.ReadFile(elsewhere)
			if said, status := run(elsewhere); status != 0 {
				t.Errorf("%s of a copy in another root: status %d: %s", line, status, said)
			} else if after, _ := os.ReadFile(elsewhere); bytes.Equal(before, after) {
				t.Errorf("%s does not edit a copy in another root: %s", line, said)
			}
			os.Remove(elsewhere)
			os.WriteFile(elsewhere, before, 0o444)
		}
	}
	t.Setenv("NIX_STORE", store)
	for _, args := range [][]string{{"--append-rpaths", "/r"}, {"--undo"}} {
		if out, status := combined(slices.Concat([]string{"autoPatchelf"}, args, []string{"--even-in-store", object})...); status != 0 || everything(t, object) == was {
			t.Errorf("--even-in-store %q: status %d: %s", args, status, out)
		}
		was = everything(t, object)
		if out, status := combined("autoPatchelf", "--undo", object); status == 0 || !strings.Contains(out, "finished") || everything(t, object) != was {
			t.Errorf("--undo: status %d: %s", status, out)
		}
	}
	// The record may be that of what the object is in.
	if out, status := combined("autoPatchelf", "--append-rpaths", "/r", "--even-in-store", store); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
	was = everything(t, object)
	out, status := combined("autoPatchelf", "--undo", store)
	if status == 0 || !strings.Contains(out, object+"/lib/lib.so: is in a finished path") || everything(t, object) != was {
		t.Errorf("--undo of what is above: status %d: %s", status, out)
	}
	if out, status := combined("autoPatchelf", "--undo", "--even-in-store", store); status != 0 || everything(t, object) == was {
		t.Errorf("--undo --even-in-store of what is above: status %d: %s", status, out)
	}
}

// The patchelf personality does what patchelf does, and says what it has done.
func TestPatchelfWarnsOfTheStore(t *testing.T) {
	store := storeOf(t)
	t.Setenv("NIX_STORE", store)
	for object, warned := range map[string]bool{"done": true, "building": false, "copied": false} {
		file := store + "/" + storeHash + object + "/lib/lib.so"
		for _, args := range [][]string{{"--print-rpath"}, {"--output", "to", "--set-rpath", "/of/a/copy"}} {
			if out, err := exec.Command("patchelf", append(args, file)...).CombinedOutput(); err != nil || strings.Contains(string(out), "warning") {
				t.Errorf("%s %q: %v: %s", object, args, err, out)
			}
		}
		out, err := exec.Command("patchelf", "--set-rpath", "/of/patchelf", file).CombinedOutput()
		if err != nil || strings.Contains(string(out), "warning: "+file+" is in a finished path of a Nix store") != warned {
			t.Errorf("%s: %v: %s", object, err, out)
		}
		if got := shownList(t, file); got != "/of/patchelf" {
			t.Errorf("%s has the run path %s", object, got)
		}
	}
}

// everything is what there is of a store path that Nix looks at, and times.
func everything(t *testing.T, object string) string {
	t.Helper()
	var b strings.Builder
	names, all := things(t, object)
	for _, name := range names {
		one := all[name]
		fmt.Fprintf(&b, "%s %o %d.%09d %s %x\n", name, one.Mode, one.Mtim.Sec, one.Mtim.Nsec, one.leads, sha256.Sum256([]byte(one.data)))
	}
	return b.String()
}

// What remedies of files in a store may not have: a command that edits, with a file of the store as what is edited. The values of
// options, and entries, may be directories of it.
var (
	valuesOfCommands = regexp.MustCompile(` --(?:remove-entry|add-entry|replace-entry|driver-link|compat|stub|store|interpreter|replace-needed) \S+|(?:runpath add|runpath set|runpath remove) \S+`)
	editingCommand   = `(?:stubReplace|autoAddDriverRunpath|addCudaCompatRunpath|autoPatchelf|runpath (?:set|add|remove|edit|normalize|shrink|cache|thin|scripts --fix|interpreter|needed|soname|execstack)|ln -s|rm|mv|cp|chmod|patchelf)\b[^;\n]* `
)

// Of a file in a store no finding has a command that would write there, whoever reports it: a remedy says what helps today, and what
// its package says.
func TestRemediesOfAStore(t *testing.T) {
	long(t)
	seen := map[string]map[string]string{} // by identifier and program, the remedy
	count := 0
	said := func(t *testing.T, object, who, id, message, fix string, command []string) {
		t.Helper()
		count++
		if seen[id] == nil {
			seen[id] = map[string]string{}
		}
		seen[id][who] = strings.ReplaceAll(message+"\n  - "+fix, object, "STORE")
		if command != nil && slices.ContainsFunc(command, func(word string) bool {
			return strings.HasPrefix(word, object) || strings.HasPrefix(word, "file.so") || word == "prog"
		}) {
			t.Errorf("%s: %s: the command of %s edits the store: %q", who, id, message, command)
		}
		if strings.Contains(fix, "; for good, ") && !strings.HasPrefix(fix, "for today, ") {
			t.Errorf("%s: %s: %s", who, id, fix)
		}
	}
	for _, c := range append(slices.Clone(remedyCases), storeCases...) {
		t.Run(c.id, func(t *testing.T) {
			top := t.TempDir()
			top, _ = filepath.EvalSymlinks(top)
			object := top + "/nix/store/" + storeHash + "train-1.0"
			os.MkdirAll(object, 0o755)
			args, fill := c.files(t, object)
			cc := append([]string{"-xc", "/dev/null", "-xnone", "-nostdlib", "-Wl,-e,0,--no-as-needed,--unresolved-symbols=ignore-all,--enable-new-dtags"}, neededFiles(t)...)
			if err := compile("prog", cc...); err != nil {
				t.Skip(err)
			}
			if c.list != "" {
				tool(t, "runpath", "set", "-q", "--keep-empty", fill(c.list), "prog")
			}
			finish(t, object)
			was := everything(t, object)
			t.Setenv("NIX_STORE", top+"/nix/store")
			edits := regexp.MustCompile(editingCommand + `(?:` + regexp.QuoteMeta(object) + `|file\.so|prog|s\.py)`)
			var explained []string // the flags that explain and doctor have too
			for i := 0; i+1 < len(args); i++ {
				if slices.Contains([]string{"--stub", "--driver-link", "--compat", "--assume-driver", "--loader-reads-note"}, args[i]) {
					explained = append(explained, args[i], args[i+1])
				}
			}
			withoutNix := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--nix" })
			for _, line := range [][]string{
				append([]string{"runpath", "audit"}, append(slices.Clone(args), ".")...), append([]string{"runpath", "audit"}, append(slices.Clone(args), "file.so", "x")...),
				append([]string{"noRunpathAmbiguity"}, append(withoutNix, "file.so", "prog")...),
				append([]string{"runpath", "explain"}, append(explained, "./file.so", "./prog")...), append([]string{"runpath", "explain", "--lib", "libcuda.so.1"}, append(explained, object+"/prog")...),
				{"hostDriver", "doctor", object + "/prog"}, {"hostDriver", "doctor", object + "/file.so"},
			} {
				if line[0] == "noRunpathAmbiguity" && slices.Contains(line, "--assume-driver") {
					continue
				}
				who := strings.Join(line[:min(2, len(line))], " ")
				if line[0] == "noRunpathAmbiguity" {
					who = line[0]
				}
				text, _ := combined(line...)
				if bad := edits.FindString(valuesOfCommands.ReplaceAllString(text, "")); bad != "" {
					t.Errorf("%q: %s\nof %s", line, bad, text)
				}
				doc := onlyStdout(append(slices.Clone(line), "--json")...)
				var all struct {
					Files []struct {
						Findings []oneFinding
						Driver   []struct {
							Origin, Text string
							remedy.Remedy
						}
					}
					Facts []struct {
						Subject, Text string
						remedy.Remedy
					}
				}
				if err := json.Unmarshal(doc, &all); err != nil {
					continue // a usage error, which the text shows
				}
				for _, f := range all.Files {
					for _, g := range f.Findings {
						said(t, object, who, g.ID, g.Message, g.Whole(), g.Command)
					}
					for _, v := range f.Driver {
						if v.Whole() != "" {
							said(t, object, who, "driver: "+v.Origin, v.Text, v.Whole(), v.Command)
						}
					}
				}
				for _, f := range all.Facts {
					if strings.Contains(f.Text, object) || strings.Contains(f.Whole(), "for good") {
						said(t, object, who, "fact: "+f.Subject, f.Text, f.Whole(), f.Command)
					}
				}
			}
			if now := everything(t, object); now != was {
				t.Errorf("the store has changed: %s", now)
			}
		})
	}
	t.Logf("%d findings of %d kinds", count, len(seen))
	for _, c := range remedyCases {
		if seen[c.id] == nil {
			t.Errorf("%s was not found in a store", c.id)
		}
	}
	if count < 60 {
		t.Errorf("%d findings only", count)
	}
	if file := os.Getenv("SENTENCES"); file != "" { // to be read by somebody
		var b strings.Builder
		for _, id := range slices.Sorted(maps.Keys(seen)) {
			fmt.Fprintf(&b, "\n## %s\n", id)
			for _, who := range slices.Sorted(maps.Keys(seen[id])) {
				fmt.Fprintf(&b, "\n`%s`: %s\n", who, seen[id][who])
			}
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// storeCases are more files with findings, of kinds that have no command anywhere, or another file's.
var storeCases = []remedyCase{
	{id: finding.DriverByName, list: "%[1]s/x", make: func(t *testing.T, d string) {
		os.WriteFile("s.py", []byte("import ctypes\nctypes.CDLL('libcuda.so.1')\n"), 0o644)
	}},
	{id: finding.UnresolvedIndirect, list: "%[1]s/x:%[1]s/y", make: func(t *testing.T, d string) {
		library(t, "y/libgone.so.1", "libgone.so.1", "")
		library(t, "y/liby.so.1", "liby.so.1", "", "y/libgone.so.1")
		library(t, "file.so", "", d+"/x:"+d+"/y", "x/libx.so.1", "y/liby.so.1")
		os.Remove("y/libgone.so.1")
	}},
	{id: finding.RelativeNeeded, list: "%[1]s/x", make: func(t *testing.T, d string) {
		library(t, "build/libns.so", "", "")
		library(t, "file.so", "", d+"/x", "x/libx.so.1", "build/libns.so")
	}},
	{id: finding.MangledEntry, list: "%[1]s/x:$(ORIGIN)/y"},
	{id: finding.WritableEntry, list: "%[1]s/x:%[1]s/../../../open", make: func(t *testing.T, d string) {
		os.Mkdir(d+"/../../../open", 0o755)
		os.Chmod(d+"/../../../open", 0o777)
	}},
	{id: finding.KeptReference, make: func(t *testing.T, d string) {
		gcc := filepath.Dir(d) + "/1c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-gcc-13.2.0/lib"
		os.MkdirAll(gcc, 0o755)
		tool(t, "runpath", "set", "-q", d+"/x:"+gcc, "file.so")
	}},
	{id: finding.LoadError, list: "%[1]s/bad:%[1]s/x", make: func(t *testing.T, d string) {
		os.Mkdir("bad", 0o755)
		os.WriteFile("bad/libx.so.1", []byte("GROUP ( libx.so.2 )\n"), 0o644)
	}},
	{id: finding.StubLoaded, list: "%[1]s/y:%[1]s/x", make: func(t *testing.T, d string) { // by a library of another package
		library(t, "stubs/libcuda.so.1", "libcuda.so.1", "")
		library(t, "y/liby.so.1", "liby.so.1", d+"/stubs", "stubs/libcuda.so.1")
		library(t, "file.so", "", "", "x/libx.so.1", "y/liby.so.1")
	}},
}

// neededFiles are the libraries in the working directory that file.so needs, for another file to be linked with.
func neededFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, name := range look(t, "file.so").Needed {
		for _, pattern := range []string{"x/", "*/", "*/*/"} {
			if found, _ := filepath.Glob(pattern + filepath.Base(name)); len(found) > 0 {
				files = append(files, found[0])
				break
			}
		}
	}
	return files
}
