// Package command holds commands as data: the flags that each obeys and what carries it
// out. Package urfave reads command lines by them, and makes help, completion and man pages.
package command

import (
	"slices"

	"cuda-runpath/pkg/remedy"
)

// Command is a program, or one of the commands that a program or a command is made of.
type Command struct {
	Name        string
	Usage       string // in a line
	UsageText   string // the synopsis; made of the name, flags and ArgsUsage where it is ""
	ArgsUsage   string // what stands after the flags in the synopsis
	Description string
	Examples    string   // command lines, a line each
	See         []string // man pages that the program's page names: "ld.so(8)"

	Flags []*Flag
	// Common are the names of the flags that help shows, where it has no room for all.
	Common []string
	// Rare says that help of what it is a command of shows it only where it shows everything.
	Rare bool
	// Commands, where it is not nil, are what it is made of. Flags and Action are theirs
	// then.
	Commands []*Command
	Action   func(*Line) error

	// Also are names that it has elsewhere, or might be looked for by.
	Also []string
	// OfFile is the one of Commands that is meant where a file stands in its place.
	OfFile string

	// Version is what --version prints of a program.
	Version string
	// Arguments, where it is not nil, is given a program's command line first and returns
	// it in the form that the flags are for.
	Arguments func([]string) ([]string, error)
}

// Kind says what follows a flag.
type Kind int

// The kinds of flags.
const (
	Bool   Kind = iota // nothing, or "=true" and "=false"; with Values, "=" and one of these: then it is read by String
	String             // a value
	Int                // a number
	List               // a value; the flag may be repeated
)

// Flag is a flag of a command.
type Flag struct {
	Name    string
	Aliases []string
	Kind    Kind
	Default string // of a String
	// DefaultText is what the help says of the default where that is not Default.
	DefaultText string
	Usage       string
	Values      []string // that there are, where they are few
	// Words, where it is not nil, returns values that completion offers, each with what it means.
	Words func() []Word
	// Check, where it is not nil, returns why a value is none for the flag.
	Check  func(value string) error
	Hidden bool // from help and completion
}

// named reports whether a flag goes by a name.
func (f *Flag) named(name string) bool { return f.Name == name || slices.Contains(f.Aliases, name) }

// find returns the flag of a name, nil for none.
func find(flags []*Flag, name string) *Flag {
	for _, f := range flags {
		if f.named(name) {
			return f
		}
	}
	return nil
}

// TakesValue reports whether one of some flags goes by a name, and its value follows it.
func TakesValue(flags []*Flag, name string) bool {
	f := find(flags, name)
	return f != nil && f.Kind != Bool
}

// documentFlags are the flags of a program that print its man page (section 1) and
// its completion script (bash, zsh or fish), for packages to install.
func documentFlags() []*Flag {
	return []*Flag{
		{Name: "man", Usage: "print the man page, or that of the COMMAND that follows"},
		{Name: "completion", Kind: String, Values: []string{"bash", "zsh", "fish"},
			Usage: "print the completion script for a shell: `bash|zsh|fish`"},
	}
}

// Printable returns text from a file's name or contents as it can stand in a line
// for a terminal.
func Printable(s string) string { return remedy.Line(s) }
