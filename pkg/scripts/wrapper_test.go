package scripts

import (
	"errors"
	"strings"
	"testing"
)

func TestProgram(t *testing.T) {
	files := map[string]string{
		"/bin/app":     "#! /bin/bash -e\nexport A='/x/y'\nexec -a \"$0\" \"/bin/.app-wrapped\"  \"$@\" \n",
		"/bin/twice":   "#!/bin/sh\nif true; then\n  exec /bin/other\nfi\nexec \"/bin/app\" --flag /etc/file \"$@\"\n",
		"/bin/python":  "\x7fELF",
		"/bin/binary":  "\x7fELF\x00\n# …:\n\n\nmakeCWrapper '/bin/app' \\\n    --inherit-argv0\n\n\n",
		"/bin/quoted":  "\x7fELF\x00\nmakeCWrapper '/bin/it'\\''s' \\\n",
		"/bin/says":    "\x7fELF\x00 makeCWrapper EXECUTABLE",
		"/bin/script":  "#!/bin/python -s\nexec('/bin/none')\n",
		"/bin/byenv":   "#!/usr/bin/env python\n",
		"/bin/unknown": "#!/usr/bin/env perl6\n",
		"/bin/dynamic": "#!/bin/sh\nexec \"$HERE/app\" \"$@\"\n",
		"/bin/loop":    "#!/bin/sh\nexec /bin/loop\n",
	}
	read := func(file string) ([]byte, error) {
		if text, ok := files[file]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("none")
	}
	compiled := func(file string) string { return Compiled([]byte(files[file])) }
	find := func(name string) string {
		if name == "python" {
			return "/bin/python"
		}
		return ""
	}
	for file, want := range map[string]string{
		"/bin/app":     "/bin/.app-wrapped: /bin/app",
		"/bin/twice":   "/bin/.app-wrapped: /bin/twice /bin/app",
		"/bin/script":  "/bin/python: /bin/script",
		"/bin/byenv":   "/bin/python: /bin/byenv",
		"/bin/unknown": "/bin/unknown: ",
		"/bin/dynamic": "/bin/sh: /bin/dynamic",
		"/bin/python":  "/bin/python: ",
		"/bin/binary":  "/bin/.app-wrapped: /bin/binary /bin/app",
		"/bin/quoted":  "/bin/quoted: ",
		"/bin/says":    "/bin/says: ",
		"/bin/none":    "/bin/none: ",
	} {
		program, via := Program(file, read, compiled, find)
		if got := program + ": " + strings.Join(via, " "); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	if _, via := Program("/bin/loop", read, compiled, find); len(via) > 20 {
		t.Errorf("no end: %d", len(via))
	}
}
