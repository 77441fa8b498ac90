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
	Real    bool // machine code for it
	Virtual bool // PTX, from which drivers make code for later GPUs
}

// String returns the target as nixpkgs and PyTorch write it: 9.0, 9.0+PTX; PTX alone as nvcc does, compute_90.
func (t Target) String() string {
	switch {
	case !t.Real:
		return "compute_" + t.Digits()
	case t.Virtual:
		return t.Arch.String() + "+PTX"
	}
	return t.Arch.String()
}

// ParseTargets reads a list of architectures in the notation of nixpkgs (9.0,8.6+PTX), of
// PyTorch (TORCH_CUDA_ARCH_LIST: "8.0 8.6+PTX;9.0a"), of CMake (CMAKE_CUDA_ARCHITECTURES:
// 90a-real;86-virtual; 86 stands for both) or of nvcc (sm_90a, compute_90). One that occurs
// twice is returned once.
func ParseTargets(list string) ([]Target, error) {
	words := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(",; \t\n", r) })
	if len(words) == 0 {
		return nil, fmt.Errorf("%q names no GPU architecture", list)
	}
	var all []Target
	for _, word := range words {
		t, ok := parseTarget(word)
		if !ok {
			return nil, fmt.Errorf("%q is not a GPU architecture: write 9.0, 8.6+PTX, 9.0a, sm_90a, compute_90 or 90-real", word)
		}
		if i := slices.IndexFunc(all, func(u Target) bool { return u.Arch == t.Arch }); i >= 0 {
			all[i].Real, all[i].Virtual = all[i].Real || t.Real, all[i].Virtual || t.Virtual
			continue
		}
		all = append(all, t)
	}
	return all, nil
}

func parseTarget(word string) (t Target, ok bool) {
	number := word
	switch {
	case strings.HasPrefix(word, "sm_"):
		number, t.Real = strings.TrimPrefix(word, "sm_"), true
	case strings.HasPrefix(word, "compute_"):
		number, t.Virtual = strings.TrimPrefix(word, "compute_"), true
	case strings.HasSuffix(word, "-real"):
		number, t.Real = strings.TrimSuffix(word, "-real"), true
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
