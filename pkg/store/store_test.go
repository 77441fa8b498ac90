package store

import "testing"

func TestPath(t *testing.T) {
	const hash = "0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q"
	for p, want := range map[string]string{
		"/nix/store/" + hash + "-hello-2.12":                "/nix/store/" + hash + "-hello-2.12",
		"/nix/store/" + hash + "-hello-2.12/bin/hello":      "/nix/store/" + hash + "-hello-2.12",
		"/gnu/store/" + hash + "-hello-2.12/bin":            "/gnu/store/" + hash + "-hello-2.12",
		"/home/me/store/" + hash + "-x/" + hash + "-y":      "/home/me/store/" + hash + "-x",
		"/nix/store/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-cuda/": "/nix/store/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-cuda",
		"/store/store/" + hash + "-x":                       "/store/store/" + hash + "-x",
		"/nix/store":                                        "",
		"/nix/store/":                                       "",
		"/nix/store/" + hash:                                "",
		"/nix/store/" + hash + "-":                          "",
		"/nix/store/" + hash + "_x":                         "",
		"/nix/store/x" + hash + "-x":                        "",
		"/nix/store/0C0N1R2KDB6VXR91PVLC5V6NSHQKFI9Q-x":     "",
		"/nix/store/.links/" + hash + "-x":                  "",
		"/cache/" + hash + "-build/lib":                     "", // a hash of another kind
		"":                                                  "",
	} {
		if got := Path(p); got != want || Contains(p) != (want != "") {
			t.Errorf("%q is in %q, not %q", p, got, want)
		}
	}
}

func TestIn(t *testing.T) {
	const object = "/opt/pkgs/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-cuda-stubs"
	for _, c := range []struct{ directory, path, want string }{
		{"/opt/pkgs", object + "/lib", object},
		{"/opt/pkgs/", object, object},
		{"/opt/pkgs", "/opt/pkgs/cuda-stubs/lib", ""},
		{"/opt/pkgs", "/opt/pkgs-too/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-cuda-stubs", ""},
		{"/opt", object, ""},
		{"/opt/pkgs", "/opt/pkgs", ""},
	} {
		if got := In(c.directory, c.path); got != c.want {
			t.Errorf("%q is in %q of %q, not %q", c.path, got, c.directory, c.want)
		}
	}
}

func TestName(t *testing.T) {
	const hash = "0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q"
	for p, want := range map[string]string{
		"/nix/store/" + hash + "-hello-2.12/bin":               "hello-2.12",
		"/opt/pkgs/" + hash + "-x-stubs/lib":                   "x-stubs",
		hash + "-x":                                            "x",
		"/opt/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9e-x-stubs/lib":    "", // e is no digit of Nix's
		"/opt/pkgs/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9-x":          "",
		"/opt/pkgs/" + hash + "-":                              "",
		"/nix/store/" + hash + "-a/" + hash + "-inner-stubs/x": "inner-stubs",
		"":  "",
		"/": "",
	} {
		if got := Name(p); got != want {
			t.Errorf("%q has the name %q, not %q", p, got, want)
		}
	}
}
