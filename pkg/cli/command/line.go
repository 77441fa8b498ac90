package command

import (
	"context"
	"io"
)

// Line is a command line that was read: what an action acts on.
type Line struct {
	Context context.Context
	Program string // the program's name
	Command string // the command's
	Stdout  io.Writer
	Stderr  io.Writer
	Args    []string
	Values
}

// Arg returns an argument, "" where there are not so many.
func (l *Line) Arg(i int) string {
	if i < len(l.Args) {
		return l.Args[i]
	}
	return ""
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

// values are those of a plain line.
type values []value

type value struct {
	*Flag
	alias string // by which it was given
	on    bool
	text  string
	n     int
}

// given returns the value that was given for a flag, nil for none.
func (v values) given(name string) *value {
	for i := range v {
		if v[i].Name == name {
			return &v[i]
		}
	}
	return nil
}

func (v values) Bool(name string) bool {
	given := v.given(name)
	return given != nil && given.on
}

func (v values) String(name string) string {
	if given := v.given(name); given != nil {
		return given.text
	}
	return ""
}

func (v values) Int(name string) int {
	if given := v.given(name); given != nil {
		return given.n
	}
	return 0
}

func (v values) StringSlice(string) []string { return nil } // see Plain

func (v values) IsSet(name string) bool {
	given := v.given(name)
	return given != nil && given.alias != ""
}
