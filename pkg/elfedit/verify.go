package elfedit

import (
	"debug/elf"
	"fmt"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// A verifier compares the images before and after an edit with the change that was asked for. It does not know how
// the edit was planned, and calls no planner. image.go has what both ask of the first image: where an earlier edit
// has left room or a hole, and which program header a file does not need.
type verifier struct {
	c      Change
	before *image
	after  *image
	owners []elfimage.Owner // of what was there before

	moving  bool                       // the copy of a segment is being compared
	cache   *elfimage.ResolutionCache  // that goes or is replaced, or nil
	note    *elfimage.ResolutionCache  // that is new, or nil
	notes   []elfimage.ResolutionCache // all of before, if one goes or comes
	strings []span                     // ranges of the dynamic string table that change, as offsets in it
	same    []*elfimage.Prog           // see sameProg; nil before that is asked for
	added   []elf.ProgType             // of the program headers that are new

	compared shifted // of the contents of segments that moved
}

// shifted is a range of the file, and how many bytes further it is afterwards.
type shifted struct {
	span
	by uint64
}

// verify returns an error if the image after an edit does not say what was asked for, or if anything else that the
// loader reads by name has changed. It is a *BugError if bytes have changed that the change is not about. changed are
// the ranges in which the two images differ.
func verify(before *image, after *elfimage.Image, c Change, changed []span) error {
	v := &verifier{c: c, before: before, after: &image{Image: after, size: uint64(after.Size())},
		owners: before.owned()}
	if before.hasDynamic() {
		if err := v.asked(); err != nil {
			return err
		}
	}
	if c.OSABI != nil && after.OSABI != elf.OSABI(*c.OSABI) || c.OSABI == nil && after.OSABI != before.OSABI {
		return fmt.Errorf("planned edit reads back with OS ABI %v", after.OSABI)
	}
	return v.allBytes(changed)
}

// about reports whether the change is about the dynamic entries with a tag.
func (v *verifier) about(tag elf.DynTag) bool {
	switch tag {
	case elf.DT_RUNPATH, elf.DT_RPATH:
		return v.c.RunPath != nil
	case elf.DT_NEEDED:
		return v.c.Needed != nil
	case elf.DT_SONAME:
		return v.c.Soname != nil
	case elf.DT_FLAGS_1:
		return v.c.NoDefaultLib
	case elf.DT_DEBUG:
		return v.c.DebugTag
	}
	return false
}

// asked makes sure that .dynamic, PT_INTERP and the tables of versions say what the change asks for. dynamic compares
// the rest.
func (v *verifier) asked() error {
	c, after := v.c, v.after
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH, elf.DT_NEEDED, elf.DT_SONAME} {
		if !v.about(tag) {
			continue
		}
		var want []string
		switch {
		case tag == elf.DT_NEEDED:
			want = c.Needed.Names
		case tag == elf.DT_SONAME:
			want = texts(v.before, tag)
			want = append(want[:max(0, len(want)-1)], *c.Soname)
		case tag == c.RunPath.Tag:
			want = []string{c.RunPath.List}
		}
		if now := texts(after, tag); !slices.Equal(now, want) {
			return fmt.Errorf("planned edit reads back with %v %.200q", tag, now)
		}
	}
	want, err := v.before.Interpreter()
	if err != nil {
		return err
	}
	if c.Interpreter != nil {
		want = *c.Interpreter
	}
	if now, err := after.Interpreter(); err != nil {
		return fmt.Errorf("planned edit reads back without its interpreter: %w", err)
	} else if now != want {
		return fmt.Errorf("planned edit reads back with interpreter %q", now)
	}
	was, _ := v.before.Dyn(elf.DT_FLAGS_1)
	if now, _ := after.Dyn(elf.DT_FLAGS_1); c.NoDefaultLib && now.Val != was.Val|uint64(elf.DF_1_NODEFLIB) {
		return fmt.Errorf("planned edit reads back with DT_FLAGS_1 %#x", now.Val)
	}
	if _, has := after.Dyn(elf.DT_DEBUG); c.DebugTag && !has {
		return fmt.Errorf("planned edit adds no DT_DEBUG")
	}
	if len(c.ClearVersions) > 0 {
		if err := v.cleared(); err != nil {
			return err
		}
	}
	if c.Needed == nil || len(c.Needed.Renamed) == 0 {
		return nil
	}
	needed, err := v.before.VersionsNeeded()
	if err != nil {
		return err
	}
	now, err := after.VersionsNeeded()
	if err != nil {
		return err
	}
	same := slices.EqualFunc(needed, now, func(a, b elfimage.Version) bool {
		name := a.Library
		if s, renamed := c.Needed.Renamed[name]; renamed {
			name = s
		}
		return a.Name == b.Name && a.Hash == b.Hash && a.Weak == b.Weak && b.Library == name
	})
	if !same {
		return fmt.Errorf("planned edit reads back with other versions needed")
	}
	return nil
}

// texts returns what the entries with a tag say.
func texts(im *image, tag elf.DynTag) (out []string) {
	for _, d := range im.Dynamic {
		if d.Tag == tag {
			out = append(out, string(im.says(d)))
		}
	}
	return out
}

// says returns what an entry says, in memory that the next read may overwrite.
func (im *image) says(d elfimage.Dyn) []byte {
	b, err := im.DynText(d)
	if err != nil {
		return []byte("no text\x00") // which no string has
	}
	return b
}

