package flags

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/driver"
)

// Each flag is defined here, once. A command lists the ones that it obeys, and no others.

// Tree are the flags of what looks at a tree of files.
var Tree = []*command.Flag{
	command.JSONFlag,
	Jobs,
	{Name: "verbose", Aliases: []string{"v"}, Usage: "also say which files were skipped, and why"},
	{Name: "quiet", Aliases: []string{"q"}, Usage: "report problems only"},
}

// Edit are those of what maps run paths to their normal form, beside [Tree].
var Edit = slices.Concat([]*command.Flag{
	DriverLink, Compat, Malformed, Position, clearExecStack,
	ForceRPath, ForceRunPath, KeepEmpty, dedupe,
}, Writing, []*command.Flag{Store, EvenInStore, command.DryRunFlag})

// clearExecStack is for what walks over a package's files anyway.
var clearExecStack = &command.Flag{
	Name:  "clear-execstack",
	Usage: "also clear requests for an executable stack, with which glibc 2.41 refuses to open a library by dlopen"}

// List are those of what writes run paths as given, beside [Tree].
var List = slices.Concat([]*command.Flag{ForceRPath, ForceRunPath, KeepEmpty, dedupe}, Writing,
	[]*command.Flag{Store, EvenInStore, command.DryRunFlag})

// ResolutionNote is for what gives a whole package its run paths.
var ResolutionNote = &command.Flag{
	Name: "resolution-note",
	Usage: "give each file a resolution note (.note.nixos.ldcache), from which nixpkgs' glibc knows where its libraries " +
		"are; one that is there is kept right without this"}

// Position is for what puts the driver link in.
var Position = &command.Flag{Kind: command.String, Name: "position", Default: "first",
	Values: []string{"first", "last"}, Usage: "put the driver link `first|last` among the other entries"}

// These say how a run path is written.
var (
	ForceRPath = &command.Flag{Name: "force-rpath", Usage: "write DT_RPATH, which is inherited"}
	// ForceRunPath is what the hooks give: --force-rpath, which a package may set, comes before it.
	ForceRunPath = &command.Flag{Name: "force-runpath",
		Usage: "write DT_RUNPATH, also in a library, which then no longer inherits a DT_RPATH; --force-rpath " +
			"outweighs it"}
	KeepEmpty = &command.Flag{Name: "keep-empty",
		Usage: "keep empty entries, which make the loader search the working directory"}
	dedupe = &command.Flag{Name: "dedupe", Usage: "keep only the first of entries that name the same directory"}
)

// Search say which directories are the driver's, the compat package's and stubs.
var Search = []*command.Flag{DriverLink, Compat, Stub, Store}

// Writing says how a file is edited.
var Writing = []*command.Flag{
	{Name: "in-place", Usage: "write into the file instead of making a new one: its other hard links, and processes that " +
		"use it, get the edit too"},
	{Name: "copy", Hidden: true, Usage: "what is done without --in-place"},
}

// Jobs limits how many files are worked on at once.
var Jobs = &command.Flag{Kind: command.Int, Name: "jobs", Usage: "work on `N` files at a time",
	DefaultText: "the number of processors"}

// DriverLink names the driver link.
var DriverLink = &command.Flag{Kind: command.String, Name: "driver-link", Check: CheckEntry,
	Usage: "use `DIR` as the driver link", DefaultText: driver.Link + ", for 32-bit x86 " + driver.Link32}

// Compat names the compat directory.
var Compat = &command.Flag{Kind: command.String, Name: "compat", Check: CheckEntry,
	Usage: "`DIR` is the compat directory, whatever it is called: its libcuda.so.1 comes before the driver's"}

// Stub names more stub directories.
var Stub = &command.Flag{Kind: command.List, Name: "stub", Check: driver.CheckPattern,
	Usage: "also count directories that match `PATTERN` as stubs (repeatable)"}

// Store says where the store is whose finished paths are not edited, and whose packages named …-stubs are stubs.
var Store = &command.Flag{Kind: command.String, Name: "store", Check: CheckEntry,
	Usage:       "`DIR` is a Nix store: its packages are not edited, and those whose names end in -stubs are stubs",
	DefaultText: "$NIX_STORE, /nix/store and /gnu/store"}

// EvenInStore is for whatever edits files.
var EvenInStore = &command.Flag{Name: "even-in-store",
	Usage: "edit a finished path of a Nix store too, which is refused without this: Nix then calls it modified"}

// StubDirs reads [Stub] and [Store]. A store called "store" is known as one.
func StubDirs(c *command.Line) driver.StubDirs {
	dirs := driver.StubDirs{Patterns: c.StringSlice("stub"), Store: cmp.Or(c.String("store"), os.Getenv("NIX_STORE"))}
	if path.Base(dirs.Store) == "store" {
		dirs.Store = ""
	}
	return dirs
}

// Malformed says what a malformed file does to the exit status.
var Malformed = &command.Flag{Kind: command.String, Name: "malformed", Default: "fail",
	Values: []string{"fail", "warn"},
	Usage:  "`fail|warn` if an ELF file is malformed or may not be read; it is skipped either way"}

// Strict makes warnings errors.
var Strict = &command.Flag{Name: "strict", Usage: "treat warnings as errors"}

// Nix says that the files are those of a Nix package, wherever they are, and what that changes.
func Nix(effect string) *command.Flag {
	return &command.Flag{Name: "nix", Usage: "the files are those of a Nix package: " + effect}
}

func SomeDirectory(dir string) error {
	if dir == "" {
		return errors.New("no directory is given")
	}
	return nil
}

// CheckEntry returns why a directory cannot be one entry of a run path, or is not safe to search;
// nil where it can.
func CheckEntry(dir string) error {
	switch {
	case dir == "":
		return errors.New("an empty directory would be the working directory")
	case strings.Contains(dir, ":"):
		return fmt.Errorf("%q has a colon, which separates entries", dir)
	case !strings.HasPrefix(dir, "/") && !strings.HasPrefix(dir, "$"):
		return fmt.Errorf("%q is relative: the loader would search it below the working directory", dir)
	}
	return nil
}
