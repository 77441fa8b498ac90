package fixup

import (
	"bytes"
	"debug/elf"
	"path"
	"slices"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
)

// today tells what the loader finds for the files of an index as they are now, or would be with another interpreter.
// It finds libraries by run paths, by ld.so.cache and in default directories. It also finds those that a program of
// the tree has loaded, and those in a program's DT_RPATH, which all that it loads and opens inherits. Several
// goroutines may use it.
type today struct {
	ix *Index
	l  *loader.Loader

	direct   sync.Map // *Object → *loader.Load, of the file on its own
	programs func() map[string][]loader.Use
	heirs    func() []*Object // programs with a DT_RPATH
}

// asRunPaths is a loader that sees every DT_RPATH of the index's files as the DT_RUNPATH that it will be.
func (ix *Index) asRunPaths() *loader.Loader {
	own := ix.real()
	return ix.loader.Edited(func(f *files.File) {
		if f.Tag == elf.DT_RPATH && own[f.Path] {
			f.Tag = elf.DT_RUNPATH
		}
	})
}

// newToday returns what a loader finds for the files of an index: its own, or [Index.asRunPaths].
func newToday(ix *Index, l *loader.Loader) *today {
	t := &today{ix: ix, l: l}
	t.programs = sync.OnceValue(t.loadPrograms)
	t.heirs = sync.OnceValue(func() (out []*Object) {
		for _, o := range ix.Files {
			if o.program() && o.Tag == elf.DT_RPATH && l == ix.loader && t.opens(o) {
				out = append(out, o)
			}
		}
		return out
	})
	return t
}

// found is a library that the loader finds.
type found struct {
	path string // "" if it finds none that works
	// rejected is the file that it finds, if that lacks a version.
	rejected *Rejection
	// inherited: the file would not find it if a program outside the tree opened it.
	inherited bool
}

// find returns what a file finds for a name of its DT_NEEDED, where its interpreter is interp;
// "" for its own, or the usual one.
func (t *today) find(o *Object, interp, name string) found {
	v, ok := t.direct.Load(o)
	if !ok {
		load, err := t.l.Direct(o.Real, interp)
		if err != nil {
			load = nil
		}
		v, _ = t.direct.LoadOrStore(o, load)
	}
	load, _ := v.(*loader.Load)
	if load == nil {
		return found{}
	}
	f := use(load.Main.Uses, name)
	if f.path != "" || f.rejected != nil || o.program() {
		return f
	}
	if path := t.inherits(o, name); path != "" {
		return found{path: path, inherited: true}
	}
	return f
}

// usual returns the usual loader on distributions for programs of a library's machine.
func (t *today) usual(o *Object) string {
	load, err := t.l.Direct(o.Real, "")
	if err != nil || load.Interp == nil {
		return "ld-linux-x86-64.so.2"
	}
	return load.Interp.Path
}

// use returns the result for a name that an object asks for.
func use(uses []loader.Use, name string) found {
	for _, u := range uses {
		if u.Cause != loader.Needed || u.Name != name || u.To == nil {
			continue
		}
		switch {
		case !u.To.Found() || u.To.Err != "":
			return found{}
		case len(u.To.Lacks) > 0:
			var versions []string
			for _, l := range u.To.Lacks {
				if !slices.Contains(versions, l.Version) {
					versions = append(versions, l.Version)
				}
			}
			return found{rejected: &Rejection{Path: u.To.Path, Why: lacksVersions(versions)}}
		}
		return found{path: u.To.Path}
	}
	return found{}
}

// inherits returns what a library finds only because of the tree's programs. If some load it, that is what all of
// these find. Else it is what a program with a DT_RPATH finds when it opens the library, or has loaded.
func (t *today) inherits(o *Object, name string) (path string) {
	if uses, ok := t.programs()[o.Real]; ok {
		for _, u := range uses {
			if u.Name != name {
				continue
			}
			f := use([]loader.Use{u}, name)
			if path = f.path; path == "" {
				return ""
			}
		}
		return path
	}
	for _, p := range t.heirs() {
		load, err := t.l.Load(p.Real)
		// once it starts, it has loaded other libraries, and found by other entries
		if err != nil || load.Role == loader.Static || !healthy(load) {
			continue
		}
		open := load.Open(o.Real, load.Main, loader.DlopenAsked, "")
		missing := func(o *loader.Object) bool { return !o.Found() }
		if open.Why != "" && !slices.ContainsFunc(open.Brought, missing) {
			continue // for what it finds
		}
		for _, u := range open.To.Uses {
			// If something else is missing, the loader does not reach the versions.
			if f := use([]loader.Use{u}, name); f.path != "" && u.To.File.Serves(o.File, name) {
				return f.path
			}
		}
	}
	return ""
}

