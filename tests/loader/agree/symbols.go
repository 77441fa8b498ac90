package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// symbols is what ldd -u, -r and -v, or explain with the flags of these, say of a file.
type symbols struct {
	unused    []string
	undefined map[[3]string]bool // symbol, version, file
	versions  map[[4]string]bool // file, library, version, the file that defines it or "not found"
	missing   bool               // a library is not found: what is unused is not compared
	asserts   bool               // the loader stops at an assertion of its own
}

var (
	undefinedText = regexp.MustCompile(`(?m)^undefined symbol: (\S+?)(?:, version (\S+))?\s+\((.*)\)$`)
	versionedText = regexp.MustCompile(
		`(?m)^symbol (\S+), version (\S+) not defined in file \S+ with link time reference\s+\((.*)\)$`)
	versionText = regexp.MustCompile(`^\t\t(\S+) \((\S+?)\)(?: \[WEAK\])? => (.*)$`)
)

// ldd asks the C library's own tool.
func ldd(file string) (s symbols) {
	ask := func(flag string) string {
		cmd := exec.Command("ldd", flag, file)
		cmd.Dir, cmd.Env = "/", []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
		out, _ := cmd.CombinedOutput()
		s.asserts = s.asserts || bytes.Contains(out, []byte("Inconsistency detected by ld.so"))
		return string(out)
	}
	for line := range strings.Lines(ask("-u")) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t"); ok {
			s.unused = append(s.unused, rest)
		}
	}
	relocated := ask("-r")
	s.missing = strings.Contains(relocated, "not found")
	s.undefined = map[[3]string]bool{}
	for _, m := range undefinedText.FindAllStringSubmatch(relocated, -1) {
		s.undefined[[3]string(m[1:])] = true
	}
	for _, m := range versionedText.FindAllStringSubmatch(relocated, -1) {
		s.undefined[[3]string(m[1:])] = true
	}
	s.versions = map[[4]string]bool{}
	by, on := "", false
	for line := range strings.Lines(ask("-v")) {
		line = strings.TrimRight(line, "\n")
		switch m := versionText.FindStringSubmatch(line); {
		case strings.Contains(line, "Version information:"):
			on = true
		case !on:
		case m != nil:
			s.versions[[4]string{by, m[1], m[2], m[3]}] = true
		case strings.HasPrefix(line, "\t"):
			by = strings.TrimSuffix(strings.TrimPrefix(line, "\t"), ":")
		}
	}
	return s
}

// explainSymbols asks our side about files.
func explainSymbols(files []string) (map[string]symbols, error) {
	args := append([]string{"explain", "--no-dlopen", "--unused", "--undefined", "--versions", "--json", "--"}, files...)
	cmd := exec.Command(runpath, args...)
	cmd.Dir = "/"
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, err
	}
	var doc struct {
		Files []struct {
			Path      string
			Libraries []struct {
				Soname string
				Path   *string
			}
			Unused    []string
			Undefined []struct{ Symbol, Version, Path string }
			Versions  []struct {
				Path, Library, Version string
				From                   *string
			}
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, err
	}
	all := map[string]symbols{}
	for _, f := range doc.Files {
		s := symbols{undefined: map[[3]string]bool{}, versions: map[[4]string]bool{}}
		paths := map[string]string{}
		for _, l := range f.Libraries {
			if l.Path != nil {
				paths[l.Soname] = *l.Path
			}
		}
		for _, name := range f.Unused {
			s.unused = append(s.unused, paths[name])
		}
		for _, u := range f.Undefined {
			s.undefined[[3]string{u.Symbol, u.Version, u.Path}] = true
		}
		for _, v := range f.Versions {
			from := "not found"
			if v.From != nil {
				from = *v.From
			}
			s.versions[[4]string{v.Path, v.Library, v.Version, from}] = true
		}
		all[f.Path] = s
	}
	return all, nil
}

