package loader

import (
	"debug/elf"
	"fmt"
	"strings"
	"sync/atomic"

	"cuda-runpath/pkg/elfimage"
)

// Lack is a symbol version that a library was to define and does not.
type Lack struct {
	Version string
	By      *Object // whose DT_VERNEED asks for it
}

// maxLacks bounds how many are remembered of one library.
const maxLacks = 1000

// versions is what a file says about symbol versions.
type versions struct {
	needs   []elfimage.Version  // DT_VERNEED
	groups  []needs             // the same
	defines map[definition]bool // DT_VERDEF; nil where there is none
	relr    bool                // there is a DT_RELR
}

// needs are a file's versions of one library.
type needs struct {
	library  string
	versions []elfimage.Version
	met      atomic.Pointer[File] // a file that defines them all
}

// definition is what the loader compares: the hash, and the name.
type definition struct {
	hash uint32
	name string
}

// relrVersion is what glibc from 2.36 on wants a file to need that has DT_RELR, so
// that older ones, which ignore that, refuse the file.
const relrVersion = "GLIBC_ABI_DT_RELR"

// dtRELR is DT_RELR, for which debug/elf has no name.
const dtRELR elf.DynTag = 36

// Defines reports whether the file defines a symbol version, by its name.
func (f *File) Defines(version string) bool {
	for d := range f.versions.defines {
		if d.name == version {
			return true
		}
	}
	return false
}

// readVersions reads a file's symbol versions. Tables that contradict themselves count
// as none: what the loader does with them is undefined.
func readVersions(im *elfimage.Image) (v versions) {
	if needs, err := im.VersionsNeeded(); err == nil {
		v.needs = needs
		v.groups = group(needs)
	}
	if defined, ok, err := im.VersionsDefined(); ok && err == nil {
		v.defines = make(map[definition]bool, len(defined))
		for _, d := range defined {
			v.defines[definition{d.Hash, d.Name}] = true
		}
	}
	_, v.relr = im.Dyn(dtRELR)
	return v
}

// group splits versions by their library; they stand together as a rule.
func group(versions []elfimage.Version) (out []needs) {
	n := 0
	for i := range versions {
		if i == 0 || versions[i].Library != versions[i-1].Library {
			n++
		}
	}
	out = make([]needs, n)
	n = -1
	for i := range versions {
		if i == 0 || versions[i].Library != versions[i-1].Library {
			n++
			out[n].library, out[n].versions = versions[i].Library, versions[i:i]
		}
		out[n].versions = out[n].versions[:len(out[n].versions)+1]
	}
	return out
}

// checkVersions is _dl_check_map_versions of elf/dl-version.c for each of some objects,
// to be called once all of them are there. musl checks no versions.
func (s *Load) checkVersions(objects []*Object) {
	named := map[string]*Object{}
	complete := len(s.Missing()) == 0 && s.order == nil // else what is missing, or moved, answers to the name
	for _, o := range objects {
		if o.missing || o.Err != "" || o.File == nil || len(o.File.versions.groups) == 0 {
			continue
		}
		relr := false
		for i := range o.File.versions.groups {
			g := &o.File.versions.groups[i]
			if o.File.versions.relr {
				for _, v := range g.versions {
					relr = relr || v.Name == relrVersion
				}
			}
			var to *Object
			if complete {
				to = o.used(g.library)
			}
			if to == nil {
				var known bool
				if to, known = named[g.library]; !known {
					to = s.named(g.library)
					named[g.library] = to
					s.step(len(s.Objects) / 8)
				}
			}
			if to == nil && s.direct {
				continue // something that the file needs may bring it
			}
			if to == nil {
				s.step(1)
				first := s.Err == ""
				s.refuse(o, "it needs version `%s' of %s, which is not loaded: the loader crashes", g.versions[0].Name, g.library)
				s.crashed = s.crashed || first && s.Err != ""
				return
			}
			if to.missing || to.File == nil || to.File.versions.defines == nil || g.met.Load() == to.File {
				continue
			}
			lacks := false
			for _, v := range g.versions {
				if !s.step(1) {
					return
				}
				if v.Weak || to.File.versions.defines[definition{v.Hash, v.Name}] {
					continue
				}
				lacks = true
				if len(to.Lacks) < maxLacks {
					to.Lacks = append(to.Lacks, Lack{v.Name, o})
				}
				s.stop("%s: version `%s' not found (required by %s)", to.Path, v.Name, o.Path)
			}
			if !lacks {
				g.met.Store(to.File)
			}
		}
		if o.File.versions.relr && !relr && s.Interp.Version.atLeast(2, 36) {
			for _, name := range o.File.Needed {
				if strings.HasPrefix(name, "libc.so.") {
					s.refuse(o, "DT_RELR without %s dependency", relrVersion)
					return
				}
			}
		}
	}
}

// used returns the library that is loaded for a name of the object's DT_NEEDED; nil where
// there is none. No object before it in the load answers to the name: that would have been taken.
func (o *Object) used(name string) *Object {
	for i := range o.Uses {
		if u := &o.Uses[i]; u.Name == name && !u.To.missing && u.To.Err == "" {
			return u.To
		}
	}
	return nil
}

// refuse records that the loader stops at an object at once, where it only counts the
// versions that it does not find.
func (s *Load) refuse(o *Object, format string, args ...any) {
	o.Err = fmt.Sprintf(format, args...)
	if !s.started {
		s.Err = fmt.Sprintf("%s: %s", o.Path, o.Err)
	}
}

// named is find_needed: the first object that a name was found to be, missing ones included.
func (s *Load) named(name string) *Object {
	if name == "" && s.Main.program {
		return s.Main
	}
	for _, o := range s.ordered() {
		if o.missing && o.Name == name || o.answersTo(name) {
			return o
		}
	}
	if s.self.answersTo(name) {
		return s.self
	}
	return nil
}

// LackText says what versions an object lacks, and for whom, or "".
func (o *Object) LackText() string {
	var order []string
	by := map[string][]string{}
	for _, l := range o.Lacks {
		if by[l.Version] == nil {
			order = append(order, l.Version)
		}
		by[l.Version] = append(by[l.Version], l.By.Path)
	}
	for i, version := range order {
		order[i] = fmt.Sprintf("version `%s' not found (required by %s)", version, strings.Join(by[version], ", "))
	}
	return strings.Join(order, "; ")
}
