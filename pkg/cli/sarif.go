package cli

import (
	"fmt"
	"io"
	"path"
	"strings"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli/command"
)

// The parts of SARIF 2.1.0 (OASIS standard) that are written here.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Address string      `json:"informationUri,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string      `json:"id"`
		Short   sarifText   `json:"shortDescription"`
		Full    sarifText   `json:"fullDescription"`
		Help    sarifText   `json:"help"`
		Default sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level audit.Severity `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string             `json:"ruleId"`
		RuleIndex    int                `json:"ruleIndex"`
		Level        audit.Severity     `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Fingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
)

func writeSARIF(w io.Writer, found *audited) error {
	driver := sarifDriver{Name: "runpath audit", Version: version(), Address: address()}
	index := map[string]int{}
	for i, r := range audit.Rules() {
		index[r.ID] = i
		driver.Rules = append(driver.Rules, sarifRule{r.ID, sarifText{r.Summary}, sarifText{r.Help}, sarifText{r.Help}, sarifConfig{r.Severity}})
	}
	run := sarifRun{Tool: sarifTool{driver}, ColumnKind: "utf16CodeUnits", Results: []sarifResult{}}
	for _, r := range found.reports {
		for i := range r.Findings {
			f := &r.Findings[i]
			res := sarifResult{RuleID: f.ID, RuleIndex: index[f.ID], Level: f.Severity,
				Message: sarifText{strings.ToValidUTF8(f.Message+". fix: "+f.Fix, "�")},
				// Code scanning shows results at a line; an ELF file is shown at its first.
				Locations:    []sarifLocation{{sarifPhysical{sarifArtifact{uri(r.Path)}, &sarifRegion{max(1, f.Line)}}}},
				Fingerprints: map[string]string{"finding/v1": audit.Digest(r.Path, f)}}
			if f.Accepted {
				res.Suppressions = []sarifSuppression{{"external", "accepted by the baseline"}}
			}
			run.Results = append(run.Results, res)
		}
	}
	b, err := command.JSON(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}, " ")
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}

// uri is a file's path as a URI: relative where the path is (RFC 3986, sections 3.3 and 4.2).
func uri(p string) string {
	var b strings.Builder
	p = path.Clean(p)
	switch first, _, _ := strings.Cut(p, "/"); {
	case path.IsAbs(p):
		b.WriteString("file://")
	case strings.Contains(first, ":"):
		b.WriteString("./") // "a:b" would have the scheme "a"
	}
	for i := range len(p) {
		switch c := p[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/$&+,:;=@", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
