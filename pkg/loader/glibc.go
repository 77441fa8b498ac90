package loader

import (
	"debug/elf"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"

	"cuda-runpath/pkg/ldcache"
)

// startGLibc loads the preloaded libraries and then what the program needs
// (dl_main in elf/rtld.c).
func (s *Load) startGLibc() {
	if !s.Secure {
		s.env = elements(s.l.o.LibraryPath, ":;", s.tokens(s.Main))
	}
	if s.Interp.Version >= 32 {
		for _, name := range s.Main.File.audit {
			if name == "" {
				continue
			}
			s.unsearched(s.Main, name, Audit, "an auditing module is not followed: it may let the loader find anything")
		}
	}
	queue := []*Object{s.Main}
	preload := func(names []string, cause Cause) {
		for _, name := range names {
			if name == "" {
				continue
			}
			o, again := s.mapObject(name, s.Main, cause)
			if !again {
				o.NeededBy = nil
			}
			s.Main.Uses = append(s.Main.Uses, Use{name, cause, "", o, again})
			if !o.missing && !again && o.Err == "" {
				queue = append(queue, o)
			}
		}
	}
	if !s.Secure {
		// In a set-user-ID program only set-user-ID libraries of the default
		// directories are preloaded; what LD_PRELOAD names is then no business of ours.
		preload(strings.FieldsFunc(s.l.o.Preload, func(r rune) bool { return r == ' ' || r == ':' }), Preload)
	}
	preload(s.common.preload, PreloadFile)
	if s.deps(queue) {
		if s.direct {
			s.checkVersions([]*Object{s.Main})
			return
		}
		if s.checkVersions(s.Objects); s.Err == "" && len(s.Missing()) == 0 {
			s.checkISA(s.Objects)
		}
	}
}

// system is what a search depends on beside the objects and the environment. It is the same for all programs of a loader and an ABI.
type system struct {
	interp    *Interpreter
	dirs      []element // the default directories
	rule      Rule      // by which they are searched
	preload   []string  // ld.so.preload's names
	subdirs   []string
	processor ldcache.Processor
	cache     func() (*ldcache.Cache, error)
}

type systemKey struct {
	interp string
	abi    ABI
}

// system returns the system that a program sees, once for all programs.
func (l *Loader) system(interp string, a ABI, cpu CPU) *system {
	key := systemKey{interp, a}
	if v, ok := l.systems.Load(key); ok {
		return v.(*system)
	}
	in := l.readInterpreter(interp, a)
	y := &system{interp: in, rule: ByDefault}
	if in.Kind == Musl {
		l.muslSearch(in, y)
	} else {
		y.subdirs, y.processor = cpu.subdirs(in.Version), cpu.processor(in.Version, a.Machine)
		for _, dir := range in.Dirs {
			y.dirs = append(y.dirs, element{dir, strings.TrimSuffix(dir, "/"), ""})
		}
	}
	if in.Preload != "" {
		if b, err := l.files.read(in.Preload, 1<<20); err == nil {
			for line := range strings.Lines(string(b)) {
				line, _, _ = strings.Cut(line, "#")
				y.preload = append(y.preload, strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(": \t\n", r) })...)
			}
		}
	}
	y.cache = sync.OnceValues(func() (*ldcache.Cache, error) { return l.Cache(in.Cache) })
	v, _ := l.systems.LoadOrStore(key, y)
	return v.(*system)
}

// fromSystem looks for a name in the loader's cache and in the default directories.
func (s *Load) fromSystem(name string, r *outcome) {
	if s.Interp.Cache == "" || !s.fromCache(name, false, r) {
		s.openPath(name, s.common.dirs, ByDefault, nil, r)
	}
}

