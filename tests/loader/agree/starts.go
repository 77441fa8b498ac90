package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cuda-runpath/tests/tinyelf"
)

// Random starts: a program, behind a wrapper or not, with LD_LIBRARY_PATH, LD_PRELOAD and LD_AUDIT, that opens some
// libraries one after the other, and then lets a library of its own open some; a call may fail. What each call answers,
// and what is loaded at the end, must be what explain says.

// startSource is the program: it opens the names before "--", and ask() of its library those behind it.
const startSource = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#ifdef ASK
void *ask(const char *name, int how);
#endif
static int tell(struct dl_phdr_info *i, size_t n, void *p) {
  (void)n, (void)p; printf("has %s\n", i->dlpi_name); return 0; }
int main(int n, char **v) {
  int lib = 0, i;
  puts("started");
  for (i = 1; i < n; i++) {
    void *h;
    if (!strcmp(v[i], "--")) { lib = 1; continue; }
#ifdef ASK
    h = lib ? ask(v[i], RTLD_LAZY) : dlopen(v[i], RTLD_LAZY);
#else
    h = dlopen(v[i], RTLD_LAZY);
#endif
    __asm__ volatile("" ::: "memory");
    printf("open %d\n", h != NULL);
    if (!h) printf("why %s\n", dlerror());
    fflush(stdout);
  }
  dl_iterate_phdr(tell, NULL);
  return 0;
}
`

// beginningSource is where a program begins that is linked with another C library than this system's, whose own startup
// files ask for versions that an older one does not have. It is for x86-64, as other C libraries are.
const beginningSource = `.globl _start
_start:
  xor %ebp, %ebp
  mov (%rsp), %rdi
  lea 8(%rsp), %rsi
  and $-16, %rsp
  call main
  mov %eax, %edi
  call exit
