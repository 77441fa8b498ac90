package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/thin"

	"golang.org/x/sys/unix"
)

// file is an entry of an archive that a test makes or reads.
type file struct{ name, text string }

func archive(files ...file) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		w.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.text))})
		io.WriteString(w, f.text)
	}
	w.Close()
	return b.String()
}

func unpack(t *testing.T, archive string) (files []file) {
	t.Helper()
	for r := tar.NewReader(strings.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{h.Name, string(b)})
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// save makes an image of layers, as `docker save` writes it: a layer's name and its identifier are its digest.
func save(layers ...string) string {
	var names, ids []string
	var files []file
	for _, l := range layers {
		names, ids = append(names, digest(l)+"/layer.tar"), append(ids, "sha256:"+digest(l))
		files = append(files, file{names[len(names)-1], l})
	}
	config, _ := json.Marshal(map[string]any{"os": "linux", "config": map[string]any{"Labels": map[string]string{"kept": "yes"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids}})
	name := digest(string(config)) + ".json"
	manifest, _ := json.Marshal([]map[string]any{{"Config": name, "RepoTags": []string{"a:b"}, "Layers": names}})
	return archive(append(files, file{name, string(config)}, file{"manifest.json", string(manifest)})...)
}

// library is one with a cubin for 8.0 and one for 9.0, of 300,000 bytes each.
func library(t *testing.T) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "lib.so")
	cubin := func(arch int) string {
		return fmt.Sprintf(".2byte 2, 0x101; .4byte 64; .8byte 300000; .8byte 0; .2byte 7, 8; .4byte %d; .8byte 0, 0x11, 0, 0; .fill 300000, 1, %d; ", arch, arch)
	}
	cmd := exec.Command("cc", "-shared", "-nostdlib", "-o", at, "-xassembler", "-")
	cmd.Stdin = strings.NewReader(".section .nv_fatbin,\"a\"; .balign 8; .4byte 0xBA55ED50; .2byte 1, 16; .8byte 2f-1f; 1: " + cubin(80) + cubin(90) + "2:\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("no C compiler for this: %v: %s", err, out)
	}
	b, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// thinned is what Thin makes of an image for 9.0.
func thinned(t *testing.T, image string, length thin.Length) (made string, sum *Sum, err error) {
	t.Helper()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "image.tar"), filepath.Join(dir, "thinned.tar")
	put(t, from, image)
	sum, err = thinInto(t, from, to, length)
	b, _ := os.ReadFile(to)
	return string(b), sum, err
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// thinInto thins the image at from for 9.0.
func thinInto(t *testing.T, from, to string, length thin.Length) (*Sum, error) {
	t.Helper()
	gpus, err := gpucode.ParseTargets("9.0")
	if err != nil {
		t.Fatal(err)
	}
	return Thin(from, to, Options{Options: thin.Options{Targets: gpus}, Label: "9.0", Length: length})
}

// The new image goes where `>` of a shell would put it: to what a link, a device or a FIFO leads to, which stays what it
// is, and into a file, whose mode and names are kept; also where that is the image itself. Until the image is made all
// of these are left alone.
func TestTheNewImageGoesWhereItsNameLeads(t *testing.T) {
	image := save(archive(file{"lib.so", library(t)}))
	for name, broken := range map[string]bool{"whole": false, "damaged": true} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			put(t, "image", image)
			if _, err := thinInto(t, "image", "want", thin.Cutting); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile("want")
			if err != nil {
				t.Fatal(err)
			}
			want, now := string(b), image
			if broken {
				now = strings.Replace(image, "\x7fELF", "\x7fELG", 1)
				put(t, "image", now)
				want = "old"
			}
			into := func(to string) {
				t.Helper()
				if _, err := thinInto(t, "image", to, thin.Cutting); (err != nil) != broken {
					t.Errorf("%s: %v", to, err)
				}
			}
			is := func(name, want string) {
				t.Helper()
				if b, err := os.ReadFile(name); err != nil || string(b) != want {
					t.Errorf("%s: %d bytes instead of %d, %v", name, len(b), len(want), err)
				}
			}
			for _, name := range []string{"target", "several"} {
				put(t, name, "old")
			}
			if err := errors.Join(os.Symlink("target", "link"), os.Symlink("made", "dangling"), os.Chmod("target", 0o600),
				os.Link("several", "other"), os.Symlink("/dev/null", "null"), os.Symlink("/dev/full", "full"),
				syscall.Mkfifo("fifo", 0o600)); err != nil {
				t.Fatal(err)
			}
			into("link")
			is("target", want)
			if st, err := os.Stat("target"); err != nil || st.Mode() != 0o600 {
				t.Errorf("its mode is %v", st.Mode())
			}
			into("several")
			is("other", want)
			into("null")
			if _, err := thinInto(t, "image", "full", thin.Cutting); !broken && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("full: %v", err)
			}
			into("dangling")
			if _, err := os.Stat("made"); (err != nil) != broken {
				t.Errorf("made: %v", err)
			}
			for _, name := range []string{"link", "dangling", "null", "full"} {
				if _, err := os.Readlink(name); err != nil {
					t.Errorf("%s is a link no more", name)
				}
			}
			if !broken {
				read := make(chan []byte)
				go func() { b, _ := os.ReadFile("fifo"); read <- b }()
				into("fifo")
				if b := <-read; string(b) != want {
					t.Errorf("through a FIFO come %d bytes", len(b))
				}
			}
			put(t, "original", now)
			os.Link("original", "image 2")
			if _, err := thinInto(t, "original", "original", thin.Cutting); (err != nil) != broken {
				t.Error(err)
			}
			if broken {
				want = now
			}
			is("image 2", want)
			if left, _ := filepath.Glob(".cuda*"); left != nil {
				t.Error(left)
			}
		})
	}
}

