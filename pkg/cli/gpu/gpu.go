// Package gpu is the command `runpath gpu`, and the flag --for of all commands that compare code with GPUs.
package gpu

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/findings"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/tree"
)

// Command returns the command gpu.
func Command() *command.Command {
	return &command.Command{
		Name:   "gpu",
		Usage:  "list the GPU code of files: cubins, PTX, AMD's code objects",
		Common: []string{"for", "cuda", "strict", "json", "verbose"},
		Examples: `runpath gpu app
runpath gpu --for 8.6,9.0+PTX app`,
		ArgsUsage: "PATH...",
		Description: `Reads the headers of programs, libraries, objects, static archives and files of nvcc -fatbin;
nothing is unpacked. The code is listed by architecture. With --for the exit status is 1 if a file has GPU code but
none that one of the GPUs can run: its kernels stop there with error 209, "no kernel image is available", or 500,
"named symbol not found".`,
		Flags: []*command.Flag{For,
			strictFlag, {Name: "warn", Usage: "with --for: code that is missing is a warning"}, nixFlag, flags.Malformed,
			{Kind: command.String, Name: "cuda", Check: checkCUDA,
				Usage: "with --for: the driver supports CUDA `VERSION`, as nvidia-smi says; newer PTX counts as missing"},
			command.JSONFlag, flags.Jobs,
			command.VerboseFlag("with --for also show code that is not needed, and what is compiled at the first start"),
			command.QuietFlag("report problems only")},
		Action: session.With(func(s *session.Session, c *command.Line) error {
			targets, err := Targets(s, c, General)
			if err != nil {
				return s.OrStopped(err, noGPUs)
			}
			for _, flag := range []string{"cuda", "strict", "warn", "nix"} {
				if c.IsSet(flag) && targets == nil {
					return command.Misusef("--%s is for --for", flag)
				}
			}
			if c.Bool("strict") && c.Bool("warn") {
				return command.Misuse("--strict makes warnings errors, and --warn errors warnings: give one of them")
			}
			cuda, _ := gpucode.ParseVersion(c.String("cuda"))
			return (&gpuList{targets: targets, cuda: cuda, table: !s.InPackage, warn: c.Bool("warn"),
				strict: c.Bool("strict")}).run(s)
		}),
	}
}

func checkCUDA(version string) error { _, err := gpucode.ParseVersion(version); return err }

// These are for what compares code with GPUs.
var (
	strictFlag = &command.Flag{Name: "strict", Usage: "with --for: treat warnings as errors"}
	nixFlag    = flags.Nix("succeed where there is no GPU code, and print no table")
)

// gpuList is what is asked of the GPU code of files.
type gpuList struct {
	targets []gpucode.Target // that it is compared with; nil: none
	cuda    gpucode.Version  // that their driver supports; zero: not known
	warn    bool             // what is missing is a warning
	strict  bool             // warnings are errors
	table   bool             // of all code, at the end
}

// gpuFile is one element of "files" in the JSON document of gpu.
type gpuFile struct {
	session.Report
	Containers int               `json:"containers"`
	Bundles    int               `json:"bundles,omitempty"` // of code for AMD's GPUs
	Bytes      uint64            `json:"bytes"`             // of both, in the file
	Code       []gpucode.Listed  `json:"code"`
	Sections   []gpuSection      `json:"sections"`
	Damaged    []string          `json:"damaged"` // what is wrong with containers
	NoSections bool              `json:"no_sections,omitempty"`
	Thinned    []string          `json:"thinned,omitempty"` // for which GPUs "runpath thin" has left code
	Findings   []finding.Finding `json:"findings,omitempty"`

	sum    gpucode.Sum
	judged bool // it has code of a maker whose GPUs were asked for
}

// gpuSection is what a section has.
type gpuSection struct {
	Name       string `json:"name"`
	Containers int    `json:"containers"`
	Bundles    int    `json:"bundles,omitempty"`
	Bytes      uint64 `json:"bytes"`
	// Relocatable is device code that is loaded only where the linked cubins are not for the GPU.
	Relocatable bool             `json:"relocatable,omitempty"`
	Code        []gpucode.Listed `json:"code"`

	sum gpucode.Sum
}

// gpuSummary ends the JSON document of gpu.
type gpuSummary struct {
	Files      int              `json:"files"` // with GPU code
	Failed     int              `json:"failed"`
	Containers int              `json:"containers"`
	Bundles    int              `json:"bundles,omitempty"`
	Bytes      uint64           `json:"bytes"`
	Code       []gpucode.Listed `json:"code"`
	Errors     int              `json:"errors"` // findings
	Warnings   int              `json:"warnings"`
	Notes      int              `json:"notes"`
	Stopped    string           `json:"stopped,omitempty"`

	sum gpucode.Sum
}

// noGPUs is the summary of a run that ended before it looked at files.
func noGPUs(why string) any { return &gpuSummary{Code: []gpucode.Listed{}, Stopped: why} }

