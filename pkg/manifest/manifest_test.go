package manifest

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/tests/tinyelf"
)

const (
	interp = "/lib64/ld-linux-x86-64.so.2"
	hashes = "0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q 1c0n1r2kdb6vxr91pvlc5v6nshqkfi9q 2c0n1r2kdb6vxr91pvlc5v6nshqkfi9q"
	link   = "/run/opengl-driver/lib"
)

// root is a tree of files below which a store is.
type root struct {
	*testing.T
	dir  string
	hash string
}

// newRoot returns a tree whose store's hashes end in a letter.
func newRoot(t *testing.T, last string) *root {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &root{t, dir, strings.Fields(hashes)[0][:31] + last}
	r.put(interp, tinyelf.Object{}.With(elf.DT_SONAME, "ld-linux-x86-64.so.2"))
	return r
}

// store is a path in the store.
func (r *root) store(rest string) string { return "/nix/store/" + r.hash + "-" + rest }

func (r *root) put(name string, content any) {
	r.Helper()
	var b []byte
	switch c := content.(type) {
	case tinyelf.Object:
		b = c.Bytes()
	case string:
		b = []byte(c)
	}
	if err := os.MkdirAll(filepath.Dir(r.dir+name), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(r.dir+name, b, 0o755); err != nil {
		r.Fatal(err)
	}
}

// read reads packages of the tree.
func (r *root) read(paths ...string) *Document {
	r.Helper()
	for i := range paths {
		paths[i] = r.dir + paths[i]
	}
	reader, err := NewReader(r.dir, paths)
	if err != nil {
		r.Fatal(err)
	}
	d := &Document{GPUs: Asked()}
	if err := reader.Walk(context.Background(), 4, func(f *File) { d.Files = append(d.Files, f) }); err != nil {
		r.Fatal(err)
	}
	d.Packages = reader.Packages(func(string, string) (int64, bool) { return 1000, true })
	d.Summary = *reader.Summary()
	return d
}

// file returns a file of a document.
func (d *Document) file(t *testing.T, path string) *File {
	t.Helper()
	i := slices.IndexFunc(d.Files, func(f *File) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("%s is not listed", path)
	}
	return d.Files[i]
}

func lib(soname string) tinyelf.Object { return tinyelf.Object{}.With(elf.DT_SONAME, soname) }

// fatbin is a container of cubins for some architectures, of so many bytes each.
func fatbin(size int, archs ...uint32) string {
	var entries bytes.Buffer
	for _, arch := range archs {
		var e [64]byte
		le := binary.LittleEndian
		le.PutUint16(e[0:], 2)
		le.PutUint16(e[2:], 0x101)
		le.PutUint32(e[4:], 64)
		le.PutUint64(e[8:], uint64(size))
		le.PutUint16(e[26:], 8)
		le.PutUint32(e[28:], arch)
		le.PutUint64(e[40:], 0x11)
		entries.Write(e[:])
		entries.Write(make([]byte, size))
	}
	var head [16]byte
	binary.LittleEndian.PutUint32(head[0:], 0xBA55ED50)
	binary.LittleEndian.PutUint16(head[4:], 1)
	binary.LittleEndian.PutUint16(head[6:], 16)
	binary.LittleEndian.PutUint64(head[8:], uint64(entries.Len()))
	return string(head[:]) + entries.String()
}

// example is a package with a program, what it needs, and more.
func example(t *testing.T, last string) *root {
	r := newRoot(t, last)
	app, cudnn := r.store("app-1.0"), r.store("cudnn-9.3-lib")
	r.put(cudnn+"/lib/libcudnn.so.9", lib("libcudnn.so.9").Needs("libabsent.so.1"))
	r.put(r.store("cuda_cudart-12.4-lib")+"/lib/libcudart.so.12", lib("libcudart.so.12"))
	r.put(r.store("cuda_cudart-12.4-stubs")+"/lib/stubs/libcuda.so.1", lib("libcuda.so.1"))
	big := lib("libbig.so").Needs("libcuda.so.1", "libcudnn.so.9", "libcudart.so.12", "libc.so.6").
		With(elf.DT_RUNPATH, link+":"+cudnn+"/lib:"+r.store("cuda_cudart-12.4-lib")+"/lib")
	big.Dlopen = `[{"soname":["libopt.so.1"]}]`
	r.put(app+"/lib/libbig.so", big)
	r.put(app+"/lib/libstub.so", lib("libstub.so").Needs("libcuda.so.1").With(elf.DT_RUNPATH,
		r.store("cuda_cudart-12.4-stubs")+"/lib/stubs"))
	r.put(app+"/bin/.app-wrapped", tinyelf.Object{Interp: interp, Flags1: elf.DF_1_PIE}.Needs("libbig.so",
		"libcudnn.so.9"))
	r.put(app+"/bin/app",
		"#! /bin/sh -e\nexport LD_LIBRARY_PATH='"+app+"/lib:"+cudnn+"/lib'\nexec \""+app+"/bin/.app-wrapped\" \"$@\"\n")
	r.put(app+"/share/code.fatbin", fatbin(5000, 75, 90))
	r.put(app+"/share/text", "made by "+r.store("gcc-14.2.0")+"/bin/gcc")
	r.put(app+"/share/broken.so", "\x7fELF")
	if err := os.Symlink(r.store("gcc-14.2.0")+"/lib", r.dir+app+"/share/gcc"); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFileOfAPackage(t *testing.T) {
	r := example(t, "q")
	d := r.read(r.store("app-1.0"))
	var paths []string
	for _, f := range d.Files {
		paths = append(paths, string(f.Kind)+" "+f.Path)
		if f.Package != r.store("app-1.0") {
			t.Errorf("%s is in %s", f.Path, f.Package)
		}
	}
	if want := []string{"program bin/.app-wrapped", "wrapper bin/app", "library lib/libbig.so",
		"library lib/libstub.so", "malformed share/broken.so", "GPU code share/code.fatbin"}; !slices.Equal(paths,
		want) {
		t.Errorf("%q, want %q", paths, want)
	}
	text := func(all []Library) (out []string) {
		for _, l := range all {
			at := "-"
			if l.Path != nil {
				at = *l.Path
			}
			out = append(out, fmt.Sprintf("%s %s (%s) %s", l.Name, strings.ReplaceAll(at, r.hash, "H"), l.Rule,
				l.Driver))
		}
		return out
	}
	big := d.file(t, "lib/libbig.so")
	if got, want := text(big.Loads), []string{"libcuda.so.1 - (not found) driver",
		"libcudnn.so.9 /nix/store/H-cudnn-9.3-lib/lib/libcudnn.so.9 (DT_RUNPATH) ",
		"libcudart.so.12 /nix/store/H-cuda_cudart-12.4-lib/lib/libcudart.so.12 (DT_RUNPATH) ",
		"libc.so.6 - (the program's glibc) "}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := text(big.Opens); !slices.Equal(got, []string{"libopt.so.1 - (not found) "}) ||
		big.Opens[0].Cause != ".note.dlopen" {
		t.Errorf("%q", got)
	}
	if !slices.Equal(big.Absent, []string{"libabsent.so.1"}) || !slices.Equal(big.CUDA, []string{"12"}) ||
		big.Stubs != nil || len(big.RunPath) != 3 || big.Machine != "EM_X86_64" {
		t.Errorf("%+v", big)
	}
	var refs []string
	for _, ref := range big.References {
		refs = append(refs, fmt.Sprint(NameOf(ref.Object), ref.Places, ref.Times))
	}
	if want := []string{"cuda_cudart-12.4-lib[run path] 1", "cudnn-9.3-lib[run path] 1"}; !slices.Equal(refs, want) {
		t.Errorf("%q", refs)
	}
	if stub := d.file(t, "lib/libstub.so"); len(stub.Stubs) != 1 || stub.Loads[0].Driver != "stub" {
		t.Errorf("%+v", stub)
	}
	// What the wrapper sets is a part of the start; by itself, the program finds nothing.
	wrapper := d.file(t, "bin/app")
	if got := text(wrapper.Loads); wrapper.Starts != "bin/.app-wrapped" ||
		got[0] != "libbig.so lib/libbig.so (LD_LIBRARY_PATH) " || !strings.HasPrefix(wrapper.Sets["LD_LIBRARY_PATH"],
		"/nix") {
		t.Errorf("%+v %q", wrapper, got)
	}
	if got := text(d.file(t, "bin/.app-wrapped").Loads); got[0] != "libbig.so - (not found) " {
		t.Errorf("%q", got)
	}
	if code := d.file(t, "share/code.fatbin").GPU; code == nil || code.Bytes != 16+2*5064 || len(code.Code) != 2 ||
		code.Code[0].Arch != "sm_75" {
		t.Errorf("%+v", code)
	}
}

func TestSumsOfAPackage(t *testing.T) {
	r := example(t, "q")
	d := r.read(r.store("app-1.0"))
	if len(d.Packages) != 1 {
		t.Fatalf("%+v", d.Packages)
	}
	p := d.Packages[0]
	if p.Name != "app-1.0" || p.Files != 7 || p.Needed != 7 || p.RunPathFiles != 2 || p.RunPathLength != 4 ||
		p.DriverLinks != 1 || p.Kinds[Shared] != 2 || p.Kinds[Malformed] != 1 {
		t.Errorf("%+v", p)
	}
	bytes := int64(0)
	filepath.Walk(r.dir+p.Path, func(_ string, st os.FileInfo, _ error) error {
		if st.Mode().IsRegular() {
			bytes += st.Size()
		}
		return nil
	})
	if p.Bytes != bytes || d.Summary.Bytes != bytes || d.Summary.Files != 6 || d.Summary.GPUBytes != 16+2*5064 {
		t.Errorf("%d of %d bytes, %+v", p.Bytes, bytes, d.Summary)
	}
	// The program that the wrapper starts finds all but what cuDNN lacks, and the C library, which is not here.
	if got := fmt.Sprint(p.NotFound); got != "[{libabsent.so.1 2} {libc.so.6 1}]" {
		t.Error(got)
	}
	if got := fmt.Sprint(p.CUDA, p.Stubs, p.Largest); got != "[{12 2}] [lib/libstub.so] [{share/code.fatbin 10144}]" {
		t.Error(got)
	}
	var refs []string
	for _, ref := range p.References {
		refs = append(refs, fmt.Sprint(NameOf(ref.Object), " ", ref.Files, " ", *ref.Bytes))
	}
	if want := []string{"cuda_cudart-12.4-lib 1 1000", "cuda_cudart-12.4-stubs 1 1000", "cudnn-9.3-lib 2 1000",
		"gcc-14.2.0 2 1000"}; !slices.Equal(refs, want) {
		t.Errorf("%q", refs)
	}
}

// In a store each file is one, as a NAR has no hard links, and an optimised store is the same as another; elsewhere a
// file with
// several names is one.
func TestHardLinks(t *testing.T) {
	for _, c := range []struct {
		dir, same string
		bytes     func(one int64) int64
	}{
		{"/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-app", "", func(one int64) int64 { return 3 * one }},
		{"/opt/app", "lib/liba.so", func(one int64) int64 { return one }},
	} {
		r := newRoot(t, "q")
		r.put(c.dir+"/lib/liba.so", lib("liba.so").Needs("libx.so").With(elf.DT_RUNPATH, "$ORIGIN"))
		r.put(c.dir+"/other/libx.so", lib("libx.so"))
		st, _ := os.Stat(r.dir + c.dir + "/lib/liba.so")
		other, _ := os.Stat(r.dir + c.dir + "/other/libx.so")
		for _, name := range []string{"/lib/libb.so", "/other/libc.so"} {
			if err := os.Link(r.dir+c.dir+"/lib/liba.so", r.dir+c.dir+name); err != nil {
				t.Fatal(err)
			}
		}
		d := r.read(c.dir)
		if f := d.file(t, "other/libc.so"); f.SameAs != c.same || f.Loads[0].Path == nil ||
			*f.Loads[0].Path != "other/libx.so" {
			t.Errorf("%s: %+v", c.dir, f)
		}
		if f := d.file(t, "lib/libb.so"); f.SameAs != c.same || f.Loads[0].Path != nil ||
			(f.Soname == "") != (c.same != "") {
			t.Errorf("%s: %+v", c.dir, f)
		}
		if got, want := d.Packages[0].Bytes, c.bytes(st.Size())+other.Size(); got != want {
			t.Errorf("%s: %d bytes, want %d", c.dir, got, want)
		}
	}
}

// A document says the same wherever the files are and however many are read at once, and reads as it was written.
func TestDocumentIsRepeatable(t *testing.T) {
	r := example(t, "q")
	write := func(d *Document) string {
		var b bytes.Buffer
		b.WriteString(Beginning + `"files":`)
		enc := json.NewEncoder(&b)
		enc.Encode(d.Files)
		b.WriteString(`,"more":{"x":[1]},"gpus":`)
		enc.Encode(Asked())
		b.WriteString(`,"packages":`)
		enc.Encode(d.Packages)
		b.WriteString(`,"summary":`)
		enc.Encode(d.Summary)
		b.WriteString("}")
		return b.String()
	}
	want := write(r.read(r.store("app-1.0")))
	for range 20 {
		if got := write(r.read(r.store("app-1.0"))); got != want {
			t.Fatalf("%s\n%s", got, want)
		}
	}
	var files []*File
	back, err := Decode(strings.NewReader(want), func(f *File) { files = append(files, f) })
	if err != nil {
		t.Fatal(err)
	}
	if back.Files = files; write(back) != want || !slices.Equal(back.GPUs, Asked()) {
		t.Errorf("%s\n%s", write(back), want)
	}
	// As another program writes it: other white space, and the members in another order.
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(want), &members); err != nil {
		t.Fatal(err)
	}
	other, err := json.MarshalIndent(members, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	files = nil
	if back, err = Decode(bytes.NewReader(other), func(f *File) { files = append(files, f) }); err != nil {
		t.Fatal(err)
	}
	if back.Files = files; write(back) != want {
		t.Errorf("in another order: %s", write(back))
	}
	older := strings.Replace(want, `"version":2`, `"version":1`, 1)
	if _, err := Decode(strings.NewReader(older), func(*File) {}); err == nil || !strings.Contains(err.Error(), "make the manifest again") {
		t.Errorf("of version 1: %v", err)
	}
	for _, bad := range []string{"", "{}", `{"version":2,"files":[]}`, `{"version":2,"document":"other","summary":{}}`,
		`{"document":"manifest","summary":{}}`, want[:len(want)/2], want[:strings.Index(want, `,"summary"`)] + "}",
		Beginning + `"files":[],"summary":{"stopped":"x"}}`, Beginning + `"files":[{"path":"a"}],"summary":{}}`,
		Beginning + `"files":[{"path":"a","kind":"@other"}],"summary":{}}`, Beginning + `"files":[null],"summary":{}}`,
		Beginning + `"packages":[null],"summary":{}}`} {
		if _, err := Decode(strings.NewReader(bad), func(*File) {}); err == nil {
			t.Errorf("%.60q is taken", bad)
		}
	}
}

// What a loader has read is not kept for good.
func TestGenerations(t *testing.T) {
	r := newRoot(t, "q")
	reader, err := NewReader(r.dir, []string{r.dir})
	if err != nil {
		t.Fatal(err)
	}
	first := reader.look()
	for range generation - 1 {
		if reader.look() != first {
			t.Fatal("a new loader before its time")
		}
	}
	if reader.look() == first {
		t.Error("the same loader for good")
	}
}

func TestPlaces(t *testing.T) {
	r := newRoot(t, "q")
	r.put("/opt/x/lib/liba.so", lib("liba.so"))
	r.put(r.store("a-1")+"/lib/liba.so", lib("liba.so"))
	r.put(r.store("b-1")+"/lib/libb.so", lib("libb.so"))
	os.Symlink(r.dir+r.store("a-1"), r.dir+"/result")
	for arg, want := range map[string][]string{
		"/opt":                   {r.dir + "/opt x/lib/liba.so"},
		"/opt/":                  {r.dir + "/opt x/lib/liba.so"},
		"/opt/x/lib/liba.so":     {r.dir + "/opt/x/lib liba.so"},
		"/result":                {r.store("a-1") + " lib/liba.so"},
		"/result/":               {r.store("a-1") + " lib/liba.so"},
		"/nix/store":             {r.store("a-1") + " lib/liba.so", r.store("b-1") + " lib/libb.so"},
		r.store("a-1") + "/lib/": {r.store("a-1") + " lib/liba.so"},
	} {
		var got []string
		for _, f := range r.read(arg).Files {
			got = append(got, f.Package+" "+f.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", arg, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	for name, want := range map[string]string{
		"gcc-14.2.0": "gcc", "gcc-14.2.0-lib": "gcc-lib", "cuda_cudart-12.4.127-stubs": "cuda_cudart-stubs",
		"python3.12-torch-2.5.1": "python3.12-torch",
		"glibc-2.40-66":          "glibc", "app": "app", "source-to-image-1.0-rc1": "source-to-image", "": "", "-": "-",
		"x-": "x-",
	} {
		if got := keyOf(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"libcudart.so.12.4.127": "libcudart.so.0",
		"lib/python3.12/x86_64/a1.so": "lib/python0/x0_0/a0.so", "1.": "0.", "": ""} {
		if got := general(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	sorted := []string{"a-9.10", "a-9.9", "a-9.09", "a-10", "b", "a"}
	slices.SortFunc(sorted, natural)
	if want := []string{"a", "a-9.9", "a-9.09", "a-9.10", "a-10", "b"}; !reflect.DeepEqual(sorted, want) {
		t.Errorf("%q", sorted)
	}
}
