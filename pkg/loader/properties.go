package loader

import (
	"slices"
)

// checkISA is dl_isa_level_check of sysdeps/x86/dl-prop.h: the loader refuses to
// start, or to open, what is marked for more than the processor has.
func (s *Load) checkISA(objects []*Object) {
	if s.CPU.isa == 0 || s.Interp.Version < 33 {
		return
	}
	for i := len(objects) - 1; i >= 0; i-- {
		o := objects[i]
		if !o.Found() || o.Err != "" || o.File == nil || o == s.self || o.File.ISA&^s.CPU.isa == 0 {
			continue
		}
		needs := "x86-64-baseline"
		for bit, name := range map[uint32]string{2: "x86-64-v2", 4: "x86-64-v3", 8: "x86-64-v4"} {
			if o.File.ISA&bit != 0 && o.File.ISA < bit<<1 {
				needs = name
			}
		}
		s.refuse(o, "CPU ISA level is lower than required (%s)", needs)
		return
	}
}

// checkStack is what glibc from 2.41 on does when it opens a library that asks for an
// executable stack while the process's is not: it refuses. What is loaded at start
// still gets one (elf/dl-load.c, glibc's NEWS for 2.41).
func (s *Load) checkStack(objects []*Object) {
	if s.Interp.Version < 41 || s.Interp.Version == Newest {
		return
	}
	for _, o := range s.Objects {
		if !o.late && !slices.Contains(objects, o) && o.File != nil && o != s.self && o.File.ExecutableStack != "" {
			return // it has an executable stack from the start
		}
	}
	for _, o := range objects {
		if o.File != nil && o.Found() && o.Err == "" && o != s.self && o.File.ExecutableStack != "" {
			s.refuse(o, "cannot enable executable stack as shared object requires (%s)", o.File.ExecutableStack)
			return
		}
	}
}