func (s *gpuSummary) String() string {
	line := session.Count(s.Files, "file", "files") + " with GPU code"
	if s.Containers > 0 || s.Bundles == 0 {
		line += ", " + session.Count(s.Containers, "container", "containers")
	}
	if s.Bundles > 0 {
		line += ", " + session.Count(s.Bundles, "bundle", "bundles")
	}
	line += ", " + gpucode.Megabytes(s.Bytes)
	if s.Errors > 0 {
		line += fmt.Sprintf(": %s", session.Count(s.Errors, "error", "errors"))
	}
	if s.Warnings > 0 {
		line += fmt.Sprintf(": %s", session.Count(s.Warnings, "warning", "warnings"))
	}
	if s.Failed > 0 {
		line += fmt.Sprintf("; %d could not be read", s.Failed)
	}
	return line
}

// run lists the GPU code of each file and of all together. It returns
// command.ErrFailed where a file could not be read, or has no code for one of the targets.
func (l *gpuList) run(s *session.Session) error {
	var sum gpuSummary
	var files []*gpuFile // for the table
	failed, judged := 0, 0
	run := session.Sweep[*gpuFile]{
		Options: tree.Options{FollowArguments: true},
		Visit: func(f *tree.File) (*gpuFile, bool) {
			r := newGPUFile(f.Path)
			if f.Err == nil && (f.SameAs != "" || !gpucode.IsFile(f.Head())) {
				r.Action, r.Reason = tree.Skipped, gpucode.ErrNotCode.Error()
				return r, f.SameAs == "" && l.targets == nil && s.Singled(f.Path)
			}
			err := r.read(f, l)
			if r.Fail(err); s.Tolerates(f, err) {
				r.Action, r.Level = tree.Skipped, logrus.WarnLevel
			}
			if s.Tolerant { // it is told of as damaged
				r.Findings = slices.DeleteFunc(r.Findings, func(f finding.Finding) bool { return f.ID == finding.Malformed })
			}
			return r, r.Reason != "" || r.Containers+r.Bundles > 0
		},
		Tell: func(r *gpuFile) {
			switch {
			case r.Reason == gpucode.ErrNotCode.Error():
				return
			case r.Reason != "" && r.Findings == nil:
				failed++
				return
			}
			if r.Reason == "" {
				sum.Files++
			}
			sum.Containers += r.Containers
			sum.Bundles += r.Bundles
			if r.judged {
				judged++
			}
			sum.Bytes += r.Bytes
			sum.sum.Merge(r.sum)
			if r.NoSections {
				r.Warn = append(r.Warn, "has no section headers, which say what its GPU code is for")
			}
			for _, d := range r.Damaged {
				r.Warn = append(r.Warn, "GPU code: "+d)
			}
			for i := range r.Findings {
				switch r.Findings[i].Severity {
				case finding.Error:
					sum.Errors++
				case finding.Warning:
					sum.Warnings++
				default:
					sum.Notes++
				}
				findings.Print(s, r.Path, &r.Findings[i], r.Findings[i].Remedy)
			}
			if l.table && !s.JSON && r.Reason == "" {
				files = append(files, r)
			}
		},
		Nothing: func() []*gpuFile {
			if l.targets == nil || judged > 0 || failed > 0 {
				return nil
			}
			return l.nothing(s, sum.Files > 0)
		},
		End: func(all *session.Summary, _ int) (any, string) {
			sum.Failed, sum.Stopped, sum.Code = all.Failed, all.Stopped, sum.sum.List()
			return &sum, gpuTable(files, sum.sum) + sum.String()
		},
	}
	err := run.Run(s)
	if err == nil && sum.Errors > 0 {
		err = command.ErrFailed
	}
	return err
}

// nothing says of each path that there was nothing to compare; other, that there is code for the GPUs of another maker.
func (l *gpuList) nothing(s *session.Session, other bool) (all []*gpuFile) {
	code := "GPU code"
	if other {
		code = "code for GPUs of this maker"
	}
	for _, path := range s.Paths {
		text, fix := "it has no "+code, remedy.Do("name the program or library that has some")
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			text, fix = "there is no "+code+" below it", remedy.Do("name the directory that holds the programs and libraries")
		}
		r := newGPUFile(path)
		r.Action, r.Reason, r.Level = tree.Skipped, "no "+code, logrus.TraceLevel
		r.Findings = []finding.Finding{{ID: finding.NothingChecked, Severity: finding.Warning,
			Message: "nothing was checked: " + text, Remedy: fix}}
		if l.strict && !s.InPackage {
			r.Findings[0].Severity = finding.Error
		}
		all = append(all, r)
	}
	return all
}

func newGPUFile(path string) *gpuFile {
	return &gpuFile{Report: session.Report{Path: path, Action: tree.Unchanged}, Code: []gpucode.Listed{},
		Sections: []gpuSection{}, Damaged: []string{}}
}

