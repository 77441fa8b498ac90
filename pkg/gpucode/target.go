package gpucode

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Target is an architecture that code was asked for.
type Target struct {
	Arch
	AMD     AMD  // of AMD's, which has no Arch; else ""
	Real    bool // machine code for it
	Virtual bool // PTX, from which drivers make code for later GPUs
	Machine bool // machine code by that name, 90-real or sm_90: PTX does not stand for it
}

// String returns the target as nixpkgs and PyTorch write it: 9.0, 9.0+PTX; PTX alone as nvcc does, compute_90.
func (t Target) String() string {
	switch {
	case t.AMD != "":
		return string(t.AMD)
	case !t.Real:
		return "compute_" + t.digits()
	case t.Virtual:
		return t.Arch.String() + "+PTX"
	}
	return t.Arch.String()
}

// ThisMachine stands in a list for the GPUs of this machine, as for nvcc and CMake.
const ThisMachine = "native"

// ParseList reads a list of GPUs in the notation of nixpkgs (9.0,8.6+PTX), of PyTorch (TORCH_CUDA_ARCH_LIST:
// "8.0 8.6+PTX;9.0a"), of CMake (CMAKE_CUDA_ARCHITECTURES: 90a-real;86-virtual; 86 stands for both) or of nvcc (sm_90a,
// compute_90), or by their names (H100, RTX 4090); AMD's by LLVM's (gfx1100, gfx90a:xnack+). One that occurs twice is
// returned once. native says that [ThisMachine] is among them.
func ParseList(list string) (all []Target, native bool, err error) {
	for _, item := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ';' }) {
		for words := strings.Fields(item); len(words) > 0; {
			n := 1
			t, ok := parseTarget(words[0])
			if !ok && words[0] != ThisMachine {
				t, n = productOf(words)
				ok = n > 0
			}
			switch {
			case ok:
				all = Merged(all, []Target{t})
			case words[0] == ThisMachine:
				native = true
			default:
				return nil, false,
					fmt.Errorf(
						"%q is not a GPU architecture, such as 9.0, 8.6+PTX, 9.0a, sm_90a, compute_90, 90-real, gfx1100 or H100",
						strings.Join(words, " "))
			}
			words = words[n:]
		}
	}
	if len(all) == 0 && !native {
		return nil, false, fmt.Errorf("%q names no GPU architecture", list)
	}
	return all, native, nil
}

// Merged returns targets with more behind them, each architecture once.
func Merged(all, more []Target) []Target {
	for _, t := range more {
		if i := slices.IndexFunc(all, func(u Target) bool { return u.Arch == t.Arch && u.AMD == t.AMD }); i >= 0 {
			u := &all[i]
			u.Real, u.Virtual, u.Machine = u.Real || t.Real, u.Virtual || t.Virtual, u.Machine || t.Machine
			continue
		}
		all = append(all, t)
	}
	return all
}

// productOf returns the GPU that the first n words name, as many as do; 0 for none.
func productOf(words []string) (t Target, n int) {
	for n = min(len(words), 8); n > 0; n-- {
		if c, ok := product(words[:n]); ok {
			return Target{Arch: Arch{Capability: c}, Real: true}, n
		}
	}
	return t, 0
}

// Known reports whether the target is in a table: of AMD's there is none.
func (t Target) Known() bool { return t.AMD != "" || t.Capability.Known() }

// SplitTargets returns those of NVIDIA's GPUs and those of AMD's.
func SplitTargets(all []Target) (nvidia, amd []Target) {
	for _, t := range all {
		if t.AMD != "" {
			amd = append(amd, t)
		} else {
			nvidia = append(nvidia, t)
		}
	}
	return nvidia, amd
}

// ParseTargets is [ParseList] of NVIDIA's alone, without [ThisMachine].
func ParseTargets(list string) ([]Target, error) {
	all, native, err := ParseList(list)
	if native {
		return nil, fmt.Errorf("%q is not a GPU architecture", ThisMachine)
	}
	if _, amd := SplitTargets(all); amd != nil {
		return nil, fmt.Errorf("%q is a GPU of AMD's", amd[0])
	}
	return all, err
}

func parseTarget(word string) (t Target, ok bool) {
	if t.AMD, ok = ParseAMD(word); ok {
		t.Real = true
		return t, true
	}
	number := word
	switch {
	case strings.HasPrefix(word, "sm_"):
		number, t.Real, t.Machine = strings.TrimPrefix(word, "sm_"), true, true
	case strings.HasPrefix(word, "compute_"):
		number, t.Virtual = strings.TrimPrefix(word, "compute_"), true
	case strings.HasSuffix(word, "-real"):
		number, t.Real, t.Machine = strings.TrimSuffix(word, "-real"), true, true
	case strings.HasSuffix(word, "-virtual"):
		number, t.Virtual = strings.TrimSuffix(word, "-virtual"), true
	case strings.Contains(word, "."):
		number, t.Virtual = strings.CutSuffix(word, "+PTX")
		major, minor, _ := strings.Cut(number, ".")
		if number, t.Real = major+minor, true; len(strings.TrimRight(minor, "af")) != 1 {
			return t, false
		}
	default:
		t.Real, t.Virtual = true, true
	}
	if n := len(number); n > 0 && (number[n-1] == byte(Specific) || number[n-1] == byte(Family)) {
		number, t.Variant = number[:n-1], Variant(number[n-1])
	}
	n, err := strconv.ParseUint(number, 10, 10)
	if err != nil || n < 20 || number[0] == '0' { // 12 is not 12.0
		return t, false
	}
	t.Capability = Capability(n)
	return t, true
}
