package driver

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// Class says what a driver-provided library is for.
type Class string

// The classes of the driver's libraries.
const (
	CUDA     Class = "cuda"     // the CUDA driver API
	NVML     Class = "nvml"     // management
	Compiler Class = "compiler" // PTX and NVVM compilers, the fat binary loader
	OpenCL   Class = "opencl"   // the OpenCL implementation behind the ICD loader
	Video    Class = "video"    // encode, decode, optical flow, VDPAU
	OptiX    Class = "optix"    // ray tracing
	Graphics Class = "graphics" // EGL, GLX, GLES and Vulkan implementations, their cores and platforms
	NGX      Class = "ngx"      // DLSS and friends
	Support  Class = "support"  // allocator, configuration, confidential computing
	Tegra    Class = "tegra"    // the lower layers on Jetson
	WSL      Class = "wsl"      // the Windows driver seen from Linux
)

// Library is one row of the table of driver-provided libraries.
type Library struct {
	// Name is the file name up to and including ".so", or a pattern of path.Match for it.
	Name string
	// Soname is what programs link against, where it is one and is the same
	// for all drivers; "" where the soname carries the driver's version.
	Soname string
	Class  Class
}

// libraries is the table of the libraries that ship with the driver and never
// with the toolkit. Its rows come from
//
//   - the driver's README, chapter "Installed Components" (450.80.02, 470.63.01,
//     515.65.01 for aarch64, 550.54.14, 565.57.01);
//   - the lists of libnvidia-container (src/nvc_info.c: utility, compute, video,
//     graphics, ngx and dxcore libraries) and of nvidia-container-toolkit
//     (pkg/nvcdi, internal/discover/graphics.go);
//   - for Jetson, L4T's driver list for containers (drivers.csv), and what
//     nixpkgs declares as coming from the host for cuda_compat and libcudla.
//
// Not in it: the vendor-neutral front ends (libGL.so.1, libEGL.so.1, libOpenCL.so.1,
// libvulkan.so.1), which any package may bring.
var libraries = []Library{
	{"libcuda.so", "libcuda.so.1", CUDA},
	{"libcudadebugger.so", "libcudadebugger.so.1", CUDA},

	{"libnvidia-ml.so", "libnvidia-ml.so.1", NVML},
	{"libnvidia-nscq.so", "libnvidia-nscq.so.2", NVML},
	{"libnvidia-sandboxutils.so", "libnvidia-sandboxutils.so.1", NVML},

	{"libnvidia-ptxjitcompiler.so", "libnvidia-ptxjitcompiler.so.1", Compiler},
	{"libnvidia-nvvm.so", "libnvidia-nvvm.so.4", Compiler},
	{"libnvidia-nvvm70.so", "libnvidia-nvvm70.so.4", Compiler},
	{"libnvidia-compiler.so", "", Compiler},
	{"libnvidia-compiler-next.so", "", Compiler},
	{"libnvidia-gpucomp.so", "", Compiler},
	{"libnvidia-tileiras.so", "", Compiler},
	{"libnvidia-fatbinaryloader.so", "", Compiler},

	{"libnvidia-opencl.so", "libnvidia-opencl.so.1", OpenCL},

	{"libnvcuvid.so", "libnvcuvid.so.1", Video},
	{"libnvidia-encode.so", "libnvidia-encode.so.1", Video},
	{"libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1", Video},
	{"libnvidia-present.so", "", Video},
	{"libvdpau_nvidia.so", "libvdpau_nvidia.so.1", Video},

	{"libnvoptix.so", "libnvoptix.so.1", OptiX},
	{"libnvidia-rtcore.so", "", OptiX},

	{"libEGL_nvidia.so", "libEGL_nvidia.so.0", Graphics},
	{"libGLX_nvidia.so", "libGLX_nvidia.so.0", Graphics},
	{"libGLESv1_CM_nvidia.so", "libGLESv1_CM_nvidia.so.1", Graphics},
	{"libGLESv2_nvidia.so", "libGLESv2_nvidia.so.2", Graphics},
	{"libglxserver_nvidia.so", "", Graphics},
	{"libnvidia-api.so", "libnvidia-api.so.1", Graphics},
	{"libnvidia-cbl.so", "", Graphics},
	{"libnvidia-egl-gbm.so", "libnvidia-egl-gbm.so.1", Graphics},
	{"libnvidia-egl-wayland.so", "libnvidia-egl-wayland.so.1", Graphics},
	{"libnvidia-egl-wayland2.so", "libnvidia-egl-wayland2.so.1", Graphics},
	{"libnvidia-egl-xcb.so", "libnvidia-egl-xcb.so.1", Graphics},
	{"libnvidia-egl-xlib.so", "libnvidia-egl-xlib.so.1", Graphics},
	{"libnvidia-eglcore.so", "", Graphics},
	{"libnvidia-fbc.so", "libnvidia-fbc.so.1", Graphics},
	{"libnvidia-glcore.so", "", Graphics},
	{"libnvidia-glsi.so", "", Graphics},
	{"libnvidia-glvkspirv.so", "", Graphics},
	{"libnvidia-ifr.so", "libnvidia-ifr.so.1", Graphics},
	{"libnvidia-tls.so", "", Graphics},
	{"libnvidia-vksc-core.so", "libnvidia-vksc-core.so.1", Graphics},
	{"libnvidia-vulkan-producer.so", "", Graphics},
	{"libnvidia-wfb.so", "libnvidia-wfb.so.1", Graphics},

	{"libnvidia-ngx.so", "libnvidia-ngx.so.1", NGX},

	{"libnvidia-allocator.so", "libnvidia-allocator.so.1", Support},
	{"libnvidia-cfg.so", "libnvidia-cfg.so.1", Support},
	{"libnvidia-pkcs11.so", "", Support},
	{"libnvidia-pkcs11-openssl3.so", "", Support},

	{"libnvrm.so", "libnvrm.so", Tegra},
	{"libnvrm_*.so", "", Tegra},
	{"libnvdla_runtime.so", "libnvdla_runtime.so", Tegra},
	{"libnvdla_compiler.so", "libnvdla_compiler.so", Tegra},
	{"libnvcudla.so", "libnvcudla.so", Tegra},
	{"libnvcucompat.so", "libnvcucompat.so", Tegra},
	{"libnvos.so", "libnvos.so", Tegra},
	{"libnvsocsys.so", "libnvsocsys.so", Tegra},
	{"libnvtegrahv.so", "libnvtegrahv.so", Tegra},
	{"libnvsciipc.so", "libnvsciipc.so", Tegra},
	{"libnvscibuf.so", "libnvscibuf.so.1", Tegra},
	{"libnvscisync.so", "libnvscisync.so.1", Tegra},
	{"libnvscistream.so", "libnvscistream.so.1", Tegra},
	{"libnvscievent.so", "libnvscievent.so", Tegra},
	{"libnvscicommon.so", "libnvscicommon.so.1", Tegra},
	{"libnvbuf_*.so", "", Tegra},
	{"libnvbufsurface.so", "", Tegra},
	{"libnvbufsurftransform.so", "", Tegra},
	{"libnvmedia*.so", "", Tegra},
	{"libnvargus*.so", "", Tegra},
	{"libnvvic.so", "libnvvic.so", Tegra},
	{"libnvpva.so", "libnvpva.so", Tegra},
	{"libnvddk_*.so", "", Tegra},
	{"libnvdc.so", "libnvdc.so", Tegra},
	{"libnvimp.so", "libnvimp.so", Tegra},
	{"libnvfnet*.so", "", Tegra},
	{"libv4l2_nvargus.so", "", Tegra},

	{"libdxcore.so", "libdxcore.so", WSL},
	{"libd3d12.so", "libd3d12.so", WSL},
	{"libd3d12core.so", "libd3d12core.so", WSL},
	{"libnvdxgdmal.so", "libnvdxgdmal.so.1", WSL},
	{"libnvidia-ml_loader.so", "", WSL},
	{"libcuda_loader.so", "", WSL},
}