// read lists a file's code.
func (r *gpuFile) read(f *tree.File, l *gpuList) error {
	if f.Err != nil {
		return f.Err
	}
	size, err := f.Length()
	if err != nil {
		return err
	}
	code, err := gpucode.Read(f, size, f.Head())
	if err != nil {
		return f.Blame(err)
	}
	r.Containers, r.Bytes, r.NoSections, r.Thinned = len(code.Containers), code.Bytes(), code.Sectionless,
		code.ThinnedFor()
	section := func(name string, relocatable bool, size uint64) *gpuSection {
		at := slices.IndexFunc(r.Sections, func(s gpuSection) bool { return s.Name == name && s.Relocatable == relocatable })
		if at < 0 {
			at = len(r.Sections)
			r.Sections = append(r.Sections, gpuSection{Name: name, Relocatable: relocatable})
		}
		r.Sections[at].Bytes += size
		return &r.Sections[at]
	}
	r.Bundles = len(code.Bundles)
	for i := range code.Bundles {
		b := &code.Bundles[i]
		in := section(b.Section, false, b.Size)
		in.Bundles++
		in.sum.AddBundle(b)
		if b.Damage != nil {
			r.Damaged = append(r.Damaged, b.Damage.Error())
		}
	}
	for i := range code.Containers {
		c := &code.Containers[i]
		in := section(c.Section, c.Relocatable, c.Size)
		in.Containers++
		in.sum.Add(c)
		if c.Damage != nil {
			r.Damaged = append(r.Damaged, c.Damage.Error())
		}
	}
	for i := range r.Sections {
		section := &r.Sections[i]
		section.Code = section.sum.List()
		r.sum.Merge(section.sum)
	}
	r.Code = r.sum.List()
	nvidia, amd := gpucode.SplitTargets(l.targets)
	if r.judged = nvidia != nil && r.Containers > 0 || amd != nil && r.Bundles > 0; r.judged {
		r.Findings = append(r.Findings, explain.Code(code, l.targets, l.cuda)...)
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; l.warn && f.ID == finding.GPUCodeMissing {
			f.Severity = finding.Warning
		} else if l.strict && f.Severity == finding.Warning {
			f.Severity = finding.Error
		}
	}
	return nil
}

// thinned says for which GPUs a file has been thinned.
func (r *gpuFile) thinned() string {
	if len(r.Thinned) == 0 {
		return ""
	}
	return ", thinned for " + strings.Join(r.Thinned, " and ")
}

// gpuTable returns a line for each kind of code, where there is one file; else a line for
// each file, with a column for each architecture.
func gpuTable(files []*gpuFile, sum gpucode.Sum) string {
	if len(files) == 0 {
		return ""
	}
	var rows [][]string
	if len(files) == 1 {
		f := files[0]
		for _, c := range f.Code {
			isa := ""
			if c.ISA != "" {
				isa = "ISA " + c.ISA
			} else if c.Packed {
				isa = "unpacked"
			}
			rows = append(rows, []string{c.Arch, c.Kind, isa, fmt.Sprint(c.Entries), gpucode.Megabytes(c.Bytes)})
		}
		return command.Printable(f.Path) + f.thinned() + "\n" + columns(rows, 3)
	}
	// One column for PTX of an architecture, whatever its ISA.
	var heads []gpucode.Code
	same := func(a gpucode.Code) func(gpucode.Code) bool {
		return func(b gpucode.Code) bool { return a.Kind == b.Kind && a.Arch == b.Arch && a.AMD == b.AMD }
	}
	row := func(first string, s gpucode.Sum, last string) []string {
		cells := []string{first}
		for _, h := range heads {
			var n uint64
			for _, c := range s {
				if same(h)(c) {
					n += c.Bytes
				}
			}
			cell := ""
			if n > 0 {
				cell = fmt.Sprintf("%.1f", float64(n)/1e6)
			}
			cells = append(cells, cell)
		}
		return append(cells, last)
	}
	for _, c := range sum {
		if !slices.ContainsFunc(heads, same(c)) {
			heads = append(heads, c)
		}
	}
	head := []string{"MB"}
	for i := range heads {
		head = append(head, heads[i].Name())
	}
	rows = append(rows, append(head, ""))
	var total uint64
	for _, f := range files {
		total += f.Bytes
		rows = append(rows, row(fmt.Sprintf("%.1f", float64(f.Bytes)/1e6), f.sum, command.Printable(f.Path)+f.thinned()))
	}
	rows = append(rows, row(fmt.Sprintf("%.1f", float64(total)/1e6), sum, "together"))
	return columns(rows, 0)
}

// columns sets rows in columns: those before left from the left, the others from the right,
// but the last where left is 0, which stands at the end of its line.
func columns(rows [][]string, left int) string {
	var width []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			switch {
			case i < left:
				fmt.Fprintf(&line, "  %-*s", width[i], cell)
			case left == 0 && i == len(r)-1:
				line.WriteString("  " + cell)
			default:
				fmt.Fprintf(&line, "  %*s", width[i], cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// HasCodeFor reports whether one of the session's files has code for a GPU.
func HasCodeFor(s *session.Session, gpu gpucode.Capability) bool {
	found := false
	session.Walk(s, tree.Options{}, func(f *tree.File) (bool, bool) {
		var sum gpuFile
		if sum.read(f, &gpuList{}) != nil {
			return false, false
		}
		return slices.ContainsFunc(sum.sum, func(c gpucode.Code) bool { return c.Capability == gpu }), true
	}, func(has bool) { found = found || has })
	return found
}
