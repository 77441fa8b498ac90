package wrapper

import (
	"bytes"
	"path"
	"strings"
)

// Interpreter returns what starts a script by its first line: the program that the kernel
// runs (fs/binfmt_script.c) and, where that is env(1), the name of the program that env
// looks for in PATH. Both are "" for what is no script. head is its first bytes; 256 are
// what the kernel reads.
func Interpreter(head []byte) (program, byEnv string) {
	line, isScript := bytes.CutPrefix(head, []byte("#!"))
	if !isScript {
		return "", ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return "", ""
	}
	if path.Base(words[0]) != "env" {
		return words[0], ""
	}
	for _, word := range words[1:] {
		word = strings.TrimPrefix(word, "-S")
		if word != "" && word[0] != '-' && !strings.Contains(word, "=") {
			return words[0], word
		}
	}
	return words[0], ""
}
