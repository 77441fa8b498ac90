package finding

import (
	"slices"
	"sort"
)

// Situation is what several findings have in common.
type Situation struct {
	ID       string
	Severity Severity // the usual one
	Summary  string
	Help     string // why it matters
}

// The identifiers of the situations.
const (
	EmptyEntry         = "empty-entry"
	RelativeEntry      = "relative-entry"
	UnknownToken       = "unknown-token"
	MangledEntry       = "mangled-entry"
	WritableEntry      = "world-writable-entry"
	RelativeNeeded     = "relative-needed"
	BuildNeeded        = "build-directory-needed"
	BuildEntry         = "build-directory-entry"
	FHSEntry           = "fhs-entry"
	StubEntry          = "stub-entry"
	Ambiguous          = "ambiguous-library"
	Shadowing          = "driver-shadowed"
	DuplicateEntry     = "duplicate-entry"
	DanglingEntry      = "missing-directory"
	UnusedEntry        = "unused-entry"
	ShadowedRPath      = "rpath-beside-runpath"
	KeptReference      = "kept-reference"
	WrongMachine       = "wrong-machine"
	FHSInterpreter     = "fhs-interpreter"
	UnreadableFile     = "unreadable-file"
	DriverByName       = "driver-by-name"
	ExecutableStack    = "executable-stack"
	ByEnvironment      = "decided-by-environment"
	NothingChecked     = "nothing-checked"
	NoInterpreter      = "missing-interpreter"
	LoadError          = "load-error"
	Unresolved         = "unresolved-library"
	UnresolvedIndirect = "unresolved-dependency"
	MissingVersion     = "missing-version"
	LibcMismatch       = "libc-mismatch"
	StubLoaded         = "stub-loaded"
	DriverBeforeCompat = "driver-before-compat"
	CompatHarms        = "compat-harms"
	NoDriverLink       = "no-driver-link"
	DriverAbsent       = "driver-absent"
	UnfitDriver        = "unfit-driver"
	GPUCodeMissing     = "gpu-code-missing"
	GPUCodeJIT         = "gpu-code-jit"
	GPUCodeUnasked     = "gpu-code-unasked"
	Malformed          = "malformed-file"
	OpenFails          = "open-fails"
	ProgramAbsent      = "missing-program"
	NoteNamesStub      = "note-names-stub"
	NoteBypassesDriver = "note-bypasses-driver"
	StaleNote          = "stale-note"
	UnreadNote         = "unread-note"
	TwoMajors          = "two-cuda-majors"
	OpenedAbsent       = "opened-library-absent"
	UndefinedSymbol    = "undefined-symbol"
	UnknownStart       = "unknown-start"
)

