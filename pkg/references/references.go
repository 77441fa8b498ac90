// Package references lists the store paths and build directories that a file names, and where
// in the file: what keeps a package in a closure.
//
// Nix's own scanner looks for the 32 letters of a store path's hash alone, anywhere in a
// package's files (Nix manual, "Runtime dependencies"). Here the whole path is looked for, as
// text: a hash without the store's directory around it is not found, nor is anything that is
// compressed.
package references

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/store"
)

// Place says what of a file a path stands in.
type Place string

// The places.
const (
	Interpreter    Place = "interpreter"
	RunPath        Place = "run path"
	Needed         Place = "needed"
	Note           Place = "note"
	ResolutionNote Place = "resolution note"
	ReadOnly       Place = "read-only data"
	Data           Place = "data"
	GPUOptions     Place = "options of GPU code" // the command lines of nvcc and nvlink, since CUDA 12.8
	Debug          Place = "debug information"
	Script         Place = "script" // the rest of it too
	Other          Place = "other"
)

// Reference is a path that a file names in a place.
type Reference struct {
	Path string `json:"path"` // as it stands there, cut at the first byte that is not one of a file's usual name
	// Object is the store path that it is in; "" for a build directory.
	Object string `json:"object,omitempty"`
	Place  Place  `json:"place"`
	Off    uint64 `json:"offset"` // in the file, of the first
	Times  int    `json:"times"`  // how often the path stands in that place
	// Unused says of an entry of a run path that it holds none of the libraries that are needed.
	Unused bool `json:"unused,omitempty"`
}

// longest bounds a path, in bytes (PATH_MAX of Linux).
const longest = 4096

// maxSections bounds the sections of a file that are told apart. Compilers make some thousand
// of one function each, which are in objects alone.
const maxSections = 4096

// marks are parts of a path by which it is told: of a store, and what Nix builds below.
var marks = [][]byte{[]byte("/store/"), []byte("/build/"), []byte("/nix-build-"), []byte("/nix/builds/")}

// Find lists what the size bytes at r name, by place and path: store paths, build directories, and what more patterns
// match.
func Find(r io.ReaderAt, size int64, head []byte, more ...Pattern) ([]Reference, error) {
	places, err := placesOf(r, size, head)
	if err != nil {
		return nil, err
	}
	var all []Reference
	seen := map[Reference]int{}
	add := func(text string, off uint64) {
		object, ok := names(text)
		if !ok && !slices.ContainsFunc(more, func(p Pattern) bool { return p.Match(text) }) {
			return
		}
		// A run path is several paths in one string, which the colon has parted already.
		key := Reference{Path: text, Object: object, Place: places.at(off)}
		i, known := seen[key]
		if !known {
			i, seen[key] = len(all), len(all)
			key.Off = off
			all = append(all, key)
		}
		all[i].Times++
	}
	wanted := slices.Clone(marks)
	for _, p := range more {
		if m := p.mark(); m != "" {
			wanted = append(wanted, []byte(m))
		}
	}
	// Blocks overlap by two paths. Marks in the first of them are the block's before, in the second
	// the next one's, so that each path is whole in the block in which its mark counts.
	const block = 1 << 20
	buf := make([]byte, min(size, block+2*longest))
	done := uint64(0) // up to which paths have been taken
	for from := uint64(0); from < uint64(size); from += block {
		b := buf[:min(uint64(len(buf)), uint64(size)-from)]
		if err := elfimage.ReadFull(r, b, from); err != nil {
			return nil, err
		}
		for _, h := range hits(b, wanted) {
			hit := h.at
			if from > 0 && hit < longest || hit >= block+longest || from+uint64(hit) < done {
				continue
			}
			start, end := around(b, hit, h.size)
			if start < 0 {
				continue
			}
			add(string(b[start:end]), from+uint64(start))
			done = max(done, from+uint64(end))
		}
	}
	slices.SortStableFunc(all, func(a, b Reference) int { return strings.Compare(a.Object+a.Path, b.Object+b.Path) })
	places.markUnused(all)
	return all, nil
}

// hit is where a mark stands.
type hit struct{ at, size int }

// hits returns where marks stand, in order.
func hits(b []byte, marks [][]byte) (all []hit) {
	for _, m := range marks {
		for at := 0; ; {
			i := bytes.Index(b[at:], m)
			if i < 0 {
				break
			}
			all = append(all, hit{at + i, len(m)})
			at += i + 1
		}
	}
	slices.SortFunc(all, func(a, b hit) int { return cmp.Compare(a.at, b.at) })
	return all
}

