// Package thin takes the code for GPUs that nobody asked for out of programs and libraries.
//
// Each container of .nv_fatbin, __nv_relfatbin and .cask_resource keeps its address, and in it the entries that a
// GPU asked for could use, one behind the other; what is behind them becomes zeros, which on most
// file systems take no room, but for one [gpucode.Mark] that says for which GPUs it was done. So no
// reference into the file changes, and the file keeps its length, unless pages of zeros are cut out of
// it (Plan.cut).
//
// What goes: cubins that run on no GPU asked for; PTX that can be compiled for none, or that
// stands beside a cubin for each, unless PTX was asked for. What stays: kinds and flags that are
// not known, LTO-IR, a container that is damaged, a file of which nothing would be left, and what a
// library's own code looks up in its data, but for .cask_resource. Of relocatable device code all
// stays that could be used: where no linked cubin fits, the driver links it again.
//
// A container of which nothing is left is empty: who asks for its kernels gets error 209, as before,
// with lazy and with eager loading (CUDA 13.0, driver 580, on an H100).
//
// [Check] and [Cut.Check] compare the file before and after without knowing the plan.
package thin

import (
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
)

// Options say what is to be done.
type Options struct {
	// Targets are the GPUs whose code stays; nil: all of it does.
	Targets []gpucode.Target
	KeepPTX bool // all PTX stays
	// Blank overwrites the hashes of store paths in the options that are noted in the code
	// ([gpucode.Entry.Options]). Nix then sees no reference there.
	Blank bool
}

// Plan is what goes of a file.
type Plan struct {
	options    Options
	containers []container
	some       bool // of some container code stays
	// Bytes are those that become zeros, Entries the cubins and PTX that they are, of All, Blanked
	// the store paths whose hash goes.
	Bytes   uint64
	Entries int
	All     int
	Blanked int
	// Marked says that there is room for a mark, where any entry goes.
	Marked bool
	// Left are containers that would have been thinned, and why they were not: see [Reason].
	Left map[Reason]int
}

// empty reports whether nothing is to be done.
func (p *Plan) empty() bool { return len(p.containers) == 0 }

// Reason says why a container is left as it is.
type Reason string

// The reasons.
const (
	Resource Reason = "resource"
	Unnamed  Reason = "no-sections"
	Nothing  Reason = "nothing-left"
	Damaged  Reason = "damaged"
)

// Text returns the reason in words.
func (r Reason) Text() string {
	switch r {
	case Resource:
		return "code that the library's own code looks up"
	case Unnamed:
		return "no section header says what kind of code it is"
	case Nothing:
		return "nothing would be left of the file"
	}
	return "it cannot be read to its end"
}

// container is one that changes.
type container struct {
	*gpucode.Container
	keep   []gpucode.Entry
	end    uint64              // of the container, and of the mark that it has
	mark   []byte              // that it gets, or nil
	blanks map[uint64][]uint64 // offset of an entry to those of hashes in its options, from the entry on
}

// knownFlags are those of an entry that were seen in NVIDIA's files and say nothing of which
// GPU takes it but what gpucode reads: 64 bits, Linux, compressed, a and f, and one that all
// code from 10.0 on has.
const knownFlags = 0x1 | 0x10 | 0x2000 | 0x8000 | 1<<20 | 1<<21 | 1<<24

// New plans what goes of the file at r.
func New(r io.ReaderAt, f *gpucode.File, o Options) (*Plan, error) {
	p := &Plan{options: o, Left: map[Reason]int{}}
	marks, mark := map[uint64]uint64{}, gpucode.NewMark(o.Targets)
	for _, m := range f.Marks {
		marks[m.Off] = m.Off + m.Size
	}
	p.some = slices.ContainsFunc(f.Containers, func(c gpucode.Container) bool {
		return slices.ContainsFunc(c.Entries, func(e gpucode.Entry) bool { return !goes(&c, &e, &o) })
	})
	for i := range f.Containers {
		c := container{Container: &f.Containers[i]}
		if c.Damage != nil {
			p.Left[Damaged]++
			continue
		}
		for k := range c.Entries {
			if kind := c.Entries[k].Kind; kind == gpucode.Cubin || kind == gpucode.PTX {
				p.All++
			}
		}
		c.keep = p.keep(c.Container)
		if o.Blank {
			if err := c.findBlanks(r); err != nil {
				return nil, err
			}
		}
		gone := len(c.Entries) - len(c.keep)
		if gone > 0 {
			p.Entries += gone
			p.Bytes += c.Size - size(c.keep) - headerSize(c.Container)
		} else if len(c.blanks) == 0 {
			continue
		}
		for _, at := range c.blanks {
			p.Blanked += len(at)
		}
		c.end = c.Off + c.Size
		if end, marked := marks[c.next(c.end)]; marked {
			c.end = end
		}
		if at := c.next(c.kept()); gone > 0 && mark != nil && !p.Marked &&
			at+uint64(len(mark)) <= c.end {
			c.mark, p.Marked = mark, true
		}
		p.containers = append(p.containers, c)
	}
	return p, nil
}