// deps loads what the objects need, and what that needs, breadth first
// (_dl_map_object_deps in elf/dl-deps.c). What a library that DT_AUXILIARY or DT_FILTER names
// needs comes right after what the object that names it needs. It answers false where the
// loader stops, as it does where two libraries name each other so, for its stack is full. That it compares
// the names of such a library before those of who names it is not modelled.
func (s *Load) deps(roots []*Object) bool {
	queue := slices.Clone(roots)
	var circle *Object
	for run := 0; run < len(queue); run++ {
		o, next := queue[run], run+1
		if o.File == nil || o.missing || o.Err != "" || o == s.self {
			continue
		}
		o.Uses = slices.Grow(o.Uses, len(o.File.deps))
		for _, d := range o.File.deps {
			if len(s.Objects) >= maxObjects && !s.step(maxSteps) {
				return false
			}
			cause := Needed
			switch d.tag {
			case elf.DT_AUXILIARY:
				cause = Auxiliary
			case elf.DT_FILTER:
				cause = Filter
			}
			name := d.name
			if hasToken(name) { // expand_dst of elf/dl-deps.c
				if name = s.tokens(o).expand(name); s.Secure {
					s.notAllowed(o, d.name, cause, "DST not allowed in SUID/SGID programs")
					return false
				} else if name == "" && cause != Auxiliary {
					s.notAllowed(o, d.name, cause, "empty dynamic string token substitution")
					return false
				} else if name == "" {
					continue
				}
			}
			to, again := s.mapObject(name, o, cause)
			o.Uses = append(o.Uses, Use{name, cause, "", to, again})
			if to.Err != "" && cause != Auxiliary {
				return false
			}
			at := slices.Index(queue, to)
			switch {
			case cause == Needed && at < 0:
				queue = append(queue, to)
			case cause == Needed, to.missing, to.Err != "":
			case at >= 0 && at < next:
				if to != o && slices.ContainsFunc(to.Uses, func(u Use) bool { return u.To == o && u.Cause != Needed }) {
					circle = o
				}
			default:
				if at > 0 {
					queue = slices.Delete(queue, at, at+1)
				}
				queue = slices.Insert(queue, next, to)
				next++
			}
		}
		if s.direct && o == s.Main {
			return true
		}
	}
	if circle == nil || len(s.Missing()) > 0 { // for which it stops before it has come round once
		return circle == nil
	}
	s.stop("%s: DT_AUXILIARY or DT_FILTER entries form a cycle: the loader crashes", circle.Path)
	return false
}

// notAllowed records a name at which the loader stops without looking for it.
func (s *Load) notAllowed(by *Object, name string, cause Cause, why string) {
	s.unsearched(by, name, cause, why)
	s.stop("%s: %s", name, why)
}

// unsearched records a name for which nobody looks.
func (s *Load) unsearched(by *Object, name string, cause Cause, why string) {
	o := &Object{Name: name, Rule: NotFound, NeededBy: by, Cause: cause, Why: why, missing: true}
	s.Objects = append(s.Objects, o)
	by.Uses = append(by.Uses, Use{name, cause, "", o, false})
}

// mapObject is _dl_map_object of elf/dl-load.c with the part of
// _dl_map_object_from_fd that recognizes files which are loaded already.
func (s *Load) mapObject(name string, loader *Object, cause Cause) (o *Object, again bool) {
	if s.Main.answersTo(name) || name == "" && s.Main.program { // the program's l_name is ""
		return s.Main, true
	}
	if s.self.answersTo(name) {
		if slices.Contains(s.Objects, s.self) {
			return s.self, true
		}
		s.self.NeededBy = loader
		s.Objects = append(s.Objects, s.self)
		return s.self, false
	}
	s.step(len(s.Objects) / 8)
	for _, o := range s.Objects[1:] {
		if o.answersTo(name) {
			return o, true
		}
	}
	if name != "" && name == systemOf(s.abi).vdso {
		o := new(Object)
		o.Name, o.Path, o.Rule, o.NeededBy, o.Cause, o.names = name, name, ByKernel, loader, cause, append(o.names, name)
		s.Objects = append(s.Objects, o)
		return o, false
	}
	var r outcome
	s.search(name, loader, &r)
	if r.file != nil && r.fatal == "" {
		for _, known := range s.Objects {
			if known != s.Main && !known.missing && known.File != nil && known.File.id == r.file.id && known != s.self {
				known.addName(name)
				return known, true
			}
		}
	}
	o = new(Object)
	o.found(name, &r)
	o.NeededBy, o.Cause, o.loader = loader, cause, loader
	s.Objects = append(s.Objects, o)
	switch {
	case r.file != nil:
	case s.guessed && !s.Interp.Found && slices.Contains(GLibcLibraries, name):
		o.Path, o.Rule, o.names = name, ByProcess, append(o.names, name)
		return o, false
	default:
		o.Rule, o.missing = NotFound, true
		return o, false
	}
	o.origin, o.names = originOf(s.l.abs(r.path)), append(o.names, name)
	if r.fatal != "" {
		s.fatal(o, "%s", r.fatal)
	}
	return o, false
}

