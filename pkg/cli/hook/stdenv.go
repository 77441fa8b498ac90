package hook

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	personality "cuda-runpath/pkg/cli/patchelf"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/patchelf"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/tree"
)

// What stdenv's own setup hooks do to each output, in one walk: patchELF
// (pkgs/development/tools/misc/patchelf/setup-hook.sh of nixpkgs) and auditTmpdir
// (pkgs/build-support/setup-hooks/audit-tmpdir.sh).

// notShrunk reports a file that patchELF leaves: [[ $file =~ .build-id ]], in which the dot is any character.
func notShrunk(path string) bool { return strings.LastIndex(path, "build-id") > 0 }

// patchELF is stdenv's function of that name: it shrinks the run paths of all ELF files below a path, as patchelf
// --shrink-rpath does. Where stdenv's entry for auditTmpdir comes next, that is done in the same walk.
func (b *build) patchELF(args []string) error {
	w := &outputWalk{build: b, shrink: true}
	if b.text("noAuditTmpdir") == "" && b.text("hookName") == "fixupOutput" {
		entries := b.settings["fixupOutputHooks"].values
		i := slices.Index(entries, b.text("hook"))
		w.audit = i >= 0 && i+1 < len(entries) && strings.Contains(entries[i+1], "auditTmpdir ")
	}
	return w.run(args)
}

// auditTmpdir is stdenv's function of that name: it fails where run paths, or wrapper scripts, name $TMPDIR, into which
// anybody may put files once the build is over.
func (b *build) auditTmpdir(args []string) error {
	return (&outputWalk{build: b, audit: true}).run(args)
}

// outputWalk is a walk over one output.
type outputWalk struct {
	*build
	shrink, audit bool
	forbidden     string // $TMPDIR/
	machines      sync.Map
}

// seen is what came of a file.
type seen struct {
	path    string
	removed []string // entries of the run path
	tag     bool     // the DT_RPATH is a DT_RUNPATH now
	names   []string // places that name $TMPDIR
	err     error
	goesOn  bool // err is none of the build's
}

func (w *outputWalk) run(args []string) error {
	if len(args) == 0 {
		return errors.New("no directory is given")
	}
	dir := args[0]
	if st, err := os.Lstat(dir); err != nil || st.Mode()&os.ModeSymlink != 0 { // find(1) does not follow it
		return nil
	}
	if tmp := w.text("TMPDIR"); w.audit && tmp != "" {
		w.forbidden = tmp + "/"
	}
	switch {
	case w.shrink && w.forbidden != "":
		w.note("shrinking the run paths of ELF files in " + dir + ", and looking for references to " + w.forbidden)
	case w.shrink:
		w.note("shrinking the run paths of ELF files in " + dir)
	case w.forbidden != "":
		w.note("looking for references to " + w.forbidden + " in " + dir)
	default:
		return nil
	}
	jobs, err := strconv.Atoi(w.text("NIX_BUILD_CORES"))
	if err != nil || jobs < 1 {
		jobs = 1
	}
	options := tree.Options{Jobs: jobs, Refuse: store.On(os.Getenv("NIX_STORE")).Refuse}
	if !w.shrink {
		options.Refuse = nil
	}
	tell := &told{log: w.log, groups: map[string]int{}}
	err = tree.Walk(w.context, []string{dir}, options, w.visit, tell.file)
	tell.end()
	if err != nil {
		return err
	}
	failed := tell.failed || tell.warned && w.isTrue("cudaRunpathStrict")
	if tell.forbidden > 0 {
		files := "1 file names"
		if tell.forbidden > 1 {
			files = fmt.Sprintf("%d files name", tell.forbidden)
		}
		w.fail(fmt.Sprintf("in %s %s $TMPDIR (%s), which is gone after the build: whoever makes it again decides what "+
			"is loaded or run. See above; fix: link without that -rpath, or install what the directory holds and name that; "+
			"noAuditTmpdir = true switches this check off", dir, files, w.forbidden))
		return errReported
	}
	if failed {
		w.fail("what failed in " + dir + " is above")
		return errReported
	}
	if w.audit && w.shrink {
		w.say("audited " + dir)
	}
	return nil
}

func (w *outputWalk) visit(f *tree.File) (*seen, bool) {
	s := &seen{path: f.Path}
	switch {
	case f.Err != nil:
		s.err, s.goesOn = f.Err, f.Unreadable()
	case f.ELF():
		if f.SameAs != "" && notShrunk(f.SameAs) && !notShrunk(f.Path) {
			f.SameAs = "" // under that name it was left
		}
		w.elf(f, s)
	case w.forbidden != "" && isWrapper(f):
		text, err := f.Whole(1 << 30)
		s.err, s.goesOn = err, true
		n := 0
		for line := range bytes.Lines(text) {
			if n++; bytes.Contains(line, []byte(w.forbidden)) {
				s.names = append(s.names, fmt.Sprintf(":%d: forbidden reference to %s: %s", n, w.forbidden,
					remedy.Line(strings.TrimRight(string(line), "\n"))))
			}
		}
	}
	return s, s.err != nil || len(s.removed)+len(s.names) > 0 || s.tag
}

