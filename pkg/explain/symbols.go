package explain

import "cuda-runpath/pkg/loader"

// Undefined is a symbol that nothing loaded at start defines.
type Undefined struct {
	Symbol  string `json:"symbol"`
	Version string `json:"version,omitempty"`
	Path    string `json:"path"` // of the file that refers to it
}

// Version is a symbol version that a file needs.
type Version struct {
	Path    string  `json:"path"` // of the file that needs it
	Library string  `json:"library"`
	Version string  `json:"version"`
	From    *string `json:"from"` // the file that defines it; null where the library is not found, or does not
}

// Symbols is what to say of symbols, as ldd -u, -r and -v do.
type Symbols struct{ Unused, Undefined, Versions bool }

// Any reports whether there is anything to say.
func (q Symbols) Any() bool { return q.Unused || q.Undefined || q.Versions }

// Answer fills in what was asked for, empty lists where there is none of it. unknown
// names what is not known of this load; its list is then nil.
func (q Symbols) Answer(f *File, s *loader.Load) (unknown []string) {
	if q.Unused {
		if unused, ok := s.Unused(); ok {
			f.Unused = []string{}
			for _, u := range unused {
				f.Unused = append(f.Unused, u.Name)
			}
		} else {
			unknown = append(unknown, "what of it is unused")
		}
	}
	if q.Undefined {
		if undefined, ok := s.Undefined(); ok {
			f.Undefined = []Undefined{}
			for _, u := range undefined {
				if u.Aborts == nil {
					f.Undefined = append(f.Undefined, Undefined{u.Name, u.Needs(), u.In.Path})
				}
			}
		} else {
			unknown = append(unknown, "which symbols are undefined")
		}
	}
	if q.Versions {
		f.Versions = []Version{}
		for _, v := range s.Versions() {
			w := Version{Path: v.By.Path, Library: v.Library, Version: v.Version}
			if v.To != nil {
				w.From = &v.To.Path
			}
			f.Versions = append(f.Versions, w)
		}
	}
	return unknown
}