// What a compressed image unpacks to leaves a tenth of its file system: a kilobyte of gzip may be a megabyte of zeros.
func TestUnpackingLeavesRoom(t *testing.T) {
	const size = 20 << 20
	if dir := os.Getenv("IMAGE_TEST_ROOM"); dir == "" {
		dir := t.TempDir()
		small := func(command ...string) ([]byte, error) {
			mount := fmt.Sprintf(`mount -t tmpfs -o size=%d none "$0" && exec "$@"`, size)
			cmd := exec.Command("unshare", append([]string{"-rm", "sh", "-c", mount, dir}, command...)...)
			cmd.Env = append(os.Environ(), "IMAGE_TEST_ROOM="+dir)
			return cmd.CombinedOutput()
		}
		if _, err := small("true"); err != nil {
			t.Skip("nowhere to mount a small file system: ", err)
		}
		if out, err := small(os.Args[0], "-test.run", "^"+t.Name()+"$"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	} else {
		t.Chdir(dir)
	}
	for _, c := range []struct {
		size int
		want string
	}{{size / 4, ""}, {size - size/12, "unpacking: less than 2.1 MB would stay free: write the new image to another file system"}} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		io.WriteString(w, save(archive(file{"zeros", strings.Repeat("\x00", c.size)})))
		w.Close()
		put(t, "image", packed.String())
		_, err := thinInto(t, "image", "to", thin.Kept)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes: %v", c.size, err)
		}
		var now unix.Statfs_t
		if err := unix.Statfs(".", &now); err != nil || now.Bfree < now.Blocks*9/10 {
			t.Errorf("%d of %d blocks are free: %v", now.Bfree, now.Blocks, err)
		}
	}
}

func TestAnImageIsARegularFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := syscall.Mkfifo("fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := thinInto(t, "fifo", "to", thin.Kept); !errors.Is(err, regular.ErrNotRegular) {
		t.Error(err)
	}
}

