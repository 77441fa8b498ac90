// Package normalform is what the commands that edit run paths by the normal form have in common: the tools by their
// names, their settings, and what came of a file as a line.
package normalform

import (
	"debug/elf"
	"fmt"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
)

// Settings reads the flags of the normal form.
func Settings(c *command.Line) (s normal.Settings, err error) {
	s = normal.Settings{
		DriverLink: c.String("driver-link"),
		DriverLast: c.String("position") == "last",
		Compat:     c.String("compat"),
		StubDirs:   flags.StubDirs(c),
		KeepEmpty:  c.Bool("keep-empty"),
		Dedupe:     c.Bool("dedupe"),

		CompatForStubs: c.Bool("compat-for-stubs"),
	}
	for _, link := range []string{s.DriverLink, driver.Link, driver.Link32} {
		if s.Compat != "" && runpath.Key(s.Compat) == runpath.Key(link) {
			return s, command.Misusef("--compat %s is the driver link", s.Compat)
		}
	}
	return s, nil
}

func NoteLine(r edit.NoteResult) string { return "resolution note " + string(r) }

// ChangeLine is the log's line for an edited file: "OLD -> NEW (notes)". It names the tags where one takes the place of
// the other, and a new DT_RPATH, which comes before LD_LIBRARY_PATH and is inherited.
func ChangeLine(oldTag, newTag elf.DynTag, before, after string, notes []string) string {
	show := func(tag elf.DynTag, list string) string {
		switch {
		case tag == elf.DT_NULL:
			return "(no run path)"
		case oldTag != newTag && newTag != elf.DT_NULL && (oldTag != elf.DT_NULL || newTag == elf.DT_RPATH):
			return TagName(tag) + " " + command.Printable(list)
		case list == "":
			return "(empty)"
		}
		return command.Printable(list)
	}
	line := show(oldTag, before) + " -> " + show(newTag, after)
	if len(notes) > 0 {
		line += " (" + command.Printable(strings.Join(notes, "; ")) + ")"
	}
	return line
}

// PartsLine is the log's line for a file of which other parts were edited, too: those, and the run path if it was.
func PartsLine(parts []string, oldTag, newTag elf.DynTag, before, after string, notes []string) string {
	for i := range parts {
		parts[i] = command.Printable(parts[i])
	}
	if before != after || oldTag != newTag || len(parts) == 0 || notes != nil {
		parts = append(parts, ChangeLine(oldTag, newTag, before, after, notes))
	}
	return strings.Join(parts, "; ")
}

// Lost says that an edit leaves a file one run path of two.
func Lost(rpath string) string {
	return fmt.Sprintf("DT_RPATH %q is lost; the loader ignored it, because the file also has a DT_RUNPATH", rpath)
}

func TagName(tag elf.DynTag) string {
	if tag == elf.DT_NULL {
		return ""
	}
	return tag.String()
}

// OpenedLine says what an entry for libraries that are opened by name adds.
func OpenedLine(why, dir string) string {
	root, size := normal.Weigh(dir)
	return fmt.Sprintf("%s: %s is added, a package of %d bytes", why, root, size)
}
