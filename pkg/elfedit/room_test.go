package elfedit

import (
	"bytes"
	"debug/elf"
	"strings"
	"testing"
)

// A room is one only after a mark that is a string by itself, and inside the table.
func TestRoomIsFoundByItsMark(t *testing.T) {
	table, at := appendRoom([]byte("\x00libc.so.6\x00x"), "/a", 40)
	size := uint64(len(table))
	if r := lastRoom(table, 0, size); r.off != at || r.size != 40 {
		t.Errorf("%+v", r)
	}
	if r := lastRoom(table, 1000, 1000+size); r.off != 1000+at {
		t.Errorf("further on: %+v", r)
	}
	mark := bytes.Index(table, roomMarkBytes)
	for what, damage := range map[string]func(b []byte){
		"the mark is the end of another string": func(b []byte) { b[mark-1] = 'x' },
		"the mark goes on after its number":     func(b []byte) { b[at-1] = '0' },
		"the number is none":                    func(b []byte) { b[at-2] = 'g' },
		"it is larger than the table":           func(b []byte) { b[at-3] = 'f' },
		"it is of no size":                      func(b []byte) { copy(b[at-1-roomDigits:], strings.Repeat("0", roomDigits)) },
	} {
		b := bytes.Clone(table)
		damage(b)
		if r := lastRoom(b, 0, size); r.size > 0 {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// What an edit has put into the room is gone after the next one.
func TestEditLeavesNothingOfTheLastOneInTheRoom(t *testing.T) {
	b := edit(t, plain().build(t), setPath(elf.DT_RUNPATH, "/"+strings.Repeat("long/", 50)))
	left := 0
	for _, killed := range states(t, b, setPath(elf.DT_RUNPATH, "/killed/edit")) {
		if bytes.Contains(killed, []byte("/killed/edit")) {
			left++
		}
		after := edit(t, killed, setPath(elf.DT_RUNPATH, "/next"))
		if bytes.Contains(after, []byte("killed")) {
			t.Error("the list of the last edit is still in the file")
		}
	}
	if left == 0 {
		t.Error("no state has the list: the test tests nothing")
	}
}
