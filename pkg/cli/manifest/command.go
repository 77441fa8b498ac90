// Package manifest is the command `runpath manifest`.
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/manifest"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/tree"
)

// Command returns the command manifest.
func Command() *command.Command {
	return &command.Command{
		Name:  "manifest",
		Usage: "list what is in packages as JSON, or what differs between two",
		Examples: `runpath manifest result > new.json
runpath manifest --html set.html torch.json cudnn.json > set.json
runpath manifest --diff old.json new.json`,
		Common:    []string{"diff", "markdown", "html", "json", "verbose"},
		ArgsUsage: "PATH...",
		Description: `Lists for each ELF file: machine, kind, soname, needed libraries, run path, interpreter, what each
library resolves to, what it opens by name, resolution note, GPU code by architecture, the store paths that it names,
size and build ID; and the sums for each package, which is a PATH. The same files give the same bytes, on every
machine with the same libraries. A PATH may be a manifest, which is joined with the others. With --diff it says in
words what differs between two manifests or directories for the package's users; another hash in the store does not
count, nor does a build ID. The exit status is then 1 if they differ.`,
		Flags: []*command.Flag{
			{Name: "diff", Usage: "say what differs between two: manifests, directories or store paths"},
			{Name: "markdown", Usage: "with --diff: print Markdown, for a pull request"},
			{Kind: command.String, Name: "html",
				Usage: "also write a page about the packages to `FILE`, - for stdout in place of the document"},
			{Kind: command.String, Name: "closure",
				Usage: "read what each reference costs from `FILE`, in JSON: exportReferencesGraph, or nix path-info " +
					"--json --recursive"},
			command.RootFlag, flags.Malformed, command.JSONFlag, flags.Jobs,
			command.VerboseFlag("with --diff: all, also files that are a little larger or smaller"),
			command.QuietFlag("with --diff: the summary only"),
		},
		Action: session.With(func(s *session.Session, c *command.Line) error { return (&call{Session: s, Line: c}).run() }),
	}
}

// call is one run of the command.
type call struct {
	*session.Session
	*command.Line
	failed bool
}

func (r *call) run() error {
	c, diff := r.Line, r.Bool("diff")
	for _, flag := range []string{"markdown", "verbose", "quiet"} {
		if c.IsSet(flag) && !diff {
			return command.Misusef("--%s is for --diff", flag)
		}
	}
	r.Document = true
	switch {
	case diff && len(c.Args) != 2:
		return command.Misusef("--diff compares two manifests or directories: %d are given", len(c.Args))
	case diff && c.IsSet("html"):
		return command.Misuse("--html is for manifests, --markdown for --diff")
	case c.Bool("json") && (c.Bool("markdown") || c.String("html") == "-"):
		return command.Misuse("stdout takes one document")
	}
	var err error
	if diff {
		err = r.diff()
	} else {
		err = r.list()
	}
	if err == nil && r.failed {
		err = command.ErrFailed
	}
	return err
}

// listed says what is wrong with a file.
func (r *call) listed(f *manifest.File) {
	entry := r.Log.WithField("path", strings.TrimPrefix(f.Package+"/"+f.Path, "./"))
	switch {
	case f.Kind == manifest.Malformed && r.Tolerant:
		entry.Warn(f.Error)
	case f.Kind == manifest.Malformed, f.Kind == manifest.Unread:
		r.failed = true
		entry.Error(f.Error)
	}
}

// mostGraph bounds the files of --closure, in bytes.
const mostGraph = 256 << 20

// document opens an argument that is to be a manifest: a pipe, or a file that begins as JSON. It returns nil for any
// other, and an error for what cannot be opened.
func document(path string) (*os.File, error) {
	st, err := os.Stat(path)
	if err != nil || st.IsDir() {
		return nil, err
	}
	if st.Mode()&os.ModeNamedPipe != 0 {
		return os.Open(path)
	}
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	begins := make([]byte, 64)
	n, _ := f.ReadAt(begins, 0)
	if !bytes.HasPrefix(bytes.TrimLeft(begins[:n], " \t\r\n"), []byte("{")) {
		f.Close()
		return nil, nil
	}
	return f, nil
}

