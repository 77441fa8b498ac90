// Package sandbox is hostDriver's side of Nix's pre-build-hook: which derivations ask for
// a GPU, what their builds must see, and the hook itself; and what containers see, as CDI says it.
package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/compat"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/host/nixconf"
	"cuda-runpath/pkg/host/offer"
	"cuda-runpath/pkg/host/private"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/sysroot"
)

// AsksForGPU reports whether a derivation, the contents of a .drv file, has one of
// [nixconf.Features] among its requiredSystemFeatures, with structured attributes or not.
func AsksForGPU(drv []byte) (bool, error) {
	if !slices.ContainsFunc(nixconf.Features, func(f string) bool { return bytes.Contains(drv, []byte(f)) }) {
		return false, nil // and whatever else is wrong with it is no concern of ours
	}
	if !bytes.HasPrefix(drv, []byte("Derive(")) && !bytes.HasPrefix(drv, []byte("DrvWithVersion(")) {
		return false, errors.New("not a derivation")
	}
	env := map[string]string{}
	for _, m := range attribute().FindAllSubmatch(drv, -1) {
		env[string(m[1])] = unescaped.Replace(string(m[2]))
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
	return slices.ContainsFunc(features, func(f string) bool { return slices.Contains(nixconf.Features, f) }), nil
}

// attribute matches what is wanted of a derivation's environment. A .drv file is one term in the ATerm format (Nix
// manual, "Derivation and Deriving Path"), in which the environment is a list of ("name","value"). In a string each
// quote follows a backslash, so that nothing inside of one looks like that.
var attribute = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)\("(requiredSystemFeatures|__json)","((?:[^"\\]|\\.)*)"\)`)
})

