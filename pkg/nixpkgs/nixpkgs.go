// Package nixpkgs says which package of nixpkgs has a library.
package nixpkgs

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// Package returns the attribute of the package that usually has a library of a soname, of CUDA's those of cudaPackages;
// "" where that is not known.
func Package(soname string) string {
	stem, _, ok := strings.Cut(soname, ".so")
	if !ok {
		return ""
	}
	if a, ok := packages()[soname]; ok {
		return a
	}
	if a, ok := packages()[stem]; ok {
		return a
	}
	for _, f := range families {
		if ok, _ := path.Match(f.pattern, stem); ok {
			return f.attribute
		}
	}
	return ""
}

// cudaSet is where a package of CUDA's own version is.
const cudaSet = "cudaPackages."

// InCUDA returns an attribute of cudaPackages in the set of the CUDA that a soname belongs to. told is false where the
// soname does not tell, and for other attributes.
func InCUDA(attribute, soname string) (in string, told bool) {
	rest, ok := strings.CutPrefix(attribute, cudaSet)
	if major := cudaOf(soname); ok && major != "" {
		return "cudaPackages_" + major + "." + rest, true
	}
	return attribute, false
}

// IsCUDA reports whether an attribute is of cudaPackages.
func IsCUDA(attribute string) bool { return strings.HasPrefix(attribute, cudaSet) }

// cudaOf returns the major version of the CUDA that a soname of the toolkit belongs to; ""
// where the name does not tell. These are numbered as the toolkit is (CUDA 12.9 and 13.0
// release notes, table of components); cuFFT was one behind until CUDA 13.
func cudaOf(soname string) string {
	stem, version, _ := strings.Cut(soname, ".so.")
	major, _, _ := strings.Cut(version, ".")
	switch {
	case slices.Contains([]string{"libcudart", "libcublas", "libcublasLt", "libnvblas", "libnvrtc", "libnvJitLink",
		"libcupti", "libnvfatbin"}, stem),
		strings.HasPrefix(stem, "libnpp"):
		return major
	case stem == "libcufft" || stem == "libcufftw":
		return map[string]string{"10": "11", "11": "12", "12": "13"}[major]
	}
	return ""
}

// families are libraries of many names.
var families = []struct{ pattern, attribute string }{
	{"libnpp*", "cudaPackages.libnpp"},
	{"libcudnn*", "cudaPackages.cudnn"},
	{"libnvinfer*", "cudaPackages.tensorrt"},
	{"libnvonnxparser*", "cudaPackages.tensorrt"},
	{"libnvrtc*", "cudaPackages.cuda_nvrtc"},
	{"libnvperf_*", "cudaPackages.cuda_cupti"},
	{"libcutensor*", "cudaPackages.libcutensor"},
	{"libcudss*", "cudaPackages.libcudss"},
	{"libnvshmem*", "cudaPackages.libnvshmem"},
	{"libicu*", "icu"},
	{"libboost_*", "boost"},
	{"libQt5WebEngine*", "libsForQt5.qtwebengine"},
	{"libQt5*", "libsForQt5.qtbase"},
	{"libQt6WebEngine*", "qt6.qtwebengine"},
	{"libQt6*", "qt6.qtbase"},
	{"libopencv_*", "opencv"},
	{"libabsl_*", "abseil-cpp"},
	{"libgrpc*", "grpc"},
	{"libmkl_*", "mkl"},
	{"libpython3.*", "python3"},
	{"libLLVM*", "libllvm"},
	{"libclang*", "libclang.lib"},
	{"libMagick*", "imagemagick"},
	{"libgst*", "gst_all_1.gst-plugins-base"},
	{"libperl*", "perl"},
	{"libvtk*", "vtk"},
	{"libgdal*", "gdal"},
	{"libhdf5*", "hdf5"},
	{"libpoppler*", "poppler"},
	{"libxcb-*", "libxcb"},
}

