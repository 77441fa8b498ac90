package audit

import (
	"io"
	"net/url"
	"path"
	"strings"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/finding"
)

// writeSARIF writes the findings as SARIF 2.1.0 (OASIS standard).
func writeSARIF(w io.Writer, found *audited) error {
	type object = map[string]any
	text := func(s string) object { return object{"text": strings.ToValidUTF8(s, "\ufffd")} }
	index := map[string]int{}
	rules, results := []object{}, []object{}
	for i, r := range finding.Situations() {
		index[r.ID] = i
		rules = append(rules, object{"id": r.ID, "shortDescription": text(r.Summary), "fullDescription": text(r.Help),
			"help": text(r.Help), "defaultConfiguration": object{"level": r.Severity}})
	}
	for _, r := range found.reports {
		for i := range r.Findings {
			f := &r.Findings[i]
			// Code scanning shows results at a line; an ELF file is shown at its first.
			at := object{"artifactLocation": object{"uri": uri(r.Path)}, "region": object{"startLine": max(1, f.Line)}}
			result := object{"ruleId": f.ID, "ruleIndex": index[f.ID], "level": f.Severity,
				"message":   text(f.Message + ". fix: " + f.Whole()),
				"locations": []object{{"physicalLocation": at}}, "partialFingerprints": object{
					"finding/v1": audit.Digest(r.Path, f)}}
			if f.Accepted {
				result["suppressions"] = []object{{"kind": "external", "justification": "accepted by the baseline"}}
			}
			results = append(results, result)
		}
	}
	driver := object{"name": "runpath audit", "version": command.VersionString(), "rules": rules}
	b, err := command.JSON(object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}}}, " ")
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}

// uri is a file's path as a URI: relative where the path is (RFC 3986, sections 3.3 and 4.2).
func uri(p string) string {
	u := url.URL{Path: path.Clean(p)}
	if path.IsAbs(p) {
		u.Scheme = "file"
	}
	return u.String()
}
