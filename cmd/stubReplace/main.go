// Command stubReplace takes link-time stub directories out of run paths and lets
// the host's driver directory stand in for them.
package main

import (
	"path"

	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/command"
	"cuda-runpath/pkg/runpath"
)

func main() {
	command.Main(command.Tool{
		Name:  "stubReplace",
		Usage: "replace stub directories in run paths by the driver's directory",
		Description: `
A stub directory holds libraries for the link editor only: a libcuda.so whose functions all fail. Where one is left in
a run path before the driver's directory, the program loads the stub and reports CUDA_ERROR_STUB_LIBRARY.

stubReplace removes stub directories: entries with a component "stubs" or "stub", or below a Nix store path whose name
ends in "-stubs". It puts the driver link first instead, also where the file needs a library of the driver that no other
entry holds. Libraries that only the removed stubs offered and that do not come with the driver are reported as missing.`,
		Map: runpath.ReplaceStubs,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "stub", Usage: "count directories that match `PATTERN` as stubs too (repeatable)"},
			&cli.StringFlag{Name: "offer", Usage: "link the driver's stubs that are found into `DIR`, by soname; with --dry-run do only that"},
		},
		Configure: func(c *cli.Context, e *command.Editor) error {
			e.StubDirs.Patterns, e.Offer = c.StringSlice("stub"), c.String("offer")
			for _, pattern := range e.StubDirs.Patterns {
				if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
					return command.Misusef("--stub %q is no pattern", pattern)
				}
			}
			return nil
		},
	}.App())
}
