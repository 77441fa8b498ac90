// Command agree compares what "runpath explain --json" says with what the real
// dynamic loader does: for the programs and libraries of this machine, and for
// random graphs of small libraries; where it searches with the loader's own account;
// and what it says of symbols with ldd.
//
//	agree [--all] [--graphs N] [--dlopen N] [--lists N] [--ldd N] [--seed S]
//	      [--glibc LOADER] [--musl LOADER] RUNPATH [DIR…]
//
// It prints each difference, and how many files, libraries and graphs agreed.
package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// usual is the loader of x86-64 programs on a Linux distribution.
const usual = "/lib64/ld-linux-x86-64.so.2"

var (
	glibc     = flag.String("glibc", usual, "glibc's loader for the graphs; one of another version may be anywhere")
	all       = flag.Bool("all", false, "compare every file, not a sample")
	sample    = flag.Int("sample", 400, "compare about so many files")
	graphs    = flag.Int("graphs", 60, "random graphs for each loader")
	seed      = flag.Int64("seed", 1, "of the first graph")
	musl      = flag.String("musl", "/lib/ld-musl-x86_64.so.1", "musl's loader; empty: leave it out")
	lddOf     = flag.Int("ldd", 0, "compare symbols of so many programs, and of as many random ones, with ldd")
	lists     = flag.Int("lists", 60, "compare so many random search lists with the loader's own account, dlinfo")
	opening   = flag.Int("dlopen", 40, "random graphs in which something is opened by dlopen")
	beginning = flag.Int("starts", 40, "random starts with wrappers, preloaded libraries and calls of dlopen")
	keep      = flag.Bool("keep", false, "keep the folders of graphs that differ")
	runpath   string
)