// A layer that changes is another, by digest, size and name, in the configuration too; one that does not keeps its bytes.
func TestThin(t *testing.T) {
	lib := library(t)
	same := archive(file{"etc/text", "text\n"})
	was := archive(file{"lib/lib.so", lib}, file{"lib/behind", "what stands behind it"})
	for length, name := range map[thin.Length]string{thin.Kept: "kept", thin.Cutting: "cut"} {
		t.Run(name, func(t *testing.T) {
			made, sum, err := thinned(t, save(same, was), length)
			if err != nil {
				t.Fatal(err)
			}
			all := unpack(t, made)
			if len(all) != 4 || all[0] != (file{digest(same) + "/layer.tar", same}) {
				t.Fatalf("the layer that does not change: %.200q", all)
			}
			now := all[1].text
			if now == was || all[1].name != digest(now)+"/layer.tar" {
				t.Errorf("the other layer is called %s, its digest is %s", all[1].name, digest(now))
			}
			if want := (Sum{2, 1, int64(len(same) + len(was)), int64(len(same) + len(now))}); *sum != want {
				t.Errorf("%+v, not %+v", *sum, want)
			}
			files := unpack(t, now)
			if len(files) != 2 || files[1].text != "what stands behind it" {
				t.Fatalf("%.200q", files)
			}
			is := files[0].text
			if strings.Contains(is, strings.Repeat("\x50", 100)) || strings.Count(is, "\x5a") < 300000 {
				t.Error("the code for 8.0 is there, or that for 9.0 is not")
			}
			if length == thin.Kept && len(is) != len(lib) || length == thin.Cutting && len(lib)-len(is) < 290000 {
				t.Errorf("%d bytes, of %d", len(is), len(lib))
			}
			var config struct {
				Config struct{ Labels map[string]string }
				Rootfs struct{ Diff_IDs []string }
			}
			var manifest []struct {
				Config           string
				RepoTags, Layers []string
			}
			if err := errors.Join(json.Unmarshal([]byte(all[2].text), &config), json.Unmarshal([]byte(all[3].text), &manifest)); err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(config.Rootfs.Diff_IDs), fmt.Sprintf("[sha256:%s sha256:%s]", digest(same), digest(now)); got != want {
				t.Errorf("diff IDs %s, not %s", got, want)
			}
			if l := config.Config.Labels; l["kept"] != "yes" || l[ThinnedFor] != "9.0" || l[Store] == "" {
				t.Errorf("labels %q", l)
			}
			if all[2].name != digest(all[2].text)+".json" || fmt.Sprint(manifest) != fmt.Sprintf("[{%s [a:b] [%s %s]}]", all[2].name, all[0].name, all[1].name) {
				t.Errorf("the configuration %s, the manifest %q", all[2].name, manifest)
			}
			if again, sum, err := thinned(t, made, length); err != nil || again != made || sum.Changed != 0 {
				t.Errorf("again: %+v, %v", sum, err)
			}
		})
	}
}

// described is an archive with one layer, l, and this configuration.
func described(config string, files ...file) string {
	return archive(append(files, file{"c", config}, file{"manifest.json", `[{"Config":"c","Layers":["l"]}]`})...)
}

// twice is an archive of two images with one layer, of which the second names another digest.
func twice(layer string) string {
	return archive(file{"l", layer}, file{"c", `{"rootfs":{"diff_ids":["sha256:` + digest(layer) + `"]}}`},
		file{"d", `{"rootfs":{"diff_ids":["sha256:` + digest("") + `"]}}`},
		file{"manifest.json", `[{"Config":"c","Layers":["l"]},{"Config":"d","Layers":["l"]}]`})
}

