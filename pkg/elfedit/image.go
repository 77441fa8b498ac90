package elfedit

import "cuda-runpath/pkg/elfimage"

// image is the file that is edited, with what only an editor asks of it.
type image struct {
	*elfimage.Image
	*workspace
	size uint64   // of the file, bytes
	room room     // the last one in the string table, once looked for; of size 0 where there is none
	all  []extent // once looked for; see extents

	lookedForRoom bool
	strings       int // 2 + StringSection, or 0 before that was asked
	interp        int // 2 + interpSection, likewise
}

func newImage(im *elfimage.Image) *image {
	return &image{Image: im, workspace: workspaceOf(im), size: uint64(im.Size())}
}

// hasDynamic reports whether the dynamic section has been read.
func (im *image) hasDynamic() bool { return im.DynCap > 0 }

// StringSection is elfimage's, looked for once.
func (im *image) StringSection() int {
	if im.strings == 0 {
		im.strings = 2 + im.Image.StringSection()
	}
	return im.strings - 2
}

func pick(long bool, a, b uint64) uint64 {
	if long {
		return a
	}
	return b
}
