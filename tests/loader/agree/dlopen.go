package main

import (
	"bytes"
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

// What dlopen finds depends on the object that calls it, and the loader's trace shows nothing of
// it. So these programs run: one object of each, the program, a library or a library's library,
// opens the name that is the program's argument, and has a .note.dlopen that says so to explain.
const (
	askSource = `#include <dlfcn.h>
void *ask(const char *name, int how) {
  void *h = dlopen(name, how);
  __asm__ volatile("" ::: "memory"); /* no tail call: dlopen asks who called it */
  return h;
}
`
	// It prints what is loaded afterwards and was not before, as the loader names it.
	askerSource = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
typedef void *asks(const char *name, int how);
int main(int n, char **v) {
  struct link_map *all = NULL, *m;
  asks *ask = (asks *)dlsym(RTLD_DEFAULT, "ask");
  int before = 0;
  if (n != 3 || !ask || dlinfo(dlopen(NULL, RTLD_NOW), RTLD_DI_LINKMAP, &all)) return 3;
  for (m = all; m; m = m->l_next) before++;
  puts("started");
  if (!ask(v[1], v[2][0] == 'n' ? RTLD_NOW : RTLD_LAZY)) return printf("fails %s\n", dlerror()), 0;
  for (m = all; m; m = m->l_next)
    if (before-- <= 0) printf("new %s\n", m->l_name);
  return 0;
}
`
)

// dlopens compares what explain says of N random graphs in which something is opened with what happens.
func dlopens(interp string, n int, notes bool) (int, error) {
	if b, err := os.ReadFile(interp); err != nil || notes && !bytes.Contains(b, []byte("\x00RESCACHE\x00")) {
		return 0, fmt.Errorf("%w: %s is not there, or does not read resolution notes", errSkip, interp)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		return 0, fmt.Errorf("%w: it takes cc", errSkip)
	}
	dir, err := os.MkdirTemp("", "dlopen")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"ask": askSource, "main": askerSource} {
		os.WriteFile(dir+"/"+name+".c", []byte(text), 0o644)
		if out, err := exec.Command("cc", "-O1", "-c", "-fPIC", "-o", dir+"/"+name+".o",
			dir+"/"+name+".c").CombinedOutput(); err != nil {
			return 0, fmt.Errorf("cc: %w: %s", err, out)
		}
	}
	differ := 0
	counts := map[string]int{}
	for i := range n {
		seed := *seed + int64(i)
		g := &dlopenGraph{graph: graph{Rand: rand.New(rand.NewSource(seed)), interp: interp, notes: notes, runs: true},
			objects: dir}
		kind, d, err := g.compare()
		if err != nil {
			return i, fmt.Errorf("seed %d: %w", seed, err)
		}
		counts[kind]++
		if d != "" {
			differ++
			fmt.Printf("  seed %d: %s opens %q in %s, env %q, root %s\n    %s\n", seed, g.asker, g.asked, g.cwd,
				g.env, g.root, d)
		}
		if d == "" || !*keep {
			os.RemoveAll(g.root)
		}
	}
	fmt.Printf("%d graphs with dlopen: %v\n", n, counts)
	if differ > 0 {
		return n, fmt.Errorf("%d of %d graphs differ", differ, n)
	}
	return n, nil
}

// dlopenGraph is a graph of which the program was made by a compiler, and with it who opens something.
type dlopenGraph struct {
	graph
	objects string // directory of the compiled parts
	asker   string
	asked   string
}

// assembly is the text of a file that has notes, for the assembler.
func (g *dlopenGraph) assembly(asks bool) string {
	var b strings.Builder
	note := func(section, owner, desc string, kind uint32) {
		fmt.Fprintf(&b, ".section %s,\"a\",@note\n.balign 4\n.long %d, %d, %#x\n.asciz %q\n.balign 4\n", section,
			len(owner)+1, len(desc), kind, owner)
		for _, c := range []byte(desc) {
			fmt.Fprintf(&b, ".byte %d\n", c)
		}
		b.WriteString(".balign 4\n")
	}
	o := tinyelf.Object{}.Needs(g.asked, g.name())
	if g.notes {
		g.note(&o)
	}
	if o.Resolution != "" {
		note(".note.nixos.ldcache", "NixOS", o.Resolution, 0x63a86cb6)
	}
	if asks {
		name, _ := json.Marshal(g.asked)
		note(".note.dlopen", "FDO", fmt.Sprintf(`[{"soname":[%s]}]`, name)+"\x00", 0x407c0c0a)
	}
	b.WriteString(".section .note.GNU-stack,\"\",@progbits\n")
	return b.String()
}

// compile links an object of parts, with a random run path that leads to the libraries given.
func (g *dlopenGraph) compile(to string, asks bool, parts []string, libraries ...string) error {
	if err := os.WriteFile(g.root+"/notes.s", []byte(g.assembly(asks)), 0o644); err != nil {
		return err
	}
	var list []string
	for range 1 + g.Intn(4) {
		list = append(list, g.entry())
	}
	for _, l := range libraries {
		list = slices.Insert(list, g.Intn(len(list)+1), filepath.Dir(l))
	}
	args := []string{"-o", to, g.root + "/notes.s", "-Wl,--no-as-needed,--allow-shlib-undefined",
		"-Wl,-rpath-link,/nonexistent"}
	if len(list) > 0 {
		// A comma would part the linker's arguments; no entry has one.
		args = append(args, pick(&g.graph, "-Wl,--enable-new-dtags", "-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"),
			"-Wl,-rpath,"+strings.Join(list, ":"))
	}
	args = append(append(args, parts...), libraries...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("cc %q: %w: %s", args, err, out)
	}
	return nil
}

func (g *dlopenGraph) makeAll() error {
	if err := g.make(); err != nil {
		return err
	}
	// A preloaded library of the graph may be any, and keep the program from starting.
	g.env = slices.DeleteFunc(g.env, func(e string) bool { return strings.HasPrefix(e, "LD_PRELOAD=") })
	g.asked = g.needed()
	if there, _ := filepath.Glob(g.root + "/d*/lib*"); len(there) > 0 && (g.asked == "" || g.chance(60)) {
		g.asked = filepath.Base(pick(&g.graph, there...))
	}
	object := func(name string) string { return g.objects + "/" + name + ".o" }
	library := func(name string, asks bool, parts []string, needs ...string) (string, error) {
		to := g.root + "/" + g.dir() + "/" + name
		return to, g.compile(to, asks, append([]string{"-shared", "-nostdlib", "-Wl,-soname," + name}, parts...), needs...)
	}
	program := []string{object("main"), "-Wl,--dynamic-linker=" + g.interp}
	switch g.Intn(4) {
	case 0:
		g.asker = "the program"
		return g.compile(g.real(), true, append(program, object("ask"), "-rdynamic"))
	case 1:
		g.asker = "a library's library"
		inner, err := library("libask.so.1", true, []string{object("ask")})
		if err != nil {
			return err
		}
		outer, err := library("libouter.so.1", false, nil, inner)
		if err != nil {
			return err
		}
		return g.compile(g.real(), false, program, outer)
	}
	g.asker = "a library"
	lib, err := library("libask.so.1", true, []string{object("ask")})
	if err != nil {
		return err
	}
	return g.compile(g.real(), false, program, lib)
}

// compare returns what happened, and how explain differs from it.
func (g *dlopenGraph) compare() (kind, difference string, err error) {
	if err := g.makeAll(); err != nil {
		return "", "", err
	}
	ours, err := explained(g.cwd, g.env, g.program)
	if err != nil {
		return "", "", err
	}
	how := pick(&g.graph, "now", "lazily")
	cmd := exec.Command(g.program, g.asked, how)
	cmd.Dir, cmd.Env = g.cwd, append([]string{"LC_ALL=C"}, g.env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return "", "", err
	}
	if ours.libc != "" && filepath.Dir(resolved(ours.libc)) != filepath.Dir(resolved(g.interp)) {
		return "another C library", "", nil // than the loader's: anything may happen
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	text := string(out)
	rest, started := strings.CutPrefix(text, "started\n")
	switch {
	case status.Signaled() || strings.Contains(text, "Inconsistency detected"):
		if !ours.crash {
			difference = fmt.Sprintf("it ends by %v, %q; explain: %+v", status.Signal(), text, ours)
		}
		return "crash", difference, nil
	case !started:
		if strings.Contains(text, "symbol lookup error") || strings.Contains(text, "undefined symbol") {
			return "not comparable", "", nil // another libc than the program was made for
		}
		if !ours.stops {
			difference = fmt.Sprintf("it does not start, %q; explain: %+v", text, ours)
		}
		return "does not start", difference, nil
	case ours.stops:
		return "starts", "explain says that it does not start", nil
	}
	if why, fails := strings.CutPrefix(rest, "fails "); fails {
		culprit, _, _ := strings.Cut(strings.TrimSpace(why), ": ")
		if ours.fails == "" || !strings.Contains(ours.fails, culprit) {
			difference = fmt.Sprintf("dlopen says %q, explain %q", why, ours.fails)
		}
		return "dlopen fails", difference, nil
	}
	var opened []string
	for line := range strings.Lines(rest) {
		opened = append(opened, strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "new "))
	}
	slices.Sort(opened)
	if ours.fails != "" || !slices.Equal(opened, ours.opens) {
		difference = fmt.Sprintf("dlopen has loaded %q, explain says %q, %q", opened, ours.opens, ours.fails)
	}
	kind = "opened"
	if ours.byNote {
		kind = "opened by a note"
	} else if len(opened) == 0 {
		kind = "there already"
	}
	return kind, difference, nil
}

// dlopened is what explain says of a program that opens one name.
type dlopened struct {
	stops, crash bool     // at start
	opens        []string // what is loaded then, as the loader names it
	fails        string   // why the opening fails
	byNote       bool
	libc         string // that is loaded at start
}

// resolved returns where links lead.
func resolved(path string) string {
	real, _ := filepath.EvalSymlinks(path)
	return real
}

func explained(dir string, env []string, program string) (d dlopened, err error) {
	args := []string{"explain", "--json", "--quiet"}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	cmd := exec.Command(runpath, append(args, "--", program)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return d, err
	}
	var doc struct {
		Files []struct {
			Error     string
			Lacks     []any
			Libraries []struct {
				Soname, Cause, Error, Rule string
				Path                       *string
				Certain                    bool
				Lacks                      []any
			}
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return d, err
	}
	f := doc.Files[0]
	d.stops, d.crash = f.Error != "" || len(f.Lacks) > 0, strings.HasSuffix(f.Error, "the loader crashes")
	for _, l := range f.Libraries {
		optional := l.Cause == "DT_AUXILIARY"
		d.crash = d.crash || strings.HasSuffix(l.Error, "the loader crashes")
		if l.Certain && l.Soname == "libc.so.6" && l.Path != nil {
			d.libc = *l.Path
			if !filepath.IsAbs(d.libc) {
				d.libc = filepath.Join(dir, d.libc)
			}
		}
		switch {
		case l.Certain:
			d.stops = d.stops || !optional && (l.Path == nil || l.Error != "" || len(l.Lacks) > 0)
		case l.Cause == ".note.dlopen" && (l.Path == nil || l.Error != ""):
			if d.fails = l.Error; d.fails == "" {
				d.fails = l.Soname + " is not found"
			}
		case l.Path != nil && !(optional && l.Error != ""):
			d.opens = append(d.opens, *l.Path)
		}
		d.byNote = d.byNote || !l.Certain && l.Rule == "resolution note"
	}
	slices.Sort(d.opens)
	return d, nil
}
