package nixconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/sysroot"
)

// Features are the system features by which a derivation asks for a GPU: "cuda", as nixpkgs' checks of CUDA packages
// do, and those of nixpkgs' programs.nix-required-mounts.
var Features = []string{"cuda", "gpu", "nvidia-gpu", "opengl"}

// Hook is the name of the script that is Nix's pre-build-hook.
const Hook = "hostDriver-sandbox"

// Config is what nix.conf says of builds and GPUs.
type Config struct {
	Hook     string   // pre-build-hook
	Sandbox  string   // "" where only the default holds
	Features []string // system-features; nil where only the defaults hold
	Paths    []string // sandbox-paths
}

// maxSize is how many bytes of one file are read.
const maxSize = 1 << 20

// Read reads the nix.conf of a system and what it includes. Where there is none, nothing is set.
func Read(root sysroot.Root, file string) (*Config, error) {
	r := reader{root: root}
	return r.all(file)
}

// A reader reads a nix.conf and the files that it includes, each once.
type reader struct {
	root   sysroot.Root
	texts  map[string]string // of files that are not read
	custom bool              // the file that a distribution leaves to the user is included
	seen   map[string]bool
	c      Config
}

func (r *reader) all(file string) (*Config, error) {
	r.seen, r.c = map[string]bool{}, Config{}
	if err := r.read(file, path.Join(path.Dir(file), customName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &r.c, nil
}

func (r *reader) read(file, custom string) error {
	text, given := r.texts[file]
	at := file
	if !given {
		var err error
		if at, err = r.root.Resolve(file); err != nil {
			return err
		}
	}
	if r.seen[at] {
		return nil
	}
	r.seen[at] = true
	if !given {
		b, err := r.root.ReadFile(at, maxSize)
		if err != nil {
			return err
		}
		text = string(b)
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 2 && (words[0] == "include" || words[0] == "!include") {
			name := words[1]
			if !path.IsAbs(name) {
				name = path.Join(path.Dir(file), name)
			}
			r.custom = r.custom || path.Clean(name) == custom
			_ = r.read(name, custom) // Nix itself says what is wrong with it
			continue
		}
		if len(words) < 2 || words[1] != "=" {
			continue
		}
		name, extra := strings.CutPrefix(words[0], "extra-")
		values := words[2:]
		add := func(list *[]string) {
			if !extra {
				*list = []string{}
			}
			*list = append(*list, values...)
		}
		switch name {
		case "pre-build-hook":
			r.c.Hook = strings.Join(values, " ")
		case "sandbox", "build-use-sandbox", "build-use-chroot":
			r.c.Sandbox = strings.Join(values, " ")
		case "system-features":
			add(&r.c.Features)
		case "sandbox-paths", "build-sandbox-paths", "build-chroot-dirs":
			add(&r.c.Paths)
		}
	}
	return nil
}

// Our lines stand between these.
const (
	begin = "# hostDriver sandbox: builds that ask for a GPU get it."
	end   = "# hostDriver sandbox: end"
)

// Lines returns the lines that make a program the pre-build-hook. The features are added to those that are there.
func Lines(hook string) string {
	return begin + "\npre-build-hook = " + hook + "\nextra-system-features = " + strings.Join(Features, " ") +
		"\n" + end + "\n"
}

// customName is the file beside a nix.conf that generates itself anew (Determinate Nix), which includes it for what the
// machine's owner has to say.
const customName = "nix.custom.conf"

// A Planned says what is to be done to nix.conf.
type Planned struct {
	File    string // in which the lines belong: that nix.conf, or the one that it includes for this
	Text    string // what is to be in it
	Changed bool   // it has something else
	New     bool   // it is not there yet

	dir  *os.File
	read fs.FileInfo // of the file, when it was read; nil: there was none
}

// Plan says in which file those lines belong, for the nix.conf of a system in an open directory, and what is to be in
// it then. They come to its end, where nothing after them can replace the system features, and what else is
// there stays.
func Plan(root sysroot.Root, dir *os.File, conf, hook string) (*Planned, error) {
	if strings.ContainsAny(hook, " \t\n#") {
		return nil, fmt.Errorf("nix.conf cannot name %q", hook)
	}
	text, p, err := at(root, dir, conf)
	if err != nil {
		return nil, err
	}
	r := reader{root: root, texts: map[string]string{conf: text}}
	if _, err := r.all(conf); err != nil {
		return nil, err
	}
	if r.custom {
		if text, p, err = at(root, dir, filepath.Join(filepath.Dir(conf), customName)); err != nil {
			return nil, err
		}
	}
	old := text
	if text, err = withoutOurs(p.File, text); err != nil {
		return nil, err
	}
	r.texts[p.File] = text
	c, err := r.all(conf)
	if err == nil && c.Hook != "" && c.Hook != hook {
		err = fmt.Errorf("%s names another pre-build-hook, %s, and Nix runs one", conf, c.Hook)
	}
	if err != nil {
		return nil, err
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	p.Text = text + Lines(hook)
	r.texts[p.File] = p.Text
	if c, err = r.all(conf); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(Features, func(f string) bool { return !slices.Contains(c.Features, f) }) {
		return nil, fmt.Errorf("%s replaces the system features after it includes %s", conf, p.File)
	}
	p.Changed = p.Text != old
	return p, nil
}

// Without says what is to be in a file of a system in an open directory once our lines are taken out of it.
func Without(root sysroot.Root, dir *os.File, conf string) (*Planned, error) {
	old, p, err := at(root, dir, conf)
	if err == nil {
		p.Text, err = withoutOurs(conf, old)
	}
	if err != nil {
		return nil, err
	}
	p.Changed = p.Text != old
	return p, nil
}

// withoutOurs returns a file's text without our lines.
func withoutOurs(file, text string) (string, error) {
	before, rest, ok := strings.Cut(text, begin+"\n")
	if !ok {
		return text, nil
	}
	_, after, ok := strings.Cut(rest, end+"\n")
	if !ok {
		return "", fmt.Errorf("%s: %q without %q: correct it by hand", file, begin, end)
	}
	return before + after, nil
}

// at reads a file of an open directory, which may not be there.
func at(root sysroot.Root, dir *os.File, name string) (text string, p *Planned, err error) {
	b, read, err := regular.ReadIn(dir, filepath.Base(name), maxSize)
	switch {
	case errors.Is(err, regular.ErrLink):
		target, _ := root.Readlink(name)
		return "", nil, fmt.Errorf("%s is a link to %s: add these lines to what generates it", name, target)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", nil, err
	}
	return string(b), &Planned{File: name, New: read == nil, dir: dir, read: read}, nil
}

// Write writes the file, if nobody has changed it since it was read.
func (p *Planned) Write() error {
	return plainfile.ReplaceRead(p.dir, filepath.Base(p.File), 0o644, plainfile.Bytes([]byte(p.Text)), p.read)
}
