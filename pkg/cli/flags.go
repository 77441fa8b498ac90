package cli

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
)

// Each flag is defined here, once. A command lists the ones that it obeys, and no others.

// treeFlags are the flags of what looks at a tree of files.
var treeFlags = []*command.Flag{
	command.JSONFlag,
	jobsFlag,
	{Name: "verbose", Aliases: []string{"v"}, Usage: "also say which files were skipped, and why"},
	{Name: "quiet", Aliases: []string{"q"}, Usage: "report problems only"},
}

// editFlags are those of what maps run paths to their normal form, beside [treeFlags].
var editFlags = []*command.Flag{
	driverLinkFlag, compatFlag, malformedFlag, positionFlag, clearExecStackFlag,
	forceRPathFlag, forceRunPathFlag, keepEmptyFlag, dedupeFlag, copyFlag, storeFlag, evenInStoreFlag, command.DryRunFlag,
}

// clearExecStackFlag is for what walks over a package's files anyway.
var clearExecStackFlag = &command.Flag{Name: "clear-execstack", Usage: "also clear requests for an executable stack, with which glibc 2.41 refuses to open a library by dlopen"}

// listFlags are those of what writes run paths as given, beside [treeFlags].
var listFlags = []*command.Flag{forceRPathFlag, forceRunPathFlag, keepEmptyFlag, dedupeFlag, copyFlag, storeFlag, evenInStoreFlag, command.DryRunFlag}

// noteFlag is for what gives a whole package its run paths.
var noteFlag = &command.Flag{Name: "resolution-note", Usage: "give each file a resolution note (.note.nixos.ldcache), from which nixpkgs' glibc knows where its libraries are; one that is there is kept right without this"}

// positionFlag is for what puts the driver link in.
var positionFlag = &command.Flag{Kind: command.String, Name: "position", Default: "first", Values: []string{"first", "last"}, Usage: "put the driver link `first|last` among the other entries"}

// forceRPathFlag, keepEmptyFlag and dedupeFlag say how a run path is written.
var (
	forceRPathFlag = &command.Flag{Name: "force-rpath", Usage: "write DT_RPATH instead of DT_RUNPATH"}
	// forceRunPathFlag is what the hooks give: --force-rpath, which a package may set, comes before it.
	forceRunPathFlag = &command.Flag{Name: "force-runpath", Usage: "write DT_RUNPATH also where libraries, which inherit a DT_RPATH, then find others or none; --force-rpath comes before it"}
	keepEmptyFlag    = &command.Flag{Name: "keep-empty", Usage: "keep empty entries, which make the loader search the working directory"}
	dedupeFlag       = &command.Flag{Name: "dedupe", Usage: "keep only the first of entries that name the same directory"}
)

// searchFlags say which directories are the driver's, the compat package's and stubs.
var searchFlags = []*command.Flag{driverLinkFlag, compatFlag, stubFlag, storeFlag}

// copyFlag is for commands that edit files one by one.
var copyFlag = &command.Flag{Name: "copy", Usage: "edit a copy and rename it over the file: for files that running processes have mapped"}

// jobsFlag limits how many files are worked on at once.
var jobsFlag = &command.Flag{Kind: command.Int, Name: "jobs", Usage: "work on `N` files at a time", DefaultText: "the number of processors"}

// driverLinkFlag names the driver link.
var driverLinkFlag = &command.Flag{Kind: command.String, Name: "driver-link", Check: checkEntry, Usage: "use `DIR` as the driver link", DefaultText: driver.Link + ", for 32-bit x86 " + driver.Link32}

// compatFlag names the compat directory.
var compatFlag = &command.Flag{Kind: command.String, Name: "compat", Check: checkEntry, Usage: "`DIR` is the compat directory, whatever it is called: its libcuda.so.1 comes before the driver's"}

// stubFlag names more stub directories.
var stubFlag = &command.Flag{Kind: command.List, Name: "stub", Check: driver.CheckPattern, Usage: "also count directories that match `PATTERN` as stubs (repeatable)"}

// storeFlag says where the store is whose finished paths are not edited, and whose packages named …-stubs are stubs.
var storeFlag = &command.Flag{Kind: command.String, Name: "store", Check: checkEntry,
	Usage: "a Nix store is `DIR`: its packages are not edited, and those whose names end in -stubs are stubs", DefaultText: "$NIX_STORE, /nix/store and /gnu/store"}

