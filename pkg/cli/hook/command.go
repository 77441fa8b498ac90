package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/regular"
)

// Command returns `runpath hook`.
func Command() *command.Command {
	return &command.Command{
		Name:      "hook",
		Rare:      true,
		Usage:     "what the Nix setup hooks call at the moments of a build",
		ArgsUsage: "MOMENT",
		Examples:  "runpath hook --settings",
		Description: "Reads the shell's variables from stdin and answers with words that the hook obeys; it is " +
			"not meant for people.\n" +
			"The hooks' settings are described in nix/hooks.section.md, the interface in pkg/cli/hook.",
		Flags: []*command.Flag{{Name: "settings",
			Usage: "print the names of the variables that a hook hands over, a line each"}},
		Action: func(c *command.Line) error {
			if c.Bool("settings") {
				for _, name := range Settings() {
					fmt.Fprintln(c.Stdout, name)
				}
				return nil
			}
			if len(c.Args) == 0 {
				return command.Misuse("no moment is given")
			}
			b := &build{answers: &answers{out: c.Stdout, pipe: os.Stdout}, log: c.Stderr, start: start, context: c.Context}
			if c.Args[0] == "directories" {
				return directories(c.Stdout, c.Args[1:])
			}
			return b.tell(c.Args[0], os.Stdin)
		},
	}
}

// tell reads what the shell has, does what a moment is for, and answers.
func (b *build) tell(moment string, stdin io.Reader) error {
	do, known := map[string]func() error{
		"before":                b.before,
		"fixup":                 b.fixup,
		"end":                   b.end,
		"patchELF":              func() error { return b.patchELF(b.settings["arguments"].values) },
		"auditTmpdir":           func() error { return b.auditTmpdir(b.settings["arguments"].values) },
		"autoPatchelf":          func() error { return b.patch(b.settings["arguments"].values) },
		"autoPatchelfPostFixup": b.patchOutputs,
	}[moment]
	if _, isFunction := nixpkgsFunctions[moment]; isFunction {
		do, known = func() error { return b.onFiles(moment, b.settings["arguments"].values) }, true
	}
	if !known {
		return command.Misusef("%q is not a moment of a build", moment)
	}
	text, err := io.ReadAll(stdin)
	if err != nil {
		return err
	}
	if b.shell, err = readShell(text); err == nil && len(b.names) == 0 { // they come last
		err = errState
	}
	if err == nil {
		err = b.oneRelease()
	}
	if err == nil {
		err = do()
	}
	status := exitStatus(1)
	switch {
	case err == nil:
		status = 0
	case errors.As(err, &status):
	case !errors.Is(err, errReported):
		b.fail(err.Error())
	}
	b.say("status " + strconv.Itoa(int(status)))
	if status != 0 && b.err == nil {
		return command.ErrFailed
	}
	return b.err
}

// isELF reports whether a file begins as ELF files do.
func isELF(path string) bool {
	f, _, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && bytes.Equal(magic, []byte("\x7fELF"))
}
