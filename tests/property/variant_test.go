package property

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A variant is one way of linking the program, its library and its plugin.
type variant struct {
	compiler, linker string // gcc or clang; bfd, gold, lld or mold
	pie              bool
	versions         bool
	features         map[string][]string // of app, libvalue.so, plugin.so
	flags            []string            // for the linker, of all three
	script           string              // how bfd's own script is changed, or ""
	sections         bool                // whether section headers are left

	once   sync.Once
	dir    string // holds the three, after build
	stdout string // what the program prints
	err    error  // why it cannot be built or does not run
}

// images are the files of a variant that a case may be about.
var images = []string{"app", "libvalue.so", "plugin.so"}

// tail is what a run path and a symbol of the library both end in; see testdata/library.c.
const tail = "/opt/property/run_tail"

func (v *variant) String() string {
	pie := "no-PIE"
	if v.pie {
		pie = "PIE"
	}
	s := fmt.Sprintf("%s %s %s %s", v.compiler, v.linker, pie, strings.Join(v.flags, " "))
	if v.script != "" {
		s += ", script: " + v.script
	}
	if v.versions {
		s += ", versions"
	}
	if !v.sections {
		s += ", no section headers"
	}
	for _, image := range images {
		if f := v.features[image]; len(f) > 0 {
			s += fmt.Sprintf(", %s: %s", image, strings.Join(f, "+"))
		}
	}
	return s
}

