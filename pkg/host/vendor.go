package host

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Vendor is a file by which a vendor-neutral loader finds one of the driver's libraries.
type Vendor struct {
	// Path is the host's own; "" where the host has none and one is made.
	Path string `json:"path,omitempty"`
	// Libraries are the names in it, of the driver's libraries.
	Libraries []string `json:"libraries"`

	names   []string         // as the file has them
	name    string           // below the directory of the libraries
	doc     map[string]any   // nil for OpenCL's, which are one line
	entries []map[string]any // those in doc that have a library_path
}

// Name returns where the file is, below the directory of the libraries: share/vulkan/icd.d/nvidia_icd.json.
func (v *Vendor) Name() string { return v.name }

// Text returns the file's contents where the libraries are in a directory: what the host's says, with absolute names.
func (v *Vendor) Text(dir string) []byte {
	if v.doc == nil {
		return []byte(path.Join(dir, v.Libraries[0]) + "\n")
	}
	for i, e := range v.entries {
		e[libraryPath] = path.Join(dir, v.Libraries[i])
	}
	b, err := json.MarshalIndent(v.doc, "", "    ")
	if err != nil {
		panic(err) // it was JSON
	}
	return append(b, '\n')
}

const libraryPath = "library_path"

// A vendorKind is a kind of these files: where hosts have it, and where NixOS has it below /run/opengl-driver, which is
// where nixpkgs' loaders look.
type vendorKind struct {
	dir   string
	hosts []string
	one   bool   // one file a library: a second one would show its devices twice
	make  string // the library for which one is made where the host has none
	name  string // of that
}

// vendorKinds are those that NVIDIA's driver has (its README, chapter "Installed Components"). Vulkan's are not made:
// only the host's says which version of Vulkan the driver has. Sources of the hosts' directories: Vulkan-Loader's
// LoaderDriverInterface.md, libglvnd's EGL/icd_enumeration.md, eglexternalplatform's README, the OpenCL extension
// cl_khr_icd.
var vendorKinds = []vendorKind{
	{"share/vulkan/icd.d", []string{"/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"}, true, "", ""},
	{"share/vulkan/implicit_layer.d", []string{"/etc/vulkan/implicit_layer.d", "/usr/local/share/vulkan/implicit_layer.d", "/usr/share/vulkan/implicit_layer.d"}, false, "", ""},
	{"share/glvnd/egl_vendor.d", []string{"/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d"}, true, "libEGL_nvidia.so.0", "10_nvidia.json"},
	{"share/egl/egl_external_platform.d", []string{"/etc/egl/egl_external_platform.d", "/usr/share/egl/egl_external_platform.d"}, true, "", ""},
	{openCL, []string{"/etc/OpenCL/vendors"}, true, "libnvidia-opencl.so.1", "nvidia.icd"},
}

const openCL = "etc/OpenCL/vendors"

// OptixData is what libnvoptix.so.1 opens by this name, without which its denoiser does not work.
const OptixData = "/usr/share/nvidia/nvoptix.bin"

const (
	maxVendorFile  = 64 << 10 // bytes; NVIDIA's have less than one thousand
	maxVendorFiles = 100      // in one directory
)

// vendorName matches the names that such files may have here: they become names in a directory, and parts of lists.
var vendorName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*\.(json|icd)$`) })

// vendors returns the files by which loaders find the driver's libraries.
func (h *Host) vendors(d *Driver) []*Vendor {
	var all []*Vendor
	own := d.Names()
	for _, kind := range vendorKinds {
		found, seen := h.vendorsIn(kind, kind.hosts, d, own)
		all = append(all, found...)
		if kind.make != "" && own[kind.make] && !seen[kind.make] {
			v := &Vendor{name: path.Join(kind.dir, kind.name), Libraries: []string{kind.make}}
			if kind.dir != openCL {
				icd := map[string]any{}
				v.doc, v.entries = map[string]any{"file_format_version": "1.0.0", "ICD": icd}, []map[string]any{icd}
			}
			all = append(all, v)
		}
	}
	return all
}

// vendorsIn returns the files of a kind in some directories that lead to the driver's libraries, and which names and
// libraries they have.
func (h *Host) vendorsIn(kind vendorKind, dirs []string, d *Driver, own map[string]bool) (all []*Vendor, seen map[string]bool) {
	seen = map[string]bool{}
	for _, dir := range dirs {
		h.Saw(dir)
		entries, _ := h.Root.ReadDir(dir)
		for _, e := range entries[:min(len(entries), maxVendorFiles)] {
			at := path.Join(dir, e.Name())
			if !vendorName().MatchString(e.Name()) || seen[e.Name()] {
				continue
			}
			v, err := h.vendor(at, kind, d.machine(), own)
			if err != nil {
				d.Rejected = append(d.Rejected, Rejected{at, err.Error(), false})
			}
			if v == nil || kind.one && seen[v.Libraries[0]] {
				continue
			}
			seen[e.Name()], seen[v.Libraries[0]] = true, true
			all = append(all, v)
		}
	}
	return all, seen
}

// vendor reads one of the host's files. It returns nil for one that is not the driver's.
func (h *Host) vendor(at string, kind vendorKind, m Machine, own map[string]bool) (*Vendor, error) {
	file, err := h.Root.Resolve(at)
	if err != nil {
		return nil, nil // dangling
	}
	h.Saw(file)
	b, err := h.Root.ReadFile(at, maxVendorFile)
	if err != nil {
		return nil, Reason(err)
	}
	v := &Vendor{Path: at, name: path.Join(kind.dir, path.Base(at))}
	var names []any
	if kind.dir == openCL {
		line, _, _ := strings.Cut(string(b), "\n")
		names = []any{strings.TrimSpace(line)}
	} else {
		decoder := json.NewDecoder(bytes.NewReader(b))
		decoder.UseNumber()
		if err := decoder.Decode(&v.doc); err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		holders := []any{v.doc["ICD"], v.doc["layer"]}
		if layers, ok := v.doc["layers"].([]any); ok {
			holders = append(holders, layers...)
		}
		for _, holder := range holders {
			e, ok := holder.(map[string]any)
			if !ok || e[libraryPath] == nil {
				continue
			}
			if bits, _ := e["library_arch"].(string); bits == "32" && m.Class != elf.ELFCLASS32 || bits == "64" && m.Class != elf.ELFCLASS64 {
				return nil, nil
			}
			v.entries, names = append(v.entries, e), append(names, e[libraryPath])
		}
	}
	for _, name := range names {
		s, _ := name.(string)
		v.names, s = append(v.names, s), path.Base(s)
		if !own[s] {
			return nil, nil // another vendor's
		}
		v.Libraries = append(v.Libraries, s)
	}
	if len(v.Libraries) == 0 {
		return nil, nil
	}
	if err := h.trusted(at); err != nil {
		return nil, err
	}
	return v, nil
}

// optixData returns the file of [OptixData], "" where there is none to rely on.
func (h *Host) optixData(d *Driver) string {
	has := slices.ContainsFunc(d.Libraries, func(lib Library) bool { return lib.Name == "libnvoptix.so" })
	h.Saw(OptixData)
	if !has || !h.exists(OptixData) || h.trusted(OptixData) != nil {
		return ""
	}
	return OptixData
}