// keep returns the entries of a container that stay.
func (p *Plan) keep(c *gpucode.Container) []gpucode.Entry {
	if p.options.Targets == nil {
		return c.Entries
	}
	keep := slices.DeleteFunc(slices.Clone(c.Entries), func(e gpucode.Entry) bool { return goes(c, &e, &p.options) })
	switch {
	case len(keep) == len(c.Entries):
	case c.Section == "":
		p.Left[Unnamed]++
	case !isThinned(c.Section):
		p.Left[Resource]++
	case len(keep) == 0 && !p.some:
		p.Left[Nothing]++
	default:
		return keep
	}
	return c.Entries
}

// isThinned reports whether containers in a section are thinned: those that nvcc makes, and those of which cuBLASLt,
// cuDNN and cuSPARSELt have an index of their own, in which each has its GPUs.
func isThinned(section string) bool {
	return section == ".nv_fatbin" || section == "__nv_relfatbin" || section == ".cask_resource"
}

// headerSize is the size of a container's header in bytes.
func headerSize(c *gpucode.Container) uint64 { return c.Entries[0].Off - c.Off }

// size is what entries take together.
func size(entries []gpucode.Entry) (n uint64) {
	for i := range entries {
		n += entries[i].Bytes()
	}
	return n
}

// next returns the first offset from off on at which a container behind c may begin.
func (c *container) next(off uint64) uint64 { return c.Off + (off-c.Off+7)&^7 }

// goes reports whether no GPU that was asked for needs an entry of a container.
func goes(c *gpucode.Container, e *gpucode.Entry, o *Options) bool {
	if e.Flags&^uint64(knownFlags) != 0 {
		return false
	}
	switch e.Kind {
	case gpucode.Cubin:
		return !e.Asked(o.Targets)
	case gpucode.PTX:
		return !o.KeepPTX && (!e.Asked(o.Targets) || !c.Relocatable &&
			!slices.ContainsFunc(o.Targets, func(t gpucode.Target) bool {
				return t.Virtual || !slices.ContainsFunc(c.Entries, func(o gpucode.Entry) bool {
					return o.Kind == gpucode.Cubin && o.Flags&^uint64(knownFlags) == 0 && o.RunsOn(t.Capability)
				})
			}))
	}
	return false
}

// hash is what Nix looks for in a store path: 32 letters of its base 32, which has no e. What is
// blanked has 32 of these.
var hash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/store/([0-9a-df-np-sv-z]{32})-`) })

const blank = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"

// maxOptions bounds the options of an entry that are looked at, in bytes.
const maxOptions = 1 << 20

// findBlanks looks for hashes of store paths in the options of the entries that stay.
func (c *container) findBlanks(r io.ReaderAt) error {
	for i := range c.keep {
		e := &c.keep[i]
		spans, err := e.Options(r)
		if err != nil {
			return err
		}
		for _, span := range spans {
			if span.End-span.Off > maxOptions {
				continue
			}
			b := make([]byte, span.End-span.Off)
			if err := elfimage.ReadFull(r, b, span.Off); err != nil {
				return err
			}
			for _, hit := range hash().FindAllSubmatchIndex(b, -1) {
				if c.blanks == nil {
					c.blanks = map[uint64][]uint64{}
				}
				c.blanks[e.Off] = append(c.blanks[e.Off], span.Off-e.Off+uint64(hit[2]))
			}
		}
	}
	return nil
}

// Writer is a copy of the file.
type Writer interface {
	io.WriterAt
	Zero(off, n int64) error
}

// Apply makes of w, a copy of the file at r, what was planned.
func (p *Plan) Apply(r io.ReaderAt, w Writer) error {
	for i := range p.containers {
		if err := p.containers[i].apply(r, w); err != nil {
			return err
		}
	}
	return nil
}

// kept returns where the entries of a container that are kept end.
func (c *container) kept() uint64 { return c.Off + headerSize(c.Container) + size(c.keep) }

// thinned reports whether some entries of a container go: up to its end all behind the others becomes zeros.
func (c *container) thinned() bool { return len(c.keep) < len(c.Entries) }

// apply writes a container, and behind it the mark that it gets.
func (c *container) apply(r io.ReaderAt, w Writer) error {
	at := c.Off + headerSize(c.Container)
	for k := range c.keep {
		e := &c.keep[k]
		if e.Off != at {
			n := int64(e.Bytes())
			if _, err := io.CopyN(io.NewOffsetWriter(w, int64(at)), io.NewSectionReader(r, int64(e.Off), n), n); err != nil {
				return fmt.Errorf("copying the entry at %#x: %w", e.Off, err)
			}
		}
		for _, off := range c.blanks[e.Off] {
			if _, err := w.WriteAt([]byte(blank), int64(at+off)); err != nil {
				return err
			}
		}
		at += e.Bytes()
	}
	if !c.thinned() {
		return nil
	}
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], size(c.keep))
	if _, err := w.WriteAt(length[:], int64(c.Off)+8); err != nil {
		return err
	}
	if err := w.Zero(int64(at), int64(c.end-at)); err != nil {
		return err
	}
	if c.mark == nil {
		return nil
	}
	_, err := w.WriteAt(c.mark, int64(c.next(at)))
	return err
}
