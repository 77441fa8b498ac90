package elfedit

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// finished returns a file as the edit leaves it that finishes an interrupted one, and the states in between.
func finished(t *testing.T, b []byte) (after []byte, states [][]byte, dropped string) {
	t.Helper()
	e, _, err := Finish(parse(t, b).Image)
	if err != nil {
		t.Fatal(err)
	}
	if e == nil {
		return b, nil, ""
	}
	states = statesOf(t, e)
	after = states[len(states)-1]
	return after[:min(int64(len(after)), e.size)], states, e.dropped
}

// interruptions are edits of every kind of place, and of a note.
func interruptions() map[string]Change {
	return map[string]Change{
		"run path":       setPath(elf.DT_RUNPATH, lists[1]),
		"long":           setPath(elf.DT_RUNPATH, strings.Repeat(lists[0]+":", 20)+"/last"),
		"gone":           setPath(elf.DT_NULL, ""),
		"needed":         {Needed: &Needed{Names: []string{"liba.so", "libc.so.6", "libother.so.2"}}, Soname: ptr("another.so")},
		"note":           {ResolutionNote: ptr(noteOf("new", 10))},
		"OS ABI":         {RunPath: &RunPath{elf.DT_RUNPATH, lists[1]}, OSABI: ptr(byte(elf.ELFOSABI_LINUX))},
		"note, run path": {ResolutionNote: ptr(noteOf("new", 10)), RunPath: &RunPath{elf.DT_RUNPATH, lists[1]}},
	}
}

// What an edit has put into padding before anything refers to it is written over by the next one, which is what it would have
// been: it makes no segment more.
func TestDeadBytesInPaddingAreUsedAgain(t *testing.T) {
	n := 0
	for name, l := range shapes {
		b := l.build(t)
		for what, c := range map[string]Change{"run path": setPath(elf.DT_RUNPATH, lists[1]), "needed": {Needed: &Needed{Names: []string{"liba.so", "libb.so", "libc.so.6"}}}} {
			e, err := parse(t, b).plan(c)
			if err != nil || e == nil || e.size > int64(len(b)) || e.prepared == 0 {
				continue
			}
			n++
			want := edit(t, b, c)
			if got := edit(t, statesOf(t, e)[1], c); !bytes.Equal(got, want) {
				t.Errorf("%s, %s: %d segments, want %d", name, what, loads(parse(t, got)), loads(parse(t, want)))
			}
		}
	}
	if n < 2 {
		t.Errorf("%d edits in padding", n)
	}
}

// An edit that is interrupted after any of its writes is finished by the next one, which may be interrupted as well: the file is
// what it was, byte for byte, as long as .dynamic was not switched, and what the edit was to leave from then on.
func TestInterruptedEditsAreFinished(t *testing.T) {
	stopped, oldAgain, newAgain := 0, 0, 0
	for name, l := range shapes {
		for what, c := range interruptions() {
			for _, edited := range []bool{false, true} {
				if strings.Contains(name, "across pages") || what == "long" && edited || (len(name)+len(what))%4 > 0 && testing.Short() {
					continue
				}
				b := l.build(t)
				if edited {
					b = edit(t, b, setPath(elf.DT_RUNPATH, "/first/one:"+lists[0]))
				}
				e, err := parse(t, b).plan(c)
				if err != nil || e == nil {
					continue
				}
				states := statesOf(t, e)
				last := states[len(states)-1]
				for n, state := range states {
					if !asItIs(t, state).Stopped() {
						continue
					}
					stopped++
					where := fmt.Sprintf("%s, %s, edited before: %v: after %d of %d writes", name, what, edited, n, len(states)-1)
					after, between, dropped := finished(t, state)
					if dropped != "" {
						t.Errorf("%s: the record is not followed: %s", where, dropped)
						continue
					}
					if l.record(e) {
						switch {
						case bytes.Equal(after, b):
							oldAgain++
						case bytes.Equal(after, last):
							newAgain++
						default:
							t.Errorf("%s: finished, the file is neither what it was (%d bytes) nor what the edit leaves (%d), but %d bytes, other at %#x and %#x", where,
								len(b), len(last), len(after), differsAt(after, b), differsAt(after, last))
						}
					}
					for i, s := range between {
						if again, _, _ := finished(t, s); !bytes.Equal(again, after) && asItIs(t, s).Stopped() {
							t.Errorf("%s: finishing it was interrupted after %d writes, and finished it is another file, at %#x", where, i, differsAt(again, after))
						}
					}
				}
			}
		}
	}
	t.Logf("%d states, of which %d become what they were, and %d what the edit was to leave", stopped, oldAgain, newAgain)
	if oldAgain < stopped/30 || newAgain < stopped/10 {
		t.Error("the test tests nothing")
	}
}

