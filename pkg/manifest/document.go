package manifest

import (
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/references"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/store"
)

// Kind says what a file is.
type Kind string

// The kinds.
const (
	Program   Kind = "program"
	Shared    Kind = "library"
	Wrapper   Kind = "wrapper" // it starts another program in its own place
	Static    Kind = "static program"
	Loader    Kind = "loader"
	Object    Kind = "object"
	Debug     Kind = "debug file"
	GPUCode   Kind = "GPU code"  // for the driver, or AMD's runtime, to load
	Archive   Kind = "archive"   // of objects, with GPU code
	OtherELF  Kind = "other ELF" // core files, Guile's …
	Malformed Kind = "malformed"
	Unread    Kind = "not read"
)

var kinds = []Kind{Program, Shared, Wrapper, Static, Loader, Object, Debug, GPUCode, Archive, OtherELF, Malformed, Unread}

// File is what there is to say of one file of a package: an ELF file, a wrapper, or a file with GPU code.
type File struct {
	Path    string `json:"path"` // in the package; for a file with a name that is none of a directory, the name
	Package string `json:"package"`
	Kind    Kind   `json:"kind"`
	// Error says what is wrong with the file, or why it could not be read.
	Error string `json:"error,omitempty"`
	// SameAs is the first name in the package of a file with several, where no store is; what is said there is not
	// repeated.
	SameAs  string `json:"same_as,omitempty"`
	Size    int64  `json:"size"` // in bytes
	BuildID string `json:"build_id,omitempty"`

	Machine     string `json:"machine,omitempty"`
	Soname      string `json:"soname,omitempty"`
	Interpreter string `json:"interpreter,omitempty"`
	Tag         string `json:"tag,omitempty"` // of the run path: DT_RUNPATH, DT_RPATH
	// RunPath are its entries; absent where there is none.
	RunPath []string `json:"run_path,omitempty"`
	Needed  []string `json:"needed,omitempty"`
	// Flags are what the file asks of the loader and the kernel for its process: see flagsOf.
	Flags []string `json:"flags,omitempty"`
	// Executable is there of programs and wrappers, and of what lies in a bin.
	Executable *bool `json:"executable,omitempty"`
	SetUID     bool  `json:"setuid,omitempty"`
	SetGID     bool  `json:"setgid,omitempty"`
	// Versions are those that the file needs of libraries that are neither in its package nor in a store, of each family
	// the highest: GLIBC_2.27.
	Versions []string `json:"versions,omitempty"`
	// ResolutionNote is .note.nixos.ldcache, and NoteError why the loader reads no more of it.
	ResolutionNote resolution.Note `json:"resolution_note,omitempty"`
	NoteError      string          `json:"note_error,omitempty"`

	// Starts is the program that a wrapper starts, named as [Library.Path], and Sets what it sets for that one's
	// loader.
	Starts string            `json:"starts,omitempty"`
	Sets   map[string]string `json:"sets,omitempty"`

	// Loads are the libraries that the file asks for and what each is; of a wrapper those of the program that it
	// starts.
	Loads []Library `json:"loads,omitempty"`
	// Opens are those that it may open by name.
	Opens []Library `json:"opens,omitempty"`
	// Absent are names that its libraries ask for, in its process, and do not find.
	Absent []string `json:"absent,omitempty"`
	// Stubs are the stubs in its process.
	Stubs []string `json:"stubs,omitempty"`
	// CUDA are the major versions of the toolkit in its process.
	CUDA []string `json:"cuda,omitempty"`
	// Stops says why the program does not start.
	Stops string `json:"stops,omitempty"`

	GPU        *GPU        `json:"gpu,omitempty"`
	References []Reference `json:"references,omitempty"`

	driver bool // its run path has the driver link
}

// Library is a library that a file asks for.
type Library struct {
	Name string `json:"name"`
	// Path is where it is found, as the loader names it, and in the file's own package without that one's; null where it
	// is not found, and where the process has it already ("the program's glibc").
	Path *string `json:"path"`
	// Resolved is the file behind it where that is in another package.
	Resolved string `json:"resolved,omitempty"`
	Rule     string `json:"rule"`
	Cause    string `json:"cause,omitempty"` // unless it is DT_NEEDED
	// Driver says of a library of the GPU driver whose copy is meant: that of the driver link also where this machine
	// has none.
	Driver string `json:"driver,omitempty"`
	// Error is why the file that was found is not loaded.
	Error string `json:"error,omitempty"`
}

