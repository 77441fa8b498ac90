package command

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

// Version is what --version prints; builds set it with
// -ldflags '-X cuda-runpath/pkg/cli/command.Version=1.2.3'.
var Version = ""

// VersionString returns Version, else the module's, with the commit of the checkout that it was built in.
func VersionString() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(Version, "(devel)")
	}
	of := map[string]string{}
	for _, s := range info.Settings {
		of[s.Key] = s.Value
	}
	commit := of["vcs.revision"]
	if commit == "" {
		return cmp.Or(Version, info.Main.Version, "(devel)")
	}
	changed := map[string]string{"true": ", with changes"}[of["vcs.modified"]]
	return fmt.Sprintf("%s (commit %.12s of %s%s)", cmp.Or(Version, "(devel)"), commit, of["vcs.time"], changed)
}

// New returns a program. args is what stands after the flags in the synopsis, examples are for
// the man page.
func New(name, args, usage, description, examples string) *Command {
	return &Command{
		Name:        name,
		ArgsUsage:   args,
		Usage:       usage,
		Description: strings.TrimSpace(description),
		Examples:    examples,
		See:         []string{"ld.so(8)"},
		Version:     VersionString(),
		Flags:       documentFlags(),
	}
}

// JSONFlag asks for a JSON document.
var JSONFlag = &Flag{Name: "json", Usage: "print one JSON document to stdout"}

// DryRunFlag is for commands that write.
var DryRunFlag = &Flag{Name: "dry-run", Usage: "change nothing; print what would be changed"}

// VerboseFlag asks for more, and says of what.
func VerboseFlag(usage string) *Flag {
	return &Flag{Name: "verbose", Aliases: []string{"v"}, Usage: usage}
}

// QuietFlag asks for less, and says of what.
func QuietFlag(usage string) *Flag {
	return &Flag{Name: "quiet", Aliases: []string{"q"}, Usage: usage}
}

// RootFlag names the root of another system.
var RootFlag = &Flag{Kind: String, Name: "root",
	Usage: "examine the system whose files are below `DIR` instead of this one"}
