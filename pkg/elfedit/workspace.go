package elfedit

import "cuda-runpath/pkg/elfimage"

// A workspace is memory that plans are made in. It stays with the image, for the next
// one's plan.
type workspace struct {
	progs    elfimage.Arena[elfimage.Prog]
	sections elfimage.Arena[elfimage.Section]
	dynamic  elfimage.Arena[elfimage.Dyn]
	entries  elfimage.Arena[entry]
	writes   elfimage.Arena[write]
	blocks   elfimage.Arena[block]
	indices  elfimage.Arena[int]
	spans    elfimage.Arena[span]
	numbers  elfimage.Arena[uint64]
	moves    elfimage.Arena[move]

	extentsMade elfimage.Arena[extent]
}

func (w *workspace) Reset() {
	w.progs.Reset()
	w.sections.Reset()
	w.dynamic.Reset()
	w.entries.Reset()
	w.writes.Reset()
	w.extentsMade.Reset()
	w.blocks.Reset()
	w.indices.Reset()
	w.spans.Reset()
	w.numbers.Reset()
	w.moves.Reset()
}

// workspaceOf returns the workspace that an image has, or a new one.
func workspaceOf(im *elfimage.Image) *workspace {
	if w, ok := im.Kept().(*workspace); ok {
		return w
	}
	w := new(workspace)
	im.Keep(w)
	return w
}
