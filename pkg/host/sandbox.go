package host

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/sysroot"
)

// gpuFeatures are the system features by which a derivation asks for a GPU: "cuda",
// as nixpkgs' checks of CUDA packages do, and those of nixpkgs'
// programs.nix-required-mounts.
var gpuFeatures = []string{"cuda", "gpu", "nvidia-gpu", "opengl"}

// SandboxHook is the name of the script that is Nix's pre-build-hook.
const SandboxHook = "hostDriver-sandbox"

// AsksForGPU reports whether a derivation, the contents of a .drv file, has one of
// GPUFeatures among its requiredSystemFeatures, with structured attributes or not.
func AsksForGPU(drv []byte) (bool, error) {
	if !slices.ContainsFunc(gpuFeatures, func(f string) bool { return bytes.Contains(drv, []byte(f)) }) {
		return false, nil // and whatever else is wrong with it is no concern of ours
	}
	env, err := environmentOf(string(drv))
	if err != nil {
		return false, err
	}
	features := strings.Fields(env["requiredSystemFeatures"])
	if structured, ok := env["__json"]; ok {
		var attributes struct{ RequiredSystemFeatures json.RawMessage }
		if err := json.Unmarshal([]byte(structured), &attributes); err != nil {
			return false, fmt.Errorf("__json: %w", err)
		}
		var list []string
		var one string
		switch raw := attributes.RequiredSystemFeatures; {
		case raw == nil:
		case json.Unmarshal(raw, &list) == nil:
			features = append(features, list...)
		case json.Unmarshal(raw, &one) == nil:
			features = append(features, strings.Fields(one)...)
		default:
			return false, errors.New("__json: requiredSystemFeatures is neither a list nor a string")
		}
	}
	return slices.ContainsFunc(features, func(f string) bool { return slices.Contains(gpuFeatures, f) }), nil
}

// ReadDerivation reads a .drv file, named as Nix names it to a pre-build-hook. In a
// store that is elsewhere (--store DIR) that is not where the file is; then it is
// looked for beside the build's root directory, which Nix makes in the real store.
func ReadDerivation(drv, chroot string) ([]byte, error) {
	tries := []string{drv}
	for dir := chroot; path.IsAbs(dir) && dir != "/"; dir = path.Dir(dir) {
		tries = append(tries, path.Join(path.Dir(dir), path.Base(drv)))
	}
	for _, name := range tries {
		b, err := os.ReadFile(name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: drv, Err: fs.ErrNotExist}
}

// SandboxPath is a path of the host that a build is to see under a name.
type SandboxPath struct{ Guest, Host string }

func (p SandboxPath) String() string {
	if p.Guest == p.Host {
		return p.Guest
	}
	return p.Guest + "=" + p.Host
}

// deviceNodes are what programs open to reach the GPU: the driver's README, chapter
// "Accessing the device files"; for Jetson, L4T's devices.csv for containers; WSL's
// /dev/dxg; and /dev/dri for OpenGL and Vulkan.
var deviceNodes = []string{
	"/dev/nvidiactl", "/dev/nvidia[0-9]*", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset",
	"/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels", "/dev/nvidia-nvlink", "/dev/nvidia-nvswitch*",
	"/dev/dri", "/dev/dxg", "/dev/nvmap", "/dev/nvgpu", "/dev/nvhost-*", "/dev/nvsciipc",
}

// Sandbox returns what a build that asks for a GPU must see: the devices, and for
// each name in the driver link the very file that it leads to, so that no link of
// the host's has to be there too. Where the driver link is not there, does not lead
// to this host's driver, or holds links whose libraries would not find each other,
// private copies stand in for it.
func (h *Host) Sandbox(m Machine, prefix string, openCache func() (*Cache, error)) ([]SandboxPath, error) {
	var all []SandboxPath
	gpu := false
	for _, pattern := range deviceNodes {
		found, _ := h.Root.Glob(pattern)
		for _, node := range found {
			all = append(all, SandboxPath{node, h.Root.Path(node)})
			gpu = gpu || node != "/dev/dri"
		}
	}
	if !gpu {
		return nil, errors.New("this machine has no NVIDIA GPU device")
	}
	if h.exists("/dev/dxg") { // libcuda.so.1 there opens the Windows driver's own libraries by their paths
		if dir := "/usr/lib/wsl"; h.exists(dir) {
			all = append(all, SandboxPath{dir, h.Root.Path(dir)})
		}
	}
	link := m.link(prefix)
	files, ok, err := h.linked(m, prefix)
	if err != nil {
		return nil, err
	}
	if !ok {
		cache, err := openCache()
		if err != nil {
			return nil, err
		}
		ready, err := cache.Prepare(h.Excluding(m, prefix), m, nil, CompatAuto)
		if err != nil {
			return nil, err
		}
		if files, err = realFiles(sysroot.Root{}, ready.Offers[0].Dir); err != nil {
			return nil, err
		}
	}
	for name, file := range files {
		all = append(all, SandboxPath{path.Join(link, name), file})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Guest < all[j].Guest })
	for _, p := range all {
		// Nix takes the first "=" for the separator and each line for a path.
		if strings.ContainsAny(p.Guest, "=\n") || strings.Contains(p.Host, "\n") {
			return nil, fmt.Errorf("%q cannot be passed to Nix", p.String())
		}
	}
	return all, nil
}

