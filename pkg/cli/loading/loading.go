package loading

import (
	"os"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/loader"
)

// AssumeDriver names a directory that stands for the driver link.
var AssumeDriver = &command.Flag{Kind: command.String, Name: "assume-driver",
	Usage: "pretend that the driver link leads to `DIR`"}

// CPU names the processor that the loader would run on.
var CPU = &command.Flag{Kind: command.String, Name: "cpu", Default: "native",
	Values: append([]string{"native", "baseline"}, loader.CPUNames...),
	Usage:  "the processor, for glibc-hwcaps directories: `native|baseline|x86-64-v3|power10|...`"}

// ReadsNote says what the loader's file would tell.
var ReadsNote = &command.Flag{Kind: command.String, Name: "loader-reads-note", Values: []string{"yes", "no"},
	Usage: "whether glibc reads resolution notes: `yes|no`", DefaultText: "what the loader's own file says"}

// LoaderVariables are what of the environment the loader depends on; the last two nix-ld's.
var LoaderVariables = []string{"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "LD_BIND_NOW", "LD_HWCAP_MASK",
	"GLIBC_TUNABLES", "NIX_LD",
	"NIX_LD_LIBRARY_PATH"}

// Options reads the flags that the search depends on.
func Options(c *command.Line) (loader.Options, error) {
	o := loader.Options{Root: c.String("root"), AssumeDriver: c.String("assume-driver"),
		DriverLink: c.String("driver-link"), CPU: c.String("cpu"),
		ReadsNote: c.String("loader-reads-note")}
	for _, assignment := range c.StringSlice("env") {
		name, value, given := strings.Cut(assignment, "=")
		if !given {
			value = os.Getenv(name)
		}
		switch name {
		case "LD_LIBRARY_PATH":
			o.LibraryPath = value
		case "LD_PRELOAD":
			o.Preload = value
		case "LD_AUDIT":
			o.Audit = value
		case "LD_BIND_NOW":
			o.BindNow = value
		case "LD_HWCAP_MASK":
			o.HWCapMask = value
		case "GLIBC_TUNABLES":
			o.Tunables = value
		case "NIX_LD":
			o.NixLD = value
		case "NIX_LD_LIBRARY_PATH":
			o.NixLDLibraryPath = value
		default:
			return o, command.Misusef("--env %s: only %s and %s are understood", assignment,
				strings.Join(LoaderVariables[:len(LoaderVariables)-1], ", "), LoaderVariables[len(LoaderVariables)-1])
		}
	}
	return o, nil
}
