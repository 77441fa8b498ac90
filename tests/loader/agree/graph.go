package main

import (
	"debug/elf"
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

// random compares N random graphs of small libraries under a loader.
func random(interp string, n int, notes bool) (int, error) {
	b, err := os.ReadFile(interp)
	if err != nil {
		return 0, fmt.Errorf("%w: there is no %s", errSkip, interp)
	}
	if notes && !strings.Contains(string(b), "\x00RESCACHE\x00") {
		return 0,
			fmt.Errorf(
				"%w: %s does not read resolution notes; --glibc LOADER names one that does, of a glibc with nixpkgs' ldcache.patch",
				errSkip, interp)
	}
	differ, libs, missing, fatal, crashes, lacks := 0, 0, 0, 0, 0, 0
	for i := range n {
		g := &graph{Rand: rand.New(rand.NewSource(*seed + int64(i))), interp: interp, musl: strings.Contains(interp, "musl"),
			notes: notes}
		d, real, err := g.compare()
		if err != nil {
			return i, fmt.Errorf("seed %d: %w", *seed+int64(i), err)
		}
		libs += len(real.libs)
		for lib := range real.libs {
			if lib[1] == "not found" {
				missing++
			}
		}
		lacks += len(real.lacks)
		if real.fatal != "" {
			fatal++
		}
		if real.crash {
			crashes++
		}
		if d != "" {
			differ++
			fmt.Printf("  seed %d, program %s in %s, env %q\n    %s\n", *seed+int64(i), g.program, g.cwd, g.env, d)
		}
	}
	fmt.Printf(
		"%d graphs, %d libraries, %d of them not found; %d symbol versions not found; %d graphs where the loader stops at "+
			"a damaged file, %d where it crashes\n", n, libs, missing, lacks, fatal, crashes)
	if differ > 0 {
		return n, fmt.Errorf("%d of %d graphs differ", differ, n)
	}
	return n, nil
}

// graph is a folder of directories with libraries that need each other.
type graph struct {
	*rand.Rand
	interp  string
	musl    bool
	notes   bool // with resolution notes
	runs    bool // the program is really started
	root    string
	program string
	cwd     string
	env     []string
}

func (g *graph) chance(percent int) bool { return g.Intn(100) < percent }

func pick[T any](g *graph, from ...T) T { return from[g.Intn(len(from))] }

const dirs = 6

func (g *graph) dir() string { return fmt.Sprintf("d%d", g.Intn(dirs)) }

// name is the name of a library: of the graph, rarely one of the system.
func (g *graph) name() string {
	if g.chance(6) {
		return pick(g, "libc.so.6", "libm.so.6", "libz.so.1", "libpthread.so.0", "libgcc_s.so.1")
	}
	return fmt.Sprintf("lib%c.so.%d", 'a'+g.Intn(6), 1+g.Intn(2))
}

// needed is a name, or rarely a path.
func (g *graph) needed() string {
	if g.chance(2) {
		return "" // glibc: the program itself; musl: an error
	}
	if g.chance(5) {
		return pick(g, "$ORIGIN/"+g.name(), g.root+"/"+g.dir()+"/"+g.name(), "./"+g.name(), g.dir()+"/"+g.name(),
			"${ORIGIN}/../"+g.dir()+"/"+g.name())
	}
	return g.name()
}

// entry is an entry of a run path, in all kinds of spellings.
func (g *graph) entry() string {
	d := g.dir()
	switch g.Intn(22) {
	case 0, 1, 2:
		return "$ORIGIN/../" + d
	case 3:
		return "${ORIGIN}/../" + d
	case 4:
		return "$ORIGIN"
	case 5:
		return "" // the working directory
	case 6:
		return "../" + d
	case 7:
		return g.root + "/" + d + "/$LIB"
	case 8:
		return g.root + "/" + d + "/${PLATFORM}"
	case 9:
		return g.root + "//" + d + "/./" // another spelling
	case 10:
		return g.root + "/" + d + "/../" + g.dir()
	case 11:
		return g.root + "/$ORIGINAL/" + d // not a token
	case 12:
		return g.root + "/missing"
	case 13:
		return "$ORIGIN/sub/.."
	case 14:
		return g.root + "/file" // not a directory
	case 15:
		return "$ORIGIN/$ORIGIN"
	case 16:
		return pick(g, "/usr/lib", "/lib/x86_64-linux-gnu/", g.root+"/$", g.root+"/${LIB", ".")
	}
	return g.root + "/" + d
}

func (g *graph) list(separators string) string {
	var b strings.Builder
	for i := range 1 + g.Intn(4) {
		if i > 0 {
			b.WriteByte(separators[g.Intn(len(separators))])
		}
		b.WriteString(g.entry())
	}
	return b.String()
}

// object makes a library, or the program. What the program names by DT_AUXILIARY or
// DT_FILTER comes before it in glibc's list, of which the trace shows only what
// stands after it: there is nothing to compare then.
func (g *graph) object(soname string, program bool) tinyelf.Object {
	var o tinyelf.Object
	if g.runs {
		o.Stack = elf.PF_R | elf.PF_W // by default it is executable, which new versions refuse
	}
	if soname != "" {
		o = o.With(elf.DT_SONAME, soname)
	}
	needs := g.Intn(4)
	if g.runs && needs > 1 { // or nearly all fail
		needs -= 2
	}
	for range needs {
		switch {
		case program:
			o = o.Needs(g.needed())
		case !g.musl && g.chance(3):
			o = o.With(elf.DT_AUXILIARY, g.name())
		case !g.musl && g.chance(2):
			o = o.With(elf.DT_FILTER, g.name())
		default:
			o = o.Needs(g.needed())
		}
	}
	switch g.Intn(6) {
	case 0:
		o = o.With(elf.DT_RPATH, g.list(":"))
	case 1, 2:
		o = o.With(elf.DT_RUNPATH, g.list(":"))
	case 3:
		if g.chance(40) {
			o = o.With(elf.DT_RPATH, g.list(":")).With(elf.DT_RUNPATH, g.list(":"))
		}
	case 4:
		if g.chance(10) {
			o = o.With(elf.DT_RUNPATH, "")
		}
	}
	if g.chance(10) {
		o.Flags1 |= elf.DF_1_NODEFLIB
	}
	if g.notes {
		g.note(&o)
	}
	g.versions(&o)
	return o
}

// note gives most objects a resolution note: right ones, stale ones, malformed ones.
func (g *graph) note(o *tinyelf.Object) {
	if g.chance(25) {
		return
	}
	place := func() string {
		switch file := "/" + g.dir() + "/" + g.name(); g.Intn(12) {
		case 0, 1, 2, 3, 4:
			return "=" + g.root + file
		case 5:
			return "=.." + file
		case 6:
			return pick(g, "=$ORIGIN/.."+file, "=", "?", "", g.root+file, "="+g.root+"/file", "="+g.root+"/"+g.dir())
		}
		return "?" + g.entry()
	}
	pair := func(name string) {
		places := []string{place()}
		for g.chance(50) {
			places = append(places, place())
		}
		o.Resolution += name + "\x00" + strings.Join(places, ":") + "\x00"
	}
	for _, e := range o.Strings {
		if e.Tag == elf.DT_NEEDED && g.chance(80) {
			pair(e.Str)
		}
	}
	for g.chance(30) { // of libraries that are preloaded, or needed no more
		pair(g.name())
	}
	switch g.Intn(30) {
	case 0:
		o.Resolution += g.name() + "\x00"
	case 1:
		o.Resolution += "\x00after\x00=/the/end\x00"
	case 2:
		return // it does not end in two NULs
	}
	o.Resolution += "\x00"
}

// versions gives an object symbol versions, and lets it need some of the libraries that
// it names, rarely of one that it does not name.
func (g *graph) versions(o *tinyelf.Object) {
	if g.musl || g.chance(50) {
		return
	}
	if g.chance(60) {
		o.Defines = []string{"V_1", "V_2", "GLIBC_2.2.5", "GLIBC_ABI_DT_RELR"}[:1+g.Intn(4)]
	}
	for _, e := range o.Strings {
		if e.Tag == elf.DT_NEEDED && !strings.ContainsAny(e.Str, "/$") && g.chance(50) {
			o.Requires = append(o.Requires, tinyelf.Requirement{Library: e.Str,
				Version: pick(g, "V_1", "V_2", "V_3", "GLIBC_ABI_DT_RELR"), Weak: g.chance(15)})
		}
	}
	if g.chance(1) {
		o.Requires = append(o.Requires, tinyelf.Requirement{Library: g.name(), Version: "V_1"})
	}
	o.RelR = g.chance(5)
}

// write puts one file into the graph, rarely something that is no library for this program.
func (g *graph) write(path, name string) error {
	soname := name
	switch g.Intn(8) {
	case 0:
		soname = ""
	case 1:
		soname = g.name()
	}
	o := g.object(soname, false)
	b := o.Bytes()
	switch p := g.Intn(200); {
	case p < 8:
		o.Class, o.Machine = elf.ELFCLASS32, elf.EM_386
		if g.musl { // musl does not check: what it would do with such a file is undefined
			break
		}
		b = o.Bytes()
	case p < 16:
		o.Machine = elf.EM_AARCH64
		if g.musl {
			break
		}
		b = o.Bytes()
	case p < 18:
		b = []byte("no ELF file, but more than sixty-four bytes of text, which the loader reads as a header\n")
	case p == 18:
		b = b[:20]
	case p == 19:
		return os.Mkdir(path, 0o755)
	case p < 24:
		return os.Symlink(filepath.Base(path), path) // leads to itself
	case p < 28:
		return os.Symlink("nothing", path)
	case p < 44:
		return os.Symlink("../"+g.dir()+"/"+g.name(), path)
	case p < 48:
		if others, _ := filepath.Glob(g.root + "/d*/lib*"); len(others) > 0 {
			if other := pick(g, others...); os.Link(other, path) == nil {
				return nil
			}
		}
	case p == 48: // glibc refuses it; musl loads it unless the addresses are taken
		o.Type, o.Base = elf.ET_EXEC, pick(g, uint64(0x10000000), 0x10000000, 0x20000000)
		b = o.Bytes()
	case p == 49: // glibc refuses it, musl does not
		o.Flags1 |= elf.DF_1_PIE
		b = o.Bytes()
	case p == 50: // the same
		o.OSABI = elf.ELFOSABI_FREEBSD
		b = o.Bytes()
	}
	return os.WriteFile(path, b, 0o755)
}

func (g *graph) make() error {
	root, err := os.MkdirTemp("", "graph-")
	if err != nil {
		return err
	}
	if g.root, err = filepath.EvalSymlinks(root); err != nil {
		return err
	}
	os.WriteFile(g.root+"/file", nil, 0o644)
	subs := []string{"", "", "", "", "", "", "lib/x86_64-linux-gnu", "lib", "haswell", "x86_64", "tls", "tls/x86_64",
		"glibc-hwcaps/x86-64-v2", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v4", "sub"}
	for i := range dirs {
		d := fmt.Sprintf("%s/d%d", g.root, i)
		if i > 0 && g.chance(15) {
			os.Symlink(fmt.Sprintf("d%d", g.Intn(i)), d)
			continue
		}
		os.MkdirAll(d+"/sub", 0o755)
		for range 2 + g.Intn(10) {
			sub := d + "/" + pick(g, subs...)
			os.MkdirAll(sub, 0o755)
			name := g.name()
			if _, err := os.Lstat(sub + "/" + name); err == nil {
				continue
			}
			if err := g.write(sub+"/"+name, name); err != nil {
				return err
			}
		}
	}
	p := g.object("", true)
	// A program without DT_NEEDED is "statically linked" to the trace, whatever is preloaded.
	if !slices.ContainsFunc(p.Strings, func(e tinyelf.Entry) bool { return e.Tag == elf.DT_NEEDED }) {
		p = p.Needs(g.name(), g.name(), g.name())
	}
	if g.chance(8) {
		p = p.With(pick[elf.DynTag](g, 0x6ffffefc, 0x6ffffefb), pick(g, g.name(), g.name()+":"+g.name(),
			"$ORIGIN/../"+g.dir()+"/"+g.name(), "::"+g.name()))
	}
	p.Interp = g.interp
	g.cwd = g.root + "/d0"
	if g.chance(40) {
		g.cwd = g.root
	}
	real := g.root + "/d0/program"
	if err := os.WriteFile(real, p.Bytes(), 0o755); err != nil {
		return err
	}
	g.program = real
	if g.chance(30) { // $ORIGIN is where the link leads
		g.program = g.root + "/link"
		os.Symlink("d0/program", g.program)
	}
	if g.chance(50) {
		list := g.list(pick(g, ":", ":;")) + pick(g, "", "", "", " ", "  ")
		if g.musl {
			list = strings.ReplaceAll(list, ";", ":")
		}
		g.env = append(g.env, "LD_LIBRARY_PATH="+list)
	}
	if g.chance(15) {
		g.env = append(g.env, "LD_PRELOAD="+pick(g, g.name(), g.root+"/"+g.dir()+"/"+g.name(), g.name()+" "+g.name()))
	}
	return nil
}

func (g *graph) compare() (string, answer, error) {
	if err := g.make(); err != nil {
		return "", answer{}, err
	}
	answers, _, _, err := explain(g.cwd, g.env, g.program)
	if err != nil {
		return "", answer{}, err
	}
	var cmd *exec.Cmd
	if g.musl {
		cmd = exec.Command(g.program)
		// As musl's ldd: the loader under that name. The program is then not the
		// kernel's, and $ORIGIN in it is that of the path as given.
		cmd.Path, cmd.Args = g.interp, []string{"ldd", g.real()}
		cmd.Env = g.env
	} else {
		cmd = exec.Command(g.program)
		cmd.Env = append([]string{"LC_ALL=C", "LD_TRACE_LOADED_OBJECTS=1"}, g.env...)
	}
	cmd.Dir = g.cwd
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return "", answer{}, err
	}
	real := parse(string(out), g.interp)
	if real.crash && !answers[0].crash {
		// A trace goes on without the libraries that are missing, up to an assertion that
		// the versions of what there is do not hold. A start ends at the first of them.
		start := exec.Command(g.program)
		start.Dir, start.Env = g.cwd, append([]string{"LC_ALL=C"}, g.env...)
		out, _ := start.CombinedOutput()
		real.crash = parse(string(out), g.interp).crash
		real.untold = !real.crash
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		// The loader runs auditing modules. One that brings a C library of another
		// version than the loader's, as --glibc lets it, does not survive that.
		real = answer{crash: true, untold: g.interp != usual && len(answers[0].audits) > 0}
	}
	d := difference(answers[0], real, g.interp)
	if d == "" || !*keep {
		os.RemoveAll(g.root)
	}
	return d, real, nil
}

func (g *graph) real() string { return g.root + "/d0/program" }