// compareSymbols compares the two for files; it counts what the C library's tool said.
func compareSymbols(files []string) (int, error) {
	if _, err := exec.LookPath("ldd"); err != nil {
		return 0, fmt.Errorf("%w: there is no ldd", errSkip)
	}
	ours, err := explainSymbols(files)
	if err != nil {
		return 0, err
	}
	n, unused, undefined, versions, asserts, differ := 0, 0, 0, 0, 0, 0
	for _, file := range files {
		us, ok := ours[file]
		if !ok {
			return n, fmt.Errorf("no answer for %s", file)
		}
		them := ldd(file)
		if them.asserts {
			asserts++
			continue
		}
		n++
		unused, undefined, versions = unused+len(them.unused), undefined+len(them.undefined), versions+len(them.versions)
		var out []string
		if !them.missing && !slices.Equal(us.unused, them.unused) {
			out = append(out, fmt.Sprintf("-u: %q, we say %q", them.unused, us.unused))
		}
		out = append(out, setDifference("-r", them.undefined, us.undefined)...)
		out = append(out, setDifference("-v", them.versions, us.versions)...)
		if len(out) > 0 {
			differ++
			fmt.Printf("  %s\n    %s\n", file, strings.Join(out, "\n    "))
		}
	}
	fmt.Printf(
		"%d files: ldd says %d unused libraries, %d undefined symbols, %d versions; it fails at an assertion of its own in "+
			"%d more\n",
		n, unused, undefined, versions, asserts)
	if differ > 0 {
		return n, fmt.Errorf("%d of %d files differ", differ, n)
	}
	if asserts > n/4 {
		return n, fmt.Errorf("ldd fails in %d of %d files", asserts, len(files))
	}
	return n, nil
}

func setDifference[K comparable](flag string, theirs, ours map[K]bool) (out []string) {
	for _, only := range []struct {
		who     string
		in, not map[K]bool
	}{{"ldd", theirs, ours}, {"we", ours, theirs}} {
		for k := range maps.Keys(only.in) {
			if !only.not[k] {
				out = append(out, fmt.Sprintf("%s, only %s: %v", flag, only.who, k))
			}
		}
	}
	slices.Sort(out)
	return out[:min(len(out), 6)]
}

// systemSymbols compares programs of this machine.
func systemSymbols(n int) (int, error) {
	names, err := filepath.Glob("/usr/bin/*")
	if err != nil {
		return 0, err
	}
	var files []string
	for _, p := range names {
		if real, err := filepath.EvalSymlinks(p); err == nil && real == p && dynamicHere(p) {
			if answers, interps, _, err := explain("/", nil, p); err == nil && len(answers) == 1 && interps[0] == usual {
				files = append(files, p)
			}
		}
	}
	var some []string
	for i := range min(n, len(files)) {
		some = append(some, files[i*len(files)/min(n, len(files))])
	}
	return compareSymbols(some)
}

// randomSymbols compares random programs of a compiler, with functions, data and
// thread-local variables that four libraries define, weakly or not, with versions or
// without, and of which one may have been replaced by another build.
func randomSymbols(n int) (int, error) {
	if _, err := exec.LookPath("cc"); err != nil {
		return 0, fmt.Errorf("%w: there is no C compiler", errSkip)
	}
	dir, err := os.MkdirTemp("", "symbols")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	var files []string
	for i := range n {
		g := &symbolGraph{Rand: rand.New(rand.NewSource(*seed + int64(i))), dir: fmt.Sprintf("%s/%d", dir, i)}
		p, err := g.make()
		if err != nil {
			return 0, fmt.Errorf("seed %d: %w", *seed+int64(i), err)
		}
		files = append(files, p)
	}
	return compareSymbols(files)
}

type symbolGraph struct {
	*rand.Rand
	dir   string
	kinds map[string]byte // f function, d data, t thread-local
	uses  int
}

type symbolLib struct {
	path, soname string
	defines      map[string]bool // weak?
	refers       map[string]bool // weakly?
	needs        []string
}

func (g *symbolGraph) some(n int) []string {
	names := slices.Sorted(maps.Keys(g.kinds))
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:n]
}

