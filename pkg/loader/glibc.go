package loader

import (
	"cmp"
	"debug/elf"
	"errors"
	"slices"
	"strings"
	"syscall"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/ldcache"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// startGLibc loads the preloaded libraries and then what the program needs
// (dl_main in elf/rtld.c).
func (s *Load) startGLibc() {
	if s.Secure == "" {
		list := s.LibraryPath
		if s.Interp.Becomes != "" {
			list = strings.TrimPrefix(strings.TrimSuffix(list, ":")+":"+cmp.Or(s.NixLDLibraryPath, nixLDLibraryPath), ":")
		}
		s.env = elements(list, ":;", s.tokens(s.Main))
	}
	s.startAudits()
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
			if o.Found() && !again && o.Err == "" {
				queue = append(queue, o)
			}
		}
	}
	if s.Secure == "" {
		// A set-user-ID program preloads only set-user-ID libraries from the default directories. What LD_PRELOAD
		// names does not matter then.
		preload(PreloadList(s.Preload), Preload)
	}
	preload(s.system.preload, PreloadFile)
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

// PreloadList returns the libraries that a value of LD_PRELOAD names, as glibc reads it.
func PreloadList(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ':' })
}

// system is what a search depends on beside the objects and the environment. It is the same for all programs of a
// loader and an ABI.
type system struct {
	interp    *Interpreter
	dirs      []element // the default directories
	rule      Rule      // by which they are searched
	preload   []string  // ld.so.preload's names
	subdirs   []string
	processor ldcache.Processor
}

type systemKey struct {
	interp, nixLD string // the loader's path, and NIX_LD
	abi           files.ABI
	guessed       bool // no file names the loader
	tuning        tuning
}

// system returns the system that a program sees, once for all programs.
func (l *Loader) system(key systemKey, cpu CPU) *system {
	if v, ok := l.systems.Load(key); ok {
		return v.(*system)
	}
	if l.base != nil { // an edit changes only a loader's file
		y := *l.base.system(key, cpu)
		in := *y.interp
		if in.Path != "" {
			in.File = l.files.Open(l.abs(cmp.Or(in.Becomes, in.Path)))
		}
		y.interp = &in
		v, _ := l.systems.LoadOrStore(key, &y)
		return v.(*system)
	}
	in := l.readInterpreter(key)
	y := &system{interp: in, rule: ByDefault}
	if in.Kind == Musl {
		l.muslSearch(in, y)
	} else {
		cpu = cpu.tuned(in, key.tuning)
		y.subdirs, y.processor = cpu.subdirs(in), cpu.processor(in, key.abi.Machine)
		for _, dir := range in.dirs {
			y.dirs = append(y.dirs, element{dir, strings.TrimSuffix(dir, "/"), ""})
		}
	}
	if in.preload != "" {
		if b, err := l.files.Read(in.preload, 1<<20); err == nil {
			for line := range strings.Lines(string(b)) {
				line, _, _ = strings.Cut(line, "#")
				y.preload = append(y.preload, strings.FieldsFunc(line, func(r rune) bool {
					return strings.ContainsRune(": \t\n", r)
				})...)
			}
		}
	}
	v, _ := l.systems.LoadOrStore(key, y)
	return v.(*system)
}

// fromSystem looks for a name in the loader's cache and in the default directories.
func (s *Load) fromSystem(name string, r *outcome) {
	if s.Interp.cache == "" || !s.fromCache(s.Interp.cache, name, false, r) {
		s.openPath(name, s.system.dirs, ByDefault, nil, r)
	}
}