// evenInStoreFlag is for whatever edits files.
var evenInStoreFlag = &command.Flag{Name: "even-in-store", Usage: "edit a finished path of a Nix store too, which is refused without this: Nix then calls it modified"}

// stubDirs reads [stubFlag] and [storeFlag]. A store called "store" is known as one.
func stubDirs(c *command.Line) driver.StubDirs {
	dirs := driver.StubDirs{Patterns: c.StringSlice("stub"), Store: cmp.Or(c.String("store"), os.Getenv("NIX_STORE"))}
	if path.Base(dirs.Store) == "store" {
		dirs.Store = ""
	}
	return dirs
}

// assumeDriverFlag names a directory that stands for the driver link.
var assumeDriverFlag = &command.Flag{Kind: command.String, Name: "assume-driver", Usage: "pretend that the driver link leads to `DIR`"}

// cpuFlag names the processor that the loader would run on.
var cpuFlag = &command.Flag{Kind: command.String, Name: "cpu", Default: "native", Values: append([]string{"native", "baseline"}, loader.CPUNames...), Usage: "the processor, for glibc-hwcaps directories: `native|baseline|x86-64-v3|power10|...`"}

// gpuFlag names the GPUs that code is to be for.
var gpuFlag = &command.Flag{Kind: command.String, Name: "for", Check: checkGPUs, Usage: "report what GPU code is missing, not needed, or compiled at the first start, for the GPUs of `LIST`: 9.0,8.6+PTX, sm_90a, 90-real;86-virtual, names as H100, or native for those of this machine; 9.0+PTX also asks for PTX, of which drivers make code for GPUs after 9.0"}

func checkGPUs(list string) error { _, _, err := gpucode.ParseList(list); return err }

// gpuTargets returns the GPUs that --for names, of which the command line was checked; nil where it is not given. One whose
// number is not known, as where a CUDA set is newer than this program, is a warning, or the error that refuse makes of it.
func gpuTargets(s *session, c *command.Line, refuse func(gpucode.Target) error) ([]gpucode.Target, error) {
	if !c.IsSet(gpuFlag.Name) {
		return nil, nil
	}
	targets, native, _ := gpucode.ParseList(c.String(gpuFlag.Name))
	for _, t := range targets {
		if t.Known() {
			continue
		}
		if err := refuse(t); err != nil {
			return nil, err
		}
		s.Log.Warnf("--for %s: no GPU with this number is known here; the general rule is applied to it. %s", t.Arch, meant(t))
	}
	if native {
		own, err := host.Native()
		if err != nil {
			return nil, fmt.Errorf("--for %s: %w", gpucode.ThisMachine, err)
		}
		for _, t := range own {
			s.Log.Infof("--for %s: %s", gpucode.ThisMachine, t)
		}
		targets = gpucode.Merged(targets, own)
	}
	return targets, nil
}

// general refuses no GPU: the general rule is applied to one that is not known.
func general(gpucode.Target) error { return nil }

// meant asks for which GPUs the number of one that is not known may stand.
func meant(t gpucode.Target) string {
	var words []string
	for _, c := range t.Near() {
		words = append(words, c.String())
	}
	return fmt.Sprintf("Did you mean %s?", strings.ReplaceAll(remedy.List(words), " and ", " or "))
}

// readsNoteFlag says what the loader's file would tell.
var readsNoteFlag = &command.Flag{Kind: command.String, Name: "loader-reads-note", Values: []string{"yes", "no"}, Usage: "whether glibc reads resolution notes: `yes|no`", DefaultText: "what the loader's own file says"}

// ignoreFlag names libraries whose ambiguity is intended.
var ignoreFlag = &command.Flag{Kind: command.List, Name: "ignore", Usage: "ambiguity of `SONAME`, which may be a pattern such as 'libnpp*', is intended (repeatable)"}

// malformedFlag says what a malformed file does to the exit status.
var malformedFlag = &command.Flag{Kind: command.String, Name: "malformed", Default: "fail", Values: []string{"fail", "warn"}, Usage: "`fail|warn` if an ELF file is malformed or may not be read; it is skipped either way"}

// strictFlag makes warnings errors.
var strictFlag = &command.Flag{Name: "strict", Usage: "treat warnings as errors"}

// nixFlag says that the files are those of a Nix package, wherever they are, and what that changes.
func nixFlag(effect string) *command.Flag {
	return &command.Flag{Name: "nix", Usage: "the files are those of a Nix package: " + effect}
}