// linked returns the files that the driver link's names lead to, and whether they serve.
func (h *Host) linked(m Machine, prefix string) (map[string]string, bool, error) {
	link := m.link(prefix)
	cuda := path.Join(link, driver.LibCUDA)
	at, err := h.Root.Resolve(cuda)
	if err != nil {
		return nil, false, nil //nolint:nilerr // a link that leads nowhere does not serve
	}
	if strings.HasPrefix(at, "/nix/store/") {
		return nil, false, fmt.Errorf("%s leads into the Nix store: what it needs there is not known; on NixOS, use programs.nix-required-mounts", link)
	}
	other := *h
	other.wantCompat = true
	row, _ := driver.Lookup(driver.LibCUDA)
	lib, err := other.examine(cuda, row, m)
	if err != nil {
		return nil, false, nil //nolint:nilerr // nor one that leads to a file of another kind
	}
	// The driver's own file has no run path by which it finds its compilers.
	if d, err := h.Excluding(m, prefix).Find(m); err == nil {
		for _, own := range d.Libraries {
			if own.File == lib.File {
				return nil, false, nil
			}
		}
	}
	if loaded := h.kernelVersion().Version; loaded != "" && lib.Version != "" && lib.Version != loaded && !h.isCompat(path.Dir(lib.File)) {
		return nil, false, nil
	}
	files, err := realFiles(h.Root, link)
	return files, err == nil, err
}

// realFiles returns, for each name in a directory and its subdirectory of the
// host's libraries, the file on this machine that it leads to.
func realFiles(root sysroot.Root, dir string) (map[string]string, error) {
	files := map[string]string{}
	for _, sub := range []string{"", hostDir} {
		entries, err := root.ReadDir(path.Join(dir, sub))
		if err != nil && sub == "" {
			return nil, err
		}
		for _, e := range entries {
			at, err := root.Resolve(path.Join(dir, sub, e.Name()))
			if err != nil {
				continue // dangling
			}
			if info, err := os.Stat(root.Path(at)); err == nil && info.Mode().IsRegular() {
				files[path.Join(sub, e.Name())] = root.Path(at)
			}
		}
	}
	return files, nil
}

// The lines of nix.conf(5) stand between these.
const (
	configBegin = "# hostDriver sandbox: builds that ask for a GPU get it."
	configEnd   = "# hostDriver sandbox: end"
)

// SandboxConfig returns the lines for nix.conf that make a program the
// pre-build-hook. The system features are added to those that are there.
func SandboxConfig(hook string) string {
	return configBegin + "\npre-build-hook = " + hook + "\nextra-system-features = " + strings.Join(gpuFeatures, " ") + "\n" + configEnd + "\n"
}

