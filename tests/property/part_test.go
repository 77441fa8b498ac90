package property

import (
	"debug/elf"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/tests/judge"
)

// ourPatchelf is our program under patchelf's name.
const ourPatchelf = "our-patchelf"

// parts is what one of our steps changes besides the run path.
type parts struct {
	interpreter, soname *string
	remove, add         string
	replace             [2]string
	first               bool // an addition comes first
	again               bool // and is added again if it is there
	stack               *bool
	nodeflib, debug     bool
	osabi               *byte
	cleared             string
}

// names are what the library is known by, beside its file's name, in every bench.
var names = []string{"libvalue.so", "libv.so", "libvalue-under-a-name-that-is-longer-than-the-one-it-has.so"}

// loaders are paths of the loader, the first of them the one that linkers write.
var loaders = []string{"/lib64/ld-linux-x86-64.so.2"}

// placeLoaders makes the other ones.
func placeLoaders(dir string) error {
	for _, path := range []string{"ld", strings.Repeat("a-directory-of-the-store/", 10) + "ld.so", strings.Repeat("directory/", 90) + "ld.so"} {
		path = filepath.Join(dir, "loaders", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.Symlink(loaders[0], path); err != nil {
			return err
		}
		loaders = append(loaders, path)
	}
	return nil
}

// systemDir is where the C library is: a file that sets DF_1_NODEFLIB needs to be told.
var systemDir = sync.OnceValue(func() string {
	out, err := exec.Command("gcc", "-print-file-name=libc.so.6").Output()
	if err != nil {
		return ""
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
})

// partStep changes one to four things at once, by "runpath edit" or by our patchelf.
func partStep(r *rand.Rand, image string, list func() []string) step {
	s := step{ours: true, parts: &parts{}}
	p := s.parts
	byName := r.IntN(2) == 0
	s.args = []string{"runpath", "edit", "-q"}
	kinds := []string{"run path", "interpreter", "soname", "add", "remove", "replace", "stack"}
	if byName {
		s.args = []string{ourPatchelf}
		kinds = append(kinds, "no default", "debug", "os abi", "versions")
	}
	option := func(edit, patchelf string, values ...string) {
		if byName {
			edit = patchelf
		}
		s.args = append(append(s.args, edit), values...)
	}
	yes, linux := r.IntN(2) == 0, byte(elf.ELFOSABI_LINUX)
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for n := 1 + r.IntN(4); len(kinds) > 0 && n > 0; kinds = kinds[1:] {
		switch kind := kinds[0]; {
		case kind == "interpreter" && image == "app":
			p.interpreter = &loaders[r.IntN(len(loaders))]
			option("--interpreter", "--set-interpreter", *p.interpreter)
		case kind == "soname" && image != "app":
			name := "libnamed" + strings.Repeat("-again", r.IntN(30)) + ".so"
			p.soname = &name
			option("--soname", "--set-soname", name)
		case kind == "replace" && image != "libvalue.so":
			p.replace = [2]string{pick(r, names...), pick(r, names...)}
			if p.replace[0] == p.replace[1] {
				continue
			}
			if byName {
				option("", "--replace-needed", p.replace[0], p.replace[1])
			} else {
				option("--replace-needed", "", p.replace[0]+"="+p.replace[1])
			}
		case kind == "add":
			p.add = pick(r, "librt.so.1", "libutil.so.1", "libanl.so.1", "libBrokenLocale.so.1")
			p.first, p.again = byName, byName
			option("--add-needed", "--add-needed", p.add)
			if !byName && r.IntN(2) == 0 {
				p.first = true
				option("--first", "")
			}
		case kind == "remove" && p.add == "":
			p.remove = pick(r, "librt.so.1", "libutil.so.1")
			option("--remove-needed", "--remove-needed", p.remove)
		case kind == "stack":
			p.stack = &yes
			if yes {
				option("--set-execstack", "--set-execstack")
			} else {
				option("--clear-execstack", "--clear-execstack")
			}
		case kind == "run path":
			l := list()
			s.want, s.tag = func([]string) []string { return l }, kept
			if byName {
				s.tag = "RUNPATH" // patchelf makes a DT_RPATH one
			}
			if option("--run-path", "--set-rpath", strings.Join(l, ":")); r.IntN(8) == 0 {
				s.tag = "RPATH"
				option("--force-rpath", "--force-rpath")
			}
		case kind == "no default":
			p.nodeflib = true
			option("", "--no-default-lib")
		case kind == "debug":
			p.debug = true
			option("", "--add-debug-tag")
		case kind == "os abi":
			p.osabi = &linux
			option("", "--set-os-abi", "linux")
		case kind == "versions":
			p.cleared = pick(r, "printf", "no_such_symbol")
			option("", "--clear-symbol-version", p.cleared)
		default:
			continue
		}
		n--
	}
	s.args = append(s.args, "FILE")
	return s
}

// expect adds to what the judge is told of an edit of a file that needs certain libraries.
func (p *parts) expect(want *judge.Expect, needed []string) {
	want.Interpreter, want.Soname, want.ExecStack = p.interpreter, p.soname, p.stack
	want.NoDefaultLib, want.Debug, want.OSABI = p.nodeflib, p.debug, p.osabi
	if p.cleared != "" {
		want.Cleared = []string{p.cleared}
	}
	var after []string
	for _, name := range needed {
		if name == p.remove {
			continue
		}
		if name == p.replace[0] {
			name = p.replace[1]
			want.Renamed = map[string]string{p.replace[0]: name}
		}
		after = append(after, name)
	}
	switch {
	case p.add == "" || !p.again && slices.Contains(after, p.add):
	case p.first:
		after = slices.Insert(after, 0, p.add)
	default:
		after = append(after, p.add)
	}
	if !slices.Equal(after, needed) {
		want.Needed = &after
	}
}

// byPatchelf returns the step with patchelf in place of ours, as far as the one at hand knows the options.
func (p *parts) byPatchelf() []string {
	args := []string{"patchelf"}
	option := func(asked bool, name string, values ...string) {
		if asked && strings.Contains(patchelfHelp(), "["+name) {
			args = append(append(args, name), values...)
		}
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	option(p.interpreter != nil, "--set-interpreter", text(p.interpreter))
	option(p.soname != nil, "--set-soname", text(p.soname))
	option(p.remove != "", "--remove-needed", p.remove)
	option(p.replace[0] != "", "--replace-needed", p.replace[0], p.replace[1])
	option(p.add != "", "--add-needed", p.add)
	option(p.stack != nil && *p.stack, "--set-execstack")
	option(p.stack != nil && !*p.stack, "--clear-execstack")
	option(p.nodeflib, "--no-default-lib")
	option(p.debug, "--add-debug-tag")
	option(p.osabi != nil, "--set-os-abi", "linux")
	option(p.cleared != "", "--clear-symbol-version", p.cleared)
	return args
}

var patchelfHelp = sync.OnceValue(func() string {
	out, _ := exec.Command(program("patchelf"), "--help").CombinedOutput()
	return string(out)
})
