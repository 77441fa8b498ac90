package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"cuda-runpath/pkg/forwardcompat"
)

// pci returns the files by which the kernel lists a GPU of NVIDIA's.
func pci(slot, id string) map[string]string {
	at := "sys/bus/pci/devices/" + slot + "/"
	return map[string]string{at + "vendor": "0x10de\n", at + "device": id + "\n", at + "class": "0x030200\n"}
}

// A GPU newer than the table may be one that a compat package helps, whatever is beside it. It is no target of GPU code.
func TestGPUThatTheTableDoesNotKnow(t *testing.T) {
	files := pci("0000:01:00.0", "0x2684")
	maps.Copy(files, pci("0000:02:00.0", "0xffff"))
	files["proc/driver/nvidia/gpus/0000:01:00.0/information"] = "Model: \t NVIDIA GeForce RTX 4090\n"
	h := host(t, files)
	gpus := h.GPUs(&Driver{})
	if len(gpus) != 2 {
		t.Fatalf("%+v", gpus)
	}
	v := forwardcompat.Judge(forwardcompat.CUDALibrary{Version: "580.95.05"}, forwardcompat.CUDALibrary{Version: "535.261.03"}, gpus.ForCompat())
	if v.Help != forwardcompat.MayHelp {
		t.Errorf("%+v", v)
	}
	targets, all := gpus.Targets()
	if len(targets) != 1 || targets[0].Capability != 89 || all {
		t.Errorf("%v, %v", targets, all)
	}
}

// The GPUs of this machine, for which code is asked: all of them, or none where one is not known.
func TestNative(t *testing.T) {
	two := pci("0000:01:00.0", "0x2684")
	maps.Copy(two, pci("0000:02:00.0", "0x2330"))
	maps.Copy(two, pci("0000:03:00.0", "0x2684"))
	two["etc/passwd"] = ""
	unknown := maps.Clone(two)
	maps.Copy(unknown, pci("0000:04:00.0", "0xffff"))
	for what, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"three":   {two, "[8.9 9.0] <nil>"},
		"unknown": {unknown, "[] the compute capability of PCI device 10de:ffff is not known: name it, such as 9.0"},
		"none":    {map[string]string{"etc/passwd": ""}, "[] this machine has no NVIDIA GPU: name one, such as 9.0"},
	} {
		list, err := host(t, c.files).native()
		if got := fmt.Sprint(list, err); got != c.want {
			t.Errorf("%s: %s, not %s", what, got, c.want)
		}
	}
}

// What the list of GPUs depends on is noticed when it changes, as another GPU, and nothing else is.
func TestInputsOfGPUs(t *testing.T) {
	const information = "proc/driver/nvidia/gpus/0000:01:00.0/information"
	one := pci("0000:01:00.0", "0x2684")
	named := maps.Clone(one)
	named[information] = "Model: \t NVIDIA L4\nGPU UUID: \t GPU-????????\n"
	for what, c := range map[string]struct {
		before, after map[string]string
		changes       bool
	}{
		"none, then one":      {map[string]string{"sys/bus/pci/devices/0000:00:1f.0/vendor": "0x8086\n"}, one, true},
		"one, then another":   {one, pci("0000:01:00.0", "0x2330"), true},
		"one, then two":       {one, pci("0000:02:00.0", "0x2330"), true},
		"no /sys, then one":   {nil, one, true},
		"another in its slot": {map[string]string{"sys/bus/pci/devices/0000:01:00.0/vendor": "0x1002\n"}, named, true},
		"the driver names it": {one, named, true},
		"another name":        {named, map[string]string{information: "Model: \t NVIDIA GeForce RTX 4090\n"}, true},
		"it is used":          {named, map[string]string{information: "Model: \t NVIDIA L4\nGPU UUID: \t GPU-01234567\n"}, false},
		"something else":      {named, map[string]string{"sys/bus/pci/devices/0000:01:00.0/power": "on\n"}, false},
	} {
		h := host(t, c.before)
		h.pciGPUs()
		changed := func() (names []string) {
			for _, in := range h.Inputs {
				if h.Identity(in.Path) != in.ID {
					names = append(names, in.Path)
				}
			}
			return names
		}
		if names := changed(); names != nil {
			t.Errorf("%s: %q before", what, names)
		}
		for name, text := range c.after {
			at := filepath.Join(h.Root.Dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if names := changed(); (names != nil) != c.changes {
			t.Errorf("%s: %q", what, names)
		}
	}
}
