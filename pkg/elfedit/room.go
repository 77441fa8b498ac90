package elfedit

import (
	"bytes"
	"fmt"
	"strconv"

	"cuda-runpath/pkg/elfimage"
)

// Room for later edits stands inside the dynamic string table, because offsets in
// the table are what strip, objcopy and patchelf keep: a marker string that says
// how many bytes follow it, then these bytes. The run path lies at one end of
// them and the next one goes to the other, so no edit overwrites a live string.
const (
	roomMark   = "@runpath-room="
	roomDigits = 8 // hexadecimal
	roomHead   = 1 + len(roomMark) + roomDigits + 1
)

// A room is the bytes behind a marker.
type room struct {
	off, size uint64 // in the string table, bytes
}

// roomFor returns the size of the room for a run path of n bytes: it and another
// of its length fit side by side, with enough to spare for the usual additions (a
// driver link, a compat directory in the store).
func roomFor(n int) uint64 { return 2*(uint64(n)+1) + 256 }

// leastRoom is the size at which a run path of n bytes can be replaced by another
// of n bytes without growing.
func leastRoom(n int) uint64 { return 2 * (uint64(n) + 1) }

// appendRoom appends to a string table the marker and a room of the given size
// that begins with list, and returns the offset of list as well.
func appendRoom(table []byte, list string, size uint64) (grown []byte, at uint64) {
	table = append(table, 0)
	table = fmt.Appendf(table, "%s%0*x", roomMark, roomDigits, size)
	table = append(table, 0)
	at = uint64(len(table))
	table = append(table, list...)
	return append(table, make([]byte, size-uint64(len(list)))...), at
}

// findRoom returns the last room in the string table.
func (p *planner) findRoom() (r room, ok bool, err error) {
	if p.room != nil {
		return *p.room, p.room.size > 0, nil
	}
	const near = 64 << 10 // our room is at the end of the table unless another tool added to it
	if p.table == nil && p.im.StrSize > near {
		base := p.im.StrSize - near
		b, err := p.im.Read(p.im.StrOff+base, near)
		if err != nil {
			return room{}, false, err
		}
		r, ok = lastRoom(b, base, p.im.StrSize)
	}
	if !ok {
		table, err := p.readTable()
		if err != nil {
			return room{}, false, err
		}
		r, ok = lastRoom(table, 0, p.im.StrSize)
	}
	p.room = &r
	return r, ok, nil
}

// lastRoom finds the last valid marker in b, which stands at offset base of a table of size bytes.
func lastRoom(b []byte, base, size uint64) (last room, ok bool) {
	mark := []byte("\x00" + roomMark)
	for from := 0; ; { // forwards: bytes.LastIndex is no match for Index in a table of megabytes
		i := bytes.Index(b[from:], mark)
		if i < 0 {
			return last, ok
		}
		at := from + i + roomHead
		from += i + 1
		if at > len(b) || b[at-1] != 0 {
			continue
		}
		n, err := strconv.ParseUint(string(b[at-1-roomDigits:at-1]), 16, 64)
		if err == nil && n > 0 && base+uint64(at)+n <= size {
			last, ok = room{base + uint64(at), n}, true
		}
	}
}

// inOurRoom reports whether a string of the table stands in a room of ours, where
// nothing that a linker made can share its bytes.
func (p *planner) inOurRoom(off uint64) bool {
	r, ok, err := p.findRoom()
	return err == nil && ok && off >= r.off && off < r.off+r.size
}

// inRoom places the new run path in the room of an earlier edit: no header
// changes, only one dynamic entry.
func (p *planner) inRoom() (*placement, error) {
	r, ok, err := p.findRoom()
	if !ok || err != nil {
		return nil, err
	}
	need := uint64(len(p.change.List)) + 1
	b := p.im.Bytes(r.size)
	if err := elfimage.ReadFull(p.im, b, p.im.StrOff+r.off); err != nil {
		return nil, err
	}
	// The bytes of the room that are taken, [low, high).
	low, high := r.size, uint64(0)
	for _, i := range p.retired {
		s, err := p.im.DynString(p.im.Dynamic[i])
		if err != nil {
			return nil, err
		}
		if at := p.im.Dynamic[i].Val; at >= r.off && at < r.off+r.size {
			at -= r.off
			if at+uint64(len(s)) >= r.size { // runs out of the room: the marker is not ours
				return nil, nil
			}
			low, high = min(low, at), max(high, at+uint64(len(s))+1)
			clear(b[at : at+uint64(len(s))])
		}
	}
	pl := &placement{size: p.im.size, newTable: p.im.StrOff}
	if i := p.im.StringSection(); i >= 0 && (p.im.Sections[i].Addr != p.im.StrAddr || p.im.Sections[i].Size < p.im.StrSize) { // left by a killed edit
		pl.settle = p.sectionWrite(p.im.StrOff, p.im.StrAddr, p.im.StrSize)
	}
	at := uint64(0)
	switch {
	case low >= need:
	case r.size >= high+need:
		at = r.size - need
	default:
		return nil, nil
	}
	if len(bytes.Trim(b, "\x00")) > 0 { // what a killed edit left, unless somebody else uses it
		used := false
		complete, err := p.im.EachStringRef(func(off uint64) { used = used || off >= r.off && off < r.off+r.size })
		if used || !complete || err != nil {
			return nil, err
		}
		for _, s := range [][2]uint64{{0, at}, {at + need, r.size}} {
			pl.settle = append(pl.settle, write{off: p.im.StrOff + r.off + s[0], data: p.im.Bytes(s[1] - s[0])})
		}
	}
	pl.strOff = r.off + at
	pl.prepare = []write{{off: p.im.StrOff + pl.strOff, data: append([]byte(p.change.List), 0)}}
	return pl, nil
}