var situations = []Situation{
	{EmptyEntry, Error, "empty entry in the run path",
		"The loader takes an empty entry for the current working directory: whoever can write to the directory in which " +
			"the program is started can run code in it."},
	{RelativeEntry, Error, "relative entry in the run path",
		"A relative entry is looked up below the current working directory, not below the file. Use $ORIGIN."},
	{UnknownToken, Error, "a token in the run path that the loader does not know",
		"The loader knows $ORIGIN, $LIB and $PLATFORM. It takes any other $NAME literally, as part of a file name."},
	{MangledEntry, Error, "an entry that is not what was meant",
		"The loader knows no quotes, no ~, no ; and no trailing blanks, and only $ORIGIN and ${ORIGIN} mean the file's " +
			"directory. Shells, make and cmake take characters away or leave them in."},
	{WritableEntry, Error, "run path through a directory that anyone can write to",
		"Anyone on the machine can put a library there, or create the directory."},
	{BuildEntry, Error, "directory of the build left in the run path",
		"The directory existed while the package was built. At run time it is missing, or someone else's."},
	{RelativeNeeded, Error, "a needed library is named by a path relative to the working directory",
		"No run path is searched for a name with a slash: whoever can write to the directory in which the program is " +
			"started can run code in it, and elsewhere it is not found. Linkers write the path of a library that has no " +
			"soname."},
	{BuildNeeded, Error, "a needed library is named by its path in a directory of the build",
		"No run path is searched for a name with a slash. At run time the directory is missing, or someone else's."},
	{FHSEntry, Warning, "directory of the host's distribution in a Nix package's run path",
		"Libraries from there are built against another C library and differ from machine to machine."},
	{StubEntry, Error, "stub directory in the run path",
		"Stubs are for the linker. A program that loads one fails with CUDA_ERROR_STUB_LIBRARY."},
	{StubLoaded, Error, "a stub is loaded instead of the driver's library",
		"The first file of that name on the search is a link-time stub."},
	{NoteNamesStub, Error, "the resolution note leads to a stub",
		"A loader that reads the note (.note.nixos.ldcache) looks there before the run path, also where the run path has " +
			"no stub directory any more."},
	{NoteBypassesDriver, Error, "the resolution note passes over the driver link",
		"A loader that reads the note opens the file that it names for a library of the driver. The driver link, which " +
			"comes first in the run path, is then not looked into."},
	{StaleNote, Warning, "the resolution note contradicts the run path",
		"A loader that reads the note finds another file by it than one that does not. An edit by a tool that does not " +
			"know the note leaves it so."},
	{UnreadNote, Note, "a resolution note that the program's loader does not read",
		"It is useless there, and keeps what it names in the closure."},
	{DriverBeforeCompat, Error, "the driver link comes before a compat directory",
		"The compat directory holds a newer libcuda.so.1, which is meant to take precedence over the host's."},
	{CompatHarms, Warning, "a compat package that does not work with this host's driver or GPU",
		"A compat library that is older than the host's driver, or not made for it, fails with " +
			"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803); on a GPU that it is not for, with 804 or 100. On other hosts it may " +
			"help."},
	{NoDriverLink, Error, "the driver is needed, but its directory is not in the run path",
		"On NixOS the driver's libraries are in /run/opengl-driver/lib and nowhere else."},
	{DriverAbsent, Note, "a library of the driver that is not on this machine",
		"The library comes with the host's GPU driver."},
	{Unresolved, Error, "a needed library is not found",
		"The loader stops with \"cannot open shared object file\"."},
	{UnresolvedIndirect, Error, "a library that a needed library needs is not found",
		"The file's own libraries are found, but not all of theirs."},
	{MissingVersion, Error, "a library that is found is too old",
		"It does not define a symbol version that is needed: the loader stops with \"version `…' not found\"."},
	{Ambiguous, Error, "different files of one name in several directories of the run path",
		"Which one is loaded depends on the order of the entries alone."},
	{Shadowing, Error, "a driver library from elsewhere comes before the driver link",
		"The user-space driver must match the host's kernel module."},
	{DuplicateEntry, Note, "duplicate entry in the run path", "The second one is never used."},
	{DanglingEntry, Note, "entry of the run path that does not exist",
		"It costs a failed look-up for each library, and whoever can create it decides what is loaded."},
	{UnusedEntry, Note, "entry of the run path that holds nothing that is needed",
		"In a Nix package it keeps its store path in the closure."},
	{ShadowedRPath, Note, "DT_RPATH beside DT_RUNPATH", "The loader ignores DT_RPATH where there is a DT_RUNPATH."},
	{KeptReference, Warning, "a compiler's or stubs' store path that only the run path keeps alive",
		"It makes the closure larger, often by hundreds of megabytes."},
	{WrongMachine, Note, "a library for another machine comes first",
		"The loader passes it over, at the cost of opening it."},
	{LibcMismatch, Error, "the program's loader and its libc.so.6 come from different builds",
		"They share private interfaces: the program crashes at start, or says that a GLIBC_PRIVATE symbol is missing."},
	{NoInterpreter, Error, "the program's loader does not exist, or is not a loader",
		"The kernel reports \"No such file or directory\" although the program is there. NixOS has stub-ld in that place, " +
			"which prints a message."},
	{FHSInterpreter, Warning, "a program in a Nix package uses the host's loader", "NixOS has no loader there."},
	{LoadError, Error, "a library that is found cannot be loaded", "The loader stops at it, without looking further."},
	{UnfitDriver, Error, "a libcuda.so.1 that does not match the host's driver",
		"It must have the version of the kernel module: CUDA answers CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)."},
	{ProgramAbsent, Error, "the program that a wrapper starts does not exist",
		"A script ends with \"No such file or directory\" (127); a compiled wrapper says nothing, and ends with 255."},
	{OpenFails, Warning, "a library that the file may open cannot be loaded",
		"dlopen of it fails, so nothing that it would bring is loaded either."},
	{UndefinedSymbol, Error, "a symbol that nothing in the process defines",
		"The loader stops with \"undefined symbol\": at once for data and where all is bound at once, else when the " +
			"function is called first."},
	{UnknownStart, Note, "a wrapper starts it in a way that its text does not show",
		"It computes a variable of the loader's, reads other scripts, or chooses between programs: a library may be found " +
			"there that is not here, or another one."},
	{TwoMajors, Warning, "CUDA, or cuDNN, of two major versions in one process",
		"Both define functions of the same names: a library's call may reach the other version, whose structures differ."},
	{OpenedAbsent, Error, "a part of a toolkit library that is opened by name and is not there",
		"The library that opens it fails when it needs it, or takes the one of another version that the system has."},
	{ByEnvironment, Warning, "LD_LIBRARY_PATH decides which library of several is loaded",
		"All that is in its directories comes before what the file's own run path has."},
	{DriverByName, Warning, "a script opens the driver by name",
		"The library that calls dlopen is the interpreter's own, so no run path of the package is searched. Only the " +
			"driver link's path in the script helps."},
	{ExecutableStack, Warning, "the file asks for an executable stack",
		"glibc 2.41 and newer refuse to dlopen such a library; every process that loads it at start gets an executable " +
			"stack."},
	{GPUCodeMissing, Error, "no code for a GPU that was asked for",
		"The program stops with CUDA_ERROR_NO_BINARY_FOR_GPU (209) on that GPU: no kernel image is available for execution " +
			"on the device. With relocatable device code it is CUDA_ERROR_NOT_FOUND (500), named symbol not found."},
	{GPUCodeJIT, Note, "PTX alone for a GPU that was asked for",
		"A warning where machine code was asked for by name (90-real, sm_90). The driver compiles it when the program " +
			"first starts, which takes seconds to minutes; a driver older than the PTX refuses it with error 222."},
	{GPUCodeUnasked, Note, "code that none of the GPUs asked for can use", "It makes the package larger."},
	{Malformed, Error, "the file is malformed", "It cannot be examined."},
	{NothingChecked, Warning, "a directory without an ELF file, or GPU code to compare",
		"A check of nothing finds nothing: the wrong directory was named, or the build has put nothing there."},
	{UnreadableFile, Error, "the file cannot be read", "It was not examined."},
}

