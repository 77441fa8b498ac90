package cli

import (
	"debug/elf"
	"fmt"
	"maps"
	"slices"

	"github.com/sirupsen/logrus"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/thin"
	"cuda-runpath/pkg/tree"
)

// thinCommand returns the command thin.
func thinCommand() *command.Command {
	return &command.Command{
		Name: "thin", ArgsUsage: "PATH...", Usage: thinUsage, Description: thinDescription,
		Examples: "runpath thin --dry-run --for 9.0 .venv\nrunpath thin --for 8.6,9.0+PTX .venv/lib", Flags: thinFlags, Action: thinAction,
	}
}

// ThinCuda returns the app that is that command.
func ThinCuda() *command.Command {
	app := New("thinCuda", "PATH...", thinUsage, thinDescription+exitStatus, "thinCuda --for 8.6,9.0+PTX lib")
	app.Flags = append(app.Flags, thinFlags...)
	app.Action = thinAction
	return app
}

const (
	thinUsage       = "take the code for GPUs that are not asked for out of programs and libraries"
	thinDescription = `Of each container of GPU code the entries stay that a GPU of --for could use; what is behind them becomes a hole: the file
keeps its length, and takes less room on the disk. No address changes. An edited copy takes the file's place, after it has been compared
with the file. On any other GPU the program then stops with error 209, and a mark in the file says why. Installing the package again
undoes it; until then the hashes in a wheel's RECORD do not fit. --dry-run says how much it would be.`
)

var thinFlags = []*command.Flag{
	{Kind: command.String, Name: "for", Usage: "the GPUs: 9.0,8.6+PTX, sm_90a or 90-real;86-virtual; +PTX keeps PTX for later ones"},
	{Name: "keep-ptx", Usage: "keep all PTX"},
	{Name: "blank-options", Usage: "blank the hashes of store paths in the command lines that are noted in GPU code, also of objects and archives"},
	malformedFlag, DryRunFlag, JSONFlag, jobsFlag, VerboseFlag("also say what is left, and why"), QuietFlag("report problems only"),
}

func thinAction(c *command.Line) error {
	s, err := start(c, c.Args)
	if err != nil {
		return err
	}
	targets, err := gpuTargets(c, "for")
	if err != nil {
		return err
	}
	if targets == nil && !c.Bool("blank-options") {
		return command.Misuse("--for LIST is required, or --blank-options")
	}
	return runThin(s, thin.Options{Targets: targets, KeepPTX: c.Bool("keep-ptx"), Blank: c.Bool("blank-options")})
}

// thinned is one element of "files" in the JSON document of thin.
type thinned struct {
	fileReport
	Code    uint64              `json:"code"`    // bytes of GPU code before
	Freed   uint64              `json:"freed"`   // of these, bytes that are a hole now
	Entries int                 `json:"entries"` // that are gone
	Blanked int                 `json:"blanked"` // store paths in options
	Left    map[thin.Reason]int `json:"left"`    // containers with code that was not asked for, all the same
}

// thinSummary ends the JSON document of thin.
type thinSummary struct {
	runSummary
	Code    uint64 `json:"code"`
	Freed   uint64 `json:"freed"`
	Blanked int    `json:"blanked"`
}

// freedLine says how much of the GPU code of a file, or of several, is a hole, and of how many
// store paths the hash is gone.
func freedLine(freed, code uint64, blanked int) string {
	line := fmt.Sprintf("%s of %s of GPU code freed", gpucode.Megabytes(freed), gpucode.Megabytes(code))
	if blanked > 0 {
		line += ", " + count(blanked, "store path", "store paths") + " blanked"
	}
	return line
}

// runThin thins the session's files. It returns command.ErrFailed where one failed.
func runThin(s *session, o thin.Options) error {
	var sum thinSummary
	return (&sweep[*thinned]{
		options: tree.Options{Leftover: s.leftover()},
		visit: func(f *tree.File) (*thinned, bool) {
			r := &thinned{Left: map[thin.Reason]int{}}
			result := edit.Result{Action: edit.Unchanged}
			if err := r.thin(f, o, s.DryRun, &result); err != nil {
				result, r.Freed, r.Entries, r.Blanked = edit.Result{Action: edit.Failed, Err: f.Blame(err)}, 0, 0, 0
			}
			r.fileReport = s.edited(f, &result, edit.State{}, edit.State{})
			if r.Action == edit.Edited {
				r.line = count(r.Entries, "piece", "pieces") + ": " + freedLine(r.Freed, r.Code, r.Blanked)
			}
			if s.Log.IsLevelEnabled(logrus.DebugLevel) {
				for _, reason := range slices.Sorted(maps.Keys(r.Left)) {
					r.info = append(r.info, fmt.Sprintf("left: %s: %s", count(r.Left[reason], "container", "containers"), reason))
				}
			}
			return r, r.Action != edit.Unchanged || r.Code > 0
		},
		tell: func(r *thinned) {
			sum.Code += r.Code
			sum.Freed += r.Freed
			sum.Blanked += r.Blanked
		},
		end: func(all *runSummary, _ int) any {
			sum.runSummary = *all
			return &sum
		},
		line: func(all *runSummary) string { return all.String() + ": " + freedLine(sum.Freed, sum.Code, sum.Blanked) },
	}).run(s)
}

// thin thins one file. Of what is no program or library, options are blanked alone.
func (r *thinned) thin(f *tree.File, o thin.Options, dryRun bool, result *edit.Result) error {
	if f.Err != nil || f.SameAs != "" || !gpucode.IsFile(f.Head()) {
		return f.Err
	}
	if h, isELF, whole := elfimage.DecodeHeader(f.Head()); !isELF || whole && h.Type != elf.ET_EXEC && h.Type != elf.ET_DYN {
		if o.Targets = nil; !o.Blank {
			return nil
		}
	}
	code, err := gpucode.Read(f, f.Size(), f.Head())
	if err != nil {
		return err
	}
	plan, err := thin.New(f, code, o)
	if err != nil {
		return err
	}
	r.Code, r.Left = code.Bytes(), plan.Left
	if plan.Empty() {
		return nil
	}
	if !dryRun {
		err := f.EditCopy(func(w tree.Copy) error {
			if err := plan.Apply(f, w); err != nil {
				return err
			}
			return thin.Check(f, w, f.Size(), o)
		})
		if err != nil {
			return err
		}
	}
	r.Freed, r.Entries, r.Blanked = plan.Bytes, plan.Entries, plan.Blanked
	result.Action, result.LeftLinks = edit.Edited, f.OutsideLinks()
	return nil
}
