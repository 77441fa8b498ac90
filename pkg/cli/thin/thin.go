package thin

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/gpu"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/image"
	"cuda-runpath/pkg/thin"
	"cuda-runpath/pkg/tree"
)

// Command returns the command thin.
func Command() *command.Command {
	return &command.Command{
		Name:   "thin",
		Usage:  "remove GPU code that is not asked for from files",
		Common: []string{"for", "keep-ptx", "keep-length", "dry-run", "json", "verbose"},
		Examples: `runpath thin --dry-run --for 9.0 .venv
runpath thin --for 8.6,9.0+PTX .venv/lib`,
		ArgsUsage: "PATH...",
		UsageText: "runpath thin --for LIST [flags] PATH...\nrunpath thin --blank-options [flags] PATH...",
		Description: `Each container of GPU code keeps the entries that a GPU of --for could use. The others become a
hole: the file takes less room on the disk, and whole pages of holes are cut out of it, unless --keep-length is given
or something outside of the file depends on its length or on positions in it. No address of code or data changes. An
edited copy takes the file's place, after it has been compared with the file. On any other GPU the program then stops
with error 209, and a mark in the file says why. Installing the package again undoes it; until then the hashes in a
wheel's RECORD do not match. --dry-run says how much would go.`,
		Flags: []*command.Flag{
			{Kind: command.String, Name: gpu.For.Name, Check: gpu.Check,
				Usage: "the GPUs of `LIST`: 9.0,8.6+PTX, sm_90a, 90-real;86-virtual, names such as H100, or native for those of " +
					"this machine; +PTX keeps PTX for later ones"},
			{Name: "keep-ptx", Usage: "keep all PTX"},
			{
				Name: "blank-options",
				Usage: "blank the hashes of store paths in the command lines that are noted in GPU code, also of objects and " +
					"archives"},
			{Name: "keep-length", Usage: "keep the length of files: removed code only becomes holes"},
			{Name: "cut", Usage: "also cut programs and libraries that have a debug file, and thin those that have a signature"},
			{Kind: command.String, Name: "image",
				Usage: "PATH is a container image made by dockerTools; write the thinned image to `FILE`"},
			flags.Nix("a GPU of a number that is not known is a warning"),
			flags.Store, flags.EvenInStore, flags.Malformed, command.DryRunFlag, command.JSONFlag, flags.Jobs,
			command.VerboseFlag("also say what is left, and why"), command.QuietFlag("report problems only"),
		},
		Action: session.With(thinAction),
	}
}

func thinAction(s *session.Session, c *command.Line) error {
	targets, err := gpu.Targets(s, c, func(t gpucode.Target) error {
		if s.InPackage || gpu.HasCodeFor(s, t.Capability) {
			return nil
		}
		return command.Misusef(
			"--for %s: no GPU with this number is known here, and no file has code for it: code that is in use would be "+
				"removed for good. %s", t.Arch, gpu.Meant(t))
	})
	if err != nil {
		return s.OrStopped(err, func(why string) any {
			return &thinSummary{
				Summary: session.Summary{DryRun: s.DryRun, Stopped: why}}
		})
	}
	if _, amd := gpucode.SplitTargets(targets); amd != nil {
		return command.Misusef("--for %s: of code for AMD's GPUs nothing is taken out", amd[0])
	}
	if targets == nil && !c.Bool("blank-options") {
		return command.Misuse("--for LIST is required, or --blank-options")
	}
	if targets == nil && c.Bool("keep-ptx") {
		return command.Misuse("--keep-ptx says what stays of what --for LIST takes out, and that is not given")
	}
	o := thinning{Options: thin.Options{Targets: targets, KeepPTX: c.Bool("keep-ptx"), Blank: c.Bool("blank-options")},
		debugFile: debugFiles(s)}
	switch {
	case c.Bool("cut") && c.Bool("keep-length"):
		return command.Misuse("--cut and --keep-length exclude each other")
	case c.Bool("cut"):
		o.length = thin.Cutting
	case targets != nil && !c.Bool("keep-length"):
		o.length = thin.Shorter
	}
	if c.IsSet("image") {
		return thinImage(s, c.String("image"), c.String("for"), &o)
	}
	return runThin(s, &o)
}