// Docker's archives since 25 have OCI's index too. What names old digests is left out, and a hard link has no data.
func TestBothForms(t *testing.T) {
	lib := library(t)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	w.WriteHeader(&tar.Header{Name: "lib.so", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(lib))})
	io.WriteString(w, lib)
	w.WriteHeader(&tar.Header{Name: "hard.so", Typeflag: tar.TypeLink, Linkname: "lib.so", Mode: 0o644})
	w.WriteHeader(&tar.Header{Name: "z", Typeflag: tar.TypeReg, Size: 1})
	io.WriteString(w, "z")
	w.Close()
	layer := b.Bytes()
	at := bytes.Index(layer, []byte("hard.so\x00"))
	copy(layer[at+124:], fmt.Sprintf("%011o\x00", len(lib))) // as some programs write it: ustar, "size"
	copy(layer[at+148:], "        ")
	sum := 0
	for _, c := range layer[at : at+512] {
		sum += int(c)
	}
	copy(layer[at+148:], fmt.Sprintf("%06o\x00 ", sum))
	l := "blobs/sha256/" + digest(string(layer))
	config := `{"rootfs":{"type":"layers","diff_ids":["sha256:` + digest(string(layer)) + `"]}}`
	c := "blobs/sha256/" + digest(config)
	made, _, err := thinned(t, archive(file{l, string(layer)}, file{c, config}, file{"blobs/sha256/" + digest("{}"), "{}"},
		file{"index.json", "{}"}, file{"oci-layout", "{}"}, file{"manifest.json", `[{"Config":"` + c + `","Layers":["` + l + `"]}]`},
		file{"repositories", "{}"}), thin.Kept)
	if err != nil {
		t.Fatal(err)
	}
	all := unpack(t, made)
	var names []string
	for _, f := range all {
		names = append(names, f.name)
		if name, ok := strings.CutPrefix(f.name, "blobs/sha256/"); ok && name != digest(f.text) {
			t.Errorf("%s has the digest %s", f.name, digest(f.text))
		}
	}
	if len(names) != 4 || names[0] == l || names[2] != "manifest.json" || names[3] != "repositories" {
		t.Fatalf("%q", names)
	}
	if files := unpack(t, all[0].text); len(files) != 3 || files[1] != (file{"hard.so", ""}) || files[2].text != "z" {
		t.Errorf("%.100q", files)
	}
}

// What is refused is not made.
func TestRefused(t *testing.T) {
	text := archive(file{"etc/text", "text\n"})
	for what, c := range map[string]struct{ image, want string }{
		"a Nix database":      {save(archive(file{"./nix/var/nix/db/db.sqlite", "SQLite"})), ErrDatabase.Error()},
		"another database":    {save(archive(file{"srv/db.sqlite", "SQLite"})), ""},
		"an OCI layout":       {archive(file{"index.json", "{}"}), errOCI.Error()},
		"another archive":     {text, errNoManifest.Error()},
		"a layer less":        {described(`{"rootfs":{"diff_ids":["sha256:0"]}}`), "the layer l, which is not there"},
		"no configuration":    {archive(file{"manifest.json", `[{"Config":"c","Layers":["l"]}]`}, file{"l", text}), "the configuration c, which is not there"},
		"compressed by zstd":  {"\x28\xb5\x2f\xfd", "compressed by zstd"},
		"a layer that is":     {save("\x1f\x8b\x08\x00"), "compressed by itself"},
		"a layer in zstd":     {save("\x28\xb5\x2f\xfd"), "skopeo copy --dest-decompress docker-archive:FILE dir:DIR"},
		"no digests":          {described(`{}`, file{"l", text}), "c: it has digests of 0 layers, and manifest.json names 1"},
		"rootfs is null":      {described(`{"rootfs":null}`, file{"l", text}), "c: it has digests of 0 layers"},
		"a digest more":       {described(`{"rootfs":{"diff_ids":["sha256:`+digest(text)+`","sha256:0"]}}`, file{"l", text}), "c: it has digests of 2 layers"},
		"another digest":      {described(`{"rootfs":{"diff_ids":["sha256:`+digest("")+`"]}}`, file{"l", text}), "layer l: it is damaged: its digest is sha256:" + digest(text) + ", but the image's configuration says \"sha256:" + digest("")},
		"a digest alone":      {described(`{"rootfs":{"diff_ids":["`+digest(text)+`"]}}`, file{"l", text}), "layer l: it is damaged"},
		"a layer cut off":     {strings.Replace(save(text), "text\n", "tex!\n", 1), "it is damaged"},
		"of two images one":   {twice(text), "layer l: it is damaged"},
		"a manifest of else":  {archive(file{"manifest.json", "["}), "manifest.json: "},
		"a layer for nothing": {save(archive()), ""},
	} {
		made, _, err := thinned(t, c.image, thin.Kept)
		if c.want == "" {
			if err != nil || made == "" {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || made != "" {
			t.Errorf("%s: %v, and %d bytes are made", what, err, len(made))
		}
	}
}