// Match reports whether a name is the library's, with or without a version:
// "libcuda.so", "libcuda.so.1" and "libcuda.so.580.95.05" are all libcuda.so's.
// name is a file name or a soname, with no directory.
func (l Library) Match(name string) bool { return matches(l.Name, base(name)) }

// Lookup returns the driver-provided library that a name stands for.
func Lookup(name string) (Library, bool) {
	stem, t := base(name), names()
	if i, ok := t.exact[stem]; ok {
		return libraries[i], true
	}
	for _, i := range t.patterns {
		if matches(libraries[i].Name, stem) {
			return libraries[i], true
		}
	}
	return Library{}, false
}

// index is where rows of a table are: by their name, and those whose name is a pattern.
type index struct {
	exact    map[string]int
	patterns []int
}

// names finds rows of the table of the driver's libraries.
var names = sync.OnceValue(func() *index {
	t := &index{exact: make(map[string]int, len(libraries))}
	for i, l := range libraries {
		if strings.Contains(l.Name, "*") {
			t.patterns = append(t.patterns, i)
		} else {
			t.exact[l.Name] = i
		}
	}
	return t
})

// Provides reports whether a name is a driver-provided library's.
func Provides(name string) bool {
	_, ok := Lookup(name)
	return ok
}

// toolkit lists the libraries of the CUDA toolkit and of NVIDIA's libraries on
// top of it, the same way. Source: the table of redistributables in the CUDA
// toolkit's EULA (attachment A) and the release notes of cuDNN, NCCL, cuTENSOR,
// cuSPARSELt, TensorRT, cuDSS and NVSHMEM.
var toolkit = []string{
	"libcudart.so", "libcublas.so", "libcublasLt.so", "libcufft.so", "libcufftw.so", "libcufftMp.so",
	"libcurand.so", "libcusolver.so", "libcusolverMg.so", "libcusolverMp.so", "libcusparse.so",
	"libcusparseLt.so", "libcutensor.so", "libcutensorMg.so", "libcutensornet.so", "libcustatevec.so",
	"libcudss*.so", "libcudnn*.so", "libnccl.so", "libnvshmem*.so", "libcufile.so", "libcufile_rdma.so",
	"libnvblas.so", "libnvrtc.so", "libnvrtc.alt.so", "libnvrtc-builtins.so", "libnvrtc-builtins.alt.so",
	"libnvJitLink.so", "libnvfatbin.so", "libnvvm.so", "libnvptxcompiler.so", "libcheckpoint.so",
	"libnvjpeg.so", "libnvjpeg2k.so", "libnvtiff.so", "libnvimgcodec.so", "libnpp*.so",
	"libcupti.so", "libnvperf_*.so", "libpcsamplingutil.so", "libaccinj64.so", "libcuinj64.so",
	"libnvToolsExt.so", "libnvtx3interop.so", "libcudla.so", "libcudadevrt.so",
	"libnvinfer*.so", "libnvonnxparser.so", "libnvparsers.so", "libcublasMp.so", "libcal.so", "libcvcuda.so",
}

