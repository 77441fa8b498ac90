package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/driver/symbols"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/starts"
	"cuda-runpath/pkg/sysroot"
)

// checkProgram says what the program would load; it returns the version of its
// loader's glibc, "" if it has none or it is not known.
func (h *Doctor) checkProgram(d *Diagnosis, its *explain.Case, drv *host.Driver, gpus host.GPUs, cuda string,
	linkWorks bool) (glibc string) {
	const subject = "program"
	load, program := its.Load, its.State.Start.File
	if len(its.State.Start.Via) > 0 {
		d.add(subject, Note, strings.Join(its.State.Start.Via, ", "), "",
			"a script or wrapper that runs %s, which is examined instead", program)
	}
	unsure := slices.Concat(its.Start.Other, its.Start.Unsure)
	for _, what := range unsure {
		d.doubt(subject, its.Start.Name(), "", "%s", what).Kind = finding.UnknownStart
	}
	ofStart := len(d.Facts)
	defer func() { // nor is it known then that it cannot work
		if unsure != nil {
			d.Works = true
		}
		for i := range d.Facts[ofStart:] {
			if f := &d.Facts[ofStart+i]; unsure != nil && f.Verdict == Bad {
				f.Verdict = Warning
			}
		}
	}()
	if of := load.Main.File.ELF.Machine; !h.starts(of) {
		d.add(subject, Bad, load.Main.Path, "run it on such a machine, or with an emulator",
			"is for another machine (%v), whose programs this one does not start", of)
		return ""
	}
	if load.Role == loader.Static {
		d.add(subject, Note, program, "", "is static: it loads no libraries, and so no driver; it cannot use CUDA")
		return ""
	}
	if load.Interp.Kind == loader.Musl {
		verdict := Note
		if its.NeedsDriver(nil) {
			verdict = Bad
		}
		d.add(subject, verdict, load.Interp.Path, "build it against glibc: NVIDIA's driver needs it", "its loader is musl's")
	} else if load.Interp.Version != loader.Newest {
		glibc = load.Interp.Version.String()
	}
	found := its.Conclusions
	if d.parts != nil {
		found = its.OfTheLoad
	}
	calls := false // the driver, or the toolkit, without needing it
	for _, c := range found() {
		from, fix, about, verdict := load.Main.Path, c.Remedy, subject, Warning
		if c.By != "" {
			from = c.By
		}
		switch {
		// said of the driver; a note
		case c.Driver, c.ID == finding.UnknownStart,
			c.Severity == finding.Note && c.ID != finding.UnreadNote && c.ID != finding.OpenFails:
			continue
		case finding.Missing(c.ID):
			fix = fix.And("; where it is looked for: " + remedy.Quote("runpath", "explain", program))
		case slices.Contains(finding.OfNotes, c.ID):
			about = "resolution note"
		}
		switch {
		case c.Stops(), c.ID == finding.Ambiguous && c.Severity == finding.Error &&
			slices.ContainsFunc(its.Verdicts(), func(v *explain.Verdict) bool {
				// another than the driver link's is loaded
				return v.Soname == driver.LibCUDA && c.Library == driver.LibCUDA && !v.Good
			}):
			verdict = Bad
		case c.Severity == finding.Note:
			verdict = Note
		}
		if verdict == Bad && c.Part {
			verdict = Warning
		}
		f := d.addRemedy(about, verdict, from, fix, "%s", c.Message)
		f.Kind, f.Library = c.ID, c.Library
		f.unknown = verdict == Warning && !c.Part && !c.Optional &&
			(c.ID == finding.UndefinedSymbol || c.ID == finding.MissingVersion)
		if c.ID == finding.UndefinedSymbol && !c.Optional {
			owner, _ := symbols.Owner(c.Library)
			calls = calls || driver.NeedsDriver(owner)
		}
	}
	d.asks = its.NeedsDriver(nil) || calls
	d.Asks = d.asks || slices.ContainsFunc(apis, func(a api) bool {
		by, _, certain := a.askedBy(load)
		return by != nil && certain
	})
	if its.NeedsDriver(nil) {
		checkRuntime(d, load, cuda)
	}
	h.checkClash(d, its, drv)
	h.checkDriver(d, its, linkWorks)
	if drv.Directory != "" {
		h.checkInterfaces(d, load, drv)
	}
	if _, d.ownList = its.Start.Set[starts.VisibleDevices]; d.ownList && d.asks {
		if gpus = h.checkVisible(d, drv, &its.Start); gpus == nil {
			gpus = h.gpus(drv)
		}
	}
	h.checkJIT(d, drv, &its.Start)
	h.checkGPUCode(d, load, gpus, cuda)
	return glibc
}

