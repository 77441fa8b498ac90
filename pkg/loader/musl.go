package loader

import (
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"cuda-runpath/pkg/files"
)

// startMusl is the loading part of __dls3 in musl's ldso/dynlink.c.
func (s *Load) startMusl() {
	if s.Secure == "" {
		for _, dir := range strings.FieldsFunc(s.LibraryPath, muslSeparator) {
			s.env = append(s.env, element{dir, dir, ""})
		}
		for _, name := range strings.FieldsFunc(s.Preload,
			func(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r:", r) }) {
			o, again := s.muslLoad(name, nil, Preload) // found without the program's run path
			s.Main.Uses = append(s.Main.Uses, Use{name, Preload, "", o, again})
		}
	}
	s.muslDeps(0)
}

// muslDeps loads what the objects from an index on need, and appends it.
func (s *Load) muslDeps(from int) {
	for i := from; i < len(s.Objects) && !(s.direct && i > 0); i++ {
		o := s.Objects[i]
		if !o.Found() || o.Err != "" || o == s.self || o.File == nil {
			continue
		}
		for _, name := range o.File.Needed {
			if len(s.Objects) >= maxObjects && !s.step(maxSteps) {
				return
			}
			to, again := s.muslLoad(name, o, Needed)
			if !to.Found() && !s.step(0) { // it was not looked for everywhere
				s.Objects = s.Objects[:len(s.Objects)-1]
				return
			}
			o.Uses = append(o.Uses, Use{name, Needed, "", to, again})
		}
	}
}

// muslReserved are the libraries that are one with musl's loader (load_library).
var muslReserved = []string{"c.", "pthread.", "rt.", "m.", "dl.", "util.", "xnet."}

// MuslItself reports whether musl's loader itself answers to a library's name.
func MuslItself(name string) bool {
	rest, ok := strings.CutPrefix(name, "lib")
	return ok && slices.ContainsFunc(muslReserved, func(r string) bool { return strings.HasPrefix(rest, r) })
}

// muslLoad is load_library. A loaded library answers to the last part of the path where it was found, not to its
// soname.
func (s *Load) muslLoad(name string, by *Object, cause Cause) (o *Object, again bool) {
	miss := func(r *outcome) (*Object, bool) {
		o := &Object{Name: name, Rule: NotFound, NeededBy: by, Cause: cause, Tried: r.tried}
		s.Objects = append(s.Objects, o)
		return o, false
	}
	self := name == s.Interp.Path || MuslItself(name)
	if self {
		if slices.Contains(s.Objects, s.self) {
			return s.self, true
		}
		s.self.NeededBy, s.self.Name = by, name
		s.Objects = append(s.Objects, s.self)
		return s.self, false
	}
	var out outcome
	r := &out
	if name == "" {
		return miss(r)
	}
	if strings.Contains(name, "/") {
		f := s.l.files.Open(s.l.abs(name))
		if f.Errno != 0 {
			s.try(r, Try{Path: name, Rule: ByPath, Why: files.ErrText(f.Errno)})
			return miss(r)
		}
		r.path, r.file, r.rule = name, f, ByPath
	} else {
		for _, o := range s.Objects[1:] {
			if slices.Contains(o.names, name) && o != s.self && o.Err == "" {
				return o, true
			}
		}
		if len(name) > 255 || !s.muslSearchFor(name, by, r) {
			return miss(r)
		}
	}
	if known := s.mapped(r.file); known != nil {
		if len(known.names) == 0 && r.rule != ByPath {
			known.names = append(known.names, path.Base(known.Path))
		}
		return known, true
	}
	o = r.object(name, by, cause)
	o.origin = muslOrigin(r.path)
	if r.rule != ByPath {
		o.names = append(o.names, path.Base(r.path))
	}
	s.Objects = append(s.Objects, o)
	if why := s.muslVerify(o, r.file); why != "" {
		s.fatal(o, "%s", why)
	}
	return o, false
}

// muslVerify says what map_library refuses, or fails or crashes at because it does not check. Unlike glibc it takes
// programs, and any OS ABI.
func (s *Load) muslVerify(o *Object, f *files.File) string {
	own := *f
	if f.Ident[elf.EI_CLASS] == byte(s.abi.Class) {
		clear(own.Ident[elf.EI_OSABI:])
		own.Ident[elf.EI_VERSION], own.Version = byte(elf.EV_CURRENT), uint32(elf.EV_CURRENT)
		own.Flags1 &^= elf.DF_1_PIE
		if own.Type == elf.ET_EXEC {
			own.Type = elf.ET_DYN
		}
	}
	switch skip, fatal := s.verify(&own); {
	case fatal != "":
		return fatal
	case skip != "":
		return skip + " (musl's loader does not check that, and fails or crashes)"
	}
	if f.Type != elf.ET_EXEC {
		return ""
	}
	// It must be mapped at its own addresses; EBUSY if something is there already.
	for _, other := range s.Objects {
		if g := other.File; other != o && g != nil && other.Found() && other.Err == "" && g.Type == elf.ET_EXEC &&
			f.First < g.End && g.First < f.End {
			return fmt.Sprintf("its addresses, from %#x, are taken by %s", f.First, other.Path)
		}
	}
	return ""
}

// muslSearchFor: LD_LIBRARY_PATH, the run paths of the object that asks and of those that loaded it, then the default
// list. To musl DT_RPATH and DT_RUNPATH are the same.
func (s *Load) muslSearchFor(name string, by *Object, r *outcome) bool {
	if found, stop := s.muslOpen(name, s.env, ByEnv, nil, r); found || stop {
		return found
	}
	for o := by; o != nil; o = o.loader {
		rule := ByRunPath
		if o.File.Tag == elf.DT_RPATH {
			rule = ByRPath
		}
		if found, stop := s.muslOpen(name, s.muslList(o), rule, o, r); found || stop {
			return found
		}
	}
	found, _ := s.muslOpen(name, s.system.dirs, s.system.rule, nil, r)
	return found
}

func muslSeparator(r rune) bool { return r == ':' || r == '\n' }

// muslList is fixup_rpath: a list with any token other than $ORIGIN is ignored whole.
func (s *Load) muslList(o *Object) []element {
	if o.list != nil {
		return o.list
	}
	out := []element{}
	list := o.File.List
	ok := true
	for rest := list; ; {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			break
		}
		rest = rest[i:]
		if !strings.HasPrefix(rest, "$ORIGIN") && !strings.HasPrefix(rest, "${ORIGIN}") {
			ok = false
		}
		rest = rest[1:]
		if s.Secure != "" && (o.Rule == ByProgram || !strings.HasPrefix(o.origin, "/")) {
			ok = false
		}
	}
	if ok {
		for i, entry := range strings.FieldsFunc(list, muslSeparator) {
			if i == maxElements {
				s.Truncated = true
				break
			}
			out = append(out, element{muslExpand(entry, o.origin), entry, ""})
		}
	}
	o.list = out
	return out
}

