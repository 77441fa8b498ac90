package loader

import (
	"debug/elf"
	"errors"
	"fmt"

	"cuda-runpath/pkg/elfimage"
)

// symbolTable is a file's dynamic symbols, and those that others may bind to, by name.
type symbolTable struct {
	elfimage.Symbols
	open  map[string][]*elfimage.Symbol // by name, those that others may bind to
	known bool
	err   error // why the symbols are not known, where that is more than the machine
}

// maxLoadSymbols bounds the symbols that are looked at for one file and what it loads, far
// above what the largest programs have.
const maxLoadSymbols = 1 << 20

// symbols reads a file's dynamic symbols, once. known is false where they cannot be read.
func (f *File) symbols() *symbolTable {
	f.symbolsOnce.Do(func() {
		t := &symbolTable{}
		f.table = t
		f.Image(func(im *elfimage.Image) {
			t.Symbols, t.known, t.err = im.DynamicSymbols()
			t.known = t.known && t.err == nil
		})
		if !t.known {
			t.Symbols = elfimage.Symbols{}
			return
		}
		t.open = map[string][]*elfimage.Symbol{}
		for i := range t.Symbols.Symbols {
			y := &t.Symbols.Symbols[i]
			if y.Bind == elf.STB_LOCAL || y.Vis == elf.STV_HIDDEN || y.Vis == elf.STV_INTERNAL {
				continue
			}
			// Relocations of TLS never bind to an undefined symbol; others do where it has a value:
			// the address of the program's PLT entry.
			if y.Type == elf.STT_TLS && !y.Defined || y.Type != elf.STT_TLS && y.Value == 0 && !y.Absolute {
				continue
			}
			switch y.Type {
			case elf.STT_NOTYPE, elf.STT_OBJECT, elf.STT_FUNC, elf.STT_COMMON, elf.STT_TLS, elf.STT_GNU_IFUNC:
				if i > 0 { // that one is null
					t.open[y.Name] = append(t.open[y.Name], y)
				}
			}
		}
	})
	return f.table
}

// takes reports whether a reference, of a symbol with a version or none, binds to a
// definition of the table (do_lookup_x and check_match of glibc elf/dl-lookup.c; musl
// compares no versions, and passes over those that are not the default). Where the library
// that a version is needed of has none at all, glibc may fail at an assertion instead.
func (t *symbolTable) takes(want *elfimage.Symbol, r elfimage.Reference, musl bool) bool {
	versioned := 0
	for _, y := range t.open[want.Name] {
		switch {
		case r.PLT && !y.Defined:
			continue
		case !t.Versioned:
			return true
		case musl:
			if !y.Hidden {
				return true
			}
		case want.Version != nil:
			if y.Version != nil && y.Version.Hash == want.Version.Hash && y.Version.Name == want.Version.Name ||
				y.Version == nil && !y.Hidden && !want.Hidden {
				return true
			}
		case y.Index < 3:
			return true
		case !y.Hidden:
			versioned++
		}
	}
	return versioned == 1
}

// scope are the objects in which symbols of what is loaded at start are looked up, in
// order. complete is false where the symbols of one cannot be read.
func (s *Load) scope() (objects []*Object, complete bool) {
	total := 0
	for _, o := range s.Objects {
		if o.File == nil || o.missing || o != s.Main && !o.Certain() {
			continue
		}
		t := o.File.symbols()
		if !t.known {
			s.SymbolsErr = fmt.Errorf("the symbols of %s cannot be read", o.Path)
			if t.err != nil {
				s.SymbolsErr = fmt.Errorf("%s: %w", o.Path, t.err)
			}
			return nil, false
		}
		if total += len(t.Symbols.Symbols); total > maxLoadSymbols {
			s.SymbolsErr = fmt.Errorf("the files have more than %d dynamic symbols in total", maxLoadSymbols)
			return nil, false
		}
		objects = append(objects, o)
	}
	return objects, true
}

