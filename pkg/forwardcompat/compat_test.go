package forwardcompat

import (
	"strings"
	"testing"
)

// The note of libcuda.so.580.95.05, as it is there.
const note580 = `{"format":1,"CUDA version":"13.0","driver":[535,550,565,570,575,580],"device":[1,2,7,8,9,10,11,12,13,14]}`

func TestCompatHelpsWhereTheHostsDriverIsOlder(t *testing.T) {
	const note560 = `{"format":1,"CUDA version":"12.6","driver":[470,535,550,555,560]}`
	const orin = `{"format":1,"CUDA version":"12.6"}`
	for _, test := range []struct {
		name              string
		note, pkg, cuda   string // the package's note, driver version and, without a note, CUDA version
		host, hostCUDA    string
		tegra             bool
		want              Help
		reason, fromWhere string
	}{
		{"1: measured, cuInit answers 803", note580, "580.95.05", "", "580.159.04", "13.0", false, Harms, "803", "note"},
		{"2: toolkit 1697", note580, "580.82.07", "", "580.126.16", "13.0", false, Harms, "803", "note"},
		{"3: the driver's own version", note580, "580.95.05", "", "580.95.05", "13.0", false, NotNeeded, "", "note"},
		{"4: a newer package of the same CUDA version", note580, "580.159.04", "", "580.95.05", "13.0", false, NotNeeded, "", "note"},
		{"5: oldest branch of the list", note580, "580.95.05", "", "535.261.03", "12.2", false, Helps, "CUDA 13.0, 580.95.05", "note"},
		{"6: 550", note580, "580.95.05", "", "550.54.14", "12.4", false, Helps, "", "note"},
		{"7: 570", note580, "580.95.05", "", "570.211.01", "12.8", false, Helps, "", "note"},
		{"8: older, and not in the list", note580, "580.95.05", "", "560.35.03", "12.6", false, Harms, "not made for drivers 560", "note"},
		{"9: older still, and not in the list", note580, "580.95.05", "", "470.256.02", "11.4", false, Harms, "not made for drivers 470", "note"},
		{"10: a newer driver", note580, "580.95.05", "", "590.44.01", "13.1", false, Harms, "803", "note"},
		{"11: the same, the file's name bears no version", note580, "", "", "590.44.01", "13.1", false, Harms, "803", "note"},
		{"12: same CUDA version, no version in the name", note580, "", "", "580.159.04", "13.0", false, NotNeeded, "", "note"},
		{"13: an older note on a newer driver", note560, "560.35.03", "", "575.57.08", "12.9", false, Harms, "803", "note"},
		{"14: an older note that helps", note560, "560.35.03", "", "470.256.02", "11.4", false, Helps, "", "note"},
		{"15: CUDA 12.10 is newer than 12.9", `{"CUDA version":"12.10","driver":[575]}`, "", "", "575.57.08", "12.9", false, Helps, "", "note"},
		{"16: no note, newer branch", "", "545.23.06", "12.3", "535.261.03", "12.2", false, Helps, "no note", "version numbers"},
		{"17: no note, older branch", "", "525.60.13", "12.0", "535.261.03", "12.2", false, Harms, "803", "version numbers"},
		{"18: no note, same branch, newer", "", "535.261.03", "12.2", "535.54.03", "12.2", false, NotNeeded, "", "version numbers"},
		{"19: no note, same branch, older", "", "535.54.03", "12.2", "535.261.03", "12.2", false, Harms, "803", "version numbers"},
		{"20: Orin, newer CUDA", orin, "", "", "", "12.2", true, MayOnL4T, "Jetson", "note"},
		{"21: Orin, the same", orin, "", "", "", "12.6", true, NotNeeded, "", "note"},
		{"22: Orin, older CUDA", orin, "", "", "", "12.9", true, Harms, "803", "note"},
		{"23: Jetson without a note, by what the libraries say", "", "", "12.2", "", "11.4", true, MayOnL4T, "no note", "CUDA versions"},
		{"24: Jetson, nothing is told", "", "", "", "", "11.4", true, Unknown, "", "neither"},
		{"25: Thor has a driver version: the general rule", note580, "580.95.05", "", "580.00", "13.0", true, NotNeeded, "", "note"},
		{"26: WSL: no version, CUDA told", note580, "580.95.05", "", "", "12.9", false, Helps, "not known", "note"},
		{"27: nothing is told of the host", note580, "580.95.05", "", "", "", false, Unknown, "", "neither"},
		{"29: CUDA 13 is CUDA 13.0", `{"CUDA version":"13"}`, "", "", "580.159.04", "13.0", false, NotNeeded, "", "note"},
		{"30: a version that goes on further is the newer one", "", "535.261", "12.2", "535.261.03", "12.2", false, Harms, "803", "version numbers"},
		{"28: a note without a list", orin, "560.35.03", "", "535.261.03", "12.2", false, Helps, "", "note"},
	} {
		p := CUDALibrary{Version: test.pkg, CUDA: test.cuda}
		if test.note != "" {
			n, err := parseNote([]byte(test.note))
			if err != nil {
				t.Fatal(err)
			}
			p.Note, p.CUDA = &n, n.CUDA
		}
		got := Judge(p, CUDALibrary{Version: test.host, CUDA: test.hostCUDA, Tegra: test.tegra}, []GPU{{90, ""}})
		if got.Help != test.want || !strings.Contains(got.Reason, test.reason) || !strings.Contains(got.Source, test.fromWhere) {
			t.Errorf("%s: %+v, want %s", test.name, got, test.want)
		}
	}
}