// around returns where the path around a mark, of so many bytes, begins and ends: it begins at the first slash
// of the letters before, so that -L/nix/store is a path as well. start is -1 where it is longer
// than any path.
func around(b []byte, hit, size int) (start, end int) {
	start = hit
	for start > 0 && hit-start <= longest && usual(b[start-1]) {
		start--
	}
	for b[start] != '/' {
		start++
	}
	for end = min(hit+size, len(b)); end < len(b) && end-start <= longest && usual(b[end]); end++ {
	}
	if end-start > longest {
		return -1, 0
	}
	return start, end
}

// usual reports whether a byte may be in the name of a store path (Nix manual, "Store path"), or in a path below it.
func usual(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("/+-._?=@~", c) >= 0
}

// names returns the store path that a path is in, and whether it is in one or is below a
// directory that Nix builds in: /build in the sandbox, else nix-build-… of the temporary
// directory, from 2.30 on /nix/var/nix/builds.
func names(p string) (object string, ok bool) {
	if object = store.Path(p); object != "" {
		return object, true
	}
	return "", strings.HasPrefix(p, "/build/") || strings.HasPrefix(p, "/nix/var/nix/builds/") ||
		strings.HasPrefix(p, "/tmp/nix-build-") || strings.HasPrefix(p, "/private/tmp/nix-build-")
}

// places are what is known of the parts of a file.
type places struct {
	code   []part // options of GPU code, in order
	parts  []part // the narrow before the wide
	rest   Place
	needed []string
	list   string // the run path
}

type part struct {
	off, end uint64
	place    Place
}

func (p *places) at(off uint64) Place {
	if i, _ := slices.BinarySearchFunc(p.code, off, func(c part, off uint64) int {
		return cmp.Compare(c.end, off+1)
	}); i < len(p.code) && p.code[i].off <= off {
		return GPUOptions
	}
	for _, part := range p.parts {
		if part.off <= off && off < part.end {
			return part.place
		}
	}
	return p.rest
}

func placesOf(r io.ReaderAt, size int64, head []byte) (*places, error) {
	p := &places{rest: Other}
	if !bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		if bytes.HasPrefix(head, []byte("#!")) {
			p.rest = Script
		}
		return p, nil
	}
	im, err := elfimage.Parse(r, size)
	var format *elfimage.FormatError
	if errors.As(err, &format) { // the paths are there all the same
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	for _, d := range im.Dynamic {
		place, ok := map[elf.DynTag]Place{elf.DT_RUNPATH: RunPath, elf.DT_RPATH: RunPath, elf.DT_NEEDED: Needed}[d.Tag]
		if !ok {
			continue
		}
		if s, err := im.DynString(d); err == nil {
			p.parts = append(p.parts, part{im.StrOff + d.Val, im.StrOff + d.Val + uint64(len(s)), place})
		}
	}
	if im.Dynamic != nil {
		p.needed, _ = im.Needed()
		_, p.list, _ = im.RunPath()
	}
	if code, err := gpucode.Read(r, size, head); err == nil {
		for i := range code.Containers {
			for _, e := range code.Containers[i].Entries {
				spans, err := e.Options(r)
				if err != nil {
					return nil, err
				}
				for _, s := range spans {
					p.code = append(p.code, part{s.Off, s.End, GPUOptions})
				}
			}
		}
		slices.SortFunc(p.code, func(a, b part) int { return cmp.Compare(a.off, b.off) })
	}
	for i := range im.Progs {
		if prog := &im.Progs[i]; prog.Type == elf.PT_INTERP {
			p.parts = append(p.parts, part{prog.Off, prog.Off + prog.Filesz, Interpreter})
		}
	}
	caches, _ := im.ResolutionCaches()
	for _, c := range caches {
		p.parts = append(p.parts, part{c.Off, c.Off + c.Size, ResolutionNote})
	}
	for i := range im.Sections[:min(len(im.Sections), maxSections)] {
		s := &im.Sections[i]
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			p.parts = append(p.parts, part{s.Off, s.Off + s.Size, placeOf(im.SectionName(i), s)})
		}
	}
	return p, nil
}

func placeOf(name string, s *elfimage.Section) Place {
	switch {
	case s.Type == elf.SHT_NOTE:
		return Note
	case strings.HasPrefix(name, ".debug_"), strings.HasPrefix(name, ".zdebug_"), name == ".gnu_debuglink",
		name == ".stabstr":
		return Debug
	case s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_EXECINSTR != 0 || s.Type == elf.SHT_STRTAB:
		return Other
	case s.Flags&elf.SHF_WRITE != 0:
		return Data
	}
	return ReadOnly
}

// markUnused marks the entries of the run path in which nothing that is needed is found.
func (p *places) markUnused(all []Reference) {
	entries := strings.Split(p.list, ":")
	for i := range all {
		r := &all[i]
		r.Unused = r.Place == RunPath && slices.Contains(entries, r.Path) &&
			!slices.ContainsFunc(p.needed, func(name string) bool {
				_, err := os.Stat(path.Join(r.Path, name))
				return err == nil
			})
	}
}
