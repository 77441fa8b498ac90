package loader

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// Kind is a family of dynamic loaders.
type Kind string

// The loaders whose search is known.
const (
	GLibc Kind = "glibc"
	Musl  Kind = "musl"
)

// Version is the N of a version 2.N of the GNU C Library.
type Version int

func (v Version) String() string { return "2." + strconv.Itoa(int(v)) }

// Newest is the assumed version of a loader whose version is not known.
const Newest Version = 99

// Interpreter is a dynamic loader and what was compiled into it.
type Interpreter struct {
	Path    string // as PT_INTERP names it, or guessed without one; "" if not known
	Becomes string // the loader that nix-ld at Path starts; "" if Path is the loader itself
	Kind    Kind
	Found   bool   // its file was there to be read
	Why     string // why no program starts with it: "does not exist"; "" if one does
	Store   bool   // it is in a Nix store: nixpkgs' patched glibc

	Version Version  // of glibc; loaders before 2.33 do not tell, then at most it: see besideVersion
	dirs    []string // default directories, each with a slash at its end
	cache   string   // path of ld.so.cache, "" for none
	// ownCache: each program in a store has a cache of its own, which comes before DT_RUNPATH (Guix's glibc-dl-cache.patch).
	ownCache bool
	preload  string // path of the list of libraries to preload, "" for none
	lib      string // the value of $LIB
	Soname   string
	// ReadsNote: it reads resolution notes (nixpkgs' ldcache.patch).
	ReadsNote bool
	File      *files.File
	guessed   bool // no file names it
	hwcaps    bool // it looks into glibc-hwcaps
	debian    bool // it passes over files of another machine and byte order, as Debian's do: see ABI.verify
}

// Describe names the loader in a few words.
func (in *Interpreter) Describe() string {
	switch {
	case in.Kind == Musl:
		return "musl"
	case in.Version == Newest:
		return "glibc"
	}
	return "glibc " + in.Version.String()
}

// maxLoader bounds what is read of a loader's file, in bytes; musl's is its whole libc.
const maxLoader = 8 << 20

