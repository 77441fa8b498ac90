package explain

import (
	"cmp"
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// byProcessor reports names for which another entry wins on another processor. One directory has them only in a
// glibc-hwcaps subdirectory, a later one directly.
func (c *Case) byProcessor() {
	files := c.Loader.Files()
	if !slices.ContainsFunc(c.entries, func(e entry) bool { return e.dir != "" && files.Names(e.dir)["glibc-hwcaps"] }) {
		return
	}
	levels := loader.Levels(c.file.ELF.Machine) // the best first
	for _, name := range c.askedNames() {
		if c.ignored(name) {
			continue
		}
		var won []candidate
		var on []string
		for k := 0; k <= len(levels); k++ { // with all levels, with all but the best …, with none
			x, ok := c.winner(name, levels[k:])
			if !ok || slices.ContainsFunc(won, func(w candidate) bool {
				return w.entry == x.entry || c.isSame(w.file, x.file)
			}) {
				continue
			}
			processor := "any other"
			if k < len(levels) {
				processor = levels[k]
			}
			won, on = append(won, x), append(on, processor)
		}
		if len(won) < 2 || c.settled(name, won) {
			continue
		}
		f := c.several(name, won)
		f.Remedy = remedy.Do(
			"put %s into %s itself too, for other processors, or take one of the directories out of the run path",
			name, won[0].entry.text)
		var places []string
		for i, x := range won {
			places = append(places, fmt.Sprintf("%s (entry %d) on %s", x.path, x.entry.position, on[i]))
		}
		f.Message = fmt.Sprintf("%s is ambiguous: the processor decides which file is loaded: %s", name,
			strings.Join(places, ", "))
		c.report(f)
	}
}

// askedNames returns the names without a slash that the file asks for, sorted.
func (c *Case) askedNames() []string {
	var names []string
	for n, e := range c.asks {
		if e >= guessed && !strings.Contains(n, "/") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// winner returns what the run path leads to for a processor with some levels.
func (c *Case) winner(name string, levels []string) (candidate, bool) {
	for _, e := range c.searched() {
		for _, sub := range append(slices.Clone(levels), "") {
			dir := strings.TrimSuffix(e.dir, "/")
			if sub != "" {
				dir += "/glibc-hwcaps/" + sub
			}
			if f, _ := c.Load.In(dir, name); f != nil {
				return candidate{e, f, dir + "/" + name}, true
			}
		}
	}
	return candidate{}, false
}

// loadedElsewhere reports libraries whose own run path leads to a different file than the one of the name that the
// program has already loaded.
func (c *Case) loadedElsewhere() {
	if c.Load.Role != loader.Program {
		return // what is loaded before a library depends on its program
	}
	for _, o := range c.Load.Objects[1:] {
		if o.File == nil || o.File.Tag == 0 {
			continue
		}
		for _, u := range o.Uses {
			if !u.Again || !u.Cause.Certain() || u.To == o || u.To.File == nil || !u.To.Found() ||
				driver.Provides(u.Name) || u.Name == "libgcc_s.so.1" || c.ignored(u.Name) {
				continue
			}
			f, where, entry := c.Load.Own(o, u.Name)
			if f == nil || entry == "" || c.isSame(f, u.To.File) {
				continue
			}
			position := slices.Index(runpath.Parse(o.File.List), entry) + 1
			said := on(finding.Ambiguous, nil, nil, remedy.Do(
				"make the run paths of the program and of %s find the same file",
				o.Path),
				"%s needs %s, and its own run path leads to %s (entry %d), but the program has already loaded %s, which it gets "+
					"instead", o.Path, u.Name, where, position, u.To.Path)
			said.Severity, said.Library = finding.Warning, u.Name
			said.Candidates = []finding.Candidate{{Path: u.To.Path, Wins: true}, {Path: where, Position: position}}
			c.report(said)
		}
	}
}

// libc reports a program whose C library is not its loader's, and a C++ library that is found before the loader's
// own.
func (c *Case) libc() {
	in := c.Load.Interp
	if in == nil || in.Kind != loader.GLibc || !in.Found || c.file.Interp == "" {
		return
	}
	at, _, err := c.Loader.Files().Resolve(cmp.Or(in.Becomes, in.Path))
	if err != nil {
		return
	}
	at = c.Loader.Inside(at)
	for _, o := range c.Load.Objects[1:] {
		if !o.Found() || o.File == nil || c.ignored(o.Name) {
			continue
		}
		where := c.Loader.Inside(o.File.Path)
		if files.OfGLibc(o.Name) {
			if path.Dir(at) == path.Dir(where) {
				continue
			}
			mine, theirs := store.Path(at), store.Path(where)
			if mine != "" && mine == theirs {
				continue
			}
			if beside := c.Load.Default(o.Name); mine == "" && theirs == "" && (beside == nil || c.isSame(beside, o.File)) {
				continue
			}
			c.report(on(finding.LibcMismatch, o, nil,
				remedy.Do("make both come from the same glibc: set the interpreter, or the run path entry, accordingly"),
				"the program's loader is %s, but its %s is %s (%s)", in.Path, o.Name, o.Path, o.How(nil)))
		}
		if o.Name == "libstdc++.so.6" && o.Rule.InRunPath() {
			if beside := c.Load.Default(o.Name); beside != nil && !c.isSame(beside, o.File) {
				f := on(finding.Ambiguous, o, nil, remedy.Do("ship the newer of the two, or none"),
					"%s is %s (%s), beside the loader's own, %s: libraries of the system that are loaded later get this one",
					o.Name, o.Path, o.How(nil), c.Loader.Inside(beside.Path))
				f.Severity = finding.Warning
				f.Candidates = []finding.Candidate{{Path: o.Path, Wins: true}, {Path: c.Loader.Inside(beside.Path)}}
				c.report(f)
			}
		}
	}
}

// environment reports what LD_PRELOAD keeps from starting the program, and the libraries, except the driver's, for which
// LD_LIBRARY_PATH decides and the file would find another one without it.
func (c *Case) environment() {
	for _, step := range c.Start.Before {
		state, err := step.Begin(c.Loader)
		if err != nil {
			continue
		}
		why := state.Stops()
		if missing := state.Missing(); why == "" && len(missing) > 0 {
			why = missing[0].Name + " is not found"
		}
		if why != "" {
			c.report(on(finding.LoadError, nil, nil, remedy.Do("set LD_PRELOAD for the program alone, or let what it names "+
				"find its libraries"), "%s, which starts the program, does not start with LD_PRELOAD=%s: %s", step.File,
				step.Preload, why))
		}
	}
	var decided []string
	var first *loader.Object
	for _, o := range c.Objects[1:] {
		if o.Rule != loader.ByEnv || o.File == nil || driver.Provides(path.Base(o.Name)) || o.NeededBy == nil {
			continue
		}
		file, at, _ := c.Load.Own(o.NeededBy, o.Name)
		if file == nil && o.NeededBy.File.Tag != elf.DT_RUNPATH {
			file, at, _ = c.Load.Own(c.Main, o.Name)
		}
		if file == nil {
			if file = c.Load.Default(o.Name); file != nil {
				at = c.Loader.Inside(file.Path)
			}
		}
		if file == nil || c.isSame(file, o.File) {
			continue
		}
		if first == nil {
			first = o
		}
		decided = append(decided, fmt.Sprintf("%s, not %s", o.Path, at))
	}
	if first != nil {
		c.report(on(finding.ByEnvironment, first, first.NeededBy,
			remedy.Do("name a directory in LD_LIBRARY_PATH that has the driver's libraries alone, as hostDriver run does"),
			"LD_LIBRARY_PATH also decides about libraries that are not the driver's: %s", remedy.List(decided)))
	}
}

// stack reports a file that asks for an executable stack.
func (c *Case) stack() {
	if why := c.file.ExecutableStack; why != "" && c.Load.Interp != nil && c.Load.Interp.Kind == loader.GLibc {
		what := "glibc 2.41 and newer refuse to open it with dlopen, and a program that needs it gets an executable stack"
		if c.Load.Role == loader.Program {
			what = "it gets one, and so do all its threads"
		}
		c.say(finding.ExecutableStack, c.edit(&remedy.Change{ClearExecStack: true}).And(
			" where nothing in it runs code on the stack; linkers ask for it where one object file has no .note.GNU-stack"),
			"the file asks for an executable stack (%s): %s", why, what)
	}
}
