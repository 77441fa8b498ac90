package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CompatNote is what NVIDIA writes into a libcuda.so.1 about itself: the section
// .note.cuda.fwd_compatibility, owner "NVIDIA Corporation", type 0, a JSON document.
// Libraries of driver 580 have it; older ones and stubs have none.
type CompatNote struct {
	Format int `json:"format"`
	// CUDA is the CUDA version of the library: "13.0".
	CUDA string `json:"CUDA version"`
	// Drivers are the driver branches beside which it can stand in for the driver's own.
	Drivers []int `json:"driver"`
	// Devices is not documented.
	Devices []int `json:"device"`
}

// CompatNoteOwner and CompatNoteType tell the note among others.
const (
	CompatNoteOwner = "NVIDIA Corporation"
	CompatNoteType  = 0
)

// parseCompatNote reads a note's descriptor. CUDA 13.2's compat package for Orin
// has one that is not JSON (NVIDIA/nvidia-container-toolkit 1804): that is an error.
func parseCompatNote(desc []byte) (CompatNote, error) {
	var n CompatNote
	if err := json.Unmarshal(bytes.TrimRight(desc, "\x00 \n"), &n); err != nil {
		return CompatNote{}, fmt.Errorf("the note .note.cuda.fwd_compatibility is not JSON: %w", err)
	}
	if n.CUDA == "" || versionNumbers(n.CUDA) == nil {
		return CompatNote{}, errors.New("the note .note.cuda.fwd_compatibility names no CUDA version")
	}
	return n, nil
}

// FirstCompatNote returns the first of some descriptors that is such a note, nil where none is.
func FirstCompatNote(descriptors [][]byte) *CompatNote {
	for _, desc := range descriptors {
		if n, err := parseCompatNote(desc); err == nil {
			return &n
		}
	}
	return nil
}

func (n CompatNote) String() string {
	list := make([]string, len(n.Drivers))
	for i, d := range n.Drivers {
		list[i] = strconv.Itoa(d)
	}
	if len(list) == 0 {
		return "CUDA " + n.CUDA
	}
	return "CUDA " + n.CUDA + ", for drivers " + strings.Join(list, ", ")
}

// CUDALibrary is what is known of one libcuda.so.1, the driver's or a compat package's.
type CUDALibrary struct {
	Path string
	// Version is the driver's version in the file's name, "580.95.05"; "" where that names none.
	Version string
	// CUDA is the CUDA version, "13.0", and CUDASource where that is from; "" where it is not known.
	CUDA, CUDASource string
	// Note is nil where the file has none that can be read.
	Note *CompatNote
	// Tegra says, of the host's driver, that it is a Jetson's without a driver version (nvgpu).
	Tegra bool
}

func (l CUDALibrary) String() string {
	var parts []string
	if l.CUDA != "" {
		parts = append(parts, "CUDA "+l.CUDA)
	}
	if l.Version != "" {
		parts = append(parts, l.Version)
	}
	if parts == nil {
		return "of an unknown version"
	}
	return strings.Join(parts, ", ")
}

// Help says what a compat package does for a host.
type Help string

// The answers.
const (
	Helps     Help = "helps"
	NotNeeded Help = "not needed"
	Harms     Help = "harms"
	Unknown   Help = "unknown"
)

// CompatVerdict is the answer, with the reason in words and where the rule is from.
type CompatVerdict struct {
	Help   Help
	Reason string
	Source string
}

// The sources of the rules.
const (
	compatByNote    = "note .note.cuda.fwd_compatibility"
	compatByVersion = "version numbers in the files' names"
	compatByCUDA    = "CUDA versions named in the libraries"
)

// Compat reports whether a compat package's libcuda.so.1 helps on a host.
//
// It helps where its CUDA version is greater than the host driver's and its note
// names the branch of the host's driver. Where both are of one CUDA version it is
// not needed, and where it is the older one it harms: CUDA then answers 803,
// CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (measured: compat 580.95.05 on driver
// 580.159.04; NVIDIA/nvidia-container-toolkit 1697 reports 580.82.07 on 580.126.16).
// A package without a note helps where the branch in its name is the greater one,
// as in that toolkit before it read notes.
//
// On a Jetson whose driver has no version (Orin, nvgpu), the CUDA versions alone
// decide, which is that toolkit's rule there (1271, 1784). Whether a package is for
// that board its files do not tell: Orin needs packages of its own (compat_orin), and
// from Thor on the rule is the general one.
func Compat(p, host CUDALibrary) CompatVerdict {
	both := fmt.Sprintf("it is %s, the host's driver %s", p, host)
	mismatch := both + ": CUDA will fail with error 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)"
	branch := 0
	if n := versionNumbers(host.Version); n != nil {
		branch = n[0]
	}
	switch {
	case p.Note != nil && host.CUDA != "":
		switch order := compareVersions(p.Note.CUDA, host.CUDA); {
		case order > 0 && branch == 0 && host.Tegra:
			return CompatVerdict{Helps, both + "; on Jetson the CUDA versions decide, and nothing in its files says whether it is for this board", compatByNote}
		case order > 0 && branch == 0:
			return CompatVerdict{Helps, both + "; the branch of the host's driver is not known", compatByNote}
		case order > 0 && len(p.Note.Drivers) > 0 && !slices.Contains(p.Note.Drivers, branch):
			return CompatVerdict{Harms, fmt.Sprintf("%s, and it is not made for drivers %d", both, branch), compatByNote}
		case order > 0:
			return CompatVerdict{Helps, both, compatByNote}
		case order < 0:
			return CompatVerdict{Harms, mismatch, compatByNote}
		case p.Version != "" && host.Version != "" && compareVersions(p.Version, host.Version) < 0:
			return CompatVerdict{Harms, mismatch, compatByNote + ", " + compatByVersion}
		}
		return CompatVerdict{NotNeeded, both, compatByNote}
	case p.Version != "" && host.Version != "":
		switch order := compareVersions(p.Version, host.Version); {
		case order < 0:
			return CompatVerdict{Harms, mismatch, compatByVersion}
		case versionNumbers(p.Version)[0] == branch:
			return CompatVerdict{NotNeeded, both, compatByVersion}
		}
		return CompatVerdict{Helps, both + "; no note says for which drivers it is", compatByVersion}
	case p.CUDA != "" && host.CUDA != "":
		switch order := compareVersions(p.CUDA, host.CUDA); {
		case order > 0:
			return CompatVerdict{Helps, both + "; no note says for which drivers it is", compatByCUDA}
		case order < 0:
			return CompatVerdict{Harms, mismatch, compatByCUDA}
		}
		return CompatVerdict{NotNeeded, both, compatByCUDA}
	}
	return CompatVerdict{Unknown, both, "neither a note nor version numbers"}
}

// compareVersions returns -1, 0 or 1 as a is the older, the same or the newer version, number by number.
func compareVersions(a, b string) int {
	x, y := versionNumbers(a), versionNumbers(b)
	for len(x) < len(y) {
		x = append(x, 0)
	}
	for len(y) < len(x) {
		y = append(y, 0)
	}
	return slices.Compare(x, y)
}

// versionNumbers returns the numbers of a version, nil for what is none.
func versionNumbers(v string) []int {
	var numbers []int
	for _, part := range strings.Split(v, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}
