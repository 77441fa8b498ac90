package gpucode

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Capability is the compute capability of a GPU, ten times the number that NVIDIA writes: 90
// for 9.0, 120 for 12.0.
type Capability uint32

// major returns the number before the dot.
func (c Capability) major() uint32 { return uint32(c) / 10 }

// minor returns the number behind the dot.
func (c Capability) minor() uint32 { return uint32(c) % 10 }

func (c Capability) String() string { return fmt.Sprintf("%d.%d", c.major(), c.minor()) }

// Variant is the letter behind an architecture's number, or 0.
type Variant byte

// The variants that use features that not every later GPU has.
const (
	Baseline Variant = 0
	Specific Variant = 'a' // of this compute capability alone
	Family   Variant = 'f' // of the GPUs of its family
)

// Arch is what a piece of GPU code was made for: 9.0a is {90, Specific}.
type Arch struct {
	Capability
	Variant Variant
}

// String returns the architecture as nixpkgs writes it, 9.0a.
func (a Arch) String() string { return a.Capability.String() + a.letter() }

// digits returns the architecture as nvcc writes it behind sm_ and compute_, 90a.
func (a Arch) digits() string { return fmt.Sprint(uint32(a.Capability)) + a.letter() }

func (a Arch) letter() string {
	if a.Variant == Baseline {
		return ""
	}
	return string(a.Variant)
}

// Compare orders architectures by number, those without a letter first.
func (a Arch) Compare(b Arch) int {
	return cmp.Or(cmp.Compare(a.Capability, b.Capability), cmp.Compare(a.Variant, b.Variant))
}

// The rules are those of:
//   - the CUDA C++ Programming Guide, "Binary Compatibility": a cubin for X.y runs on X.z with
//     z ≥ y, "supported only for the desktop. It is not supported for Tegra. Also, the binary
//     compatibility between desktop and Tegra is not supported";
//   - the CUDA Programming Guide 13.4, 5.1.2.3 "Feature Set Compiler Targets": an a target is
//     "only compatible with devices of Compute Capability 10.0 and no others"; table 28: 100f
//     runs on 10.0, 10.3, 10.7; 103f on 10.3, 10.7; 120f on 12.0, 12.1;
//   - the nvcc manual, "--gpu-name" of ptxas: PTX for sm_XY compiles for all MN ≥ XY, for sm_XYf
//     for XZ with Z ≥ Y of the same family, for sm_XYa for sm_XYa only;
//   - the PTX ISA 9.0 release notes: sm_101 is called sm_110 from CUDA 13 on.
//
// PyTorch's table (torch/cuda/__init__.py, DEVICE_REQUIREMENT) says the same.

// isTegra reports whether a compute capability is that of a system on a chip: Jetson and
// DRIVE, by NVIDIA's "CUDA GPU Compute Capability" and its page of legacy GPUs.
func (c Capability) isTegra() bool {
	switch c {
	case 32, 53, 62, 72, 87, 101, 110: // TK1, Nano, TX2, Xavier, Orin, Thor by its old and its new number
		return true
	}
	return false
}

// known are the compute capabilities that NVIDIA has named: nvcc's manuals ("Virtual Architecture Feature List") of
// CUDA 8 to 13.4, and table 28 of the CUDA Programming Guide 13.4.
var known = [...]Capability{
	20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 107, 110, 120, 121,
}

// Known reports whether NVIDIA had named a compute capability when this was written. The rules hold for others too.
func (c Capability) Known() bool { return slices.Contains(known[:], c) }

// Near returns which known numbers may have been meant by one that is none: at most three, at most 1.0 away, whose
// digits are in another order or of which one differs; else the nearest.
func (c Capability) Near() (near []Capability) {
	away := func(k Capability) int { return max(int(c)-int(k), int(k)-int(c)) }
	nearest := func(a, b Capability) int { return cmp.Compare(away(a), away(b)) }
	for _, k := range known {
		if away(k) <= 10 && mistyped(fmt.Sprint(uint32(c)), fmt.Sprint(uint32(k))) {
			near = append(near, k)
		}
	}
	if near == nil {
		near = []Capability{slices.MinFunc(known[:], nearest)}
	}
	slices.SortStableFunc(near, nearest)
	near = near[:min(len(near), 3)]
	slices.Sort(near)
	return near
}

// mistyped reports whether two numbers have the same digits in another order, or all but one in the same.
func mistyped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	differ := 0
	for i := range a {
		if a[i] != b[i] {
			differ++
		}
	}
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return differ == 1 || string(x) == string(y)
}

