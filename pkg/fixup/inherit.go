package fixup

import (
	"debug/elf"
	"fmt"
	"path"
	"slices"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/runpath"
)

// A library inherits the DT_RPATH of those that loaded it. Nothing inherits a DT_RUNPATH, and a library with a
// DT_RUNPATH inherits nothing (elf/dl-load.c of glibc). So a file that gets a DT_RUNPATH may lose what it found by
// another's DT_RPATH. (A file with a DT_RPATH keeps that, see [Resolver.list].)

// Loss is a library that is found today by a DT_RPATH that its asker inherits. If the asker had a DT_RUNPATH, it
// would not be found, or another file would be.
type Loss struct {
	name   string
	by     string // who asks for it
	opened bool   // by its name, with dlopen
}

func (l Loss) String() string {
	if l.opened {
		return fmt.Sprintf("%s, which %s opens by name", l.name, l.by)
	}
	return fmt.Sprintf("%s, which %s needs", l.name, l.by)
}

// keepRPath gives a DT_RPATH to files that would lose what they find by an inherited one if they got a DT_RUNPATH.
func (r *Resolver) keepRPath(plans []*Plan) {
	if r.s.Mode != Repair || r.s.Tag != elf.DT_NULL {
		return
	}
	gets := map[string]*Plan{} // a DT_RUNPATH, by Object.Real
	for _, p := range plans {
		if p.stands() && p.Changes() && p.Object.Tag == elf.DT_NULL && p.State().Tag == elf.DT_RUNPATH {
			gets[p.Object.Real] = p
		}
	}
	if len(gets) == 0 || !slices.ContainsFunc(plans, func(p *Plan) bool { return p.Object.Tag == elf.DT_RPATH }) {
		return
	}
	heirs := r.ix.heirs(plans)
	why := map[*Plan][]Loss{}
	var lost []Loss
	for again, round := len(heirs) > 0, 0; again && round < 16; round++ { // each round may show what the one before hid
		again, lost = false, nil
		after := r.ix.view(plans)
		for _, h := range heirs {
			now := &heir{path: h.path, opens: h.opens, opened: h.opened}
			found := now.ask(after, false)
			for _, a := range h.asks {
				if file, asked := found[[2]string{a.by, a.name}]; !asked || file == a.file {
					continue
				}
				lost = append(lost, a.Loss)
				if p := gets[a.by]; p != nil && p.tag == elf.DT_RUNPATH {
					why[p], again = append(why[p], a.Loss), true
				}
			}
		}
		for p := range why {
			p.tag = elf.DT_RPATH
		}
	}
	for p, all := range why {
		p.tag = elf.DT_RUNPATH
		for _, loss := range all {
			if !slices.Contains(lost, loss) { // else a DT_RPATH does not help, because the list differs
				p.tag, p.KeptRPath = elf.DT_RPATH, &loss
			}
		}
	}
}

// heir is a file with a DT_RPATH, and a library that it opens, if not "".
type heir struct {
	path, opens string
	asks        []inherited
	opened      map[string][]string // what each object opens by name, by its path
}

// inherited is a library that an object found by a DT_RPATH of another.
type inherited struct {
	Loss
	file string // that was found
	by   string // the file of the object
}

// maxPlugins bounds how many libraries are tried that a program with a DT_RPATH may open by a computed name.
const maxPlugins = 2000

// heirs are those with which something is found today by an inherited DT_RPATH.
func (ix *Index) heirs(plans []*Plan) (all []*heir) {
	add := func(h *heir) {
		if h.ask(ix.loader, true); len(h.asks) > 0 {
			all = append(all, h)
		}
	}
	var programs, alone []string // alone: libraries that do not find all that they need on their own
	for _, p := range plans {
		o := p.Object
		if !p.stands() || o.Tag == elf.DT_RUNPATH {
			continue
		}
		if o.Tag == elf.DT_RPATH {
			add(&heir{path: o.Real})
		}
		load, err := ix.loader.Load(o.Real)
		switch {
		case err != nil || load.Role == loader.Static:
		case load.Role == loader.Program && o.Tag == elf.DT_RPATH:
			programs = append(programs, o.Real)
		case load.Role != loader.Program && slices.ContainsFunc(load.Missing(),
			func(o *loader.Object) bool { return !driver.Provides(path.Base(o.Name)) }):
			alone = append(alone, o.Real)
		}
	}
	for i, p := range programs {
		for _, plugin := range alone {
			if i*len(alone) < maxPlugins {
				add(&heir{path: p, opens: plugin})
			}
		}
	}
	return all
}

// ask loads the file and follows what is opened by name; with search, it looks for those names first. It returns
// where each object found what it asked for, "" for nowhere, by the object's path and the name.
func (s *heir) ask(l *loader.Loader, search bool) map[[2]string]string {
	load, err := l.Load(s.path)
	if err != nil || load.Role == loader.Static {
		return nil
	}
	if s.opens != "" {
		load.Open(s.opens, load.Main, loader.DlopenAsked, "")
	}
	if search {
		s.opened = map[string][]string{}
	}
	found := map[[2]string]string{}
	for i := 0; i < len(load.Objects); i++ {
		o := load.Objects[i]
		if o.File == nil || !o.Found() || o.Err != "" {
			continue
		}
		if search && o.File.Tag != elf.DT_RUNPATH && !files.OfGLibc(o.Name) && !driver.Provides(path.Base(o.Name)) {
			s.opened[o.Path] = mayOpen(load, o)
		}
		for _, name := range s.opened[o.Path] {
			load.Open(name, o, loader.DlopenString, "")
		}
	}
	for _, o := range load.WithFailed() {
		for _, u := range load.Asks(o) {
			if u.To == nil || driver.Provides(path.Base(u.Name)) || u.To.File == nil && u.To.Found() {
				continue
			}
			key := [2]string{o.Path, u.Name}
			if found[key] = ""; !u.To.Found() {
				continue
			}
			found[key] = u.To.File.Path
			// A library that lacks a version is found in vain.
			if list := u.To.List; search && !u.Again && u.To.Rule == loader.ByRPath && list != nil && list != o &&
				u.To.File.Serves(o.File, u.Name) {
				s.asks = append(s.asks, inherited{Loss{u.Name, o.Path, u.Cause == loader.DlopenString}, u.To.File.Path, o.File.Path})
			}
		}
	}
	return found
}

// mayOpen returns the names among an object's constants that a directory of a DT_RPATH holds.
func mayOpen(load *loader.Load, o *loader.Object) (names []string) {
	var dirs []string
	for _, x := range load.Objects {
		if x.File == nil || x.File.Tag != elf.DT_RPATH {
			continue
		}
		for _, entry := range runpath.Parse(x.File.List) {
			if dir, ok := load.Expand(x, entry); ok && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	for _, lit := range o.File.Literals() {
		if lit.Exact && lit.Path == "" && slices.ContainsFunc(dirs,
			func(dir string) bool { return load.Holds(dir, lit.Name) }) {
			names = append(names, lit.Name)
		}
	}
	return names
}
