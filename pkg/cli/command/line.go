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
type values struct {
	flags []*Flag
	given []value
}

// value is what was given for a flag.
type value struct {
	*Flag
	alias string // by which it was given
	on    bool
	text  string
	n     int
}

// of returns where the value is that is given for a flag.
func (v *values) of(f *Flag) *value {
	for i := range v.given {
		if v.given[i].Flag == f {
			return &v.given[i]
		}
	}
	v.given = append(v.given, value{Flag: f})
	return &v.given[len(v.given)-1]
}

// get returns what was given for a flag, else its default.
func (v *values) get(name string) value {
	for _, given := range v.given {
		if given.Name == name {
			return given
		}
	}
	for _, f := range v.flags {
		if f.Name == name {
			return value{Flag: f, text: f.Default}
		}
	}
	return value{}
}

func (v *values) Bool(name string) bool       { return v.get(name).on }
func (v *values) String(name string) string   { return v.get(name).text }
func (v *values) Int(name string) int         { return v.get(name).n }
func (v *values) StringSlice(string) []string { return nil } // see Plain
func (v *values) IsSet(name string) bool      { return v.get(name).alias != "" }