// GPU is the code for GPUs in a file, or in several.
type GPU struct {
	Files   int              `json:"files,omitempty"` // of a package: that have some
	Bytes   uint64           `json:"bytes"`           // of containers and bundles, in the files
	Code    []gpucode.Listed `json:"code"`
	Thinned []string         `json:"thinned,omitempty"` // for which GPUs code was left by "runpath thin"
	Damaged []string         `json:"damaged,omitempty"` // what is wrong with containers
	// Runs are, of one file, those of [Document.GPUs] for which the file has code, as `runpath gpu --for` judges it.
	Runs []string `json:"runs,omitempty"`

	sum gpucode.Sum
}

// Reference is a store path that a file names.
type Reference struct {
	Object string             `json:"object,omitempty"` // the store path; absent for build directories
	Places []references.Place `json:"places"`
	Times  int                `json:"times"`
}

// Package is a store path, or a directory that was named, and the sums of what is in it.
type Package struct {
	Path  string `json:"path"`
	Name  string `json:"name"`  // without the hash of the store
	Files int    `json:"files"` // regular files, hard links outside of stores once
	Bytes int64  `json:"bytes"` // of their contents

	Kinds         map[Kind]int `json:"kinds"`          // of the files that are listed
	Needed        int          `json:"needed"`         // names in DT_NEEDED
	RunPathFiles  int          `json:"run_path_files"` // with a run path
	RunPathLength int          `json:"run_path_entries"`
	DriverLinks   int          `json:"driver_links"` // files whose run path has the driver link
	Notes         int          `json:"resolution_notes"`

	GPU GPU `json:"gpu"`
	// Largest are the files with most GPU code.
	Largest []Sized `json:"largest"`
	// CUDA says how many files have which major version of the toolkit in their process.
	CUDA []Count `json:"cuda"`
	// Stubs are the files in whose process a stub is, and NotFound the names that are not found, with the number of
	// files that ask for
	// them: programs and libraries by themselves, but for those that a wrapper of the package starts.
	Stubs      []string           `json:"stubs"`
	NotFound   []Count            `json:"not_found"`
	References []PackageReference `json:"references"`
	// Links are the symbolic links that lead to an ELF file or a script.
	Links []Link `json:"links"`
}

// Link is a symbolic link.
type Link struct {
	Path string `json:"path"` // in the package
	To   string `json:"to"`   // the file that it leads to, as [Library.Path]
}

// Sized is a file and a number of bytes.
type Sized struct {
	Path  string `json:"path"`
	Bytes uint64 `json:"bytes"`
}

// Count is a name and how many files it is about.
type Count struct {
	Name  string `json:"name"`
	Files int    `json:"files"`
}

// PackageReference is a store path that files of a package name, or links in it lead to.
type PackageReference struct {
	Object string `json:"object,omitempty"` // absent for build directories
	Files  int    `json:"files"`
	// Bytes are what the package's closure loses without it; null where the store does not know.
	Bytes *int64 `json:"bytes"`
}

// Summary ends a document.
type Summary struct {
	Packages int    `json:"packages"`
	Files    int    `json:"files"`  // that are listed
	Failed   int    `json:"failed"` // that could not be read
	Bytes    int64  `json:"bytes"`
	GPUBytes uint64 `json:"gpu_bytes"`
	// Stopped says how far a run came that was interrupted.
	Stopped string `json:"stopped,omitempty"`
}

// Document is a manifest as a whole.
type Document struct {
	GPUs     []string // that were asked of each file, see [GPU.Runs]
	Files    []*File
	Packages []*Package
	Summary  Summary
}

// NameOf returns what a package is called, without the store's hash.
func NameOf(path string) string {
	if name := store.Name(path); name != "" && store.Path(path) == path {
		return name
	}
	return path
}