// loadPrograms starts every program of the tree, and returns what its libraries ask for there.
func (t *today) loadPrograms() map[string][]loader.Use {
	all, own := map[string][]loader.Use{}, t.ix.real()
	for _, p := range t.ix.Files {
		if !p.program() || p.err != nil || p.skipReason != "" {
			continue
		}
		load, err := t.l.Load(p.Real)
		if err != nil || load.Role == loader.Static {
			continue
		}
		sound := healthy(load)
		for _, o := range load.Objects {
			if o == load.Main || o.File == nil || !own[o.File.Path] {
				continue
			}
			for _, u := range o.Uses {
				if !sound { // it will change, and with it what it has loaded
					u.To = nil
				}
				all[o.File.Path] = append(all[o.File.Path], u)
			}
		}
	}
	return all
}

// healthy reports whether a program starts, where there is a driver, so that nothing in it will be edited.
func healthy(load *loader.Load) bool {
	noDriver := false
	for _, o := range load.Objects {
		gone, of := !o.Found(), driver.Provides(path.Base(o.Name))
		if noDriver = noDriver || gone && of; gone && !of || len(o.Lacks) > 0 {
			return false
		}
	}
	return noDriver || load.Stops() == ""
}

// real is where the files of the tree are, free of symbolic links.
func (ix *Index) real() map[string]bool {
	all := make(map[string]bool, len(ix.Files))
	for _, o := range ix.Files {
		all[o.Real] = true
	}
	return all
}

// opens reports whether a program can open anything, because it, or what it loads, has dlopen among its symbols.
func (t *today) opens(o *Object) (can bool) {
	load, err := t.l.Load(o.Real)
	if err != nil {
		return false
	}
	for _, o := range load.Objects {
		if o.File == nil || can || files.OfCLibrary(path.Base(o.Path)) {
			continue
		}
		o.File.Image(func(im *elfimage.Image) {
			names, err := im.Read(im.StrOff, im.StrSize)
			can = err == nil && (bytes.Contains(names, []byte("dlopen\x00")) || bytes.Contains(names, []byte("dlmopen\x00")))
		})
	}
	return can
}

// cLibrary is the host's C library, according to /bin/sh, if files of the tree are for it, or if the others have no
// loader here and nothing loads them. Files for another C library are then variants that the package also ships.
func (ix *Index) cLibrary() LibC {
	sh := ix.file("/bin/sh")
	if sh == nil {
		return UnknownLibC
	}
	host, runs := false, false
	for _, o := range ix.Files {
		switch {
		case o.LibC == sh.LibC:
			host = true
		case o.LibC != UnknownLibC && !runs:
			runs = o.program() && ix.loader.Interpreter(o.Interp, o.abi).Why == "" || ix.usualInterpreter(o) != ""
		}
	}
	if !host && (runs || ix.named(sh.LibC)) {
		return UnknownLibC
	}
	return sh.LibC
}

// named reports whether a library of --libs is for another C library. Whoever names it has programs for it, in Nix's
// store for example.
func (ix *Index) named(c LibC) bool {
	for _, l := range ix.sources.Libs {
		d := ix.dir(absolute(l))
		for _, name := range d.names() {
			if o := ix.open(d, name); o != nil && o.LibC != UnknownLibC && o.LibC != c {
				return true
			}
		}
	}
	return false
}

// usualInterpreter is [loader.Loader.UsualInterpreter] for programs like a file.
func (ix *Index) usualInterpreter(o *Object) string {
	kind := loader.GLibc
	if o.LibC == Musl {
		kind = loader.Musl
	}
	return ix.loader.UsualInterpreter(o.abi, kind)
}