.section .note.GNU-stack,"",@progbits
`

// A template is compiled once; its run path, and what its notes say, are put into it.
const (
	listSize = 900
	noteSize = 2000
)

var noteAssembly = fmt.Sprintf(
	".section .note.dlopen,\"a\",%%note\n.balign 4\n.long 4, %d, 0x407c0c0a\n.asciz \"FDO\"\n.fill %d, 1, 0x79\n.balign "+
		"4\n.section .note.GNU-stack,\"\",%%progbits\n", noteSize, noteSize)

type templates struct {
	dir     string
	program map[elf.DynTag][]byte
	library map[elf.DynTag][]byte // nil where the program's calls are all that there is
}

// makeTemplates compiles the programs for a loader, with the compiler that is right for it; ofLoader is the directory
// of another glibc than the compiler's, or "".
func makeTemplates(cc []string, interp, ofLoader string, musl bool) (*templates, error) {
	dir, err := os.MkdirTemp("", "starts")
	if err != nil {
		return nil, err
	}
	t := &templates{dir: dir, program: map[elf.DynTag][]byte{}, library: map[elf.DynTag][]byte{}}
	for name, text := range map[string]string{"start.c": startSource, "ask.c": askSource, "note.s": noteAssembly,
		"begin.s": beginningSource} {
		os.WriteFile(dir+"/"+name, []byte(text), 0o644)
	}
	libC, begin := []string{"-ldl"}, []string(nil)
	if ofLoader != "" {
		libC, begin = []string{"-nostdlib", "-Wl,--no-as-needed", ofLoader + "/libc.so.6"}, []string{dir + "/begin.s"}
		if libdl := ofLoader + "/libdl.so.2"; exists(libdl) { // which had dlopen before 2.34
			libC = append(libC, libdl)
		}
	}
	for tag, flag := range map[elf.DynTag]string{elf.DT_RUNPATH: "-Wl,--enable-new-dtags",
		elf.DT_RPATH: "-Wl,--disable-new-dtags"} {
		compile := func(to string, args ...string) ([]byte, error) {
			args = slices.Concat(cc[1:], []string{"-O1", "-o", dir + "/" + to, dir + "/note.s", flag,
				"-Wl,-rpath," + strings.Repeat("x", listSize)}, args)
			if out, err := exec.Command(cc[0], args...).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%s %q: %w: %s", cc[0], args, err, out)
			}
			return os.ReadFile(dir + "/" + to)
		}
		link := append(begin, dir+"/start.c", "-Wl,--dynamic-linker="+interp)
		if !musl { // which has the program search, whoever calls
			if t.library[tag], err = compile("ask", append([]string{dir + "/ask.c", "-shared", "-fPIC",
				"-Wl,-soname,$ORIGIN/libask.so"}, libC...)...); err != nil {
				return nil, err
			}
			link = append(link, "-DASK", dir+"/ask", "-Wl,--allow-shlib-undefined")
		}
		if t.program[tag], err = compile("program", append(link, libC...)...); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// fill puts a run path and the names that are opened into a template.
func fill(template []byte, list string, opens []string) []byte {
	var notes []map[string]any
	for _, name := range opens {
		notes = append(notes, map[string]any{"soname": []string{name}})
	}
	text, _ := json.Marshal(notes)
	if notes == nil {
		text = []byte("[]")
	}
	b := bytes.Replace(slices.Clone(template), bytes.Repeat([]byte("x"), listSize),
		append([]byte(list), make([]byte, listSize-len(list))...), 1)
	text = append(text, bytes.Repeat([]byte(" "), noteSize-1-len(text))...)
	return bytes.Replace(b, bytes.Repeat([]byte("y"), noteSize), append(text, 0), 1)
}

// startGraph is a graph of which a program opens libraries.
type startGraph struct {
	graph
	t        *templates
	ofLoader string   // the directory of another glibc than this system's; ""
	opens    []string // by the program
	asks     []string // by its library
	started  string   // the program, or a wrapper
	run      []string // what starts programs of another machine
	machine  elf.Machine
	class    elf.Class
}

func (g *startGraph) libName() string { return fmt.Sprintf("lib%c.so.1", 'a'+g.Intn(6)) }

// opened is a name that is given to dlopen.
func (g *startGraph) opened() string {
	name := g.libName()
	switch g.Intn(12) {
	case 0:
		return g.root + "/" + g.dir() + "/" + name
	case 1:
		if !g.musl {
			return "$ORIGIN/../" + g.dir() + "/" + name
		}
	case 2:
		return "libgone.so.1"
	}
	return name
}

func (g *startGraph) entries() string {
	var list []string
	if g.ofLoader != "" {
		list = append(list, g.ofLoader)
	}
	for range 1 + g.Intn(4) {
		list = append(list, pick(&g.graph, g.root+"/"+g.dir(), "$ORIGIN/../"+g.dir(), "${ORIGIN}", g.root+"/none",
			g.root+"/"+g.dir()+"/../"+g.dir()))
	}
	return strings.Join(list, ":")
}

// library makes one file.
func (g *startGraph) library(at, name string) error {
	o := tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Machine: g.machine, Class: g.class}
	if g.chance(75) {
		o = o.With(elf.DT_SONAME, pick(&g.graph, name, name, name, name, g.libName(), "other.so"))
	}
	// Mostly of those behind it in the alphabet, so that not all need all.
	for next := name[3] + 1; next < 'g'; next++ {
		if g.chance(20) {
			o = o.Needs(fmt.Sprintf("lib%c.so.1", next))
		}
	}
	switch {
	case g.chance(3):
		o = o.Needs("libgone.so.1")
	case g.chance(3):
		o = o.Needs(g.libName())
	case g.chance(3):
		o = o.Needs(g.root + "/" + g.dir() + "/" + g.libName())
	case g.chance(3) && !g.musl:
		o = o.With(elf.DT_AUXILIARY, g.libName())
	}
	if g.chance(60) {
		o = o.With(pick(&g.graph, elf.DT_RPATH, elf.DT_RUNPATH), g.entries())
	}
	switch {
	case g.chance(4):
		o.Flags1 |= elf.DF_1_NOOPEN
	case g.chance(4):
		o.Flags1 |= elf.DF_1_NODELETE
	case g.chance(2):
		o.Flags1 |= elf.DF_1_PIE
	}
	if !g.musl && g.chance(40) {
		o.Defines = []string{"V_1", "V_2"}[:1+g.Intn(2)]
	}
	for _, e := range slices.Clone(o.Strings) {
		if e.Tag == elf.DT_NEEDED && !g.musl && !strings.Contains(e.Str, "/") && g.chance(25) {
			o.Requires = append(o.Requires, tinyelf.Requirement{Library: e.Str, Version: pick(&g.graph, "V_1", "V_1", "V_2"),
				Weak: g.chance(20)})
		}
	}
	if others, _ := filepath.Glob(g.root + "/d*/lib?.so.1"); len(others) > 0 && g.chance(8) {
		other := pick(&g.graph, others...)
		if g.chance(50) {
			return os.Link(other, at)
		}
		return os.Symlink(other, at)
	}
	return os.WriteFile(at, o.Bytes(), 0o755)
}

func (g *startGraph) make() error {
	root, err := os.MkdirTemp("", "start-")
	if err != nil {
		return err
	}
	if g.root, err = filepath.EvalSymlinks(root); err != nil {
		return err
	}
	for i := range dirs {
		d := fmt.Sprintf("%s/d%d", g.root, i)
		os.Mkdir(d, 0o755)
		for c := 'a'; c < 'g'; c++ {
			if name := fmt.Sprintf("lib%c.so.1", c); g.chance(60) {
				if err := g.library(d+"/"+name, name); err != nil {
					return err
				}
			}
		}
	}
	for range 1 + g.Intn(5) {
		g.opens = append(g.opens, g.opened())
	}
	tag := pick(&g.graph, elf.DT_RPATH, elf.DT_RUNPATH)
	if lib := g.t.library[tag]; lib != nil {
		for range g.Intn(3) {
			g.asks = append(g.asks, g.opened())
		}
		slices.Sort(g.asks)
		g.asks = slices.Compact(g.asks)
		if err := os.WriteFile(g.root+"/d0/libask.so", fill(g.t.library[pick(&g.graph, elf.DT_RPATH, elf.DT_RUNPATH)],
			g.entries(), g.asks), 0o755); err != nil {
			return err
		}
	}
	// The same name twice is the same call again, which a note does not say.
	slices.Sort(g.opens)
	g.opens = slices.Compact(g.opens)
	g.Shuffle(len(g.opens), func(i, j int) { g.opens[i], g.opens[j] = g.opens[j], g.opens[i] })
	g.program = g.root + "/d0/program"
	if err := os.WriteFile(g.program, fill(g.t.program[tag], g.entries(), g.opens), 0o755); err != nil {
		return err
	}
	g.started, g.cwd = g.program, g.root
	if g.chance(25) {
		g.env = append(g.env, "LD_LIBRARY_PATH="+g.entries())
	}
	value := func() string {
		return pick(&g.graph, g.libName(), g.root+"/"+g.dir()+"/"+g.libName(), g.libName()+":"+g.libName())
	}
	if g.chance(15) {
		g.env = append(g.env, "LD_PRELOAD="+value())
	}
	if !g.musl && g.chance(10) {
		g.env = append(g.env, "LD_AUDIT="+value())
	}
	if g.run == nil && g.chance(40) {
		return g.wrap(value)
	}
	return nil
}

// wrap puts a wrapper before the program, in the words of nixpkgs' makeWrapper or of people.
func (g *startGraph) wrap(value func() string) error {
	text := "#!/bin/bash -e\n"
	variable := pick(&g.graph, "LD_LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")
	set := strings.ReplaceAll(g.entries(), "$", "\\$")
	if variable != "LD_LIBRARY_PATH" {
		set = value()
	}
	if g.musl && variable == "LD_AUDIT" {
		variable = "LD_PRELOAD"
	}
	// Of the wrapper itself the variables are too: what it loads is no matter here.
	switch g.Intn(5) {
	case 0:
		text += fmt.Sprintf("export %s=\"%s\"\n", variable, set)
	case 1:
		text += fmt.Sprintf("export %[1]s=\"%[2]s${%[1]s:+:}$%[1]s\"\n", variable, set)
	case 2:
		text += fmt.Sprintf(
			"%[1]s=${%[1]s:+':'$%[1]s':'}\n%[1]s=${%[1]s/':'\"%[2]s\"':'/':'}\n"+
				"%[1]s=\"%[2]s\"$%[1]s\n%[1]s=${%[1]s#':'}\n%[1]s=${%[1]s%%':'}\nexport %[1]s\n", variable, set)
	case 3:
		text += fmt.Sprintf("if [ -n \"$%[1]s\" ]; then\n  export %[1]s=\"$%[1]s:%[2]s\"\nelse\n  unset LD_PRELOAD\nfi\n",
			variable, set)
	}
	text += pick(&g.graph, "exec -a \"$0\" \""+g.program+"\"  \"$@\"\n",
		"exec \"$(dirname \"$0\")/../d0/program\" \"$@\"\n",
		"here=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\nexec \"$here/../d0/program\" \"$@\"\n",
		"unset LD_AUDIT\nexec "+g.program+" \"$@\"\n")
	g.started = g.root + "/d1/wrapper"
	return os.WriteFile(g.started, []byte(text), 0o755)
}

// load are the findings of audit for a process that does not start.
var load = []string{"libc-mismatch", "load-error", "missing-interpreter", "missing-version", "unresolved-dependency",
	"unresolved-library", "undefined-symbol"}

// others returns how audit and doctor differ from what happened: of a program that does not start, each has an
// error, and of one that does, none about that. What a call opens that fails, though there is a library, is named.
func (g *startGraph) others(started bool, fails []string) (difference string, err error) {
	ask := func(env []string, command string, args ...string) ([]byte, error) {
		cmd := exec.Command(command, args...)
		cmd.Dir, cmd.Env = g.cwd, append([]string{"LC_ALL=C", "PATH=/usr/bin:/bin"}, env...)
		out, err := cmd.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 1 {
			err = nil
		}
		return out, err
	}
	judge := func(who string, errs, opens []string) {
		if started != (len(errs) == 0) {
			difference += fmt.Sprintf("%s: it starts: %v, errors: %q; ", who, started, errs)
		}
		for _, name := range fails {
			if !slices.ContainsFunc(opens, func(text string) bool { return strings.Contains(text, "opening "+name+" ") }) {
				difference += fmt.Sprintf("%s does not say that opening %s fails; ", who, name)
			}
		}
	}
	if len(g.env) == 0 { // audit knows no variables but those that wrappers set
		files := []string{g.program}
		if g.started != g.program {
			files = append(files, g.started)
		}
		out, err := ask(nil, runpath, append([]string{"audit", "--json"}, files...)...)
		if err != nil {
			return "", fmt.Errorf("audit: %w", err)
		}
		var doc struct {
			Files []struct {
				Findings []struct{ ID, Severity, Message string }
			}
		}
		if err := json.Unmarshal(out, &doc); err != nil {
			return "", fmt.Errorf("audit: %w: %.200s", err, out)
		}
		var errs, opens []string
		for _, f := range doc.Files {
			for _, found := range f.Findings {
				if found.ID == "open-fails" {
					opens = append(opens, found.Message)
				}
				if found.Severity == "error" && slices.Contains(load, found.ID) {
					errs = append(errs, found.ID+": "+found.Message)
				}
			}
		}
		judge("audit", errs, opens)
	}
	doctor := filepath.Join(filepath.Dir(runpath), "hostDriver")
	if g.run != nil || g.musl || !exists(doctor) {
		return difference, nil
	}
	out, err := ask(g.env, doctor, "doctor", "--json", "--for", "9.0", g.started)
	if err != nil {
		return "", fmt.Errorf("doctor: %w", err)
	}
	var doc struct {
		Facts []struct{ Subject, Verdict, Text, Source string }
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return "", fmt.Errorf("doctor: %w: %.200s", err, out)
	}
	var errs, opens []string
	for _, f := range doc.Facts {
		opens = append(opens, f.Text)
		switch {
		case f.Verdict != "bad":
		case strings.Contains(f.Text, ", which starts the program, does not start with "):
			// The wrapper was run by a shell that the variables were kept from: asked of a shell that has them.
			shell := exec.Command("/bin/bash", "-c", ":")
			shell.Dir, shell.Env = g.cwd, append([]string{"LC_ALL=C", "PATH=/usr/bin:/bin"}, g.env...)
			if shell.Run() == nil {
				difference += fmt.Sprintf("doctor: %s, but it does; ", f.Text)
			}
		default:
			errs = append(errs, f.Subject+": "+f.Text)
		}
	}
	judge("doctor", errs, opens)
	return difference, nil
}

// compare returns what happened, and how explain, audit and doctor differ from it.
func (g *startGraph) compare() (kind, difference string, err error) {
	if err := g.make(); err != nil {
		return "", "", err
	}
	args := []string{"explain", "--json", "--quiet"}
	for _, e := range g.env {
		args = append(args, "--env", e)
	}
	cmd := exec.Command(runpath, append(args, "--", g.started)...)
	cmd.Dir = g.cwd
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	said, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return "", "", fmt.Errorf("%w: %s", err, stderr.String())
	}
	var doc document
	if err := json.Unmarshal(said, &doc); err != nil {
		return "", "", fmt.Errorf("%w: %.200s", err, said)
	}
	f := doc.Files[0]
	ours := startAnswer{}
	crash := strings.HasSuffix(f.Error, "the loader crashes")
	failed, there := map[string]bool{}, map[string]bool{}
	stops := f.Error != "" || len(f.Lacks) > 0
	for _, l := range f.Libraries {
		optional := slices.Contains([]string{"LD_PRELOAD", "DT_AUXILIARY"}, l.Cause)
		crash = crash || strings.HasSuffix(l.Error, "the loader crashes")
		switch {
		case l.Namespace > 0 || l.Path != nil && strings.HasPrefix(*l.Path, "linux-"):
		case l.Cause == ".note.dlopen" && (l.Path == nil || l.Error != ""):
			failed[l.Soname], there[l.Soname] = true, l.Path != nil
		case l.Path != nil && l.Error == "":
			ours.has = append(ours.has, g.absolute(*l.Path))
		}
		stops = stops || l.Certain && l.Namespace == 0 && !optional && (l.Path == nil || l.Error != "" || len(l.Lacks) > 0)
	}
	slices.Sort(ours.has)

	argv := slices.Concat(g.run, []string{g.started}, g.opens, []string{"--"}, g.asks)
	if g.run != nil { // what emulates the machine is to have none of them
		var vars []string
		for _, e := range g.env {
			vars = append(vars, "-E", e)
		}
		argv = slices.Insert(argv, len(g.run), vars...)
	}
	var wrapper []byte // as it was
	// The variables are for the wrapper's shell, too: it must not fail by them.
	shell := exec.Command(argv[0], argv[1:]...)
	shell.Dir, shell.Env = g.cwd, []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	if g.run == nil {
		shell.Env = append(shell.Env, g.env...)
	}
	if g.started != g.program {
		for _, e := range g.env { // else the shell would load what is in them
			name, value, _ := strings.Cut(e, "=")
			shell.Env = slices.DeleteFunc(shell.Env, func(x string) bool { return x == e })
			shell.Env = append(shell.Env, "GIVEN_"+name+"="+value)
		}
		b, _ := os.ReadFile(g.started)
		wrapper = b
		given :=
			"#!/bin/bash -e\nfor v in LD_LIBRARY_PATH LD_PRELOAD LD_AUDIT; do g=GIVEN_$v; if [ -n \"${!g}\" ]; then export " +
				"$v=\"${!g}\"; fi; done\n"
		b = bytes.Replace(b, []byte("#!/bin/bash -e\n"), []byte(given), 1)
		// dirname and the like must not be programs that load it, either.
		b = bytes.ReplaceAll(b, []byte("$(dirname "), []byte("$(LD_LIBRARY_PATH= LD_PRELOAD= LD_AUDIT= dirname "))
		os.WriteFile(g.started, b, 0o755)
	}
	out, err := shell.CombinedOutput()
	if wrapper != nil {
		os.WriteFile(g.started, wrapper, 0o755)
	}
	if err != nil && shell.ProcessState == nil {
		return "", "", err
	}
	status, _ := shell.ProcessState.Sys().(syscall.WaitStatus)
	text := string(out)
	began := strings.Contains(text, "started\n")
	switch {
	case strings.Contains(text, "unload_audit_module"), strings.Contains(text,
		"Inconsistency detected by ld.so: dl-close.c"),
		status.Signaled() && strings.Contains(text, "cannot be loaded as audit interface"),
		strings.Contains(text, "_dl_map_object_deps: Assertion `map->l_searchlist.r_list[0] == map'"):
		return "not comparable", "", nil // an auditing module that cannot be loaded, which glibc cannot always unload
	case status.Signaled() || status.ExitStatus() > 128 || strings.Contains(text, "Inconsistency detected"):
		if !crash {
			difference = fmt.Sprintf("it ends by %v, %q", status, text)
		}
		return "crash", difference, nil
	case crash:
		return "crash", fmt.Sprintf("explain says that the loader crashes: %q", text), nil
	case !began:
		if !stops {
			difference = fmt.Sprintf("it does not start, %q; ", text)
		}
		more, err := g.others(false, nil)
		return "does not start", difference + more, err
	case stops:
		return "starts", "explain says that it does not start: " + f.Error, nil
	}
	var theirs startAnswer
	names, call := slices.Concat(g.opens, g.asks), 0
	bad := 0
	var failing []string
	for line := range strings.Lines(text) {
		switch what, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); what {
		case "open":
			if fails := rest == "0"; fails {
				bad++
				if there[names[call]] && !slices.Contains(failing, names[call]) {
					failing = append(failing, names[call])
				}
				if !failed[names[call]] {
					difference += fmt.Sprintf("opening %s fails, explain says that it does not; ", names[call])
				}
			} else if failed[names[call]] && !slices.Contains(names[:call], names[call]) &&
				!slices.Contains(names[call+1:], names[call]) {
				difference += fmt.Sprintf("opening %s succeeds, explain says that it fails; ", names[call])
			}
			call++
		case "why":
			difference = strings.TrimSuffix(difference, "; ")
			if difference != "" {
				difference += ": " + rest + "; "
			}
		case "has":
			if rest != "" && !strings.HasPrefix(rest, "linux-") && g.absolute(rest) != g.program {
				theirs.has = append(theirs.has, g.absolute(rest))
			}
		}
	}
	slices.Sort(theirs.has)
	ours.has, theirs.has = g.comparable(ours.has), g.comparable(theirs.has)
	if !slices.Equal(ours.has, theirs.has) {
		difference += fmt.Sprintf("loaded at the end: %q, explain says %q; ", theirs.has, ours.has)
	}
	more, err := g.others(true, failing)
	if bad > 0 {
		return "with calls that fail", difference + more, err
	}
	return "all calls succeed", difference + more, err
}

