package audit

import (
	"fmt"
	"testing"

	"cuda-runpath/pkg/remedy"
)

func TestGroups(t *testing.T) {
	var reports []*Report
	for i := range 5 {
		p := fmt.Sprintf("p%d", i)
		reports = append(reports, &Report{Path: p, Findings: []Finding{
			{ID: EmptyEntry, Severity: Error, Message: "entry 2 is empty", Remedy: remedy.Run("runpath", "normalize", p).And("; or not")},
			{ID: Unresolved, Severity: Error, Message: fmt.Sprintf("lib%d.so is not found", i), Remedy: remedy.Do("add it")},
		}})
	}
	groups := Groups(reports)
	if len(groups) != 6 {
		t.Fatalf("%d groups, not 6", len(groups))
	}
	g := groups[0]
	if got := g.Names(); got != "p0, p1, p2 and 2 more" {
		t.Error(got)
	}
	if got := g.Fix().Fix; got != "runpath normalize p0 p1 p2 p3 p4; or not" {
		t.Error(got)
	}
	if got := Counts(groups, false); got != "5 empty-entry, 5 unresolved-library" {
		t.Error(got)
	}
	// Other settings in one of the commands: they are not one command.
	reports[1].Findings[0].Remedy = remedy.Run("runpath", "normalize", "--compat", "/c", "p1")
	if got := Groups(reports)[0].Fix().Fix; got == "runpath normalize p0 p1 p2 p3 p4; or not" {
		t.Error(got)
	}
}
