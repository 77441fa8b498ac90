package host

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Visible returns which of the machine's GPUs a value of CUDA_VISIBLE_DEVICES leaves, by the rules of the CUDA
// Programming Guide, "CUDA Environment Variables": numbers or beginnings of UUIDs, of which the first that is neither
// ends the list. byBus says that numbers follow the PCI bus (CUDA_DEVICE_ORDER=PCI_BUS_ID). unknown says why that
// cannot be said; there are none where both are empty.
func (h *Host) Visible(drv *Driver, list string, byBus bool) (visible GPUs, unknown string) {
	all := h.askSMI(drv)
	named := all != nil
	if !named {
		all = h.procGPUs()
	}
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		n, err := strconv.Atoi(word)
		var these GPUs
		switch {
		case err == nil && n < 0:
		case err == nil && len(all) == 0:
			return nil, "how many GPUs there are"
		case err == nil && n < len(all):
			if !byBus && slices.ContainsFunc(all, func(g GPU) bool { return g.Name != all[0].Name }) {
				return nil, fmt.Sprintf("which GPU number %d is: the GPUs differ, and CUDA_DEVICE_ORDER=PCI_BUS_ID is not set", n)
			}
			these = all[n : n+1]
		case err != nil && word != "" && word[0] >= '0' && word[0] <= '9': // driver 580 takes "0x0" and "0;1" as 0
			return nil, "what CUDA makes of " + word
		case strings.HasPrefix(word, "MIG-") && !named:
			return nil, "whether there is " + word + " without nvidia-smi"
		case strings.HasPrefix(word, "MIG-"):
			these = h.withPart(drv, all, word)
		case strings.HasPrefix(word, "GPU-") && len(word) > len("GPU-"):
			for _, g := range all {
				if g.UUID == "" || strings.Contains(g.UUID, "?") {
					return nil, "which GPU is " + word
				}
				if strings.HasPrefix(strings.ToLower(g.UUID), strings.ToLower(word)) { // of "gpu-" CUDA finds none
					these = append(these, g)
				}
			}
		}
		if len(these) > 1 {
			return nil, "which GPU " + word + " means: several begin so"
		}
		if len(these) == 0 {
			break
		}
		if !strings.HasPrefix(word, "MIG-") && slices.ContainsFunc(visible, func(g GPU) bool { return g.UUID == these[0].UUID && g.Source == these[0].Source }) {
			return nil, "what CUDA makes of a GPU that is named twice"
		}
		visible = append(visible, these...)
	}
	return visible, ""
}

// withPart returns the GPU that nvidia-smi -L lists a part of, by MIG, below.
func (h *Host) withPart(drv *Driver, all GPUs, part string) GPUs {
	at := -1
	out, _ := h.smi(drv, "-L")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "GPU ") {
			at++
		} else if _, uuid, ok := strings.Cut(line, "(UUID: "); ok && strings.HasPrefix(uuid, part) && at >= 0 && at < len(all) {
			return all[at : at+1]
		}
	}
	return nil
}

// procGPUs returns the GPUs that the driver lists, in the order of the PCI bus, with their UUIDs.
func (h *Host) procGPUs() (all GPUs) {
	known := map[string]GPU{}
	for _, g := range h.pciGPUs() {
		slot, _, _ := strings.Cut(g.Source, ",")
		known[path.Base(slot)] = g
	}
	slots, _ := h.Root.Glob(procGPUs + "/*")
	for _, slot := range slots {
		g := known[path.Base(slot)]
		information := path.Join(slot, "information")
		if g.UUID = h.told(information, "GPU UUID:"); g.Name == "" {
			g.Name = h.model(information)
		}
		g.Source = slot
		all = append(all, g)
	}
	return all
}
