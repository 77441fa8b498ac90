package doctor

import (
	"cmp"
	"os"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/starts"
)

// gpus returns the kinds of GPUs that programs are to run on: those that were asked for, else those of the host.
func (h *Doctor) gpus(drv *host.Driver) (all host.GPUs) {
	if h.For == nil {
		return h.GPUs(drv)
	}
	for _, c := range h.For {
		all = append(all, host.GPU{Capability: c, Source: "--for"})
	}
	return all
}

// checkGPUs says which kinds of GPUs there are, and returns them.
func (h *Doctor) checkGPUs(d *Diagnosis, drv *host.Driver) host.GPUs {
	gpus := h.gpus(drv)
	if visible := h.checkVisible(d, drv, nil); visible != nil && h.For == nil {
		gpus = visible.Kinds()
	}
	for _, g := range gpus {
		if g.Capability == 0 {
			d.add("GPU", Note, g.Source, "name the GPU: --for 9.0", "%s, whose compute capability is not known", g.Name)
			continue
		}
		name := g.Capability.String()
		if g.Name != "" {
			name += " (" + g.Name + ")"
		}
		if !g.Known() {
			d.add("GPU", Warning, g.Source, "",
				"compute capability %s, which no GPU is known to have: the general rule is applied", name)
			continue
		}
		d.add("GPU", Good, g.Source, "", "compute capability %s", name)
	}
	return gpus
}

