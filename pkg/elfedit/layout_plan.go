package elfedit

import (
	"debug/elf"
	"errors"
	"fmt"

	"cuda-runpath/pkg/elfimage"
)

// planner is an edit in the making.
type planner struct {
	im   *image
	goal *goal

	spot    *noteSpot // where the resolution note can be, if that is in the file already
	newNote bool      // it cannot stay there

	sparing bool // a new PT_GNU_STACK or PT_NOTE replaces a header that the file does not need
}

var errNoInterpreter = errors.New("has no interpreter to change (no PT_INTERP)")

// A strategy finds a place for new strings. nil without an error: the next one may.
type strategy func() (*layout, error)

// layout finds room for what is new, cheapest first.
func (p *planner) layout() (*layout, error) {
	l, err := p.place()
	if more := p.goal.stack != nil && p.im.Stack() == nil || p.goal.desc != "" && p.spot == nil; err != nil && more &&
		p.im.expendable() >= 0 {
		p.sparing = true
		if l, again := p.place(); again == nil {
			return l, nil
		}
	}
	return l, err
}

func (p *planner) place() (*layout, error) {
	g := p.goal
	if g.desc != "" {
		if len(p.im.Sections) == 0 {
			return nil, cannot("a resolution note has a section, and the file has no section headers")
		}
		var err error
		if p.spot, err = p.noteSpot(); err != nil {
			return nil, err
		}
	}
	var tries []strategy
	if !p.needsSegment() {
		if len(g.texts) == 0 {
			tries = []strategy{func() (*layout, error) { return p.asItIs(), nil }}
		} else {
			tries = []strategy{p.inPlace, p.inRoom, p.inPadding, p.inLastSegment}
		}
		for _, try := range tries {
			l, err := try()
			if err != nil {
				return nil, err
			}
			if l != nil && p.tableFits(l) {
				return l, nil
			}
		}
	}
	return p.inNewSegment()
}

// needsSegment reports whether something must move into a new segment: .dynamic without a spare entry, a longer
// interpreter, a longer resolution note.
func (p *planner) needsSegment() bool {
	return !p.goal.fits || p.goal.interp != nil && !p.interpreterFits() ||
		p.goal.desc != "" && p.spot == nil
}

// interpreterFits reports whether the new interpreter fits where the old one is. The rest of the old one becomes
// zeros: the kernel wants the last byte to be zero, and every reader stops at the first zero (fs/binfmt_elf.c).
func (p *planner) interpreterFits() bool {
	old := p.im.Prog(elf.PT_INTERP)
	return uint64(len(*p.goal.interp)) < old.Filesz && p.im.interpText().off == old.Off && p.alone(old)
}

// alone reports whether nothing else with a header or a dynamic entry of its own overlaps a program header's bytes.
func (p *planner) alone(q *elfimage.Prog) bool {
	for _, b := range p.im.extents() {
		if b.off < q.Off+q.Filesz && q.Off < b.end() {
			return b.off == q.Off && b.size == q.Filesz
		}
	}
	return false
}

func alignUp(v, a uint64) uint64 {
	if a <= 1 {
		return v
	}
	return (v + a - 1) / a * a
}

// cannot is the error for a file without a place for what is new.
func cannot(format string, args ...any) error {
	return fmt.Errorf("no room for what is new: "+format, args...)
}