// bind returns the object to which a reference of another binds, nil for none.
func (s *Load) bind(from *Object, r elfimage.Reference, scope []*Object) *Object {
	want := &from.File.symbols().Symbols.Symbols[r.Symbol]
	for _, o := range scope {
		if r.Copy && o == from {
			continue
		}
		if o.File.symbols().takes(want, r, s.Interp.Kind == Musl) {
			return o
		}
	}
	return nil
}

// local reports whether the loader looks nowhere for a symbol: it is the file's own.
func local(y *elfimage.Symbol) bool {
	return y.Bind == elf.STB_LOCAL || y.Vis != elf.STV_DEFAULT && y.Vis != elf.STV_PROTECTED || y.Vis == elf.STV_PROTECTED && y.Defined
}

var errMissing = errors.New("a library is missing")

// Unused returns the libraries in DT_NEEDED of the file itself to which none of its
// relocations binds, as ldd -u does (LD_DEBUG=unused of glibc, elf/rtld.c). What dlsym
// looks up later is not known, nor what a library is needed for by just being loaded: its
// constructors. ok is false where it cannot be determined: a library is missing, or its symbols
// cannot be read.
func (s *Load) Unused() (unused []Use, ok bool) {
	if s.Static || len(s.Missing()) > 0 {
		s.SymbolsErr = errMissing
		return nil, s.Static
	}
	scope, complete := s.scope()
	if !complete {
		return nil, false
	}
	used := map[*Object]bool{}
	t := s.Main.File.symbols()
	for _, r := range t.References {
		if local(&t.Symbols.Symbols[r.Symbol]) {
			continue
		}
		if o := s.bind(s.Main, r, scope); o != nil {
			used[o] = true
		}
	}
	for _, u := range s.Main.Uses {
		if u.Cause == Needed && !used[u.To] {
			unused = append(unused, u)
		}
	}
	return unused, true
}

// Undefined is a symbol that relocations refer to and that nothing loaded at start defines.
type Undefined struct {
	Name    string
	Version string // "" for none
	In      *Object
}

// Undefined returns the symbols of objects loaded at start that none of these defines, weak
// ones aside, as ldd -r does: each once for each object. What is missing defines nothing.
// ok is false where the symbols of an object cannot be read.
func (s *Load) Undefined() (out []Undefined, ok bool) {
	if s.Static {
		return nil, true
	}
	scope, complete := s.scope()
	if !complete {
		return nil, false
	}
	for _, o := range scope {
		if o.File == s.self.File {
			continue // the loader has relocated itself
		}
		t := o.File.symbols()
		seen := map[uint32]bool{}
		for _, r := range t.References {
			y := &t.Symbols.Symbols[r.Symbol]
			if seen[r.Symbol] || y.Bind == elf.STB_WEAK || local(y) || s.bind(o, r, scope) != nil {
				continue
			}
			seen[r.Symbol] = true
			version := ""
			if y.Version != nil {
				version = y.Version.Name
			}
			out = append(out, Undefined{y.Name, version, o})
		}
	}
	return out, true
}

// VersionNeed is a symbol version that an object needs, and what is to define it.
type VersionNeed struct {
	By      *Object
	Library string // as DT_VERNEED names it
	Version string
	To      *Object // nil where no library loaded by that name defines it
}

// Versions returns what the objects loaded at start need, as ldd -v does.
func (s *Load) Versions() (out []VersionNeed) {
	if s.Static {
		return nil
	}
	for _, o := range s.Objects {
		if o.File == nil || o.missing || o != s.Main && !o.Certain() {
			continue
		}
		for i := range o.File.versions.needs {
			v := &o.File.versions.needs[i]
			to := s.named(v.Library)
			if to != nil && (to.missing || to.File == nil || !to.File.versions.define(v)) {
				to = nil
			}
			out = append(out, VersionNeed{o, v.Library, v.Name, to})
		}
	}
	return out
}
