package patchelf

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
)

// Do carries the command out on one image, in patchelf's order: it writes what is to
// be printed to w and returns the change that the options ask for; ok is false where
// they ask for none, or the file says all of it already. What was printed before an
// error is printed, and so are the warnings.
func (c *Command) Do(im *elfimage.Image, machineOf Machine, w, warnings *bytes.Buffer) (change elfedit.Change, ok bool,
	err error) {
	if im.Type != elf.ET_EXEC && im.Type != elf.ET_DYN {
		return change, false, errors.New("wrong ELF type: neither a program nor a shared library")
	}
	d := &doing{c: c, im: im, machineOf: machineOf, w: w, warnings: warnings}
	// Of what a detached file's dynamic section was, patchelf has nothing to say, and no error; but it cannot be given
	// anything.
	here := !d.detached()
	needed := len(c.RemoveNeeded) > 0 || len(c.ReplaceNeeded) > 0
	for _, step := range []struct {
		asked, dynamic bool // dynamic: it is about the dynamic section
		do             func() error
	}{
		{c.PrintInterpreter, false, d.printInterpreter},
		{c.PrintOSABI || c.SetOSABI != nil, false, d.osABI},
		{im.Type == elf.ET_DYN && (c.PrintSoname && here || c.SetSoname != nil), true, d.soname},
		{c.Interpreter != "", false, d.interpreter},
		{c.PrintRunPath && here, true, d.printRunPath},
		{c.PrintExecStack || c.ClearExecStack || c.SetExecStack, false, d.execStack},
		{(c.ShrinkRunPath || c.RemoveRunPath || c.SetRunPath || c.AddRunPath) && here, true, d.runPath},
		{c.PrintNeeded && here, true, d.printNeeded},
		{needed && here || len(c.AddNeeded) > 0, true, d.needed},
		{len(c.ClearVersions) > 0, true, d.clearVersions},
		{c.NoDefaultLib || c.DebugTag, true, d.flags},
		{c.ResolutionCache, false, d.resolutionCache},
	} {
		switch {
		case !step.asked:
			continue
		case step.dynamic && im.Dynamic == nil:
			err = &MissingError{Section: ".dynamic", Why: static}
		default:
			err = step.do()
		}
		if err != nil {
			return change, false, err
		}
	}
	return d.change, d.changed, nil
}

type doing struct {
	c         *Command
	im        *elfimage.Image
	machineOf Machine
	w         *bytes.Buffer
	warnings  *bytes.Buffer

	change  elfedit.Change
	changed bool
}

func (d *doing) print(line string) { d.w.WriteString(line + "\n") }

// A MissingError says that a file lacks what an option is about, in words that scripts
// look for.
type MissingError struct {
	Section string
	Path    string // of the file; set by who knows it
	Why     string // continues a sentence that begins with the path
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("cannot find section '%s': %s %s", e.Section, e.Path, e.Why)
}

const static = "is most likely statically linked"

func (d *doing) printInterpreter() error {
	interpreter, err := d.currentInterpreter()
	if err == nil {
		d.print(interpreter)
	}
	return err
}

func (d *doing) currentInterpreter() (string, error) {
	if d.im.Prog(elf.PT_INTERP) == nil {
		return "", &MissingError{Section: ".interp", Why: static + ", or a library"}
	}
	return d.im.Interpreter()
}

func (d *doing) osABI() error {
	if d.c.PrintOSABI {
		d.print(osABIName(d.im.OSABI))
	}
	if d.c.SetOSABI == nil {
		return nil
	}
	abi, err := osABI(*d.c.SetOSABI)
	if err == nil && abi != byte(d.im.OSABI) {
		d.change.OSABI, d.changed = &abi, true
	}
	return err
}

// soname concerns libraries, and programs that could be one.
func (d *doing) soname() error {
	old, err := d.im.Soname()
	if err != nil {
		return err
	}
	if d.c.PrintSoname && old != "" {
		d.print(old)
	}
	if _, has := d.im.Dyn(elf.DT_SONAME); d.c.SetSoname != nil && (!has || *d.c.SetSoname != old) {
		d.change.Soname, d.changed = d.c.SetSoname, true
	}
	return nil
}

func (d *doing) interpreter() error {
	old, err := d.currentInterpreter()
	if err == nil && old != d.c.Interpreter {
		d.change.Interpreter, d.changed = &d.c.Interpreter, true
	}
	return err
}

