package runpath

import "slices"

// Map names what a tool asks of a run path. Maps combine with |; any subset,
// applied at once or one after the other in any order and any number of times
// under the same Settings, gives the same list.
type Map uint

// The maps of the three editing tools. The zero Map asks for nothing and still
// leaves the list in normal form.
const (
	// ReplaceStubs takes stub directories out. It asks for the driver link if it took one out, or if the file needs a
	// driver-provided library that is in none of the entries that are not the tools'.
	ReplaceStubs Map = 1 << iota
	// AddDriverLink asks for the driver link.
	AddDriverLink
	// AddCompat asks for Settings.Compat.
	AddCompat
)

// Settings is what the maps need to know beside the list: what the user asked for, and what is known about the file.
// The functions must be pure, and get an entry's Key. Without ReplaceStubs, Holds and Offers are not called.
type Settings struct {
	DriverLink string // the driver link for this file; required
	Compat     string // the compat directory, "" where none was named
	// CompatForStubs makes ReplaceStubs ask for Compat wherever it asks for the driver link.
	CompatForStubs bool
	DriverLast     bool // the driver link goes after all other entries
	KeepEmpty      bool // keep empty entries, which mean the working directory
	Dedupe         bool // keep only the first of entries that name one directory

	// IsStub reports whether an entry is a stub directory.
	IsStub func(entry string) bool
	// IsCompat reports whether an entry is a compat directory other than Compat.
	IsCompat func(entry string) bool

	// Needed is the file's DT_NEEDED.
	Needed []string
	// IsDriverLibrary reports whether a library of that name ships with the driver.
	IsDriverLibrary func(soname string) bool
	// Holds reports whether the directory now holds a library that the loader
	// would take for this file.
	Holds func(entry, soname string) bool
	// Offers reports whether a stub directory holds a stub for a soname, under any file name.
	Offers func(stubDir, soname string) bool
}

// Notes says what a report should mention of one application of the maps.
type Notes struct {
	Empties    int      // empty entries dropped, or kept where Settings.KeepEmpty
	Stubs      []string // stub directories taken out
	Unused     []string // entries that Shrink took out
	Duplicates []string // entries that name a directory again: removed where Settings.Dedupe, else left
	// DriverFor lists the needed driver-provided libraries that made ReplaceStubs ask for the driver link although
	// the list had no stub directory.
	DriverFor []string
	// Missing lists needed libraries, not driver-provided, that a removed stub
	// directory offered and that no remaining entry holds.
	Missing []string
}

// owner says whose an entry is.
type owner int

const (
	other owner = iota
	driver
	compat
	stub
	empty
)

// driverLink and compatDir are the Keys of Settings.DriverLink and Compat.
func (s *Settings) owner(key, driverLink, compatDir string) owner {
	switch {
	case key == "":
		return empty
	case key == driverLink:
		return driver
	case compatDir != "" && key == compatDir:
		return compat
	case s.IsCompat(key):
		return compat
	case s.IsStub(key):
		return stub
	}
	return other
}

// Apply returns the list as the maps leave it, in normal form. It has compat directories, the driver link (last with
// DriverLast), and every other entry in its order and spelling. It has no empty entry unless KeepEmpty. The given
// list is not modified.
//
// The entry alone decides whether a tool owns it. The entries that no tool owns decide what a map asks for, and no
// map adds or removes these (a removed stub directory leaves the driver link behind). So the maps commute.
func (s *Settings) Apply(l List, maps Map) (List, Notes) {
	var notes Notes
	driverLink, compatDir := Key(s.DriverLink), Key(s.Compat)
	wantDriver := maps&AddDriverLink != 0 || maps&AddCompat != 0 && s.Compat != "" && compatDir == driverLink
	wantCompat := maps&AddCompat != 0 && s.Compat != ""
	hadDriver := false

	var compats List
	rest := make(List, 0, len(l))
	owned := map[string]bool{} // keys of compat entries seen
	seen := map[string]bool{}  // keys of the rest seen
	for _, e := range l {
		key := Key(e)
		switch who := s.owner(key, driverLink, compatDir); {
		case who == driver:
			wantDriver, hadDriver = true, true
			continue
		case who == compat:
			if s.Compat != "" && key == compatDir {
				wantCompat = true
			} else if !owned[key] {
				compats = append(compats, e)
			}
			owned[key] = true
			continue
		case who == empty:
			notes.Empties++
			if s.KeepEmpty {
				rest = append(rest, e)
			}
			continue
		case who == stub && maps&ReplaceStubs != 0:
			notes.Stubs = append(notes.Stubs, e)
			wantDriver = true
			continue
		}
		if seen[key] {
			notes.Duplicates = append(notes.Duplicates, e)
			if s.Dedupe {
				continue
			}
		}
		seen[key] = true
		rest = append(rest, e)
	}
	if maps&ReplaceStubs != 0 {
		notes.DriverFor = s.unheld(rest)
		wantDriver = wantDriver || len(notes.DriverFor) > 0
		wantCompat = wantCompat || s.CompatForStubs && s.Compat != "" && (len(notes.Stubs) > 0 || len(notes.DriverFor) > 0)
	}

	out := make(List, 0, len(l)+2)
	if wantCompat && compatDir != driverLink {
		out = append(out, s.Compat)
	}
	out = append(out, compats...)
	if wantDriver && !s.DriverLast {
		out = append(out, s.DriverLink)
	}
	out = append(out, rest...)
	if wantDriver && s.DriverLast {
		out = append(out, s.DriverLink)
	}
	notes.Missing = s.missing(notes.Stubs, out)
	if len(notes.Stubs) > 0 || hadDriver {
		notes.DriverFor = nil
	}
	return out, notes
}

// unheld returns the needed driver-provided libraries that no entry of rest holds. A stub directory in rest holds
// none; AddDriverLink alone leaves stubs in the list.
func (s *Settings) unheld(rest List) []string {
	var names []string
	for _, name := range s.Needed {
		if s.IsDriverLibrary(name) && !s.held(rest, name) {
			names = append(names, name)
		}
	}
	return names
}

func (s *Settings) held(l List, name string) bool {
	return slices.ContainsFunc(l, func(e string) bool { return e != "" && s.Holds(Key(e), name) })
}

func (s *Settings) missing(stubs []string, rest List) []string {
	var names []string
	for _, name := range s.Needed {
		if s.IsDriverLibrary(name) || slices.Contains(names, name) {
			continue
		}
		offered := slices.ContainsFunc(stubs, func(dir string) bool { return s.Offers(Key(dir), name) })
		if offered && !s.held(rest, name) {
			names = append(names, name)
		}
	}
	return names
}
