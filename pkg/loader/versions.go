package loader

import (
	"debug/elf"
	"fmt"
	"strings"

	"cuda-runpath/pkg/image"
)

// Lack is a symbol version that a library was to define and does not.
type Lack struct {
	Version string
	By      *Object // whose DT_VERNEED asks for it
}

// versions is what a file says about symbol versions.
type versions struct {
	needs     []image.Version // DT_VERNEED
	defines   []image.Version // DT_VERDEF
	versioned bool            // there is a DT_VERDEF
	relr      bool            // there is a DT_RELR
}

// relrVersion is what glibc from 2.36 on wants a file to need that has DT_RELR, so
// that older ones, which ignore that, refuse the file.
const relrVersion = "GLIBC_ABI_DT_RELR"

// dtRELR is DT_RELR, for which debug/elf has no name.
const dtRELR elf.DynTag = 36

// readVersions reads a file's symbol versions. Tables that contradict themselves count
// as none: what the loader does with them is undefined.
func readVersions(im *image.Image) (v versions) {
	var err error
	if v.needs, err = im.VersionsNeeded(); err != nil {
		v.needs = nil
	}
	if v.defines, v.versioned, err = im.VersionsDefined(); err != nil {
		v.defines, v.versioned = nil, false
	}
	_, v.relr = im.Dyn(dtRELR)
	return v
}

// checkVersions is _dl_check_map_versions of elf/dl-version.c for each of some objects,
// to be called once all of them are there. musl checks no versions.
func (s *Load) checkVersions(objects []*Object) {
	for _, o := range objects {
		if o.missing || o.Err != "" || o.File == nil || len(o.File.versions.needs) == 0 {
			continue
		}
		relr := false
		for _, v := range o.File.versions.needs {
			relr = relr || v.Name == relrVersion
			if !s.step(1) {
				return
			}
			switch to := s.named(v.Library); {
			case to == nil:
				s.refuse(o, "it needs version `%s' of %s, which is not loaded: the loader crashes", v.Name, v.Library)
				return
			case to.missing || to.File == nil || !to.File.versions.versioned || v.Weak:
			case !to.File.versions.define(v):
				to.Lacks = append(to.Lacks, Lack{v.Name, o})
				s.stop("%s: version `%s' not found (required by %s)", to.Path, v.Name, o.Path)
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
	for _, o := range s.Objects {
		if o.missing && o.Name == name || o.answersTo(name) {
			return o
		}
	}
	if s.self.answersTo(name) {
		return s.self
	}
	return nil
}

func (v *versions) define(need image.Version) bool {
	for _, d := range v.defines {
		if d.Hash == need.Hash && d.Name == need.Name {
			return true
		}
	}
	return false
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
