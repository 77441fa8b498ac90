package loader

import "slices"

// HardwareDirectory reports whether a directory of a name, below one that is searched, is for better processors: there
// glibc's loader looks first.
func HardwareDirectory(name string) bool {
	_, x86 := hwcapBit[name]
	return x86 || slices.Contains([]string{"glibc-hwcaps", "tls", "aarch64"}, name)
}