// found sets what a search for a name has found.
func (o *Object) found(name string, r *outcome) {
	o.Name, o.Path, o.File, o.Rule, o.Entry, o.List, o.Tried = name, r.path, r.file, r.rule, r.entry, r.list, r.tried
}

func (o *Object) answersTo(name string) bool {
	if o.missing || o.Err != "" {
		return false
	}
	return slices.Contains(o.names, name) || !o.program && o.Path == name || o.File != nil && o.File.Soname == name && name != ""
}

func (o *Object) addName(name string) {
	if !slices.Contains(o.names, name) {
		o.names = append(o.names, name)
	}
}

// search is the middle part of _dl_map_object.
func (s *Load) search(name string, loader *Object, r *outcome) {
	if strings.Contains(name, "/") {
		p := s.tokens(loader).expand(name)
		if p == "" {
			return
		}
		s.take(r, s.l.files.Open(s.l.abs(p)), Try{Path: p, Rule: ByPath})
		return
	}
	if name == "" {
		return
	}
	// DT_RPATH of the object that asks, of the one that loaded it and so on, and of the
	// program, unless the object that asks has a DT_RUNPATH.
	if loader.File == nil || loader.File.Tag != elf.DT_RUNPATH {
		didMain := false
		for l := loader; l != nil; l = l.loader {
			if dirs := s.list(l, elf.DT_RPATH); len(dirs) > 0 {
				if s.openPath(name, dirs, ByRPath, l, r) {
					return
				}
				didMain = didMain || l == s.Main
			}
		}
		if dirs := s.list(s.Main, elf.DT_RPATH); !didMain && len(dirs) > 0 && s.openPath(name, dirs, ByRPath, s.Main, r) {
			return
		}
	}
	if len(s.env) > 0 && s.openPath(name, s.env, ByEnv, nil, r) {
		return
	}
	if s.Interp.ReadsNote && s.byNote(name, loader, r) {
		return
	}
	if dirs := s.list(loader, elf.DT_RUNPATH); len(dirs) > 0 && s.openPath(name, dirs, ByRunPath, loader, r) {
		return
	}
	nodeflib := loader.File != nil && loader.File.flags1&elf.DF_1_NODEFLIB != 0
	if !nodeflib {
		s.fromSystem(name, r)
	} else if s.Interp.Cache == "" || !s.fromCache(name, nodeflib, r) {
		s.try(r, Try{Rule: ByDefault, List: loader, Why: "not searched: the file is marked DF_1_NODEFLIB"})
	}
}

// byNote looks for a name where the resolution note of the object that asks for it says:
// nixpkgs' ldcache.patch.
func (s *Load) byNote(name string, asks *Object, r *outcome) (done bool) {
	if asks.File == nil || asks.noteless {
		return false
	}
	places, known := asks.File.Note.Lookup(name)
	asks.noteless = !known && asks.File.NoteErr != nil
	for _, p := range places {
		if entry, ok := p.Directory(); ok && entry != "" {
			dirs := elements(entry, ":", s.tokens(asks))
			for i := range dirs {
				dirs[i].entry = string(p)
			}
			if s.openPath(name, dirs, ByNote, asks, r) {
				return true
			}
		}
		file, ok := p.File()
		if !ok || !s.step(1) {
			continue
		}
		f := unread(syscall.ENOENT)
		if file != "" {
			f = s.l.files.Open(s.l.abs(file))
		}
		if s.take(r, f, Try{Path: file, Rule: ByNote, Entry: string(p), List: asks, There: f.there()}) {
			return true
		}
	}
	return false
}

func (s *Load) fromCache(name string, nodeflib bool, r *outcome) bool {
	t := Try{Path: s.Interp.Cache, Rule: ByCache}
	cache, err := s.common.cache()
	if cache == nil {
		t.Why = "does not exist"
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			t.Why = err.Error()
		}
		return s.try(r, t)
	}
	e, ok := cache.Resolve(name, s.abi.cache(), s.common.processor)
	if !ok {
		t.Why = "has no entry for " + name
		if cache.Damage != nil {
			t.Why += "; it is damaged: " + cache.Damage.Error()
		}
		return s.try(r, t)
	}
	t.Path = e.Path
	if nodeflib && slices.ContainsFunc(s.Interp.Dirs, func(dir string) bool { return strings.HasPrefix(e.Path, dir) }) {
		t.Why = "not used: it is in a default directory, and the file is marked DF_1_NODEFLIB"
		return s.try(r, t)
	}
	return s.take(r, s.l.files.Open(e.Path), t)
}
