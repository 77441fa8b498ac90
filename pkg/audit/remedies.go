package audit

import (
	"os"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// operand returns the file as an argument for the editing tools, which refuse
// symbolic links and would take a leading hyphen for a flag's.
func (s *subject) operand() string {
	at := s.Loader.Host(s.path)
	if st, err := os.Lstat(at); err != nil || st.Mode()&os.ModeSymlink != 0 {
		return s.file.Path
	}
	if strings.HasPrefix(at, "-") {
		return "./" + at
	}
	return at
}

// edit is the remedy of running an editing tool on the file.
func (s *subject) edit(argv ...string) remedy.Remedy { return s.its.Edit(s.load.Main, argv...) }

// normalize is the remedy of bringing the run path into its normal form.
func (s *subject) normalize(flags ...string) remedy.Remedy {
	return s.edit(s.Tool(append([]string{"runpath", "normalize"}, flags...)...)...)
}

// without is the remedy of taking entries out of the run path; where a library is
// found in one of them and in no other, that has to be dealt with first.
func (s *subject) without(entries ...string) remedy.Remedy {
	if s.long {
		return remedy.Do("shorten the run path: runpath set writes another")
	}
	rest := runpath.Parse(s.file.List).Without(entries...)
	var lost []string
	for _, o := range s.load.Objects[1:] {
		if !o.Found() || o.List != s.load.Main || slices.Contains(rest, o.Entry) || slices.Contains(lost, o.Name) {
			continue
		}
		held := func(e entry) bool {
			return slices.Contains(rest, e.text) && (s.load.Holds(e.dir, o.Name) || e.driver && driver.Provides(o.Name))
		}
		if !slices.ContainsFunc(s.entries, held) {
			lost = append(lost, o.Name)
		}
	}
	if len(lost) > 0 {
		return remedy.Do("remove %s from the run path once %s can be found elsewhere", entries, lost)
	}
	command := []string{"runpath", "edit"}
	for _, e := range entries {
		command = append(command, "--remove-entry", e)
	}
	return s.edit(command...)
}

// replace is the remedy of writing another entry, or several, in the place of one.
func (s *subject) replace(e *entry, by string) remedy.Remedy {
	if s.long {
		return s.without()
	}
	return s.edit("runpath", "edit", "--replace-entry", e.text+"="+by)
}
