package audit

import (
	"fmt"
	"testing"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/remedy"
)

func TestGroups(t *testing.T) {
	var reports []*explain.Report
	for i := range 5 {
		p := fmt.Sprintf("p%d", i)
		reports = append(reports, &explain.Report{Path: p, Findings: []finding.Finding{
			{ID: finding.EmptyEntry, Severity: finding.Error, Message: "entry 2 is empty", Remedy: remedy.Run("runpath", "normalize", p).And("; or not")},
			{ID: finding.Unresolved, Severity: finding.Error, Message: fmt.Sprintf("lib%d.so is not found", i), Remedy: remedy.Do("add it")},
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
	if got := g.Fix().Whole(); got != "runpath normalize p0 p1 p2 p3 p4; or not" {
		t.Error(got)
	}
	if got := Counts(groups, false); got != "5 empty-entry, 5 unresolved-library" {
		t.Error(got)
	}
	// Other settings in one of the commands: they are not one command.
	reports[1].Findings[0].Remedy = remedy.Run("runpath", "normalize", "--compat", "/c", "p1")
	if got := Groups(reports)[0].Fix().Whole(); got == "runpath normalize p0 p1 p2 p3 p4; or not" {
		t.Error(got)
	}
}

// Commands that differ in more than the file are not one command for all.
func TestGroupOfDifferentCommands(t *testing.T) {
	report := func(path, entry string) *explain.Report {
		return &explain.Report{Path: path, Findings: []finding.Finding{{ID: finding.UnusedEntry, Severity: finding.Note, Message: "m", Remedy: remedy.Run("runpath", "edit", "--remove-entry", entry, path)}}}
	}
	for other, want := range map[string]string{
		"/x": "runpath edit --remove-entry /x /a /b",
		"/y": "runpath edit --remove-entry /x /a (similarly for the others: see --json)",
	} {
		groups := Groups([]*explain.Report{report("/a", "/x"), report("/b", other)})
		if len(groups) != 1 || groups[0].Fix().Whole() != want {
			t.Errorf("%d groups: %q, want %q", len(groups), groups[0].Fix().Whole(), want)
		}
	}
	// What several load may be one file, which is named once.
	same := func(path string) *explain.Report {
		return &explain.Report{Path: path, Findings: []finding.Finding{{ID: "unresolved-dependency", Message: "m", Remedy: remedy.Run("runpath", "add", "/l", "/l/lib.so")}}}
	}
	if got := Groups([]*explain.Report{same("/a"), same("/b")})[0].Fix().Whole(); got != "runpath add /l /l/lib.so" {
		t.Error(got)
	}
}

func TestPathsBelowADirectory(t *testing.T) {
	for p, want := range map[string]bool{"/a": true, "/a/b": true, "/ab": false, "/": false, "a/b": false} {
		if explain.IsBelow(p, "/a") != want {
			t.Errorf("%s below /a: %v", p, !want)
		}
	}
}

// A file that could not be examined passes only where that, and all else of it, is accepted.
func TestBaselineAndAFileThatFails(t *testing.T) {
	failed := func(more ...finding.Finding) *explain.Report {
		return &explain.Report{Path: "/a", Outcome: explain.Failed, Findings: append([]finding.Finding{{ID: finding.Malformed, Severity: finding.Error}}, more...)}
	}
	b := &Baseline{Update: true}
	b.Accept(failed())
	b.Update = false
	for _, c := range []struct {
		report *explain.Report
		want   explain.Outcome
	}{{failed(), explain.Checked}, {failed(finding.Finding{ID: finding.EmptyEntry, Severity: finding.Error}), explain.Failed}, {&explain.Report{Path: "/a", Outcome: explain.Failed}, explain.Failed}} {
		if b.Accept(c.report); c.report.Outcome != c.want {
			t.Errorf("%+v: %s, want %s", c.report.Findings, c.report.Outcome, c.want)
		}
	}
}

// Of the files of a name that one counts which is nearest, and of two that are as near the first by its path, whatever was examined first.
func TestNearestProvider(t *testing.T) {
	fits := func(file string) bool { return file != "/a/b/unfit/l.so" }
	for _, files := range [][]string{{"/a/x/l.so", "/a/b/d/l.so", "/a/b/c/l.so", "/a/b/unfit/l.so"}, {"/a/b/unfit/l.so", "/a/b/c/l.so", "/a/b/d/l.so", "/a/x/l.so"}} {
		k := &knowledge{provides: map[string][]string{"l.so": files}}
		for near, want := range map[string]string{"/a/b/p": "/a/b/c/l.so", "/a/b/d/p": "/a/b/d/l.so", "/a/x/p": "/a/x/l.so", "/a/b/unfit/p": "/a/b/c/l.so"} {
			if got := k.provider("l.so", near, fits); got != want {
				t.Errorf("near %s: %s, want %s", near, got, want)
			}
		}
		if got := k.provider("l.so", "/a/b/p", func(string) bool { return false }); got != "" {
			t.Errorf("%s does not fit", got)
		}
	}
}
