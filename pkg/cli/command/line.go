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