func (d *doing) printRunPath() error {
	_, list, err := d.im.RunPath()
	if err == nil {
		d.print(list)
	}
	return err
}

// detached reports whether the file holds no dynamic section because it is debugging
// information; patchelf has nothing to say of what is in one, and no error.
func (d *doing) detached() bool { return d.im.SkipReason() == elfimage.Detached }

func (d *doing) execStack() error {
	stack := d.im.Stack()
	executable := stack != nil && stack.Flags&elf.PF_X != 0
	if d.c.PrintExecStack {
		switch {
		case stack == nil:
			d.print("execstack: ?")
		case executable:
			d.print("execstack: X")
		default:
			d.print("execstack: -")
		}
		return nil
	}
	want := !d.c.ClearExecStack
	if stack == nil || executable != want {
		d.change.ExecStack, d.changed = &want, true
	}
	return nil
}

func (d *doing) runPath() error {
	c := d.c
	tag, old, err := d.im.RunPath()
	if err != nil {
		return err
	}
	has := tag != elf.DT_NULL
	list := c.RunPath
	switch {
	case c.ShrinkRunPath && !has:
		return nil
	case c.ShrinkRunPath:
		needed, err := d.im.Needed()
		if err != nil {
			return err
		}
		if list, err = shrink(old, needed, uint16(d.im.Machine), c.AllowedPrefixes, d.machineOf); err != nil {
			return err
		}
	case c.RemoveRunPath:
		if has {
			d.setRunPath(elf.DT_NULL, "")
		}
		return nil
	case !c.SetRunPath:
		list = join(old, list)
	}
	if !has && list == "" {
		return nil
	}
	want := elf.DT_RUNPATH
	if c.ForceRPath {
		want = elf.DT_RPATH
	}
	if want != tag || list != old {
		d.setRunPath(want, list)
	}
	return nil
}

func (d *doing) setRunPath(tag elf.DynTag, list string) {
	d.change.RunPath, d.changed = &elfedit.RunPath{Tag: tag, List: list}, true
}

func (d *doing) printNeeded() error {
	needed, err := d.im.Needed()
	for _, name := range needed {
		d.print(name)
	}
	return err
}

// needed removes, then replaces, then puts the additions first.
func (d *doing) needed() error {
	c := d.c
	before, err := d.im.Needed()
	if err != nil {
		return err
	}
	names := slices.Clone(c.AddNeeded)
	for _, name := range before {
		if slices.Contains(c.RemoveNeeded, name) {
			continue
		}
		if replaced, ok := c.ReplaceNeeded[name]; ok {
			name = replaced
		}
		names = append(names, name)
	}
	renamed, err := d.renamed(names)
	if err != nil {
		return err
	}
	if !slices.Equal(names, before) || renamed != nil {
		d.change.Needed, d.changed = &elfedit.Needed{Names: names, Renamed: renamed}, true
	}
	return nil
}

// renamed returns the replacements by which versions are needed of another library:
// all that name one of the libraries that versions are needed of, or are in DT_NEEDED.
func (d *doing) renamed(names []string) (map[string]string, error) {
	if len(d.c.ReplaceNeeded) == 0 {
		return nil, nil
	}
	before, err := d.im.Needed()
	if err != nil {
		return nil, err
	}
	versions, err := d.im.VersionsNeeded()
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		before = append(before, v.Library)
	}
	var renamed map[string]string
	for from, to := range d.c.ReplaceNeeded {
		if from != to && slices.Contains(before, from) && slices.Contains(names, to) {
			if renamed == nil {
				renamed = map[string]string{}
			}
			renamed[from] = to
		}
	}
	return renamed, nil
}

func (d *doing) clearVersions() error {
	if _, has := d.im.Dyn(elf.DT_VERSYM); !has {
		return &MissingError{Section: ".gnu.version", Why: "has no versions of symbols"}
	}
	d.change.ClearVersions, d.changed = d.c.ClearVersions, true
	return nil
}

func (d *doing) flags() error {
	if flags, _ := d.im.Dyn(elf.DT_FLAGS_1); d.c.NoDefaultLib && elf.DynFlag1(flags.Val)&elf.DF_1_NODEFLIB == 0 {
		d.change.NoDefaultLib, d.changed = true, true
	}
	if _, has := d.im.Dyn(elf.DT_DEBUG); d.c.DebugTag && !has {
		d.change.DebugTag, d.changed = true, true
	}
	return nil
}
