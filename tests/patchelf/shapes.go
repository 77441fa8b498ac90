package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// compareShapes makes each call of a file such as calls, one after the other by both programs on copies of their own,
// and returns how many came out alike and how many did not.
func compareShapes(path, work string) (passed, failed int) {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	for i, line := range strings.Split(string(data), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := filepath.Join(work, fmt.Sprint("shape", i))
		o, t := runShape(*ours, filepath.Join(at, "ours"), line), runShape(*theirs, filepath.Join(at, "theirs"), line)
		os.RemoveAll(at)
		var differ []string
		for _, what := range slices.Sorted(maps.Keys(union(o, t))) {
			if o[what] != t[what] {
				differ = append(differ, fmt.Sprintf("        %s: ours %q, patchelf's %q", what, o[what], t[what]))
			}
		}
		if len(differ) == 0 && len(o) > 0 {
			passed++
			continue
		}
		failed++
		fmt.Printf("FAILED  %s\n%s\n", line, strings.Join(differ, "\n"))
	}
	return passed, failed
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// runShape returns what a program says in each call of a line, and what the files say afterwards.
func runShape(program, at, line string) map[string]string {
	if err := os.MkdirAll(at, 0o755); err != nil {
		panic(err)
	}
	out := map[string]string{}
	var files []string
	named := func(word string) string {
		name := word[1 : len(word)-1]
		switch name {
		case "libs":
			return filepath.Join(*dir, "libs")
		case "ld":
			return "/nix/store/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-glibc-2.41/lib/ld-linux-x86-64.so.2"
		}
		file := filepath.Join(at, name)
		if name != "missing" && !slices.Contains(files, file) {
			files = append(files, file)
			if data, err := os.ReadFile(filepath.Join(*dir, "files", name)); err == nil {
				os.WriteFile(file, data, 0o755)
			} else if name != "out" {
				panic(err)
			}
		}
		return file
	}
	for i, call := range strings.Split(line, " & ") {
		words := strings.Fields(call)
		for j, w := range words {
			if words[j] = placeholder.ReplaceAllStringFunc(w, named); w == "''" {
				words[j] = ""
			}
		}
		cmd := exec.Command(program, words...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		if err := cmd.Run(); cmd.ProcessState == nil {
			panic(err)
		}
		out[fmt.Sprintf("status of call %d", i+1)] = fmt.Sprint(cmd.ProcessState.ExitCode())
		out[fmt.Sprintf("output of call %d", i+1)] = strings.ReplaceAll(stdout.String(), at, "")
	}
	for _, file := range files {
		name := filepath.Base(file)
		facts, err := facts(file)
		if err != nil {
			data, _ := os.ReadFile(file) // no ELF file: then byte by byte
			out[name] = string(data)
		}
		for what, value := range facts {
			out[name+": "+what] = value
		}
	}
	return out
}
