package runpaths

import (
	"debug/elf"

	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/runpath"
)

// Tag says which tag a run path gets.
type Tag struct {
	// ForceRPath writes DT_RPATH, ForceRunPath, unless that is given too, DT_RUNPATH. Without them a file keeps its tag,
	// and one that has none gets that of [files.NewTag].
	ForceRPath, ForceRunPath bool
}

// StateOf reads a file's run path.
func StateOf(im *elfimage.Image) (edit.State, error) {
	tag, list, err := im.RunPath()
	return edit.State{Tag: tag, List: runpath.Parse(list)}, err
}

// Change returns the change that gives a file a run path, or nil where it has that: an empty list and no tag are the
// same to the loader. shadowed is the DT_RPATH that is lost, where the file has one beside its DT_RUNPATH.
func (t Tag) Change(im *elfimage.Image, after runpath.List) (c *elfedit.RunPath, shadowed *string, err error) {
	tag, list, err := im.RunPath()
	if err != nil {
		return nil, nil, err
	}
	old, both, err := im.Shadowed()
	if err != nil {
		return nil, nil, err
	}
	c = &elfedit.RunPath{Tag: tag, List: after.String()}
	switch {
	case c.List == "":
		c.Tag = elf.DT_NULL
	case t.ForceRPath:
		c.Tag = elf.DT_RPATH
	case t.ForceRunPath:
		c.Tag = elf.DT_RUNPATH
	case tag == elf.DT_NULL:
		if c.Tag, err = files.NewTag(im); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case both:
		return c, &old, nil
	case c.List == list && (c.Tag == tag || list == ""):
		return nil, nil, nil
	}
	return c, nil, nil
}