// Toolkit reports whether a name is a CUDA toolkit library's: a program that
// loads one needs the driver, because these load libcuda.so.1 themselves.
func Toolkit(name string) bool {
	stem := base(name)
	return slices.ContainsFunc(toolkit, func(pattern string) bool { return matches(pattern, stem) })
}

// NeedsDriver reports whether a program that loads a library of that name needs
// the host's driver: the name is the driver's own or the toolkit's.
func NeedsDriver(name string) bool { return Provides(name) || Toolkit(name) }

// base cuts a name after its ".so"; what follows must be a version (".1",
// ".12.4", ".580.95.05", but not ".conf"). It returns "" for any other name.
func base(name string) string {
	if !strings.HasPrefix(name, "lib") { // as all names in the tables do
		return ""
	}
	i := strings.LastIndex(name, ".so")
	if i <= 0 || strings.ContainsAny(name, "/\x00") {
		return ""
	}
	version := name[i+len(".so"):]
	if version != "" && version[0] != '.' || version == "." {
		return ""
	}
	for _, c := range version {
		if c != '.' && (c < '0' || c > '9') {
			return ""
		}
	}
	return name[:i+len(".so")]
}

func matches(pattern, stem string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == stem
	}
	// Most names differ in their first letters: do not start the matcher for them.
	if !strings.HasPrefix(stem, pattern[:strings.IndexByte(pattern, '*')]) {
		return false
	}
	ok, err := path.Match(pattern, stem)
	return ok && err == nil
}

// PartOf reports whether a library is a part of what another one belongs to: libcudnn_engines_precompiled.so.9 of
// libcudnn.so.9, libnvrtc-builtins.so.12.4 of libnvrtc.so.12. A version's first number is the same.
func PartOf(name, of string) bool {
	stem, version, _ := strings.Cut(of, ".so")
	its, have, _ := strings.Cut(name, ".so")
	family, _, _ := strings.Cut(stem, "_")
	major := func(v string) string { m, _, _ := strings.Cut(strings.TrimPrefix(v, "."), "."); return m }
	return family != "" && its != stem && (strings.HasPrefix(its, family+"_") || strings.HasPrefix(its, family+"-")) &&
		!strings.Contains(its, ".alt") &&
		major(version) != "" && (major(have) == "" || major(have) == major(version))
}
