package fixup

import (
	"fmt"
	"strings"

	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
)

// there is what a program has loaded, by the names that were asked for. The C library is loaded before all that the
// program opens, whatever that has in its run path (dl_map_object in elf/dl-load.c of glibc).
func (r *Resolver) there(program string) map[string]*loader.Object {
	if had, known := r.openers.Load(program); known {
		return had.(map[string]*loader.Object)
	}
	had := map[string]*loader.Object{}
	if load, err := r.ix.loader.Load(program); err == nil {
		for _, o := range load.Objects {
			if o.File != nil && o != load.Main {
				had[o.Name] = o
			}
		}
	}
	r.openers.Store(program, had)
	return had
}

// tooNew says which symbol versions the C library lacks that a candidate, or what it brings, needs; "" for none. The
// C library is that of the program that opens what needs the candidate.
func (r *Resolver) tooNew(program string, lib *Object) (why string) {
	key := [2]string{program, lib.Real}
	if said, known := r.newer.Load(key); known {
		return said.(string)
	}
	defer func() { r.newer.Store(key, why) }()
	had := r.there(program)
	load, err := r.ix.loader.Start(lib.Real, r.ix.loader.LoaderOf(program, lib.abi), loader.Environment{})
	if len(had) == 0 || err != nil {
		return ""
	}
	for _, o := range load.Objects {
		if o.File == nil || had[o.Name] != nil && o != load.Main {
			continue
		}
		for _, u := range o.Uses {
			c := had[u.Name]
			if c == nil || !files.OfCLibrary(u.Name) || c.File.Serves(o.File, u.Name) {
				continue
			}
			why = fmt.Sprintf("%s%s, which %s has loaded, lacks %s", newer, c.Path, program,
				strings.Join(c.File.Lacks(o.File, u.Name), ", "))
			if o != load.Main {
				why += ", for " + o.Path
			}
			return why
		}
	}
	return ""
}

// loadedBefore reports whether the program that opens a library of the tree has something of a name by then.
func (r *Resolver) loadedBefore(o *Object, name string) bool {
	return r.s.Opener != nil && !o.program() && r.there(r.s.Opener(o.Real))[name] != nil
}

// openedBy is [loader.Loader.LoaderOf] the program that opens a library of the tree; "" if none is known.
func (r *Resolver) openedBy(o *Object) string {
	if r.s.Opener == nil || o.program() {
		return ""
	}
	return r.ix.loader.LoaderOf(r.s.Opener(o.Real), o.abi)
}

// Outside is the plan of a program that no run changes; nil if it cannot be read.
func (r *Resolver) Outside(program string) *Plan {
	o := r.ix.file(program)
	if o == nil || !o.program() {
		return nil
	}
	return &Plan{Object: o, NoLoader: r.ix.loader.Interpreter(o.Interp, o.abi).Why}
}
