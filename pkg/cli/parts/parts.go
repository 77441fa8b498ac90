package parts

import (
	"debug/elf"
	"maps"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/normalform"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/edit/parts"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/tree"
)

// partsReport is an element of "files" in the JSON document of these commands.
type partsReport struct {
	session.Report
	Changes []parts.Change `json:"changes"`

	interpreter string
}

// runParts edits the session's files. It returns command.ErrFailed where a file failed, after
// all others were done.
func runParts(p *parts.Edit, s *session.Session) error {
	if p.Note.Maps == nil {
		p.Note.Maps = normal.New(normal.Settings{})
	}
	programs := map[string]int{} // that have a note, by their loaders
	return editors.Run(s, func(f *tree.File) *partsReport {
		result := p.File(f)
		r := &partsReport{editors.Report(s, f, &result.Result, result.Before, result.After),
			append([]parts.Change{}, result.Changes...), result.Interpreter}
		r.Warn = append(result.Notes, r.Warn...)
		r.Notes = slices.Concat(r.Info, r.Warn)
		var changes []string
		for _, c := range result.Changes {
			after := partText(c.After)
			if c.Part == "runpath" && result.After.Tag == elf.DT_RPATH && result.Before.Tag != elf.DT_RPATH {
				after = "DT_RPATH " + after
			}
			changes = append(changes, c.Part+" "+partText(c.Before)+" -> "+after)
		}
		if result.Note.Changed() {
			changes = append(changes, normalform.NoteLine(result.Note))
		}
		if r.Action == tree.Edited && r.Reason == "" {
			r.Line = strings.Join(changes, "; ")
		}
		return r
	}, func(r *partsReport) {
		if p.Note.Write && r.ResolutionNote != string(edit.NoteNone) && r.ResolutionNote != string(edit.NoteRemoved) {
			programs[r.interpreter]++
		}
	}, func() {
		for _, at := range slices.Sorted(maps.Keys(programs)) {
			if reads, known := loader.ReadsNotes(at); known && !reads {
				s.Log.Infof("%s, the loader of %d of these files, does not read resolution notes", at, programs[at])
			}
		}
	})
}

func partText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []string:
		if len(v) > 0 {
			return strings.Join(v, " ")
		}
	case bool:
		if v {
			return "executable"
		}
		return "not executable"
	}
	return "(none)"
}