// startAudits loads the auditing modules that the environment and the program name, each in a namespace of its own
// (load_audit_modules in elf/rtld.c). The program's run path counts for them and for what they need. glibc ignores
// one that cannot be loaded, with a message.
func (s *Load) startAudits() {
	for i, list := range [...]string{s.Environment.Audit, s.Main.File.Audit[0], s.Main.File.Audit[1]} {
		cause := []Cause{AuditEnv, Audit, DepAudit}[i]
		if cause == AuditEnv && s.Secure != "" || cause != AuditEnv && s.Interp.Version < 32 {
			continue
		}
		for _, name := range splitList(list, ":") {
			if name == "" || s.Secure != "" && strings.Contains(name, "/") || len(s.Audits) >= maxAudits {
				continue
			}
			n := &Load{Conditions: s.Conditions}
			n.Role, n.direct, n.base = Library, false, s.Main
			self := *s.self
			self.names, self.Uses = slices.Clip(self.names), slices.Clip(self.Uses)
			n.self = &self
			caller := *s.self // the loader opens them, with the program's $ORIGIN
			caller.names, caller.File, caller.origin = nil, nil, s.Main.origin
			n.Main, n.Objects = &caller, []*Object{&caller}
			o, _ := n.mapObject(name, &caller, cause)
			o.NeededBy, o.loader = s.Main, nil // __RTLD_CALLMAP
			n.Main, n.Objects = o, []*Object{o}
			if o.Found() && o.Err == "" && n.deps([]*Object{o}) {
				n.checkVersions(n.Objects)
			}
			if n.phase == crashed { // this ends the whole program
				s.stop("%s", n.Err)
				s.crash()
			}
			s.Audits = append(s.Audits, n)
		}
	}
}

// maxAudits bounds the auditing modules of a program, because the loader has 16 namespaces.
const maxAudits = 15

// item is an object in the list of _dl_map_object_deps.
type item struct {
	o    *Object
	done bool
}

// maxRevisits bounds how often a library named by DT_AUXILIARY is moved to the front and looked at again. Two that
// name each other have no end; glibc goes on until its stack is full.
const maxRevisits = 1000

// deps loads what the objects need, and what that needs, breadth first (_dl_map_object_deps in elf/dl-deps.c). A
// library named by DT_AUXILIARY or DT_FILTER goes before the object that names it. deps answers false if the loader
// stops.
func (s *Load) deps(roots []*Object) bool {
	s.rounds++
	listed := func(o *Object) bool { return o.round == s.rounds }
	list := func(o *Object) { o.round = s.rounds }
	var all []item
	for _, o := range roots {
		list(o)
		all = append(all, item{o: o})
	}
	for run := 0; run < len(all); {
		o := all[run].o
		all[run].done = true
		if o.visited != s.rounds {
			o.visited, o.visits = s.rounds, 0
		}
		if o.visits++; o.visits > maxRevisits {
			if len(s.Missing()) > 0 {
				return false // it stops there, before it has come round once
			}
			if s.phase == started {
				o.Err = "DT_AUXILIARY or DT_FILTER entries form a cycle: the loader crashes"
			}
			if s.Err == "" {
				s.crash()
			}
			s.stop("%s: DT_AUXILIARY or DT_FILTER entries form a cycle: the loader crashes", o.Path)
			return false
		}
		at := run // where o is, because auxiliary libraries move it back
		if o.settled {
			for _, u := range o.Uses {
				if u.Cause.Certain() && u.To.Found() && u.To.Err == "" && !listed(u.To) {
					list(u.To)
					all = append(all, item{o: u.To})
				}
			}
		} else if o.File != nil && o.Found() && o.Err == "" && o != s.self {
			o.Uses = slices.Grow(o.Uses, len(o.File.Asks))
			for _, d := range o.File.Asks {
				if len(s.Objects) >= maxObjects && !s.step(maxSteps) {
					return false
				}
				cause := Needed
				switch d.Tag {
				case elf.DT_AUXILIARY:
					cause = Auxiliary
				case elf.DT_FILTER:
					cause = Filter
				}
				name := d.Name
				if runpath.HasToken(name) { // expand_dst of elf/dl-deps.c
					if name = s.tokens(o).Expand(name); s.Secure != "" {
						s.notAllowed(o, d.Name, cause, "DST not allowed in SUID/SGID programs")
						return false
					} else if name == "" && cause != Auxiliary {
						s.notAllowed(o, d.Name, cause, "empty dynamic string token substitution")
						return false
					} else if name == "" {
						continue
					}
				}
				if o.visits > 1 && slices.ContainsFunc(o.Uses, func(u Use) bool { return u.Name == name && !u.To.Found() }) {
					continue // it will not be there the second time either
				}
				to, again := s.mapObject(name, o, cause)
				if !to.Found() && !s.step(0) { // it was not looked for everywhere
					s.drop(len(s.Objects) - 1)
					return false
				}
				if o.visits == 1 {
					o.Uses = append(o.Uses, Use{name, cause, "", to, again})
				}
				if to.Err != "" && cause != Auxiliary {
					return false
				}
				if d.Tag == elf.DT_NEEDED {
					if !listed(to) {
						list(to)
						all = append(all, item{o: to})
					}
					continue
				}
				if !to.Found() || to.Err != "" {
					continue
				}
				if listed(to) {
					late := slices.IndexFunc(all[at+1:], func(i item) bool { return i.o == to })
					if late < 0 {
						continue // it stands before o already
					}
					all = slices.Delete(all, at+1+late, at+2+late)
				}
				list(to)
				s.moveBefore(to, o)
				all = slices.Insert(all, at, item{o: to})
				at++
			}
		}
		if s.direct && o == s.Main {
			return true
		}
		for run < len(all) && all[run].done {
			run++
		}
	}
	return true
}

