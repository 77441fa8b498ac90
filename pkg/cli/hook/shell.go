package hook

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Settings are the variables that the shell hands over: what packages set, what stdenv has, and what the shim
// itself keeps. One that is not set is left out.
func Settings() []string {
	names := []string{
		// The shim's.
		"cudaRunpathGiven", "cudaRunpathProgram", "cudaRunpathStubs",
		// For all tools.
		"driverLink", "driverLinkPosition", "cudaCompat", "cudaCapabilities", "cudaRunpathStrict", "clearExecutableStacks",
		"cudaResolutionNote", "cudaOpened", "noRunpathAmbiguityIgnore", "stubReplaceForChecks",
		// Those by which cudaRunpathHook runs more.
		"cudaRunpathAutoPatchelf", "cudaRunpathCheckCapabilities", "cudaThin", "cudaThinCut", "cudaBlankOptions",
		// autoPatchelf's, which are nixpkgs' names.
		"dontAutoPatchelf", "autoPatchelfRelativeRpaths", "autoPatchelfIgnoreMissingDeps", "ignoreMissingDepsArray",
		"appendRunpaths", "appendRunpathsArray", "runtimeDependencies", "runtimeDependenciesArray", "patchelfFlags",
		"patchelfFlagsArray", "autoPatchelfFlags", "autoPatchelfFlagsArray", "autoPatchelfLibs", "extraAutoPatchelfLibs",
		// stdenv's.
		"NIX_BUILD_CORES", "NIX_BUILD_TOP", "NIX_BINTOOLS", "TMPDIR", "IN_NIX_SHELL", "noAuditTmpdir", "pkgsHostTarget",
		"dontPatchELF",
		"dontGenerateLDCache", "hookName", "hook", "fixupOutputHooks", "phases", "postPhases", "postPatchelfPhase",
	}
	for _, tool := range Tools() {
		names = append(names, tool+"Flags", tool+"FlagsArray")
		names = append(names, switches(tool)...)
	}
	return names
}

// setting is a variable of the shell.
type setting struct {
	attributes string // those of bash's declare: "a", "A", "x"
	values     []string
}

// shell is what the shell has at a moment.
type shell struct {
	settings map[string]setting
	names    []string // of the outputs, in the package's order
	outputs  map[string]string
}

var errState = errors.New(
	"what the shell hands over ends too early: the setup hook and the program are not of one version")

// readShell reads what the shim hands over: NAME, attributes, the number of values, the values, each with a NUL behind
// it.
func readShell(text []byte) (*shell, error) {
	s := &shell{settings: map[string]setting{}, outputs: map[string]string{}}
	words := bytes.Split(text, []byte{0})
	if len(words[len(words)-1]) != 0 {
		return nil, errState
	}
	words = words[:len(words)-1]
	for len(words) > 0 {
		if len(words) < 3 {
			return nil, errState
		}
		name := string(words[0])
		n, err := strconv.Atoi(string(words[2]))
		if err != nil || n < 0 || n > len(words)-3 {
			return nil, errState
		}
		one := setting{attributes: string(words[1])}
		for _, value := range words[3 : 3+n] {
			one.values = append(one.values, string(value))
		}
		words = words[3+n:]
		if output, ok := strings.CutPrefix(name, "output:"); ok {
			s.names = append(s.names, output)
			s.outputs[output] = strings.Join(one.values, "")
			continue
		}
		s.settings[name] = one
	}
	return s, nil
}

func (s *shell) isSet(name string) bool { _, ok := s.settings[name]; return ok }

// text is the value of a variable, as the shell's ${NAME-} gives it: of an array the first.
func (s *shell) text(name string) string {
	if values := s.settings[name].values; len(values) > 0 {
		return values[0]
	}
	return ""
}

// isTrue reports whether a setting is on. Nix makes "1" of true and "" of false.
func (s *shell) isTrue(name string) bool { return s.text(name) != "" }

// list returns the words of settings: an array's elements as they are, a string split on white space. Patterns such as
// *.so stay what they are. An empty element of a list of Nix says nothing (lib.optionalString makes them), as in a
// string; one of NAMEArray, which a phase fills, is meant.
func (s *shell) list(names ...string) ([]string, error) {
	var words []string
	for _, name := range names {
		some, err := s.elements(name)
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(name, "Array") {
			some = slices.DeleteFunc(some, func(word string) bool { return word == "" })
		}
		words = append(words, some...)
	}
	return words, nil
}

// elements is [shell.list] with the empty elements.
func (s *shell) elements(names ...string) ([]string, error) {
	var words []string
	for _, name := range names {
		one := s.settings[name]
		switch {
		case strings.Contains(one.attributes, "A"):
			return nil, fmt.Errorf("%s must be a string or a list, not an attribute set", name)
		case strings.Contains(one.attributes, "a"):
			words = append(words, one.values...)
		default:
			for _, value := range one.values {
				words = append(words, strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\n", r) })...)
			}
		}
	}
	return words, nil
}

// brought returns the values of a KEY that hooks brought, each once, in their order.
func (s *shell) brought(key string) []string {
	var values []string
	for _, given := range s.settings["cudaRunpathGiven"].values {
		if k, value, ok := strings.Cut(given, "="); ok && k == key && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// brings reports whether a hook brought KEY=VALUE.
func (s *shell) brings(key, value string) bool { return slices.Contains(s.brought(key), value) }

// given returns those values of a KEY that say something.
func (s *shell) given(key string) []string {
	return slices.DeleteFunc(s.brought(key), func(value string) bool { return value == "" })
}
