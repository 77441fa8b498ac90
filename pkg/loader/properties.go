package loader

import (
	"slices"
	"strings"
)

// checkISA is dl_isa_level_check of sysdeps/x86/dl-prop.h. The loader refuses to start or open what is marked for
// more than the processor has.
func (s *Load) checkISA(objects []*Object) {
	if s.cpu.isa == 0 || s.Interp.Version < 33 {
		return
	}
	for i := len(objects) - 1; i >= 0; i-- {
		o := objects[i]
		if !o.Found() || o.Err != "" || o.File == nil || o == s.self || o.File.ISA&^s.cpu.isa == 0 {
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

// mostStaticTLS is more than the room that glibc keeps at its start for thread-local data of libraries opened later,
// some 1,700 bytes (TLS_STATIC_SURPLUS; since 2.32 _dl_tls_static_surplus_init of elf/dl-tls.c).
const mostStaticTLS = 4096

// checkTLS is what glibc does when it opens a library with more thread-local data than there is room for
// (_dl_allocate_static_tls of elf/dl-reloc.c). It judges only what does not depend on earlier openings, or on
// tunables.
func (s *Load) checkTLS(objects []*Object) {
	if strings.Contains(s.Tunables, "glibc.rtld.") {
		return
	}
	for _, o := range objects {
		if o.File != nil && o.Found() && o.Err == "" && o != s.self && o.File.StaticTLS > mostStaticTLS {
			s.refuse(o, "cannot allocate memory in static TLS block: it has %d bytes of thread-local data for it, and "+
				"what is opened late shares some 1,700; preload it, or let the program need it", o.File.StaticTLS)
			return
		}
	}
}

// checkStack: since 2.41 glibc refuses to open a library that asks for an executable stack if the process has none.
// What is loaded at start still gets one (elf/dl-load.c, glibc's NEWS for 2.41).
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
