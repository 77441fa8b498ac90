package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns a value as JSON (RFC 8259) that can stand on a terminal: in its strings, every
// character that is not seen is escaped. A field "path" that is not UTF-8, as names of files
// need not be, shows replacements, and "path_base64" beside it has the bytes; so do lists.
func JSON(v any, indent string) ([]byte, error) {
	text, err := marshal(v, indent)
	if err == nil && bytes.Contains(text, []byte(`\ufffd`)) { // as package json writes bytes that are no UTF-8
		var b bytes.Buffer
		if text = withBytes(nil, reflect.ValueOf(v)); indent != "" {
			err = json.Indent(&b, text, "", indent)
			text = b.Bytes()
		}
	}
	if err != nil {
		return nil, err
	}
	for i, c := range text {
		if c >= 0x7f {
			return escaped(text, i), nil
		}
	}
	return text, nil
}

func marshal(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// withBytes appends a value, which package json can write, as that does, with the bytes of the
// strings that are not UTF-8.
func withBytes(b []byte, v reflect.Value) []byte {
	switch kind := v.Kind(); {
	case kind == reflect.Invalid:
		return append(b, "null"...)
	case v.Type().Implements(reflect.TypeFor[json.Marshaler]()):
	case kind == reflect.Pointer || kind == reflect.Interface:
		return withBytes(b, v.Elem())
	case kind == reflect.Struct || kind == reflect.Map && !v.IsNil():
		b = append(b, '{')
		for _, m := range members(v) {
			b = append(withBytes(append(withBytes(b, reflect.ValueOf(m.name)), ':'), m.value), ',')
			if raw := contents(m.value); raw != nil {
				b = append(withBytes(append(withBytes(b, reflect.ValueOf(m.name+"_base64")), ':'), reflect.ValueOf(raw)), ',')
			}
		}
		return append(bytes.TrimSuffix(b, []byte{','}), '}')
	case kind == reflect.Slice && !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8:
		b = append(b, '[')
		for i := range v.Len() {
			b = append(withBytes(b, v.Index(i)), ',')
		}
		return append(bytes.TrimSuffix(b, []byte{','}), ']')
	}
	text, _ := marshal(v.Interface(), "")
	return append(b, text...)
}

type member struct {
	name  string
	value reflect.Value
}

// members returns those of a map, and those of a struct that package json writes.
func members(v reflect.Value) (all []member) {
	if v.Kind() == reflect.Map {
		for _, key := range v.MapKeys() {
			all = append(all, member{key.String(), v.MapIndex(key)})
		}
		slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.name, b.name) })
		return all
	}
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		empty := value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0
		switch {
		case field.Anonymous && tag[0] == "":
			if value = reflect.Indirect(value); value.IsValid() {
				all = append(all, members(value)...)
			}
		case !field.IsExported() || tag[0] == "-",
			slices.Contains(tag, "omitempty") && empty, slices.Contains(tag, "omitzero") && value.IsZero():
		default:
			all = append(all, member{cmp.Or(tag[0], field.Name), value})
		}
	}
	return all
}

// contents returns the bytes of a string that is not UTF-8, or of a list with such a string; nil for
// everything else.
func contents(v reflect.Value) any {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() == reflect.String && !utf8.ValidString(v.String()) {
		return []byte(v.String())
	}
	if v.Kind() != reflect.Slice {
		return nil
	}
	all, valid := [][]byte{}, true
	for i := range v.Len() {
		if s, ok := v.Index(i).Interface().(string); ok {
			all, valid = append(all, []byte(s)), valid && utf8.ValidString(s)
		}
	}
	if valid {
		return nil
	}
	return all
}

// escaped is JSON with the characters from an offset on that are not seen escaped. They stand
// in strings alone.
func escaped(text []byte, from int) []byte {
	out := append(make([]byte, 0, len(text)+len(text)/4), text[:from]...)
	for text = text[from:]; len(text) > 0; {
		r, n := utf8.DecodeRune(text)
		switch {
		case r < 0x7f || unicode.IsPrint(r): // encoding/json has escaped the controls below
			out = append(out, text[:n]...)
		case r > 0xffff:
			a, b := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, a, b)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[n:]
	}
	return out
}
