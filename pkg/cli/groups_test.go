package cli

import (
	"fmt"
	"testing"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/remedy"
)

func TestGroups(t *testing.T) {
	var reports []*audit.Report
	for i := range 5 {
		p := fmt.Sprintf("p%d", i)
		reports = append(reports, &audit.Report{Path: p, Findings: []audit.Finding{
			{ID: audit.EmptyEntry, Severity: audit.Error, Message: "entry 2 is empty", Remedy: remedy.Run("runpath", "normalize", p).And("; or not")},
			{ID: audit.Unresolved, Severity: audit.Error, Message: fmt.Sprintf("lib%d.so is not found", i), Remedy: remedy.Do("add it")},
		}})
	}
	groups := groupFindings(reports)
	if len(groups) != 6 {
		t.Fatalf("%d groups, not 6", len(groups))
	}
	g := groups[0]
	if got := g.names(); got != "p0, p1, p2 and 2 more" {
		t.Error(got)
	}
	if got := g.fix(); got != "runpath normalize p0 p1 p2 p3 p4; or not" {
		t.Error(got)
	}
	if got := countFindings(&session{}, groups); got != "5 empty-entry, 5 unresolved-library" {
		t.Error(got)
	}
	// Other settings in one of the commands: they are not one command.
	reports[1].Findings[0].Remedy = remedy.Run("runpath", "normalize", "--compat", "/c", "p1")
	if got := groupFindings(reports)[0].fix(); got == "runpath normalize p0 p1 p2 p3 p4; or not" {
		t.Error(got)
	}
}