// add appends an object.
func (s *Load) add(o *Object) {
	s.Objects = append(s.Objects, o)
	if s.order != nil {
		s.order = append(s.order, o)
	}
}

// drop takes back the objects from an index on.
func (s *Load) drop(from int) {
	if s.order != nil {
		s.order = slices.DeleteFunc(s.order, func(o *Object) bool { return slices.Contains(s.Objects[from:], o) })
	}
	s.Objects = s.Objects[:from]
}

// ordered returns the objects in the order in which the loader compares their names.
func (s *Load) ordered() []*Object {
	if s.order != nil {
		return s.order
	}
	return s.Objects
}

// moveBefore moves a library in the list of all objects before the one that names it by DT_AUXILIARY or DT_FILTER.
// The loader then compares its names first.
func (s *Load) moveBefore(o, by *Object) {
	if by == s.ordered()[0] || !s.step(1+len(s.Objects)/8) { // no linker makes such a program
		return
	}
	order := slices.DeleteFunc(slices.Clone(s.ordered()), func(x *Object) bool { return x == o })
	if i := slices.Index(order, by); i > 0 {
		s.order = slices.Insert(order, i, o)
	}
}

// notAllowed records a name at which the loader stops without looking for it.
func (s *Load) notAllowed(by *Object, name string, cause Cause, why string) {
	o := &Object{Name: name, Rule: NotFound, NeededBy: by, Cause: cause, Why: why}
	s.add(o)
	by.Uses = append(by.Uses, Use{name, cause, "", o, false})
	s.stop("%s: %s", name, why)
}

// mapObject is _dl_map_object of elf/dl-load.c with the part of
// _dl_map_object_from_fd that recognizes files which are loaded already.
func (s *Load) mapObject(name string, loader *Object, cause Cause) (o *Object, again bool) {
	if s.Main.Answers(name) || name == "" && s.Main.Rule == ByProgram { // the program's l_name is ""
		return s.Main, true
	}
	if s.self.Answers(name) {
		if slices.Contains(s.Objects, s.self) {
			return s.self, true
		}
		s.self.NeededBy = loader
		s.add(s.self)
		return s.self, false
	}
	s.step(len(s.Objects) / 8)
	for _, o := range s.ordered()[1:] {
		if o.Answers(name) {
			return o, true
		}
	}
	if name != "" && name == systemOf(s.abi).vdso && s.base == s.Main { // not in other namespaces
		o := &Object{Name: name, Path: name, Rule: ByKernel, NeededBy: loader, Cause: cause, names: []string{name}}
		s.add(o)
		return o, false
	}
	var r outcome
	s.search(name, loader, &r)
	if r.file != nil && r.fatal == "" {
		if known := s.mapped(r.file); known != nil {
			known.addName(name)
			return known, true
		}
	}
	o = r.object(name, loader, cause)
	s.add(o)
	switch {
	case r.file != nil:
	case s.Interp.guessed && !s.Interp.Found && s.base == s.Main && files.OfGLibc(name):
		o.Path, o.Rule, o.names = name, ByProcess, append(o.names, name)
		return o, false
	default:
		o.Rule = NotFound
		o.awaited = r.awaited && driver.Provides(name)
		return o, false
	}
	if s.phase == started && r.fatal == "" && r.file.Flags1&elf.DF_1_NOOPEN != 0 {
		r.fatal = "shared object cannot be dlopen()ed"
	}
	o.origin, o.names = originOf(s.l.abs(r.path)), append(o.names, name)
	if r.fatal != "" {
		s.fatal(o, "%s", r.fatal)
	}
	return o, false
}