// checkRuntime compares the CUDA version that the program was built for with the driver's.
func checkRuntime(d *Diagnosis, load *loader.Load, cuda string) {
	const runtime = "libcudart.so."
	built, from := "", ""
	for _, o := range load.WithFailed() {
		if strings.HasPrefix(path.Base(o.Name), runtime) || strings.HasPrefix(path.Base(o.Path), runtime) {
			built, from = strings.TrimPrefix(path.Base(o.Name), runtime), o.Name
			// The file's name has the whole version: libcudart.so.12.4.127.
			if o.File != nil && strings.Contains(strings.TrimPrefix(path.Base(o.File.Path), runtime), ".") {
				built, from = strings.TrimPrefix(path.Base(o.File.Path), runtime), o.Path
			}
			break
		}
	}
	if built == "" && d.parts != nil { // others of the place use it
		return
	}
	if built == "" {
		d.add("CUDA runtime", Note, load.Main.Path, "",
			"it does not use libcudart.so: the CUDA version that it was built for is unknown")
		return
	}
	if cuda == "" {
		d.add("CUDA runtime", Note, from, "", "built for CUDA %s", built)
		return
	}
	major := func(v string) string { m, _, _ := strings.Cut(v, "."); return m }
	parts := strings.Split(built, ".")
	short := strings.Join(parts[:min(2, len(parts))], ".")
	compat := "upgrade the driver, or on a data-centre GPU build the program with a cuda_compat package"
	switch {
	case forwardcompat.Newer(major(built), major(cuda)):
		least := ""
		if v := leastDriver(major(built)); v != "" {
			least = " (it needs " + v + " or newer)"
		}
		d.add("CUDA runtime", Bad, from, compat, "built for CUDA %s, the driver supports %s: a compat package is needed%s",
			short, cuda, least).Error = 35
	case strings.Contains(short, ".") && forwardcompat.Newer(short, cuda):
		d.add("CUDA runtime", Note, from, "",
			"built for CUDA %s, the driver supports %s: works by minor version compatibility, but not PTX code", short, cuda)
	default:
		d.add("CUDA runtime", Good, from, "", "built for CUDA %s, and the driver supports %s: no compat package is needed",
			short, cuda)
	}
}

// leastDriver returns from which driver on a CUDA major version works at all (minor
// version compatibility). Source: the same notes, "CUDA Minor Version Compatibility".
func leastDriver(cuda string) string {
	switch cuda {
	case "11":
		return "450.80.02"
	case "12":
		return "525.60.13"
	case "13":
		return "580.65.06"
	}
	return ""
}

// system is what concludes of starts beside this host's driver.
func (h *Doctor) system(drv *host.Driver, gpus host.GPUs) *explain.System {
	beside := sync.OnceValue(func() forwardcompat.CUDALibrary {
		if own := h.CUDA(drv); own.Path != "" {
			return own
		}
		whole := *h.Host
		whole.Without = nil
		link, _ := whole.Find(h.Machine) // what the driver link has is no source to install from, and what programs load
		return whole.CUDA(link)
	})
	layout := explain.Layout{
		CompatVerdict: func(file string) (forwardcompat.Verdict, bool) {
			lib, err := host.CUDALibrary(sysroot.Root{}, file)
			return forwardcompat.Judge(lib, beside(), gpus.ForCompat()), err == nil
		},
		Unfit: func(file string) string {
			if version := host.VersionIn(file); len(drv.Libraries) > 0 && drv.Version != "" && version != "" &&
				version != drv.Version {
				return fmt.Sprintf("driver %s, the host's is %s", version, drv.Version)
			}
			return ""
		},
	}
	if h.Prefix != host.DefaultPrefix {
		layout.DriverLink = h.Prefix + "/lib"
	}
	return explain.New(h.Programs, explain.Options{Layout: layout, Symbols: true})
}

// checkClash says what the host's driver needs of a library that the program brings in an older version: then it
// cannot be loaded into that process, however it is offered.
func (h *Doctor) checkClash(d *Diagnosis, its *explain.Case, drv *host.Driver) {
	if !its.NeedsDriver(nil) {
		return
	}
	for _, o := range its.Objects[1:] {
		if !o.Found() || o.File == nil || d.clash != "" || files.OfGLibc(o.Name) || driver.Provides(path.Base(o.Name)) {
			continue
		}
		for _, lib := range drv.Libraries {
			if lib.Class != driver.CUDA && lib.Class != driver.NVML && lib.Class != driver.Compiler {
				continue
			}
			if lacks := h.lacksVersions(lib.File, o); lacks != "" && d.clash == "" {
				d.clash = fmt.Sprintf("build the program with a newer %s, or let it take the host's", o.Name)
				d.add(path.Base(o.Name), Bad, lib.File, d.clash,
					"the driver cannot be loaded into the program, not by hostDriver run either: the host's %s needs %s of %s, "+
						"and the program's own, %s, does not define it",
					path.Base(lib.File), lacks, o.Name, o.Path)
			}
		}
	}
}

