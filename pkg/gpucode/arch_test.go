package gpucode

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseTargets(t *testing.T) {
	for _, c := range []struct{ list, want string }{
		// nixpkgs, config.cudaCapabilities
		{"9.0", "9.0"},
		{"9.0,8.6+PTX", "9.0 8.6+PTX"},
		{"7.5,8.0,8.6,8.9,9.0,9.0a,10.0f,12.0a", "7.5 8.0 8.6 8.9 9.0 9.0a 10.0f 12.0a"},
		// PyTorch, TORCH_CUDA_ARCH_LIST
		{"8.0 8.6+PTX;9.0", "8.0 8.6+PTX 9.0"},
		{"9.0a+PTX", "9.0a+PTX"},
		// CMake, CMAKE_CUDA_ARCHITECTURES
		{"90-real;86-virtual", "9.0 compute_86"},
		{"90a-real;100f-real;120-virtual", "9.0a 10.0f compute_120"},
		{"75;86", "7.5+PTX 8.6+PTX"},
		// nvcc
		{"sm_90a,compute_90", "9.0a compute_90"},
		{"sm_80\ncompute_80\t sm_80", "8.0+PTX"},
	} {
		got, err := ParseTargets(c.list)
		var words []string
		for _, target := range got {
			words = append(words, target.String())
		}
		if s := strings.Join(words, " "); err != nil || s != c.want {
			t.Errorf("%q: %q (%v), not %q", c.list, s, err, c.want)
		}
	}
	for _, list := range []string{"", " ;,", "all", "all-major", "native", "Hopper", "9", "12", "9.", ".0", "9.00", "9.0b", "9.0af", "9.0+ptx", "90+PTX", "sm_", "sm_9", "sm_x",
		"-real", "-90", "+90", "090", "9.0-real", "compute_90-real", "99999", "4294967386"} {
		if got, err := ParseTargets(list); err == nil {
			t.Errorf("%q is taken for %v", list, got)
		}
	}
	// What is printed is read back.
	got, _ := ParseTargets("9.0a,8.6+PTX,compute_90")
	again, err := ParseTargets(strings.Trim(fmt.Sprint(got), "[]"))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(again) {
		t.Errorf("%v, %v (%v)", got, again, err)
	}
}

// Of each family of products one or two, as nvidia-smi, NVIDIA's page and people write them.
func TestNames(t *testing.T) {
	for list, want := range map[string]string{
		"H100": "9.0", "h200": "9.0", "NVIDIA H100 80GB HBM3": "9.0", "NVIDIA GH200 480GB": "9.0", "RTX 4090": "8.9", "rtx4090": "8.9", "RTX-4090": "8.9",
		"NVIDIA GeForce RTX 4090 Laptop GPU": "8.9", "GeForce RTX 4070 Ti SUPER": "8.9", "GTX 1080 Ti": "6.1", "Tesla V100-SXM2-32GB": "7.0",
		"NVIDIA A100-SXM4-80GB": "8.0", "NVIDIA RTX A6000": "8.6", "Quadro RTX 6000": "7.5", "NVIDIA RTX 6000 Ada Generation": "8.9",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "12.0", "T4": "7.5", "Tesla T4": "7.5", "L40S": "8.9", "B200": "10.0", "GB300": "10.3", "DGX Spark": "12.1",
		"NVIDIA GB10": "12.1", "Jetson AGX Orin": "8.7", "Jetson Thor": "11.0", "RTX 5090": "12.0", "GTX 1650": "7.5", "TITAN V": "7.0", "P100": "6.0",
		"H100 RTX 4090": "9.0 8.9", "H100,8.0+PTX; RTX 3090 sm_75": "9.0 8.0+PTX 8.6 7.5",
	} {
		got, err := ParseTargets(list)
		var words []string
		for _, target := range got {
			words = append(words, target.String())
		}
		if s := strings.Join(words, " "); err != nil || s != want {
			t.Errorf("%q: %q (%v), not %q", list, s, err, want)
		}
	}
	// RTX 6000 is of three generations.
	for _, list := range []string{"RTX", "RTX 6000", "RTX 4099", "4090", "GeForce", "NVIDIA", "RTX, 4090", "80GB", "H100 H", "Ti"} {
		if got, err := ParseTargets(list); err == nil {
			t.Errorf("%q is taken for %v", list, got)
		}
	}
}

