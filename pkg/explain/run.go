package explain

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader"
)

// Options are explain's own.
type Options struct {
	Layout
	Lib      string // tell only of this library
	Dot      bool
	NoDlopen bool // only what is loaded at start
}

// Summary ends the JSON document of explain.
type Summary struct {
	Files   int `json:"files"`
	Failed  int `json:"failed"`  // could not be examined
	Missing int `json:"missing"` // libraries not found
}

// Run explains the session's files. It returns cli.ErrFailed where a file
// could not be examined, or would not start.
func Run(s *cli.Session, l *loader.Loader, o Options) error {
	var doc *cli.Document
	if s.JSON {
		doc = cli.NewDocument(s.Stdout)
	}
	var sum Summary
	var graph []*loader.Load
	bad := false
	for i, arg := range s.Paths {
		if err := s.Context.Err(); err != nil {
			return err
		}
		p := l.Path(arg)
		load, err := l.Load(p)
		sum.Files++
		if err != nil {
			sum.Failed++
			s.Log.WithField("path", arg).Error(err)
			if doc != nil {
				doc.File(&File{Path: arg, Error: err.Error(), Libraries: []Library{}, Driver: []Verdict{}})
			}
			continue
		}
		var only *loader.Object
		if !load.Static {
			if !o.NoDlopen {
				load.DlopenAll(likely(load, s.Verbose), driver.NeedsDriver)
			}
			if o.Lib != "" {
				only = find(load, o.Lib)
			}
			sum.Missing += len(load.Missing())
			bad = bad || load.Err != "" || only != nil && only.Fails() != ""
		}
		switch {
		case doc != nil:
			f := Describe(arg, load, &o.Layout)
			if only != nil {
				f.only(o.Lib)
			}
			doc.File(f)
		case o.Dot:
			graph = append(graph, load)
		default:
			if i > 0 {
				fmt.Fprintln(s.Stdout)
			}
			if err := Text(s.Stdout, load, &o.Layout, Style{Color: colored(s.Stdout), Tries: !s.Quiet, Only: only}); err != nil {
				return err
			}
		}
	}
	if doc != nil {
		if err := doc.Close(&sum); err != nil {
			return fmt.Errorf("writing the JSON document: %w", err)
		}
	} else if o.Dot {
		if err := Dot(s.Stdout, graph, &o.Layout); err != nil {
			return err
		}
	}
	if bad || sum.Failed > 0 || sum.Missing > 0 {
		return cli.ErrFailed
	}
	return nil
}

// likely tells which names among an object's constants are worth following: the
// driver's and the toolkit's, and of the file itself all that are whole strings.
// What a library such as libc.so.6 may open, and what the driver does among its
// own libraries, is followed only where all is set.
func likely(s *loader.Load, all bool) func(*loader.Object, loader.Literal) bool {
	return func(o *loader.Object, l loader.Literal) bool {
		if all || o == s.Main {
			return l.Exact || driver.NeedsDriver(l.Name)
		}
		return driver.NeedsDriver(l.Name) && !driver.Provides(o.Name)
	}
}

// find returns the object that a name leads to, opening it where nothing asks for it.
func find(s *loader.Load, name string) *loader.Object {
	for _, o := range s.Objects {
		for _, u := range o.Uses {
			if u.Name == name || u.To.File != nil && u.To.File.Soname == name {
				return u.To
			}
		}
	}
	return s.Dlopen(name, s.Main, loader.DlopenAsked, "")
}

func (f *File) only(name string) {
	kept := f.Libraries[:0]
	for _, l := range f.Libraries {
		if l.Soname == name {
			kept = append(kept, l)
		}
	}
	f.Libraries = kept
	verdicts := f.Driver[:0]
	for _, v := range f.Driver {
		if v.Soname == name {
			verdicts = append(verdicts, v)
		}
	}
	f.Driver = verdicts
}

// colored tells whether a writer is a terminal that shows colours.
func colored(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
