package references

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/references"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/tree"
)

// Command returns the command references.
func Command() *command.Command {
	return &command.Command{
		Name:  "references",
		Usage: "list the store paths and build directories that files name",
		Examples: `runpath references result
runpath references --to /nix/store/...-gcc-14 result
runpath references --fail-on "$PWD/build" app`,
		ArgsUsage: "PATH...",
		Description: `A store path that a package names stays in its closure. All files are read whole. Lists for each
store path the files that name it, and the place in them: interpreter, run path, needed, note, resolution note,
read-only data, data, options of GPU code (nvcc's command line), debug information, script, other. A file's own store
path is left out. For files in /nix/store, nix-store is asked how much the closure would lose. Paths that are
compressed, or reduced to their hash, are not found.`,
		Flags: []*command.Flag{
			{Kind: command.String, Name: "to",
				Usage: "list only references to `STOREPATH`, which may be a path below one, or the file's own"},
			{Kind: command.List, Name: "fail-on", Check: checkReferencePattern,
				Usage: "list only what `PATTERN` matches, and fail if there is any: /build and what is below it, '/home/*/src', " +
					"or a part of a path such as '*-cuda_nvcc-*' (repeatable)"},
			command.JSONFlag, flags.Jobs, command.QuietFlag("report problems only"),
		},
		Action: session.With(func(s *session.Session, c *command.Line) error {
			to := ""
			if c.IsSet("to") {
				if to = store.Path(c.String("to")); to == "" {
					return command.Misusef("--to %s: not a store path", c.String("to"))
				}
			}
			var failOn []references.Pattern
			for _, text := range c.StringSlice("fail-on") {
				p, _ := references.ParsePattern(text) // which was checked
				failOn = append(failOn, p)
			}
			return listReferences(s, to, failOn)
		}),
	}
}

func checkReferencePattern(text string) error { _, err := references.ParsePattern(text); return err }

// referringFile is one element of "files" in the JSON document of references.
type referringFile struct {
	session.Report
	References []references.Reference `json:"references"`
}

// referredObject is one element of "objects" in the summary of references.
type referredObject struct {
	Object string `json:"object,omitempty"` // "" for build directories
	Files  int    `json:"files"`
	// Bytes are what the closure of the files' package loses without it; null where that is not known.
	Bytes *int64          `json:"bytes"`
	text  strings.Builder // the lines of its files
}

// referenceSummary ends the JSON document of references.
type referenceSummary struct {
	Files   int               `json:"files"` // that name something
	Failed  int               `json:"failed"`
	Objects []*referredObject `json:"objects"`
	Stopped string            `json:"stopped,omitempty"`
	others  string            // what directories that are in no store are called
}

func (s *referenceSummary) String() string {
	var b strings.Builder
	for _, o := range s.Objects {
		name := o.Object
		if name == "" {
			name = s.others
		}
		b.WriteString(command.Printable(name))
		if o.Bytes != nil {
			fmt.Fprintf(&b, ": without it the closure loses %s", gpucode.Megabytes(uint64(*o.Bytes)))
		}
		b.WriteString("\n" + o.text.String())
	}
	stores := len(slices.DeleteFunc(slices.Clone(s.Objects), func(o *referredObject) bool { return o.Object == "" }))
	fmt.Fprintf(&b, "%s named in %s", session.Count(stores, "store path", "store paths"),
		session.Count(s.Files, "file", "files"))
	if s.Failed > 0 {
		fmt.Fprintf(&b, "; %d could not be read", s.Failed)
	}
	return b.String()
}

// listReferences prints what the session's files name, or of that what is in one store path, or what patterns match:
// then it fails where there is any.
func listReferences(s *session.Session, to string, failOn []references.Pattern) error {
	sum := referenceSummary{others: "build directories"}
	if failOn != nil {
		sum.others = "in no store"
	}
	saved := audit.Saved()
	run := session.Sweep[*referringFile]{
		Options: tree.Options{FollowArguments: true},
		Visit: func(f *tree.File) (*referringFile, bool) {
			r := &referringFile{session.Report{Path: f.Path, Action: tree.Unchanged}, []references.Reference{}}
			if f.Err == nil && f.SameAs != "" {
				return nil, false
			}
			r.Fail(r.read(f, to, failOn))
			return r, r.Reason != "" || len(r.References) > 0
		},
		Tell: func(r *referringFile) {
			if r.Action == tree.Failed {
				return
			}
			sum.Files++
			sum.add(r, saved)
		},
		End: func(all *session.Summary, dropped int) (any, string) {
			sum.Failed, sum.Stopped = all.Failed, all.Stopped
			if failOn != nil && dropped+sum.Files+sum.Failed == 0 {
				s.Log.Warn("nothing was checked: there are no files")
			}
			return &sum, sum.String()
		},
	}
	sum.Objects = []*referredObject{}
	err := run.Run(s)
	if err == nil && failOn != nil && sum.Files > 0 {
		err = command.ErrFailed
	}
	return err
}

// read lists what a file names.
func (r *referringFile) read(f *tree.File, to string, failOn []references.Pattern) error {
	if f.Err != nil {
		return f.Err
	}
	size, err := f.Length()
	if err != nil {
		return err
	}
	all, err := references.Find(f, size, f.Head(), failOn...)
	if err != nil {
		return f.Blame(err)
	}
	own := store.Path(f.Path)
	for _, x := range all {
		if failOn != nil && !slices.ContainsFunc(failOn, func(p references.Pattern) bool { return p.Match(x.Path) }) {
			continue
		}
		if to != "" && x.Object == to || to == "" && (x.Object == "" || x.Object != own) {
			r.References = append(r.References, x)
		}
	}
	return nil
}

// stored returns the path in this machine's store that a file is in, and "" where it is in none.
func stored(file string) string {
	real, err := regular.Real(file)
	if err != nil {
		return ""
	}
	return store.In(cmp.Or(os.Getenv("NIX_STORE_DIR"), "/nix/store"), real)
}

// add counts what a file names.
func (s *referenceSummary) add(r *referringFile, saved func(pkg, ref string) (int64, bool)) {
	last := ""
	for i, x := range r.References {
		at := slices.IndexFunc(s.Objects, func(o *referredObject) bool { return o.Object == x.Object })
		if at < 0 {
			at = len(s.Objects)
			o := &referredObject{Object: x.Object}
			if own := stored(r.Path); own != "" && x.Object != "" {
				if n, ok := saved(own, x.Object); ok {
					o.Bytes = &n
				}
			}
			s.Objects = append(s.Objects, o)
		}
		o := s.Objects[at]
		if i == 0 || x.Object != last {
			o.Files++
		}
		last = x.Object
		line := fmt.Sprintf("  %s: %s: %s", command.Printable(r.Path), x.Place, command.Printable(x.Path))
		if x.Times > 1 {
			line += fmt.Sprintf(", %d times", x.Times)
		}
		if x.Unused {
			line += ": it holds nothing that the file needs"
		}
		o.text.WriteString(line + "\n")
	}
}
