package manifest

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

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

// diff says what differs between the two arguments. Where one of them cannot be read, nothing is compared.
func (r *call) diff() error {
	var of [2]manifest.Document
	for i, arg := range r.Line.Args {
		var files []*manifest.File
		d, err := r.read([]string{arg}, func(f *manifest.File) { files = append(files, f) })
		if err != nil {
			return command.Misuse(err.Error())
		}
		d.Files = files
		of[i] = d
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
	if r.JSON {
		if changes == nil {
			changes = []manifest.Change{}
		}
		text, err := command.JSON(&difference{manifest.Version, "manifest difference", changes, sum}, "")
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", text)
		return nil
	}
	(&writer{out: out, all: r.Verbose, quiet: r.Quiet, markdown: r.Bool("markdown")}).write(changes, &sum)
	return nil
}

// writer writes changes as text.
type writer struct {
	out      *bufio.Writer
	all      bool // small ones too, and of a package more than a screen
	quiet    bool // the summary alone
	markdown bool
}

// line is a change of several files.
type line struct {
	*manifest.Change
	files []string
	nth   int // of its kind in its package
	order int
}

// The screen: how many columns a row has, how many rows a package takes without its heading, and how many files of a
// line are named.
const (
	columns    = 100
	screenRows = 20
	mostFiles  = 3
)

func (w *writer) write(changes []manifest.Change, sum *diffSummary) {
	small := 0
	var lines []*line
	same := map[[4]string]*line{}
	nth := map[[2]string]int{}
	for i := range changes {
		c := &changes[i]
		if c.Small() && !w.all {
			small++
			continue
		}
		key := [4]string{c.Package, c.Kind, c.Text}
		if w.all {
			key[3] = c.Details
		}
		l := same[key]
		if l == nil {
			l = &line{Change: c, nth: nth[[2]string{c.Package, c.Kind}], order: len(lines)}
			nth[[2]string{c.Package, c.Kind}]++
			same[key], lines = l, append(lines, l)
		}
		if c.File != "" {
			l.files = append(l.files, c.File)
		}
	}
	for len(lines) > 0 && !w.quiet {
		n := slices.IndexFunc(lines, func(l *line) bool { return l.Package != lines[0].Package })
		if n < 0 {
			n = len(lines)
		}
		w.section(lines[:n])
		lines = lines[n:]
	}
	w.summary(sum, small)
}

// section writes what differs in a package: as much as a screen has room for, of each kind the first before the second.
func (w *writer) section(lines []*line) {
	w.head(lines[0].Package)
	texts, rows := make([]string, len(lines)), 0
	for i, l := range lines {
		if texts[i] = w.line(l); !w.markdown {
			texts[i] = command.Signs(texts[i])
		}
	}
	turn := slices.Clone(lines)
	slices.SortStableFunc(turn, func(a, b *line) int { return cmp.Compare(a.nth, b.nth) })
	shown := map[*line]bool{}
	for _, l := range turn {
		if rows += 1 + utf8.RuneCountInString(texts[l.order-lines[0].order])/columns; rows > screenRows && !w.all && !w.markdown {
			break
		}
		shown[l] = true
	}
	for i, l := range lines {
		if shown[l] {
			w.out.WriteString(texts[i])
		}
	}
	if more := len(lines) - len(shown); more > 0 {
		fmt.Fprintf(w.out, "  and %s (-v)\n", strings.Replace(remedy.Count(more, "line"), " line", " more line", 1))
	}
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

// line is the text of a line, with as many names of files as there is room for.
func (w *writer) line(l *line) string {
	name, begin := command.Printable, "  "
	if w.markdown {
		name, begin = code, "- "
	}
	var text strings.Builder
	for i, part := range l.Parts() {
		if i%2 == 1 && part != "" {
			part = name(part)
		}
		text.WriteString(part)
	}
	if w.all && l.Details != "" {
		text.WriteString(": " + name(l.Details))
	}
	said := text.String()
	if len(l.files) > 1 {
		said = plural(said)
	}
	for most := mostFiles; ; most-- {
		var names []string
		for _, f := range l.files[:min(len(l.files), most)] {
			names = append(names, name(f))
		}
		full := ""
		switch n := len(l.files); {
		case n == 0:
			full = begin + said
		case n <= most:
			full = begin + remedy.List(names) + ": " + said
		default:
			full = fmt.Sprintf("%s%s: %s (%s and %d more)", begin, remedy.Count(n, "file"), said, strings.Join(names, ", "),
				n-most)
		}
		if most == 1 || utf8.RuneCountInString(full) <= columns {
			return full + "\n"
		}
	}
}

// plural is what is said of one file, said of several.
func plural(text string) string {
	for _, adverb := range []string{"", "now ", "no longer "} {
		rest, ok := strings.CutPrefix(text, adverb)
		verb, rest, _ := strings.Cut(rest, " ")
		if many := map[string]string{"is": "are", "has": "have", "was": "were", "does": "do"}[verb]; ok && many != "" {
			return adverb + many + " " + rest
		}
		if ok && slices.Contains([]string{"needs", "names", "opens", "loads", "finds", "takes", "leads", "starts"}, verb) {
			return adverb + strings.TrimSuffix(verb, "s") + " " + rest
		}
	}
	return text
}

// summary counts the changes by kind.
func (w *writer) summary(sum *diffSummary, small int) {
	if sum.Equal {
		w.out.WriteString("nothing that counts differs\n")
		return
	}
	unit, of := 1e6, "MB"
	if max(sum.Bytes, -sum.Bytes, sum.GPUBytes, -sum.GPUBytes) < 1e6 {
		unit, of = 1e3, "kB"
	}
	head := fmt.Sprintf("%s, %+.1f %s, GPU code %+.1f %s", remedy.Count(sum.Changes, "change"), float64(sum.Bytes)/unit, of,
		float64(sum.GPUBytes)/unit, of)
	var kinds []string
	if w.markdown {
		fmt.Fprintf(w.out, "\n**%s**\n\n| changes | of |\n| ---: | --- |\n", head)
	}
	for _, k := range manifest.Kinds {
		switch n := sum.Kinds[k.ID]; {
		case n == 0:
		case w.markdown:
			fmt.Fprintf(w.out, "| %d | %s |\n", n, k.Words)
		default:
			kinds = append(kinds, fmt.Sprintf("%s %d", k.Words, n))
		}
	}
	if !w.markdown {
		fmt.Fprintf(w.out, "%s: %s\n", head, strings.Join(kinds, ", "))
	}
	if small > 0 {
		fmt.Fprintf(w.out, "%s%s of less than 1 MB not shown (-v)\n", map[bool]string{true: "\n"}[w.markdown],
			remedy.Count(small, "change"))
	}
}

// code is a name as a code span of Markdown, in which nothing is a mention or markup: CommonMark, "Code spans".
func code(name string) string {
	name = command.Printable(name)
	fence, run := "`", 0
	for _, c := range name {
		if run++; c != '`' {
			run = 0
		}
		if run >= len(fence) {
			fence += "`"
		}
	}
	if strings.HasPrefix(name, "`") || strings.HasSuffix(name, "`") || strings.HasPrefix(name, " ") {
		name = " " + name + " " // of which a reader takes one off at each end
	}
	return fence + name + fence
}
