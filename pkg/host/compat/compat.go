// Package compat decides which compat packages a program on a host is to use, and what else it asks of the driver:
// [Wanted] reads that from the program, [Choose] gives it the host's driver, or that with a package's libraries.
package compat

import (
	"errors"
	"os"
	"path"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/ldcache"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/starts"
)

// Wants is what a program asks of the driver.
type Wants struct {
	// Compat are the compat directories in its run path and in those of the libraries that it loads, in the
	// order of the load, then those in LD_LIBRARY_PATH and the one in the loader's cache. RPath says that one is in a
	// DT_RPATH, which comes before LD_LIBRARY_PATH; Stub is a directory in a DT_RPATH that has a stub of libcuda.so.1.
	Compat []string
	RPath  bool
	Stub   string

	load *process.State // nil where there is none
	by   *loader.Loader
}

// Wanted returns what a program of this machine wants. Of what a script starts, it is what its
// interpreter wants.
func Wanted(program string) (w Wants) {
	l, err := loader.New(loader.Options{Environment: loader.Environment{LibraryPath: os.Getenv("LD_LIBRARY_PATH")},
		NoTries: true})
	if err != nil {
		return w
	}
	h := &host.Host{}
	load, err := starts.Begin(l, program, starts.Interpreters)
	if err != nil || load.Role == loader.Static {
		return w
	}
	w.load, w.by = load, l
	seen := map[string]bool{}
	add := func(dir string, rpath bool) {
		if dir = path.Clean(dir); !path.IsAbs(dir) || seen[dir] || !h.IsCompat(dir) {
			return
		}
		seen[dir] = true
		w.Compat = append(w.Compat, dir)
		w.RPath = w.RPath || rpath
	}
	for _, o := range load.Objects {
		if o.File == nil || o.File.List == "" {
			continue
		}
		rpath := o.File.Tag.String() == "DT_RPATH"
		for _, entry := range runpath.Parse(o.File.List) {
			dir, ok := load.Expand(o, entry)
			if !ok {
				continue
			}
			add(dir, rpath)
			if rpath && w.Stub == "" && (driver.StubDirs{}).Contains(dir) && h.Root.Exists(path.Join(dir, driver.LibCUDA)) {
				w.Stub = dir
			}
		}
	}
	for _, dir := range host.SplitLibraryPath(os.Getenv("LD_LIBRARY_PATH")) {
		add(dir, false)
	}
	if cache, err := l.Cache(ldcache.Path); err == nil && !load.Interp.Store { // which a loader from Nix does not read
		abi, _ := load.Main.File.ABI()
		if e, ok := cache.Resolve(driver.LibCUDA, ldcache.ABI{Machine: abi.Machine, Class: abi.Class, Flags: abi.Flags}, ldcache.Processor{}); ok {
			add(path.Dir(e.Path), false)
		}
	}
	return w
}

// Linked reports whether the program asks for libraries of the driver, and looks for all of them in its driver link
// or in those directories.
func (w Wants) Linked(link string) (linked bool) {
	if w.load == nil {
		return false
	}
	w.load.OpenAll(driverOnly, driver.Provides)
	its := explain.New(w.by, explain.Options{Layout: explain.Layout{DriverLink: link}}).Case(w.load)
	for _, o := range its.WithFailed() {
		if v := its.Verdict(o); v != nil {
			linked = v.Kind == finding.DriverAbsent || v.Origin == explain.FromCompat ||
				runpath.Key(path.Dir(o.Path)) == runpath.Key(link) && v.Good
			if !linked {
				return false
			}
		}
	}
	return linked
}

// driverOnly follows, of what a program may open later, what concerns the driver.
func driverOnly(_ *loader.Object, l files.Literal) bool { return l.Driver && l.Exact }

// Choice says which compat packages a program may use.
type Choice string

// The choices. Any other is the directory of a package, which is used where it helps.
const (
	Auto   Choice = "auto"   // those in the program's run path that help
	Always Choice = "always" // the first in the program's run path, whatever the rule says
	Never  Choice = "never"  // none
)

// Choose returns the driver that a program on a host whose driver is d is to have, of some compat directories, and what
// was found of each package.
func Choose(h *host.Host, d *host.Driver, dirs []string, choice Choice) (*host.Driver, []host.Compat, error) {
	chosen, all := d, []host.Compat{}
	for _, dir := range dirs {
		h.Saw(path.Join(dir, driver.LibCUDA))
		c, err := h.Compat(d, dir)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, c)
		// One of which nothing is known stays first where the program names it first.
		wanted := choice == Always || choice != Never && (c.Verdict.Use() || c.Verdict == forwardcompat.Unknown)
		if !wanted || chosen != d {
			continue
		}
		with, err := h.WithCompat(d, dir)
		if err != nil {
			return nil, nil, err
		}
		chosen = with
	}
	return chosen, all, nil
}

// ParseChoice reads the value of --compat.
func ParseChoice(s string) (Choice, error) {
	switch c := Choice(s); {
	case c == Auto, c == Always, c == Never:
		return c, nil
	case path.IsAbs(s):
		return Choice(path.Clean(s)), nil
	}
	return "", errors.New("a compat directory is needed: an absolute path, auto, always or never")
}