func main() {
	flag.Parse()
	if flag.NArg() < 1 {
		fmt.Fprintln(os.Stderr, "agree: name the runpath binary")
		os.Exit(2)
	}
	var err error
	if runpath, err = filepath.Abs(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	passed, failed, skipped := 0, 0, 0
	run := func(what string, f func() (int, error)) {
		start := time.Now()
		n, err := f()
		switch {
		case errors.Is(err, errSkip):
			fmt.Printf("skipped %s: %v\n", what, err)
			skipped++
		case err != nil:
			fmt.Printf("FAILED: %s: %v\n", what, err)
			failed++
		case n == 0:
			fmt.Printf("FAILED: %s: nothing was compared\n", what)
			failed++
		default:
			fmt.Printf("ok: %s: %d, no difference (%.1f s)\n", what, n, time.Since(start).Seconds())
			passed++
		}
	}
	if flag.NArg() > 1 {
		run("programs and libraries of this machine", func() (int, error) { return system(flag.Args()[1:]) })
	}
	if *graphs > 0 {
		run("random graphs under glibc", func() (int, error) { return random(*glibc, *graphs, false) })
		run("random graphs with resolution notes under glibc", func() (int, error) { return random(*glibc, *graphs, true) })
		if *musl != "" {
			run("random graphs under musl", func() (int, error) { return random(*musl, *graphs, false) })
		}
	}
	if *opening > 0 {
		run("random graphs with dlopen under glibc", func() (int, error) { return dlopens(*glibc, *opening, false) })
		run("random graphs with dlopen and resolution notes under glibc",
			func() (int, error) { return dlopens(*glibc, *opening, true) })
	}
	if *beginning > 0 {
		ofLoader := ""
		if *glibc != usual {
			ofLoader = filepath.Dir(*glibc)
		}
		run("random starts under glibc", func() (int, error) {
			return starts([]string{"cc"}, nil, *glibc, ofLoader, false, 0, 0, *beginning)
		})
		if *glibc == usual {
			for _, m := range []struct {
				name, triplet, loader string
				run                   []string
				machine               elf.Machine
				class                 elf.Class
			}{
				{"i386", "i686-linux-gnu", "ld-linux.so.2", []string{"qemu-i386"}, elf.EM_386, elf.ELFCLASS32},
				{"arm64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1", []string{"qemu-aarch64"}, elf.EM_AARCH64, elf.ELFCLASS64},
				{"s390x", "s390x-linux-gnu", "ld64.so.1", []string{"qemu-s390x"}, elf.EM_S390, elf.ELFCLASS64},
			} {
				dir := "/usr/" + m.triplet + "/lib"
				run("random starts of "+m.name, func() (int, error) {
					return starts([]string{m.triplet + "-gcc"}, m.run, dir+"/"+m.loader, dir, false, m.machine, m.class, *beginning/2)
				})
			}
		}
		if *musl != "" {
			run("random starts under musl", func() (int, error) {
				return starts([]string{"musl-gcc"}, nil, *musl, "", true, 0, 0, *beginning)
			})
		}
	}
	if *lists > 0 {
		run("search lists, as dlinfo has them", func() (int, error) { return searchLists(*lists) })
	}
	if *lddOf > 0 {
		run("symbols of programs of this machine, as ldd has them", func() (int, error) { return systemSymbols(*lddOf) })
		run("symbols of random programs, as ldd has them", func() (int, error) { return randomSymbols(*lddOf) })
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		os.Exit(1)
	}
}

var errSkip = errors.New("not possible here")

// answer is what one loader says: names and paths ("not found"), in order, and
// the file at which it stopped.
type answer struct {
	libs      map[[2]string]bool // names with their paths; one name may be found for one library and not for another
	fatal     string             // the path, or "" where the loader went through
	crash     bool               // the loader itself crashes
	fatalName string             // the name that was asked for: some of glibc's messages have only that
	lacks     map[[3]string]bool // files, symbol versions that they lack, and the files that need them
	untold    bool               // the loader failed at an assertion, of auditing modules or of a trace alone
	// what we say of an absent DT_AUXILIARY, which the loader lists in some traces, and in some not
	optional map[string]bool
	relr     bool            // it stops for lack of the version that guards DT_RELR
	audits   map[string]bool // auditing modules, and whether each can be loaded
}

// document is the part of explain's JSON that is compared.
type document struct {
	Files []struct {
		Path        string
		Reason      string
		Interpreter string
		Loader      string
		Error       string
		Lacks       []struct {
			Version  string
			NeededBy string `json:"needed_by"`
		}
		Libraries []struct {
			Soname    string
			Path      *string
			Cause     string
			Certain   bool
			Namespace int
			Error     string
			Lacks     []struct {
				Version  string
				NeededBy string `json:"needed_by"`
			}
		}
	}
}

// explain asks our side about files.
func explain(dir string, env []string, files ...string) ([]answer, []string, *document, error) {
	args := []string{"explain", "--json", "--no-dlopen", "--quiet"}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	cmd := exec.Command(runpath, append(append(args, "--"), files...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, nil, nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	var doc document
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %.200s %s", err, out, stderr.String())
	}
	var answers []answer
	var interps []string
	for _, f := range doc.Files {
		a := answer{libs: map[[2]string]bool{}, lacks: map[[3]string]bool{}, audits: map[string]bool{},
			optional: map[string]bool{}}
		module := ""
		for _, l := range f.Libraries {
			if l.Namespace > 0 { // the module itself comes first
				if l.Cause == "DT_AUDIT" || l.Cause == "DT_DEPAUDIT" {
					module = l.Soname
					a.audits[module] = true
				}
				if l.Path == nil && l.Cause != "DT_AUXILIARY" || l.Error != "" && l.Cause != "DT_AUXILIARY" || len(l.Lacks) > 0 {
					a.audits[module] = false
				}
				continue
			}
			if !l.Certain {
				continue
			}
			for _, lack := range l.Lacks {
				a.lacks[[3]string{*l.Path, lack.Version, lack.NeededBy}] = true
			}
			a.crash = a.crash || strings.HasSuffix(l.Error, "the loader crashes")
			switch {
			case (l.Path == nil || l.Error != "") && (l.Cause == "LD_PRELOAD" || l.Cause == "ld.so.preload"):
				// The loader warns, goes on, and does not list it.
			case l.Error != "" && l.Cause == "DT_AUXILIARY":
				// It goes on without a word.
			case l.Error != "" && f.Loader == "musl":
				a.libs[[2]string{l.Soname, "not found"}] = true // its message does not tell the two apart
			case l.Error != "":
				a.fatal, a.fatalName = *l.Path, l.Soname
			case l.Path == nil:
				a.libs[[2]string{l.Soname, "not found"}] = true
				a.optional[l.Soname] = l.Cause == "DT_AUXILIARY"
			default:
				a.libs[[2]string{l.Soname, *l.Path}] = true
			}
		}
		for _, lack := range f.Lacks {
			a.lacks[[3]string{f.Path, lack.Version, lack.NeededBy}] = true
		}
		if a.crash || strings.HasSuffix(f.Error, "the loader crashes") {
			a = answer{crash: true}
		} else if a.fatal == "" && strings.HasPrefix(f.Error, f.Path+": DT_RELR") {
			a.fatal = f.Path
		}
		interp := f.Interpreter
		if f.Reason != "" || f.Error != "" && len(f.Libraries) == 0 {
			interp = ""
		}
		answers, interps = append(answers, a), append(interps, interp)
	}
	return answers, interps, &doc, nil
}

var auditText = regexp.MustCompile("^ERROR: ld.so: object '(.*)' cannot be loaded as audit interface: (.*); ignored.$")

var lackText = regexp.MustCompile("^.*?: (.*): version `(.*)' not found \\(required by (.*)\\)$")

// parse reads what LD_TRACE_LOADED_OBJECTS, or musl's ldd, prints.
func parse(out, interp string) answer {
	a := answer{libs: map[[2]string]bool{}, lacks: map[[3]string]bool{}, audits: map[string]bool{}}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		rest, indented := strings.CutPrefix(line, "\t")
		if !indented {
			// glibc: "PROGRAM: error while loading shared libraries: PATH: what"
			if _, what, ok := strings.Cut(line, "error while loading shared libraries: "); ok {
				a.fatal, _, _ = strings.Cut(what, ": ")
				a.relr = strings.Contains(what, "DT_RELR without")
			}
			// glibc: the modules of these graphs have no la_version, which is looked for once they are loaded.
			if m := auditText.FindStringSubmatch(line); m != nil {
				a.audits[m[1]] = strings.Contains(m[2], "undefined symbol: la_version")
			}
			// glibc: "PROGRAM: FILE: version `V' not found (required by FILE)"
			if m := lackText.FindStringSubmatch(line); m != nil {
				a.lacks[[3]string(m[1:])] = true
			}
			if strings.HasPrefix(line, "Inconsistency detected by ld.so: dl-close.c") {
				return answer{untold: true}
			}
			if strings.HasPrefix(line, "Inconsistency detected by ld.so: dl-version.c") {
				return answer{crash: true}
			}
			// musl: "Error loading shared library NAME: why (needed by PATH)"
			if what, ok := strings.CutPrefix(line, "Error loading shared library "); ok {
				name, _, _ := strings.Cut(what, ": ")
				a.libs[[2]string{name, "not found"}] = true
			}
			continue
		}
		if rest == "statically linked" {
			continue
		}
		if i := strings.LastIndex(rest, " (0"); i >= 0 { // "(0)" where a file is at its own addresses
			rest = rest[:i]
		}
		name, path, arrow := strings.Cut(rest, " => ")
		if !arrow {
			path = name
		}
		if strings.HasPrefix(name, "linux-vdso") || strings.HasPrefix(name, "linux-gate") {
			continue
		}
		a.libs[[2]string{name, path}] = true
	}
	return a
}

// difference says how two answers differ, "" where they do not. The loader's own
// line is compared only where we have it: glibc prints it always.
func difference(ours, theirs answer, interp string) string {
	if ours.crash && theirs.crash {
		return ""
	}
	if theirs.untold {
		return ""
	}
	if theirs.relr {
		// In a trace, a library that is missing hides the version that this asks for.
		for lib := range ours.libs {
			if lib[1] == "not found" { // the graphs ask it of other libraries, too
				return ""
			}
		}
	}
	var out []string
	if ours.crash != theirs.crash {
		out = append(out, fmt.Sprintf("the loader crashes: %v, we say %v", theirs.crash, ours.crash))
	}
	if ours.fatal != theirs.fatal && (ours.fatal == "" || ours.fatalName != theirs.fatal) {
		out = append(out, fmt.Sprintf("the loader stops at %q, we at %q", theirs.fatal, ours.fatal))
	}
	for name, ok := range ours.audits {
		if was, said := theirs.audits[name]; !said || was != ok {
			out = append(out, fmt.Sprintf("auditing module %s: loaded: %v, we say %v", name, was, ok))
		}
	}
	for name := range theirs.audits {
		if _, ok := ours.audits[name]; !ok {
			out = append(out, "only the loader: auditing module "+name)
		}
	}
	if ours.fatal == "" {
		for lib := range theirs.libs {
			if !ours.libs[lib] && lib[1] != interp {
				out = append(out, fmt.Sprintf("only the loader: %s => %s", lib[0], lib[1]))
			}
		}
		for lib := range ours.libs {
			if !theirs.libs[lib] && lib[1] != interp && !ours.optional[lib[0]] {
				out = append(out, fmt.Sprintf("only we: %s => %s", lib[0], lib[1]))
			}
		}
		for lack := range theirs.lacks {
			if !ours.lacks[lack] {
				out = append(out, fmt.Sprintf("only the loader: %s lacks %s for %s", lack[0], lack[1], lack[2]))
			}
		}
		for lack := range ours.lacks {
			if !theirs.lacks[lack] {
				out = append(out, fmt.Sprintf("only we: %s lacks %s for %s", lack[0], lack[1], lack[2]))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n    ")
}

// system compares the ELF files below directories.
func system(dirs []string) (int, error) {
	if _, err := os.Stat(usual); err != nil {
		return 0, fmt.Errorf("%w: there is no %s", errSkip, usual)
	}
	var files []string
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && dynamicHere(p) {
				files = append(files, p)
			}
			return nil
		})
	}
	if !*all && len(files) > *sample {
		some := make([]string, 0, *sample)
		for i := range *sample {
			some = append(some, files[i*len(files)/(*sample)])
		}
		files = some
	}
	n, libs, differ := 0, 0, 0
	var ours, theirs time.Duration
	for chunk := range slices.Chunk(files, 500) {
		start := time.Now()
		answers, interps, _, err := explain("/", nil, chunk...)
		if err != nil {
			return 0, err
		}
		ours += time.Since(start)
		if len(answers) != len(chunk) {
			return 0, fmt.Errorf("%d answers for %d files", len(answers), len(chunk))
		}
		for i, file := range chunk {
			if interps[i] == "" {
				continue // static, a detached debug file, the loader itself
			}
			if _, err := os.Stat(interps[i]); err != nil {
				continue
			}
			start := time.Now()
			// As ldd does it: the loader as a command, which runs nothing of the file.
			cmd := exec.Command(interps[i], file)
			cmd.Dir, cmd.Env = "/", []string{"LC_ALL=C", "LD_TRACE_LOADED_OBJECTS=1"}
			if strings.Contains(interps[i], "ld-musl") {
				cmd = exec.Command(interps[i], "--list", file)
				cmd.Dir, cmd.Env = "/", []string{}
			}
			out, _ := cmd.CombinedOutput()
			theirs += time.Since(start)
			real := parse(string(out), interps[i])
			n++
			libs += len(real.libs)
			if d := difference(answers[i], real, interps[i]); d != "" {
				differ++
				fmt.Printf("  %s\n    %s\n", file, d)
			}
		}
	}
	fmt.Printf("%d of %d files, %d libraries; explain took %.2f s, the loader itself %.2f s: %.1f times as long\n",
		n, len(files), libs, ours.Seconds(), theirs.Seconds(), theirs.Seconds()/ours.Seconds())
	if differ > 0 {
		return n, fmt.Errorf("%d of %d files differ", differ, n)
	}
	return n, nil
}

// dynamicHere tells ELF files for x86-64 that a loader could load.
func dynamicHere(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var h [20]byte
	if n, _ := f.Read(h[:]); n < len(h) {
		return false
	}
	return string(h[:4]) == elf.ELFMAG && h[elf.EI_CLASS] == byte(elf.ELFCLASS64) &&
		h[elf.EI_DATA] == byte(elf.ELFDATA2LSB) &&
		(h[16] == byte(elf.ET_DYN) || h[16] == byte(elf.ET_EXEC)) && h[18] == byte(elf.EM_X86_64) && h[19] == 0
}
