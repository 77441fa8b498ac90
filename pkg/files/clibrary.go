package files

import (
	"debug/elf"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
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

// MuslOnly reports whether a name is of musl's C library, as files that were built against it
// need it, and no glibc's: "libc.so" is musl's soname where a distribution sets no other.
func MuslOnly(name string) bool {
	return name == "libc.so" || strings.HasPrefix(name, "libc.musl-") || strings.HasPrefix(name, "ld-musl-")
}

// OfCLibrary reports whether a name is one of a C library's own, its loader's included.
func OfCLibrary(name string) bool {
	return OfGLibc(name) || MuslOnly(name) || GLibCLoader(name)
}

// GLibCLoader reports whether a name is of a loader of glibc's.
func GLibCLoader(name string) bool {
	return strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld64.so.") || name == "ld.so.1"
}

// NewTag returns the tag of a run path that is made by hand in a file without one. A library inherits the DT_RPATH of
// what loads it, and a DT_RUNPATH of its own ends that (elf/dl-load.c of glibc): one that asks for more than the C
// library's own files gets DT_RPATH. A program inherits nothing; one with a soname is a library, too, as Qt's are.
func NewTag(im *elfimage.Image) (elf.DynTag, error) {
	var asks []string
	for _, tag := range []elf.DynTag{elf.DT_NEEDED, elf.DT_AUXILIARY, elf.DT_FILTER} {
		names, err := im.DynStrings(tag)
		if err != nil {
			return elf.DT_NULL, err
		}
		asks = append(asks, names...)
	}
	_, soname := im.Dyn(elf.DT_SONAME)
	return newTag(im.Prog(elf.PT_INTERP) != nil && !soname, asks, func() *elfimage.Linkage {
		l, _, err := im.Linkage()
		if err != nil {
			return nil
		}
		return l
	}), nil
}

// NewTag is [NewTag] of a file.
func (f *File) NewTag() elf.DynTag {
	var asks []string
	for _, a := range f.Asks {
		asks = append(asks, a.Name)
	}
	return newTag(f.Interp != "" && f.Soname == "", asks, func() *elfimage.Linkage { l, _ := f.Linkage(); return l })
}

// newTag is NewTag; linkage returns nil where the symbols cannot be read.
func newTag(program bool, asks []string, linkage func() *elfimage.Linkage) elf.DynTag {
	if program {
		return elf.DT_RUNPATH
	}
	if slices.ContainsFunc(asks, func(name string) bool { return !OfCLibrary(path.Base(name)) }) {
		return elf.DT_RPATH
	}
	l := linkage()
	if l == nil || slices.ContainsFunc(l.References,
		func(r elfimage.Reference) bool { return r.Name == "dlopen" || r.Name == "dlmopen" }) {
		return elf.DT_RPATH
	}
	return elf.DT_RUNPATH
}
