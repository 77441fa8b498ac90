package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"cuda-runpath/pkg/remedy"
)

// Printable returns text from a file's name or contents as it can stand in a line
// for a terminal.
func Printable(s string) string { return remedy.Line(s) }

// JSON returns a value as JSON (RFC 8259) that can stand on a terminal: in its strings, every
// character that is not seen is escaped.
func JSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	for i, c := range text {
		if c >= 0x7f {
			return escaped(text, i), nil
		}
	}
	return text, nil
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
