package audit

import "testing"

// What a closure loses without a reference is what nothing else in it brings, whoever says what refers to what.
func TestGraph(t *testing.T) {
	const list = `[{"path":"/p","narSize":1,"references":["/p","/a","/b","/none"]},{"path":"/a","narSize":10,"references":["/c","/d"]},` +
		`{"path":"/b","narSize":100,"references":["/d"]},{"path":"/c","narSize":1000,"references":["/c"]},{"path":"/d","narSize":10000,"references":[]}]`
	const object = `{"/p":{"narSize":1,"references":["/a"]},"/a":{"narSize":10,"references":[]}}`
	for _, c := range []struct {
		text, pkg, ref string
		bytes          int64
		ok             bool
	}{
		{object, "/p", "/a", 10, true}, {object, "/p", "/b", 0, false}, {object, "/x", "/a", 0, false},
		{list, "/p", "/a", 0, false}, // /none is not known
		{list, "/a", "/c", 1000, true}, {list, "/a", "/d", 10000, true}, {list, "/b", "/d", 10000, true}, {list, "/a",
			"/b", 0, false},
	} {
		g, err := ReadGraph([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if bytes, ok := g.Saved(c.pkg, c.ref); bytes != c.bytes || ok != c.ok {
			t.Errorf("%s without %s: %d, %v", c.pkg, c.ref, bytes, ok)
		}
	}
	if _, err := ReadGraph([]byte("no")); err == nil {
		t.Error("that is taken")
	}
}
