package patchelf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Compatible is the version of patchelf whose command line this is.
const Compatible = "0.19.1"

// Command is a command line, parsed.
type Command struct {
	Files  []string // the arguments that are no options
	Output string   // write the one file there; "" is in place
	// Copy asks for Output to be written even where nothing changes.
	Copy          bool
	Debug         bool // say on stderr what is done
	Help, Version bool // asked for, before anything else was wrong

	PrintInterpreter, PrintOSABI, PrintSoname, PrintRunPath, PrintExecStack, PrintNeeded bool

	SetOSABI    *string // a name
	SetSoname   *string
	Interpreter string // "" leaves it

	ClearExecStack, SetExecStack bool

	ShrinkRunPath, RemoveRunPath bool
	SetRunPath, AddRunPath       bool
	RunPath                      string   // what to set or add
	AllowedPrefixes              []string // with ShrinkRunPath: of absolute directories that may stay; nil for all
	ForceRPath                   bool     // DT_RPATH rather than DT_RUNPATH

	RemoveNeeded  []string
	ReplaceNeeded map[string]string // old to new
	AddNeeded     []string          // sorted, each once

	ClearVersions []string
	NoDefaultLib  bool
	DebugTag      bool

	ResolutionCache bool
}

// Unsupported names an option that is understood and not carried out.
type Unsupported string

func (u Unsupported) Error() string {
	return string(u) + " is not supported by this program; nothing was changed"
}

// Parse reads the arguments after the program's name. readFile reads the file of an
// "@FILE" argument.
//
// An argument that is no option is a file's name, also one that begins with "-".
// There is no "--option=value" and no "--".
func Parse(args []string, readFile func(string) ([]byte, error)) (*Command, error) {
	p := &parser{args: args, readFile: readFile}
	switches := p.switches()
	for p.err == nil && len(p.args) > 0 && !p.c.Help && !p.c.Version {
		arg := p.args[0]
		p.args = p.args[1:]
		if is := switches[arg]; is != nil {
			*is = true
		} else {
			p.option(arg)
		}
	}
	if p.err != nil || p.c.Help || p.c.Version {
		return &p.c, p.err
	}
	return &p.c, p.check()
}

type parser struct {
	c        Command
	args     []string
	readFile func(string) ([]byte, error)
	refused  []string
	err      error
}

func (p *parser) option(arg string) {
	c := &p.c
	switch arg {
	case "--output":
		c.Output, c.Copy = p.text(), true
	case "--set-interpreter", "--interpreter":
		c.Interpreter = p.text()
	case "--set-os-abi":
		name := p.text()
		c.SetOSABI = &name
	case "--set-soname":
		name := p.text()
		c.SetSoname = &name
	case "--allowed-rpath-prefixes":
		c.AllowedPrefixes = split(p.plain())
	case "--set-rpath":
		c.SetRunPath, c.RunPath = true, p.text()
	case "--add-rpath":
		c.AddRunPath, c.RunPath = true, p.text()
	case "--add-needed":
		c.AddNeeded = append(c.AddNeeded, p.text())
	case "--remove-needed":
		c.RemoveNeeded = append(c.RemoveNeeded, p.text())
	case "--replace-needed":
		if len(p.args) < 2 {
			p.fail(errors.New("missing argument(s)"))
			return
		}
		if c.ReplaceNeeded == nil {
			c.ReplaceNeeded = map[string]string{}
		}
		old := p.plain()
		c.ReplaceNeeded[old] = p.plain()
	case "--clear-symbol-version":
		c.ClearVersions = append(c.ClearVersions, p.text())
	case "--page-size":
		var size int // as C's atoi reads it: what begins with a number is one
		fmt.Sscanf(strings.TrimLeft(p.plain(), " \t\n\v\f\r"), "%d", &size)
		if size <= 0 {
			p.fail(errors.New("invalid argument to --page-size"))
		}
	case "--no-sort", "--no-clobber-old-sections":
	case "--rename-dynamic-symbols":
		p.plain()
		p.refused = append(p.refused, arg)
	default:
		c.Files = append(c.Files, arg)
	}
}

// switches are the options without an argument.
func (p *parser) switches() map[string]*bool {
	c := &p.c
	return map[string]*bool{
		"--help": &c.Help, "-h": &c.Help, "--version": &c.Version, "--debug": &c.Debug,
		"--print-interpreter": &c.PrintInterpreter,
		"--print-os-abi":      &c.PrintOSABI,
		"--print-soname":      &c.PrintSoname,
		"--print-execstack":   &c.PrintExecStack,
		"--clear-execstack":   &c.ClearExecStack,
		"--set-execstack":     &c.SetExecStack,
		"--print-rpath":       &c.PrintRunPath,
		"--shrink-rpath":      &c.ShrinkRunPath,
		"--remove-rpath":      &c.RemoveRunPath,
		"--force-rpath":       &c.ForceRPath,
		"--print-needed":      &c.PrintNeeded,
		"--no-default-lib":    &c.NoDefaultLib,
		"--add-debug-tag":     &c.DebugTag,
		cacheOption:           &c.ResolutionCache,
	}
}

// check is what the command line as a whole must obey.
func (p *parser) check() error {
	c := &p.c
	switch {
	case len(c.Files) == 0:
		return errors.New("missing filename")
	case c.ForceRPath && c.ResolutionCache:
		return errors.New(cacheOption + " cannot be combined with --force-rpath")
	case c.Output != "" && len(c.Files) != 1:
		return errors.New("--output takes a single file")
	case c.SetRunPath && c.AddRunPath:
		return errors.New("--set-rpath and --add-rpath exclude each other")
	case len(p.refused) > 0:
		return Unsupported(p.refused[0])
	}
	slices.Sort(c.AddNeeded)
	c.AddNeeded = slices.Compact(c.AddNeeded)
	return nil
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// plain returns the option's argument as it is.
func (p *parser) plain() string {
	if len(p.args) == 0 {
		p.fail(errors.New("missing argument"))
		return ""
	}
	arg := p.args[0]
	p.args = p.args[1:]
	return arg
}

// text returns the option's argument, or where it is "@FILE" all that the file holds.
func (p *parser) text() string {
	arg := p.plain()
	if file, ok := strings.CutPrefix(arg, "@"); ok && p.err == nil {
		data, err := p.readFile(file)
		if err != nil {
			p.fail(err)
			return ""
		}
		arg = string(data)
	}
	if strings.IndexByte(arg, 0) >= 0 {
		p.fail(fmt.Errorf("%q contains a NUL byte", arg))
	}
	return arg
}

// split separates a list at its colons. A colon at the end ends the last entry and
// begins no other.
func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(list, ":"), ":")
}
