package cmd_test

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The schemas of the JSON documents (JSON Schema, draft 2020-12). Every document that a tool prints
// in these tests is held against its own.
//
//go:embed schema/*.json
var schemaFiles embed.FS

// schemaLog names the file to which the tools, which are other processes, write which document
// they have printed, and what is wrong with it.
const schemaLog = "CUDA_RUNPATH_SCHEMA_LOG"

// documented carries a command line out, and holds the document that it prints against its schema.
func documented(name string, run func(args []string, stdout, stderr io.Writer) int) func() {
	return func() {
		schema := schemaOf(append([]string{name}, os.Args[1:]...))
		log := os.Getenv(schemaLog)
		if log == "" || schema == "" {
			os.Exit(run(os.Args, os.Stdout, os.Stderr))
		}
		var document bytes.Buffer
		status := run(os.Args, io.MultiWriter(os.Stdout, &document), os.Stderr)
		if document.Len() > 0 && document.Bytes()[document.Len()-1] == '\n' { // else it could not be written
			said := "ok " + schema
			if err := validate(schema, document.Bytes()); err != nil {
				said = fmt.Sprintf("%s: %v: %q", schema, err, os.Args)
			}
			if f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0); err == nil {
				fmt.Fprintln(f, said)
				f.Close()
			}
		}
		os.Exit(status)
	}
}

// schemaOf returns the schema of the document that a command line asks for, "" for none.
func schemaOf(args []string) string {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	if !slices.Contains(args, "--json") || slices.Contains(args, "-") || path.Base(args[0]) == "patchelf" {
		return ""
	}
	words := slices.DeleteFunc(slices.Clone(args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "-") })
	words = append(words, "", "")
	switch name := path.Base(args[0]); {
	case name == "autoPatchelf":
		return name
	case name == "noRunpathAmbiguity":
		return "check"
	case name != "runpath" && name != "hostDriver":
		return "edit"
	}
	switch words[0] {
	case "audit":
		return "check"
	case "manifest":
		if slices.Contains(args, "--diff") {
			return "manifest-diff"
		}
	case "uninstall":
		return "install"
	case "cache":
		if words[1] == "show" {
			return "show"
		}
		return "parts"
	case "edit":
		return "parts"
	case "set", "add", "remove", "shrink", "normalize":
		return "edit"
	case "run":
		return ""
	}
	return words[0]
}

// tested runs the tests, and then says which documents were not as their schemas have them.
type tested struct{ m *testing.M }

func (t tested) Run() int {
	log, err := os.CreateTemp("", "schema")
	if err != nil {
		panic(err)
	}
	defer os.Remove(log.Name())
	os.Setenv(schemaLog, log.Name())
	status := t.m.Run()
	said, err := io.ReadAll(log)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(said)) {
		if !strings.HasPrefix(line, "ok ") {
			fmt.Print("a document is not as cmd/schema has it: ", line)
			status = 1
		}
	}
	return status
}

// Each schema has a document of the scripts in testdata, which are part of this test: in whatever order the others run.
func everySchemaHasADocument(t *testing.T) {
	said, err := os.ReadFile(os.Getenv(schemaLog))
	if err != nil {
		t.Fatal(err)
	}
	all, _ := schemaFiles.ReadDir("schema")
	for _, f := range all {
		name := strings.TrimSuffix(f.Name(), ".json")
		if name != "file" && !bytes.Contains(said, []byte("ok "+name+"\n")) {
			t.Errorf("no test has printed a document of %s", f.Name())
		}
	}
}

// What a schema does not allow is found.
func TestSchemasRefuse(t *testing.T) {
	const summary = `"summary":{"edited":0,"unchanged":0,"skipped":0,"failed":0}}`
	const good = `{"version":2,"files":[{"path":"a\ufffd","path_base64":"Yf8=","action":"edited","before":[],"after":["/a"]}],` + summary
	if err := validate("edit", []byte(good)); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{
		{`"version":2`, `"version":1`}, {`"action":"edited",`, ``}, {`"action":"edited"`, `"action":"done"`}, {`"before":[]`, `"before":null`},
		{`["/a"]`, `"/a"`}, {`["/a"]`, `[1]`}, {`"path_base64":"Yf8=",`, ``}, {`"Yf8="`, `"YQ=="`}, {`"after"`, `"tag":"","after"`}, {`"after"`, `"reason":"","after"`},
		{`"after"`, `"entries":[],"after"`}, {`"failed":0`, `"failed":-1`}, {`"failed":0`, `"failed":0.5`}, {`,` + summary, `}`},
	} {
		if bad := strings.Replace(good, change[0], change[1], 1); bad == good || validate("edit", []byte(bad)) == nil {
			t.Errorf("passes: %s", bad)
		}
	}
}

