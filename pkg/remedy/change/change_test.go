package change

import "testing"

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		file File
		argv []string
		want string
	}{
		{File{Path: "-x"}, []string{"runpath", "add", "/a b"}, "runpath add '/a b' ./-x"},
		{File{Path: "p", Object: "/s/h-x-1", Rest: "bin/a b", Program: "p"}, []string{"stubReplace"},
			"for today, hostDriver run ./p; for good, add stubReplace to nativeBuildInputs, and do not set dontStubReplace"},
		{File{Path: "p", Object: "/s/h-x-1.0-lib", Rest: "lib/a b"}, []string{"runpath", "add", "$ORIGIN"},
			`for today, edit a copy; for good, in the postFixup of the package: runpath add '$ORIGIN' "$lib"/'lib/a b'`},
		{File{Path: "p", Object: "/s/h-dev"}, []string{"runpath", "shrink"}, `for today, edit a copy; for good, in the postFixup of the package: runpath shrink "$out"`},
		{File{Path: "p", Object: "/s/h-x", Building: true}, []string{"autoAddDriverRunpath"}, "add autoAddDriverRunpath to nativeBuildInputs"},
		{File{Path: "/usr/lib/wsl/lib/libcuda.so.1", Driver: true, Program: "p"}, []string{"autoAddDriverRunpath"},
			"for today, hostDriver run ./p; /usr/lib/wsl/lib/libcuda.so.1 itself is the host's driver's, which is not edited"},
	} {
		if r := Run(c.file, c.argv...); r.Whole() != c.want || (r.Command != nil) != (c.file.Object == "" && !c.file.Driver) {
			t.Errorf("%+v, not %q", r, c.want)
		}
	}
}