// What may have been meant by a number that no GPU has.
func TestNear(t *testing.T) {
	for number, want := range map[Capability]string{98: "[8.8 8.9 9.0]", 91: "[9.0]", 127: "[12.0 12.1]", 999: "[12.1]", 76: "[7.0 7.2 7.5]", 104: "[10.1 10.3 10.7]", 22: "[2.0 2.1 3.2]"} {
		if got := fmt.Sprint(number.Near()); got != want {
			t.Errorf("%v: %s, not %s", number, got, want)
		}
		if number.Known() {
			t.Errorf("%v is known", number)
		}
	}
	for _, c := range []Capability{88, 101, 107, 110} { // 8.8 since CUDA 13.0, Thor by both its numbers, 10.7 since 13.4
		if !c.Known() {
			t.Errorf("%v is not known", c)
		}
	}
}

func arch(t *testing.T, s string) Arch {
	t.Helper()
	targets, err := ParseTargets(s)
	if err != nil {
		t.Fatal(err)
	}
	return targets[0].Arch
}

// Of each code, the GPUs on which it runs, of all that there are. The lists are those of NVIDIA's documents, not computed.
func TestWhatRunsWhere(t *testing.T) {
	all := []string{"3.5", "5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.1", "10.3", "10.7", "11.0", "12.0", "12.1"}
	from := func(first string) string {
		return strings.Join(all[strings.Count(strings.Split(strings.Join(all, " ")+" ", first+" ")[0], " "):], " ")
	}
	for _, c := range []struct{ code, cubin, perhaps, ptx string }{
		{"5.0", "5.0 5.2", "5.3", from("5.0")},
		{"5.3", "5.3", "", from("5.3")},
		{"6.0", "6.0 6.1", "6.2", from("6.0")},
		{"7.0", "7.0 7.5", "7.2", from("7.0")},
		{"7.2", "7.2", "7.5", from("7.2")},
		{"7.5", "7.5", "", from("7.5")},
		{"8.0", "8.0 8.6 8.9", "8.7", from("8.0")},
		{"8.6", "8.6 8.9", "8.7", from("8.6")},
		{"8.7", "8.7", "8.9", from("8.7")},
		{"8.9", "8.9", "", from("8.9")},
		{"9.0", "9.0", "", from("9.0")},
		{"9.0a", "9.0", "", "9.0"},
		{"10.0", "10.0 10.3 10.7", "10.1", from("10.0")},
		{"10.0a", "10.0", "", "10.0"},
		{"10.0f", "10.0 10.3 10.7", "10.1", "10.0 10.3 10.7"},
		{"10.1", "10.1 11.0", "10.3 10.7", from("10.1")},
		{"10.1a", "10.1 11.0", "", "10.1 11.0"},
		{"10.3", "10.3 10.7", "", from("10.3")},
		{"10.3a", "10.3", "", "10.3"},
		{"10.3f", "10.3 10.7", "", "10.3 10.7"},
		{"11.0", "11.0", "10.1", from("11.0")},
		{"11.0f", "11.0", "10.1", "11.0"},
		{"12.0", "12.0 12.1", "", from("12.0")},
		{"12.0a", "12.0", "", "12.0"},
		{"12.0f", "12.0 12.1", "", "12.0 12.1"},
		{"12.1", "12.1", "", "12.1"},
	} {
		a := arch(t, c.code)
		var runs, perhaps, ptx []string
		for _, gpu := range all {
			g := arch(t, gpu).Capability
			switch {
			case a.RunsOn(g):
				runs = append(runs, gpu)
				if !a.MayRunOn(g) {
					t.Errorf("%s runs on %s, and may not", c.code, gpu)
				}
			case a.MayRunOn(g):
				perhaps = append(perhaps, gpu)
			}
			if a.CompilesFor(g) {
				ptx = append(ptx, gpu)
			}
		}
		for _, got := range []struct{ what, is, want string }{
			{"a cubin runs on", strings.Join(runs, " "), c.cubin},
			{"a cubin may run on", strings.Join(perhaps, " "), c.perhaps},
			{"PTX compiles for", strings.Join(ptx, " "), c.ptx},
		} {
			if got.is != got.want {
				t.Errorf("%s: %s %q, not %q", c.code, got.what, got.is, got.want)
			}
		}
	}
}

