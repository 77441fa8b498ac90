package command

import (
	"bytes"
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
		text, err = marshal(withBytes(reflect.ValueOf(v)), indent)
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

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements [json.Marshaler].
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		name, err := marshal(m.name, "")
		if err != nil {
			return nil, err
		}
		value, err := marshal(m.value, "")
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = slices.Concat(b, name, []byte{':'}, value)
	}
	return append(b, '}'), nil
}

// withBytes returns a value as package json writes it, with the bytes of the strings that are
// not UTF-8.
func withBytes(v reflect.Value) any {
	if v.IsValid() && v.CanInterface() {
		if m, ok := v.Interface().(json.Marshaler); ok {
			return m
		}
	}
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Pointer, reflect.Interface:
		return withBytes(v.Elem())
	case reflect.Struct:
		var o object
		o.fields(v)
		return o
	case reflect.Map:
		var o object
		for _, key := range v.MapKeys() {
			o.add(key.String(), v.MapIndex(key))
		}
		slices.SortFunc(o, func(a, b member) int { return strings.Compare(a.name, b.name) })
		return o
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Interface()
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = withBytes(v.Index(i))
		}
		return list
	}
	return v.Interface()
}

// fields adds those of a struct that package json writes.
func (o *object) fields(v reflect.Value) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if field.Anonymous && tag[0] == "" {
			if value = reflect.Indirect(value); value.IsValid() {
				o.fields(value)
			}
			continue
		}
		empty := value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0
		switch {
		case !field.IsExported() || tag[0] == "-",
			slices.Contains(tag, "omitempty") && empty, slices.Contains(tag, "omitzero") && value.IsZero():
			continue
		case tag[0] == "":
			tag[0] = field.Name
		}
		o.add(tag[0], value)
	}
}

// add adds a member, and the one with its bytes.
func (o *object) add(name string, value reflect.Value) {
	v := withBytes(value)
	*o = append(*o, member{name, v})
	switch v := v.(type) {
	case []any:
		all, valid := [][]byte{}, true
		for _, element := range v {
			if s, ok := element.(string); ok {
				all, valid = append(all, []byte(s)), valid && utf8.ValidString(s)
			}
		}
		if !valid {
			*o = append(*o, member{name + "_base64", all})
		}
	case nil:
	default:
		if s := reflect.ValueOf(v); s.Kind() == reflect.String && !utf8.ValidString(s.String()) {
			*o = append(*o, member{name + "_base64", []byte(s.String())})
		}
	}
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
