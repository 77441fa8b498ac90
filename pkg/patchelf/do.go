package patchelf

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"

	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
)

// Do carries the command out on one image, in patchelf's order: it writes what is to
// be printed to w and returns the change that the options ask for; ok is false where
// they ask for none, or the file says all of it already. What was printed before an
// error is printed, and so are the warnings.
func (c *Command) Do(im *elfimage.Image, machineOf Machine, w, warnings io.Writer) (change elfedit.Change, ok bool, err error) {
	if im.Type != elf.ET_EXEC && im.Type != elf.ET_DYN {
		return change, false, errors.New("wrong ELF type: neither a program nor a shared library")
	}
	d := &doing{c: c, im: im, machineOf: machineOf, w: w, warnings: warnings}
	for _, step := range []func() error{
		d.printInterpreter, d.osABI, d.soname, d.interpreter, d.printRunPath, d.execStack, d.runPath,
		d.printNeeded, d.needed, d.clearVersions, d.flags, d.resolutionCache,
	} {
		if err := step(); err != nil {
			return change, false, err
		}
	}
	return d.change, d.changed, nil
}

type doing struct {
	c         *Command
	im        *elfimage.Image
	machineOf Machine
	w         io.Writer
	warnings  io.Writer

	change  elfedit.Change
	changed bool
}

func (d *doing) print(line string) error {
	_, err := io.WriteString(d.w, line+"\n")
	return err
}

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

// dynamic is an error where the file has no dynamic section.
func (d *doing) dynamic() error {
	if d.im.Dynamic != nil {
		return nil
	}
	return &MissingError{Section: ".dynamic", Why: static}
}

func (d *doing) printInterpreter() error {
	if !d.c.PrintInterpreter {
		return nil
	}
	interpreter, err := d.currentInterpreter()
	if err != nil {
		return err
	}
	return d.print(interpreter)
}

func (d *doing) currentInterpreter() (string, error) {
	if d.im.Prog(elf.PT_INTERP) == nil {
		return "", &MissingError{Section: ".interp", Why: static + ", or a library"}
	}
	return d.im.Interpreter()
}

func (d *doing) osABI() error {
	if d.c.PrintOSABI {
		if err := d.print(osABIName(d.im.OSABI)); err != nil {
			return err
		}
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
	if !d.c.PrintSoname && d.c.SetSoname == nil || d.im.Type != elf.ET_DYN || d.c.SetSoname == nil && d.detached() {
		return nil
	}
	if err := d.dynamic(); err != nil {
		return err
	}
	old, err := d.im.Soname()
	if err != nil {
		return err
	}
	if d.c.PrintSoname && old != "" {
		if err := d.print(old); err != nil {
			return err
		}
	}
	if _, has := d.im.Dyn(elf.DT_SONAME); d.c.SetSoname != nil && (!has || *d.c.SetSoname != old) {
		d.change.Soname, d.changed = d.c.SetSoname, true
	}
	return nil
}

func (d *doing) interpreter() error {
	if d.c.Interpreter == "" {
		return nil
	}
	old, err := d.currentInterpreter()
	if err == nil && old != d.c.Interpreter {
		d.change.Interpreter, d.changed = &d.c.Interpreter, true
	}
	return err
}

func (d *doing) printRunPath() error {
	if !d.c.PrintRunPath || d.detached() {
		return nil
	}
	if err := d.dynamic(); err != nil {
		return err
	}
	_, list, err := d.im.RunPath()
	if err != nil {
		return err
	}
	return d.print(list)
}

// detached reports whether the file holds no dynamic section because it is debugging
// information; patchelf has nothing to say of what is in one, and no error.
func (d *doing) detached() bool { return d.im.SkipReason() == elfimage.Detached }

func (d *doing) execStack() error {
	if !d.c.PrintExecStack && !d.c.ClearExecStack && !d.c.SetExecStack {
		return nil
	}
	stack := d.im.Stack()
	executable := stack != nil && stack.Flags&elf.PF_X != 0
	if d.c.PrintExecStack {
		switch {
		case stack == nil:
			return d.print("execstack: ?")
		case executable:
			return d.print("execstack: X")
		}
		return d.print("execstack: -")
	}
	want := !d.c.ClearExecStack
	if stack == nil || executable != want {
		d.change.ExecStack, d.changed = &want, true
	}
	return nil
}

func (d *doing) runPath() error {
	c := d.c
	if !c.ShrinkRunPath && !c.RemoveRunPath && !c.SetRunPath && !c.AddRunPath || d.detached() {
		return nil
	}
	if err := d.dynamic(); err != nil {
		return err
	}
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
	if !d.c.PrintNeeded || d.detached() {
		return nil
	}
	if err := d.dynamic(); err != nil {
		return err
	}
	needed, err := d.im.Needed()
	if err != nil {
		return err
	}
	for _, name := range needed {
		if err := d.print(name); err != nil {
			return err
		}
	}
	return nil
}

// needed removes, then replaces, then puts the additions first.
func (d *doing) needed() error {
	c := d.c
	if len(c.RemoveNeeded) == 0 && len(c.ReplaceNeeded) == 0 && len(c.AddNeeded) == 0 || len(c.AddNeeded) == 0 && d.detached() {
		return nil
	}
	if err := d.dynamic(); err != nil {
		return err
	}
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
	if len(d.c.ClearVersions) == 0 {
		return nil
	}
	if err := d.dynamic(); err != nil {
		return err
	}
	if _, has := d.im.Dyn(elf.DT_VERSYM); !has {
		return &MissingError{Section: ".gnu.version", Why: "has no versions of symbols"}
	}
	d.change.ClearVersions, d.changed = d.c.ClearVersions, true
	return nil
}

func (d *doing) flags() error {
	if !d.c.NoDefaultLib && !d.c.DebugTag {
		return nil
	}
	if err := d.dynamic(); err != nil {
		return err
	}
	if flags, _ := d.im.Dyn(elf.DT_FLAGS_1); d.c.NoDefaultLib && elf.DynFlag1(flags.Val)&elf.DF_1_NODEFLIB == 0 {
		d.change.NoDefaultLib, d.changed = true, true
	}
	if _, has := d.im.Dyn(elf.DT_DEBUG); d.c.DebugTag && !has {
		d.change.DebugTag, d.changed = true, true
	}
	return nil
}
