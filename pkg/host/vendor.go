package host

import (
	"debug/elf"
	"encoding/json"
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

	// Names are those of the libraries as the file has them. Usual: it is where the host's own loaders look.
	Names []string `json:"-"`
	Usual bool     `json:"-"`

	name string   // below the directory of the libraries
	text []byte   // what the host's says; nil for OpenCL's, which are one line
	at   [][2]int // where in text the names stand
}

// Name returns where the file is, below the directory of the libraries: share/vulkan/icd.d/nvidia_icd.json.
func (v *Vendor) Name() string { return v.name }

// Text returns the file's contents where the libraries are in a directory: what the host's says, byte for byte, with
// absolute names.
func (v *Vendor) Text(dir string) []byte {
	if v.text == nil {
		return []byte(path.Join(dir, v.Libraries[0]) + "\n")
	}
	var text []byte
	from := 0
	for i, at := range v.at {
		name, err := json.Marshal(path.Join(dir, v.Libraries[i]))
		if err != nil {
			panic(err) // it is a string
		}
		text = append(append(text, v.text[from:at[0]]...), name...)
		from = at[1]
	}
	return append(text, v.text[from:]...)
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
	{"share/vulkan/icd.d", []string{"/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"},
		true, "", ""},
	{"share/vulkan/implicit_layer.d", []string{"/etc/vulkan/implicit_layer.d", "/usr/local/share/vulkan/implicit_layer.d",
		"/usr/share/vulkan/implicit_layer.d"}, false, "", ""},
	{"share/glvnd/egl_vendor.d", []string{"/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d"}, true,
		"libEGL_nvidia.so.0", "10_nvidia.json"},
	{"share/egl/egl_external_platform.d", []string{"/etc/egl/egl_external_platform.d",
		"/usr/share/egl/egl_external_platform.d"}, true, "", ""},
	{OpenCL, []string{"/etc/OpenCL/vendors"}, true, "libnvidia-opencl.so.1", "nvidia.icd"},
}

// OpenCL is the directory of the files by which the loader of OpenCL finds drivers.
const OpenCL = "etc/OpenCL/vendors"

// OptixData is what libnvoptix.so.1 opens by this name, without which its denoiser does not work.
const OptixData = "/usr/share/nvidia/nvoptix.bin"

const (
	maxVendorFile  = 64 << 10 // bytes; NVIDIA's have less than one thousand
	maxVendorFiles = 100      // in one directory
)

// vendorName matches the names that such files may have here: they become names in a directory, and parts of lists.
var vendorName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*\.(json|icd)$`)
})

// vendors returns the files by which loaders find the driver's libraries.
func (h *Host) vendors(d *Driver) []*Vendor {
	var all []*Vendor
	own := d.Names()
	for _, kind := range vendorKinds {
		found, seen := h.vendorsIn(kind, h.manifestDirs(d, kind), d, own)
		all = append(all, found...)
		if kind.make != "" && own[kind.make] && !seen[kind.make] {
			v := &Vendor{name: path.Join(kind.dir, kind.name), Libraries: []string{kind.make}}
			if kind.dir != OpenCL {
				const before, after = `{"file_format_version": "1.0.0", "ICD": {"library_path": `, "}}\n"
				v.text, v.at = []byte(before+after), [][2]int{{len(before), len(before)}}
			}
			all = append(all, v)
		}
	}
	return all
}

// VendorsBelow returns the files of one kind, by the name of its directory, that lead to the libraries of a driver,
// below a prefix as a driver link's.
func (h *Host) VendorsBelow(prefix, kind string, d *Driver) []*Vendor {
	for _, k := range vendorKinds {
		if k.dir == kind {
			found, _ := h.vendorsIn(k, []string{path.Join(prefix, kind)}, &Driver{Machine: d.Machine}, d.Names())
			return found
		}
	}
	return nil
}

// manifestDirs returns where a kind's files are that belong to a driver: in share and etc beside its own directory
// first, where that is a lib directory of a prefix (/usr/local/nvidia/lib64, a volume on Kubernetes; /nix/store; a
// driver's container), then where hosts have them.
func (h *Host) manifestDirs(d *Driver, kind vendorKind) (dirs []string) {
	name := strings.TrimPrefix(strings.TrimPrefix(kind.dir, "share/"), "etc/")
	for _, prefix := range prefixes(d) {
		tries := []string{path.Join(prefix, kind.dir), path.Join(prefix, "etc", name)}
		if root, ok := strings.CutSuffix(prefix, "/usr"); ok {
			tries = append(tries, path.Join("/", root, "etc", name))
		}
		for _, dir := range tries {
			if !slices.Contains(kind.hosts, dir) {
				dirs = addOnce(dirs, dir)
			}
		}
	}
	return append(dirs, kind.hosts...)
}

// prefixes returns the directories above the lib directory that a driver is in, by its name and by where its file is.
func prefixes(d *Driver) (all []string) {
	dirs := []string{d.Directory}
	for _, lib := range d.Libraries {
		if lib.Name == cudaRow {
			dirs = append(dirs, path.Dir(lib.File))
		}
	}
	for _, dir := range dirs {
		for at := dir; at != "/" && at != "."; at = path.Dir(at) {
			if name := path.Base(at); name == "lib" || name == "lib64" || name == "lib32" {
				all = addOnce(all, path.Dir(at))
			}
		}
	}
	return all
}

// vendorsIn returns the files of a kind in some directories that lead to the driver's libraries, and which names and
// libraries they have.
func (h *Host) vendorsIn(kind vendorKind, dirs []string, d *Driver, own map[string]bool) (all []*Vendor,
	seen map[string]bool) {
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
			v.Usual = slices.Contains(kind.hosts, dir)
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
	if kind.dir == OpenCL {
		line, _, _ := strings.Cut(string(b), "\n")
		v.Names = []string{strings.TrimSpace(line)}
	} else {
		entries, err := manifestEntries(b)
		if err != nil {
			return nil, err
		}
		v.text = b
		for _, e := range entries {
			if e.arch == "32" && m.Class != elf.ELFCLASS32 || e.arch == "64" && m.Class != elf.ELFCLASS64 {
				return nil, nil
			}
			v.Names, v.at = append(v.Names, e.name), append(v.at, e.at)
		}
	}
	for _, name := range v.Names {
		name = path.Base(name)
		if !own[name] {
			return nil, nil // another vendor's
		}
		v.Libraries = append(v.Libraries, name)
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
	for _, prefix := range addOnce(prefixes(d), "/usr") {
		data := path.Join(prefix, strings.TrimPrefix(OptixData, "/usr"))
		if h.Saw(data); has && h.Root.Exists(data) && h.trusted(data) == nil {
			return data
		}
	}
	return ""
}