// thinImage thins the session's path, an image, into the file called to.
func thinImage(s *session.Session, to, list string, asked *thinning) error {
	if len(s.Paths) != 1 || to == "" {
		return command.Misuse("--image FILE thins one image, the PATH, into FILE")
	}
	if s.DryRun {
		return command.Misuse("--image FILE and --dry-run exclude each other: the image is left as it is anyway")
	}
	t := s.Telling()
	var sum thinSummary
	sum.Length.After, sum.Disk.After = new(uint64), new(uint64)
	entries, all := 0, 0
	done, err := image.Thin(s.Paths[0], to, image.Options{Options: asked.Options, Length: asked.length, Label: list,
		Told: func(path string, size int64, work *thin.Work, err error) {
			r := &thinned{Left: map[thin.Reason]int{}}
			result := edit.Result{Action: tree.Failed, Err: err}
			if err == nil {
				r.decided(work, size)
				if result.Action = tree.Unchanged; !work.Empty() {
					r.finished(work, size, &result)
				}
			}
			r.report(s, &tree.File{Path: path}, &result)
			sum.add(r)
			entries, all = entries+r.Entries, all+r.all
			t.File(r)
		}})
	if err != nil {
		r := &thinned{Left: map[thin.Reason]int{}}
		r.Path = s.Paths[0]
		r.Fail(err)
		t.File(r)
		return t.End(&sum, "")
	}
	sum.Image = done
	line := fmt.Sprintf("%d of %s changed: %s; %s, then %s", done.Changed, session.Count(done.Layers, "layer", "layers"),
		removed(s, entries, all, &sum), gpucode.Megabytes(uint64(done.Before)), gpucode.Megabytes(uint64(done.After)))
	sum.Summary = t.Sum
	return t.End(&sum, line)
}

// decided notes what a file of size bytes has, and what is to become of it.
func (r *thinned) decided(work *thin.Work, size int64) {
	now := uint64(work.Size())
	r.Length = &change{uint64(size), &now}
	r.Code, r.Left, r.all, r.Uncut = work.Code.Bytes(), work.Plan.Left, work.Plan.All, work.Uncut
}

// finished notes what was done to a file whose length was size.
func (r *thinned) finished(work *thin.Work, size int64, result *edit.Result) {
	result.Action = tree.Edited
	if work.Cut != nil {
		result.MovedNotes = work.Cut.MovedNotes
		r.Cut = uint64(max(0, size-work.Size()))
	}
	if r.Freed, r.Entries, r.Blanked = work.Plan.Bytes, work.Plan.Entries, work.Plan.Blanked; r.Entries > 0 {
		r.Marked = &work.Plan.Marked
	}
}

// add counts a file.
func (s *thinSummary) add(r *thinned) {
	s.Code += r.Code
	s.Freed += r.Freed
	s.Cut += r.Cut
	s.Blanked += r.Blanked
	if r.Length != nil {
		s.Length.add(r.Length)
	}
	if r.Disk != nil {
		s.Disk.add(r.Disk)
	}
}

// thinning is what is done to each file.
type thinning struct {
	thin.Options
	length    thin.Length
	debugFile func(buildID string) string // the path of the debug file, "" for none
}

// debugDirectories are where debug files are installed, by build ID: by distributions (gdb(1), "Debugging Information
// in Separate Files"), and where nixpkgs' gdb looks.
func debugDirectories() []string {
	return append([]string{"/usr/lib/debug"}, filepath.SplitList(os.Getenv("NIX_DEBUG_INFO_DIRS"))...)
}

