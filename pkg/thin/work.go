package thin

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
)

// Work is what is to be done with one file: all that decides on it is in [Decide], for a file of a tree and for one
// of an image's layers alike.
type Work struct {
	Plan *Plan
	Code *gpucode.File
	// Cut makes the file shorter; nil where it keeps its length. Uncut explains that where a shorter one was asked for,
	// and why a file is left as it is of which something would go.
	Cut   *Cut
	Uncut string

	options Options
	from    io.ReaderAt // the file
	size    int64       // of that
}

// ErrSkipped is wrapped by the errors of Decide that say why a file is none to be thinned.
var ErrSkipped = errors.New("not to be thinned")

// skipped is such an error; its text is the reason alone.
type skipped string

func (s skipped) Error() string        { return string(s) }
func (s skipped) Is(target error) bool { return target == ErrSkipped }

// Decide plans what becomes of the file of size bytes at r, which begins with head. debug returns the path of the debug
// file of a build ID, "" for none. An error that is ErrSkipped says why there is nothing to do with such a file.
func Decide(r io.ReaderAt, size int64, head []byte, o Options, length Length,
	debug func(buildID string) string) (*Work, error) {
	if !gpucode.IsFile(head) {
		return nil, skipped(gpucode.ErrNotCode.Error())
	}
	if h, isELF, whole := elfimage.DecodeHeader(head); !isELF || whole && h.Type != elf.ET_EXEC && h.Type != elf.ET_DYN {
		if o.Targets, length = nil, Kept; !o.Blank {
			return nil, skipped("not a program or library: only --blank-options applies to it")
		}
	}
	w := &Work{options: o, from: r, size: size}
	var err error
	if w.Code, err = gpucode.Read(w.from, w.size, head); err != nil {
		return nil, err
	}
	switch {
	case len(w.Code.Containers) == 0 && len(w.Code.Bundles) > 0:
		return nil, skipped("its code is for AMD GPUs, and is not thinned")
	case len(w.Code.Containers) == 0:
		return nil, skipped("no GPU code")
	}
	if w.Plan, err = New(w.from, w.Code, o); err != nil {
		return w, err
	}
	if length != Kept {
		w.Cut, err = w.Plan.cut(w.from, w.size, w.Code)
		if errors.Is(err, ErrNoCut) {
			w.Uncut = err.Error()
		} else if err != nil {
			return nil, err
		}
	}
	if length == Cutting || w.Cut == nil && w.Plan.empty() {
		return w, nil
	}
	if why := signed(w.from, w.size, head); why != "" {
		w.Plan, w.Cut = &Plan{options: o, All: w.Plan.All, Left: w.Plan.Left}, nil
		w.Uncut = "it is left as it is: " + why + ", which any change makes void; --cut thins it anyway"
	} else if w.Cut != nil {
		if why := bound(w.from, w.size, head, debug); why != "" {
			w.Cut, w.Uncut = nil, fmt.Sprintf("%v: %s; --cut cuts it anyway", ErrNoCut, why)
		}
	}
	return w, nil
}

// Empty reports whether the file is as it should be.
func (w *Work) Empty() bool { return w.Cut == nil && w.Plan.empty() }

// Size is the length of what is written, in bytes.
func (w *Work) Size() int64 {
	if w.Cut != nil {
		return w.Cut.Size()
	}
	return w.size
}

// Anew reports whether Write begins with an empty file, and not with a copy.
func (w *Work) Anew() bool { return w.Cut != nil }

// Removed returns the parts of the file, each from an offset up to another, in order, which are zeros after Write: they
// need not be in the copy.
func (w *Work) Removed() (parts [][2]int64) {
	if w.Cut != nil {
		return nil
	}
	for i := range w.Plan.containers {
		if c := &w.Plan.containers[i]; c.thinned() {
			parts = append(parts, [2]int64{int64(c.kept()), int64(c.end)})
		}
	}
	slices.SortFunc(parts, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return parts
}

// Copy is what Write writes to.
type Copy interface {
	Writer
	io.ReaderAt
	Truncate(size int64) error
}

// Write makes of to, which is empty or a copy of the file ([Work.Anew]), what was decided, and compares it with the
// file.
func (w *Work) Write(to Copy) error {
	if w.Cut != nil {
		if err := w.Cut.Apply(to); err != nil {
			return err
		}
		return w.Cut.Check(to, w.Cut.Size())
	}
	if err := w.Plan.Apply(w.from, to); err != nil {
		return err
	}
	return Check(w.from, to, w.size, w.options)
}
