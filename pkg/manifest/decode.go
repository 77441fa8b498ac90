package manifest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Beginning is what a document of this package begins with.
const Beginning = `{"version":1,"document":"manifest",`

// named is a file of which the path need not be UTF-8.
type named struct {
	File
	PathBytes []byte `json:"path_base64"`
}

// Decode reads a document, and calls tell for each of its files, in order.
func Decode(from io.Reader, tell func(*File)) (packages []*Package, sum Summary, err error) {
	in := bufio.NewReaderSize(from, 64<<10)
	if begins, _ := in.Peek(len(Beginning)); string(begins) != Beginning {
		return nil, sum, errors.New("is no manifest that this version of runpath has written")
	}
	d := json.NewDecoder(in)
	if _, err := d.Token(); err != nil {
		return nil, sum, err
	}
	ended := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, sum, err
		}
		switch key {
		case "files":
			if _, err := d.Token(); err != nil {
				return nil, sum, err
			}
			for d.More() {
				var f named
				if err := d.Decode(&f); err != nil {
					return nil, sum, err
				}
				if f.PathBytes != nil {
					f.Path = string(f.PathBytes)
				}
				tell(&f.File)
			}
			if _, err := d.Token(); err != nil {
				return nil, sum, err
			}
		case "packages":
			err = d.Decode(&packages)
		case "summary":
			err, ended = d.Decode(&sum), true
		default:
			var other any
			err = d.Decode(&other)
		}
		if err != nil {
			return nil, sum, fmt.Errorf("%v: %w", key, err)
		}
	}
	if !ended {
		return nil, sum, errors.New("is a manifest that ends too early")
	}
	if sum.Stopped != "" {
		return nil, sum, errors.New("is a manifest of a run that was interrupted")
	}
	return packages, sum, nil
}