// debugFiles returns what finds debug files: among the session's files and beside those of them that are named, which
// are looked at when it is first asked, and where they are installed.
func debugFiles(s *session.Session) func(buildID string) string {
	named := sync.OnceValue(func() map[string]string {
		type one struct{ id, path string }
		files := map[string]string{}
		visit := func(f *tree.File) (found one, keep bool) {
			if size, err := f.Length(); f.Err == nil && f.ELF() && err == nil {
				found = one{thin.DebugFileOf(f, size, f.Head()), f.Path}
			}
			return found, found.id != ""
		}
		all := *s
		for _, path := range s.Paths {
			for _, beside := range []string{path + ".debug", filepath.Join(filepath.Dir(path), ".debug",
				filepath.Base(path)+".debug")} {
				if session.OneFile([]string{path}) && session.OneFile([]string{beside}) {
					all.Paths = append(slices.Clip(all.Paths), beside)
				}
			}
		}
		session.Walk(&all, tree.Options{}, visit, func(found one) { files[found.id] = found.path })
		return files
	})
	return func(id string) string {
		if len(id) < 3 {
			return ""
		}
		for _, dir := range debugDirectories() {
			installed := filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug")
			if _, err := os.Stat(installed); err == nil {
				return installed
			}
		}
		return named()[id]
	}
}

// thinned is one element of "files" in the JSON document of thin.
type thinned struct {
	session.Report
	Code    uint64              `json:"code"`            // bytes of GPU code before
	Cut     uint64              `json:"cut"`             // bytes by which the file is shorter
	Uncut   string              `json:"uncut,omitempty"` // why it is not, though that was asked for
	Length  *change             `json:"length,omitempty"`
	Disk    *change             `json:"disk,omitempty"`
	Freed   uint64              `json:"freed"`            // of these, bytes that are gone, or a hole now
	Entries int                 `json:"entries"`          // that are gone
	Marked  *bool               `json:"marked,omitempty"` // a mark says for which GPUs; nil where nothing is gone
	Blanked int                 `json:"blanked"`          // store paths in options
	Left    map[thin.Reason]int `json:"left"`             // containers with code that was not asked for, all the same

	all int // cubins and PTX before
}

// change is a number of bytes before and after; nil in a dry run, where that is not known.
type change struct {
	Before uint64  `json:"before"`
	After  *uint64 `json:"after,omitempty"`
}

func (c *change) add(d *change) {
	c.Before += d.Before
	if c.After == nil || d.After == nil {
		c.After = nil
		return
	}
	sum := *c.After + *d.After
	c.After = &sum
}

// text is "length 8.0 MB -> 0.4 MB".
func (c *change) text(what string) string {
	text := what + " " + gpucode.Megabytes(c.Before)
	if c.After != nil {
		text += " -> " + gpucode.Megabytes(*c.After)
	}
	return text
}

// thinSummary ends the JSON document of thin.
type thinSummary struct {
	session.Summary
	Code    uint64 `json:"code"`
	Freed   uint64 `json:"freed"`
	Cut     uint64 `json:"cut"`
	Blanked int    `json:"blanked"`
	// Of the files with GPU code.
	Length change `json:"length"`
	Disk   change `json:"disk"`
	// With --image.
	Image *image.Sum `json:"image,omitempty"`
}

// removed says how much of the GPU code of a file, or of several, is a hole, and of how many store
// paths the hash is gone.
func removed(s *session.Session, entries, all int, sum *thinSummary) string {
	freed, code, blanked := sum.Freed, sum.Code, sum.Blanked
	var parts []string
	if entries > 0 || blanked == 0 && sum.Cut == 0 {
		verb := "removed"
		if s.DryRun {
			verb = "would remove"
		}
		parts = append(parts, fmt.Sprintf("%s %d of %s: %s", verb, entries,
			session.Count(all, "cubin or PTX", "cubins and PTX"), gpucode.PartOf(freed, code)))
	}
	if sum.Cut > 0 {
		parts = append(parts, gpucode.Megabytes(sum.Cut)+" shorter")
	}
	if blanked > 0 {
		parts = append(parts, session.Count(blanked, "store path", "store paths")+" blanked")
	}
	return strings.Join(parts, ", ")
}

