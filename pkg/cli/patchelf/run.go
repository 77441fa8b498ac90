// Package patchelf runs patchelf's command line on files. It has nothing of package cli:
// the flags, the messages and their order are patchelf's.
package patchelf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/inorder"
	"cuda-runpath/pkg/patchelf"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/tree"
)

// Run carries out a command line, without the program's name, and returns the exit
// status: 0, or 1 where something failed. Files are edited in the order in which
// they are named; the first that fails ends the run.
func Run(args []string, stdout, stderr io.Writer) int {
	out := bufio.NewWriter(stdout)
	err := run(args, out, stderr)
	if werr := out.Flush(); err == nil {
		err = werr
	}
	if err != nil {
		fmt.Fprintf(stderr, "patchelf: %v\n", err)
		return 1
	}
	return 0
}

func run(args []string, out io.Writer, stderr io.Writer) error {
	if len(args) == 0 {
		io.WriteString(stderr, patchelf.Help)
		return errors.New("no option and no file is given")
	}
	c, err := patchelf.Parse(args, readFile)
	switch {
	case err != nil:
		return err
	case c.Help:
		_, err := io.WriteString(stderr, patchelf.Help)
		return err
	case c.Version:
		_, err := fmt.Fprintf(out, "patchelf %s\n", patchelf.Compatible)
		return err
	}
	if os.Getenv("PATCHELF_DEBUG") != "" {
		c.Debug = true
	}
	jobs := runtime.GOMAXPROCS(0)
	if min(jobs, len(c.Files)) > 1 && os.Getenv("GOGC") == "" { // as the other tools: see cli.tune
		debug.SetGCPercent(300)
	}
	// Files are read and edits planned while those before them are written, one after the other: planning changes
	// nothing, so that where a file fails, those that follow it are as they were.
	type inode struct{ dev, ino uint64 }
	written := map[inode]bool{}
	var failed atomic.Bool
	plans := make([]*planned, len(c.Files))
	inorder.Do(jobs, len(c.Files), func(i int) int {
		if plans[i] = (&planned{}); !failed.Load() {
			plans[i] = plan(c, c.Files[i])
		}
		return i
	}, func(i int) {
		p := plans[i]
		plans[i] = nil
		defer func() { p.close() }()
		if err != nil {
			return
		}
		id := inode{}
		if p.f != nil {
			id.dev, id.ino = p.f.ID()
		}
		if written[id] { // named twice: what was planned is about what it was before
			p.close()
			p = plan(c, p.path)
		}
		if err = p.finish(c, out, stderr); err != nil {
			failed.Store(true)
		} else if p.changes() {
			written[id] = true
		}
	})
	return err
}

func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	return data, said("getting info about", path, err)
}

// planned is a file that has been read, and what is to be done to it.
type planned struct {
	path string
	f    *tree.File // nil where it could not be opened
	read *edit.Planned
	out  bytes.Buffer // what is to be printed, also before an error
	warn bytes.Buffer // of stderr
	err  error
}

// plan reads a file and works out what the command does to it. It changes nothing.
func plan(c *patchelf.Command, path string) *planned {
	p := &planned{path: path}
	f, err := tree.Open(path)
	if err != nil {
		p.err = said("getting info about", path, err)
		return p
	}
	p.f = f
	if !f.ELF() {
		p.err = fmt.Errorf("%s: %w", path, notELF(f))
		return p
	}
	p.read, err = edit.Read(f, func(im *elfimage.Image) (*elfedit.Change, string, error) {
		change, changes, err := c.Do(im, MachineOf(im.Order), &p.out, &p.warn)
		if err != nil || !changes {
			return nil, "", err
		}
		return &change, "", nil
	})
	var missing *patchelf.MissingError
	switch {
	case errors.As(err, &missing):
		missing.Path = path
		p.err = missing
	case err != nil:
		p.err = fmt.Errorf("%s: %w", path, err)
	}
	return p
}

// changes reports whether the file is to be written.
func (p *planned) changes() bool { return p.read != nil && p.read.Edit != nil }

func notELF(f *tree.File) error {
	if len(f.Head()) < 52 { // of a 32-bit ELF header
		return errors.New("missing ELF header")
	}
	return errors.New("not an ELF executable")
}

// finish prints, and writes the file. What another editor has changed meanwhile is planned
// again, as in a walk.
func (p *planned) finish(c *patchelf.Command, out, stderr io.Writer) error {
	err := p.write(c)
	for tries := 1; p.f != nil && p.f.Changed() && tree.Retry(tries); tries++ {
		p.close()
		*p = *plan(c, p.path)
		err = p.write(c)
	}
	stderr.Write(p.warn.Bytes())
	if _, err := out.Write(p.out.Bytes()); err != nil {
		return err
	}
	if c.Debug && p.err == nil {
		explain(stderr, p.path, p.read.Edit)
	}
	return err
}

func (p *planned) write(c *patchelf.Command) (err error) {
	switch {
	case p.err != nil:
		return p.err
	case c.Copy && c.Output != "":
		err = output(c.Output, p.f, p.read.Edit)
	case p.read.Edit != nil:
		p.warnOfStore()
		err = p.read.Write(p.f, edit.Options{InPlace: true})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

var stores = sync.OnceValue(func() *store.Stores { return store.On(os.Getenv("NIX_STORE")) })

// warnOfStore says that the file is in a finished path of a Nix store: patchelf writes it all the same.
func (p *planned) warnOfStore() {
	real, err := regular.RealOf(p.f.FD(), p.path)
	if err != nil {
		return
	}
	if object := stores().Finished(real); object != "" {
		fmt.Fprintf(&p.warn,
			"patchelf: warning: %s is in a finished path of a Nix store (%s), which Nix now calls modified\n", p.path, object)
	}
}

func (p *planned) close() {
	if p.read != nil {
		p.read.Release()
	}
	if p.f != nil {
		p.f.Close()
	}
}

func explain(w io.Writer, path string, edit *elfedit.Edit) {
	if edit == nil {
		fmt.Fprintf(w, "%s: nothing to change\n", path)
		return
	}
	fmt.Fprintf(w, "%s: growing by %d bytes\n", path, edit.Growth())
}

// MachineOf reads the e_machine of libraries in the byte order of the file that needs
// them. A file in another byte order then has another machine.
func MachineOf(order binary.ByteOrder) patchelf.Machine {
	return func(path string) (uint16, bool, error) {
		f, _, err := regular.Open(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, regular.ErrNotRegular) {
			return 0, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		defer f.Close()
		var head [20]byte
		if n, _ := f.ReadAt(head[:], 0); n < len(head) || string(head[:4]) != "\x7fELF" {
			return 0, false, nil // nothing that the loader would take for a library
		}
		return order.Uint16(head[18:]), true, nil
	}
}

// said words a failure of the file system as C programs do: "DOING 'PATH': Reason".
func said(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	reason := err.Error()
	return fmt.Errorf("%s '%s': %s", doing, path, strings.ToUpper(reason[:1])+reason[1:])
}
