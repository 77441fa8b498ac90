package symbols

import (
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
)

func TestOwnersOfSymbols(t *testing.T) {
	for symbol, want := range map[string]string{
		"cuInit": driver.LibCUDA, "cuMemCreate": driver.LibCUDA, "cuGetProcAddress_v2": driver.LibCUDA, "cuStreamWaitValue32_v2_ptsz": driver.LibCUDA, "cuEGLInit": "",
		"nvmlInit_v2": "libnvidia-ml.so.1", "cuvidCreateDecoder": "libnvcuvid.so.1",
		"cuFileRead": "libcufile.so", "cudaMalloc": "libcudart.so", "__cudaRegisterFatBinary": "libcudart.so", "cudnnCreate": "libcudnn.so",
		"cublasSgemm_v2": "libcublas.so", "cublasLtMatmul": "libcublasLt.so", "cusparseLtInit": "libcusparseLt.so", "cusparseCreate": "libcusparse.so",
		"ncclAllReduce": "libnccl.so", "__nvJitLinkCreate_12_4": "libnvJitLink.so", "nvjpeg2kDecode": "libnvjpeg2k.so",
		"": "", "cu": "", "cuda": "", "cudart_init": "", "cudaless": "", "cuInitiate": "", "custom": "", "PyInit__C": "", "curl_easy_init": "", "ncurses": "",
	} {
		if got, ok := Owner(symbol); got != want || ok != (want != "") {
			t.Errorf("%q is %q's, want %q", symbol, got, want)
		}
	}
	// What owns symbols is in the tables of libraries; no name of the driver's API is by prefix another's.
	for _, p := range prefixes {
		if !driver.NeedsDriver(p.library) {
			t.Errorf("%s is in neither table", p.library)
		}
	}
	names := strings.Fields(exports)
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) || len(names) < 600 {
		t.Errorf("%d names, not in order, or not each once", len(names))
	}
	for _, name := range names {
		for _, p := range prefixes {
			if rest, ok := strings.CutPrefix(name, p.prefix); ok && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' {
				t.Errorf("%s is by its beginning %s's", name, p.library)
			}
		}
	}
}
