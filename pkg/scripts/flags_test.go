package scripts

import "testing"

func TestFlagsThatNameTheHostsDirectories(t *testing.T) {
	for text, want := range map[string]string{
		"LDFLAGS=\"-L/run/opengl-driver/lib -lcuda\"":                 "/run/opengl-driver/lib",
		"Libs: -L${libdir} -Wl,-rpath,/usr/local/cuda/lib64 -lcudart": "/usr/local/cuda/lib64",
		"  -Wl,-rpath=/usr/local/cuda-12.4/lib64\n":                   "/usr/local/cuda-12.4/lib64",
		"gcc -Xlinker -rpath -Xlinker /opt/cuda/lib64":                "/opt/cuda/lib64",
		"extra_link_args=[\"-Wl,-rpath,/run/opengl-driver/lib\"]":     "/run/opengl-driver/lib",
		"ld -rpath /usr/lib/nvidia/current":                           "/usr/lib/nvidia/current",
		"dependency_libs=' -L/usr/local/cuda/lib64 -R/opt/x'":         "/usr/local/cuda/lib64",
		"-Wl,-rpath,/nix/store/x-cuda_cudart/lib/stubs":               "/nix/store/x-cuda_cudart/lib/stubs",
		"-Wl,-rpath -Wl,/usr/local/cuda/lib64":                        "/usr/local/cuda/lib64",
		"-L\"/usr/local/cuda/lib64\"":                                 "/usr/local/cuda/lib64",
		"# -L/usr/local/cuda/lib64":                                   "",
		"-L/nix/store/x-cuda_cudart/lib/stubs -lcuda":                 "",
		"-L/usr/local/cudax/lib -L/usr/local/lib":                     "",
		"see /usr/local/cuda/lib64, or --L/usr/local/cuda":            "",
		"-I/usr/local/cuda/include":                                   "",
	} {
		found := Flags("first\n" + text)
		switch {
		case want == "" && len(found) > 0:
			t.Errorf("%q: %+v", text, found)
		case want != "" && (len(found) != 1 || found[0].Directory != want || found[0].Line != 2 || !mayBurn([]byte(text))):
			t.Errorf("%q: %+v, want %s", text, found, want)
		}
	}
}
