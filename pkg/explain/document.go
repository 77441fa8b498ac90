package explain

import (
	"fmt"
	"slices"

	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
)

// File is what explain adds to an element of "files" in its JSON document, beside what all commands say of a file.
type File struct {
	Reason      string            `json:"-"` // why there is nothing to explain
	Interpreter string            `json:"interpreter,omitempty"`
	Loader      string            `json:"loader,omitempty"` // "glibc 2.36", "musl"
	Secure      bool              `json:"secure"`           // a set-user-ID program's rules apply
	SecureBy    string            `json:"secure_by,omitempty"`
	Tag         string            `json:"-"`
	RunPath     string            `json:"-"`
	Error       string            `json:"error,omitempty"` // why the loader would stop
	Missing     int               `json:"missing"`
	Lacks       []Lack            `json:"lacks,omitempty"` // symbol versions that others need of the file itself
	Libraries   []Library         `json:"libraries"`
	Driver      []Verdict         `json:"driver"`
	Findings    []finding.Finding `json:"findings,omitzero"` // all that is concluded of the start
	// GPUCode lists the libraries without code for a GPU, if one was asked for.
	GPUCode []GPUCode `json:"gpu_code,omitzero"`
	// Only what was asked for; see [Symbols].
	Unused    []string    `json:"unused,omitzero"`
	Undefined []Undefined `json:"undefined,omitzero"`
	Versions  []Version   `json:"versions,omitzero"`
}

// GPUCode is what a GPU does with the code of a library.
type GPUCode struct {
	Path string `json:"path"`
	Kind string `json:"id"` // the finding's
	Text string `json:"text"`
}

// Library is one library of a load.
type Library struct {
	Soname   string  `json:"soname"` // the name that was asked for
	Path     *string `json:"path"`   // as the loader names it; null if nothing was found
	Resolved string  `json:"resolved,omitempty"`
	Rule     string  `json:"rule"`
	Entry    *string `json:"entry,omitempty"`   // of the list by which it was found
	ListOf   string  `json:"list_of,omitempty"` // the file whose list that is
	NeededBy *string `json:"needed_by"`         // the file that asked first; null for an auditing module
	Cause    string  `json:"cause"`             // DT_NEEDED, .note.dlopen, string …
	Certain  bool    `json:"certain"`           // loaded at start, not by a later dlopen
	// Namespace is 0 for the program's; each auditing module has one of its own.
	Namespace int     `json:"namespace,omitempty"`
	Error     string  `json:"error,omitempty"` // why the loader stops at the file, or why dlopen of it fails
	Lacks     []Lack  `json:"lacks,omitempty"` // symbol versions that others need of it
	Also      []Again `json:"also_needed_by,omitempty"`
	// Instead are other files that the name may lead to, depending on what files do not show.
	Instead []Instead `json:"instead,omitempty"`
	Tried   []Tried   `json:"tried"`
}

// Lack is a symbol version that a library does not define, and the file that needs it. The loader says "version `…'
// not found (required by …)" and stops.
type Lack struct {
	Version  string `json:"version"`
	NeededBy string `json:"needed_by"`
}

// Again is a later request for a library that was loaded by then.
type Again struct {
	Path   string `json:"path"`
	Soname string `json:"soname"`
}

// Instead is a file that a name leads to if libraries are opened in another order, or on another processor than
// assumed.
type Instead struct {
	Path     string  `json:"path"`
	Rule     string  `json:"rule"`
	NeededBy *string `json:"needed_by"`
	When     string  `json:"when"`
}

// Tried is a place where the loader looked before.
type Tried struct {
	Path  string  `json:"path,omitempty"` // "" if no file was looked at
	Rule  string  `json:"rule"`
	Entry *string `json:"entry,omitempty"`
	Why   string  `json:"why"` // why it was not taken
}

