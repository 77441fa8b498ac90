package audit

import (
	"fmt"
	"path"
	"path/filepath"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/remedy/change"
	"cuda-runpath/pkg/remedy/nixtext"
	"cuda-runpath/pkg/scripts"
	"cuda-runpath/pkg/scripts/syntax"
	"cuda-runpath/pkg/store"
)

// text examines the text of a script at a path; nil where there is nothing to report.
func (u *Audit) text(p, text string, lang syntax.Language) *explain.Report {
	r := &explain.Report{Path: p, Outcome: explain.Checked}
	places := scripts.Find(text, lang, nil)
	for _, place := range places {
		f := finding.Finding{ID: finding.DriverByName, Severity: finding.Note, Library: place.Library, Line: place.Line}
		switch place.Kind {
		case scripts.Named, scripts.Program, scripts.Variable:
			continue
		case scripts.Ldconfig:
			f.Message = fmt.Sprintf("line %d runs ldconfig -p, which does not list the driver link: %s", place.Line, place.Text)
			f.Remedy = remedy.Do("look for the library in the driver link; runpath scripts leaves this to the package")
		default:
			f.Message = fmt.Sprintf("line %d opens %s by name, with the interpreter's run path: %s", place.Line,
				place.Library, place.Text)
			f.Remedy = remedy.Do("open it by its path below the driver link; runpath scripts leaves this to the package")
		}
		if place.Replace != "" {
			file := u.Layout.File(u.real(p))
			file.Path = p
			f.Remedy = change.Run(file, "runpath", "scripts", "--fix")
		}
		if s := place.Substitute(text, places); s != "" {
			f.Remedy = f.And(", or in the Nix package: %s", nixtext.Substitute(path.Base(p), s))
		}
		if u.Nix || store.Contains(p) {
			f.Severity = finding.Warning
		}
		r.Findings = append(r.Findings, f.Strictly(u.Strict))
	}
	if r.Findings == nil {
		return nil
	}
	return r
}

// real returns the path of a file on this machine, free of symbolic links.
func (u *Audit) real(p string) string {
	at := u.Loader.Host(p)
	if real, err := regular.Real(at); err == nil {
		return real
	}
	if abs, err := filepath.Abs(at); err == nil {
		at = abs
	}
	return at
}
