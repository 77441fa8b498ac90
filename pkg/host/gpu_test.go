package host

import (
	"testing"

	"cuda-runpath/pkg/driver"
)

// pci returns the files by which the kernel lists a GPU of NVIDIA's.
func pci(slot, id string) map[string]string {
	at := "sys/bus/pci/devices/" + slot + "/"
	return map[string]string{at + "vendor": "0x10de\n", at + "device": id + "\n", at + "class": "0x030200\n"}
}

// A GPU newer than the table may be one that a compat package helps, whatever is beside it. It is no target of GPU code.
func TestGPUThatTheTableDoesNotKnow(t *testing.T) {
	files := pci("0000:01:00.0", "0x2684")
	for name, text := range pci("0000:02:00.0", "0xffff") {
		files[name] = text
	}
	files["proc/driver/nvidia/gpus/0000:01:00.0/information"] = "Model: \t NVIDIA GeForce RTX 4090\n"
	h := host(t, files)
	gpus := h.gpus(&Driver{})
	if len(gpus) != 2 {
		t.Fatalf("%+v", gpus)
	}
	v := driver.Compat(driver.CUDALibrary{Version: "580.95.05"}, driver.CUDALibrary{Version: "535.261.03"}, kinds(gpus))
	if v.Help != driver.MayHelp {
		t.Errorf("%+v", v)
	}
	targets, all := targets(gpus)
	if len(targets) != 1 || targets[0].Capability != 89 || all {
		t.Errorf("%v, %v", targets, all)
	}
	d := &Diagnosis{}
	h.doctorGPUs(d, &Driver{})
	if f := d.Facts[0]; len(d.Facts) != 2 || f.Verdict != Note || f.Text != "PCI device 10de:ffff, whose compute capability is not known" {
		t.Errorf("%+v", d.Facts)
	}
}
