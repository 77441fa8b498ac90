package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/runpath"
)

// note returns what is wrong with the resolution note of an object of the load: it leads a loader that reads it
// elsewhere than the run path does.
func (c *Case) note(o *loader.Object) (all []finding.Finding) {
	if o.File == nil || o.File.Note == nil && o.File.NoteErr == nil {
		return nil
	}
	s := c.Load
	add := func(kind, name, format string, args ...any) {
		f := on(kind, nil, o, c.rewriteNote(o), "the resolution note of %s, which a glibc that reads it obeys before the run "+
			"path, %s", c.who(o), fmt.Sprintf(format, args...))
		f.Library = name
		all = append(all, f)
	}
	if s.Role == loader.Program && o == s.Main && s.Interp.Found && !s.Interp.ReadsNote {
		return []finding.Finding{on(finding.UnreadNote, nil, o, c.Edit(o, &remedy.Change{Note: "remove"}),
			"it has a resolution note, which its loader %s does not read", s.Interp.Path)}
	}
	if o.File.NoteErr != nil {
		add(finding.StaleNote, "", "is malformed: %v", o.File.NoteErr)
	}
	list := runpath.Parse(o.File.List)
	for _, e := range o.File.Note {
		if stub := c.stubIn(e, list); stub != "" {
			add(finding.NoteNamesStub, e.Name, "lets it look for %s %s", e.Name, stub)
			continue
		}
		if file := c.bypass(e, list); file != "" {
			add(finding.NoteBypassesDriver, e.Name,
				"names %s for %s, so the driver link %s is not searched first, although the run path has it first", file, e.Name,
				c.Link(o.File.ELF.Machine))
			continue
		}
		if !slices.Contains(o.File.Needed, e.Name) {
			add(finding.StaleNote, e.Name, "says where %s is, which %s does not need", e.Name, c.who(o))
			continue
		}
		noted, at := s.Noted(o, e.Name)
		listed, to, _ := s.Own(o, e.Name)
		stray := strayPlace(e, list)
		switch {
		case stray != "":
			add(finding.StaleNote, e.Name, "lets it look for %s %s", e.Name, stray)
		case noted == nil || list.Empties() > 0: // then the run path decides; a note cannot hold an empty entry
		case listed == nil:
			add(finding.StaleNote, e.Name, "names %s for %s, which the run path does not lead to", at, e.Name)
		case !noted.Same(listed):
			add(finding.StaleNote, e.Name, "leads to %s for %s, the run path to %s", at, e.Name, to)
		}
	}
	return all
}

// rewriteNote is the remedy of writing the note of an object's file anew. The same edit takes stub directories out of
// its run path.
func (c *Case) rewriteNote(o *loader.Object) remedy.Remedy {
	if slices.ContainsFunc(runpath.Parse(o.File.List),
		func(e string) bool { return c.StubDirs.Contains(runpath.Key(e)) }) {
		return c.editForDriver(o, c.stubs(runpath.ReplaceStubs))
	}
	write := c.stubs(0)
	write.Note = "write"
	return c.editForDriver(o, write)
}

// stubIn returns the stub, or directory of stubs, that a note names and the run path does not have; "" for none.
func (c *Case) stubIn(e resolution.Entry, list runpath.List) string {
	for _, p := range e.Places {
		if file, ok := p.File(); ok && c.StubDirs.Contains(runpath.Key(path.Dir(file))) {
			return "at " + file + ", a stub"
		}
		if dir, ok := p.Directory(); ok && c.StubDirs.Contains(runpath.Key(dir)) && !slices.Contains(list, dir) {
			return "in " + dir + ", a directory of stubs"
		}
	}
	return ""
}

// strayPlace returns the first place in a note's entry that the run path does not have; "" for none.
func strayPlace(e resolution.Entry, list runpath.List) string {
	for _, p := range e.Places {
		if dir, ok := p.Directory(); ok && !list.Has(dir) {
			return "in " + dir + ", which is not in the run path"
		}
		if file, ok := p.File(); ok && !list.Has(strings.TrimSuffix(file, "/"+e.Name)) {
			return "at " + file + ", which the run path does not lead to"
		}
	}
	return ""
}

// bypass returns the file that a note names for a library of the driver although the driver link
// comes before its directory in the run path; "" for none.
func (c *Case) bypass(e resolution.Entry, list runpath.List) string {
	if !driver.Provides(e.Name) {
		return ""
	}
	link := runpath.Key(c.Link(c.Load.Main.File.ELF.Machine))
	at := list.Index(link)
	for _, p := range e.Places {
		if dir, ok := p.Directory(); ok && runpath.Key(dir) == link {
			return ""
		}
		file, ok := p.File()
		if !ok {
			continue
		}
		dir := runpath.Key(strings.TrimSuffix(file, "/"+e.Name))
		if i := list.Index(dir); dir == link || at < 0 || i >= 0 && i < at {
			return ""
		}
		return file
	}
	return ""
}
