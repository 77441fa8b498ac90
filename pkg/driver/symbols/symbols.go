// Package symbols knows whose function a name is: the driver's or the CUDA toolkit's.
package symbols

import (
	_ "embed"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
)

// exports are the names of the CUDA driver API, a line each: those of the stubs of CUDA 12.5 and 13.0 and of the
// drivers 555 and 580. There is no prefix that they alone have: cuFileRead is another library's.
//
//go:embed exports.txt
var exports string

var driverAPI = sync.OnceValue(func() map[string]bool {
	names := make(map[string]bool, strings.Count(exports, "\n"))
	for name := range strings.Lines(exports) {
		names[strings.TrimSuffix(name, "\n")] = true
	}
	return names
})

// prefixes are what the names of a library's functions begin with, before a capital letter: the longer before the
// shorter. Those of the toolkit were compared with the symbols of CUDA 12.5's stubs; the others are the API
// references'.
var prefixes = []struct{ prefix, library string }{
	{"nvml", "libnvidia-ml.so.1"},
	{"cuvid", "libnvcuvid.so.1"},
	{"cudnn", "libcudnn.so"},
	{"cudss", "libcudss.so"},
	{"cudla", "libcudla.so"},
	{"cuda", "libcudart.so"},
	{"__cuda", "libcudart.so"},
	{"cublasLt", "libcublasLt.so"},
	{"cublasMp", "libcublasMp.so"},
	{"cublas", "libcublas.so"},
	{"cufftMp", "libcufftMp.so"},
	{"cufft", "libcufft.so"},
	{"cuFile", "libcufile.so"},
	{"curand", "libcurand.so"},
	{"cusolverMg", "libcusolverMg.so"},
	{"cusolverMp", "libcusolverMp.so"},
	{"cusolver", "libcusolver.so"},
	{"cusparseLt", "libcusparseLt.so"},
	{"cusparse", "libcusparse.so"},
	{"cutensornet", "libcutensornet.so"},
	{"cutensorMg", "libcutensorMg.so"},
	{"cutensor", "libcutensor.so"},
	{"custatevec", "libcustatevec.so"},
	{"cupti", "libcupti.so"},
	{"nccl", "libnccl.so"},
	{"nvrtc", "libnvrtc.so"},
	{"nvJitLink", "libnvJitLink.so"},
	{"__nvJitLink", "libnvJitLink.so"},
	{"nvFatbin", "libnvfatbin.so"},
	{"__nvFatbin", "libnvfatbin.so"},
	{"nvjpeg2k", "libnvjpeg2k.so"},
	{"nvjpeg", "libnvjpeg.so"},
	{"nvtx", "libnvToolsExt.so"},
	{"nvvm", "libnvvm.so"},
}

// Owner returns the library that defines a function by its name, where that is the driver's or the toolkit's: a
// soname of the driver's, or a name of the toolkit's up to ".so". ok is false for all other names.
func Owner(symbol string) (library string, ok bool) {
	if driverAPI()[symbol] {
		return driver.LibCUDA, true
	}
	for _, p := range prefixes {
		if rest, found := strings.CutPrefix(symbol, p.prefix); found && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' {
			return p.library, true
		}
	}
	return "", false
}
