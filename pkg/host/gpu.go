package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/gpucode"
)

// GPU is a kind of GPU of the host.
type GPU struct {
	gpucode.Capability // 0 where it is not known, and then there is a name
	Name, Source       string
	UUID               string // "" where it is not known
	Memory             uint64 // bytes; 0 where it is not known
}

// GPUs are kinds of GPUs, sorted.
type GPUs []GPU

// ForCompat returns what a verdict on a compat package asks of GPUs.
func (g GPUs) ForCompat() (all []forwardcompat.GPU) {
	for _, g := range g {
		all = append(all, forwardcompat.GPU{Capability: uint32(g.Capability), Name: g.Name})
	}
	return all
}

// GPUs returns the kinds of GPUs that programs run on: those that the driver's nvidia-smi names, else those that the
// kernel lists.
func (h *Host) GPUs(drv *Driver) (all GPUs) {
	if all = h.askSMI(drv); all == nil {
		all = h.pciGPUs()
	}
	return all.Kinds()
}

// GPUMemory returns the bytes that all GPUs have together, equal ones too; 0 where it is not known.
func (h *Host) GPUMemory(drv *Driver) (bytes uint64) {
	for _, g := range h.askSMI(drv) {
		bytes += g.Memory
	}
	return bytes
}

// Kinds returns GPUs of each kind one, sorted.
func (g GPUs) Kinds() GPUs {
	all := slices.Clone(g)
	slices.SortFunc(all, func(a, b GPU) int {
		return cmp.Or(int(a.Capability)-int(b.Capability), strings.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(all, func(a, b GPU) bool { return a.Capability == b.Capability && a.Name == b.Name })
}

// askSMI asks nvidia-smi for the GPUs, in the order of the PCI bus.
func (h *Host) askSMI(drv *Driver) GPUs {
	// Of an old driver, which does not know compute_cap, nothing is understood.
	return smiGPUs(h.smi(drv, "--query-gpu=compute_cap,name,uuid,memory.total", "--format=csv,noheader,nounits"))
}

// smi returns what the nvidia-smi that came with the driver says, on this host alone. It sees what the
// process may use, which in a container is less than what /sys shows.
func (h *Host) smi(drv *Driver, args ...string) (out, program string) {
	if !h.Root.IsHost() || drv.Directory == "" {
		return "", ""
	}
	for _, dir := range []string{drv.Directory, path.Join(drv.Directory, "../bin"), "/usr/bin",
		"/run/current-system/sw/bin"} {
		smi := path.Join(dir, "nvidia-smi")
		if h.Root.Exists(smi) && h.trusted(smi) == nil {
			limit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(limit, smi, args...)
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+drv.Directory)
			out, _ := cmd.Output()
			return string(out), smi
		}
	}
	return "", ""
}

// smiGPUs reads what nvidia-smi prints, "9.0, NVIDIA H100 80GB HBM3, GPU-0e6b…, 81559" a line, the last in MiB.
func smiGPUs(out, source string) (all GPUs) {
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if t, err := gpucode.ParseTargets(fields[0]); err == nil && len(fields) >= 4 {
			n := len(fields)
			mebibytes, _ := strconv.ParseUint(fields[n-1], 10, 32)
			all = append(all, GPU{Capability: t[0].Capability, Name: strings.Join(fields[1:n-2], ", "), Source: source,
				UUID: fields[n-2], Memory: mebibytes << 20})
		}
	}
	return all
}

// Native returns the kinds of GPUs of this machine. It is an error where there is none, or one that is not known.
func Native() ([]gpucode.Target, error) { return (&Host{}).native() }

func (h *Host) native() (list []gpucode.Target, err error) {
	m, err := MachineOf(h.Root)
	if err != nil {
		return nil, err
	}
	drv, _ := h.Find(m) // without a driver the kernel lists them
	gpus := h.GPUs(drv)
	for _, g := range gpus {
		if g.Capability == 0 {
			return nil, fmt.Errorf("the compute capability of %s is not known: name it, such as 9.0", g.Name)
		}
	}
	if list, _ = gpus.Targets(); len(list) == 0 {
		return nil, errors.New("this machine has no NVIDIA GPU: name one, such as 9.0")
	}
	return list, nil
}

// The directories in which the kernel lists what is on the PCI bus, and the driver its GPUs.
const (
	pciSlots = "/sys/bus/pci/devices"
	procGPUs = "/proc/driver/nvidia/gpus"
)

// model returns the driver's name of a GPU, "" where it tells none.
func (h *Host) model(information string) string { return h.told(information, "Model:") }

// told returns what the driver's file about a GPU says after a word.
func (h *Host) told(information, word string) string {
	b, _ := h.Root.ReadFile(information, 4<<10)
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, word); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// pciGPUs returns the GPUs that the kernel lists on the PCI bus, by the names that the driver gives them (its README,
// chapter "The /proc Interface"). Those that the table does not know, which may be newer, have no capability.
func (h *Host) pciGPUs() (all GPUs) {
	h.Saw(pciSlots)
	h.Saw(procGPUs)
	slots, _ := h.Root.Glob(pciSlots + "/*")
	for _, slot := range slots {
		number := func(file string) uint64 {
			b, _ := h.Root.ReadFile(path.Join(slot, file), 64)
			n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 32)
			return n
		}
		if number("vendor") != 0x10de || number("class")>>16 != 3 { // a display controller of NVIDIA's
			continue
		}
		id := uint16(number("device"))
		h.Saw(path.Join(slot, "device"))
		information := path.Join(procGPUs, path.Base(slot), "information")
		h.Saw(information)
		name := cmp.Or(h.model(information), fmt.Sprintf("PCI device 10de:%04x", id))
		c, _ := gpucode.OfDevice(id)
		all = append(all, GPU{Capability: c, Name: name, Source: slot + ", " + gpucode.DeviceTable})
	}
	return all
}

// Targets returns what GPU code is asked of GPUs, and whether these are all of them: not where one's
// capability is not known.
func (g GPUs) Targets() (list []gpucode.Target, all bool) {
	all = true
	for i, gpu := range g {
		switch {
		case gpu.Capability == 0:
			all = false
		case i == 0 || g[i-1].Capability != gpu.Capability:
			list = append(list, gpucode.Target{Arch: gpucode.Arch{Capability: gpu.Capability}, Real: true})
		}
	}
	return list, all
}
