package elfedit

import (
	"debug/elf"
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
)

// A goal is a change as work to do: the new entries of the dynamic section, the strings that the string table lacks
// for them, and the strings that go.
type goal struct {
	entries []entry // the dynamic section afterwards, without the terminator
	fits    bool    // they fit in the section's present place

	texts   []string // that the string table must get
	textAt  []uint64 // where each begins in blob
	blob    string   // texts, each but the last with its NUL
	retired []uint64 // offsets in the string table of strings that no dynamic entry or version need refers to any more
	renames []rename

	spare     int     // unused program headers that are missing
	interp    *string // nil: as it is
	stack     *elf.ProgFlag
	osabi     *byte
	unversion []write // of entries of DT_VERSYM

	// cache is the resolution note that goes or is replaced.
	cache  *elfimage.ResolutionCache
	passed []elfimage.ResolutionCache // others that would count without it
	desc   string                     // of the new one, or ""

	onlyRunPath bool
}

// An entry of the dynamic section. Its value will be the offset of the text with index text; -1 if the value is
// known.
type entry struct {
	elfimage.Dyn
	text int
}

// A rename is a vn_file that will name another library.
type rename struct {
	at    uint64 // of the word, in the file
	was   uint64
	entry // Val or text: the new name
}

// renamesAt reports whether the word at an offset of the file is a vn_file that gets another name.
func (g *goal) renamesAt(off uint64) bool {
	return slices.ContainsFunc(g.renames, func(r rename) bool { return r.at == off })
}

// newGoal compares what a change asks for with what the file says. It returns nil if they are the same.
func (im *image) newGoal(c Change) (*goal, error) {
	s := im.work()
	g := &s.goal
	*g = goal{onlyRunPath: c.RunPath != nil && c.Needed == nil && c.Soname == nil && !c.NoDefaultLib && !c.DebugTag}
	g.entries = slices.Grow(s.entries[:0], len(im.Dynamic)+4)
	for _, d := range im.Dynamic {
		g.entries = append(g.entries, entry{d, -1})
	}
	for _, part := range [...]func(*goal, *image, Change) error{(*goal).interpreter, (*goal).header, (*goal).runPath,
		(*goal).needed, (*goal).soname, (*goal).flags, (*goal).clearVersions} {
		if err := part(g, im, c); err != nil {
			return nil, err
		}
	}
	if g.spare = max(0, c.Spare-im.unusedProgs()); g.spare > 0 && im.Phoff != im.EhdrSize() {
		return nil, cannot("the program header table at offset %#x cannot change together with the ELF header", im.Phoff)
	}
	same := !g.changesDynamic(im) && g.spare == 0 && g.interp == nil && g.stack == nil && g.osabi == nil &&
		len(g.renames) == 0 && len(g.unversion) == 0
	if !same || c.ResolutionNote != nil {
		if err := g.note(im, c); err != nil {
			return nil, err
		}
	}
	if same && g.cache == nil && g.desc == "" {
		return nil, nil
	}
	s.entries = g.entries
	g.fits = !im.hasDynamic() || len(g.entries) < im.DynCap
	g.retire(im)
	g.textAt = make([]uint64, len(g.texts))
	at := uint64(0)
	for i, s := range g.texts {
		g.textAt[i] = at
		at += uint64(len(s)) + 1
	}
	g.blob = strings.Join(g.texts, "\x00")
	return g, nil
}

// last returns the last entry with a tag, or a new one if there is none.
func (g *goal) last(tag elf.DynTag) *entry {
	for i := range slices.Backward(g.entries) {
		if g.entries[i].Tag == tag {
			return &g.entries[i]
		}
	}
	g.entries = append(g.entries, entry{elfimage.Dyn{Tag: tag}, -1})
	return &g.entries[len(g.entries)-1]
}

// text returns the index of a string that the table must get.
func (g *goal) text(s string) int {
	if i := slices.Index(g.texts, s); i >= 0 {
		return i
	}
	g.texts = append(g.texts, s)
	return len(g.texts) - 1
}

func (g *goal) changesDynamic(im *image) bool {
	return !slices.EqualFunc(g.entries, im.Dynamic, func(e entry, d elfimage.Dyn) bool {
		return e.text < 0 && e.Tag == d.Tag && e.Val == d.Val
	})
}

func (g *goal) interpreter(im *image, c Change) error {
	if c.Interpreter == nil {
		return nil
	}
	if im.Prog(elf.PT_INTERP) == nil {
		return errNoInterpreter
	}
	now, err := im.Interpreter()
	if now != *c.Interpreter {
		g.interp = c.Interpreter
	}
	return err
}

func (g *goal) header(im *image, c Change) error {
	if c.OSABI != nil && elf.OSABI(*c.OSABI) != im.OSABI {
		g.osabi = c.OSABI
	}
	if c.ExecStack == nil {
		return nil
	}
	flags := elf.PF_R | elf.PF_W
	p := im.Stack()
	if p != nil {
		flags = p.Flags &^ elf.PF_X
	}
	if *c.ExecStack {
		flags |= elf.PF_X
	}
	if p == nil || flags != p.Flags { // without the header, the machine's ABI decides (glibc, stackinfo.h)
		g.stack = &flags
	}
	return nil
}