var unescaped = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`)

// ReadDerivation reads a .drv file, named as Nix names it to a pre-build-hook. In a
// store that is elsewhere (--store DIR) that is not where the file is; then it is
// looked for beside the build's root directory, which Nix makes in the real store.
func ReadDerivation(drv, chroot string) ([]byte, error) {
	tries := []string{drv}
	for dir := chroot; path.IsAbs(dir) && dir != "/"; dir = path.Dir(dir) {
		tries = append(tries, path.Join(path.Dir(dir), path.Base(drv)))
	}
	for _, name := range tries {
		b, err := regular.Read(name, 64<<20)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: drv, Err: fs.ErrNotExist}
}

// Path is a path of the host that a build is to see under a name.
type Path struct{ Guest, Host string }

func (p Path) String() string {
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

// Paths returns what a build that asks for a GPU must see: the devices, and for
// each name in the driver link, and in the directory that hostDriver's leads to, the very file that it leads to, so
// that no link of the host's has to be there too. Where the driver link is not there, does not lead to this host's
// driver, or holds links whose libraries would not find each other, private copies stand in for it.
func Paths(h *host.Host, m host.Machine, prefix string, openCache func() (*private.Cache, error)) ([]Path, error) {
	var all []Path
	gpu, dxg := false, false
	for _, pattern := range deviceNodes {
		found, _ := h.Root.Glob(pattern)
		for _, name := range found {
			nodes := nodesOf(h.Root, name)
			all = append(all, nodes...)
			gpu = gpu || len(nodes) > 0 && name != "/dev/dri"
			dxg = dxg || len(nodes) > 0 && name == "/dev/dxg"
		}
	}
	if !gpu {
		return nil, errors.New("this machine has no NVIDIA GPU device, /dev/nvidia0 or the like: hostDriver doctor says why")
	}
	if dxg { // libcuda.so.1 there opens the Windows driver's own libraries by their paths
		const dir = "/usr/lib/wsl"
		if at, err := h.Root.Outside(dir); err == nil {
			all = append(all, Path{dir, at})
		}
	}
	link := m.Link(prefix)
	var files map[string]string
	var err error
	if at, _ := h.Root.Resolve(path.Join(link, driver.LibCUDA)); strings.HasPrefix(at, "/nix/store/") {
		return nil,
			fmt.Errorf(
				"%s leads into the Nix store, where its needs are not known; on NixOS, use programs.nix-required-mounts, for "+
					"containers hardware.nvidia-container-toolkit", link)
	}
	if h.LinkServes(m, prefix) {
		if files, err = realFiles(h.Root, link); err != nil {
			return nil, err
		}
	} else {
		cache, err := openCache()
		if err != nil {
			return nil, err
		}
		cache.Seen = link
		ready, err := cache.Prepare(h.Excluding(m, prefix), m, nil, compat.Auto)
		if err != nil {
			return nil, err
		}
		if files, err = realFiles(sysroot.Root{}, ready.Offers[0].Path); err != nil {
			return nil, err
		}
	}
	// The link's own name, and that of the directory on a disk to which it leads: programs know the one or the other.
	prefixes := []string{path.Dir(link)}
	if at := h.OwnLink(path.Dir(link)); at != "" {
		prefixes = append(prefixes, at)
	}
	for name, file := range files {
		for _, at := range prefixes {
			if !offer.IsBeside(name) {
				at = path.Join(at, "lib")
			}
			all = append(all, Path{path.Join(at, name), file})
		}
		if name == "share/nvidia/"+path.Base(host.OptixData) {
			all = append(all, Path{host.OptixData, file})
		}
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

// nodesOf returns the character devices of a name in /dev: itself, or those in that directory, because containers'
// runtimes take no directories. Anything else is no GPU: block devices, files, and what a root's links lead to outside
// of it.
func nodesOf(root sysroot.Root, name string) (nodes []Path) {
	at, err := root.Resolve(name)
	if err != nil {
		return nil
	}
	tries := []Path{{name, at}}
	if entries, err := root.ReadDir(at); err == nil {
		tries = nil
		for _, e := range entries { // links in /dev/dri/by-path lead to the nodes beside it
			tries = append(tries, Path{path.Join(name, e.Name()), path.Join(at, e.Name())})
		}
	}
	for _, p := range tries {
		if info, err := root.Lstat(p.Host); err == nil && info.Mode()&fs.ModeCharDevice != 0 {
			nodes = append(nodes, Path{p.Guest, root.Path(p.Host)})
		}
	}
	return nodes
}

// realFiles returns, for each name in a directory of driver libraries, the file on this machine that it leads to.
func realFiles(root sysroot.Root, dir string) (map[string]string, error) {
	files := map[string]string{}
	var look func(sub string) error
	look = func(sub string) error {
		entries, err := root.ReadDir(path.Join(dir, sub))
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(sub, e.Name())
			at, err := root.Resolve(path.Join(dir, name))
			if err != nil {
				continue // dangling
			}
			if info, err := root.Lstat(at); err == nil && info.Mode().IsRegular() {
				files[name] = root.Path(at)
			}
			if e.IsDir() { // and no link, which could lead to anything
				_ = look(name)
			}
		}
		return nil
	}
	return files, look("")
}

// hookMark is in every hook that was made here.
const hookMark = "# Made by: hostDriver sandbox"

// HookFile returns a script beside a nix.conf that is a pre-build-hook, which Nix starts without
// arguments of ours: it calls a program's "sandbox". Where that program is gone, it
// says nothing, for a hook that fails lets every build fail.
func HookFile(conf, program string) made.File {
	word := remedy.Quote(program)
	return made.File{
		Path: path.Join(path.Dir(conf), nixconf.Hook),
		Text: "#!/bin/sh\n" + hookMark + "\n[ -x " + word + " ] || exit 0\nexec " + word + " sandbox -- \"$@\"\n",
		Mode: 0o755,
	}
}

// Configure writes that script beside a system's nix.conf, and the lines that name it
// into the file that it returns: that nix.conf, or the one that it includes for this.
// It changes nothing where either cannot be done: a hook of that name that is
// somebody else's stays, and so does a pre-build-hook that is set already. needed are the files
// that the script needs. It reports whether anything was not there like that.
func Configure(h *host.Host, conf string, hook made.File, needed ...made.File) (file string, changed bool, err error) {
	in, err := made.MakeBelow(h.Root, path.Dir(conf))
	if err != nil {
		return "", false, err
	}
	defer in.Close()
	// Opened once: what is read is what is written.
	dir, err := in.Open(".")
	if err != nil {
		return "", false, err
	}
	defer dir.Close()
	plan, err := nixconf.Plan(h.Root, dir, conf, hook.Path)
	if err != nil {
		return "", false, err
	}
	if err := h.Trusted(plan.File); err != nil {
		return "", false, fmt.Errorf("%s, which names what every build starts: %w", plan.File, err)
	}
	old, read, err := regular.ReadBelow(in, nixconf.Hook, 1<<20)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && !strings.Contains(string(old), hookMark):
		err = fmt.Errorf("%s was not made by hostDriver; hostDriver leaves it alone", hook.Path)
	}
	if err != nil {
		return "", false, err
	}
	things, err := made.Read(h)
	if !slices.ContainsFunc(things, func(t made.Thing) bool { return t.Kind == made.Lines && t.Path == plan.File }) &&
		err == nil {
		err = made.Note(h, made.Thing{Kind: made.Lines, Path: plan.File, New: plan.New})
	}
	if err != nil {
		return "", false, err
	}
	did, err := made.Put(h, append(needed, hook)...)
	if err != nil {
		return "", false, err
	}
	if plan.Changed {
		if err = plan.Write(); err != nil {
			err = fmt.Errorf("writing %s: %w", plan.File, err)
			if read == nil {
				err = errors.Join(err, in.Remove(nixconf.Hook))
			}
		}
	}
	return plan.File, plan.Changed || len(did) > 0, err
}
