package scripts

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Burnt is a linker's flag that names a directory of some host's driver or CUDA, or has stubs searched at run time:
// -L/run/opengl-driver/lib, -Wl,-rpath,/usr/local/cuda/lib64.
const Burnt Kind = "burnt"

// buildFiles are what tells, beside scripts, others how to link: the endings of their names, or whole names.
var buildFiles = []string{".sh", ".bash", ".pc", ".la", ".cmake", ".mk", ".mak", ".am", ".ninja", ".bzl", ".bazel",
	".gn", ".gni", ".toml", ".cfg", ".rsp", ".opt", ".params",
	"CMakeLists.txt", "CMakeCache.txt", "flags.make", "link.txt", "Makefile", "makefile", "GNUmakefile", "BUILD",
	"configure", "meson.build", "build.rs", "build.gradle", "-config"}

// builds reports whether a file that is in no language of [syntax.LanguageOf] is a script, or tells how to build something.
func builds(name string, head []byte) bool {
	return bytes.HasPrefix(head, []byte("#!")) || slices.ContainsFunc(buildFiles,
		func(e string) bool { return strings.HasSuffix(name, e) })
}

// hostDirs are how directories begin that hosts have for the driver and CUDA: the driver link, where NVIDIA's
// installers and distributions put CUDA, and the driver's directories of Debian and Gentoo.
var hostDirs = [][]byte{[]byte("/run/opengl-driver"), []byte("/usr/local/cuda"), []byte("/opt/cuda"),
	[]byte("/usr/lib/cuda"), []byte("/usr/lib/nvidia"), []byte("/usr/lib64/nvidia"), []byte("/stubs")}

// mayBurn reports whether a text may have any such flag: a quick look.
func mayBurn(text []byte) bool {
	return slices.ContainsFunc(hostDirs, func(h []byte) bool { return bytes.Contains(text, h) })
}

// linkerFlag is a flag of ld(1), by itself or through a compiler driver, and the directory behind it.
var linkerFlag = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?:^|[\s"'=(\[,;])` +
			`((?:-Wl,|-Xlinker[\s,]+)?(?:-L|-R|--?rpath(?:-link)?)(?:=|,-Wl,|,|\s+-Wl,|\s+-Xlinker\s+|[\s"',]+)?["']?)` +
			`(/[^\s"',:;)\]\\]+)`)
})

// Flags returns the places in a text where such a flag stands, in its order; comments of shells and make are left out.
func Flags(text string) (places []Place) {
	line, at := 1, 0
	for _, m := range linkerFlag().FindAllStringSubmatchIndex(text, -1) {
		flag, dir := text[m[2]:m[3]], path.Clean(text[m[4]:m[5]])
		runTime := !strings.Contains(flag, "L") && !strings.Contains(flag, "link") ||
			strings.Contains(flag, "rpath") && !strings.Contains(flag, "rpath-link")
		if !ofHost(dir) && !(runTime && slices.Contains(strings.Split(dir, "/"), "stubs")) {
			continue
		}
		line += strings.Count(text[at:m[4]], "\n")
		at = m[4]
		from, to := lineAround(text, m[2], m[5], maxText)
		if strings.HasPrefix(strings.TrimLeft(text[from:to], " \t"), "#") {
			continue
		}
		if places = append(places, Place{Kind: Burnt, Directory: dir, Line: line, Start: m[2], End: m[5],
			Text: strings.ToValidUTF8(strings.TrimSpace(text[from:to]), "")}); len(places) == maxPlaces {
			break
		}
	}
	return places
}

// ofHost reports whether a directory is one of those of [hostDirs].
func ofHost(dir string) bool {
	for _, h := range hostDirs[:len(hostDirs)-1] {
		if rest, ok := strings.CutPrefix(dir, string(h)); ok && (rest == "" || strings.IndexByte("/-.", rest[0]) >= 0) {
			return true
		}
	}
	return false
}
