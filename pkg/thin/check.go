package thin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
)

// ErrCheck is what Check wraps.
var ErrCheck = errors.New("the thinned copy is not what was asked for")

// Check compares a file of size bytes with its thinned copy, both read anew: the same
// containers at the same places; of each the same entries, byte for byte but for blanked
// hashes, in their order, but for some that are gone, and were of a kind that may go; behind them
// zeros, and once a mark; for each GPU asked for the same taken as before; and everything else the same.
func Check(before, after io.ReaderAt, size int64, o Options) error {
	a, err := listed(before, size)
	if err != nil {
		return err
	}
	b, err := listed(after, size)
	if err != nil {
		return err
	}
	return compare(before, after, a, b, size, o)
}

func listed(r io.ReaderAt, size int64) (*gpucode.File, error) {
	head := make([]byte, min(size, elfimage.HeadSize))
	if err := elfimage.ReadFull(r, head, 0); err != nil {
		return nil, err
	}
	return gpucode.Read(r, size, head)
}

// compare is Check of files that have been read.
func compare(before, after io.ReaderAt, a, b *gpucode.File, size int64, o Options) error {
	if len(a.Containers) != len(b.Containers) {
		return fmt.Errorf("%w: %d containers, and %d before", ErrCheck, len(b.Containers), len(a.Containers))
	}
	c := comparer{before: before, after: after, options: o, marks: a.Marks}
	for i := range a.Containers {
		if err := c.container(&a.Containers[i], &b.Containers[i]); err != nil {
			return fmt.Errorf("%w: the container at %#x: %w", ErrCheck, a.Containers[i].Off, err)
		}
	}
	if err := c.same(c.done, c.done, uint64(size)-c.done); err != nil {
		return fmt.Errorf("%w: %w", ErrCheck, err)
	}
	has := func(c gpucode.Container) bool { return len(c.Entries) > 0 }
	if slices.ContainsFunc(a.Containers, has) && !slices.ContainsFunc(b.Containers, has) {
		return fmt.Errorf("%w: no code is left", ErrCheck)
	}
	return nil
}

// comparer compares two files.
type comparer struct {
	before, after io.ReaderAt
	options       Options
	marks         []gpucode.Mark // before
	marked        bool           // has come upon the mark
	done          uint64         // up to which everything has been compared
	a, b          [64 << 10]byte
}

// container compares a container before and after, and what is in front of it.
func (c *comparer) container(a, b *gpucode.Container) error {
	if a.Off != b.Off || a.Section != b.Section || (a.Damage == nil) != (b.Damage == nil) {
		return errors.New("is another one")
	}
	if len(a.Entries) == 0 { // is compared with what is around it
		return nil
	}
	for _, t := range c.options.Targets {
		if err := sameFor(a, b, t); err != nil {
			return err
		}
	}
	first := a.Entries[0].Off
	if err := errors.Join(c.same(c.done, c.done, a.Off+8-c.done), c.same(a.Off+16, a.Off+16, first-a.Off-16)); err != nil {
		return err
	}
	k, at := 0, first
	for _, e := range b.Entries {
		for ; k < len(a.Entries) && !c.sameEntry(&a.Entries[k], &e); k++ {
			if err := c.mayGo(a, &a.Entries[k]); err != nil {
				return err
			}
		}
		if k == len(a.Entries) || e.Off != at {
			return fmt.Errorf("the entry at %#x was not there before", e.Off)
		}
		k, at = k+1, at+e.Bytes()
	}
	for ; k < len(a.Entries); k++ {
		if err := c.mayGo(a, &a.Entries[k]); err != nil {
			return err
		}
	}
	if at != b.Off+b.Size || b.Size > a.Size {
		return fmt.Errorf("ends at %#x", b.Off+b.Size)
	}
	c.done = a.Off + a.Size
	if a.Size == b.Size {
		return nil
	}
	for len(c.marks) > 0 && c.marks[0].Off < c.done {
		c.marks = c.marks[1:]
	}
	if len(c.marks) > 0 && c.marks[0].Off-c.done < 8 {
		c.done = c.marks[0].Off + c.marks[0].Size
	}
	padding := -(at - a.Off) & 7
	if mark := gpucode.NewMark(c.options.Targets); !c.marked && mark != nil && padding+uint64(len(mark)) <= c.done-at {
		got := make([]byte, padding+uint64(len(mark)))
		if err := elfimage.ReadFull(c.after, got, at); err != nil {
			return err
		}
		if !bytes.Equal(bytes.TrimLeft(got, "\x00"), mark) {
			return errors.New("has no mark")
		}
		at += uint64(len(got))
		c.marked = true
	}
	if empty, err := zerosBut(c.after, hole{at, c.done - at}, nil); err != nil || !empty {
		return cmp.Or(err, fmt.Errorf("the bytes after %#x are not zeros", at))
	}
	return nil
}

