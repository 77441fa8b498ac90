package runpath

import "testing"

func BenchmarkApply(b *testing.B) {
	const all = ReplaceStubs | AddDriverLink | AddCompat
	for _, c := range []struct{ name, list string }{
		{"none", ""},
		{"done", "/opt/compat:/run/opengl-driver/lib:$ORIGIN:$ORIGIN/../lib"},
		{"nixpkgs", "/x/stubs:/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-glibc-2.40/lib:$ORIGIN::/a/b/../c:/run/opengl-driver/lib/"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := world()
			s.Compat = "/opt/compat"
			s.Needed = []string{"libcuda.so.1", "libblas.so", "libc.so.6"}
			for b.Loop() {
				after, _ := s.Apply(Parse(c.list), all)
				_ = after.String()
			}
		})
	}
}
