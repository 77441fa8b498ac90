package host

import (
	"maps"
	"testing"
)

// What CUDA_VISIBLE_DEVICES leaves of the GPUs that the driver lists, and where that cannot be said.
func TestVisible(t *testing.T) {
	gpu := func(slot, id, model, uuid string) map[string]string {
		files := pci(slot, id)
		files["proc/driver/nvidia/gpus/"+slot+"/information"] = "Model: \t " + model + "\nGPU UUID: \t " + uuid + "\n"
		return files
	}
	like := gpu("0000:01:00.0", "0x2684", "RTX 4090", "GPU-aaaa-1")
	maps.Copy(like, gpu("0000:02:00.0", "0x2684", "RTX 4090", "GPU-aabb-2"))
	unlike := gpu("0000:01:00.0", "0x2684", "RTX 4090", "GPU-aaaa-1")
	maps.Copy(unlike, gpu("0000:02:00.0", "0x2330", "H100", "GPU-????????"))
	for _, c := range []struct {
		files   map[string]string
		list    string
		byBus   bool
		want    string // the beginnings of the names and the UUIDs
		unknown bool
	}{
		{like, "", false, "", false}, {like, "-1", false, "", false}, {like, "none", false, "", false}, {like, "2", false, "", false},
		{like, "0", false, "GPU-aaaa-1 ", false}, {like, "1,0", false, "GPU-aabb-2 GPU-aaaa-1 ", false}, {like, " 1 ,-1,0", false, "GPU-aabb-2 ", false}, {like, "1,7,0", false, "GPU-aabb-2 ", false},
		{like, "GPU-aab", false, "GPU-aabb-2 ", false}, {like, "GPU-aa", false, "", true}, {like, "GPU-c", false, "", false}, {like, "0,0", false, "", true},
		{like, "GPU-AAB", false, "GPU-aabb-2 ", false}, {like, "gpu-aab", false, "", false}, {like, "GPU-", false, "", false}, {like, "0x0", false, "", true}, {like, "0;1", false, "", true}, {like, "00", false, "GPU-aaaa-1 ", false},
		{like, "MIG-0", false, "", true}, {unlike, "1", false, "", true}, {unlike, "0", true, "GPU-aaaa-1 ", false}, {unlike, "GPU-aaaa", false, "GPU-aaaa-1 ", true},
		{unlike, "GPU-b", false, "", true}, {map[string]string{"etc/x": ""}, "0", false, "", true}, {map[string]string{"etc/x": ""}, "-1", false, "", false},
	} {
		gpus, unknown := host(t, c.files).Visible(&Driver{}, c.list, c.byBus)
		got := ""
		for _, g := range gpus {
			got += g.UUID + " "
		}
		if unknown != "" {
			got = ""
		}
		if c.unknown {
			c.want = ""
		}
		if got != c.want || (unknown != "") != c.unknown {
			t.Errorf("%q, by bus: %v: %q, %q", c.list, c.byBus, got, unknown)
		}
	}
}