// What a board takes is told by the release of its BSP, where NVIDIA says it.
func TestCompatOnL4T(t *testing.T) {
	for _, c := range []struct {
		release       int
		cuda          string
		want          Help
		reason, where string
	}{
		{35, "13.0", Cannot, "R35 (JetPack 5), which takes compat packages up to CUDA 12.2; it is CUDA 13.0", "CUDA for Tegra"},
		{35, "12.10", Cannot, "up to CUDA 12.2", "CUDA for Tegra"},
		{35, "12.2", Helps, "it is CUDA 12.2", "CUDA for Tegra"}, {35, "11.8", Helps, "", "CUDA for Tegra"},
		{32, "11.8", Cannot, "R32 (JetPack 4), which takes no compat package", "CUDA for Tegra"},
		{36, "13.0", MayOnL4T, "", "CUDA versions"}, {0, "12.2", MayOnL4T, "", "CUDA versions"},
		{35, "11.4", NotNeeded, "", "CUDA versions"}, {35, "10.2", Harms, "803", "CUDA versions"},
	} {
		got := Judge(CUDALibrary{CUDA: c.cuda}, CUDALibrary{CUDA: "11.4", Tegra: true, L4T: c.release}, []GPU{{72, ""}})
		if got.Help != c.want || !strings.Contains(got.Reason, c.reason) || !strings.Contains(got.Source, c.where) {
			t.Errorf("R%d, %s: %+v, want %s", c.release, c.cuda, got, c.want)
		}
	}
}

func TestCompatNote(t *testing.T) {
	n, err := parseNote([]byte(note580 + "\x00\x00"))
	if err != nil || n.String() != "CUDA 13.0, for drivers 535, 550, 565, 570, 575, 580" {
		t.Errorf("%+v, %v", n, err)
	}
	for _, b := range []string{"", "{", "{}", "null", "[]", `{"CUDA version":""}`, `{"CUDA version":13}`, `{"CUDA version":"x.y"}`,
		`{"format":1,"CUDA version":"13.2","driver":[535,],"device":[]}`} {
		if n, err := parseNote([]byte(b)); err == nil {
			t.Errorf("%q: %+v", b, n)
		}
	}
}