// newVariant makes up the variant of number n of a seed.
func newVariant(seed, n uint64) *variant {
	r := rand.New(rand.NewPCG(seed, n<<1|1))
	v := &variant{
		compiler: pick(r, "gcc", "clang"),
		linker:   pick(r, "bfd", "gold", "lld", "mold"),
		pie:      r.IntN(3) > 0,
		versions: r.IntN(2) == 0,
		sections: r.IntN(8) > 0,
		features: map[string][]string{},
	}
	flag := func(options ...string) {
		if f := pick(r, options...); f != "" {
			v.flags = append(v.flags, strings.Fields(f)...)
		}
	}
	flag("--hash-style=gnu", "--hash-style=sysv", "--hash-style=both")
	flag("", "-z max-page-size=0x1000", "-z max-page-size=0x10000", "-z max-page-size=0x200000")
	flag("", "-z relro", "-z relro -z now", "-z norelro")
	flag("", "--enable-new-dtags", "--disable-new-dtags")
	flag("", "--build-id=sha1", "--build-id=none", "--build-id=md5")
	flag("", "", "-rpath "+tail, "-rpath $ORIGIN", "-rpath /nix/store/"+strings.Repeat("0", 300)+"/lib")
	flag("", "", "", "-O2", "--gc-sections", "--strip-debug", "--export-dynamic")
	// DT_RELR by bfd alone: glibc wants a version beside it that lld 14 and mold 1.10 do not write.
	switch v.linker {
	case "bfd":
		flag("", "-z separate-code", "-z noseparate-code")
		flag("", "", "", "-z pack-relative-relocs", "--emit-relocs")
		flag("", "", "", "--compress-debug-sections=zlib")
		if !v.pie {
			flag("", "", "-Ttext-segment=0x10000", "-Ttext-segment=0x200000000")
		}
		// headless has the headers in no segment at all, which only libraries can do; low and shuffled are for all.
		v.script = pick(r, "", "", "", "shuffled", "headless")
		if v.script == "shuffled" {
			v.sections = true // else nothing tells how far .gnu.version_r, now the first, extends, and the edit is refused
		}
	case "gold":
		flag("", "", "", "--emit-relocs", "--compress-debug-sections=zlib")
		if !v.pie {
			// It puts code right after the program headers, which leaves no place for one more. What is not PIE gives
			// up its PT_PHDR; PIE programs are refused.
			flag("", "", "--rosegment")
		}
	case "lld":
		flag("", "-z separate-code", "-z noseparate-code", "-z separate-loadable-segments")
		flag("", "", "--no-rosegment", "--emit-relocs")
		if !v.pie {
			flag("", "", "--image-base=0x200000")
		}
	case "mold":
		flag("", "-z separate-code", "-z noseparate-code", "-z separate-loadable-segments")
		flag("", "", "--emit-relocs")
		if !v.pie {
			flag("", "", "--image-base=0x200000")
		}
	}
	relr := slices.Contains(v.flags, "pack-relative-relocs")
	for _, image := range images {
		for _, f := range []string{"align", "bss", "ctor", "cxx", "ifunc", "odd", "relr", "tls"} {
			if r.IntN(4) == 0 || f == "relr" && relr {
				v.features[image] = append(v.features[image], f)
			}
		}
	}
	return v
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// A workshop holds what is shared among variants: object files and linker scripts, each made once.
type workshop struct {
	dir  string
	mu   sync.Mutex
	made map[string]*made
}

type made struct {
	once sync.Once
	err  error
}

// make runs build for a file of the workshop, once, and returns its path.
func (w *workshop) make(name string, build func(path string) error) (string, error) {
	w.mu.Lock()
	m := w.made[name]
	if m == nil {
		m = &made{}
		w.made[name] = m
	}
	w.mu.Unlock()
	path := filepath.Join(w.dir, name)
	m.once.Do(func() { m.err = build(path) })
	return path, m.err
}

// object compiles a source of testdata.
func (w *workshop) object(compiler, source string, flags ...string) (string, error) {
	name := compiler + strings.Join(flags, "") + "-" + source + ".o"
	return w.make(name, func(path string) error {
		if strings.HasSuffix(source, ".cc") {
			compiler = map[string]string{"gcc": "g++", "clang": "clang++"}[compiler]
		}
		_, err := output(exec.Command(compiler, append(flags, "-g", "-O1", "-c", "-o", path, filepath.Join("testdata", source))...))
		return err
	})
}

// build links the variant and runs it; v.err says what went wrong.
func (v *variant) build(w *workshop, number uint64) {
	v.once.Do(func() {
		v.dir = filepath.Join(w.dir, fmt.Sprint("variant-", number))
		if v.err = os.MkdirAll(v.dir, 0o777); v.err != nil {
			return
		}
		for _, image := range []string{"libvalue.so", "plugin.so", "app"} {
			if v.err = v.link(w, image); v.err != nil {
				return
			}
		}
		for _, image := range images { // linkers want section headers, so only now
			if v.sections {
				break
			}
			if _, v.err = output(exec.Command("llvm-strip", "--strip-sections", filepath.Join(v.dir, image))); v.err != nil {
				return
			}
		}
		if v.err = v.checkLayout(); v.err != nil {
			return
		}
		v.stdout, v.err = run(v.dir)
	})
}

func (v *variant) link(w *workshop, image string) error {
	mode := "-fPIC"
	if image == "app" {
		mode = "-fPIE"
		if !v.pie {
			mode = "-fno-pie"
		}
	}
	driver := v.compiler
	sources := []string{"report.c"}
	var link []string
	defines := map[string][]string{} // by source
	switch image {
	case "app":
		sources = append(sources, "main.c")
		link = append(link, map[bool]string{true: "-pie", false: "-no-pie"}[v.pie])
	case "libvalue.so":
		sources = append(sources, "library.c")
		link = append(link, "-shared", "-Wl,-soname,libvalue.so")
		if v.versions {
			defines["library.c"] = []string{"-DVERSIONS"}
			link = append(link, "-Wl,--version-script=testdata/library.map")
		}
	case "plugin.so":
		sources = append(sources, "plugin.c")
		link = append(link, "-shared")
	}
	for _, f := range v.features[image] {
		defines["report.c"] = append(defines["report.c"], "-DWITH_"+f)
		if f == "cxx" {
			driver = map[string]string{"gcc": "g++", "clang": "clang++"}[v.compiler]
			sources = append(sources, "cxx.cc")
		} else {
			sources = append(sources, f+".c")
		}
	}
	args := append(link, "-fuse-ld="+v.linker, "-o", filepath.Join(v.dir, image))
	for _, source := range sources {
		object, err := w.object(v.compiler, source, append([]string{mode}, defines[source]...)...)
		if err != nil {
			return err
		}
		args = append(args, object)
	}
	if image != "libvalue.so" {
		args = append(args, filepath.Join(v.dir, "libvalue.so"))
	}
	for _, f := range v.flags {
		if image != "app" && (strings.HasPrefix(f, "-Ttext-segment") || strings.HasPrefix(f, "--image-base")) {
			continue
		}
		args = append(args, "-Xlinker", f)
	}
	if v.script != "" {
		script, err := v.linkerScript(w, image)
		if err != nil {
			return err
		}
		if script != "" {
			args = append(args, "-Wl,-T,"+script)
		}
	}
	if _, err := output(exec.Command(driver, args...)); err != nil {
		return err
	}
	return nil
}

// linkerScript returns bfd's own script for this kind of output, changed as v.script says; "" where it cannot be.
func (v *variant) linkerScript(w *workshop, image string) (string, error) {
	if v.script == "headless" && image == "app" {
		return "", nil // the loader would find no program headers in memory
	}
	mode := "-shared"
	if image == "app" {
		mode = map[bool]string{true: "-pie", false: "-no-pie"}[v.pie]
	}
	separate := "separate-code"
	if slices.Contains(v.flags, "noseparate-code") {
		separate = "noseparate-code"
	}
	return w.make("script"+mode+"-"+separate+"-"+v.script, func(path string) error {
		out, err := output(exec.Command("ld.bfd", "--verbose", mode, "-z", separate))
		if err != nil {
			return err
		}
		parts := strings.Split(out, "==================================================\n")
		if len(parts) < 3 {
			return errors.New("ld --verbose prints no script")
		}
		script := parts[1]
		switch v.script {
		case "headless":
			script = strings.Replace(script, "+ SIZEOF_HEADERS;", "+ CONSTANT (MAXPAGESIZE);", 1)
		case "shuffled":
			lines := regexp.MustCompile(`(?m)^  \.(interp|note\.gnu\.build-id|hash|gnu\.hash|dynsym|dynstr|gnu\.version\w*) .*\n`)
			found := lines.FindAllString(script, -1)
			shuffled := slices.Clone(found)
			slices.Reverse(shuffled)
			script = lines.ReplaceAllStringFunc(script, func(string) string {
				line := shuffled[0]
				shuffled = shuffled[1:]
				return line
			})
		}
		if script == parts[1] {
			return errors.New("the linker script is not as expected")
		}
		return os.WriteFile(path, []byte(script), 0o666)
	})
}

// checkLayout makes sure that the layouts with a name are what the name says.
func (v *variant) checkLayout() error {
	if v.script != "headless" {
		return nil
	}
	f, err := elf.Open(filepath.Join(v.dir, "plugin.so"))
	if err != nil {
		return err
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_LOAD && p.Off == 0 }) {
		return errors.New("not headless: a segment holds the ELF header")
	}
	return nil
}

// limit is how long a command may take: mold 1.10 waits for itself now and then.
const limit = time.Minute

// output runs a command to its end. An error holds what it printed to stderr.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it starts ends with it
	if err := start(cmd); err != nil {
		return "", err
	}
	stop := time.AfterFunc(limit, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop.Stop()
	if err := cmd.Wait(); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return stdout.String(), fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, text)
	}
	return stdout.String(), nil
}
