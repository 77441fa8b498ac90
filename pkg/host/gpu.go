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

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/loader"
)

// gpu is a kind of GPU of the host.
type gpu struct {
	gpucode.Capability // 0 where it is not known, and then there is a name
	name, source       string
}

// kinds returns what a verdict on a compat package asks of GPUs.
func kinds(gpus []gpu) (all []forwardcompat.GPU) {
	for _, g := range gpus {
		all = append(all, forwardcompat.GPU{Capability: uint32(g.Capability), Name: g.name})
	}
	return all
}

// gpus returns the kinds of GPUs that programs are to run on: those that were asked for, else
// those that the driver's nvidia-smi names, else those that the kernel lists.
func (h *Host) gpus(drv *Driver) (all []gpu) {
	if h.GPUs != nil {
		for _, c := range h.GPUs {
			all = append(all, gpu{c, "", "--for"})
		}
		return all
	}
	if all = h.askSMI(drv); all == nil {
		all = h.pciGPUs()
	}
	slices.SortFunc(all, func(a, b gpu) int {
		return cmp.Or(int(a.Capability)-int(b.Capability), strings.Compare(a.name, b.name))
	})
	return slices.CompactFunc(all, func(a, b gpu) bool { return a.Capability == b.Capability && a.name == b.name })
}

// askSMI asks the nvidia-smi that came with the driver, on this host alone. It sees what the
// process may use, which in a container is less than what /sys shows.
func (h *Host) askSMI(drv *Driver) (all []gpu) {
	if !h.Root.IsHost() || drv.Directory == "" {
		return nil
	}
	for _, dir := range []string{drv.Directory, path.Join(drv.Directory, "../bin"), "/usr/bin",
		"/run/current-system/sw/bin"} {
		smi := path.Join(dir, "nvidia-smi")
		if h.exists(smi) && h.trusted(smi) == nil {
			limit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(limit, smi, "--query-gpu=compute_cap,name", "--format=csv,noheader")
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+drv.Directory)
			out, _ := cmd.Output() // of an old driver, which does not know compute_cap, nothing is understood
			return smiGPUs(string(out), smi)
		}
	}
	return nil
}

