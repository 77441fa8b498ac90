package explain

import (
	"slices"
	"strconv"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// edit is the remedy of running an editing tool on the file.
func (c *Case) edit(what *remedy.Change) remedy.Remedy { return c.Edit(c.Load.Main, what) }

// add is the change of adding an entry to a run path.
func add(entry string) *remedy.Change { return &remedy.Change{AddEntries: []string{entry}} }

// normalize is the remedy of bringing the run path into its normal form.
func (c *Case) normalize() remedy.Remedy { return c.edit(c.rules(0)) }

// without is the remedy of taking entries out of the run path. A library that is found in one of them, and in none
// that the other remedies leave, must be dealt with first. It is asked once for each finding, and the next one relies
// on it.
func (c *Case) without(entries ...string) remedy.Remedy {
	for _, e := range slices.Clone(entries) {
		entries = append(entries, c.replaced[runpath.Key(e)].by...) // it may be in e's place by then
	}
	rest := slices.DeleteFunc(slices.Clone(c.rest), func(e entry) bool { return runpath.List(entries).Has(e.key) })
	if r, ok := c.leaves(rest, entries); !ok {
		return r
	}
	return c.removing(entries)
}

// removing is the remedy of taking entries out, independent of other conclusions.
func (c *Case) removing(entries []string) remedy.Remedy {
	// a store's links are made by its optimiser
	if c.file.Links > 1 && slices.ContainsFunc(entries, runpath.HasOrigin) && c.File(c.Load.Main).Object == "" {
		return remedy.Do(
			"remove %s from the run path once this name has a file of its own: it is one of %s hard links, and $ORIGIN is the "+
				"directory of the name that is opened",
			entries, strconv.Itoa(c.file.Links))
	}
	return c.edit(&remedy.Change{RemoveEntries: entries})
}

// remains reports whether no remedy so far takes a directory out of the run path.
func (c *Case) remains(key string) bool {
	return slices.ContainsFunc(c.rest, func(e entry) bool { return e.key == key })
}

// leaves records that the run path is rest after a remedy that takes entries out. ok is false if a library would be
// lost; then there is another remedy.
func (c *Case) leaves(rest []entry, entries []string) (r remedy.Remedy, ok bool) {
	if c.long {
		return remedy.Do("shorten the run path: runpath set writes another"), false
	}
	var lost []string
	for _, o := range c.Load.Objects[1:] {
		if !o.Found() || o.List != c.Load.Main || slices.Contains(lost, o.Name) {
			continue
		}
		if !slices.ContainsFunc(rest, func(e entry) bool {
			return e.text == o.Entry || c.Load.Holds(e.dir, o.Name) || e.driver && driver.Provides(o.Name)
		}) {
			lost = append(lost, o.Name)
		}
	}
	if len(lost) > 0 {
		return remedy.Do("remove %s from the run path once %s can be found elsewhere", entries, lost), false
	}
	c.rest = rest
	return r, true
}

// replace is the remedy of writing what was meant in place of an entry. Only entries are written that hold what the
// file asks for and no other entry has. If there are none, the entry goes.
func (c *Case) replace(e *entry, meant ...string) remedy.Remedy {
	if known, ok := c.replaced[e.key]; ok {
		return known.remedy // it is in the run path twice
	}
	rest := slices.DeleteFunc(slices.Clone(c.rest), func(r entry) bool { return r.key == e.key })
	var by runpath.List
	for _, text := range meant {
		m := c.entry(text, e.position)
		there := slices.ContainsFunc(rest, func(r entry) bool { return r.key == m.key })
		if !there && m.dir != "" && !m.stub && (m.driver || c.brings(&m, rest)) {
			rest, by = append(rest, m), append(by, text)
		}
	}
	if len(by) == 0 {
		r := c.without(e.text)
		if len(meant) > 0 {
			r = r.And("; %s, which may have been meant, brings nothing that the file asks for and no other entry has", meant)
		}
		return r
	}
	if r, ok := c.leaves(rest, []string{e.text}); !ok {
		return r
	}
	r := c.edit(&remedy.Change{ReplaceEntries: []string{e.text + "=" + by.String()}}).And(" if you meant that")
	if c.replaced == nil {
		c.replaced = map[string]replacement{}
	}
	c.replaced[e.key] = replacement{by, r}
	return r
}

// replacement is what a remedy puts in the place of an entry.
type replacement struct {
	by     runpath.List
	remedy remedy.Remedy
}

// brings reports whether an entry holds a name that the file asks for and no other entry holds, and whether nobody
// else can write to it.
func (c *Case) brings(m *entry, rest []entry) bool {
	if !c.Loader.Files().IsDir(m.dir) || !c.controlled(m.dir, c.at) || c.ofNix() && isFHS(m.key) ||
		c.leftover(m.text) != "" {
		return false
	}
	holds := c.heldNames(m)
	return len(holds) > 0 && !slices.ContainsFunc(rest, func(r entry) bool {
		return r.dir != "" && slices.ContainsFunc(holds, func(name string) bool { return c.Load.Holds(r.dir, name) })
	})
}