// runThin thins the session's files. It returns command.ErrFailed where one failed.
func runThin(s *session.Session, o *thinning) error {
	var sum thinSummary
	sum.Length.After, sum.Disk.After = new(uint64), new(uint64)
	entries, all := 0, 0
	return (&session.Sweep[*thinned]{
		Options: tree.Options{Leftover: s.Leftover(), AnyLinked: true, Refuse: s.Refuse},
		Visit: func(f *tree.File) (*thinned, bool) {
			r := &thinned{Left: map[thin.Reason]int{}}
			result := edit.Result{Action: tree.Unchanged}
			if err := r.thin(f, o, s.DryRun, &result); err != nil {
				result = edit.Result{Action: tree.Failed, Err: f.Blame(err)}
			}
			passedOver := result.Action == tree.Skipped
			r.report(s, f, &result)
			return r, !passedOver || s.Named(f.Path) || s.Verbose
		},
		Tell: func(r *thinned) {
			sum.add(r)
			entries += r.Entries
			all += r.all
		},
		End: func(of *session.Summary, dropped int) (any, string) {
			of.Skipped += dropped
			sum.Summary = *of
			line := of.String() + ": " + removed(s, entries, all, &sum)
			if sum.Freed > 0 || sum.Cut > 0 {
				line += "; " + sum.Length.text("length")
				if sum.Disk.After != nil {
					line += "; " + sum.Disk.text("on the disk")
				}
			}
			return &sum, line
		},
	}).Run(s)
}

// report says what came of a file.
func (r *thinned) report(s *session.Session, f *tree.File, result *edit.Result) {
	r.Report = editors.Report(s, f, result, edit.State{}, edit.State{})
	r.Before, r.After = nil, nil
	if r.Action == tree.Edited {
		r.Line = removed(s, r.Entries, r.all, &thinSummary{Code: r.Code, Freed: r.Freed, Cut: r.Cut, Blanked: r.Blanked})
	}
	if r.Marked != nil && !*r.Marked {
		r.Warn = append(r.Warn, "the file has no room for a note of the GPUs that it was thinned for")
	}
	if r.Uncut != "" {
		r.Info = append(r.Info, r.Uncut)
	}
	if s.Log.IsLevelEnabled(logrus.DebugLevel) {
		for _, reason := range slices.Sorted(maps.Keys(r.Left)) {
			r.Info = append(r.Info, fmt.Sprintf("left: %s: %s", session.Count(r.Left[reason], "container", "containers"),
				reason.Text()))
		}
	}
}

// thin thins one file. Of what is no program or library, options are blanked alone.
func (r *thinned) thin(f *tree.File, asked *thinning, dryRun bool, result *edit.Result) error {
	skip := func(reason string) error {
		result.Action, result.Reason = tree.Skipped, reason
		return nil
	}
	switch {
	case f.Err != nil:
		return f.Err
	case f.SameAs != "":
		return skip("the same file as " + f.SameAs)
	case !gpucode.IsFile(f.Head()): // its length is not known
		return skip(gpucode.ErrNotCode.Error())
	}
	was, err := f.Length()
	if err != nil {
		return err
	}
	work, err := thin.Decide(f, was, f.Head(), asked.Options, asked.length, asked.debugFile)
	switch {
	case errors.Is(err, thin.ErrSkipped):
		return skip(err.Error())
	case err != nil:
		return err
	}
	r.decided(work, was)
	blocks := func(st *unix.Stat_t) *uint64 { n := uint64(st.Blocks) * 512; return &n } // stat(2)
	r.Disk = &change{*blocks(f.Stat()), blocks(f.Stat())}
	if work.Empty() {
		return nil
	}
	if !dryRun {
		replacing := tree.Replacing{Anew: work.Anew()}
		for _, part := range work.Removed() {
			replacing.Without = append(replacing.Without, tree.Span{Off: part[0], End: part[1]})
		}
		if err := f.Replace(replacing, func(w tree.Copy) error { return work.Write(w) }); err != nil {
			return err
		}
	}
	r.finished(work, was, result)
	var now unix.Stat_t
	if r.Disk.After = nil; !dryRun && unix.Stat(f.Path, &now) == nil {
		r.Disk.After = blocks(&now)
	}
	result.LeftLinks = f.OutsideLinks()
	return nil
}