// smiGPUs reads what nvidia-smi prints, "9.0, NVIDIA H100 80GB HBM3" a line.
func smiGPUs(out, source string) (all []gpu) {
	for line := range strings.Lines(out) {
		number, name, _ := strings.Cut(line, ",")
		if t, err := gpucode.ParseTargets(number); err == nil {
			all = append(all, gpu{t[0].Capability, strings.TrimSpace(name), source})
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
	gpus := h.gpus(drv)
	for _, g := range gpus {
		if g.Capability == 0 {
			return nil, fmt.Errorf("which compute capability %s has is not known: name it, as 9.0", g.name)
		}
	}
	if list, _ = targets(gpus); len(list) == 0 {
		return nil, errors.New("no GPU of NVIDIA's is found on this machine: name it, as 9.0")
	}
	return list, nil
}

// The directories in which the kernel lists what is on the PCI bus, and the driver its GPUs.
const (
	pciSlots = "/sys/bus/pci/devices"
	procGPUs = "/proc/driver/nvidia/gpus"
)

// model returns the driver's name of a GPU, "" where it tells none.
func (h *Host) model(information string) string {
	b, _ := h.Root.ReadFile(information, 4<<10)
	for line := range strings.Lines(string(b)) {
		if model, ok := strings.CutPrefix(line, "Model:"); ok {
			return strings.TrimSpace(model)
		}
	}
	return ""
}

// pciGPUs returns the GPUs that the kernel lists on the PCI bus, by the names that the driver gives them (its README,
// chapter "The /proc Interface"). Those that the table does not know, which may be newer, have no capability.
func (h *Host) pciGPUs() (all []gpu) {
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
		all = append(all, gpu{c, name, slot + ", " + gpucode.DeviceTable})
	}
	return all
}

// doctorGPUs says which kinds of GPUs there are, and returns them.
func (h *Host) doctorGPUs(d *Diagnosis, drv *Driver) []gpu {
	gpus := h.gpus(drv)
	for _, g := range gpus {
		if g.Capability == 0 {
			d.add("GPU", Note, g.source, "name the GPU: --for 9.0", "%s, whose compute capability is not known", g.name)
			continue
		}
		name := g.Capability.String()
		if g.name != "" {
			name += " (" + g.name + ")"
		}
		if !g.Known() {
			d.add("GPU", Warning, g.source, "",
				"compute capability %s, which no GPU is known to have: the general rule is applied", name)
			continue
		}
		d.add("GPU", Good, g.source, "", "compute capability %s", name)
	}
	return gpus
}

// targets returns what GPU code is asked of GPUs, which are sorted, and whether these are all of them: not where one's
// capability is not known.
func targets(gpus []gpu) (list []gpucode.Target, all bool) {
	all = true
	for i, g := range gpus {
		switch {
		case g.Capability == 0:
			all = false
		case i == 0 || gpus[i-1].Capability != g.Capability:
			list = append(list, gpucode.Target{Arch: gpucode.Arch{Capability: g.Capability}, Real: true})
		}
	}
	return list, all
}

// doctorGPUCode says what each GPU takes of the code of a program and its libraries.
func (h *Host) doctorGPUCode(d *Diagnosis, load *loader.Load, gpus []gpu, cuda string) {
	const subject = "GPU code"
	version, _ := gpucode.ParseVersion(h.cudaOf(load, cuda))
	targets, all := targets(gpus)
	var with, compiled []string
	for _, o := range load.Objects {
		if !o.Found() || o.File == nil || driver.Provides(path.Base(o.Path)) {
			continue
		}
		code := explain.SeenOf(o.File).Code // nil: the loader's own complaint says why
		if code == nil || len(code.Containers) == 0 {
			continue
		}
		with = append(with, path.Base(o.Path))
		failing, problems := 0, explain.Code(code, targets, version)
		for _, p := range problems {
			if p.ID == explain.GPUCodeMissing {
				failing += len(p.GPUs)
			}
		}
		for _, p := range problems {
			verdict := Warning // another GPU does, or the library is only opened where it is wanted
			switch {
			case p.ID == explain.GPUCodeJIT && !slices.Contains(compiled, path.Base(o.Path)):
				compiled = append(compiled, path.Base(o.Path))
			case p.ID == explain.GPUCodeMissing:
				if all && failing == len(targets) && o.Certain() {
					verdict = Bad
				}
				d.addRemedy(subject, verdict, o.Path, p.Remedy, "%s %s", path.Base(o.Path), p.Message).Error = p.Answer
			}
		}
	}
	switch {
	case len(with) > 0 && len(targets) == 0:
		d.add(subject, Note, load.Main.Path, "name the GPU: --for 9.0",
			"which GPU it is to run on is not known, so the code in %s is not examined", few(with))
	case len(with) > 0:
		d.add(subject, Good, "headers of GPU code", "", "examined in %s", few(with))
	}
	if len(compiled) > 0 {
		d.add(subject, Note, "headers of GPU code", "",
			"the driver compiles kernels of %s from PTX when they are first used: there is no machine code of them for the GPU",
			few(compiled))
	}
}

// cudaOf returns the CUDA version of the libcuda.so.1 that the program loads: of a compat
// package its own, else the driver's.
func (h *Host) cudaOf(load *loader.Load, cuda string) string {
	for _, o := range load.Objects {
		if path.Base(o.Path) == driver.LibCUDA && o.Found() && h.isCompat(path.Dir(o.Path)) {
			if l, err := cudaLibraryAt(h.Root, o.Path); err == nil {
				return l.CUDA
			}
		}
	}
	return cuda
}
