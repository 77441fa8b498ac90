package elfedit

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// Room for later edits is inside the dynamic string table, because strip, objcopy and patchelf keep offsets in that
// table. It is a marker string that says how many bytes follow, and then these bytes. The run path is at one end of
// them and the next one goes to the other end, so no edit overwrites a live string.
const (
	roomMark   = "@runpath-room="
	roomDigits = 8 // hexadecimal
	roomHead   = 1 + len(roomMark) + roomDigits + 1
)

var roomMarkBytes = []byte(roomMark)

// roomFor returns the size of the room for a run path of n bytes. Two of that length fit side by side, with enough to
// spare for the usual additions (a driver link, a compat directory in the store).
func roomFor(n int) uint64 { return 2*(uint64(n)+1) + 256 }

// leastRoom is the size at which a run path of n bytes can be replaced by another
// of n bytes without growing.
func leastRoom(n int) uint64 { return 2 * (uint64(n) + 1) }

// appendRoom appends the marker and a room of the given size, which begins with list, to a string table. It also
// returns the offset of list.
func appendRoom(table []byte, list string, size uint64) (grown []byte, at uint64) {
	table = append(table, 0)
	table = fmt.Appendf(table, "%s%0*x", roomMark, roomDigits, size)
	table = append(table, 0)
	at = uint64(len(table))
	table = append(table, list...)
	return append(table, make([]byte, size-uint64(len(list)))...), at
}

// inRoom places the new strings in the room of an earlier edit. No header changes, only dynamic entries.
func (p *planner) inRoom() (*layout, error) {
	if p.im.findRoom().size == 0 {
		return nil, nil
	}
	l := p.asItIs()
	if ok, err := p.useRoom(l); !ok || err != nil {
		return nil, err
	}
	return l, nil
}

// useRoom puts the new strings where nothing is alive in the room, if possible at one of its ends, so that the other
// end is free for the next ones.
func (p *planner) useRoom(l *layout) (bool, error) {
	im, r := p.im, p.im.findRoom()
	if r.size == 0 {
		return false, nil
	}
	b, err := im.Read(im.StrOff+r.off, r.size)
	if err != nil {
		return false, err
	}
	var alive []span // in the room
	taken := func(off uint64) bool {
		if off < r.off || off >= r.off+r.size {
			return true
		}
		off -= r.off
		n := bytes.IndexByte(b[off:], 0)
		if n < 0 { // runs out of the room: the marker is not ours
			return false
		}
		alive = append(alive, span{off, uint64(n) + 1})
		return true
	}
	for _, d := range im.Dynamic {
		if elfimage.IsStringTag(d.Tag) && !taken(d.Val) {
			return false, nil
		}
	}
	rest := slices.Clone(b)
	for _, s := range alive {
		clear(rest[s.off:s.end()])
	}
	if !isZero(rest) { // somebody else uses it
		return false, nil
	}
	slices.SortFunc(alive, func(x, y span) int { return cmp.Compare(x.off, y.off) })
	need := uint64(len(p.goal.blob)) + 1
	at, found, end := uint64(0), false, uint64(0)
	for _, s := range append(alive, span{r.size, 0}) {
		if !found && s.off >= end+need {
			if at, found = end, true; end > 0 && s.off == r.size {
				at = r.size - need
			}
		}
		end = max(end, s.end())
	}
	if !found {
		return false, nil
	}
	l.strings = r.off + at
	l.live = append(l.live, write{off: im.StrOff + l.strings, data: append([]byte(p.goal.blob), 0)})
	return true, nil
}

// inPlace puts a string in the place of the one that it replaces, if it is not longer and nothing shares a byte with
// the old one. No entry of .dynamic changes then.
func (p *planner) inPlace() (*layout, error) {
	g, im := p.goal, p.im
	if len(g.texts) != 1 || len(g.retired) != 1 || len(g.renames) > 0 || len(g.entries) != len(im.Dynamic) {
		return nil, nil
	}
	off := g.retired[0]
	for i, e := range g.entries {
		d := im.Dynamic[i]
		if e.Tag != d.Tag || e.text < 0 && e.Val != d.Val || e.text >= 0 && d.Val != off {
			return nil, nil
		}
	}
	old, err := im.DynString(elfimage.Dyn{Tag: elf.DT_RUNPATH, Val: off, Off: im.DynOff})
	if err != nil {
		return nil, err
	}
	at := im.StrOff + off
	if len(g.blob) > len(old) || p.im.inOurRoom(off) {
		return nil, nil
	}
	free, err := p.unshared(g.retired)
	if err != nil || len(free) != 1 || free[0].size != uint64(len(old)) {
		return nil, err
	}
	l := p.asItIs()
	b := make([]byte, uint64(len(old)))
	copy(b, g.blob)
	l.live = append(l.live, write{off: at, data: b})
	l.strings = off
	g.retired = nil
	return l, nil
}
