package wrapper

import "testing"

func TestInterpreter(t *testing.T) {
	for _, c := range []struct{ head, program, byEnv string }{
		{"#!/usr/bin/python3\nimport x", "/usr/bin/python3", ""},
		{"#! /bin/sh -e\n", "/bin/sh", ""},
		{"#!/usr/bin/env python3\n", "/usr/bin/env", "python3"},
		{"#!/usr/bin/env -S X=1 -i python3 -u\n", "/usr/bin/env", "python3"},
		{"#!/usr/bin/env -Spython3 -u\n", "/usr/bin/env", "python3"},
		{"#!/usr/bin/env\n", "/usr/bin/env", ""},
		{"#!/usr/bin/perl", "/usr/bin/perl", ""}, // no end of the line
		{"#!\n/bin/sh", "", ""},
		{"# !/bin/sh", "", ""},
		{"", "", ""},
	} {
		if program, byEnv := Interpreter([]byte(c.head)); program != c.program || byEnv != c.byEnv {
			t.Errorf("%q: %q %q", c.head, program, byEnv)
		}
	}
}
