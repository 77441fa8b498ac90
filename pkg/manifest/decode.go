package manifest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Version is that of the documents.
const Version = 2

// Beginning is what a document of this package begins with.
const Beginning = `{"version":2,"document":"manifest",`

// named is a file of which the path need not be UTF-8.
type named struct {
	File
	PathBytes []byte `json:"path_base64"`
}

// Decode reads a document, whose members may stand in any order, and calls tell for each of its files, in order; what it
// returns has the rest.
func Decode(from io.Reader, tell func(*File)) (*Document, error) {
	d := json.NewDecoder(bufio.NewReaderSize(from, 64<<10))
	doc, kind, version := &Document{}, "", 0
	var sum *Summary
	member := func(key json.Token) error {
		switch key {
		case "version":
			if err := d.Decode(&version); err != nil || version != Version {
				return cmp.Or(err, fmt.Errorf("it is %d, and this runpath reads %d: make the manifest again with this one",
					version, Version))
			}
			return nil
		case "document":
			return d.Decode(&kind)
		case "gpus":
			return d.Decode(&doc.GPUs)
		case "packages":
			err := d.Decode(&doc.Packages)
			if err == nil && slices.Contains(doc.Packages, nil) {
				err = errors.New("one of them is null")
			}
			return err
		case "summary":
			return d.Decode(&sum)
		case "files":
			if _, err := d.Token(); err != nil {
				return err
			}
			for d.More() {
				var f named
				if err := d.Decode(&f); err != nil {
					return err
				}
				if !slices.Contains(kinds, f.Kind) {
					return fmt.Errorf("%q has an unknown kind, %q", f.Path, f.Kind)
				}
				if f.PathBytes != nil {
					f.Path = string(f.PathBytes)
				}
				tell(&f.File)
			}
			_, err := d.Token()
			return err
		}
		return d.Decode(new(json.RawMessage))
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("is no manifest")
	}
	for d.More() {
		key, err := d.Token()
		if err == nil {
			err = member(key)
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", key, err)
		}
	}
	switch {
	case kind != "manifest" || version == 0:
		return nil, errors.New("is no manifest")
	case sum == nil:
		return nil, errors.New("is a manifest that ends too early")
	case sum.Stopped != "":
		return nil, errors.New("is a manifest of a run that was interrupted")
	}
	doc.Summary = *sum
	return doc, nil
}
