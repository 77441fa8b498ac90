package scripts

import (
	"bytes"
	"path"
	"strings"
)

// Wrapped returns the program that a shell script starts in its own place: the path in its last
// line that begins with exec, as makeWrapper of nixpkgs writes it; "" where there is none, or
// it is computed.
func Wrapped(text []byte) string {
	program, byEnv := Interpreter(text[:min(len(text), 256)])
	if byEnv != "" {
		program = byEnv
	}
	switch path.Base(program) {
	case "sh", "bash", "dash", "ash":
	default:
		return ""
	}
	wrapped := ""
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "exec ")
		if !ok {
			continue
		}
		wrapped = ""
		for _, word := range strings.Fields(rest) {
			if word = strings.Trim(word, `"'`); strings.HasPrefix(word, "/") && !strings.ContainsAny(word, "$`*?[\\\"'") {
				wrapped = word
				break // what follows are its arguments
			}
		}
	}
	return wrapped
}

// MaxCompiled is the size of the largest file that may be a compiled wrapper, in bytes.
const MaxCompiled = 1 << 20

// Compiled returns the program that a compiled wrapper starts in its own place; "" for any other
// program. makeBinaryWrapper of nixpkgs puts the command that has made it into its read-only data.
func Compiled(data []byte) string {
	_, rest, _ := bytes.Cut(data, []byte("\nmakeCWrapper '"))
	program, after, _ := bytes.Cut(rest, []byte("'"))
	if !bytes.HasPrefix(program, []byte("/")) || len(after) == 0 || after[0] != ' ' && after[0] != '\n' {
		return ""
	}
	return string(program)
}

// Program follows wrappers to the program that runs, and from any other script to its interpreter;
// find looks a name up in PATH, and compiled says what a compiled wrapper starts, "" for what is none.
// via are the files on the way.
func Program(file string, read func(file string) ([]byte, error), compiled, find func(name string) string) (program string, via []string) {
	const most = 10 // wrappers of wrappers
	for range most {
		next := compiled(file)
		if next == "" {
			text, err := read(file)
			if err != nil {
				return file, via
			}
			if next = Wrapped(text); next == "" {
				var byEnv string
				if next, byEnv = Interpreter(text[:min(len(text), 256)]); byEnv != "" {
					next = find(byEnv)
				}
			}
		}
		if next == "" {
			return file, via
		}
		file, via = next, append(via, file)
	}
	return file, via
}