// seenFlags are those that entries of NVIDIA's files have; the planner has a list of its own.
const seenFlags = 0x130a011

// mayGo returns an error where an entry of a container must not go, whatever the GPUs.
func (c *comparer) mayGo(a *gpucode.Container, e *gpucode.Entry) error {
	switch {
	case c.options.Targets == nil, a.Section != ".nv_fatbin" && a.Section != "__nv_relfatbin" &&
		a.Section != ".cask_resource",
		e.Kind != gpucode.Cubin && e.Kind != gpucode.PTX, e.Flags&^uint64(seenFlags) != 0,
		e.Kind == gpucode.PTX && c.options.KeepPTX:
		return fmt.Errorf("%s (%v, flags %#x), which must stay, is gone", e.Name(), e.Kind, e.Flags)
	}
	return nil
}

// sameFor compares what a GPU takes of a container before and after.
func sameFor(a, b *gpucode.Container, t gpucode.Target) error {
	was, old := a.On(t.Capability, gpucode.Version{})
	is, now := b.On(t.Capability, gpucode.Version{})
	if was != is || (old == nil) != (now == nil) || old != nil &&
		(old.Kind != now.Kind || old.Arch != now.Arch || old.Version != now.Version || old.Unpacked != now.Unpacked) {
		return fmt.Errorf("a GPU of %v would run other code than before", t.Capability)
	}
	covered := false // by a cubin of which all is known
	for i := range a.Entries {
		e := &a.Entries[i]
		covered = covered || e.Kind == gpucode.Cubin && e.Flags|seenFlags == seenFlags && e.RunsOn(t.Capability)
	}
	for i := range a.Entries { // nothing else that it could use has gone either
		e := &a.Entries[i]
		uses := e.Kind == gpucode.Cubin && e.MayRunOn(t.Capability) ||
			e.Kind == gpucode.PTX && (t.Virtual || (a.Relocatable || !covered) && e.CompilesFor(t.Capability))
		if uses && count(a, e) != count(b, e) {
			return fmt.Errorf("%s for %v is gone", e.Name(), t.Capability)
		}
	}
	return nil
}

func count(c *gpucode.Container, e *gpucode.Entry) (n int) {
	for i := range c.Entries {
		if o := &c.Entries[i]; o.Kind == e.Kind && o.Arch == e.Arch {
			n++
		}
	}
	return n
}

// sameEntry reports whether an entry is another's from before. Where its options stand, hashes of
// store paths must have been blanked if that was asked for.
func (c *comparer) sameEntry(a, b *gpucode.Entry) bool {
	if a.Kind != b.Kind || a.Arch != b.Arch || a.Version != b.Version || a.Header != b.Header || a.Size != b.Size {
		return false
	}
	var spans []gpucode.Span
	if c.options.Blank {
		var err error
		if spans, err = a.Options(c.before); err != nil {
			return false
		}
	}
	at, end := a.Off, a.Off+a.Bytes()
	for _, s := range spans {
		if s.Off < at || s.End-s.Off > maxOptions {
			continue
		}
		if c.same(at, b.Off+at-a.Off, s.Off-at) != nil || c.sameOptions(s.Off, b.Off+s.Off-a.Off, s.End-s.Off) != nil {
			return false
		}
		at = s.End
	}
	return c.same(at, b.Off+at-a.Off, end-at) == nil
}

// sameOptions compares n bytes in which hashes of store paths have been blanked.
func (c *comparer) sameOptions(from, to, n uint64) error {
	a, b := make([]byte, n), make([]byte, n)
	if err := errors.Join(elfimage.ReadFull(c.before, a, from), elfimage.ReadFull(c.after, b, to)); err != nil {
		return err
	}
	const digits = "0123456789abcdfghijklmnpqrsvwxyz" // Nix's base 32
	for i := 0; i < len(a); i++ {
		isHash := bytes.HasSuffix(a[:i], []byte("/store/")) && len(a) > i+32 && a[i+32] == '-' &&
			len(bytes.Trim(a[i:i+32], digits)) == 0
		if isHash {
			if len(bytes.Trim(b[i:i+32], "e")) > 0 {
				return fmt.Errorf("the hash at %#x is still there", to+uint64(i))
			}
			i += 31
		} else if a[i] != b[i] {
			return fmt.Errorf("the byte at %#x differs", to+uint64(i))
		}
	}
	return nil
}

// same compares n bytes.
func (c *comparer) same(from, to, n uint64) error {
	for n > 0 {
		a, b := c.a[:min(n, uint64(len(c.a)))], c.b[:min(n, uint64(len(c.b)))]
		if err := errors.Join(elfimage.ReadFull(c.before, a, from), elfimage.ReadFull(c.after, b, to)); err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return fmt.Errorf("the bytes from %#x on differ", to)
		}
		from, to, n = from+uint64(len(a)), to+uint64(len(a)), n-uint64(len(a))
	}
	return nil
}
