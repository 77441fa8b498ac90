package scripts

import (
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

// Program follows scripts to the program that runs: through wrappers, and from any other script
// to its interpreter; find looks a name up in PATH. via are the scripts on the way.
func Program(file string, read func(file string) ([]byte, error), find func(name string) string) (program string, via []string) {
	const most = 10 // wrappers of wrappers
	for range most {
		text, err := read(file)
		if err != nil {
			return file, via
		}
		next := Wrapped(text)
		if next == "" {
			var byEnv string
			if next, byEnv = Interpreter(text[:min(len(text), 256)]); byEnv != "" {
				next = find(byEnv)
			}
		}
		if next == "" {
			return file, via
		}
		file, via = next, append(via, file)
	}
	return file, via
}
