package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host/nixconf"
	"cuda-runpath/pkg/plainfile"
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
		var attributes map[string]json.RawMessage // and no struct, whose fields' names encoding/json compares without case
		if err := json.Unmarshal([]byte(structured), &attributes); err != nil {
			return false, fmt.Errorf("__json: %w", err)
		}
		var list []string
		var one string
		switch raw := attributes["requiredSystemFeatures"]; {
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
		b, err := plainfile.Read(name, 64<<20)
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

// hookMark is in every hook that ConfigureSandbox made.
const hookMark = "# Made by: hostDriver sandbox --configure"

// SandboxConfig returns the lines for nix.conf that make a program the pre-build-hook.
func SandboxConfig(hook string) string { return nixconf.Lines(hook, gpuFeatures) }

// Hook returns a script that is a pre-build-hook, which Nix starts without
// arguments of ours: it calls a program's "sandbox". Where that program is gone, it
// says nothing, for a hook that fails lets every build fail.
func Hook(program string) string {
	word := remedy.Quote(program)
	return "#!/bin/sh\n" + hookMark + "\n[ -x " + word + " ] || exit 0\nexec " + word + " sandbox -- \"$@\"\n"
}

// ConfigureSandbox writes that script beside a nix.conf, and the lines that name it
// into the file that it returns: that nix.conf, or the one that it includes for this.
// It changes nothing where either cannot be done: a hook of that name that is
// somebody else's stays, and so does a pre-build-hook that is set already.
func ConfigureSandbox(conf, program string) (file string, changed bool, err error) {
	hook := filepath.Join(filepath.Dir(conf), SandboxHook)
	file, text, changed, err := nixconf.Plan(conf, hook, gpuFeatures)
	if err != nil {
		return "", false, err
	}
	if err := mkdirAll(filepath.Dir(conf), 0o755); err != nil {
		return "", false, err
	}
	dir, err := os.OpenRoot(filepath.Dir(conf))
	if err != nil {
		return "", false, err
	}
	defer dir.Close()
	fresh := false
	switch info, err := dir.Lstat(SandboxHook); {
	case errors.Is(err, fs.ErrNotExist):
		fresh = true
	case err != nil:
		return "", false, err
	default:
		var old []byte
		if info.Mode().IsRegular() {
			old, err = plainfile.Read(hook, 1<<20)
		}
		if err == nil && !strings.Contains(string(old), hookMark) {
			err = fmt.Errorf("%s was not made by hostDriver; hostDriver leaves it alone", hook)
		}
		if err != nil {
			return "", false, err
		}
	}
	if err := writeFile(dir, SandboxHook, 0o755, []byte(Hook(program))); err != nil {
		return "", false, fmt.Errorf("writing %s: %w", hook, err)
	}
	if changed {
		err = writeFile(dir, filepath.Base(file), 0o644, []byte(text))
	}
	if err != nil {
		err = fmt.Errorf("writing %s: %w", file, err)
		if fresh {
			err = errors.Join(err, dir.Remove(SandboxHook))
		}
	}
	return file, changed, err
}

// doctorBuilds says whether builds of Nix can see the GPU, where the host has Nix.
func (h *Host) doctorBuilds(d *Diagnosis) {
	const subject, file = "Nix builds", "/etc/nix/nix.conf"
	if !h.exists("/nix/store") {
		return
	}
	c, err := nixconf.Read(h.Root, file)
	if err != nil {
		d.add(subject, Note, file, "", "%v", reason(err))
		return
	}
	configure := "sudo hostDriver sandbox --configure --write"
	asks := slices.ContainsFunc(c.Features, func(f string) bool { return slices.Contains(gpuFeatures, f) })
	switch {
	case c.Sandbox == "false":
		d.add(subject, Note, file, "", "are not in a sandbox: each of them sees the GPU")
	case c.Hook != "" && !h.exists(c.Hook):
		d.add(subject, Warning, file, configure, "the pre-build-hook %s does not exist: every build fails", c.Hook)
	case path.Base(c.Hook) == SandboxHook && !asks:
		d.add(subject, Warning, file, configure, "get the GPU through %s if they ask for it, but the system features include none of %s", c.Hook, strings.Join(gpuFeatures, ", "))
	case path.Base(c.Hook) == SandboxHook:
		d.add(subject, Good, file, "", "get the GPU through %s if their requiredSystemFeatures ask for it", c.Hook)
	case c.Hook != "":
		d.add(subject, Note, file, "", "%s decides whether they see the GPU", c.Hook)
	case slices.ContainsFunc(c.Paths, func(p string) bool { return strings.HasPrefix(p, "/dev/nvidia") }):
		d.add(subject, Note, file, "", "all see the GPU, by extra-sandbox-paths")
	default:
		d.add(subject, Note, file, configure, "cannot see the GPU")
	}
}
