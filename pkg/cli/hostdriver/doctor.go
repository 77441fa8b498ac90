package hostdriver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/host/doctor"
	"cuda-runpath/pkg/remedy"
)

var doctorCommand = &command.Command{
	Name:  "doctor",
	Usage: "say whether a CUDA program can work here, and what to do",
	Examples: `hostDriver doctor
hostDriver doctor ./app
hostDriver doctor .venv`,
	ArgsUsage: "[PROGRAM]",
	Description: `PROGRAM may be a directory, as .venv or a store path, or an interpreter of Python: then all that it
holds is summed up, each package as Python imports it; what none of them opens for sure is a warning at most. Prints
what is wrong, with its source, and below it the fix; with --verbose all facts. The exit status is 1 if a CUDA program
cannot work, 0 if nothing was found that keeps one from working, or it is not known. Nothing of the program is run or
loaded; the driver's nvidia-smi is asked which GPU there is.`,
	Flags: []*command.Flag{rootFlag, machineFlag, fromFlag, prefixFlag, gpuFlag, jsonFlag,
		command.VerboseFlag("show all facts, also those in order")},
	Action: func(l *command.Line) error {
		if len(l.Args) > 1 {
			return command.Misusef("one program at a time: %q", l.Arg(1))
		}
		c, err := about(l)
		if err != nil {
			return err
		}
		h, m := c.host, c.machine
		var gpus []gpucode.Capability
		if c.IsSet("for") {
			targets, err := gpucode.ParseTargets(c.String("for"))
			if err != nil {
				return command.Misusef("--for: %v", err)
			}
			for _, t := range targets {
				gpus = append(gpus, t.Capability)
			}
		}
		program := c.Arg(0)
		if program != "" && h.Root.IsHost() {
			if program, err = filepath.Abs(whole(program)); err != nil { // a library has no mode to be found by
				return err
			}
		}
		if h.Programs, err = doctor.Programs(h.Root); err != nil {
			return err
		}
		if program != "" && !c.IsSet("machine") {
			m = h.MachineOfProgram(program, m)
		}
		d := (&doctor.Doctor{Host: h, Machine: m, Emulated: c.IsSet("machine"), Prefix: c.prefix, AsRoot: os.Geteuid() == 0,
			Itself: thisProgram(), For: gpus}).Diagnose(program)
		if c.Bool("json") {
			var works any = d.Works
			if d.Unknown() != nil {
				works = nil
			}
			fields := map[string]any{"machine": d.Machine, "works": works, "facts": d.Facts}
			if d.Program != "" {
				fields["program"] = d.Program
			}
			err = c.printJSON(fields)
		} else {
			c.showDiagnosis(d)
		}
		if err == nil && !d.Works {
			err = command.ErrFailed
		}
		return err
	},
}

// untagged shows modules of CPython in a text without the tag of its ABI, which a reader knows (PEP 3149).
func untagged(text string) string {
	module, rest, _ := strings.Cut(text, ".cpython-")
	tag, rest, is := strings.Cut(rest, ".so")
	if !is || strings.ContainsAny(tag, " /") {
		return text
	}
	return module + "….so" + untagged(rest)
}

func (c *call) showDiagnosis(d *doctor.Diagnosis) {
	w := c.Stdout
	ink := command.InkFor(w)
	marks := map[doctor.Verdict]string{doctor.Good: ink.Paint(command.Green, "ok") + "  ", doctor.Note: "note",
		doctor.Warning: ink.Paint(command.Yellow, "WARN"), doctor.Bad: ink.Paint(command.Red, "BAD") + " "}
	const indent = 24
	wrap := func(text string, indent int) string { return strings.Repeat(" ", indent) + text + "\n" }
	if command.Terminal(w) {
		wrap = func(text string, indent int) string { return command.Wrap(text, command.Columns(w), indent) }
	}
	answered := map[int]bool{}
	say := func(f *doctor.Fact, text, fix string) {
		if text = command.Printable(text); !strings.Contains(text, f.Source) {
			text += "  [" + command.Printable(f.Source) + "]"
		}
		fmt.Fprintf(w, "%s  %-16s  %s", marks[f.Verdict], f.Subject, wrap(text, indent)[indent:])
		if f.Error != 0 && !answered[f.Error] {
			answered[f.Error] = true
			fmt.Fprint(w, wrap("CUDA answers "+forwardcompat.ErrorNamed(f.Error), indent))
		}
		// A fix is left to the terminal: a command that is torn is not the same when it is copied.
		if fix != "" {
			fmt.Fprintf(w, "%24s%s\n", "-> ", command.Printable(fix))
		}
	}
	if c.Bool("verbose") {
		for i := range d.Facts {
			say(&d.Facts[i], d.Facts[i].Text, d.Facts[i].Whole())
		}
	} else {
		lines, good, notes := d.Needed()
		head := d.Host + ": " + remedy.Count(good, "check") + " in order"
		if notes > 0 {
			head += ", " + remedy.Count(notes, "note")
		}
		fmt.Fprint(w, wrap(command.Printable(head)+" (-v)", 0))
		below, each := command.Below(d.Dirs), false
		for i, l := range lines {
			text, fix := untagged(below(l.Text)), l.Fix
			if i+1 < len(lines) && lines[i+1].Fix == fix { // the next line has it
				fix = ""
			}
			if l.Likewise != nil {
				text = strings.TrimSuffix(text, ".") + "; likewise " + untagged(below(command.Few(l.Likewise, 3)))
			}
			each = each || l.Each
			say(&l.Fact, text, fix)
		}
		if each {
			fmt.Fprintln(w, "-v says what helps with each.")
		}
	}
	what := "a CUDA program"
	if d.Program != "" {
		what = command.Printable(d.Program)
	}
	unknown := d.Unknown()
	if n := len(unknown) - 2; n > 1 {
		unknown = append(unknown[:2], fmt.Sprintf("and %d more", n))
	}
	switch {
	case unknown != nil:
		what = "It is not known whether " + what + " works here, because " + command.Printable(strings.Join(unknown, "; ")) + "."
	case d.Works && d.Failing > 0 && d.Asks:
		what = fmt.Sprintf("Nothing was found that keeps what asks for the driver in %s from working. "+
			"Of %d starts, %d others do not work: see the lines marked WARN.", what, d.Starts, d.Failing)
	case d.Failing > 0 && !d.Asks:
		what = fmt.Sprintf("Of %d starts in %s, %d do not work: see the lines marked WARN. None of them asks for the driver.",
			d.Starts, what, d.Failing)
	case d.Works && d.Program != "" && !d.Asks:
		what = "Nothing was found that keeps " + what + " from working. It does not ask for the driver."
	case d.Works:
		what = "Nothing was found that keeps " + what + " from working."
	case d.Program == "" && d.HostWorks:
		what = "This host's own CUDA programs can work. Those built with Nix cannot yet: see the lines marked BAD."
	default:
		what += " cannot work here as it is: see the lines marked BAD."
	}
	fmt.Fprint(w, wrap(what, 0))
}