// record reports whether an edit leaves a record.
func (*shape) record(e *Edit) bool {
	return slices.ContainsFunc(e.writes, func(w write) bool { return bytes.Contains(w.data, []byte(recordMark)) })
}

func differsAt(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// A record that somebody has changed, or made, is obeyed where it does no harm or else is not: the loader sees what it saw.
func TestRecordsAreClaims(t *testing.T) {
	tried, followed := 0, 0
	for name, l := range shapes {
		b := l.build(t)
		e, err := parse(t, b).plan(setPath(elf.DT_RUNPATH, lists[1]))
		if err != nil || e == nil || !l.record(e) {
			continue
		}
		states := statesOf(t, e)
		for n, state := range states {
			im := parse(t, state)
			if !im.Stopped() || n == len(states)-2 {
				continue
			}
			f := &finisher{im: im, seg: elfimage.Unfinished(im.Progs)}
			if f.find() != nil {
				continue
			}
			says, others := saysOf(t, im), othersOf(t, im)
			try := func(what string, change func(r *record)) {
				r, _, _ := readRecord(state[f.off : f.off+f.size])
				change(r)
				forged, enc := slices.Clone(state), r.encode(nil)
				if f.off+uint64(len(enc)) > uint64(len(forged)) {
					return
				}
				copy(forged[f.off:], enc)
				after, _, dropped := finished(t, forged)
				tried++
				if dropped == "" {
					followed++
				}
				now := parse(t, after)
				lost := func(all string) bool { // a note that was lent comes back
					for line := range strings.Lines(others) {
						if !strings.Contains(all, line) {
							return true
						}
					}
					return false
				}
				if s, o := saysOf(t, now), othersOf(t, now); s != says || lost(o) {
					t.Errorf("%s, after %d writes, %s: the loader sees\n%v%s\nbefore\n%v%s", name, n, what, s, o, says, others)
				}
			}
			for i := range im.Dynamic {
				try("the dynamic table is dead", func(r *record) {
					r.dead = append(r.dead, deadSpan{im.Dynamic[i].Val, 16, f.sumAt(im.Dynamic[i].Val, 16), false})
				})
			}
			for _, q := range im.Progs {
				try("a segment is dead", func(r *record) { r.dead = []deadSpan{{q.Vaddr, q.Filesz, f.sumAt(q.Vaddr, q.Filesz), false}} })
				try("it is unmapped", func(r *record) { r.dead = []deadSpan{{q.Off, q.Filesz, checksum(state[q.Off : q.Off+q.Filesz]), true}} })
				try("a segment grew", func(r *record) { r.was = q.Filesz / 2 })
			}
			for i := range im.Progs {
				try("a program header less", func(r *record) {
					r.force, r.before = progsSum(im.Progs), refer(slices.Delete(slices.Clone(im.Progs), i, i+1), im.Progs)
					r.after = r.before
				})
				try("RELRO elsewhere", func(r *record) {
					list := slices.Clone(im.Progs)
					list[i] = elfimage.Prog{Type: elf.PT_GNU_RELRO, Vaddr: im.Progs[i].Vaddr, Filesz: 64, Memsz: 64}
					r.force, r.before = progsSum(im.Progs), refer(list, im.Progs)
					r.after = r.before
				})
			}
			try("all moved", func(r *record) { r.moved = []moved{{0, 1 << 40, 4096, 1 << 40}} })
			try("sizes wrap", func(r *record) {
				r.moved = []moved{{1 << 63, 1 << 63, 1 << 62, 1}}
				r.dead = []deadSpan{{^uint64(0), ^uint64(0) >> 1, 0, false}}
			})
			try("the file was empty", func(r *record) { r.size = 0 })
			try("other section headers", func(r *record) { r.shoff, r.shoff2, r.shnum2 = ^uint64(0), ^uint64(0)-5, 1<<60 })
		}
	}
	t.Logf("%d records, %d followed", tried, followed)
	if tried < 100 {
		t.Error("the test tests nothing")
	}
}

func (f *finisher) sumAt(addr, n uint64) uint32 {
	off, ok := f.im.FileOffset(addr, n)
	if !ok {
		return 0
	}
	sum, _ := f.im.sum(off, n)
	return sum
}

// Bytes of a record that are other than they were never crash a reader.
func TestRecordsAreRead(t *testing.T) {
	r := &record{at: 0x4000, size: 9000, moved: []moved{{1, 2, 3, 4}}, dead: []deadSpan{{5, 6, 7, true}, {8, 9, 10, false}}, wide: []sized{{1, 2}},
		before: []progRef{{same: 3}, {same: -1, Prog: &elfimage.Prog{Type: elf.PT_NOTE, Vaddr: 77}}}}
	b := r.encode(nil)
	if got, at, n := readRecord(append([]byte("before "), b...)); got == nil || at != 7 || n != len(b) || !bytes.Equal(got.encode(nil), b) {
		t.Fatalf("reads back as %+v at %d, %d bytes", got, at, n)
	}
	for i := range b {
		for _, x := range []byte{1, 0x80, 0xff} {
			c := slices.Clone(b)
			c[i] ^= x
			if got, _, _ := readRecord(c); got != nil {
				t.Fatalf("byte %d changed, and it still counts", i)
			}
			body := c[recordHead:]
			c = append(c[:len(recordMark)+4:len(recordMark)+4], 0, 0, 0, 0)
			s := checksum(body)
			c[len(recordMark)+4], c[len(recordMark)+5], c[len(recordMark)+6], c[len(recordMark)+7] = byte(s), byte(s>>8), byte(s>>16), byte(s>>24)
			readRecord(append(c, body...))
		}
		readRecord(b[:i])
	}
}

// Where another tool has been at a file since, and the record of an interrupted edit does not fit any more, the next edit drops it
// and edits what is there: it has no internal error, and the section headers say of the strings what .dynamic says.
func TestRecordsThatDoNotFitAreDropped(t *testing.T) {
	tried := 0
	for name, l := range shapes {
		for what, c := range interruptions() {
			b := l.build(t)
			e, err := parse(t, b).plan(c)
			if err != nil || e == nil || !l.record(e) {
				continue
			}
			for n, state := range statesOf(t, e) {
				im := parse(t, state)
				f := &finisher{im: im, seg: elfimage.Unfinished(im.Progs)}
				if f.seg < 0 || f.find() != nil {
					continue
				}
				for _, other := range []func(r *record){
					func(r *record) { r.old, r.now = r.old^1, r.now^1 },
					func(r *record) { r.at += 16 },
					func(r *record) { r.grown += 16 },
				} {
					r := *f.r
					other(&r)
					forged, enc := slices.Clone(state), r.encode(nil)
					copy(forged[f.off:], append(enc, make([]byte, max(0, int(f.size)-len(enc)))...))
					if uint64(len(enc)) > f.size {
						continue
					}
					tried++
					where := fmt.Sprintf("%s, %s: after %d of %d writes", name, what, n, len(e.writes))
					for _, next := range []Change{setPath(elf.DT_RUNPATH, lists[2]), setPath(elf.DT_RUNPATH, "/s")} {
						again, err := Plan(parse(t, forged).Image, next)
						if err != nil {
							t.Errorf("%s: the next edit: %v", where, err)
							continue
						}
						states := statesOf(t, again)
						now := parse(t, states[len(states)-1])
						if i := now.StringSection(); i >= 0 && (now.Sections[i].Addr != now.StrAddr || now.Sections[i].Size != now.StrSize) {
							t.Errorf("%s: .dynamic has the strings at %#x, %#x bytes, .dynstr has them at %#x, %#x bytes", where, now.StrAddr, now.StrSize, now.Sections[i].Addr, now.Sections[i].Size)
						}
						if again.Dropped() == "" || now.Stopped() {
							t.Errorf("%s: dropped %q, still flagged: %v", where, again.Dropped(), now.Stopped())
						}
					}
				}
			}
		}
	}
	t.Log(tried, "states")
	if tried < 100 {
		t.Error("the test tests nothing")
	}
}
