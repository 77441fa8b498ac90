package manifest

import (
	"bufio"
	"fmt"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/manifest"
	"cuda-runpath/pkg/remedy"
)

// difference is the JSON document of --diff.
type difference struct {
	Version  int               `json:"version"`
	Document string            `json:"document"`
	Changes  []manifest.Change `json:"changes"`
	Summary  diffSummary       `json:"summary"`
}

type diffSummary struct {
	Equal    bool           `json:"equal"`
	Changes  int            `json:"changes"`
	Kinds    map[string]int `json:"kinds"`
	Bytes    int64          `json:"bytes"`     // that the packages are larger, or smaller
	GPUBytes int64          `json:"gpu_bytes"` // of it in GPU code
	Failed   int            `json:"failed"`    // files that could not be read
}

// diff says what differs between the two arguments.
func (r *call) diff() error {
	var of [2]manifest.Document
	for i, arg := range r.Line.Args {
		d := &of[i]
		var err error
		if d.Packages, d.Summary, err = r.read([]string{arg}, func(f *manifest.File) {
			d.Files = append(d.Files, f)
		}); err != nil {
			return err
		}
		if d.Summary.Stopped != "" {
			return nil // which was said
		}
	}
	changes := manifest.Compare(&of[0], &of[1])
	sum := diffSummary{Equal: len(changes) == 0, Changes: len(changes), Kinds: map[string]int{},
		Failed:   of[0].Summary.Failed + of[1].Summary.Failed,
		Bytes:    of[1].Summary.Bytes - of[0].Summary.Bytes,
		GPUBytes: int64(of[1].Summary.GPUBytes) - int64(of[0].Summary.GPUBytes)}
	for i := range changes {
		sum.Kinds[changes[i].Kind]++
	}
	out := bufio.NewWriter(r.Line.Stdout)
	defer out.Flush()
	r.failed = r.failed || !sum.Equal
	switch {
	case r.JSON:
		if changes == nil {
			changes = []manifest.Change{}
		}
		text, err := command.JSON(&difference{1, "manifest difference", changes, sum}, "")
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", text)
	case r.Bool("markdown"):
		(&writer{out: out, all: r.Verbose, quiet: r.Quiet, markdown: true}).write(changes, &sum)
	default:
		(&writer{out: out, all: r.Verbose, quiet: r.Quiet}).write(changes, &sum)
	}
	return nil
}

// writer writes changes as text.
type writer struct {
	out      *bufio.Writer
	all      bool // small ones too
	quiet    bool // the summary alone
	markdown bool
}

// line is a change of several files.
type line struct {
	*manifest.Change
	files []string
	bytes int64
}

// mostFiles is how many files of a line are named.
const mostFiles = 3

func (w *writer) write(changes []manifest.Change, sum *diffSummary) {
	small := 0
	var lines []*line
	same := map[[3]string]*line{}
	for i := range changes {
		c := &changes[i]
		if c.Small() && !w.all {
			small++
			continue
		}
		key := [3]string{c.Package, c.Kind, c.Text}
		l := same[key]
		if l == nil {
			l = &line{Change: c}
			same[key], lines = l, append(lines, l)
		}
		if c.File != "" {
			l.files = append(l.files, c.File)
		}
	}
	last := "\x00"
	for _, l := range lines {
		if w.quiet {
			break
		}
		if l.Package != last {
			last = l.Package
			w.head(last)
		}
		w.line(l)
	}
	w.summary(sum, small)
}

// head begins a package.
func (w *writer) head(pkg string) {
	switch {
	case w.markdown && pkg == "":
		w.out.WriteString("\n#### Versions\n\n")
	case w.markdown:
		fmt.Fprintf(w.out, "\n#### %s\n\n", code(pkg))
	case pkg == "":
		w.out.WriteString("versions\n")
	default:
		fmt.Fprintf(w.out, "%s\n", command.Printable(pkg))
	}
}

func (w *writer) line(l *line) {
	text, begin := command.Printable(l.Text), "  "
	name := command.Printable
	if w.markdown {
		text, begin, name = escaped(text), "- ", code
	}
	var names []string
	for _, f := range l.files[:min(len(l.files), mostFiles)] {
		names = append(names, name(f))
	}
	switch n := len(l.files); {
	case n == 0:
		fmt.Fprintf(w.out, "%s%s\n", begin, text)
	case n == 1:
		fmt.Fprintf(w.out, "%s%s: %s\n", begin, names[0], text)
	case n > mostFiles:
		fmt.Fprintf(w.out, "%s%s: %s (%s and %d more)\n", begin, remedy.Count(n, "file"), text, strings.Join(names,
			", "), n-mostFiles)
	default:
		fmt.Fprintf(w.out, "%s%s: %s\n", begin, remedy.List(names), text)
	}
}

// summary counts the changes by kind.
func (w *writer) summary(sum *diffSummary, small int) {
	if sum.Equal {
		w.out.WriteString("nothing that counts differs\n")
		return
	}
	head := remedy.Count(sum.Changes, "change") + ", " + manifest.Signed(sum.Bytes) + ", GPU code " +
		manifest.Signed(sum.GPUBytes)
	if w.markdown {
		fmt.Fprintf(w.out, "\n**%s**\n\n| changes | of |\n| ---: | --- |\n", head)
	} else {
		fmt.Fprintf(w.out, "%s:\n", head)
	}
	for _, k := range manifest.Kinds {
		n := sum.Kinds[k.ID]
		switch {
		case n == 0:
		case w.markdown:
			fmt.Fprintf(w.out, "| %d | %s |\n", n, k.Words)
		default:
			fmt.Fprintf(w.out, "%6d  %s\n", n, k.Words)
		}
	}
	if small > 0 {
		fmt.Fprintf(w.out, "%s%s of less than 1 MB not shown (-v)\n", map[bool]string{true: "\n"}[w.markdown],
			remedy.Count(small, "change"))
	}
}

// code is a name between backquotes.
func code(name string) string {
	name = command.Printable(name)
	if strings.Contains(name, "`") {
		return "`` " + name + " ``"
	}
	return "`" + name + "`"
}

// escaped is text in which no character is Markdown's.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", "&lt;", ">", "&gt;", "[", `\[`, "|",
		`\|`).Replace(text)
}
