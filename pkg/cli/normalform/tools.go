package normalform

import (
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/runpath"
)

// tools are the editing tools, by their names, and what each does to a run path.
var tools = []struct {
	Name string
	Map  runpath.Map
}{
	{"stubReplace", runpath.ReplaceStubs},
	{"autoAddDriverRunpath", runpath.AddDriverLink},
	{"addCudaCompatRunpath", runpath.AddCompat},
}

// ToolNames returns the names of the editing tools.
func ToolNames() (names []string) {
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

// ToolList lists their names for a sentence.
func ToolList() string { return strings.Join(ToolNames(), ", ") }

// MapsOf returns what tools do, by their names, of which one may need a compat directory.
func MapsOf(names []string, compat string) (maps runpath.Map, err error) {
	for _, t := range tools {
		if slices.Contains(names, t.Name) {
			maps |= t.Map
		}
	}
	if maps&runpath.AddCompat != 0 && compat == "" {
		err = command.Misuse("--compat DIR is required")
	}
	return maps, err
}