// packages maps sonames, or what is before ".so", to nixpkgs attributes: CUDA's, and
// those of the libraries that prebuilt software asks for most.
var packages = sync.OnceValue(func() map[string]string {
	return map[string]string{
		// The CUDA toolkit and what NVIDIA builds on it (nixpkgs, cudaPackages).
		"libcudart": "cudaPackages.cuda_cudart", "libcudadevrt": "cudaPackages.cuda_cudart",
		"libcublas": "cudaPackages.libcublas", "libcublasLt": "cudaPackages.libcublas", "libnvblas": "cudaPackages.libcublas",
		"libcufft": "cudaPackages.libcufft", "libcufftw": "cudaPackages.libcufft",
		"libcurand": "cudaPackages.libcurand", "libcusolver": "cudaPackages.libcusolver",
		"libcusolverMg": "cudaPackages.libcusolver",
		"libcusparse":   "cudaPackages.libcusparse", "libcusparseLt": "cudaPackages.libcusparse_lt",
		"libnvJitLink": "cudaPackages.libnvjitlink", "libnvfatbin": "cudaPackages.libnvfatbin",
		"libnvjpeg": "cudaPackages.libnvjpeg", "libnvjpeg2k": "cudaPackages.libnvjpeg_2k",
		"libnvtiff": "cudaPackages.libnvtiff",
		"libcupti":  "cudaPackages.cuda_cupti", "libpcsamplingutil": "cudaPackages.cuda_cupti",
		"libcheckpoint": "cudaPackages.cuda_cupti",
		"libnvToolsExt": "cudaPackages.cuda_nvtx", "libnvtx3interop": "cudaPackages.cuda_nvtx",
		"libaccinj64": "cudaPackages.cuda_nvprof", "libcuinj64": "cudaPackages.cuda_nvprof",
		"libcufile": "cudaPackages.libcufile", "libcufile_rdma": "cudaPackages.libcufile",
		"libcudla": "cudaPackages.libcudla",
		"libnccl":  "cudaPackages.nccl", "libOpenCL": "ocl-icd", "libnvvm": "cudaPackages.cuda_nvcc",

		// The compiler's run time.
		"libstdc++": "stdenv.cc.cc.lib", "libgcc_s": "stdenv.cc.cc.lib", "libgomp": "stdenv.cc.cc.lib",
		"libatomic":   "stdenv.cc.cc.lib",
		"libquadmath": "gfortran.cc.lib", "libgfortran": "gfortran.cc.lib", "libasan": "stdenv.cc.cc.lib",
		"libubsan": "stdenv.cc.cc.lib",
		"libomp":   "llvmPackages.openmp", "libc++": "llvmPackages.libcxx", "libc++abi": "llvmPackages.libcxx",
		"libunwind": "libunwind",
		"libobjc":   "gcc.cc.lib", "libcrypt.so.1": "libxcrypt-legacy", "libcrypt.so.2": "libxcrypt", "libcrypt": "libxcrypt",

		// Compression, cryptography, data.
		"libz": "zlib", "libbz2": "bzip2", "liblzma": "xz", "libzstd": "zstd", "liblz4": "lz4", "libsnappy": "snappy",
		"libbrotlidec": "brotli", "libbrotlicommon": "brotli", "libbrotlienc": "brotli", "libarchive": "libarchive",
		"libzip":      "libzip",
		"libssl.so.3": "openssl", "libcrypto.so.3": "openssl", "libssl.so.1.1": "openssl_1_1",
		"libcrypto.so.1.1": "openssl_1_1",
		"libssl":           "openssl", "libcrypto": "openssl", "libgnutls": "gnutls", "libnettle": "nettle",
		"libhogweed": "nettle",
		"libgcrypt":  "libgcrypt", "libgpg-error": "libgpg-error", "libsodium": "libsodium", "libgmp": "gmp",
		"libmpfr": "mpfr", "libmpc": "libmpc",
		"libexpat": "expat", "libxml2": "libxml2", "libxslt": "libxslt", "libyaml-0": "libyaml", "libjson-c": "json_c",
		"libsqlite3": "sqlite",
		"libffi":     "libffi", "libpcre": "pcre", "libpcre2-8": "pcre2", "libpcre2-16": "pcre2", "libonig": "oniguruma",
		"libre2":      "re2",
		"libprotobuf": "protobuf", "libuuid": "libuuid", "libblkid": "util-linux.lib", "libmount": "util-linux.lib",
		"libtcmalloc": "gperftools", "libtcmalloc_minimal": "gperftools", "libjemalloc": "jemalloc", "libtbb": "onetbb",
		"libtbbmalloc": "onetbb",
		"libblas":      "blas", "liblapack": "lapack", "libopenblas": "openblas", "libfftw3": "fftw",
		"libfftw3f": "fftwFloat",
		"libgsl":    "gsl",
		"libnuma":   "numactl", "libhwloc": "hwloc", "libmpi": "openmpi", "libucp": "ucx", "libucs": "ucx", "libuct": "ucx",
		"libucm":     "ucx",
		"libibverbs": "rdma-core", "librdmacm": "rdma-core", "libmlx5": "rdma-core", "libgdrapi": "gdrcopy",
		"libpmix": "pmix", "libfabric": "libfabric",
		"libmagma": "magma", "libonnxruntime": "onnxruntime",

		// The system.
		"libudev": "systemdLibs", "libsystemd": "systemdLibs", "libdbus-1": "dbus", "libcap": "libcap",
		"libcap-ng": "libcap_ng", "libselinux": "libselinux",
		"libacl": "acl", "libattr": "attr", "libpam": "pam", "libseccomp": "libseccomp", "libkeyutils": "keyutils",
		"libpciaccess": "libpciaccess",
		"libkrb5":      "libkrb5", "libgssapi_krb5": "libkrb5", "libk5crypto": "libkrb5", "libcom_err": "libkrb5",
		"libldap": "openldap", "liblber": "openldap",
		"libcurl": "curl", "libnghttp2": "nghttp2", "libssh": "libssh", "libssh2": "libssh2", "libidn2": "libidn2",
		"libpsl": "libpsl", "libev": "libev", "libevent-2.1": "libevent", "libuv": "libuv",
		"libncurses": "ncurses", "libncursesw": "ncurses", "libtinfo.so.6": "ncurses", "libtinfo.so.5": "ncurses5",
		"libncurses.so.5": "ncurses5",
		"libreadline":     "readline", "libedit": "libedit", "libpq": "libpq", "libmysqlclient": "libmysqlclient",
		"libodbc": "unixODBC", "libodbcinst": "unixODBC",
		"libusb-1.0": "libusb1", "libusb-0.1": "libusb-compat-0_1", "libftdi1": "libftdi1", "libhidapi-hidraw": "hidapi",
		"libpcap": "libpcap", "libnl-3": "libnl", "libnl-route-3": "libnl",
		"libelf": "elfutils", "libdw": "elfutils", "libiberty": "libiberty", "libgpm": "gpm", "libpopt": "popt",
		"libltdl": "libtool.lib", "libfuse": "fuse", "libfuse3": "fuse3",

		// Graphics, sound, windows.
		"libGL": "libGL", "libEGL": "libGL", "libGLX": "libGL", "libOpenGL": "libGL", "libGLdispatch": "libGL",
		"libGLESv2": "libGL", "libGLU": "libGLU", "libglut": "libglut", "libGLEW": "glew",
		"libvulkan": "vulkan-loader", "libgbm": "libgbm", "libdrm": "libdrm", "libva": "libva", "libva-drm": "libva",
		"libva-x11": "libva", "libvdpau": "libvdpau", "libglfw": "glfw", "libshaderc_shared": "shaderc",
		"libX11": "libX11", "libX11-xcb": "libX11", "libXext": "libXext", "libXrender": "libXrender",
		"libXrandr": "libXrandr", "libXi": "libXi", "libXfixes": "libXfixes",
		"libXcursor": "libXcursor", "libXcomposite": "libXcomposite", "libXdamage": "libXdamage", "libXtst": "libXtst",
		"libXinerama": "libXinerama", "libXxf86vm": "libXxf86vm",
		"libXss": "libXScrnSaver", "libXt": "libXt", "libXmu": "libXmu", "libXpm": "libXpm", "libXft": "libXft",
		"libXaw": "libXaw", "libXau": "libXau", "libXdmcp": "libXdmcp", "libXv": "libXv",
		"libSM": "libSM", "libICE": "libICE", "libxcb": "libxcb", "libxkbcommon": "libxkbcommon",
		"libxkbcommon-x11": "libxkbcommon", "libxkbfile": "libxkbfile", "libxshmfence": "libxshmfence",
		"libwayland-client": "wayland", "libwayland-cursor": "wayland", "libwayland-egl": "wayland",
		"libwayland-server": "wayland", "libdecor-0": "libdecor",
		"libglib-2.0": "glib", "libgobject-2.0": "glib", "libgio-2.0": "glib", "libgmodule-2.0": "glib",
		"libgthread-2.0": "glib", "libsecret-1": "libsecret", "libnotify": "libnotify",
		"libgtk-3": "gtk3", "libgdk-3": "gtk3", "libgtk-4": "gtk4", "libgtk-x11-2.0": "gtk2", "libgdk-x11-2.0": "gtk2",
		"libgdk_pixbuf-2.0": "gdk-pixbuf", "libwebkit2gtk-4.1": "webkitgtk_4_1", "libjavascriptcoregtk-4.1": "webkitgtk_4_1",
		"libcairo": "cairo", "libcairo-gobject": "cairo", "libpango-1.0": "pango", "libpangocairo-1.0": "pango",
		"libpangoft2-1.0": "pango", "libharfbuzz": "harfbuzz", "libfreetype": "freetype", "libfontconfig": "fontconfig",
		"libfribidi": "fribidi", "libpixman-1": "pixman",
		"libatk-1.0": "at-spi2-core", "libatk-bridge-2.0": "at-spi2-core", "libatspi": "at-spi2-core", "libcups": "cups",
		"libappindicator3": "libappindicator-gtk3", "libayatana-appindicator3": "libayatana-appindicator",
		"libnss3": "nss", "libnssutil3": "nss", "libsmime3": "nss", "libssl3": "nss", "libnspr4": "nspr", "libplc4": "nspr",
		"libplds4":  "nspr",
		"libasound": "alsa-lib", "libpulse": "libpulseaudio", "libpulse-simple": "libpulseaudio",
		"libpipewire-0.3": "pipewire", "libjack": "libjack2", "libopenal": "openal", "libsndfile": "libsndfile",
		"libportaudio": "portaudio",
		"libSDL2-2.0":  "SDL2", "libSDL2": "SDL2", "libSDL3": "SDL3", "libSDL-1.2": "SDL", "libpng16": "libpng",
		"libpng12": "libpng12", "libjpeg.so.8": "libjpeg8", "libjpeg": "libjpeg", "libturbojpeg": "libjpeg",
		"libtiff": "libtiff", "libwebp": "libwebp", "libgif": "giflib", "libopenjp2": "openjpeg",
		"libavcodec": "ffmpeg", "libavformat": "ffmpeg", "libavutil": "ffmpeg", "libavfilter": "ffmpeg",
		"libavdevice": "ffmpeg", "libswscale": "ffmpeg", "libswresample": "ffmpeg", "libx264": "x264", "libx265": "x265",
		"libvpx": "libvpx", "libopus": "libopus", "libvorbis": "libvorbis", "libogg": "libogg", "libmp3lame": "lame",
		"libFLAC": "flac",
		"libsox":  "sox", "libmpg123": "libmpg123", "libgstreamer-1.0": "gst_all_1.gstreamer",
	}
})
