package gpucode

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// bundleOf returns a bundle as clang-offload-bundler of ROCm 5 and later makes it, with objects of random bytes.
func bundleOf(size int, targets ...string) []byte {
	ids := []string{"host-x86_64-unknown-linux--"}
	for _, t := range targets {
		ids = append(ids, "hipv4-amdgcn-amd-amdhsa--"+t)
	}
	le := binary.LittleEndian
	b := le.AppendUint64([]byte("__CLANG_OFFLOAD_BUNDLE__"), uint64(len(ids)))
	off := uint64(4096)
	for i, id := range ids {
		n := uint64(0)
		if i > 0 {
			n = uint64(size)
		}
		b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, off), n), uint64(len(id)))
		b = append(b, id...)
		off = (off + n + 4095) &^ 4095
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range targets {
		b = append(b, make([]byte, (4096-len(b)%4096)%4096)...)
		for range size {
			b = append(b, byte(random.IntN(4)*i))
		}
	}
	return b
}

// packed compresses a bundle as clang does: version 1 to 3, by zlib (0) or zstd (1).
func packed(t *testing.T, b []byte, version, method uint16) []byte {
	t.Helper()
	var data bytes.Buffer
	if method == 0 {
		w := zlib.NewWriter(&data)
		w.Write(b)
		w.Close()
	} else {
		w, err := zstd.NewWriter(nil, zstd.WithWindowSize(8<<20))
		if err != nil {
			t.Fatal(err)
		}
		data.Write(w.EncodeAll(b, nil))
	}
	le := binary.LittleEndian
	out := le.AppendUint16(le.AppendUint16([]byte("CCOB"), version), method)
	switch version {
	case 1:
		out = le.AppendUint32(out, uint32(len(b)))
	case 2:
		out = le.AppendUint32(le.AppendUint32(out, uint32(24+data.Len())), uint32(len(b)))
	case 3:
		out = le.AppendUint64(le.AppendUint64(out, uint64(32+data.Len())), uint64(len(b)))
	}
	return append(le.AppendUint64(out, 12345), data.Bytes()...)
}

// rowOf puts bundles one behind the other as the linker does.
func rowOf(bundles ...[]byte) (row []byte) {
	for _, b := range bundles {
		row = append(row, make([]byte, (4096-len(row)%4096)%4096)...)
		row = append(row, b...)
	}
	return row
}

