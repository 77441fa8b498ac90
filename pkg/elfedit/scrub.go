package elfedit

import "bytes"

// readTable reads the dynamic string table, which a new place needs whole.
func (p *planner) readTable() ([]byte, error) {
	if p.table == nil {
		table, err := p.im.Read(p.im.StrOff, p.im.StrSize)
		if err != nil {
			return nil, err
		}
		p.table = table
	}
	return p.table, nil
}

// scrubs returns writes that zero the retired run paths in the table at file
// offset table, but for bytes that another string shares: the linker stores a
// string that is the tail of another only once (patchelf 162).
func (p *planner) scrubs(table uint64) ([]write, error) {
	var out []write
	for _, i := range p.retired {
		d := p.im.Dynamic[i]
		s, err := p.im.DynString(d)
		if err != nil {
			return nil, err
		}
		// The string that ends where this one does may begin earlier.
		start, err := p.stringStart(d.Val)
		if err != nil {
			return nil, err
		}
		end := d.Val + uint64(len(s))
		keep := end
		complete := true
		if !p.inOurRoom(d.Val) {
			complete, err = p.im.EachStringRef(func(off uint64) {
				if off >= start && off < keep {
					keep = off
				}
			})
			if err != nil {
				return nil, err
			}
		}
		if complete && keep > d.Val {
			out = append(out, write{off: table + d.Val, data: p.im.Bytes(keep - d.Val)})
		}
	}
	return out, nil
}

// stringStart returns the offset behind the last NUL before off.
func (p *planner) stringStart(off uint64) (uint64, error) {
	for end := off; end > 0; {
		start := end - min(end, 512)
		b, err := p.im.Read(p.im.StrOff+start, end-start)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, 0); i >= 0 {
			return start + uint64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}
