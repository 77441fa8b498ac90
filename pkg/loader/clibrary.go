package loader

import "slices"

// HardwareDirectory reports whether a directory's name says that it is for better processors. glibc's loader looks
// there first, below each directory that it searches.
func HardwareDirectory(name string) bool {
	_, x86 := hwcapBit[name]
	return x86 || slices.Contains([]string{"glibc-hwcaps", "tls", "aarch64"}, name)
}
