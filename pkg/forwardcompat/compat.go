// Package forwardcompat knows what CUDA forward compatibility packages are for: whether the newer libcuda.so.1 of one
// helps beside a host's driver, and which errors CUDA answers where it does not.
package forwardcompat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Note is what NVIDIA writes into a libcuda.so.1 about itself: the section
// .note.cuda.fwd_compatibility, owner "NVIDIA Corporation", type 0, a JSON document.
// Libraries of driver 580 have it; older ones and stubs have none.
type Note struct {
	Format int `json:"format"`
	// CUDA is the CUDA version of the library: "13.0".
	CUDA string `json:"CUDA version"`
	// Drivers are the driver branches beside which it can stand in for the driver's own.
	Drivers []int `json:"driver"`
	// "device" is not documented. It says nothing of architectures: 13.1's, which dropped three, has 13.0's numbers.
}

// NoteOwner and NoteType identify the note.
const (
	NoteOwner = "NVIDIA Corporation"
	NoteType  = 0
)

// parseNote reads a note's descriptor. CUDA 13.2's compat package for Orin
// has one that is not JSON (NVIDIA/nvidia-container-toolkit 1804): that is an error.
func parseNote(desc []byte) (Note, error) {
	var n Note
	if err := json.Unmarshal(bytes.TrimRight(desc, "\x00 \n"), &n); err != nil {
		return Note{}, fmt.Errorf("the note .note.cuda.fwd_compatibility is not JSON: %w", err)
	}
	if n.CUDA == "" || versionNumbers(n.CUDA) == nil {
		return Note{}, errors.New("the note .note.cuda.fwd_compatibility names no CUDA version")
	}
	return n, nil
}

// FirstNote returns the first of some descriptors that is such a note, nil where none is.
func FirstNote(descriptors [][]byte) *Note {
	for _, desc := range descriptors {
		if n, err := parseNote(desc); err == nil {
			return &n
		}
	}
	return nil
}

func (n Note) String() string {
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
	Note *Note
	// Tegra says, of the host's driver, that it is a Jetson's without a driver version (nvgpu).
	Tegra bool
	// L4T is the release of a Jetson's BSP, 35 for R35 (JetPack 5); 0 where it is not known.
	L4T int
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
	MayHelp   Help = "helps, if this GPU may (not known)"
	MayOnL4T  Help = "helps, if this board may (not known)"
	Cannot    Help = "cannot" // for the sake of the GPU, or of the board's BSP
	NotNeeded Help = "not needed"
	Harms     Help = "harms"
	Unknown   Help = "unknown"
)

// Use reports whether a program is better off with the package than without.
func (h Help) Use() bool { return h == Helps || h == MayHelp || h == MayOnL4T }

// Verdict is the answer, with the reason in words and where the rule is from.
type Verdict struct {
	Help   Help
	Reason string
	Source string
	// Answer is the error that CUDA answers, one of Errors; 0: none.
	Answer int
}

// GPU is what is known of a GPU of the host's.
type GPU struct {
	Capability uint32 // of compute, 90 for 9.0; 0 where it is not known
	Name       string // as the driver calls it, "NVIDIA H100 80GB HBM3"; "" where it does not tell
}

func (g GPU) String() string {
	capability := fmt.Sprintf("compute capability %d.%d", g.Capability/10, g.Capability%10)
	switch {
	case g.Capability == 0:
		return g.Name
	case g.Name == "":
		return "of " + capability
	}
	return g.Name + " (" + capability + ")"
}

// lastBranch returns the last driver branch that knows a GPU, 0 where there is a newer one with each release or this is
// not known. Source: NVIDIA's "CUDA Toolkit, Driver, and Architecture Matrix".
func (g GPU) lastBranch() int {
	switch {
	case g.Capability == 0:
		return 0
	case g.Capability < 50: // Kepler
		return 470
	case g.Capability < 75: // Maxwell, Pascal, Volta
		return 580
	}
	return 0
}

// dataCentre are the products, but Tesla's, that NVIDIA's page "CUDA GPU Compute Capability" and that of legacy GPUs
// have in the column Data Center, and whose chips are in others too.
var dataCentre = []string{"A2", "A10", "A16", "A30", "A40", "A100", "L4", "L40", "L40S", "T4", "V100"}

// mayUseCompat reports whether forward compatibility is for a GPU, or that this is not known: it is for those of data
// centres, "select NGC-Ready server SKUs of RTX cards" and Jetson (NVIDIA's "CUDA Compatibility", "Forward
// Compatibility"). The PCI class tells nothing: laptops' GPUs are 3D controllers as well.
func (g GPU) mayUseCompat() (may, known bool) {
	switch g.Capability {
	case 90, 100, 103: // GH100, GB100, GB110, which are in nothing else
		return true, true
	case 32, 53, 62, 72, 87, 101, 110: // Jetson
		return true, true
	}
	name := strings.TrimPrefix(g.Name, "NVIDIA ")
	product, _, _ := strings.Cut(strings.ReplaceAll(name, "-", " "), " ")
	switch {
	case strings.Contains(name, "GeForce"), product == "TITAN":
		return false, true
	case product == "Tesla", strings.HasSuffix(name, "Server Edition"), slices.Contains(dataCentre, product):
		return true, true
	}
	return true, false
}