func TestPTXAndDriver(t *testing.T) {
	for _, c := range []struct {
		driver, isa Version
		want        bool
	}{
		{Version{13, 0}, Version{9, 0}, true}, {Version{13, 0}, Version{9, 1}, false}, {Version{12, 8}, Version{8, 7}, true}, {Version{12, 8}, Version{8, 8}, false},
		{Version{12, 6}, Version{8, 5}, true}, {Version{12, 6}, Version{8, 6}, false}, {Version{11, 8}, Version{7, 8}, true}, {Version{11, 8}, Version{8, 0}, false},
		{Version{}, Version{99, 0}, true}, {Version{14, 0}, Version{10, 0}, true}, {Version{13, 4}, Version{9, 4}, true}, {Version{4, 0}, Version{2, 3}, false},
	} {
		if got := compiles(c.driver, c.isa); got != c.want {
			t.Errorf("PTX %v, driver of CUDA %v: %v", c.isa, c.driver, got)
		}
	}
	for _, s := range []string{"", "13", "13.", ".0", "13.0.1", "a.b", "-1.0", "99999.0"} {
		if v, err := ParseVersion(s); err == nil {
			t.Errorf("%q is taken for %v", s, v)
		}
	}
	if v, err := ParseVersion("13.0"); err != nil || v != (Version{13, 0}) {
		t.Error(v, err)
	}
	for i := 1; i < len(isaOf); i++ {
		if isaOf[i].cuda.Compare(isaOf[i-1].cuda) >= 0 || isaOf[i].isa.Compare(isaOf[i-1].isa) >= 0 {
			t.Errorf("the table is not in order at %v", isaOf[i])
		}
	}
}

func TestOfDevice(t *testing.T) {
	// As nvidia-smi, or NVIDIA's list of supported chips, names them.
	for id, want := range map[uint16]Capability{0x15f8: 60, 0x1b06: 61, 0x1db6: 70, 0x1eb8: 75, 0x1f82: 75, 0x2184: 75, 0x20b2: 80, 0x2204: 86, 0x25b6: 86, 0x2684: 89, 0x27b8: 89,
		0x2330: 90, 0x2335: 90, 0x2901: 100, 0x3182: 103, 0x2b85: 120, 0x2f04: 120, 0x2e12: 121, 0x0fc0: 0, 0x1381: 50, 0x13c0: 52, 0x1401: 52, 0x17c2: 52, 0x22a3: 0, 0xffff: 0} {
		if got, ok := OfDevice(id); got != want || ok != (want != 0) {
			t.Errorf("%04x is %v, not %v", id, got, want)
		}
	}
	for i, d := range devices {
		for _, e := range devices[:i] {
			if d.first > d.last || d.first <= e.last && e.first <= d.last {
				t.Errorf("%+v and %+v", d, e)
			}
		}
	}
}

// For 90-real, and sm_90, PTX does not stand; for 9.0 and 90 it may.
func TestMachineCodeByName(t *testing.T) {
	for word, want := range map[string]bool{"90-real": true, "sm_90": true, "90a-real": true, "9.0": false, "90": false, "9.0+PTX": false, "90-virtual": false, "compute_90": false} {
		if got, err := ParseTargets(word); err != nil || len(got) != 1 || got[0].Machine != want {
			t.Errorf("%s: %+v, %v", word, got, err)
		}
	}
}
