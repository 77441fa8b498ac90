package hostdriver

import (
	"fmt"
	"os/exec"
	"path/filepath"

	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/host"
)

var doctor = &urfave.Command{
	Name:      "doctor",
	Usage:     "say whether a CUDA program, or PROGRAM, can work here, and what to do if it cannot",
	ArgsUsage: "[PROGRAM]",
	Description: `Prints a line for each fact, with its source, and below it the fix. The exit status is 0 if nothing was found that keeps
a CUDA program from working, else 1. Nothing is run or loaded.`,
	Flags: []urfave.Flag{rootFlag, machineFlag, fromFlag, prefixFlag, jsonFlag},
	Action: func(c *urfave.Context) error {
		if c.NArg() > 1 {
			return cli.Misusef("one program at a time: %q", c.Args().Get(1))
		}
		at, err := prefix(c)
		if err != nil {
			return err
		}
		h, m, err := system(c)
		if err != nil {
			return err
		}
		program := c.Args().First()
		if program != "" && h.Root.IsHost() {
			file, err := exec.LookPath(program)
			if err != nil {
				file = program // a library has no mode to be found by
			}
			if program, err = filepath.Abs(file); err != nil {
				return err
			}
		}
		if program != "" && !c.IsSet("machine") {
			m = h.MachineOfProgram(program, m)
		}
		d := h.Excluding(m, at).Doctor(m, program, at)
		if c.Bool("json") {
			err = printJSON(c, map[string]any{"machine": d.Machine, "program": d.Program, "works": d.Works, "facts": d.Facts})
		} else {
			showDiagnosis(c, d)
		}
		if err == nil && !d.Works {
			err = cli.ErrFailed
		}
		return err
	},
}

func showDiagnosis(c *urfave.Context, d *host.Diagnosis) {
	w := c.App.Writer
	marks := map[host.Verdict]string{host.Good: "ok  ", host.Note: "note", host.Warning: "WARN", host.Bad: "BAD "}
	for _, f := range d.Facts {
		fmt.Fprintf(w, "%s  %-16s  %s", marks[f.Verdict], f.Subject, cli.Printable(f.Text))
		if f.Source != "" {
			fmt.Fprintf(w, "  [%s]", cli.Printable(f.Source))
		}
		fmt.Fprintln(w)
		if f.Fix != "" {
			fmt.Fprintf(w, "%24s%s\n", "-> ", cli.Printable(f.Fix))
		}
	}
	what := "a CUDA program"
	if d.Program != "" {
		what = cli.Printable(d.Program)
	}
	if d.Works {
		fmt.Fprintf(w, "Nothing was found that keeps %s from working.\n", what)
	} else {
		fmt.Fprintf(w, "%s cannot work here as it is: see the lines marked BAD.\n", what)
	}
}
