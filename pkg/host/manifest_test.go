package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// What names a library, wherever it stands, and nothing else; the rest of the file stays what it is.
func TestManifests(t *testing.T) {
	deep := strings.Repeat("[", 30000) + strings.Repeat("]", 30000)
	for text, c := range map[string]struct{ says, becomes string }{
		`{"ICD": {"library_path": "a\/lib\u0062.so"}}`:                            {"a/libb.so:", `{"ICD": {"library_path": "/x/0"}}`},
		" {\"layer\"\n:{ \"library_arch\" :\"32\", \"library_path\"\t: \"b\" } }": {"b:32", " {\"layer\"\n:{ \"library_arch\" :\"32\", \"library_path\"\t: \"/x/0\" } }"},
		`{"layers":[{"library_path":"c"},7,["library_path","n"],{"library_path":"d","library_arch":"64"}],"ICD":{"x":{"library_path":"no"}}}`: {"c:,d:64",
			`{"layers":[{"library_path":"/x/0"},7,["library_path","n"],{"library_path":"/x/1","library_arch":"64"}],"ICD":{"x":{"library_path":"no"}}}`},
		`{"library_path": "no", "a": {"ICD": {"library_path": "no"}}, "layers": {"library_path": "no"}, "n": 1e400}`: {"", ""},
		`{"ICD": {"library_path": null}, "layer": {"library_path": ["x"]}}`:                                          {":", ""},
		`{"ICD": {"library_path": 7}}`:                                 {":", ""},
		`{"ICD": {"library_path": "a"}, "x": ` + deep + `} after`:      {"a:", `{"ICD": {"library_path": "/x/0"}, "x": ` + deep + `} after`},
		`{"ICD": {"library_path": "a", "library_path": "b"}}`:          {`"library_path" is there twice`, ""},
		`{"ICD": {"library_path": "a"}, "ICD": {"library_path": "b"}}`: {`"ICD" is there twice`, ""},
		`["ICD"]`: {"not a JSON object", ""}, `"ICD"`: {"not a JSON object", ""}, ``: {"not JSON: unexpected EOF", ""}, `{"ICD": {"library_path": "a"`: {"not JSON: unexpected EOF", ""},
		`{"ICD": {"library_path": "a",}}`: {"not JSON: invalid character", ""}, "\xff{}": {"not JSON: invalid character", ""},
	} {
		entries, err := manifestEntries([]byte(text))
		v := &Vendor{text: []byte(text)}
		var says []string
		for i, e := range entries {
			says = append(says, e.name+":"+e.arch)
			v.at, v.Libraries = append(v.at, e.at), append(v.Libraries, fmt.Sprint(i))
		}
		got := strings.Join(says, ",")
		if err != nil {
			got = err.Error()
		}
		if got != c.says && (err == nil || !strings.HasPrefix(got, c.says)) {
			t.Errorf("%.100s: %s, not %s", text, got, c.says)
		}
		if c.becomes != "" && string(v.Text("/x")) != c.becomes {
			t.Errorf("%.100s: becomes %.200s", text, v.Text("/x"))
		}
	}
}

// With the library's name back in its place, the text is what it was; and encoding/json sees the new name.
func FuzzManifests(f *testing.F) {
	f.Add([]byte(`{"file_format_version": "1.0.1", "ICD": {"library_path": "libGLX_nvidia.so.0", "api_version": "1.3.242"}}`))
	f.Add([]byte(`{"layers": [{"library_path": "\u00e4", "x": [{}]}, {"library_path": ""}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := manifestEntries(b)
		if err != nil || len(entries) == 0 {
			return
		}
		v := &Vendor{text: b}
		for _, e := range entries {
			if e.at[1] <= 1 || e.at[0] >= e.at[1] {
				return // no string
			}
			v.at, v.Libraries = append(v.at, e.at), append(v.Libraries, "new")
			var name string
			if err := json.Unmarshal(b[e.at[0]:e.at[1]], &name); err != nil || name != e.name {
				return
			}
		}
		again, err := manifestEntries(v.Text("/"))
		if err != nil || len(again) != len(entries) {
			t.Fatalf("%q: %v", v.Text("/"), err)
		}
		var was, is any
		if json.NewDecoder(bytes.NewReader(b)).Decode(&was) != nil || json.NewDecoder(bytes.NewReader(v.Text("/"))).Decode(&is) != nil {
			return // nested too deep for it
		}
		for i := range again {
			if again[i].name != "/new" {
				t.Errorf("%q", again[i].name)
			}
		}
		if withoutNames(was) != withoutNames(is) {
			t.Errorf("%q: something else has changed: %q", b, v.Text("/"))
		}
	})
}

// withoutNames returns a document without the libraries' names.
func withoutNames(doc any) string {
	o, _ := doc.(map[string]any)
	for _, key := range []string{"ICD", "layer", "layers"} {
		all, ok := o[key].([]any)
		if !ok || key != "layers" {
			all = []any{o[key]}
		}
		for _, e := range all {
			if e, ok := e.(map[string]any); ok {
				delete(e, libraryPath)
			}
		}
	}
	return fmt.Sprint(doc)
}
