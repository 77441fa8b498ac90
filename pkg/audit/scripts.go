package audit

import (
	"fmt"
	"path"

	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/scripts"
	"cuda-runpath/pkg/store"
)

// Script examines the text of a script at a path; nil where there is nothing to report.
func (a *Auditor) Script(p, text string, lang scripts.Language) *Report {
	r := &Report{Path: p, Outcome: Checked}
	places := scripts.Find(text, lang, nil)
	for _, place := range places {
		f := Finding{ID: DriverByName, Severity: Note, Library: place.Library, Line: place.Line}
		switch place.Kind {
		case scripts.Named:
			continue
		case scripts.Ldconfig:
			f.Message = fmt.Sprintf("line %d runs ldconfig -p, which does not list the driver link: %s", place.Line, place.Text)
			f.Remedy = remedy.Do("look for the library in the driver link; runpath scripts leaves this to the package")
		default:
			f.Message = fmt.Sprintf("line %d opens %s by name, with the interpreter's run path: %s", place.Line, place.Library, place.Text)
			f.Remedy = remedy.Do("open it by its path below the driver link; runpath scripts leaves this to the package")
		}
		if place.Replace != "" {
			f.Remedy = remedy.Run("runpath", "scripts", "--fix", p)
		}
		if s := place.Substitute(text, places); s != "" {
			f.Remedy = f.And(fmt.Sprintf(", or in the Nix package: substituteInPlace %s %s", path.Base(p), s))
		}
		if a.Nix || store.Contains(p) {
			f.Severity = Warning
		}
		if a.Strict && f.Severity == Warning {
			f.Severity = Error
		}
		r.Findings = append(r.Findings, f)
	}
	if r.Findings == nil {
		return nil
	}
	return r
}
