package command

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlagsMayFollowTheArguments(t *testing.T) {
	flags := []*Flag{{Name: "stub", Kind: List}, {Name: "json"}, {Name: "jobs", Kind: Int}, {Name: "verbose", Aliases: []string{"v"}}}
	commands := []*Command{{Name: "add", Flags: append([]*Flag{{Name: "first"}}, flags...)}}
	for _, c := range []struct{ in, want []string }{
		{[]string{"tool", "a", "b"}, []string{"tool", "--", "a", "b"}},
		{[]string{"tool", "a", "--json", "b", "-v"}, []string{"tool", "--json", "-v", "--", "a", "b"}},
		{[]string{"tool", "a", "--jobs", "2", "b"}, []string{"tool", "--jobs", "2", "--", "a", "b"}},
		{[]string{"tool", "a", "--jobs=2", "b"}, []string{"tool", "--jobs=2", "--", "a", "b"}},
		{[]string{"tool", "--stub", "-x", "a"}, []string{"tool", "--stub", "-x", "--", "a"}},
		{[]string{"tool", "a", "--", "--json", "--"}, []string{"tool", "--", "a", "--json", "--"}},
		{[]string{"tool", "-", "a"}, []string{"tool", "--", "-", "a"}},
		{[]string{"tool", "a", "--jobs"}, []string{"tool", "--jobs"}},
	} {
		if diff := cmp.Diff(c.want, flagsFirst(flags, nil, c.in)); diff != "" {
			t.Errorf("%q: %s", c.in, diff)
		}
	}
	for _, c := range []struct{ in, want []string }{
		{[]string{"runpath", "add", "/a", "f", "--first"}, []string{"runpath", "add", "--first", "--", "/a", "f"}},
		{[]string{"runpath", "--help", "add"}, []string{"runpath", "--help", "add", "--"}},
		{[]string{"runpath", "nothing", "-v"}, []string{"runpath", "nothing", "-v"}},
	} {
		if diff := cmp.Diff(c.want, flagsFirst(nil, commands, c.in)); diff != "" {
			t.Errorf("%q: %s", c.in, diff)
		}
	}
}

func TestPrintableIsOneLine(t *testing.T) {
	for in, want := range map[string]string{"/a b:$ORIGIN": "/a b:$ORIGIN", "ü": "ü", "a\nb": `"a\nb"`, "\x1b[31m": `"\x1b[31m"`, "a\u202eb": `"a\u202eb"`, "\xff": `"\xff"`} {
		if got := Printable(in); got != want {
			t.Errorf("%q is shown as %s", in, got)
		}
	}
}

func TestJSON(t *testing.T) {
	type inner struct {
		Entry *string `json:"entry,omitempty"`
	}
	type common struct {
		Path   string   `json:"path"`
		Reason string   `json:"reason,omitempty"`
		Before []string `json:"before"`
	}
	bad := "/\xff"
	for want, v := range map[string]any{
		`{"path":"<a&b>\u0007\u202e","before":null}`: common{Path: "<a&b>\a\u202e"},
		`{"path":"\ufffd","path_base64":"/w==","before":["/a","/\ufffd"],"before_base64":["L2E=","L/8="],"list":[{},{"entry":"/\ufffd","entry_base64":"L/8="}],"raw":{"x": 1}}`: &struct {
			common
			List    []inner         `json:"list"`
			Raw     json.RawMessage `json:"raw"`
			Left    string          `json:"-"`
			Nothing []int           `json:"nothing,omitempty"`
		}{common{"\xff", "", []string{"/a", bad}}, []inner{{}, {&bad}}, json.RawMessage(`{"x": 1}`), "", nil},
		`{"a":"/\ufffd","a_base64":"L/8=","b":null,"c":[1]}`: map[string]any{"c": []int{1}, "b": nil, "a": bad},
		`{"path":"�","before":[]}`:                           common{Path: "\ufffd", Before: []string{}}, // a character as any other
	} {
		got, err := JSON(v, "")
		want = strings.ReplaceAll(want, `\ufffd`, "�")
		if got := strings.ReplaceAll(string(got), `\ufffd`, "�"); err != nil || got != strings.ReplaceAll(want, `{"x": 1}`, `{"x":1}`) {
			t.Errorf("%s, %v, want\n%s", got, err, want)
		}
	}
}