// read calls tell for each file of some paths and manifests, in order, and returns the rest.
func (r *call) read(args []string, tell func(*manifest.File)) (doc manifest.Document, err error) {
	var paths []string
	var documents []*os.File
	for _, p := range args {
		f, err := document(p)
		switch {
		case f != nil:
			documents = append(documents, f)
			defer f.Close()
		case err != nil && r.Bool("diff"):
			return doc, fmt.Errorf("%w: nothing is compared", err)
		default:
			paths = append(paths, p)
		}
	}
	sum := &doc.Summary
	doc.GPUs = manifest.Asked()
	if len(paths) > 0 {
		reader, err := manifest.NewReader(r.String("root"), paths)
		if err != nil {
			return doc, err
		}
		var saved func(pkg, ref string) (int64, bool)
		if at := r.String("closure"); at != "" {
			text, err := regular.Read(at, mostGraph)
			if err != nil {
				return doc, fmt.Errorf("--closure: %w", err)
			}
			graph, err := audit.ReadGraph(text)
			if err != nil {
				return doc, fmt.Errorf("--closure %s: %w", at, err)
			}
			saved = graph.Saved
		}
		stop := r.Progress(func() string { return fmt.Sprintf("%d files read", reader.Listed()) })
		err = reader.Walk(r.Line.Context, r.Jobs, func(f *manifest.File) {
			r.listed(f)
			tell(f)
		})
		stop()
		doc.Packages = reader.Packages(saved)
		*sum = *reader.Summary()
		var stopped *tree.Stopped
		if errors.As(err, &stopped) {
			sum.Stopped, r.failed = err.Error(), true
			r.Log.Error(err)
			return doc, nil
		} else if err != nil {
			return doc, err
		}
		if st, err := os.Stat(paths[0]); r.Bool("diff") && sum.Files == 0 && err == nil && !st.IsDir() {
			return doc, fmt.Errorf("%s: neither a directory nor an ELF file, wrapper or manifest: nothing is compared", paths[0])
		}
	}
	have := map[string]bool{}
	for _, p := range doc.Packages {
		have[p.Path] = true
	}
	for _, f := range documents {
		of, err := manifest.Decode(f, func(m *manifest.File) {
			if !have[m.Package] {
				tell(m)
			}
		})
		if err != nil {
			return doc, command.Misusef("%s: %v", f.Name(), err)
		}
		doc.GPUs = slices.DeleteFunc(doc.GPUs, func(gpu string) bool { return !slices.Contains(of.GPUs, gpu) })
		sum.Failed += of.Summary.Failed
		r.failed = r.failed || of.Summary.Failed > 0
		for _, p := range of.Packages {
			if !have[p.Path] {
				have[p.Path], doc.Packages = true, append(doc.Packages, p)
				sum.Add(p)
			}
		}
	}
	slices.SortFunc(doc.Packages, func(a, b *manifest.Package) int { return strings.Compare(a.Path, b.Path) })
	return doc, nil
}

// list prints a manifest.
func (r *call) list() error {
	debug.SetGCPercent(100) // files are told of as they are read: more would only be memory
	page := r.String("html")
	out := bufio.NewWriterSize(r.Line.Stdout, 64<<10)
	if page == "-" {
		out = bufio.NewWriter(io.Discard)
	}
	var wrong error
	put := func(before string, v any) {
		text, err := command.JSON(v, "")
		if wrong == nil {
			wrong = err
		}
		out.WriteString(before)
		out.Write(text)
	}
	out.WriteString(manifest.Beginning + `"files":[`)
	sep := "\n"
	doc, err := r.read(r.Line.Args, func(f *manifest.File) {
		put(sep, f)
		sep = ",\n"
	})
	if err != nil {
		return err
	}
	out.WriteString("\n],\"packages\":[")
	sep = "\n"
	for _, p := range doc.Packages {
		put(sep, p)
		sep = ",\n"
	}
	put("\n],\"gpus\":", doc.GPUs)
	put(",\n\"summary\":", &doc.Summary)
	out.WriteString("}\n")
	out.Flush()
	if wrong != nil || page == "" {
		return wrong
	}
	text := writePage(doc.Packages, &doc.Summary)
	if page == "-" {
		_, err := r.Line.Stdout.Write(text)
		return err
	}
	if st, err := os.Stat(page); err == nil && st.IsDir() {
		return command.Misusef("%s is a directory: name a file in it", page)
	}
	return plainfile.Write(page, 0o666, text)
}
