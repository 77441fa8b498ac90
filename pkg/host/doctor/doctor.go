// Package doctor says whether CUDA programs can work on a host, or one program can: what is in the way, by facts, each
// with its source, its weight and what helps. Callers fill in a [Doctor] and ask it to [Doctor.Diagnose].
package doctor

import (
	"cmp"
	"context"
	"debug/elf"
	"os"
	"runtime"
	"slices"
	"strings"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/explain/places"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/starts"
	"cuda-runpath/pkg/sysroot"
)

// Doctor examines a host. It is for one diagnosis.
type Doctor struct {
	// Host finds the driver. Its Programs are nil, or what [Programs] returns.
	*host.Host
	Machine host.Machine // whose programs are to work
	// Emulated: the host starts them, whatever it is, by an emulator that only who asks knows of.
	Emulated bool
	// Prefix is the directory that stands for /run/opengl-driver.
	Prefix string
	// AsRoot means that the user is root: containers often have no sudo, and the driver makes device nodes.
	AsRoot bool
	// Itself is the path of hostDriver, for what root is to run: sudo may not look where it is found; "" for its name.
	Itself string
	// For, where not nil, are the compute capabilities of the GPUs; else they are found out.
	For []gpucode.Capability

	own host.Machine // the root's; the zero value where that is not known
}

// Programs returns what a doctor looks at the programs below a root by: the GPU code in them is seen, too.
func Programs(root sysroot.Root) (*loader.Loader, error) {
	o := loader.Options{NoTries: true, Opened: true, Look: explain.Look}
	if root.IsHost() {
		o.HWCapMask, o.Tunables = os.Getenv("LD_HWCAP_MASK"), os.Getenv("GLIBC_TUNABLES")
		o.LibraryPath, o.Preload, o.BindNow = os.Getenv("LD_LIBRARY_PATH"), os.Getenv("LD_PRELOAD"), os.Getenv("LD_BIND_NOW")
	} else {
		o.Root = root.Dir
	}
	return loader.New(o)
}

// Diagnose says whether a CUDA program can work on the host and, where program is not "", whether that one can. program
// is a path inside the root.
func (h *Doctor) Diagnose(program string) *Diagnosis {
	m := h.Machine
	d := &Diagnosis{Machine: m.Name, Program: program, Works: true, Facts: []Fact{}}
	h.Host = h.Excluding(m, h.Prefix) // what the driver link has is a fact of its own
	var unread error
	if h.Programs == nil { // before anything is looked at, which is so read once
		h.Programs, unread = Programs(h.Root)
	}
	drv, err := h.Find(m)
	k := h.Kind(drv)
	kernel := h.checkKernel(d, k)
	if d.driverless = err != nil; d.driverless {
		fix := cmp.Or(h.Container(), "install the distribution's NVIDIA driver package")
		if dir := h.Outside(m); dir != "" {
			fix = remedy.Quote("hostDriver", "run", "--from", dir) + " PROGRAM"
		}
		d.add("driver libraries", Bad, "ld.so.cache, known directories", fix, "%v", err).Error = 35
		h.checkRejected(d, drv)
	} else {
		h.checkLibraries(d, drv, kernel, k)
	}
	cuda := h.checkCUDA(d, drv)
	h.checkDevices(d, k)
	gpus := h.checkGPUs(d, drv)
	d.Host = described(drv, cuda, gpus)
	h.checkLimit(d, drv)
	d.HostWorks = d.Works && h.hostFinds(drv)
	offered := h.checkEnvironment(d)
	linkWorks := h.checkLink(d, drv, kernel, program == "" && !offered)
	if program == "" {
		if err == nil {
			h.checkGLIBC(d, drv, "")
		}
		h.foreign(d)
		h.checkBuilds(d)
		h.checkStarted(d)
		return d
	}
	h.foreign(d)
	h.own, _ = host.MachineOf(h.Root)
	ofHost := len(d.Facts)
	d.Works = true
	look := func(d *Diagnosis, its *explain.Case) {
		if glibc := h.checkProgram(d, its, drv, gpus, cuda, linkWorks); err == nil && d.Asks {
			h.checkGLIBC(d, drv, glibc)
		}
	}
	system := h.system(drv, gpus)
	if unread != nil {
		d.add("program", Bad, program, "", "%v", unread)
	} else if place, problem := starts.PlaceOf(context.Background(), system.Loader, program); problem != nil {
		d.add("program", Bad, program, "", "%v", problem)
	} else if place != nil && (len(place.Starts)+len(place.Others) > 0 || system.Loader.Files().IsDir(program)) {
		d.place(system, place, func(its *explain.Case) bool { return h.starts(its.Main.File.ELF.Machine) }, look)
		h.checkAssembler(d, place)
	} else if state, problem := starts.Begin(system.Loader, program, starts.Interpreters); problem != nil {
		d.add("program", Bad, program, "", "%v", problem)
	} else {
		look(d, system.Case(state))
	}
	d.sayExamined(gpus)
	if d.driverless {
		h.outweigh(d, kernel)
	} else {
		h.compare(d, drv, kernel)
	}
	for i := range d.Facts[:ofHost] { // they keep other programs from working, if this one does not ask for the driver
		if d.ownList && d.Facts[i].Source == starts.VisibleDevices {
			d.Facts[i].Verdict, d.Facts[i].unknown = Note, false
		}
		if f := &d.Facts[i]; f.Verdict == Bad && d.Asks {
			d.Works = false
		} else if f.Verdict == Bad {
			f.Verdict = Warning
		}
		d.Facts[i].unknown = d.Facts[i].unknown && d.Asks
	}
	// it cannot be read: no fact of the host matters
	if its := d.Facts[ofHost:]; len(its) == 1 && its[0].Source == program {
		d.Facts = slices.Concat(its, d.Facts[:ofHost])
	}
	return d
}

