package syntax

import (
	"fmt"
	"strings"
	"testing"
)

func TestOpens(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"import one", "one!"},
		{"import a.b as c, d\n", "a.b! d!"},
		{"from a.b import c as d, e\nfrom . import f\nfrom ..g import (h,\n  i)\n", "a.b(c e)! .(f)! ..g(h i)!"},
		{"try:\n    import x\nexcept ImportError: import y\n", "x y"},
		{"def f():\n    from z import w\n", "z(w)"},
		// torch: one of the ways is taken.
		{"if a:\n    import q\n    from x import *\nelse:\n    if b:\n        import q\n    from x import *\n", "q x! q x"},
		{"if a: import x\nelif b: import x\nelse: import x, y", "x! x x y"},
		{"if a:\n  import x\nelif b:\n  import y\nelse:\n  import x\n", "x y x"},
		{"if a:\n  from x import y\nelse:\n  from x import z\n", "x(y) x(z)"},
		{"if a:\n  import x\nelif b:\n  import x\nif c:\n  import x\n", "x x x"},
		{"for a in b:\n  import x\nelse:\n  import x\n", "x x"},
		{"if a:\n  ctypes.CDLL('libx.so')\nelse:\n  ctypes.CDLL('libx.so')\n", "'libx.so' 'libx.so'"},
		{"important = 1\nx.import_module('q')\n'import r'\n# import s\n", ""},
		{`ctypes.CDLL("libx.so", ctypes.RTLD_GLOBAL)`, "'libx.so'G!"},
		{"a = ctypes.cdll.LoadLibrary('/p/liby.so')\nb = ffi.dlopen('libz.so.1')\nload = ctypes.CDLL\nload('libw.so')\n", "'/p/liby.so'! 'libz.so.1'! 'libw.so'!"},
		{"CDLL(f'lib{x}.so')\nCDLL('lib' + x)\nCDLL(None)\nCDLL('libq.so', mode=RTLD_NOLOAD)\nload_library('x', '.')\n", ""},
		{"it = 'not ended\nctypes.CDLL(\"libx.so\")\n", "'libx.so'!"},
		{"print('ctypes.CDLL(\"libx.so\")')\n", ""},
	} {
		var got []string
		for _, o := range Opens(c.text) {
			s := o.Module
			if o.Library != "" {
				s = "'" + o.Library + "'"
			}
			if o.Global {
				s += "G"
			}
			if o.Names != nil {
				s += fmt.Sprintf("(%s)", strings.Join(o.Names, " "))
			}
			if o.Sure {
				s += "!"
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q:\n%s\nwant %s", c.text, strings.Join(got, " "), c.want)
		}
	}
	text := "import sys;import site;site.addsitedir('/nix/store/x/lib/python3.12/site-packages'); f(['/y/site-packages','/nix/store/x/lib/python3.12/site-packages'])"
	if got := fmt.Sprint(SiteDirectories(text)); got != "[/nix/store/x/lib/python3.12/site-packages /y/site-packages]" {
		t.Error(got)
	}
}
