package references

import "testing"

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/build", "/build", true}, {"/build", "/build/x/y", true}, {"/build", "/builder", false}, {"/build", "/x/build", false}, {"/build/", "/build//x", true},
		{"/home/*/src", "/home/me/src/main.c", true}, {"/home/*/src", "/home/me/my/src", false}, {"/home/me/a b", "/home/me/a b/x", true},
		{"*-cuda_nvcc-*", "/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-cuda_nvcc-12.8/bin", true}, {"stubs", "/x/stubs/y", true}, {"stubs", "/x/stub", false},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil || p.Match(c.path) != c.want {
			t.Errorf("%s matches %s: %v, want %v", c.pattern, c.path, !c.want, err)
		}
	}
	for _, bad := range []string{"", "/", "/*/x", "a/b", "[", "/["} {
		if _, err := ParsePattern(bad); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}
