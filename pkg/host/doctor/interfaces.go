package doctor

import (
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
)

// An api is a way to use a GPU beside CUDA: which libraries programs ask for, and what these must find of the driver.
type api struct {
	name    string
	asks    []string
	library string // the driver's; "" where the vendor's file says which
	kind    string // the directory of the [host.Vendor] whose files lead there; "" for none
	file    string // what programs open, below the driver link, where there is no such kind
	// variable is what names a file of the kind that is elsewhere, "" for none.
	variable string
}

// apis are those. Sources: vendorKinds' and, for what has no file, libglvnd's README, libvdpau's src/vdpau_wrapper.c,
// Mesa's src/gbm/main/backend.c, libva's va/va.c (NVIDIA has no module for it, elFarto's nvidia-vaapi-driver is one),
// NVIDIA's Video Codec SDK and OptiX's optix_stubs.h.
var apis = []api{
	{"OpenGL", []string{"libGL.so.1", "libGLX.so.0", "libOpenGL.so.0"}, "libGLX_nvidia.so.0", "",
		"libGLX_nvidia.so.0", ""},
	{"EGL", []string{"libEGL.so.1"}, "libEGL_nvidia.so.0", "share/glvnd/egl_vendor.d", "",
		"__EGL_VENDOR_LIBRARY_FILENAMES"},
	{"Vulkan", []string{"libvulkan.so.1"}, "", "share/vulkan/icd.d", "", "VK_ADD_DRIVER_FILES"},
	{"OpenCL", []string{"libOpenCL.so.1"}, "libnvidia-opencl.so.1", host.OpenCL, "", ""},
	{"VDPAU", []string{"libvdpau.so.1"}, "libvdpau_nvidia.so.1", "", "vdpau/libvdpau_nvidia.so.1", ""},
	{"VA-API", []string{"libva.so.2"}, "nvidia_drv_video.so", "", "dri/nvidia_drv_video.so", ""},
	{"GBM", []string{"libgbm.so.1"}, "libnvidia-allocator.so.1", "", "gbm/nvidia-drm_gbm.so", ""},
	{"NVENC", []string{"libnvidia-encode.so.1"}, "libnvidia-encode.so.1", "", "libnvidia-encode.so.1", ""},
	{"NVDEC", []string{"libnvcuvid.so.1"}, "libnvcuvid.so.1", "", "libnvcuvid.so.1", ""},
	{"OptiX", []string{"libnvoptix.so.1"}, "libnvoptix.so.1", "", "libnvoptix.so.1", ""},
}

// askedBy returns the object of a load that asks for a library of an API, nil where none does. It is certain where the
// program needs it, or has its name itself: libraries have names of much that their programs never use.
func (a *api) askedBy(load *loader.Load) (by *loader.Object, asks string, certain bool) {
	for _, o := range load.Objects {
		if o.File == nil || !o.Found() || driver.Provides(path.Base(o.Path)) {
			continue
		}
		for _, name := range o.File.Needed {
			if slices.Contains(a.asks, name) {
				return o, name, o.Certain()
			}
		}
		for _, l := range o.File.Literals() {
			if l.Exact && slices.Contains(a.asks, l.Name) && (by == nil || o == load.Main) {
				by, asks, certain = o, l.Name, o == load.Main
			}
		}
	}
	return by, asks, certain
}

// checkInterfaces says which APIs beside CUDA the program uses, and whether each finds the driver.
func (h *Doctor) checkInterfaces(d *Diagnosis, load *loader.Load, drv *host.Driver) {
	run := d.run(load) + ", or for all programs: " + h.installing()
	for i := range apis {
		a := &apis[i]
		by, asks, certain := a.askedBy(load)
		if by == nil || !certain && d.parts != nil { // of several programs what is sure is enough
			continue
		}
		verdict, does := Note, "may open"
		if certain {
			verdict, does = Warning, "asks for"
		}
		who := path.Base(by.Path)
		if d.parts != nil {
			who = by.Path
		}
		says := who + " " + does + " " + asks
		// Where nixpkgs' loaders look, else where the host's do.
		at, opens := a.leads(h, drv, h.Machine.Link(h.Prefix))
		fix, lost := run, ""
		if load.Interp.Store {
			lost = h.lost(drv, load, opens)
		} else {
			at, fix = a.hosts(h, drv), "install that part of the driver"
		}
		noEGL := slices.ContainsFunc(drv.Needs, func(n host.Need) bool { return n.Soname == host.GLVNDEGL && n.Path == "" })
		switch {
		case at != "" && lost != "":
			but := path.Base(opens)
			if at == opens {
				but = "that"
			}
			d.add(a.name, verdict, at, h.itself()+" install"+h.prefixFlag()+", or: "+d.run(load),
				"%s, which finds %s, but %s %s", says, at, but, lost)
		case at != "" && a.name == "Vulkan" && noEGL && !loads(load, host.GLVNDEGL):
			d.add(a.name, verdict, at, "install libglvnd (Debian: libegl1)",
				"%s, which finds %s, but the driver opens %s, and this host has none", says, at, host.GLVNDEGL)
		case at != "":
			d.add(a.name, Good, at, "", "%s, which finds %s", says, at)
		case a.name == "VA-API":
			d.add(a.name, Note, "", "nvidia-vaapi-driver, and LIBVA_DRIVERS_PATH", "%s, for which NVIDIA's driver has no %s",
				says, a.library)
		case !load.Interp.Store && a.beside(drv) != "":
			d.add(a.name, verdict, a.beside(drv), "start it with "+a.variable+"="+remedy.Quote(a.beside(drv)),
				"%s, and does not find %s: the host's loaders do not look there", says, a.beside(drv))
		case a.library != "" && !drv.Names()[a.library], a.library == "" && a.hosts(h, drv) == "":
			d.add(a.name, verdict, drv.Directory, "install that part of the driver", "%s, and there is no %s on this host",
				says, a.what())
		default:
			d.add(a.name, verdict, "", fix, "%s, and finds no %s", says, a.what())
		}
		f := &d.Facts[len(d.Facts)-1]
		if f.Library = who; !certain { // nobody is known to miss it
			f.Remedy = remedy.Remedy{}
		}
	}
}

