package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A manifestEntry is a library that a loader's file in JSON names: a manifest of Vulkan's drivers and layers, of EGL's
// vendors and platforms.
type manifestEntry struct {
	name string // "" where it is no string
	arch string // library_arch, "32", "64" or ""
	at   [2]int // where in the file the name stands, with its quotes
}

var errManifest = errors.New("not a JSON object")

// manifestEntries returns the libraries that a manifest names, each in an object that is called ICD or layer, or is one
// of those called layers. It goes through the text once: however deep that is nested, the rest is nobody's business
// here.
func manifestEntries(b []byte) ([]manifestEntry, error) {
	type level struct {
		object, key bool // key: what comes next is one
		name        string
		names       map[string]bool // of an object that matters
		entry       *manifestEntry  // of an object that may name a library
	}
	var all []manifestEntry
	var open []level
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	for {
		before := decoder.InputOffset()
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		if delim, ok := token.(json.Delim); ok && (delim == ']' || delim == '}') {
			last := open[len(open)-1]
			if last.entry != nil && last.entry.at[1] > 0 {
				all = append(all, *last.entry)
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return all, nil
			}
		} else {
			if len(open) == 0 && token != json.Delim('{') {
				return nil, errManifest
			}
			var top level
			if len(open) > 0 {
				top = open[len(open)-1]
			}
			if top.key {
				it := &open[len(open)-1]
				it.name, it.key = token.(string), false
				if it.names[it.name] {
					return nil, fmt.Errorf("%q is there twice", it.name) // loaders differ in which they take
				}
				if it.names != nil {
					it.names[it.name] = true
				}
				continue
			}
			if delim, ok := token.(json.Delim); ok {
				fresh := level{object: delim == '{', key: delim == '{'}
				if isOne := len(open) == 1 && (top.name == "ICD" || top.name == "layer") ||
					len(open) == 2 && !top.object && open[0].name == "layers"; fresh.object && isOne {
					fresh.entry = &manifestEntry{}
				}
				if len(open) == 0 || fresh.entry != nil {
					fresh.names = map[string]bool{}
				}
				if top.entry != nil && top.name == libraryPath { // which is no string
					top.entry.at = [2]int{1, 1}
				}
				open = append(open, fresh)
				continue
			}
			switch text, _ := token.(string); {
			case top.entry == nil:
			case top.name == libraryPath && token != nil:
				from := int(before) + bytes.IndexByte(b[before:], '"')
				top.entry.name, top.entry.at = text, [2]int{from, int(decoder.InputOffset())}
			case top.name == "library_arch":
				top.entry.arch = text
			}
		}
		open[len(open)-1].key = open[len(open)-1].object
	}
}