// WriteSandboxConfig puts the lines at the end of a nix.conf, where nothing after
// them can replace the system features, and keeps what else is there. It tells
// whether the file was changed.
func WriteSandboxConfig(file, hook string) (bool, error) {
	if strings.ContainsAny(hook, " \t\n#") {
		return false, fmt.Errorf("nix.conf cannot name %q", hook)
	}
	if target, err := os.Readlink(file); err == nil {
		return false, fmt.Errorf("%s is a link to %s: add these lines to what generates it", file, target)
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Lstat(file); err == nil {
		mode = info.Mode().Perm()
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	text := string(old)
	if before, rest, ok := strings.Cut(text, configBegin+"\n"); ok {
		_, after, ok := strings.Cut(rest, configEnd+"\n")
		if !ok {
			return false, fmt.Errorf("%s: %q without %q: correct it by hand", file, configBegin, configEnd)
		}
		text = before + after
	}
	c, err := readNixConfig(sysroot.Root{}, file, strings.NewReader(text))
	if err != nil {
		return false, err
	}
	if c.hook != "" && c.hook != hook {
		return false, fmt.Errorf("%s names another pre-build-hook, %s, and Nix runs one", file, c.hook)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	text += SandboxConfig(hook)
	if text == string(old) {
		return false, nil
	}
	if err := mkdirAll(filepath.Dir(file), 0o755); err != nil {
		return false, err
	}
	return true, writeFile(file, []byte(text), mode)
}

// hookMark is in every hook that WriteHook made.
const hookMark = "# Made by: hostDriver sandbox --configure"

// Hook returns a script that is a pre-build-hook, which Nix starts without
// arguments of ours: it calls a program's "sandbox". Where that program is gone, it
// says nothing, for a hook that fails lets every build fail.
func Hook(program string) string {
	word := remedy.Quote(program)
	return "#!/bin/sh\n" + hookMark + "\n[ -x " + word + " ] || exit 0\nexec " + word + " sandbox -- \"$@\"\n"
}

// WriteHook writes that script. A file that is not ours stays.
func WriteHook(file, program string) error {
	old, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !strings.Contains(string(old), hookMark):
		return fmt.Errorf("%s was not made by hostDriver; hostDriver leaves it alone", file)
	case string(old) == Hook(program):
		return nil
	}
	if err := mkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return writeFile(file, []byte(Hook(program)), 0o755)
}

// nixConfig is what nix.conf says of builds and GPUs.
type nixConfig struct {
	hook     string
	sandbox  string
	features []string // nil where only the defaults hold
	paths    []string
}

// readNixConfig reads a nix.conf and what it includes (Nix manual, "nix.conf").
func readNixConfig(root sysroot.Root, file string, r io.Reader) (*nixConfig, error) {
	c := &nixConfig{}
	return c, c.read(root, file, r, 0)
}

func (c *nixConfig) read(root sysroot.Root, file string, r io.Reader, depth int) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 2 && (words[0] == "include" || words[0] == "!include") && depth < 10 {
			name := words[1]
			if !path.IsAbs(name) {
				name = path.Join(path.Dir(file), name)
			}
			if b, err := root.ReadFile(name, 1<<20); err == nil {
				if err := c.read(root, name, bytes.NewReader(b), depth+1); err != nil {
					return err
				}
			}
			continue
		}
		if len(words) < 2 || words[1] != "=" {
			continue
		}
		name, values := words[0], words[2:]
		name, extra := strings.CutPrefix(name, "extra-")
		add := func(list *[]string) {
			if !extra {
				*list = []string{}
			}
			*list = append(*list, values...)
		}
		switch name {
		case "pre-build-hook":
			c.hook = strings.Join(values, " ")
		case "sandbox", "build-use-sandbox", "build-use-chroot":
			c.sandbox = strings.Join(values, " ")
		case "system-features":
			add(&c.features)
		case "sandbox-paths", "build-sandbox-paths", "build-chroot-dirs":
			add(&c.paths)
		}
	}
	return lines.Err()
}

// doctorBuilds says whether builds of Nix can see the GPU, where the host has Nix.
func (h *Host) doctorBuilds(d *Diagnosis) {
	const subject, file = "Nix builds", "/etc/nix/nix.conf"
	if !h.exists("/nix/store") {
		return
	}
	b, err := h.Root.ReadFile(file, 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.add(subject, Note, file, "", "%v", reason(err))
		return
	}
	c, err := readNixConfig(h.Root, file, bytes.NewReader(b))
	configure := "sudo hostDriver sandbox --configure --write"
	asks := slices.ContainsFunc(c.features, func(f string) bool { return slices.Contains(gpuFeatures, f) })
	switch {
	case err != nil:
		d.add(subject, Note, file, "", "%v", err)
	case c.sandbox == "false":
		d.add(subject, Note, file, "", "are not in a sandbox: each of them sees the GPU")
	case c.hook != "" && !h.exists(c.hook):
		d.add(subject, Warning, file, configure, "the pre-build-hook %s does not exist: every build fails", c.hook)
	case path.Base(c.hook) == SandboxHook && !asks:
		d.add(subject, Warning, file, configure, "get the GPU through %s if they ask for it, but the system features include none of %s", c.hook, strings.Join(gpuFeatures, ", "))
	case path.Base(c.hook) == SandboxHook:
		d.add(subject, Good, file, "", "get the GPU through %s if their requiredSystemFeatures ask for it", c.hook)
	case c.hook != "":
		d.add(subject, Note, file, "", "%s decides whether they see the GPU", c.hook)
	case slices.ContainsFunc(c.paths, func(p string) bool { return strings.HasPrefix(p, "/dev/nvidia") }):
		d.add(subject, Note, file, "", "all see the GPU, by extra-sandbox-paths")
	default:
		d.add(subject, Note, file, configure, "cannot see the GPU")
	}
}