// object makes an object of what a search for a name has found.
func (r *outcome) object(name string, by *Object, cause Cause) *Object {
	return &Object{Name: name, Path: r.path, File: r.file, Rule: r.rule, Entry: r.entry, List: r.list, Tried: r.tried,
		NeededBy: by, Cause: cause, loader: by}
}

// Answers reports whether the loader takes the object, which is loaded, for what a name asks for.
func (o *Object) Answers(name string) bool {
	if !o.Found() || o.Err != "" {
		return false
	}
	return slices.Contains(o.names, name) || o.Rule != ByProgram && o.Path == name ||
		o.File != nil && o.File.Soname == name && name != ""
}

func (o *Object) addName(name string) {
	if !slices.Contains(o.names, name) {
		o.names = append(o.names, name)
	}
}

// search is the middle part of _dl_map_object.
func (s *Load) search(name string, loader *Object, r *outcome) {
	if strings.Contains(name, "/") {
		p := s.tokens(loader).Expand(name)
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
				didMain = didMain || l == s.base
			}
		}
		if dirs := s.list(s.base, elf.DT_RPATH); !didMain && len(dirs) > 0 && s.openPath(name, dirs, ByRPath, s.base, r) {
			return
		}
		// "Also try DT_RUNPATH in the executable for LD_AUDIT dlopen call."
		if dirs := s.list(s.base, elf.DT_RUNPATH); s.base != s.Main && len(dirs) > 0 &&
			s.openPath(name, dirs, ByRunPath, s.base, r) {
			return
		}
	}
	if len(s.env) > 0 && s.openPath(name, s.env, ByEnv, nil, r) {
		return
	}
	if s.Interp.ReadsNote && s.byNote(name, loader, r) {
		return
	}
	nodeflib := loader.File != nil && loader.File.Flags1&elf.DF_1_NODEFLIB != 0
	if s.Interp.ownCache && s.Role == Program {
		if object := store.Path(s.Main.origin); object != "" && s.fromCache(object+ldcache.Path, name, nodeflib, r) {
			return
		}
	}
	if dirs := s.list(loader, elf.DT_RUNPATH); len(dirs) > 0 && s.openPath(name, dirs, ByRunPath, loader, r) {
		return
	}
	if !nodeflib {
		s.fromSystem(name, r)
	} else if s.Interp.cache == "" || !s.fromCache(s.Interp.cache, name, nodeflib, r) {
		s.try(r, Try{Rule: ByDefault, List: loader, Why: "not searched: the file is marked DF_1_NODEFLIB"})
	}
}

// byNote looks for a name where the resolution note of the asking object says (nixpkgs' ldcache.patch).
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
		f := files.Unread("", syscall.ENOENT)
		if file != "" {
			f = s.l.files.Open(s.l.abs(file))
		}
		if s.take(r, f, Try{Path: file, Rule: ByNote, Entry: string(p), List: asks, there: f.There()}) {
			return true
		}
	}
	return false
}

func (s *Load) fromCache(at, name string, nodeflib bool, r *outcome) bool {
	t := Try{Path: at, Rule: ByCache}
	cache, err := s.l.Cache(at)
	if cache == nil {
		t.Why = "does not exist"
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			t.Why = err.Error()
		}
		return s.try(r, t)
	}
	e, ok := cache.Resolve(name, cacheABI(s.abi), s.system.processor)
	if !ok {
		t.Why = "has no entry for " + name
		if cache.Damage != nil {
			t.Why += "; it is damaged: " + cache.Damage.Error()
		}
		return s.try(r, t)
	}
	t.Path = e.Path
	if nodeflib && slices.ContainsFunc(s.Interp.dirs, func(dir string) bool { return strings.HasPrefix(e.Path, dir) }) {
		t.Why = "not used: it is in a default directory, and the file is marked DF_1_NODEFLIB"
		return s.try(r, t)
	}
	return s.take(r, s.l.files.Open(e.Path), t)
}