func readBundles(t *testing.T, b []byte) *File {
	t.Helper()
	f, err := Read(bytes.NewReader(b), int64(len(b)), b[:min(len(b), 4096)])
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestBundles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	plain, large := bundleOf(3000, "gfx90a:xnack+", "gfx1030"), bundleOf(900_000, "gfx906", "gfx1100")
	for version := uint16(1); version <= 3; version++ {
		for method := uint16(0); method <= 1; method++ {
			a, b := packed(t, plain, version, method), packed(t, large, version, method)
			f := readBundles(t, rowOf(a, plain, b, a))
			var got []string
			for _, u := range f.Bundles {
				got = append(got, fmt.Sprint(u.Objects, u.Unpacked, u.Damage))
			}
			first := fmt.Sprintf("[{gfx90a:xnack+ 3000} {gfx1030 3000}] %d <nil>", len(plain))
			want := []string{first, strings.Replace(first, fmt.Sprint(len(plain)), "0", 1), fmt.Sprintf("[{gfx906 900000} {gfx1100 900000}] %d <nil>", len(large)), first}
			if !slices.Equal(got, want) {
				t.Errorf("version %d, method %d:\n%s\nnot\n%s", version, method, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if last := f.Bundles[3]; version > 1 && (f.Bundles[0].Size != uint64(len(a)) || f.Bundles[2].Size != uint64(len(b)) || last.Size != uint64(len(a))) {
				t.Errorf("version %d: %d, %d and %d bytes", version, f.Bundles[0].Size, f.Bundles[2].Size, last.Size)
			}
			if u := f.Bundles[1]; u.Size != uint64(len(plain)) {
				t.Errorf("a plain one: %d bytes, not %d", u.Size, len(plain))
			}
			// What is cut off, or changed, is damage, and no crash.
			row := rowOf(a, b)
			for cut := range min(len(row), 300) {
				readBundles(t, row[:max(24, len(row)-1-cut*len(row)/300)])
			}
			random := rand.New(rand.NewPCG(uint64(version), uint64(method)))
			for range 300 {
				bad := slices.Clone(row)
				for range 1 + random.IntN(8) {
					bad[random.IntN(min(len(bad), 300))] = byte(random.IntN(256))
				}
				copy(bad, "CCOB")
				readBundles(t, bad)
			}
		}
	}
	for what, b := range map[string][]byte{
		"a version 4": append([]byte("CCOB\x04\x00\x01\x00"), make([]byte, 100)...),
		"a method 2":  append([]byte("CCOB\x02\x00\x02\x00\x60\x00\x00\x00"), make([]byte, 100)...),
		"too many":    append([]byte("__CLANG_OFFLOAD_BUNDLE__\xff\xff\xff\xff\xff\xff\xff\xff"), make([]byte, 100)...),
		"too long":    plain[:len(plain)-4000],
		"short, packed": append([]byte("CCOB\x01\x00\x00\x00"), append(make([]byte, 12),
			0x78, 1, 1, 3, 0, 0xfc, 0xff, 'a', 'b', 'c')...), // three bytes, stored
	} {
		if f := readBundles(t, b); len(f.Bundles) != 1 || f.Bundles[0].Damage == nil || len(f.Bundles[0].Objects) > 0 {
			t.Errorf("%s: %+v", what, f.Bundles)
		} else if text := f.Bundles[0].Damage.Error(); strings.Count(text, "offset") != 1 {
			t.Errorf("%s: %s", what, text)
		}
	}
}

// LLVM's rules (AMDGPUUsage, "Target ID", "Generic Processors").
func TestWhatRunsWhereOfAMD(t *testing.T) {
	for _, c := range []struct {
		code, gpu AMD
		runs      bool
	}{
		{"gfx1100", "gfx1100", true}, {"gfx1100", "gfx1101", false}, {"gfx90a", "gfx90a:xnack+", true}, {"gfx90a", "gfx90a:xnack-", true},
		{"gfx90a:xnack+", "gfx90a", true}, {"gfx90a:xnack+", "gfx90a:xnack-", false}, {"gfx90a:xnack+", "gfx90a:sramecc+:xnack+", true},
		{"gfx90a:sramecc-", "gfx90a:sramecc+:xnack+", false}, {"gfx11-generic", "gfx1100", true}, {"gfx11-generic", "gfx1151", true},
		{"gfx11-generic", "gfx1201", false}, {"gfx9-4-generic", "gfx942", true}, {"gfx9-4-generic", "gfx90a", false},
		{"gfx9-4-generic:xnack+", "gfx942:xnack-", false}, {"gfx11-generic", "gfx11-generic", true}, {"gfx1100", "gfx11-generic", false},
	} {
		if got := c.code.RunsOn(c.gpu); got != c.runs {
			t.Errorf("%s on %s: %v", c.code, c.gpu, got)
		}
	}
	for id, want := range map[string]AMD{
		"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+": "gfx90a:xnack+", "hip-amdgcn-amd-amdhsa-gfx906": "gfx906", "host-x86_64-unknown-linux": "",
		"hip-amdgcn-amd-amdhsa--gfx9-4-generic": "gfx9-4-generic", "hip-spirv64-amd-amdhsa--amdgcnspirv": "amdgcnspirv", "openmp-amdgcn-amd-amdhsa--gfx1100": "gfx1100",
	} {
		if got, _ := amdOf(id); got != want {
			t.Errorf("%s: %q", id, got)
		}
	}
	for list, want := range map[string]string{"gfx1100": "[gfx1100]", "gfx90a:xnack+;9.0": "[gfx90a:xnack+ 9.0]", "gfx11-generic,gfx942:sramecc+:xnack-": "[gfx11-generic gfx942:sramecc+:xnack-]"} {
		if got, _, err := ParseList(list); fmt.Sprint(got) != want || err != nil {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
	for _, list := range []string{"gfx", "gfx1100:", "gfx1100:cumode+", "gfxhopper", "GFX1100", "gfx90a:xnack"} {
		if got, _, err := ParseList(list); err == nil {
			t.Errorf("%s is taken for %v", list, got)
		}
	}
}

// Debian's librocrand1, where it can be had: its bundle as readelf and its own table have it.
func TestLibraryOfROCm(t *testing.T) {
	if testing.Short() {
		t.Skip("it is fetched")
	}
	t.Chdir(t.TempDir())
	if out, err := exec.Command("timeout", "60", "sh", "-c", "apt-get -q download librocrand1 && dpkg-deb -x librocrand1_*.deb .").CombinedOutput(); err != nil {
		t.Skipf("Debian's librocrand1 cannot be had: %v", string(out[max(0, len(out)-80):]))
	}
	files, _ := filepath.Glob("usr/lib/*/librocrand.so.1.*")
	if len(files) == 0 {
		t.Skip("no library of that name is in it")
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	f := readBundles(t, b)
	if len(f.Bundles) == 0 || len(f.Containers) > 0 {
		t.Fatalf("%d bundles, %d containers", len(f.Bundles), len(f.Containers))
	}
	objects := 0
	for _, u := range f.Bundles {
		objects += len(u.Objects)
	}
	if want := bytes.Count(b, []byte("hipv4-amdgcn-amd-amdhsa--")); objects != want || f.Bundles[0].Damage != nil {
		t.Errorf("%d objects, not %d: %v", objects, want, f.Bundles[0].Damage)
	}
	if j := f.JudgeAMD("gfx90a"); j.Error != 0 {
		t.Errorf("gfx90a: %+v", j)
	}
	if j := f.JudgeAMD("gfx600"); j.Error != ErrNoBinaryForGPU {
		t.Errorf("gfx600: %+v", j)
	}
}

// A code object by itself, as hipModuleLoad and Tensile's libraries have it, is listed as a bundle of one.
func TestCodeObjectOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/k.cl", []byte("kernel void k(global int *p) { *p = 1; }\n"), 0o644)
	for flag, want := range map[string]AMD{"gfx90a:xnack-": "gfx90a:xnack-", "gfx1030": "gfx1030"} {
		if out, err := exec.Command("clang", "-target", "amdgcn-amd-amdhsa", "-mcpu="+flag, "-nogpulib", "-x", "cl", "-o", dir+"/k.hsaco", dir+"/k.cl").CombinedOutput(); err != nil {
			t.Skipf("no clang with AMD's GPUs here: %v: %s", err, out)
		}
		b, err := os.ReadFile(dir + "/k.hsaco")
		if err != nil {
			t.Fatal(err)
		}
		f := readBundles(t, b)
		if len(f.Bundles) != 1 || f.Bundles[0].Damage != nil || !slices.Equal(f.AMDs(), []AMD{want}) || f.Bundles[0].Size != uint64(len(b)) {
			t.Errorf("%s: %+v", flag, f.Bundles)
		}
		without := bytes.ReplaceAll(b, []byte("amdhsa.target"), []byte("amdhsa.targex"))
		if f := readBundles(t, without); len(f.Bundles) != 1 || f.Bundles[0].Damage == nil {
			t.Errorf("without a target: %+v", f.Bundles)
		}
		for at := range len(b) { // cut off: an error, or what is there
			Read(bytes.NewReader(b[:at]), int64(at), b[:min(at, 4096)])
		}
	}
}