// described says in a few words which driver and which GPUs there are.
func described(drv *host.Driver, cuda string, gpus host.GPUs) string {
	parts := []string{"no driver"}
	if drv.Directory != "" {
		parts[0] = strings.TrimSpace("driver " + drv.Version)
	}
	if cuda != "" {
		parts = append(parts, "CUDA "+cuda)
	}
	for _, g := range gpus {
		name := cmp.Or(g.Name, "GPU")
		if g.Capability != 0 {
			name += " (" + g.Capability.String() + ")"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

// setting returns a variable as a start has it: what its wrappers set, "" for one that they take away or empty, else this
// process's own. t may be nil.
func (h *Doctor) setting(t *process.Start, name string) (value string, set bool) {
	if t != nil {
		if value, set = t.Set[name]; set {
			return value, true
		}
	}
	if !h.Root.IsHost() {
		return "", false
	}
	return os.LookupEnv(name)
}

// without says what makes a start go on without a variable that is set, here or by its wrappers. t may be nil.
func without(t *process.Start, name string) string {
	if t != nil {
		if _, set := t.Set[name]; set {
			return "take " + name + " out of " + strings.Join(t.Via, ", ")
		}
	}
	return "unset " + name
}

// checkJIT notes why the driver cannot compile PTX where a start has to, and that it takes nothing else.
func (h *Doctor) checkJIT(d *Diagnosis, drv *host.Driver, t *process.Start) {
	const compiler = "libnvidia-ptxjitcompiler.so"
	missing := h.Kind(drv) == host.Discrete && !slices.ContainsFunc(drv.Libraries, func(lib host.Library) bool {
		return lib.Name == compiler
	})
	if set, _ := h.setting(t, starts.ForceJIT); set != "" && set != "0" {
		d.forced = without(t, starts.ForceJIT)
	}
	switch set, _ := h.setting(t, starts.DisableJIT); {
	case set != "" && set != "0":
		d.noJIT, d.noJITError = starts.DisableJIT+" is set", 223
	case !d.driverless && missing:
		d.noJIT, d.noJITError = "the driver has no usable "+compiler+".1", 221
	}
}

// checkVisible says what the environment of a start, or of this process where t is nil, hides of the GPUs, and returns
// those that it leaves; nil where it hides none, or that is not known.
func (h *Doctor) checkVisible(d *Diagnosis, drv *host.Driver, t *process.Start) host.GPUs {
	list, set := h.setting(t, starts.VisibleDevices)
	if !set || h.Kind(drv) != host.Discrete {
		return nil
	}
	source := starts.VisibleDevices
	if t != nil {
		source = strings.Join(t.Via, ", ")
	}
	order, _ := h.setting(t, starts.DeviceOrder)
	visible, unknown := h.Visible(drv, list, order == "PCI_BUS_ID")
	switch {
	case t != nil && list == "":
		d.doubt("GPU", source, "", "%s: it is not known whether %s is unset, or empty, which hides every GPU", source, starts.VisibleDevices)
	case unknown != "":
		d.doubt("GPU", source, "", "%s=%s: it is not known %s", starts.VisibleDevices, list, unknown)
	case len(visible) == 0:
		d.add("GPU", Bad, source, without(t, starts.VisibleDevices), "%s=%s leaves no GPU", starts.VisibleDevices, list).Error = 100
	}
	return visible
}

// checkGPUCode says what each GPU takes of the code of a program and its libraries.
func (h *Doctor) checkGPUCode(d *Diagnosis, load *loader.Load, gpus host.GPUs, cuda string) {
	version, _ := gpucode.ParseVersion(h.cudaOf(load, cuda))
	targets, all := gpus.Targets()
	for _, o := range load.Objects {
		if !o.Found() || o.File == nil || driver.Provides(path.Base(o.Path)) {
			continue
		}
		code := explain.SeenOf(o.File).Code // nil: the loader's own complaint says why
		if code == nil || len(code.Containers) == 0 {
			continue
		}
		d.examined = append(d.examined, path.Base(o.Path))
		if d.forced != "" && d.checkForced(o, code, targets, version, all) {
			continue
		}
		failing, problems := 0, explain.Code(code, targets, version)
		for _, p := range problems {
			if p.ID == finding.GPUCodeMissing {
				failing += len(p.GPUs)
			}
		}
		for _, p := range problems {
			verdict := Warning // another GPU does, or the library is only opened where it is wanted
			switch {
			case p.ID == finding.GPUCodeJIT && d.noJIT != "":
				// all of it for each GPU
				if all && o.Certain() && !slices.ContainsFunc(targets, func(t gpucode.Target) bool {
					j := code.Judge(t.Capability, version)
					return j.Containers[gpucode.Compiled] < j.Total()
				}) {
					verdict = Bad
				}
				d.add(gpuCode, verdict, o.Path, "", "%s has only PTX for %s, which the driver has to compile, and %s",
					path.Base(o.Path), strings.Join(p.GPUs, " and "), d.noJIT).Error = d.noJITError
			case p.ID == finding.GPUCodeJIT && !slices.Contains(d.compiled, path.Base(o.Path)):
				d.compiled = append(d.compiled, path.Base(o.Path))
			case p.ID == finding.GPUCodeMissing:
				if all && failing == len(targets) && o.Certain() {
					verdict = Bad
				}
				d.addRemedy(gpuCode, verdict, o.Path, p.Remedy, "%s %s", path.Base(o.Path), p.Message).Error = p.Answer
			}
		}
	}
}

// checkForced says for which GPUs a library has machine code alone, of which nothing is taken where CUDA_FORCE_PTX_JIT is
// set. all: there are no other GPUs. It reports whether there are such.
func (d *Diagnosis) checkForced(o *loader.Object, code *gpucode.File, targets []gpucode.Target, version gpucode.Version,
	all bool) bool {
	var names []string
	answer := 0
	for _, t := range targets {
		runs, forced := code.Judge(t.Capability, version), code.JudgeForced(t.Capability, version)
		if runs.Error == 0 && forced.Error != 0 {
			names, answer = append(names, t.String()), forced.Error
		}
	}
	if names == nil {
		return false
	}
	verdict := Warning
	if all && len(names) == len(targets) && o.Certain() {
		verdict = Bad
	}
	d.add(gpuCode, verdict, o.Path, d.forced, "%s has no PTX for %s, and %s is set", path.Base(o.Path),
		strings.Join(names, " and "), starts.ForceJIT).Error = answer
	return true
}

const gpuCode = "GPU code"

// sayExamined says what GPU code was looked at.
func (d *Diagnosis) sayExamined(gpus host.GPUs) {
	targets, _ := gpus.Targets()
	switch {
	case len(d.examined) > 0 && len(targets) == 0:
		d.add(gpuCode, Note, d.Program, "name the GPU: --for 9.0",
			"the code in %s is not examined, because the GPU is not known", few(d.examined))
	case len(d.examined) > 0:
		d.add(gpuCode, Good, "headers of GPU code", "", "examined in %s", few(d.examined))
	}
	if len(d.compiled) > 0 {
		d.add(gpuCode, Note, "headers of GPU code", "",
			"the driver compiles kernels of %s from PTX at their first use, because they have no machine code for the GPU",
			few(d.compiled))
	}
}

// cudaOf returns the CUDA version of the libcuda.so.1 that the program loads: of a compat
// package its own, else the driver's.
func (h *Doctor) cudaOf(load *loader.Load, cuda string) string {
	for _, o := range load.Objects {
		if path.Base(o.Path) == driver.LibCUDA && o.Found() && h.IsCompat(path.Dir(o.Path)) {
			if l, err := host.CUDALibrary(h.Root, o.Path); err == nil {
				return l.CUDA
			}
		}
	}
	return cuda
}

// foreign says of a host that has a GPU of AMD's and none of NVIDIA's that all of this is for NVIDIA's driver: nothing
// that could be done about what was said of the host until now would help.
func (h *Doctor) foreign(d *Diagnosis) {
	vendors := map[string]bool{}
	for _, pattern := range []string{"/sys/bus/pci/devices/*", "/sys/class/drm/card*/device"} {
		devices, _ := h.Root.Glob(pattern)
		for _, at := range devices {
			class, _ := h.Root.ReadFile(path.Join(at, "class"), 64)
			vendor, err := h.Root.ReadFile(path.Join(at, "vendor"), 64)
			if err == nil && (strings.HasPrefix(string(class), "0x03") || strings.HasPrefix(string(class), "0x12")) {
				vendors[strings.TrimSpace(string(vendor))] = true
			}
		}
	}
	if !vendors["0x1002"] || vendors["0x10de"] || !d.driverless || h.Root.Exists(host.ProcVersion) {
		return
	}
	for i := range d.Facts {
		d.Facts[i].Remedy = remedy.Remedy{}
	}
	d.add("GPU", Note, "/sys/bus/pci/devices", "",
		"this host has a GPU of AMD's and none of NVIDIA's: hostDriver is for NVIDIA's driver only")
}