func (g *symbolGraph) make() (program string, err error) {
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return "", err
	}
	g.kinds = map[string]byte{}
	for i := range 8 {
		g.kinds[fmt.Sprintf("s%d", i)] = "ffdt"[g.Intn(4)]
	}
	var libs []symbolLib
	var paths []string
	for i := range 4 {
		l := symbolLib{path: fmt.Sprintf("%s/lib%d.so", g.dir, i), soname: fmt.Sprintf("lib%d.so", i),
			defines: map[string]bool{}, refers: map[string]bool{}}
		for _, s := range g.some(1 + g.Intn(3)) {
			l.defines[s] = g.kinds[s] == 'f' && g.Intn(5) == 0
		}
		for _, s := range g.some(g.Intn(4)) {
			l.refers[s] = g.Intn(5) == 0
		}
		for _, p := range paths {
			if g.Intn(3) == 0 {
				l.needs = append(l.needs, p)
			}
		}
		if err := g.library(l); err != nil {
			return "", err
		}
		libs, paths = append(libs, l), append(paths, l.path)
	}
	refers := map[string]bool{}
	for _, s := range g.some(1 + g.Intn(5)) {
		refers[s] = g.Intn(7) == 0
	}
	mode := [][]string{{"-no-pie", "-fno-pic"}, {"-pie", "-fPIE"}, {"-shared", "-fPIC"}}[g.Intn(3)]
	program = g.dir + "/prog"
	g.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	args := append([]string{"-O0"}, mode...)
	args = append(args, "-o", program, "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", "-Wl,--unresolved-symbols=ignore-all",
		"-x", "c", "-", "-x", "none")
	if err := cc(g.use(refers, nil)+"int main(void) { return 0; }\n",
		append(args, paths[:1+g.Intn(4)]...)...); err != nil {
		return "", err
	}
	if g.Intn(5) < 3 { // another build of a library takes its place
		l := libs[g.Intn(len(libs))]
		if names := slices.Sorted(maps.Keys(l.defines)); len(names) > 1 && g.Intn(2) == 0 {
			delete(l.defines, names[0])
		}
		return program, g.library(l)
	}
	return program, nil
}

func (g *symbolGraph) library(l symbolLib) error {
	var c strings.Builder
	for _, s := range slices.Sorted(maps.Keys(l.defines)) {
		switch {
		case l.defines[s]:
			fmt.Fprintf(&c, "__attribute__((weak)) int %s(void) { return 2; }\n", s)
		case g.kinds[s] == 'f':
			fmt.Fprintf(&c, "int %s(void) { return 1; }\n", s)
		case g.kinds[s] == 'd':
			fmt.Fprintf(&c, "int %s = 1;\n", s)
		default:
			fmt.Fprintf(&c, "__thread int %s = 1;\n", s)
		}
	}
	c.WriteString(g.use(l.refers, l.defines))
	args := []string{"-O1", "-shared", "-fPIC", "-nostdlib", "-o", l.path, "-Wl,-soname," + l.soname, "-Wl,--no-as-needed",
		"-Wl,-rpath,$ORIGIN",
		"-Wl,--allow-shlib-undefined", "-Wl,--unresolved-symbols=ignore-all"}
	if g.Intn(5) >= 2 {
		script := fmt.Sprintf("V%d { global: %s; use_*; };\n", 1+g.Intn(2),
			strings.Join(slices.Sorted(maps.Keys(l.defines)), "; "))
		if g.Intn(3) == 0 {
			script += "V0 { };\n"
		}
		if err := os.WriteFile(l.path+".map", []byte(script), 0o644); err != nil {
			return err
		}
		args = append(args, "-Wl,--version-script="+l.path+".map")
	}
	return cc(c.String(), append(append(args, "-x", "c", "-", "-x", "none"), l.needs...)...)
}

// use returns a function that uses symbols.
func (g *symbolGraph) use(refers, own map[string]bool) string {
	var c, body strings.Builder
	for _, s := range slices.Sorted(maps.Keys(refers)) {
		if _, defined := own[s]; defined {
			continue
		}
		weak := ""
		if refers[s] {
			weak = "__attribute__((weak)) "
		}
		switch kind := g.kinds[s]; {
		case kind == 'f' && g.Intn(5) < 2: // by its address
			fmt.Fprintf(&c, "extern %sint %s(void);\n", weak, s)
			fmt.Fprintf(&body, " p = (void *)&%s; x += p ? %s() : 0;", s, s)
		case kind == 'f':
			fmt.Fprintf(&c, "extern %sint %s(void);\n", weak, s)
			fmt.Fprintf(&body, " x += %s();", s)
		case kind == 'd':
			fmt.Fprintf(&c, "extern %sint %s;\n", weak, s)
			fmt.Fprintf(&body, " x += %s;", s)
		default:
			fmt.Fprintf(&c, "extern %s__thread int %s;\n", weak, s)
			fmt.Fprintf(&body, " x += %s;", s)
		}
	}
	g.uses++
	return fmt.Sprintf("%sint use_%d_%d(void) { volatile int x = 0; void *volatile p = 0; (void)p;%s return x; }\n",
		c.String(), g.Int31(), g.uses, body.String())
}

func cc(source string, args ...string) error {
	cmd := exec.Command("cc", args...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cc: %w: %s", err, out)
	}
	return nil
}