// on returns a verdict of [Helps] as it is on these GPUs. It cannot help where none of them may use it.
func (v Verdict) on(gpus []GPU, p CUDALibrary) Verdict {
	cannot, failing, sure := Verdict{}, 0, len(gpus) > 0
	for _, g := range gpus {
		may, known := g.mayUseCompat()
		last, version := g.lastBranch(), versionNumbers(p.Version)
		switch {
		case last != 0 && version != nil && version[0] > last:
			cannot = Verdict{Cannot, fmt.Sprintf("this GPU is %s, and driver %d was the last for it; %s", g, last, v.Reason),
				compatMatrix, 100}
			failing++
		case !may:
			cannot = Verdict{Cannot, fmt.Sprintf("this GPU is %s, and compat packages are for data-centre GPUs; %s", g,
				v.Reason), compatByGPU, 804}
			failing++
		}
		sure = sure && known
	}
	switch {
	case failing > 0 && failing == len(gpus):
		return cannot
	case failing > 0 || !sure:
		v.Help = MayHelp
	}
	return v
}

// l4t are the releases of Jetson's BSP of which it is known up to which CUDA version they take compat packages, "" for
// none. Source: NVIDIA's "CUDA for Tegra", "CUDA Upgrade Package", whose table begins with JetPack 5.
var l4t = []struct {
	release       int
	jetpack, most string
}{
	{32, "JetPack 4", ""},
	{35, "JetPack 5", "12.2"},
}

// onL4T returns a verdict of [Helps] as it is on a Jetson.
func (v Verdict) onL4T(p, host CUDALibrary) Verdict {
	for _, r := range l4t {
		switch board := fmt.Sprintf("this board has R%d (%s)", r.release, r.jetpack); {
		case host.L4T != r.release:
		case r.most == "":
			return Verdict{Help: Cannot, Reason: board + ", which takes no compat package; " + v.Reason, Source: compatL4T}
		case compareVersions(p.CUDA, r.most) > 0:
			return Verdict{Help: Cannot, Reason: board + ", which takes compat packages up to CUDA " + r.most + "; " + v.Reason,
				Source: compatL4T}
		default:
			v.Source += ", " + compatL4T
			return v
		}
	}
	v.Help = MayOnL4T
	return v
}

// The sources of the rules.
const (
	compatL4T       = "NVIDIA's CUDA for Tegra, CUDA Upgrade Package"
	compatByNote    = "note .note.cuda.fwd_compatibility"
	compatByVersion = "version numbers in the files' names"
	compatByCUDA    = "CUDA versions named in the libraries"
	compatByGPU     = "NVIDIA's CUDA Compatibility, Forward Compatibility"
	compatMatrix    = "NVIDIA's CUDA Toolkit, Driver, and Architecture Matrix"
)

// Judge reports whether a compat package's libcuda.so.1 helps on a host with these GPUs, none where they are not known.
func Judge(p, host CUDALibrary, gpus []GPU) Verdict {
	v := compatBeside(p, host)
	switch {
	case v.Help != Helps:
	case host.Tegra:
		return v.onL4T(p, host)
	default:
		return v.on(gpus, p)
	}
	return v
}

// compatBeside reports whether it helps beside the host's driver, as far as that decides.
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
func compatBeside(p, host CUDALibrary) Verdict {
	both := fmt.Sprintf("it is %s, the host's driver %s", p, host)
	mismatch := both + ": CUDA will fail with error 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)"
	branch := 0
	if n := versionNumbers(host.Version); n != nil {
		branch = n[0]
	}
	harm := func(reason, source string) Verdict { return Verdict{Harms, reason, source, 803} }
	// order compares the versions that decide: of both CUDAs, or of both drivers.
	order, source, more := 0, compatByCUDA, "; no note says for which drivers it is"
	switch {
	case p.Note != nil && host.CUDA != "":
		order, source, more = compareVersions(p.Note.CUDA, host.CUDA), compatByNote, ""
		switch {
		case order > 0 && branch == 0 && host.Tegra:
			more = "; on Jetson the CUDA versions decide, and nothing in its files says whether it is for this board"
		case order > 0 && branch == 0:
			more = "; the branch of the host's driver is not known"
		case order > 0 && len(p.Note.Drivers) > 0 && !slices.Contains(p.Note.Drivers, branch):
			return harm(fmt.Sprintf("%s, and it is not made for drivers %d", both, branch), source)
		case order == 0 && p.Version != "" && host.Version != "" && compareVersions(p.Version, host.Version) < 0:
			return harm(mismatch, compatByNote+", "+compatByVersion)
		}
	case p.Version != "" && host.Version != "":
		order, source = compareVersions(p.Version, host.Version), compatByVersion
		if order > 0 && versionNumbers(p.Version)[0] == branch {
			order = 0
		}
	case p.CUDA != "" && host.CUDA != "":
		order = compareVersions(p.CUDA, host.CUDA)
	default:
		return Verdict{Help: Unknown, Reason: both, Source: "neither a note nor version numbers"}
	}
	switch {
	case order > 0:
		return Verdict{Help: Helps, Reason: both + more, Source: source}
	case order < 0:
		return harm(mismatch, source)
	}
	return Verdict{Help: NotNeeded, Reason: both, Source: source}
}

// Newer reports whether a version is newer than another one.
func Newer(a, b string) bool { return compareVersions(a, b) > 0 }

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