func (a *api) what() string {
	switch {
	case a.library == "":
		return "file of the driver's in " + a.kind
	case a.kind != "":
		return a.library + " by a file in " + a.kind
	case path.Base(a.file) != a.library:
		return a.library + " by " + a.file
	}
	return a.library
}

// hosts returns which of the host's files leads to the library, "" where none does.
func (a *api) hosts(h *Doctor, drv *host.Driver) string {
	// where libva and libgbm look, whatever else there is of the driver
	if dir := path.Dir(a.file); dir == "dri" || dir == "gbm" {
		for _, dir := range h.Machine.LibraryDirs() {
			if at := path.Join(dir, a.file); h.Root.Exists(at) {
				return at
			}
		}
		return ""
	}
	for _, v := range drv.Vendors {
		if path.Dir(v.Name()) == a.kind && v.Path != "" && v.Usual {
			return v.Path
		}
	}
	for _, lib := range drv.Libraries {
		if a.kind == "" && slices.Contains(lib.Links, a.library) {
			return lib.Path
		}
	}
	return ""
}

// beside returns the file of the driver's own prefix that leads to the library, "" where there is none.
func (a *api) beside(drv *host.Driver) string {
	for _, v := range drv.Vendors {
		if a.variable != "" && path.Dir(v.Name()) == a.kind && v.Path != "" && !v.Usual {
			return v.Path
		}
	}
	return ""
}

// leads returns which file of a driver link leads to the library, "" where none does, and what is opened by it.
func (a *api) leads(h *Doctor, drv *host.Driver, link string) (at, opens string) {
	if at := path.Join(link, a.file); a.kind == "" && h.Root.Exists(at) {
		return at, at
	}
	for _, v := range h.VendorsBelow(path.Dir(link), a.kind, drv) {
		var all []string
		for _, name := range v.Names {
			if !strings.Contains(name, "/") {
				name = path.Join(link, name)
			}
			all = append(all, name)
		}
		if !slices.ContainsFunc(all, func(file string) bool { return !h.Root.Exists(file) }) {
			return v.Path, all[0]
		}
	}
	return "", ""
}

// lost says which library of the host's one of the driver's needs, or opens, and a loader from Nix does not find,
// because that one has no run path and the program has not loaded it; "" for none.
func (h *Doctor) lost(drv *host.Driver, load *loader.Load, file string) string {
	if file == "" {
		return ""
	}
	f := h.Programs.Files().Open(file)
	if f.ELF == nil || f.List != "" {
		return ""
	}
	hosts := drv.Names()
	for _, lib := range drv.Libraries {
		if lib.Soname == f.Soname {
			for _, name := range lib.Links {
				delete(hosts, name) // itself
			}
		}
	}
	for _, n := range drv.Needs {
		hosts[n.Soname] = true
	}
	lacks := func(name string) bool { return hosts[name] && !loads(load, name) }
	for _, name := range f.Needed {
		if lacks(name) {
			return "does not find " + name
		}
	}
	for _, s := range f.Literals() {
		if lacks(s.Name) {
			return "opens " + s.Name + " by its bare name, which a loader from Nix does not find: what needs it fails"
		}
	}
	return ""
}

// loads reports whether a program loads a library of a name, which then serves for all that ask for it.
func loads(load *loader.Load, name string) bool {
	return slices.ContainsFunc(load.Objects, func(o *loader.Object) bool { return o.Found() && path.Base(o.Name) == name })
}