// runPath makes one entry the run path, either one that holds one now or a new one. An empty list leaves none.
func (g *goal) runPath(im *image, c Change) error {
	if c.RunPath == nil {
		return nil
	}
	slot, r := -1, *c.RunPath
	for i := range g.entries {
		e := &g.entries[i]
		if isRunPath(e.Tag) && (slot < 0 || e.Tag == r.Tag && g.entries[slot].Tag != r.Tag) {
			slot = i
		}
	}
	if slot < 0 {
		slot = len(g.entries)
	}
	kept := g.entries[:0]
	for i, e := range g.entries {
		if !isRunPath(e.Tag) {
			kept = append(kept, e)
		} else if i == slot && r.Tag != elf.DT_NULL {
			s, err := im.DynText(e.Dyn)
			if err != nil {
				return err
			}
			if e.Tag = r.Tag; string(s) != r.List {
				e.Val, e.text = 0, g.text(r.List)
			}
			kept = append(kept, e)
		}
	}
	if slot == len(g.entries) && r.Tag != elf.DT_NULL {
		kept = append(kept, entry{elfimage.Dyn{Tag: r.Tag}, g.text(r.List)})
	}
	g.entries = kept
	return nil
}

func isRunPath(tag elf.DynTag) bool { return tag == elf.DT_RPATH || tag == elf.DT_RUNPATH }

// needed gives the entries of DT_NEEDED the names, in order. Their number may change.
func (g *goal) needed(im *image, c Change) error {
	n := c.Needed
	if n == nil {
		return nil
	}
	was, err := im.DynStrings(elf.DT_NEEDED)
	if err != nil {
		return err
	}
	var offs []uint64 // of them
	for _, d := range im.Dynamic {
		if d.Tag == elf.DT_NEEDED {
			offs = append(offs, d.Val)
		}
	}
	first := map[string]int{} // index of each name
	for i, s := range slices.Backward(was) {
		first[s] = i
	}
	name := func(s string) entry {
		e := entry{elfimage.Dyn{Tag: elf.DT_NEEDED}, -1}
		if i, known := first[s]; known {
			e.Val = offs[i]
		} else {
			e.text = g.text(s)
		}
		return e
	}
	names := n.Names
	kept, i := make([]entry, 0, len(g.entries)+len(names)), 0
	for _, e := range g.entries {
		if e.Tag != elf.DT_NEEDED {
			kept = append(kept, e)
		} else if len(names) > 0 {
			if was[i] != names[0] {
				e = name(names[0])
			}
			kept, names, i = append(kept, e), names[1:], i+1
		}
	}
	for _, s := range names {
		kept = append(kept, name(s))
	}
	g.entries = kept
	if len(n.Renamed) == 0 {
		return nil
	}
	return im.EachVersionRef(func(r elfimage.VersionRef) error {
		if !r.Library {
			return nil
		}
		old, err := im.DynString(elfimage.Dyn{Tag: elf.DT_VERNEED, Val: r.Str, Off: r.Off})
		if err != nil {
			return err
		}
		if s, renamed := n.Renamed[old]; renamed && s != old {
			g.renames = append(g.renames, rename{r.Off, r.Str, name(s)})
		}
		return nil
	})
}

func (g *goal) soname(im *image, c Change) error {
	if c.Soname == nil {
		return nil
	}
	if d, has := im.Dyn(elf.DT_SONAME); has {
		if now, err := im.DynString(d); err != nil || now == *c.Soname {
			return err
		}
	}
	*g.last(elf.DT_SONAME) = entry{elfimage.Dyn{Tag: elf.DT_SONAME}, g.text(*c.Soname)}
	return nil
}

func (g *goal) flags(_ *image, c Change) error {
	if c.NoDefaultLib {
		g.last(elf.DT_FLAGS_1).Val |= uint64(elf.DF_1_NODEFLIB)
	}
	if c.DebugTag {
		g.last(elf.DT_DEBUG)
	}
	return nil
}

// clearVersions makes symbols global, without a version.
func (g *goal) clearVersions(im *image, c Change) error {
	if len(c.ClearVersions) == 0 {
		return nil
	}
	return im.eachVersion(func(s symbolVersion) {
		if s.name != "" && slices.Contains(c.ClearVersions, s.name) {
			w := make([]byte, 2)
			im.Order.PutUint16(w, versionGlobal)
			g.unversion = append(g.unversion, write{off: s.at, data: w})
		}
	})
}

// retire finds the changing strings that a dynamic entry or version need refers to now and none will afterwards.
func (g *goal) retire(im *image) {
	stays := take(&im.work().offsets, len(g.entries))
	for _, e := range g.entries {
		if e.text < 0 && elfimage.IsStringTag(e.Tag) {
			stays = append(stays, e.Val)
		}
	}
	slices.Sort(stays)
	g.retired = make([]uint64, 0, 4)
	retire := func(off uint64) {
		if _, found := slices.BinarySearch(stays, off); !found && !slices.Contains(g.retired, off) {
			g.retired = append(g.retired, off)
		}
	}
	for _, d := range im.Dynamic {
		if elfimage.IsStringTag(d.Tag) {
			retire(d.Val)
		}
	}
	for _, r := range g.renames {
		retire(r.was)
	}
}