func TestNamesInJSON(t *testing.T) {
	text, err := JSON(map[string]any{"a\x07\x00\u202e\"": "\xff"}, "")
	var got map[string]any
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if want := map[string]any{"a\x07\x00\u202e\"": "\ufffd", "a\x07\x00\u202e\"_base64": "/w=="}; err != nil || !cmp.Equal(want, got) {
		t.Errorf("%s: %v", text, err)
	}
}

// man shows that in the middle of a line between the page's name, twice.
func TestPageHasTheReleaseAlone(t *testing.T) {
	for version, want := range map[string]string{"1.2.3 (commit 0123456789ab of 2026-01-02T18:12:52Z)": "tool 1.2.3", "1.2.3": "tool 1.2.3", "(devel)": "tool (devel)"} {
		page, err := Man(&Command{Name: "tool", Version: version}, nil)
		if first, _, _ := strings.Cut(page, "\n"); err != nil || first != `.TH tool 1 "" "`+want+`"` {
			t.Errorf("%s, %v", first, err)
		}
	}
}

type given map[string][]string

func (g given) Bool(string) bool                 { return false }
func (g given) Int(string) int                   { return 0 }
func (g given) String(name string) string        { return strings.Join(g[name], "") }
func (g given) StringSlice(name string) []string { return g[name] }
func (g given) IsSet(name string) bool           { return g[name] != nil }

func TestValuesThatAFlagDoesNotHave(t *testing.T) {
	even := func(v string) error {
		if len(v)%2 != 0 {
			return errors.New("not even")
		}
		return nil
	}
	flags := []*Flag{{Name: "one", Kind: String, Values: []string{"a", "b", "c"}}, {Name: "more", Kind: List, Values: []string{"a", "b"}}, {Name: "even", Kind: String, Check: even}, {Name: "all", Kind: List, Check: even}}
	for _, c := range []struct {
		values given
		want   string
	}{
		{given{}, ""},
		{given{"one": {"c"}, "more": {"b", "a"}, "even": {"xx"}, "all": {"", "xx"}}, ""},
		{given{"one": {"d"}}, `--one "d": a, b or c`},
		{given{"one": {""}}, `--one "": a, b or c`},
		{given{"more": {"a", "c"}}, `--more "c": a or b`},
		{given{"even": {"x"}}, "--even: not even"},
		{given{"all": {"xx", "x"}}, "--all: not even"},
	} {
		said := ""
		if err := (&Line{Flags: flags, Values: c.values}).Check(); err != nil {
			said = err.Error()
		}
		if said != c.want {
			t.Errorf("%v: %q, want %q", c.values, said, c.want)
		}
	}
}

var example = &Command{Name: "tool", Usage: "look at files", Description: "First.\n\n    an example\n\nSecond.", Examples: "tool show a\n", See: []string{"ld.so(8)"}, Version: "1.0 (commit x)",
	Flags: documentFlags(), OfFile: "show",
	Commands: []*Command{
		{Name: "show", Also: []string{"print"}, Usage: "show -them", ArgsUsage: "PATH...", Flags: []*Flag{{Name: "json", Aliases: []string{"j"}, Usage: "print JSON"}, {Name: "hidden", Hidden: true}}},
		{Name: "part", Usage: "a part", Commands: []*Command{{Name: "set", Usage: "set it", ArgsUsage: "NAME PATH...", Flags: []*Flag{
			{Name: "position", Kind: String, Default: "first", Values: []string{"first", "last"}, Usage: "put it `first|last`"}, {Name: "jobs", Kind: Int, Usage: "so many"}}}}},
	}}

