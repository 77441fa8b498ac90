package audit

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/tests/tinyelf"
)

// auditFolder is a folder of files to be audited.
type auditFolder struct {
	*testing.T
	dir string
}

func (f auditFolder) put(name string, o tinyelf.Object) string {
	f.Helper()
	p := f.dir + "/" + name
	os.MkdirAll(filepath.Dir(p), 0o755)
	if err := os.WriteFile(p, o.Bytes(), 0o755); err != nil {
		f.Fatal(err)
	}
	return p
}

func (f auditFolder) audit(o auditOutput, paths ...string) {
	f.Helper()
	l, err := loader.New(loader.Options{})
	if err != nil {
		f.Fatal(err)
	}
	s := &session.Session{Context: context.Background(), Paths: paths, JSON: true, Jobs: 2, Stdout: io.Discard, Log: session.NewLog(io.Discard, false, false)}
	if err := runAudit(s, audit.New(l, audit.Options{Loads: o.html != ""}), func(p string) string { return p }, o); err != nil && err != command.ErrFailed {
		f.Fatal(err)
	}
}

func needs(runPath string, names ...string) tinyelf.Object {
	return tinyelf.Object{}.Needs(names...).With(elf.DT_RUNPATH, runPath)
}

// The page and the SARIF log hold what hostile names cannot break.
func TestOutputsOfHostileNames(t *testing.T) {
	f := auditFolder{t, t.TempDir()}
	evil := `</script><script>alert(1)</script>"'` + "\x01\xff"
	p := f.put("p"+strings.ReplaceAll(evil, "/", "_"), needs(evil+":", evil))
	o := auditOutput{html: f.dir + "/out.html", sarif: f.dir + "/out.sarif"}
	f.audit(o, p)
	html, err := os.ReadFile(o.html)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(html, []byte("</script>")); n != 2 {
		t.Errorf("the page has %d script ends, not 2", n)
	}
	_, after, _ := bytes.Cut(html, []byte(`id="data">`))
	data, _, _ := bytes.Cut(after, []byte("</script>"))
	var page pageData
	if err := json.Unmarshal(data, &page); err != nil || len(page.Files) != 1 || len(page.Files[0].Findings) == 0 {
		t.Errorf("%v: %d files", err, len(page.Files))
	}
	for _, finding := range page.Files[0].Findings {
		if (finding.Fix == "") != (finding.Command == nil) {
			t.Errorf("%q is not a command: %q", finding.Fix, finding.Command)
		}
	}
	if strings.Contains(string(html), "http://") || strings.Contains(string(html), "https://") {
		t.Error("the page refers to the network")
	}
	b, err := os.ReadFile(o.sarif)
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Locations []struct {
					PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
				}
			}
		}
	}
	if err := json.Unmarshal(b, &log); err != nil || log.Version != "2.1.0" || len(log.Runs[0].Results) == 0 {
		t.Errorf("%v: %+v", err, log)
	}
	for _, r := range log.Runs[0].Results {
		if log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("rule %d is not %s", r.RuleIndex, r.RuleID)
		}
		if uri := r.Locations[0].PhysicalLocation.ArtifactLocation.URI; strings.ContainsAny(uri, " <>\"\x01") {
			t.Errorf("not a URI: %s", uri)
		}
	}
}

// What the schema of SARIF 2.1.0 requires, and what it cannot say: that the URIs lead to the files.
func TestSARIF(t *testing.T) {
	f := auditFolder{t, t.TempDir()}
	t.Chdir(f.dir)
	names := []string{"p", "a:b", "c d", "e%20f", "g#h", "i?j", "k\nl", "m\xffn", `o\p`, "é", "x:y/z", "..r", "[1]", f.dir + "/absolute"}
	for _, name := range names {
		f.put(strings.TrimPrefix(name, f.dir+"/"), needs("$ORIGIN:", "libnone.so.1"))
	}
	baseline := auditOutput{baseline: f.dir + "/baseline"}
	baseline.accepted.Update = true
	f.audit(baseline, "p")
	baseline = auditOutput{baseline: f.dir + "/baseline", sarif: f.dir + "/log"}
	for _, paths := range [][]string{names, {"baseline"}} {
		f.audit(baseline, paths...)
		b, err := os.ReadFile(baseline.sarif)
		if err != nil {
			t.Fatal(err)
		}
		var log struct {
			Version string
			Runs    []struct {
				Tool struct {
					Driver struct {
						Name  string
						Rules []struct {
							ID, Name                          string
							ShortDescription, FullDescription struct{ Text string }
							DefaultConfiguration              struct{ Level string }
						}
					}
				}
				ColumnKind string
				Results    []struct {
					RuleID    string
					RuleIndex int
					Level     string
					Message   struct{ Text string }
					Locations []struct {
						PhysicalLocation struct {
							ArtifactLocation struct{ URI string }
							Region           struct{ StartLine int }
						}
					}
					Suppressions []struct{ Kind string }
				}
			}
		}
		if err := json.Unmarshal(b, &log); err != nil {
			t.Fatal(err)
		}
		if log.Version != "2.1.0" || len(log.Runs) != 1 || log.Runs[0].Results == nil || log.Runs[0].Tool.Driver.Name == "" || log.Runs[0].ColumnKind != "utf16CodeUnits" {
			t.Fatalf("%s", b)
		}
		run := log.Runs[0]
		levels := []string{"error", "warning", "note"}
		for _, r := range run.Tool.Driver.Rules {
			if r.ID == "" || r.ShortDescription.Text == "" || r.FullDescription.Text == "" || !slices.Contains(levels, r.DefaultConfiguration.Level) {
				t.Errorf("rule %+v", r)
			}
		}
		var got []string
		for _, r := range run.Results {
			if r.RuleIndex >= len(run.Tool.Driver.Rules) || run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || !slices.Contains(levels, r.Level) ||
				r.Message.Text == "" || len(r.Locations) != 1 || r.Locations[0].PhysicalLocation.Region.StartLine != 1 {
				t.Errorf("result %+v", r)
			}
			at := r.Locations[0].PhysicalLocation.ArtifactLocation.URI
			u, err := url.Parse(at)
			if err != nil || u.Scheme != "" && u.Scheme != "file" || u.RawQuery != "" || u.Fragment != "" {
				t.Errorf("location %s: %v", at, err)
				continue
			}
			name := filepath.Clean(u.Path)
			if !slices.Contains(got, name) {
				got = append(got, name)
			}
			if accepted := len(r.Suppressions) == 1 && r.Suppressions[0].Kind == "external"; accepted != (name == "p") {
				t.Errorf("%s: accepted: %v", name, accepted)
			}
		}
		want := slices.Clone(names)
		if len(paths) == 1 {
			want = nil
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("results for %q, want %q", got, want)
		}
	}
}