type startAnswer struct{ has []string }

// absolute returns where a path of a library leads.
func (g *startGraph) absolute(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(g.cwd, path)
	}
	return resolved(path)
}

// comparable leaves the loader itself out, which is always loaded, and what comes from outside.
func (g *startGraph) comparable(paths []string) []string {
	return slices.Compact(slices.DeleteFunc(paths, func(p string) bool { return !strings.HasPrefix(p, g.root+"/") }))
}

// starts compares what explain says of N random starts with what happens.
func starts(cc []string, run []string, interp, ofLoader string, musl bool, machine elf.Machine, class elf.Class,
	n int) (int, error) {
	if _, err := os.Stat(interp); err != nil {
		return 0, fmt.Errorf("%w: there is no %s", errSkip, interp)
	}
	for _, tool := range append(run, cc[0]) {
		if _, err := exec.LookPath(tool); err != nil {
			return 0, fmt.Errorf("%w: it takes %s", errSkip, tool)
		}
	}
	another := ofLoader
	if machine != 0 { // a cross compiler links with its own
		another = ""
	}
	t, err := makeTemplates(cc, interp, another, musl)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(t.dir)
	differ := 0
	counts := map[string]int{}
	for i := range n {
		s := *seed + int64(i)
		g := &startGraph{graph: graph{Rand: rand.New(rand.NewSource(s)), interp: interp, musl: musl}, t: t,
			ofLoader: ofLoader, run: run, machine: machine, class: class}
		kind, d, err := g.compare()
		if err != nil {
			return i, fmt.Errorf("seed %d: %w", s, err)
		}
		if counts[kind]++; d != "" {
			differ++
			fmt.Printf("  seed %d: %s opens %q, its library %q, env %q\n    %s\n", s, g.started, g.opens, g.asks, g.env, d)
		}
		if d == "" || !*keep {
			os.RemoveAll(g.root)
		}
	}
	fmt.Printf("%d starts: %v\n", n, counts)
	if failed := counts["does not start"] + counts["crash"]; failed > n/2 {
		return n, fmt.Errorf("%d of %d programs do not start: they are not right for this C library", failed, n)
	}
	if differ > 0 {
		return n, fmt.Errorf("%d of %d starts differ", differ, n)
	}
	return n, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
