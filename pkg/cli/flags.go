package cli

import (
	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/driver"
)

// Each flag is defined here, once. A command lists the ones that it obeys, and no others.

// treeFlags returns the flags of what looks at a tree of files.
func treeFlags() []cli.Flag {
	return []cli.Flag{
		JSONFlag(),
		jobsFlag(),
		VerboseFlag("also say which files were skipped, and why"),
		QuietFlag("report problems only"),
	}
}

// editFlags returns the flags of what maps run paths to their normal form, beside [treeFlags].
func editFlags() []cli.Flag {
	return append([]cli.Flag{
		driverLinkFlag(),
		compatFlag(),
		malformedFlag(),
		&cli.StringFlag{Name: "position", Value: "first", Usage: "put the driver link `first|last` among the other entries"},
		clearExecStackFlag(),
	}, listFlags()...)
}

// clearExecStackFlag is for what walks over a package's files anyway.
func clearExecStackFlag() cli.Flag {
	return &cli.BoolFlag{Name: "clear-execstack", DisableDefaultText: true, Usage: "also clear requests for an executable stack, with which glibc 2.41 refuses to open a library by dlopen"}
}

// listFlags returns the flags of what writes run paths as given, beside [treeFlags].
func listFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "force-rpath", DisableDefaultText: true, Usage: "write DT_RPATH instead of DT_RUNPATH"},
		&cli.BoolFlag{Name: "keep-empty", DisableDefaultText: true, Usage: "keep empty entries, which make the loader search the working directory"},
		&cli.BoolFlag{Name: "dedupe", DisableDefaultText: true, Usage: "keep only the first of entries that name the same directory"},
		copyFlag(),
		DryRunFlag(),
	}
}

// searchFlags returns the flags that say which directories are the driver's, the
// compat package's and stubs; see [checkLayout].
func searchFlags() []cli.Flag {
	return []cli.Flag{driverLinkFlag(), compatFlag(), stubFlag()}
}

// JSONFlag asks for a JSON document.
func JSONFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "print one JSON document to stdout"}
}

// copyFlag is for commands that edit files one by one.
func copyFlag() cli.Flag {
	return &cli.BoolFlag{Name: "copy", DisableDefaultText: true, Usage: "edit a copy and rename it over the file: for files that running processes have mapped"}
}

// DryRunFlag is for commands that write.
func DryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", DisableDefaultText: true, Usage: "change nothing; print what would be changed"}
}

// jobsFlag limits how many files are worked on at once.
func jobsFlag() cli.Flag {
	return &cli.IntFlag{Name: "jobs", Usage: "work on `N` files at a time", DefaultText: "the number of processors"}
}

// VerboseFlag asks for more, and says of what.
func VerboseFlag(usage string) cli.Flag {
	return &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, DisableDefaultText: true, Usage: usage}
}

// QuietFlag asks for less, and says of what.
func QuietFlag(usage string) cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, DisableDefaultText: true, Usage: usage}
}

// driverLinkFlag names the driver link.
func driverLinkFlag() cli.Flag {
	return &cli.StringFlag{Name: "driver-link", Usage: "the host's driver is in `DIR`", DefaultText: driver.Link + ", for 32-bit x86 " + driver.Link32}
}

// compatFlag names the compat directory.
func compatFlag() cli.Flag {
	return &cli.StringFlag{Name: "compat", Usage: "`DIR` is the compat directory, whatever it is called: its libcuda.so.1 comes before the driver's"}
}

// stubFlag names more stub directories.
func stubFlag() cli.Flag {
	return &cli.StringSliceFlag{KeepSpace: true, Name: "stub", Usage: "also count directories that match `PATTERN` as stubs (repeatable)"}
}

// assumeDriverFlag names a directory that stands for the driver link.
func assumeDriverFlag() cli.Flag {
	return &cli.StringFlag{Name: "assume-driver", Usage: "the driver link leads to `DIR`"}
}

// cpuFlag names the processor that the loader would run on.
func cpuFlag() cli.Flag {
	return &cli.StringFlag{Name: "cpu", Value: "native", Usage: "the processor, for glibc-hwcaps directories: `native|baseline|x86-64-v3|power10|...`"}
}

// ignoreFlag names libraries whose ambiguity is intended.
func ignoreFlag() cli.Flag {
	return &cli.StringSliceFlag{KeepSpace: true, Name: "ignore", Usage: "ambiguity of `SONAME`, which may be a pattern such as 'libnpp*', is intended (repeatable)"}
}

// malformedFlag says what a malformed file does to the exit status.
func malformedFlag() cli.Flag {
	return &cli.StringFlag{Name: "malformed", Value: "fail", Usage: "`fail|warn` if an ELF file is malformed or may not be read; it is skipped either way"}
}

// strictFlag makes warnings errors.
func strictFlag() cli.Flag {
	return &cli.BoolFlag{Name: "strict", DisableDefaultText: true, Usage: "treat warnings as errors"}
}

// RootFlag names the root of another system.
func RootFlag() cli.Flag {
	return &cli.StringFlag{Name: "root", Usage: "examine the system whose files are below `DIR` instead of this one"}
}