// Forward compatibility is for data-centre GPUs, and newer packages do not know older ones.
func TestCompatAsksTheGPU(t *testing.T) {
	h100, geforce := GPU{90, "NVIDIA H100 80GB HBM3"}, GPU{89, "NVIDIA GeForce RTX 4090"}
	for _, test := range []struct {
		pkg    string
		gpus   []GPU
		want   Help
		reason string
		answer int
	}{
		{"580.95.05", []GPU{h100}, Helps, "it is CUDA 13.0", 0},
		{"580.95.05", nil, MayHelp, "", 0},
		{"580.95.05", []GPU{geforce}, Cannot, "this GPU is NVIDIA GeForce RTX 4090 (compute capability 8.9), and compat packages are for data-centre GPUs; it is", 804},
		{"580.95.05", []GPU{h100, geforce}, MayHelp, "", 0},
		{"580.95.05", []GPU{{70, "NVIDIA TITAN V"}}, Cannot, "data-centre", 804},
		{"580.95.05", []GPU{{89, "NVIDIA L40S"}, {80, "NVIDIA A100-SXM4-40GB"}, {75, "Tesla T4"}}, Helps, "", 0},
		{"580.95.05", []GPU{{120, "NVIDIA RTX PRO 6000 Blackwell Server Edition"}}, Helps, "", 0},
		{"580.95.05", []GPU{{120, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"}}, MayHelp, "", 0},
		{"580.95.05", []GPU{{86, "NVIDIA RTX A2000"}}, MayHelp, "", 0},
		{"580.95.05", []GPU{{75, "NVIDIA T400 4GB"}}, MayHelp, "", 0},
		{"580.95.05", []GPU{{110, ""}}, Helps, "", 0}, // Thor
		{"580.95.05", []GPU{{70, "Tesla V100-SXM2-16GB"}}, Helps, "", 0},
		{"590.44.01", []GPU{{70, "Tesla V100-SXM2-16GB"}}, Cannot, "this GPU is Tesla V100-SXM2-16GB (compute capability 7.0), and driver 580 was the last for it; it is", 100},
		{"590.44.01", []GPU{{52, ""}}, Cannot, "this GPU is of compute capability 5.2, and driver 580", 100},
		{"590.44.01", []GPU{{75, "Tesla T4"}}, Helps, "", 0},
		{"590.44.01", []GPU{{70, ""}, {75, "Tesla T4"}}, MayHelp, "", 0},
		{"545.23.06", []GPU{{37, "Tesla K80"}}, Cannot, "driver 470", 100},
		// One that no table knows yet may be a data centre's.
		{"580.95.05", []GPU{{0, "PCI device 10de:ffff"}}, MayHelp, "", 0},
		{"580.95.05", []GPU{{0, "PCI device 10de:ffff"}, geforce}, MayHelp, "", 0},
		{"580.95.05", []GPU{{0, "NVIDIA GeForce RTX 9090"}}, Cannot, "this GPU is NVIDIA GeForce RTX 9090, and compat", 804},
	} {
		got := Judge(CUDALibrary{Version: test.pkg, CUDA: "13.0"}, CUDALibrary{Version: "535.261.03", CUDA: "12.2"}, test.gpus)
		if got.Help != test.want || !strings.Contains(got.Reason, test.reason) || got.Answer != test.answer {
			t.Errorf("%s on %v: %+v, want %s", test.pkg, test.gpus, got, test.want)
		}
	}
	harms := Judge(CUDALibrary{Version: "525.60.13"}, CUDALibrary{Version: "535.261.03"}, []GPU{geforce})
	if harms.Help != Harms || harms.Answer != 803 {
		t.Errorf("an older one: %+v", harms)
	}
}

// What is said of a compat package, word for word.
func TestCompatInWords(t *testing.T) {
	note := func(cuda string, drivers ...int) *Note { return &Note{CUDA: cuda, Drivers: drivers} }
	for _, c := range []struct {
		p, host        CUDALibrary
		help           Help
		reason, source string
		answer         int
	}{
		{CUDALibrary{Version: "580.95", CUDA: "13.0", Note: note("13.0", 570)}, CUDALibrary{Version: "570.1", CUDA: "12.8"}, Helps,
			"it is CUDA 13.0, 580.95, the host's driver CUDA 12.8, 570.1", compatByNote, 0},
		{CUDALibrary{Version: "560.1", CUDA: "13.0", Note: note("13.0", 570)}, CUDALibrary{Version: "570.1", CUDA: "12.8"}, Helps,
			"it is CUDA 13.0, 560.1, the host's driver CUDA 12.8, 570.1", compatByNote, 0},
		{CUDALibrary{Version: "580.95", CUDA: "13.0", Note: note("13.0")}, CUDALibrary{Version: "580.99", CUDA: "13.0"}, Harms,
			"it is CUDA 13.0, 580.95, the host's driver CUDA 13.0, 580.99: CUDA will fail with error 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)", compatByNote + ", " + compatByVersion, 803},
		{CUDALibrary{Version: "580.95", CUDA: "13.0", Note: note("13.0")}, CUDALibrary{Version: "590.1", CUDA: "13.1"}, Harms,
			"it is CUDA 13.0, 580.95, the host's driver CUDA 13.1, 590.1: CUDA will fail with error 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)", compatByNote, 803},
		{CUDALibrary{Version: "580.95"}, CUDALibrary{Version: "570.1"}, Helps,
			"it is 580.95, the host's driver 570.1; no note says for which drivers it is", compatByVersion, 0},
		{CUDALibrary{Version: "580.95"}, CUDALibrary{Version: "580.1"}, NotNeeded, "it is 580.95, the host's driver 580.1", compatByVersion, 0},
		{CUDALibrary{CUDA: "13.0"}, CUDALibrary{CUDA: "12.8"}, Helps,
			"it is CUDA 13.0, the host's driver CUDA 12.8; no note says for which drivers it is", compatByCUDA, 0},
	} {
		want := Verdict{c.help, c.reason, c.source, c.answer}
		if got := Judge(c.p, c.host, []GPU{{Capability: 90}}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestNewer(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"535.261.03", "535.54.03", true}, {"535.54.03", "535.261.03", false}, {"580.95", "535.261.03", true},
		{"535.261.03", "535.261.03", false}, {"535.261.3", "535.261.03", false}, {"12.10", "12.9", true},
		{"13", "12.8", true}, {"12.2.1", "12.2", true}, {"", "1", false},
	} {
		if got := Newer(test.a, test.b); got != test.want {
			t.Errorf("Newer(%q, %q) = %v", test.a, test.b, got)
		}
	}
}