// Situations returns the table, by identifier.
func Situations() []Situation {
	all := slices.Clone(situations)
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all
}

// Known reports whether an identifier is a situation's.
func Known(id string) bool { return of(id).Summary != "" }

func of(id string) Situation {
	if i := slices.IndexFunc(situations, func(s Situation) bool { return s.ID == id }); i >= 0 {
		return situations[i]
	}
	return Situation{ID: id, Severity: Error}
}

// ofTheLoad are the situations of what is loaded; the others are about the way the file or its run path is written.
var ofTheLoad = []string{NoInterpreter, LoadError, Unresolved, UnresolvedIndirect, MissingVersion, LibcMismatch,
	StubLoaded, CompatHarms, NoDriverLink, DriverAbsent, UnfitDriver, OpenFails, UndefinedSymbol, OpenedAbsent, TwoMajors,
	GPUCodeMissing, Malformed, UnreadableFile}

// OfNotes are the situations of resolution notes.
var OfNotes = []string{NoteNamesStub, NoteBypassesDriver, StaleNote, UnreadNote}

// OfAmbiguity are those that noRunpathAmbiguity reports.
var OfAmbiguity = append([]string{EmptyEntry, StubEntry, RelativeNeeded, BuildNeeded, DriverBeforeCompat, Ambiguous,
	Shadowing, LibcMismatch, UndefinedSymbol}, OfNotes...)
