package command

import (
	"encoding/json"
	"errors"
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
