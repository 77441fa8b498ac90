package thin

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"cuda-runpath/pkg/gpucode"
)

// A file keeps its length where it is asked to, or where its debug file counts on it; what is signed is left as it is.
// With Cutting neither counts.
func TestDecide(t *testing.T) {
	plain := library(file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, 90000, ""}}))
	signed := bytes.Replace(plain, []byte(".comment\x00"), []byte(".sig\x00\x00\x00\x00\x00"), 1)
	none := func(string) string { return "" }
	its := func(string) string { return "/debug/x.debug" }
	for what, c := range map[string]struct {
		b              []byte
		length         Length
		debug          func(string) string
		cut, empty     bool
		uncut, removed string
	}{
		"its length is kept":          {plain, Kept, none, false, false, "", "holes"},
		"shorter":                     {plain, Shorter, none, true, false, "", ""},
		"cut":                         {plain, Cutting, none, true, false, "", ""},
		"of a debug file, kept":       {plain, Kept, its, false, false, "", "holes"},
		"of a debug file, shorter":    {plain, Shorter, its, false, false, "/debug/x.debug is its debug file; --cut cuts it anyway", "holes"},
		"of a debug file, cut":        {plain, Cutting, its, true, false, "", ""},
		"signed, its length is kept":  {signed, Kept, none, false, true, "its section .sig holds a signature", ""},
		"signed, shorter":             {signed, Shorter, none, false, true, "its section .sig holds a signature", ""},
		"signed, cut":                 {signed, Cutting, none, true, false, "", ""},
		"signed, of a debug file too": {signed, Cutting, its, true, false, "", ""},
	} {
		w, err := Decide(bytes.NewReader(c.b), int64(len(c.b)), c.b[:4096], Options{Targets: targets(t, "9.0")}, c.length, c.debug)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if w.Anew() != c.cut || w.Empty() != c.empty || !strings.Contains(w.Uncut, c.uncut) || (w.Uncut == "") != (c.uncut == "") ||
			(len(w.Removed()) > 0) != (c.removed != "") || (w.Size() < int64(len(c.b))) != c.cut {
			t.Errorf("%s: cut %v, empty %v, %q, removed %v, %d bytes of %d", what, w.Anew(), w.Empty(), w.Uncut, w.Removed(), w.Size(), len(c.b))
		}
	}
	for what, b := range map[string][]byte{"no GPU code": library(nil), "GPU code": []byte("a text, and no ELF file"), "": nil} {
		_, err := Decide(bytes.NewReader(b), int64(len(b)), b[:min(len(b), 4096)], Options{Targets: targets(t, "9.0")}, Shorter, none)
		if !errors.Is(err, ErrSkipped) || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
}