func TestMan(t *testing.T) {
	for words, want := range map[string]string{
		"": `.TH tool 1 "" "tool 1.0"
.SH NAME
tool \- look at files
.SH SYNOPSIS
.EX
tool [flags]
.EE
.SH DESCRIPTION
First.
.EX
    an example
.EE
.PP
Second.
.SH COMMANDS
.TP
\fBshow\fR
show \-them
.TP
\fBpart\fR
a part
.SH OPTIONS
.TP
\fB\-\-man\fR
print the man page, or that of the COMMAND that follows
.TP
\fB\-\-completion\fR \fIbash|zsh|fish\fR
print the completion script for a shell: \fIbash|zsh|fish\fR
.SH EXAMPLES
.EX
tool show a
.EE
.SH SEE ALSO
ld.so(8), tool\-show(1), tool\-part(1)
`,
		"show": `.TH tool\-show 1 "" "tool 1.0"
.SH NAME
tool\-show \- show \-them
.SH SYNOPSIS
.EX
tool show [flags] PATH...
.EE
.SH OPTIONS
.TP
\fB\-\-json\fR, \fB\-j\fR
print JSON
.SH SEE ALSO
tool(1), ld.so(8)
`,
		"part": `.TH tool\-part 1 "" "tool 1.0"
.SH NAME
tool\-part \- a part
.SH SYNOPSIS
.EX
tool part [flags]
.EE
.SH COMMANDS
.SS part set [flags] NAME PATH...
set it
.TP
\fB\-\-position\fR \fIfirst|last\fR
put it \fIfirst|last\fR (default: first)
.TP
\fB\-\-jobs\fR \fIVALUE\fR
so many
.SH SEE ALSO
tool(1), ld.so(8)
`,
	} {
		got, err := Man(example, strings.Fields(words))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", words, err, diff)
		}
	}
	if _, err := Man(example, []string{"none"}); err == nil || err.Error() != "--man none: there is no such page" {
		t.Error(err)
	}
}

func TestFitting(t *testing.T) {
	for line, want := range map[string]string{
		"": "show part", "show": "", "show -": "--json --help --help-all", "part": "set", "part set --position": "first last", "part set --position last -": "--position --jobs --help --help-all",
		"-": "--man --completion --help --help-all --version", "--completion": "bash zsh fish", "--man": "show part", "show -- -": "", "help": "show part", "help part": "set",
	} {
		var words []string
		for _, word := range Fitting(example, strings.Fields(line)) {
			words = append(words, word.Word)
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%q: %q fit, want %q", line, got, want)
		}
	}
}

func TestWhatMayBeMeant(t *testing.T) {
	t.Chdir(t.TempDir())
	os.WriteFile("lib.so", nil, 0o644)
	for word, want := range map[string]string{
		"": "no command is given", "print": `there is no command "print": did you mean show?`, "prat": `there is no command "prat": did you mean part?`,
		"lib.so": `there is no command "lib.so": did you mean tool show lib.so?`, "nothing-like-it": `there is no command "nothing-like-it"`,
	} {
		if err := example.NoCommand(&Line{Args: strings.Fields(word)}); err == nil || err.Error() != want {
			t.Errorf("%q: %v", word, err)
		}
	}
	for name, want := range map[string]string{"jsn": "there is no flag --jsn: did you mean --json?", "hiddn": "there is no flag --hiddn"} {
		if got := MeantFlag(example.Commands[0].Flags, errors.New("flag provided but not defined: -"+name)); string(got) != want {
			t.Errorf("%q: %s", name, got)
		}
	}
	l := &Line{Flags: []*Flag{{Name: "lib", Kind: String}, {Name: "more", Kind: List}}, Values: given{"lib": {"lib.so"}, "more": {"x", "lib.so"}}}
	if got := l.Swallowed(); got != "; --lib took lib.so; --more took lib.so" {
		t.Error(got)
	}
}

// What a program answers with what it is asked for: the status, stdout, stderr.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		err            error
		status         int
		stdout, stderr string
	}{
		{nil, 0, "text", ""},
		{ErrFailed, 1, "text", ""},
		{errors.New("a\nb"), 1, "text", "tool: a; b\n"},
		{Misuse("no"), 2, "text", "tool: no (see tool --help)\n"},
		{Of("tool part", Of("tool part set", Misusef("%d", 1))), 2, "text", "tool: 1 (see tool part set --help)\n"},
	} {
		var stdout, stderr strings.Builder
		status := Run(example, []string{"tool", "x"}, &stdout, &stderr, func(ctx context.Context, args []string, w io.Writer) error {
			io.WriteString(w, "text")
			return c.err
		})
		if status != c.status || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%v: %d, %q, %q", c.err, status, stdout.String(), stderr.String())
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	// What could not be written is said, unless something else is said already.
	for want, failed := range map[string]error{"writing to stdout: ": nil, "tool: writing to stdout: ": ErrFailed, "tool: no\n": errors.New("no")} {
		var stderr strings.Builder
		status := Run(example, []string{"tool"}, full, &stderr, func(_ context.Context, _ []string, w io.Writer) error {
			io.WriteString(w, "text")
			return failed
		})
		if status != 1 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: %d, %s", failed, status, stderr.String())
		}
	}
}
