package loader

import (
	"fmt"
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
)

// Lack is a symbol version that a library should define and does not.
type Lack struct {
	Version string
	By      *Object // whose DT_VERNEED asks for it
	of      *Object // the library
	// Symbol is the first one at which the loader ends the process, because the library has no DT_VERSYM: see
	// [Scope.Bind]. "" if it compares versions, and stops before it binds anything.
	Symbol string
	Late   bool // it is bound at its first call
}

// maxLacks bounds how many are remembered for one library.
const maxLacks = 1000

// relrVersion is a version that glibc since 2.36 wants a file with DT_RELR to need. Older ones, which ignore DT_RELR,
// so refuse the file.
const relrVersion = "GLIBC_ABI_DT_RELR"

// AssertsFor returns the first symbol of a file at which glibc before 2.41 fails; "" for none. It fails if the symbol
// has a version of the named library and lib, which is that library, has no versions at all. glibc is the version of
// the loader.
func AssertsFor(lib, by *files.File, name string, glibc Version) string {
	if lib.Versions.Symbols || glibc > lastAssert || !slices.ContainsFunc(by.Versions.Needs,
		func(v elfimage.Version) bool { return v.Library == name }) {
		return ""
	}
	library := &Object{File: lib, names: []string{name}}
	from := &Object{File: by}
	scope, err := NewScope(&Interpreter{Kind: GLibc, Version: glibc}, []*Object{library})
	if err != nil {
		return ""
	}
	unbound, _ := scope.Unbound(from)
	for _, u := range unbound {
		if u.Aborts != nil {
			return u.Name
		}
	}
	return ""
}

// checkVersions is _dl_check_map_versions of elf/dl-version.c for some objects, once all of them are there. musl
// checks no versions.
func (s *Load) checkVersions(objects []*Object) {
	for _, o := range objects {
		if !o.Found() || o.Err != "" || o.File == nil || len(o.File.Versions.Needs) == 0 {
			continue
		}
		relr, without := false, false
		var to *Object
		for i := range o.File.Versions.Needs {
			v := &o.File.Versions.Needs[i]
			if !s.step(1) {
				return
			}
			relr = relr || v.Name == relrVersion
			if i == 0 || v.Library != o.File.Versions.Needs[i-1].Library {
				to = s.Named(v.Library)
				s.step(len(s.Objects) / 32)
			}
			switch {
			case to == nil && s.direct:
				continue // something that the file needs may bring it
			case to == nil:
				if s.Err == "" {
					s.crash()
				}
				s.refuse(o, "it needs version `%s' of %s, which is not loaded: the loader crashes", v.Name, v.Library)
				return
			case to.asserts(s.Interp):
				without = true
				continue
			case !to.Found() || to.File == nil || to.File.Versions.Defines == nil || v.Weak || to.File.Versions.Define(v):
				continue
			}
			s.lack(Lack{Version: v.Name, By: o, of: to})
			s.stop("%s: version `%s' not found (required by %s)", to.Path, v.Name, o.Path)
		}
		if without {
			s.checkAsserts(o)
		}
		if o.File.Versions.RELR && !relr && s.Interp.Version >= 36 {
			for _, name := range o.File.Needed {
				if strings.HasPrefix(name, "libc.so.") {
					s.refuse(o, "DT_RELR without %s dependency", relrVersion)
					return
				}
			}
		}
	}
}

// lack records a version that a library does not define.
func (s *Load) lack(lack Lack) {
	if s.opening != nil && lack.of.settled && !lack.Late {
		s.opening.Lacks = append(s.opening.Lacks, lack)
	} else if len(lack.of.Lacks) < maxLacks {
		lack.of.Lacks = append(lack.of.Lacks, lack)
	}
}

// lacksAtOnce reports whether the object lacks a version that keeps what needs it from being loaded.
func (o *Object) lacksAtOnce() bool {
	return slices.ContainsFunc(o.Lacks, func(l Lack) bool { return !l.Late })
}

// lastAssert is the last version of glibc that fails at an assertion if a versioned symbol is bound to its library
// and that has no DT_VERSYM (check_match of elf/dl-lookup.c).
const lastAssert Version = 40

// asserts reports whether a loader fails when it binds a versioned symbol to the object.
func (o *Object) asserts(in *Interpreter) bool {
	return o.Found() && o.File != nil && !o.File.Versions.Symbols && o.File.ELF != nil && in.Kind == GLibc &&
		in.Version <= lastAssert
}

// checkAsserts finds the symbols of an object at which the loader fails: those with a version of a library without
// DT_VERSYM. Few files have any.
func (s *Load) checkAsserts(o *Object) {
	var there []*Object
	for _, x := range s.Objects {
		if x.Found() && x.File != nil && x.Err == "" {
			there = append(there, x)
		}
	}
	scope, err := NewScope(s.Interp, there)
	if err != nil {
		return // what cannot be read is reported where it is asked for
	}
	unbound, _ := scope.Unbound(o)
	for _, u := range unbound {
		if u.Aborts == nil || slices.ContainsFunc(u.Aborts.Lacks, func(l Lack) bool {
			return l.By == o && l.Version == u.Needs() && !l.Late
		}) {
			continue
		}
		lack := Lack{u.Needs(), o, u.Aborts, u.Name, u.Late}
		s.lack(lack)
		if !u.Late {
			s.stop("%s: %s", u.Aborts.Path, lackText([]Lack{lack}))
			s.crash()
		}
	}
}

// refuse records that the loader stops at an object at once. The loader only counts missing versions, without
// stopping.
func (s *Load) refuse(o *Object, format string, args ...any) {
	o.Err = fmt.Sprintf(format, args...)
	if s.phase != started {
		s.Err = fmt.Sprintf("%s: %s", o.Path, o.Err)
	}
}

// Named is find_needed: the first object that a name led to, missing ones included.
func (s *Load) Named(name string) *Object {
	if name == "" && s.Main.Rule == ByProgram {
		return s.Main
	}
	for _, o := range s.ordered() {
		if !o.Found() && o.Name == name || o.Answers(name) {
			return o
		}
	}
	if s.self.Answers(name) {
		return s.self
	}
	return nil
}

// LackText says what versions an object lacks, and for whom, or "".
func (o *Object) LackText() string { return lackText(o.Lacks) }

func lackText(lacks []Lack) string {
	var order, asserts []string
	by := map[string][]string{}
	for _, l := range lacks {
		if l.Symbol != "" {
			asserts = append(asserts, fmt.Sprintf(
				"it has no symbol versions, and where %s binds %s to it, which needs version `%s' of it, the loader fails at an "+
					"assertion",
				l.By.Path, l.Symbol, l.Version))
			continue
		}
		if by[l.Version] == nil {
			order = append(order, l.Version)
		}
		by[l.Version] = append(by[l.Version], l.By.Path)
	}
	for i, version := range order {
		order[i] = fmt.Sprintf("version `%s' not found (required by %s)", version, strings.Join(by[version], ", "))
	}
	return strings.Join(append(order, asserts...), "; ")
}