var muslPathText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x00(/[!-~]*:/[!-~:]*lib)\x00`) })

// readInterpreter reads a loader's constants.
func (l *Loader) readInterpreter(key systemKey) *Interpreter {
	p, a := key.interp, key.abi
	in := &Interpreter{Path: p, Kind: GLibc, Version: Newest, Store: store.Contains(p), ReadsNote: l.o.ReadsNote == "yes",
		guessed: key.guessed}
	if p == "" { // nixpkgs' glibc, which has no default directories outside the store
		in.Soname, in.Store, in.lib, in.File = path.Base(systemOf(a).interpreter), true, "lib",
			files.Unread("", syscall.ENOENT)
		return in
	}
	if strings.HasPrefix(path.Base(p), "ld-musl") {
		in.Kind = Musl
	}
	data := in.read(l.files, l.abs(p)) // the kernel resolves a relative one from the working directory
	if isNixLD(in.File, data) && !key.guessed {
		at := cmp.Or(key.nixLD, nixLDLoader)
		if data = in.read(l.files, at); in.Why != "" {
			in.Why = fmt.Sprintf("is nix-ld, and the loader that it becomes, %s, %s", at, in.Why)
		} else {
			in.Becomes = at
		}
	}
	if in.Found && bytes.Contains(data, []byte(muslText)) {
		in.Kind = Musl
	}
	if in.Kind == Musl {
		in.muslConstants(data)
		return in
	}
	if v, ok := releaseVersion(data); ok {
		in.Version = v
	} else if in.File.Defines("GLIBC_PRIVATE") {
		in.Version = l.besideVersion(in)
	}
	in.hwcaps = in.Version >= 33 || bytes.Contains(data, []byte("glibc-hwcaps")) // RHEL 8 has it in 2.28
	in.ReadsNote = in.ReadsNote || l.o.ReadsNote == "" && readsNotes(data)
	in.dirs = systemDirs(data)
	in.debian = slices.Contains(in.dirs, "/lib/"+systemOf(a).triplet+"/") ||
		bytes.Contains(data, []byte("Debian GLIBC")) || bytes.Contains(data, []byte("Ubuntu GLIBC"))
	if in.dirs == nil {
		in.dirs = defaultDirs(in, a)
	}
	in.cache = constant(data, "ld.so.cache")
	if in.ownCache = bytes.Contains(data, []byte("/ld.so cache is lacking\x00")); in.ownCache {
		in.cache = "" // the constant is the end of a path
	}
	in.preload = constant(data, ".so.preload")
	if !in.Found && !in.Store {
		in.cache, in.preload = "/etc/ld.so.cache", "/etc/ld.so.preload"
	}
	// DL_DST_LIB: the first default directory's path below / or /usr, or else its last component (glibc's
	// elf/Makefile, Debian's multiarch patch).
	first := strings.Trim(in.dirs[0], "/")
	in.lib = path.Base(first)
	if rest := strings.TrimPrefix(first, "usr/"); strings.HasPrefix(rest, "lib") {
		in.lib = rest
	}
	return in
}

// read reads a loader's file, and sets Found and Why. It returns nil if it cannot.
func (in *Interpreter) read(files *files.Files, p string) (data []byte) {
	in.File = files.Open(p)
	if in.Soname = in.File.Soname; in.Soname == "" {
		in.Soname = path.Base(in.Path)
	}
	in.Found, in.Why = false, ""
	if in.File.Errno != 0 {
		in.Why = in.File.Problem()
	}
	if in.File.ELF == nil || in.File.Size > maxLoader {
		return nil
	}
	in.File.Image(func(im *elfimage.Image) { data, _ = im.Constants(maxLoader) })
	if data == nil {
		return nil
	}
	in.Why = noLoader(in.File, data)
	in.Found = in.Why == ""
	return data
}

// Strings in loaders other than glibc's. nix-ld is a static program that becomes the loader of $NIX_LD, with
// $NIX_LD_LIBRARY_PATH for LD_LIBRARY_PATH, or with these values (src/main.rs of nix-community/nix-ld); stub-ld
// prints a message (nixos/modules/config/stub-ld.nix of nixpkgs).
const (
	muslText         = "musl libc"
	stubLDText       = "NixOS cannot run dynamically linked executables"
	nixLDText        = "NIX_LD_LIBRARY_PATH"
	nixLDLoader      = "/run/current-system/sw/share/nix-ld/lib/ld.so"
	nixLDLibraryPath = "/run/current-system/sw/share/nix-ld/lib"
)

// noLoader says by its contents why a file is no dynamic loader; "" if it is one. musl's loader is its libc, whose
// name is not a loader's; glibc's has a soname.
func noLoader(f *files.File, data []byte) string {
	var what string
	switch skip := f.ELF.SkipReason(); {
	case skip == elfimage.Loader:
		return ""
	case skip != "":
		what = "is " + strings.TrimPrefix(string(skip), "it is ")
	case f.Interp != "":
		return "has an interpreter itself, so it is no dynamic loader"
	case f.Soname != "", bytes.Contains(data, []byte(muslText)):
		return ""
	default:
		if l, err := f.Linkage(); err == nil && !l.Exports() {
			return "exports nothing, so it is no dynamic loader"
		}
		return ""
	}
	switch {
	case isNixLD(f, data):
		return "is nix-ld"
	case bytes.Contains(data, []byte(stubLDText)):
		return "is NixOS's stub-ld, which prints a message and starts nothing"
	}
	return what + " and no dynamic loader"
}

// isNixLD reports whether a file is nix-ld.
func isNixLD(f *files.File, data []byte) bool {
	return f.ELF != nil && f.Soname == "" && bytes.Contains(data, []byte(nixLDText))
}

// readsNotes reports whether a loader reads resolution notes. Such a loader contains the name that it gives to the
// list of a directory from a note.
func readsNotes(data []byte) bool { return bytes.Contains(data, []byte("\x00RESCACHE\x00")) }

// ReadsNotes reports whether the loader at a path reads resolution notes. known is false if it cannot be read.
func ReadsNotes(p string) (reads, known bool) {
	b, err := regular.Read(p, maxLoader)
	return readsNotes(b), err == nil
}

// releaseVersion finds glibc's version in a loader's constants, as ld.so --version prints it. It uses no regular
// expression, because compiling one takes longer than the search.
func releaseVersion(data []byte) (v Version, ok bool) {
	for {
		if _, data, ok = bytes.Cut(data, []byte("release version 2.")); !ok {
			return 0, false
		}
		if n, _ := fmt.Sscan(string(data[:min(len(data), 20)]), (*int)(&v)); n == 1 {
			return v, true
		}
	}
}

// lastSilent is the last version of glibc whose loader does not say its version.
const lastSilent Version = 32

// besideVersion returns the version of a loader that does not tell its own. It takes what the libc.so.6 beside the
// file says, or the highest GLIBC_2.N that this defines, which is its release or a little less. Without either it is
// lastSilent.
func (l *Loader) besideVersion(in *Interpreter) Version {
	libc := l.files.Open(path.Dir(l.files.Inside(in.File.Path)) + "/libc.so.6")
	if libc.ELF == nil {
		return lastSilent
	}
	var v Version
	if data, err := regular.Read(libc.Path, maxLoader); err == nil {
		v, _ = releaseVersion(data)
	}
	for name := range libc.Versions.Defines {
		text, _ := strings.CutPrefix(name, "GLIBC_2.")
		text, _, _ = strings.Cut(text, ".")
		if n, err := strconv.Atoi(text); err == nil {
			v = max(v, Version(n))
		}
	}
	if v == 0 {
		return lastSilent
	}
	return min(v, lastSilent)
}

// systemDirs finds SYSTEM_DIRS (elf/trusted-dirs.h) in a loader's constants: one
// or more strings side by side, each a directory with a slash at its end.
func systemDirs(data []byte) (dirs []string) {
	for ok := true; ok && dirs == nil; {
		_, data, ok = bytes.Cut(data, []byte("\x00/"))
		for s := range bytes.SplitSeq(data, []byte{0}) {
			if dirs == nil {
				s = slices.Concat([]byte("/"), s)
			}
			if !isSystemDir(s) {
				break
			}
			dirs = append(dirs, string(s))
		}
	}
	return dirs
}

func isSystemDir(s []byte) bool {
	if len(s) < len("/lib/") || len(s) > 4096 || s[0] != '/' || s[len(s)-1] != '/' || !bytes.Contains(s, []byte("/lib")) {
		return false
	}
	for _, c := range s {
		if c <= ' ' || c > '~' || c == '%' {
			return false
		}
	}
	return true
}

// constant returns the absolute path with an ending among a file's strings.
func constant(data []byte, ending string) string {
	for rest := data; ; {
		i := bytes.Index(rest, []byte(ending+"\x00"))
		if i < 0 {
			return ""
		}
		start := bytes.LastIndexByte(rest[:i], 0) + 1
		if s := rest[start : i+len(ending)]; len(s) < 4096 && s[0] == '/' {
			return string(s)
		}
		rest = rest[i+len(ending):]
	}
}

// defaultDirs is for a loader whose file cannot be read.
func defaultDirs(in *Interpreter, a files.ABI) (dirs []string) {
	if in.Store {
		return []string{path.Dir(in.Path) + "/"}
	}
	triplet, long := systemOf(a).triplet, a.Class == elf.ELFCLASS64 && a.Machine != elf.EM_ALPHA
	if triplet != "" {
		dirs = append(dirs, "/lib/"+triplet+"/", "/usr/lib/"+triplet+"/")
	}
	if triplet != "" || !long {
		dirs = append(dirs, "/lib/", "/usr/lib/")
	}
	if long {
		dirs = append(dirs, "/lib64/", "/usr/lib64/")
	}
	return dirs
}

// muslConstants: the default list, or the one in PREFIX/etc/ld-musl-ARCH.path,
// where PREFIX is two directories above the loader (ldso/dynlink.c, load_library).
func (in *Interpreter) muslConstants(data []byte) {
	list := "/lib:/usr/local/lib:/usr/lib"
	if m := muslPathText().FindSubmatch(data); m != nil {
		list = string(m[1])
	}
	in.dirs = strings.Split(list, ":")
	arch := strings.TrimSuffix(strings.TrimPrefix(path.Base(in.Path), "ld-musl-"), ".so.1")
	if i := bytes.Index(data, []byte("/etc/ld-musl-")); i >= 0 {
		name, _, _ := bytes.Cut(data[i+len("/etc/ld-musl-"):], []byte{0})
		arch = strings.TrimSuffix(string(name), ".path")
	}
	prefix := ""
	if parts := strings.Split(in.Path, "/"); len(parts) > 2 && parts[0] == "" {
		prefix = strings.Join(parts[:len(parts)-2], "/")
	}
	in.cache = prefix + "/etc/ld-musl-" + arch + ".path"
}

// muslSearch sets musl's default list: the loader's own, or what a file says.
func (l *Loader) muslSearch(in *Interpreter, y *system) {
	dirs := in.dirs
	if f, err := l.files.Read(in.cache, 1<<20); !os.IsNotExist(err) {
		y.rule, dirs = ByPathFile, strings.FieldsFunc(string(f), muslSeparator) // none if it cannot be read
	}
	for _, dir := range dirs {
		y.dirs = append(y.dirs, element{dir, dir, ""})
	}
}

// guess returns the loader of a library, which names none. It is the one beside the libc.so.6 that the run path leads
// to, else the one that the file needs by name, else the machine's usual one. It is "" for a library in a store,
// because its programs' glibc is not known.
func (l *Loader) guess(f *files.File, origin string) string {
	a, _ := f.ABI()
	usual := systemOf(a).interpreter
	for _, n := range f.Needed {
		if strings.HasPrefix(n, "libc.musl-") {
			return "/lib/ld-musl-" + strings.TrimSuffix(strings.TrimPrefix(n, "libc.musl-"), ".so.1") + ".so.1"
		}
		if strings.HasPrefix(n, "ld-linux") || strings.HasPrefix(n, "ld64.so") {
			usual = path.Dir(usual) + "/" + n
		}
	}
	t := runpath.Tokens{Origin: origin}
	for i, entry := range splitList(f.List, ":") {
		if i == maxElements {
			break
		}
		dir := t.Expand(entry)
		names := l.files.Names(dir)
		if !strings.HasPrefix(dir, "/") || !names["libc.so.6"] && !names["libc.so"] {
			continue
		}
		if names["libc.so.6"] && names[path.Base(usual)] && store.Contains(dir) {
			return path.Join(dir, path.Base(usual))
		}
		for n := range names {
			if strings.HasPrefix(n, "ld-musl-") && !names["libc.so.6"] {
				return path.Join(dir, n)
			}
		}
	}
	if store.Contains(l.files.Inside(f.Path)) {
		return ""
	}
	if l.files.At(usual).Errno != 0 {
		// A system of musl's only.
		if m := "/lib/ld-musl-" + systemOf(a).musl + ".so.1"; l.files.At(m).Errno == 0 {
			return m
		}
	}
	// glibc's cross packages keep the loader of another machine elsewhere.
	return usual
}