// sudo returns a command for root as the user can start it.
func (h *Doctor) sudo(command string) string {
	if h.AsRoot {
		return command
	}
	return "sudo " + command
}

// itself begins a command of hostDriver for root.
func (h *Doctor) itself() string { return h.sudo(remedy.Quote(cmp.Or(h.Itself, "hostDriver"))) }

// starts reports whether the host starts programs of a machine, as far as that is known. Emulators are told to the
// kernel by names such as qemu-aarch64 (binfmt_misc, update-binfmts).
func (h *Doctor) starts(machine elf.Machine) bool {
	if h.own.Name == "" || h.own.Starts(machine) || h.Emulated && h.Machine.Starts(machine) {
		return true
	}
	emulators, _ := h.Root.Glob("/proc/sys/fs/binfmt_misc/qemu-*")
	return len(emulators) > 0
}

// place says what the starts of a directory, or those by an interpreter, would load, each fact once with those that it
// is about. What nothing opens for sure is in nobody's way.
func (d *Diagnosis) place(system *explain.System, place *starts.Place, here func(*explain.Case) bool,
	look func(*Diagnosis, *explain.Case)) {
	at, failing := map[string]int{}, map[string]bool{}
	var elsewhere []string
	if system.Loader.Files().IsDir(system.Loader.Absolute(place.Path)) {
		d.dir = system.Loader.Host(place.Path)
	}
	sum := places.Summarize(system, runtime.GOMAXPROCS(0), place, func(its *explain.Case) {
		name := its.Start.Name()
		if !here(its) {
			elsewhere = append(elsewhere, name)
			return
		}
		one := &Diagnosis{Program: its.Start.File, Works: true, driverless: d.driverless, parts: its.Parts()}
		look(one, its)
		d.own = cmp.Or(d.own, one.own)
		d.Asks = d.Asks || one.Asks
		for _, f := range one.Facts {
			ofPart := f.Kind == finding.UnknownStart && its.Start.Part && !one.asks // a script in a package of Python's
			f.unknown = f.unknown && (one.asks || f.Kind == finding.UnknownStart) && !ofPart
			if ofPart {
				f.Verdict = Note
			} else if !one.asks && f.Verdict != Bad && f.Verdict != Warning {
				continue
			}
			// which has nothing to do with the driver
			if !one.asks && f.Verdict == Bad && (place.Python == nil || its.Start.File != place.Python.File) {
				f.Verdict, failing[name] = Warning, true
			}
			key := f.Subject + f.Text
			if f.found {
				key = f.Subject + explain.Opened(f.Text, f.Openers, nil)
			}
			i, known := at[key]
			if !known {
				i = len(d.Facts)
				at[key], d.Facts = i, append(d.Facts, f)
			}
			all := remedy.Union(d.Facts[i].Openers, f.Openers)
			d.Facts[i].Text, d.Facts[i].Openers = explain.Opened(d.Facts[i].Text, d.Facts[i].Openers, all), all
			d.Facts[i].unknown = d.Facts[i].unknown || f.unknown
			if known && f.offer != nil && d.Facts[i].offer != nil {
				d.Facts[i].edits = append(d.Facts[i].edits, f.edits...)
				if whole := remedy.OfAll(d.dir, d.Facts[i].edits); whole.Command != nil {
					d.Facts[i].Remedy = d.Facts[i].offer(whole)
				}
			}
			if d.Facts[i].Of = append(d.Facts[i].Of, name); f.Verdict == Bad {
				d.Facts[i].Verdict, d.Facts[i].Error = Bad, cmp.Or(d.Facts[i].Error, f.Error)
			}
			d.Works = d.Works && f.Verdict != Bad
		}
		d.examined, d.compiled = remedy.Union(d.examined, one.examined), remedy.Union(d.compiled, one.compiled)
	})
	if d.Dirs = []string{system.Loader.Absolute(place.Path)}; place.Python != nil {
		d.Dirs = slices.Concat(place.Python.Sites, d.Dirs)
	}
	d.Starts, d.Failing = sum.Starts-len(elsewhere), len(failing)
	d.Works = d.Works && (d.Failing == 0 || d.Failing < d.Starts)
	by := ""
	if sum.Interpreter != "" {
		by = " with " + sum.Interpreter
	}
	which := ""
	if len(sum.Asking) > 0 {
		which = " (" + few(sum.Asking) + ")"
	}
	d.add("starts", Note, place.Path, "",
		"programs, modules and libraries looked at%s: %d; of these ask for the driver: %d%s", by, sum.Starts,
		len(sum.Asking), which)
	if elsewhere != nil {
		d.add("starts", Note, place.Path, "", "for another machine, and so in nobody's way here: %s", few(elsewhere))
	}
	if sum.Left != "" {
		d.doubt("starts", place.Path, "", "%s", sum.Left)
	}
	if len(sum.Optional) > 0 {
		d.add("driver libraries", Note, place.Path, "", "opened by name only, and not here: %s",
			strings.Join(sum.Optional, ", "))
	}
	if parts := sum.Toolkits(); len(parts) > 0 {
		d.add("CUDA toolkit", Note, place.Path, "", "%s", strings.Join(parts, ", "))
	}
}
