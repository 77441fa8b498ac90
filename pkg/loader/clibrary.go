package loader

import (
	"slices"
	"strings"
)

// glibcLibraries are the libraries that come with a glibc, lie where its loader looks, and are one with it by private
// interfaces: their sonames (shlib-versions of its source; on some machines, as Alpha, with ".1" behind).
var glibcLibraries = []string{
	"libc.so.6", "libm.so.6", "libmvec.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1",
	"libresolv.so.2",
	"libnsl.so.1", "libanl.so.1", "libBrokenLocale.so.1", "libthread_db.so.1", "libc_malloc_debug.so.0",
	"libnss_files.so.2", "libnss_dns.so.2", "libnss_compat.so.2", "libnss_db.so.2", "libnss_hesiod.so.2",
	"libmemusage.so", "libpcprofile.so", "libSegFault.so",
}

// OfGLibc reports whether a soname is that of a library that comes with glibc. Its loader has a name of its own.
func OfGLibc(soname string) bool {
	return slices.Contains(glibcLibraries, soname) || slices.Contains(glibcLibraries, strings.TrimSuffix(soname, ".1"))
}

// HardwareDirectory reports whether a directory of a name, below one that is searched, is for better processors: there
// glibc's loader looks first.
func HardwareDirectory(name string) bool {
	_, x86 := hwcapBit[name]
	return x86 || slices.Contains([]string{"glibc-hwcaps", "tls", "aarch64"}, name)
}