// lacksVersions returns the versions that a file needs of a library by the name of an object, and that the object does
// not define.
func (h *Doctor) lacksVersions(file string, o *loader.Object) string {
	im, f, err := host.OpenImage(h.Root, file)
	if err != nil {
		return ""
	}
	defer f.Close()
	all, _ := im.VersionsNeeded()
	var lacks []string
	for _, v := range all {
		if v.Library == o.Name && !o.File.Defines(v.Name) && !slices.Contains(lacks, v.Name) {
			lacks = append(lacks, v.Name)
		}
	}
	return few(lacks)
}

// checkDriver says of each library of the driver which one the program loads.
func (h *Doctor) checkDriver(d *Diagnosis, its *explain.Case, linkWorks bool) {
	load, all := its.Load, its.Verdicts()
	switch {
	case !d.asks:
		d.add(driver.LibCUDA, Note, load.Main.Path, "",
			"neither it nor its libraries ask for CUDA or the driver; it may open them in another way, as interpreters do")
	case len(all) == 0 && d.parts == nil && its.NeedsDriver(nil): // the toolkit's libraries open it
		all = append(all, its.Verdict(its.Find(driver.LibCUDA)))
	}
	for _, v := range all {
		if d.parts != nil && v.Optional() { // said once of all
			continue
		}
		h.checkLibrary(d, its, v, linkWorks)
	}
}

// checkLibrary says what a verdict on a library of the driver means on this host.
func (h *Doctor) checkLibrary(d *Diagnosis, its *explain.Case, v *explain.Verdict, linkWorks bool) {
	load, o, subject := its.Load, v.Object, path.Base(v.Soname)
	from, fix, bad := load.Main.Path, v.Remedy, Bad
	if o.Found() {
		from = o.How(nil)
	} else if o.NeededBy != nil {
		from = o.NeededBy.Path
	}
	if subject == driver.LibCUDA && o.Found() && d.own == "" {
		if file := h.ByLibraryPath(path.Dir(load.Inside(o.Path)), h.Machine); file != "" {
			d.own, _ = h.Root.Resolve(file)
		}
	}
	run := d.run(load)
	install := h.installing()
	var offer func(edit remedy.Remedy) remedy.Remedy
	switch {
	case v.Origin == explain.FromCompat:
		subject = "compat package"
		if v.Good {
			bad = Note
		}
		if v.Help == forwardcompat.Helps {
			bad = Good
		}
	case v.Good && o.Found():
		is := o.Path
		if file := load.Inside(o.File.Path); file != "" && file != is {
			is += ", which is " + file
		}
		d.add(subject, Good, from, "", "%s", is)
		if load.Interp.Store && o.File.List == "" && o.Rule != loader.ByEnv && subject == driver.LibCUDA {
			d.add("PTX compiler", Warning, o.Path, h.itself()+" install"+h.prefixFlag()+", or: "+run,
				"%s opens libnvidia-ptxjitcompiler.so.1 by its bare name, which a loader from Nix does not find: code that is "+
					"compiled at run time fails", path.Base(o.Path))
		}
		return
	case v.Kind == finding.DriverBeforeCompat:
		bad = Warning
	case v.Kind == "":
		bad = Note
	case v.Kind == finding.LoadError && o.Certain():
		return // said of the program
	case v.Optional(): // what opens it goes on without; a program's own part may be missing
		if bad, fix = Note, (remedy.Remedy{}); o.NeededBy == load.Main {
			bad, fix = Warning, v.Remedy
		}
	case o.Found() && v.Kind != finding.UnfitDriver:
	case strings.Contains(o.Name, "/"):
	case v.Kind == finding.NoDriverLink && v.Command == nil: // nobody edits the file
		fix = v.Remedy
		if !linkWorks {
			fix = fix.And("; for all programs: " + install)
		}
	case v.Kind == finding.NoDriverLink:
		offer = func(edit remedy.Remedy) remedy.Remedy {
			if linkWorks {
				return remedy.Run(edit.Command...)
			}
			return remedy.Do(d.offer(run + "; or for good: " + edit.Fix + ", then " + install))
		}
		fix = offer(v.Remedy)
	case o.Found() && path.Dir(o.Path) != h.Machine.Link(h.Prefix): // by a directory in which another driver is
		fix = remedy.Do(run + ", or remove that driver")
	default:
		fix = remedy.Do(d.offer(run + ", or for all programs: " + install))
	}
	if d.clash != "" && bad == Bad && !o.Found() {
		fix, offer = remedy.Do("%s", remedy.Text(d.clash)), nil
	}
	text := v.Text
	if subject == path.Base(v.Soname) { // else that says which one it is about
		text = strings.TrimLeft(strings.TrimPrefix(text, v.Soname), ": ")
	}
	if bad == Bad && d.parts[o] {
		bad = Warning
	}
	f := d.addRemedy(subject, bad, from, fix, "%s", text)
	f.Kind, f.Library, f.Openers, f.found = v.Kind, path.Base(o.Name), v.Openers, o.Found()
	if f.offer = offer; offer != nil {
		f.edits = []remedy.Remedy{v.Remedy}
	}
	if bad == Bad && (o.Found() || !o.Certain()) { // else the program does not start
		f.Error = v.Answer
	}
}