// sameGPU reports whether two numbers are of the same hardware.
func sameGPU(a, b Capability) bool {
	return a == b || a == 101 && b == 110 || a == 110 && b == 101
}

// MayRunOn reports whether a GPU could take a cubin: whether it runs, or is only not promised
// to. On Jetson Orin (8.7), cubins for 8.0 have been seen to run and to be refused.
func (a Arch) MayRunOn(g Capability) bool {
	if sameGPU(a.Capability, g) {
		return true
	}
	return a.Variant != Specific && a.major() == g.major() && a.minor() <= g.minor()
}

// RunsOn reports whether NVIDIA promises that a cubin runs on a GPU. A driver that calls Thor
// 10.1 is older than the number 11.0.
func (a Arch) RunsOn(g Capability) bool {
	if a.Capability == g || a.Capability == 101 && g == 110 {
		return true
	}
	return a.MayRunOn(g) && !a.isTegra() && !g.isTegra()
}

// CompilesFor reports whether PTX, or LTO-IR, can be compiled for a GPU.
func (a Arch) CompilesFor(g Capability) bool {
	if a.Variant == Baseline {
		return a.Capability <= g
	}
	return a.RunsOn(g)
}

// Version is a version of the PTX ISA, or of CUDA. The zero value is no version.
type Version struct{ Major, Minor uint16 }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Compare orders versions.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor))
}

// ParseVersion reads a version: 13.0.
func ParseVersion(s string) (Version, error) {
	major, minor, _ := strings.Cut(s, ".")
	a, err := strconv.ParseUint(major, 10, 16)
	b, err2 := strconv.ParseUint(minor, 10, 16)
	if err != nil || err2 != nil {
		return Version{}, fmt.Errorf("%q is not a version, such as 13.0", s)
	}
	return Version{uint16(a), uint16(b)}, nil
}

// isaOf lists the PTX ISA that each CUDA version brings (PTX ISA 9.4, "Release Notes", table
// "PTX Release History"), the newest first. 12.6 has that of 12.5.
var isaOf = [...]struct{ cuda, isa Version }{
	{Version{13, 4}, Version{9, 4}}, {Version{13, 3}, Version{9, 3}}, {Version{13, 2}, Version{9, 2}},
	{Version{13, 1}, Version{9, 1}}, {Version{13, 0}, Version{9, 0}}, {Version{12, 9}, Version{8, 8}},
	{Version{12, 8}, Version{8, 7}}, {Version{12, 7}, Version{8, 6}}, {Version{12, 5}, Version{8, 5}},
	{Version{12, 4}, Version{8, 4}}, {Version{12, 3}, Version{8, 3}}, {Version{12, 2}, Version{8, 2}},
	{Version{12, 1}, Version{8, 1}}, {Version{12, 0}, Version{8, 0}}, {Version{11, 8}, Version{7, 8}},
	{Version{11, 7}, Version{7, 7}}, {Version{11, 6}, Version{7, 6}}, {Version{11, 5}, Version{7, 5}},
	{Version{11, 4}, Version{7, 4}}, {Version{11, 3}, Version{7, 3}}, {Version{11, 2}, Version{7, 2}},
	{Version{11, 1}, Version{7, 1}}, {Version{11, 0}, Version{7, 0}}, {Version{10, 2}, Version{6, 5}},
	{Version{10, 1}, Version{6, 4}}, {Version{10, 0}, Version{6, 3}}, {Version{9, 2}, Version{6, 2}},
	{Version{9, 1}, Version{6, 1}}, {Version{9, 0}, Version{6, 0}}, {Version{8, 0}, Version{5, 0}},
	{Version{7, 5}, Version{4, 3}}, {Version{7, 0}, Version{4, 2}}, {Version{6, 5}, Version{4, 1}},
	{Version{6, 0}, Version{4, 0}}, {Version{5, 5}, Version{3, 2}}, {Version{5, 0}, Version{3, 1}},
}

// compiles reports whether a driver that supports a CUDA version, as cuDriverGetVersion and
// nvidia-smi name it, can compile PTX of an ISA. A version that is not known, or newer than
// the table, says yes.
func compiles(driver, isa Version) bool {
	if driver == (Version{}) || driver.Compare(isaOf[0].cuda) > 0 {
		return true
	}
	for _, r := range isaOf {
		if driver.Compare(r.cuda) >= 0 {
			return isa.Compare(r.isa) <= 0
		}
	}
	return false
}
