// Package ldconf reads ldconfig's list of directories, /etc/ld.so.conf, as glibc's elf/ldconfig.c does.
package ldconf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"cuda-runpath/pkg/sysroot"
)

// Path is ldconfig's list of directories.
const Path = "/etc/ld.so.conf"

const (
	maxConf     = 1 << 20 // bytes in one file
	maxConfs    = 1000    // files
	maxConfDeep = 20      // files that include each other
)

// Dirs returns the directories that an ld.so.conf lists, in order, each once,
// as ldconfig's parse_conf reads them. name is the file's path below the root; "include"
// patterns and the links among them are followed inside the root too. A missing
// file is an empty list, as it is to ldconfig. The directories need not exist, and
// ldconfig's own last ones (/lib, /usr/lib and their 64-bit sisters) are not among them.
func Dirs(root sysroot.Root, name string) ([]string, error) {
	c := confReader{root: root, seen: map[string]bool{}, names: sysroot.MostNames}
	err := c.read(name, 0)
	return c.dirs, err
}

type confReader struct {
	root  sysroot.Root
	dirs  []string
	seen  map[string]bool
	files int
	names int // that patterns may still look at
}

func (c *confReader) read(name string, depth int) error {
	if depth > maxConfDeep {
		return fmt.Errorf("%s: files include each other %d deep", name, depth)
	}
	if c.files++; c.files > maxConfs {
		return fmt.Errorf("%s: more than %d files are included", name, maxConfs)
	}
	b, err := c.root.ReadFile(name, maxConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for n := 1; len(b) > 0; n++ {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		line, _, _ = bytes.Cut(line, []byte("#"))
		line, _, _ = bytes.Cut(line, []byte("\x00"))
		if err := c.line(name, n, string(line), depth); err != nil {
			return err
		}
	}
	return nil
}

const space = " \t\n\v\f\r" // isspace in the C locale

func (c *confReader) line(name string, n int, line string, depth int) error {
	line = strings.TrimLeft(line, space)
	end := max(0, strings.IndexAny(line, " \t")) // of a first word that a blank follows
	if word := line[:end]; word == "include" {
		for _, pattern := range strings.FieldsFunc(line[end:], func(r rune) bool { return r == ' ' || r == '\t' }) {
			if !strings.HasPrefix(pattern, "/") {
				pattern = path.Dir(name) + "/" + pattern
			}
			found, err := c.root.GlobWithin(strings.TrimRight(pattern, space), &c.names)
			if err != nil {
				return fmt.Errorf("%s:%d: %q: %w", name, n, pattern, err)
			}
			for _, f := range found {
				if err := c.read(f, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	} else if strings.EqualFold(word, "hwcap") {
		return nil // ignored since glibc 2.37
	}
	dir := strings.TrimRight(strings.TrimRight(line, space), "/")
	// ldconfig before glibc 2.32 took "DIR=libc6" too.
	if at := strings.LastIndex(dir, "=libc"); at > 0 && len(dir) == at+len("=libc6") {
		dir = dir[:at]
	}
	// A relative directory would depend on where ldconfig was started.
	if !strings.HasPrefix(dir, "/") || c.seen[dir] {
		return nil
	}
	c.seen[dir] = true
	c.dirs = append(c.dirs, dir)
	return nil
}
