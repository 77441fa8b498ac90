package nixpkgs

import "testing"

func TestPackages(t *testing.T) {
	if len(packages()) < 120 {
		t.Errorf("%d packages", len(packages()))
	}
	for soname, want := range map[string]string{
		"libcudart.so.13": "cudaPackages.cuda_cudart", "libcudnn_ops.so.9": "cudaPackages.cudnn", "libnppig.so.12": "cudaPackages.libnpp",
		"libstdc++.so.6": "stdenv.cc.cc.lib", "libgcc_s.so.1": "stdenv.cc.cc.lib", "libz.so.1": "zlib", "libssl.so.1.1": "openssl_1_1",
		"libssl.so.3": "openssl", "libcrypt.so.1": "libxcrypt-legacy", "libtinfo.so.5": "ncurses5", "libtinfo.so.6": "ncurses",
		"libQt5Core.so.5": "libsForQt5.qtbase", "libX11.so.6": "libX11", "libnss3.so": "nss", "libnvrtc-builtins.so.12.4": "cudaPackages.cuda_nvrtc",
		"libnothing.so.1": "", "": "", "libcudart": "", ".so": "", "libcuda.so.1": "",
	} {
		if got := Package(soname); got != want {
			t.Errorf("%s: %q, want %q", soname, got, want)
		}
	}
}

func TestSetOfCUDA(t *testing.T) {
	for soname, want := range map[string]string{
		"libnvrtc.so.11.2": "cudaPackages_11.cuda_nvrtc", "libcudart.so.13": "cudaPackages_13.cuda_cudart", "libcufft.so.11": "cudaPackages_12.libcufft",
		"libcufft.so.9": "cudaPackages.libcufft", "libcudnn.so.9": "cudaPackages.cudnn", "libcudart.so": "cudaPackages.cuda_cudart", "libz.so.1": "zlib",
	} {
		attribute := Package(soname)
		got, told := InCUDA(attribute, soname)
		if got != want || told != (want != attribute) || IsCUDA(attribute) != (soname != "libz.so.1") {
			t.Errorf("%s: %q %v, want %q", soname, got, told, want)
		}
	}
}