// elf shrinks and audits an ELF file.
func (w *outputWalk) elf(f *tree.File, s *seen) {
	shrinks := w.shrink && !notShrunk(f.Path)
	audits := w.forbidden != "" && f.SameAs == "" && !strings.Contains(f.Path, "/.build-id/")
	if !shrinks && !audits {
		return
	}
	var list string // as it is to be
	r := edit.File(f, edit.Options{DryRun: !shrinks, InPlace: true}, func(im *elfimage.Image) (*elfedit.Change, string, error) {
		s.removed, s.tag, list = nil, false, ""
		if im.Type != elf.ET_EXEC && im.Type != elf.ET_DYN || im.Dynamic == nil {
			return nil, "", nil
		}
		tag, before, err := im.RunPath()
		if list = before; err != nil || !shrinks {
			return nil, "", err
		}
		command := patchelf.Command{ShrinkRunPath: true}
		var said, warned bytes.Buffer
		change, changes, err := command.Do(im, w.machineOf(im.Order), &said, &warned)
		if err != nil || !changes {
			return nil, "", err
		}
		list = change.RunPath.List
		s.removed, s.tag = without(runpath.Parse(before), runpath.Parse(list)),
			tag == elf.DT_RPATH && change.RunPath.Tag != tag && list != ""
		return &change, "", nil
	})
	if r.Action == edit.Failed {
		// What patchelf cannot do either stops no build of stdenv's; a disk that is full, say, is another matter.
		var failed unix.Errno
		var lookedUp *lookUpError
		s.err, s.goesOn = r.Err, !errors.As(r.Err, &failed) || errors.As(r.Err, &lookedUp) ||
			elfimage.IsMalformed(r.Err) || f.Unreadable()
		s.removed, s.tag = nil, false
	}
	if audits {
		for i, entry := range runpath.Parse(list) {
			if strings.HasPrefix(entry, w.forbidden) {
				s.names = append(s.names, fmt.Sprintf(": forbidden reference to %s: entry %d of the run path, %s", w.forbidden, i+1,
					remedy.Line(entry)))
			}
		}
	}
}

// without returns the entries of a list that a shorter one, in the same order, has not.
func without(all, kept runpath.List) (removed []string) {
	for _, entry := range all {
		if len(kept) > 0 && kept[0] == entry {
			kept = kept[1:]
		} else {
			removed = append(removed, entry)
		}
	}
	return removed
}

// lookUpError is a failure of a directory that a run path names, not of the file that names it: an entry that is a file,
// a loop of links, a name that is too long. patchelf fails there too, and stdenv's build goes on.
type lookUpError struct{ error }

func (e *lookUpError) Unwrap() error { return e.error }

// machineOf remembers what the libraries of a directory are: the files of a package ask for the same ones.
func (w *outputWalk) machineOf(order binary.ByteOrder) patchelf.Machine {
	type answer struct {
		machine uint16
		ok      bool
		err     error
	}
	type question struct {
		path string
		big  bool
	}
	ask := personality.MachineOf(order)
	return func(path string) (uint16, bool, error) {
		q := question{path, order == binary.BigEndian}
		known, ok := w.machines.Load(q)
		if !ok {
			machine, ok, err := ask(path)
			if err != nil {
				err = &lookUpError{err}
			}
			known, _ = w.machines.LoadOrStore(q, answer{machine, ok, err})
		}
		a := known.(answer)
		return a.machine, a.ok, a.err
	}
}

// isWrapper reports whether a file is what stdenv calls a wrapper script: it begins with "#!", and beside NAME stands
// .NAME-wrapped. Bash's read passes over NULs.
func isWrapper(f *tree.File) bool {
	line, _, _ := bytes.Cut(f.Head(), []byte("\n"))
	if line = bytes.ReplaceAll(line, []byte{0}, nil); !bytes.HasPrefix(line, []byte("#!")) {
		return false
	}
	dir, name := filepath.Split(f.Path)
	_, err := os.Stat(dir + "." + name + "-wrapped")
	return err == nil
}

// told says what came of the files of a walk.
type told struct {
	log io.Writer
	// lines are what is said of files of which the same is said, in the order of the first ones; groups their places.
	lines  []group
	groups map[string]int

	forbidden      int // files
	failed, warned bool
}

type group struct {
	first, text string
	more        int
}

func (t *told) file(s *seen) {
	switch {
	case s.err != nil && s.goesOn:
		t.warned = true
		fmt.Fprintf(t.log, "warning: %s: %s\n", remedy.Line(s.path), remedy.Line(s.err.Error()))
	case s.err != nil:
		t.failed = true
		fmt.Fprintf(t.log, "%s: %s\n", remedy.Line(s.path), remedy.Line(s.err.Error()))
	}
	if len(s.names) > 0 {
		t.forbidden++
	}
	for _, name := range s.names {
		fmt.Fprintf(t.log, "%s%s\n", remedy.Line(s.path), name)
	}
	var text string
	if len(s.removed) > 0 {
		text = "removed " + remedy.Line(strings.Join(s.removed, ", "))
	}
	if s.tag {
		text = strings.TrimPrefix(text+"; its DT_RPATH is a DT_RUNPATH now", "; ")
	}
	if text == "" {
		return
	}
	if i, ok := t.groups[text]; ok {
		t.lines[i].more++
		return
	}
	t.groups[text] = len(t.lines)
	t.lines = append(t.lines, group{first: s.path, text: text})
}

func (t *told) end() {
	for _, g := range t.lines {
		and := ""
		if g.more > 0 {
			and = fmt.Sprintf(" and %d more", g.more)
		}
		fmt.Fprintf(t.log, "%s%s: %s\n", remedy.Line(g.first), and, g.text)
	}
}