// Describe turns a case into the element of the document.
func Describe(c *Case) *File {
	s := c.Load
	f := &File{Libraries: []Library{}, Driver: []Verdict{}}
	if s.Main.File.Tag != 0 {
		f.Tag, f.RunPath = s.Main.File.Tag.String(), s.Main.File.List
	}
	if s.Role == loader.Static {
		f.Reason = "no loader loads libraries for it: " + string(s.Main.File.ELF.SkipReason())
		return f
	}
	f.Interpreter, f.Loader, f.Error = s.Interp.Path, s.Interp.Describe(), s.Stops()
	f.Secure, f.SecureBy = s.Secure != "", s.Secure
	f.Missing = len(s.Missing())
	for _, lack := range s.Main.Lacks {
		f.Lacks = append(f.Lacks, Lack{lack.Version, lack.By.Path})
	}
	f.libraries(s, c.WithFailed()[1:], 0)
	for _, p := range c.Failed {
		for i := range f.Libraries { // what it brought is gone again
			if lib := &f.Libraries[i]; lib.Path != nil && lib.Error == "" &&
				slices.ContainsFunc(p.Brought, func(o *loader.Object) bool { return &o.Path == lib.Path }) {
				lib.Error = fmt.Sprintf("not loaded, because opening %s fails", p.Name)
			}
		}
	}
	for _, other := range c.Otherwise() {
		for i := range f.Libraries {
			if lib := &f.Libraries[i]; lib.Path == &other.Of.Path {
				o := other.Object
				instead := Instead{Path: o.Path, Rule: string(o.Rule), When: other.When}
				if o.NeededBy != nil {
					instead.NeededBy = &o.NeededBy.Path
				}
				lib.Instead = append(lib.Instead, instead)
			}
		}
	}
	for i, a := range s.Audits {
		f.libraries(a, a.Objects, i+1)
	}
	for _, v := range c.Verdicts() {
		f.Driver = append(f.Driver, *v)
	}
	return f
}

// libraries appends objects of a load.
func (f *File) libraries(s *loader.Load, objects []*loader.Object, namespace int) {
	also := map[*loader.Object][]Again{}
	for _, o := range s.Objects {
		for _, u := range o.Uses {
			if u.Again {
				also[u.To] = append(also[u.To], Again{o.Path, u.Name})
			}
		}
	}
	for _, o := range objects {
		lib := Library{Soname: o.Name, Namespace: namespace, Rule: string(o.Rule), Cause: string(o.Cause),
			Certain: o.Certain(), Error: o.Err, Also: also[o], Tried: []Tried{}}
		if o.Found() {
			lib.Path = &o.Path
			if o.File != nil && o.File.Path != o.Path {
				lib.Resolved = o.File.Path
			}
		}
		if o.Why != "" {
			lib.Error = o.Why
		}
		for _, lack := range o.Lacks {
			lib.Lacks = append(lib.Lacks, Lack{lack.Version, lack.By.Path})
		}
		if o.Found() && !o.Cause.Certain() {
			lib.Error = o.Fails()
		}
		if o.NeededBy != nil {
			lib.NeededBy = &o.NeededBy.Path
		}
		if o.Rule.HasEntry() {
			lib.Entry = &o.Entry
		}
		if o.List != nil {
			lib.ListOf = o.List.Path
		}
		for _, t := range o.Tried {
			tried := Tried{Path: t.Path, Rule: string(t.Rule), Why: t.Why}
			if t.Rule.HasEntry() {
				tried.Entry = &t.Entry
			}
			lib.Tried = append(lib.Tried, tried)
		}
		f.Libraries = append(f.Libraries, lib)
	}
}

// Only leaves in the document one library alone, under whatever name it was loaded.
func (f *File) Only(o *loader.Object) {
	f.Libraries = slices.DeleteFunc(f.Libraries, func(l Library) bool {
		return l.Soname != o.Name || (l.Path != nil) != o.Found() || l.Path != nil && *l.Path != o.Path
	})
	f.Driver = slices.DeleteFunc(f.Driver, func(v Verdict) bool { return v.Soname != o.Name })
}