// muslExpand replaces the only token that musl knows. Unlike glibc, musl never takes what follows for a part of its
// name.
func muslExpand(entry, origin string) string {
	return strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(entry)
}

func muslOrigin(p string) string {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "."
	}
	return p[:i]
}

// muslOpen is path_open. It takes the first file that opens, whatever it contains.
func (s *Load) muslOpen(name string, dirs []element, rule Rule, list *Object, r *outcome) (found, stop bool) {
	for _, e := range dirs {
		if !s.step(1) {
			return false, true
		}
		f := s.l.files.OpenIn(s.l.abs(e.dir), name)
		t := Try{Path: e.dir + "/" + name, Rule: rule, Entry: e.entry, List: list, Why: files.ErrText(f.Errno)}
		switch {
		case len(t.Path) >= 2*255+2: // the buffer in load_library
			t.Why = "the path is too long for musl"
		case f.Errno == syscall.ENOENT, f.Errno == syscall.ENOTDIR, f.Errno == syscall.EACCES,
			f.Errno == syscall.ENAMETOOLONG:
		case f.Errno != 0:
			t.Why += "; the search ends here"
			return s.try(r, t), true
		default:
			r.path, r.file, r.rule, r.entry, r.list = t.Path, f, rule, e.entry, list
			return true, false
		}
		s.try(r, t)
	}
	return false, false
}