func validate(schema string, document []byte) error {
	var v any
	if err := json.Unmarshal(document, &v); err != nil {
		return err
	}
	s, err := readSchema(schema + ".json")
	if err != nil {
		return err
	}
	if _, err := (&validator{schema + ".json"}).check(s, v, ""); err != nil {
		return err
	}
	return twins(v, "")
}

func readSchema(name string) (s map[string]any, err error) {
	text, err := schemaFiles.ReadFile("schema/" + name)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// twins checks that what is not UTF-8 has its bytes beside it.
func twins(v any, at string) error {
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			if err := twins(x, fmt.Sprint(at, "/", i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, x := range v {
			if err := twins(x, at+"/"+name); err != nil {
				return err
			}
			values, bytes := []any{x}, []any{v[name+"_base64"]}
			if list, ok := x.([]any); ok {
				values, bytes = list, make([]any, len(list))
				if twin, ok := v[name+"_base64"].([]any); ok && len(twin) == len(list) {
					bytes = twin
				}
			}
			for i := range values {
				text, ok := values[i].(string)
				if !ok || !strings.ContainsRune(text, utf8.RuneError) {
					continue
				}
				twin, _ := bytes[i].(string)
				raw, err := base64.StdEncoding.DecodeString(twin)
				if err != nil || strings.ToValidUTF8(string(raw), "") != strings.ReplaceAll(text, "\ufffd", "") || utf8.Valid(raw) {
					return fmt.Errorf("%s/%s: %q is not UTF-8, and its bytes are not beside it", at, name, text)
				}
			}
		}
	}
	return nil
}

// validator knows the words of JSON Schema that the schemas here have, and no others.
type validator struct{ file string }

// check returns the properties of an object that a schema has something to say of.
func (c *validator) check(schema map[string]any, v any, at string) (known map[string]bool, err error) {
	known = map[string]bool{}
	object, isObject := v.(map[string]any)
	list, isList := v.([]any)
	text, isText := v.(string)
	number, isNumber := v.(float64)
	bad := func(format string, args ...any) (map[string]bool, error) {
		return nil, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...))
	}
	// "unevaluatedProperties" is about what all others know.
	for _, word := range slices.SortedFunc(maps.Keys(schema), func(a, b string) int { return strings.Compare(b, a) }) {
		switch want := schema[word]; word {
		case "$schema", "title", "description", "$defs", "unevaluatedProperties":
		case "$ref":
			file, pointer, _ := strings.Cut(want.(string), "#")
			if file == "" {
				file = c.file
			}
			to, err := readSchema(file)
			if err != nil {
				return nil, err
			}
			for name := range strings.SplitSeq(strings.Trim(pointer, "/"), "/") {
				if name != "" {
					to = to[name].(map[string]any)
				}
			}
			more, err := (&validator{file}).check(to, v, at)
			if err != nil {
				return nil, err
			}
			maps.Copy(known, more)
		case "const":
			if v != want {
				return bad("%v, want %v", v, want)
			}
		case "enum":
			if !slices.Contains(want.([]any), v) {
				return bad("%v, want one of %v", v, want)
			}
		case "type":
			types, several := want.([]any)
			if !several {
				types = []any{want}
			}
			is := map[any]bool{"object": isObject, "array": isList, "string": isText, "null": v == nil,
				"boolean": v == true || v == false, "integer": isNumber && number == float64(int64(number))}
			if !slices.ContainsFunc(types, func(t any) bool { return is[t] }) {
				return bad("%v, want %v", v, want)
			}
		case "minimum":
			if isNumber && number < want.(float64) {
				return bad("%v, want at least %v", v, want)
			}
		case "minLength":
			if isText && float64(len(text)) < want.(float64) {
				return bad("it is empty")
			}
		case "pattern":
			if isText && !regexp.MustCompile(want.(string)).MatchString(text) {
				return bad("%q does not match %s", text, want)
			}
		case "required":
			for _, name := range want.([]any) {
				if _, ok := object[name.(string)]; isObject && !ok {
					return bad("%s is missing", name)
				}
			}
		case "properties", "patternProperties":
			for name, x := range object {
				for key, s := range want.(map[string]any) {
					if word == "properties" && name != key || word != "properties" && !regexp.MustCompile(key).MatchString(name) {
						continue
					}
					known[name] = true
					if _, err := c.check(s.(map[string]any), x, at+"/"+name); err != nil {
						return nil, err
					}
				}
			}
		case "items":
			for i, x := range list {
				if _, err := c.check(want.(map[string]any), x, fmt.Sprint(at, "/", i)); err != nil {
					return nil, err
				}
			}
		default:
			return bad("the test does not know the word %q of the schema", word)
		}
	}
	if schema["unevaluatedProperties"] == false {
		for name := range object {
			if !known[name] {
				return bad("%s is in no schema", name)
			}
		}
	}
	return known, nil
}