// cleared makes sure that each symbol has its old version, or none if the change names the symbol.
func (v *verifier) cleared() error {
	var was, now []symbolVersion
	if err := v.before.eachVersion(func(s symbolVersion) { was = append(was, s) }); err != nil {
		return err
	}
	if err := v.after.eachVersion(func(s symbolVersion) { now = append(now, s) }); err != nil {
		return err
	}
	if len(now) != len(was) {
		return fmt.Errorf("planned edit leaves no table of %d versions", len(was))
	}
	for i, s := range was {
		if s.name != "" && slices.Contains(v.c.ClearVersions, s.name) {
			s.version, s.name = versionGlobal, ""
		}
		if now[i].version != s.version || now[i].name != s.name {
			return fmt.Errorf("planned edit reads back with version %d of symbol %d instead of %d", now[i].version, i, s.version)
		}
	}
	return nil
}

// progs makes sure that each old program header says what it said, except for a place that may change. Only a
// PT_LOAD, and what was asked for, may be new.
func (v *verifier) progs() error {
	for i, q := range v.before.Progs {
		n := v.sameProg(i)
		same := true
		switch {
		case q.Type == elf.PT_NULL, n == nil && (i == v.before.expendable() || v.isCache(i)):
		case n == nil:
			return bug("loses %v", q.Type)
		case movableProg(q.Type), q.Type == elf.PT_PHDR, q.Type == elf.PT_DYNAMIC:
			same = v.movedProg(q, *n)
		default:
			same = v.fixedProg(q, *n)
		}
		if !same {
			return bug("changes %v at address %#x", q.Type, q.Vaddr)
		}
	}
	if stack := v.c.ExecStack; stack != nil {
		now := v.after.Stack()
		if now == nil || *stack != (now.Flags&elf.PF_X != 0) || v.before.Stack() == nil && now.Memsz != 0 {
			return bug("leaves no such PT_GNU_STACK")
		}
	}
	for i, t := range v.added {
		switch {
		case t == elf.PT_NULL, t == elf.PT_NOTE, t == elf.PT_LOAD && slices.Index(v.added, t) == i,
			t == elf.PT_GNU_STACK && v.c.ExecStack != nil && v.before.Stack() == nil:
		default:
			return bug("adds %v", t)
		}
	}
	return nil
}

// movedProg reports whether a program header whose place may change says the same otherwise. Its contents are
// compared elsewhere.
func (v *verifier) movedProg(q, n elfimage.Prog) bool {
	switch {
	case n.Flags != q.Flags || n.Align != q.Align || !v.sameAddress(n.Vaddr-n.Paddr, q.Vaddr-q.Paddr),
		n.Filesz != n.Memsz && n.Memsz != q.Memsz:
		return false
	case q.Type == elf.PT_PHDR:
		return n.Off == q.Off && n.Vaddr == q.Vaddr && n.Filesz == uint64(len(v.after.Progs))*v.after.PhdrSize() &&
			n.Memsz == n.Filesz
	case q.Type == elf.PT_DYNAMIC && n.Off == q.Off:
		return n.Filesz == q.Filesz
	case q.Type == elf.PT_DYNAMIC:
		return n.Filesz <= uint64(len(v.after.Dynamic)+8)*v.after.DynSize()
	}
	return true
}

// fixedProg reports whether a program header that no edit moves says the same, or maps more at the same addresses.
func (v *verifier) fixedProg(q, n elfimage.Prog) bool {
	after, stack := v.after.Progs, v.c.ExecStack
	switch {
	// moved in the file, .bss with it: relocated compares the bytes
	case q.Type == elf.PT_LOAD && n.Off >= v.before.size && n.Filesz == n.Memsz && n.Memsz >= q.Memsz:
		n.Off, n.Filesz, n.Memsz = q.Off, q.Filesz, q.Memsz
		if n.Align >= elfimage.PageSize && n.Align < q.Align && imageAlign(after) >= imageAlign(v.before.Progs) {
			n.Align = q.Align
		}
		if n.Flags&elf.PF_X == 0 {
			n.Flags = n.Flags&^elf.PF_W | q.Flags&elf.PF_W
		}
	case q.Type == elf.PT_LOAD && n.Filesz >= q.Filesz && n.Memsz-q.Memsz == n.Filesz-q.Filesz:
		if n.Filesz > q.Filesz && n.Flags&elf.PF_X == 0 { // .dynamic may be in it now
			n.Flags = n.Flags&^elf.PF_W | q.Flags&elf.PF_W
		}
		n.Filesz, n.Memsz = q.Filesz, q.Memsz
	case q.Type != elf.PT_LOAD && n.Off >= v.before.size && followsSegment(n, after): // with its segment
		n.Off = q.Off
	}
	if q.Type == elf.PT_GNU_STACK && stack != nil && *stack == (n.Flags&elf.PF_X != 0) {
		n.Flags = n.Flags&^elf.PF_X | q.Flags&elf.PF_X
	}
	return n == q
}

// imageAlign is what the loader aligns the address of an image to, in bytes: the largest
// p_align (glibc 2.35, elf/dl-load.c; Linux 5.10, fs/binfmt_elf.c).
func imageAlign(progs []elfimage.Prog) uint64 {
	largest := uint64(0)
	for _, q := range progs {
		if q.Type == elf.PT_LOAD && q.Memsz > 0 {
			largest = max(largest, q.Align)
		}
	}
	return largest
}

// followsSegment reports whether a program header describes what its segment maps there.
func followsSegment(q elfimage.Prog, progs []elfimage.Prog) bool {
	return slices.ContainsFunc(progs, func(s elfimage.Prog) bool {
		return s.Type == elf.PT_LOAD && q.Vaddr >= s.Vaddr && q.Vaddr+q.Filesz <= s.Vaddr+s.Filesz &&
			q.Off-s.Off == q.Vaddr-s.Vaddr
	})
}
