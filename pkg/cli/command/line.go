package command

import (
	"context"
	"io"
	"slices"
	"strings"
)

// Line is a command line that was read: what an action acts on.
type Line struct {
	Context context.Context
	Command string // its name
	Stdout  io.Writer
	Stderr  io.Writer
	Args    []string
	Flags   []*Flag // that the command has
	Values
}

// Arg returns an argument, "" where there are not so many.
func (l *Line) Arg(i int) string {
	if i < len(l.Args) {
		return l.Args[i]
	}
	return ""
}

// Check refuses values that a flag does not have.
func (l *Line) Check() error {
	for _, f := range l.Flags {
		if f.Values == nil && f.Check == nil {
			continue
		}
		for _, value := range l.given(f) {
			if last := len(f.Values) - 1; last > 0 && !slices.Contains(f.Values, value) {
				return Misusef("--%s %q: %s or %s", f.Name, value, strings.Join(f.Values[:last], ", "), f.Values[last])
			}
			if f.Check != nil {
				if err := f.Check(value); err != nil {
					return Misusef("--%s: %v", f.Name, err)
				}
			}
		}
	}
	return nil
}

// given returns the values that a flag has on the command line.
func (l *Line) given(f *Flag) []string {
	switch {
	case f.Kind == String && l.IsSet(f.Name), f.Kind == Bool && f.Values != nil && l.IsSet(f.Name):
		return []string{l.String(f.Name)}
	case f.Kind == List:
		return l.StringSlice(f.Name)
	}
	return nil
}

// Values are those of flags, by their names. A flag that the command does not have is not
// set, and has the zero value.
type Values interface {
	Bool(name string) bool
	String(name string) string
	Int(name string) int
	StringSlice(name string) []string // of a List
	// IsSet reports whether the flag is given.
	IsSet(name string) bool
}
