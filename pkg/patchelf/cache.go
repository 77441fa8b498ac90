package patchelf

import (
	"errors"
	"fmt"

	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/runpath"
)

const cacheOption = "--build-resolution-cache"

// errStale is for a note that another one would have to replace.
var errStale = errors.New(cacheOption +
	": a resolution cache note is already present; rebuild from an unpatched binary")

// resolutionCache writes the note that is right once the other options are carried out. One
// that is there and another is an error, unless one of them takes it out.
func (d *doing) resolutionCache() error {
	old, has, err := d.oldCache()
	if err != nil {
		return err
	}
	if d.im.Dynamic == nil || d.detached() {
		return d.noCache(has, "no dynamic section (statically linked?)")
	}
	needed, err := d.im.Needed()
	if err != nil {
		return err
	}
	if d.change.Needed != nil {
		needed = d.change.Needed.Names
	}
	_, list, err := d.im.RunPath()
	if err != nil {
		return err
	}
	if d.change.RunPath != nil {
		list = d.change.RunPath.List
	}
	if len(needed) == 0 || list == "" {
		return d.noCache(has, "no DT_NEEDED entries or run path to resolve")
	}
	note := string(resolution.Build(needed, runpath.Parse(list), func(string) bool { return false },
		files.New(files.Options{})).Bytes())
	switch {
	case note == "":
		return d.noCache(has, "no libraries resolved against the run path")
	case !has:
		d.change.ResolutionNote, d.changed = &note, true
	case note != old:
		return errStale
	}
	return nil
}

// oldCache returns the description of the note that the file still has when the other options
// are carried out. patchelf knows it by its section's name, whatever is in that.
func (d *doing) oldCache() (desc string, has bool, err error) {
	if d.change.RunPath != nil || d.change.Needed != nil || d.change.Interpreter != nil {
		return "", false, nil
	}
	note, err := d.im.ResolutionCache()
	if err != nil {
		return "", false, err
	}
	if note != nil {
		return note.Description, true, nil
	}
	for i := range d.im.Sections {
		if d.im.SectionName(i) == resolution.Section {
			return "", true, nil
		}
	}
	return "", false, nil
}

// noCache says why there is nothing to write, which is an error where a note stays.
func (d *doing) noCache(has bool, why string) error {
	if has {
		return errStale
	}
	fmt.Fprintf(d.warnings, "warning: %s: %s; no cache written\n", cacheOption, why)
	return nil
}
