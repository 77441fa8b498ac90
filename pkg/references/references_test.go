package references

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	hash  = "0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q"
	glibc = "/nix/store/" + hash + "-glibc-2.40"
	nvcc  = "/nix/store/" + "1c0n1r2kdb6vxr91pvlc5v6nshqkfi9q" + "-cuda_nvcc-12.8"
)

func find(t interface{ Fatal(...any) }, b []byte) []Reference {
	all, err := Find(bytes.NewReader(b), int64(len(b)), b[:min(len(b), 4096)])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func text(all []Reference) string {
	var lines []string
	for _, r := range all {
		lines = append(lines, fmt.Sprintf("%s: %s [%s] %d", r.Place, r.Path, r.Object, r.Times))
	}
	return strings.Join(lines, "\n")
}

func TestText(t *testing.T) {
	for of, want := range map[string]string{
		"":                               "",
		"#!" + glibc + "/bin/sh\n":       "script: " + glibc + "/bin/sh [" + glibc + "] 1",
		"-L" + glibc + "/lib -L" + nvcc:  "other: " + glibc + "/lib [" + glibc + "] 1\nother: " + nvcc + " [" + nvcc + "] 1",
		glibc + "/lib:" + glibc + "/lib": "other: " + glibc + "/lib [" + glibc + "] 2",
		"x=/build/source/a.c\x00":        "other: /build/source/a.c [] 1",
		"/home/me/build/a.c":             "",
		"/tmp/nix-build-hello.drv-0/a":   "other: /tmp/nix-build-hello.drv-0/a [] 1",
		"/nix/var/nix/builds/nix-1-2/b":  "other: /nix/var/nix/builds/nix-1-2/b [] 1",
		"/nix/store/" + hash:             "",
		glibc + "/store/" + hash + "-x":  "other: " + glibc + "/store/" + hash + "-x [" + glibc + "] 1",
		"/gnu/store/" + hash + "-glibc":  "other: /gnu/store/" + hash + "-glibc [/gnu/store/" + hash + "-glibc] 1",
	} {
		if got := text(find(t, []byte(of))); got != want {
			t.Errorf("%q:\n%s\nnot\n%s", of, got, want)
		}
	}
}

// Each path is found once, wherever in the file it stands, across the blocks in which it is read.
func TestEveryPathIsFoundOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 3<<20 + rapid.IntRange(0, 9000).Draw(t, "size")
		b := make([]byte, size)
		var want []string
		end := 0
		for n := rapid.IntRange(0, 12).Draw(t, "paths"); n > 0; n-- {
			near := rapid.SampledFrom([]int{0, 4096, 8192, 1<<20 - 8192, 1<<20 - 4096, 1 << 20, 1<<20 + 4096, 1<<20 + 8192, 2 << 20, 2<<20 + 4096, size - 200}).Draw(t, "near")
			at := near + rapid.IntRange(-150, 150).Draw(t, "at")
			p := fmt.Sprintf("%s/%s%d", glibc, strings.Repeat("d/", rapid.SampledFrom([]int{0, 1, 40, 1900}).Draw(t, "long")), n)
			if at < end+1 || at+len(p) > size {
				continue
			}
			copy(b[at:], p)
			want, end = append(want, p), at+len(p)
		}
		var got []string
		for _, r := range find(t, b) {
			if r.Times != 1 || string(b[r.Off:r.Off+uint64(len(r.Path))]) != r.Path {
				t.Fatalf("%+v", r)
			}
			got = append(got, r.Path)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%d paths, not %d", len(got), len(want))
		}
	})
}

// A file with a path in each place.
func TestPlaces(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	p := func(name string) string { return "/nix/store/" + hash + "-" + name }
	source := `
	.section .rodata
	.asciz "` + p("constant") + `/share"
	.data
	.asciz "` + p("data") + `"
	.section .note.nixos.ldcache,"a",%note
	.4byte 6, 2f-1f, 0x63a86cb6
	.asciz "NixOS"
	.balign 4
1:	.asciz "libx.so", "=` + p("cache") + `/lib/libx.so", ""
2:	.balign 4
	.section .note.other,"a",%note
	.4byte 4, 2f-1f, 1
	.asciz "abc"
1:	.asciz "` + p("note") + `"
2:	.balign 4
	.section .debug_str
	.asciz "` + p("debug") + `"
	.section .comment
	.asciz "` + p("comment") + `"
	.section .nv_fatbin,"a",%progbits
	.balign 8
	.4byte 0xBA55ED50
	.2byte 1, 16
	.8byte 2f - 1f
1:	.2byte 2, 0x101
	.4byte 3f - 1b
	.8byte 2f - 3f
	.4byte 0, 0
	.2byte 7, 1
	.4byte 90, 0, 0
	.8byte 0x11, 0, 0
	.asciz "-arch sm_90 -L` + p("nvcc") + `/lib "
	.balign 8
3:	.asciz "` + p("code") + `"
	.zero 5000
	.balign 8
2:	.section .note.GNU-stack,"",%progbits
`
	if err := os.WriteFile(filepath.Join(dir, "a.s"), []byte(source+".text\n.globl main\nmain:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	held := filepath.Join(dir, "store", hash+"-held", "lib")
	if err := os.MkdirAll(held, 0o755); err != nil {
		t.Fatal(err)
	}
	cc := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "x.s"), []byte(".section .note.GNU-stack,\"\",%progbits\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cc("-shared", "-nostdlib", "-Wl,-soname,libx.so", "-o", filepath.Join(held, "libx.so"), filepath.Join(dir, "x.s"))
	file := filepath.Join(dir, "program")
	cc("-nostdlib", "-o", file, filepath.Join(dir, "a.s"), "-Wl,--no-as-needed", filepath.Join(held, "libx.so"), "-Wl,--dynamic-linker,"+p("ld")+"/lib/ld.so",
		"-Wl,--enable-new-dtags,-rpath,"+p("none")+"/lib:"+held, "-Wl,-e,main")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{}
	for _, r := range find(t, b) {
		_, name, _ := strings.Cut(filepath.Base(r.Object), "-")
		places[name] = string(r.Place)
		if r.Unused {
			places[name] += ", unused"
		}
	}
	want := map[string]string{"constant": "read-only data", "data": "data", "cache": "resolution note", "note": "note", "debug": "debug information", "comment": "other",
		"nvcc": "options of GPU code", "code": "read-only data", "ld": "interpreter", "none": "run path, unused", "held": "run path"}
	if fmt.Sprint(places) != fmt.Sprint(want) {
		t.Errorf("%v\nnot %v", places, want)
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte("#!" + glibc))
	f.Fuzz(func(t *testing.T, b []byte) { Find(bytes.NewReader(b), int64(len(b)), b[:min(len(b), 4096)]) })
}
