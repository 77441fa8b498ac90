package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFinished(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := top + "/the/store"
	const hash = "0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-"
	object := func(name string, mode os.FileMode, modified time.Time) string {
		at := filepath.Join(dir, name)
		os.MkdirAll(filepath.Join(at, "lib"), 0o755)
		os.Chtimes(at, modified, modified)
		os.Chmod(at, mode)
		t.Cleanup(func() { os.Chmod(at, 0o755) })
		return at
	}
	one := time.Unix(1, 0)
	done := object(hash+"done", 0o555, one)
	writable := object(hash+"writable", 0o755, one)
	young := object(hash+"young", 0o555, time.Now())
	other := object("other", 0o555, one)
	os.Symlink(dir, top+"/link")
	for i, to := 1, dir; i <= 41; i++ { // path_resolution(7): 40 links are followed
		next := fmt.Sprint(top, "/links", i)
		os.Symlink(to, next)
		to = next
	}
	if object := On(top + "/links41").Finished(done); object != "" {
		t.Errorf("41 links are followed to %s", object)
	}
	for _, s := range []*Stores{On(dir), On("", top+"/link"), On(top + "/links40"), On(dir + "/")} {
		for path, want := range map[string]struct {
			object string
			among  bool
		}{
			done: {done, false}, done + "/lib/x.so": {done, false}, dir + "/.links": {dir + "/.links", false}, dir + "/.links/1x": {dir + "/.links", false},
			writable + "/lib": {}, young + "/lib": {}, other: {}, dir + "/" + hash + "nowhere": {}, top + "/elsewhere" + done: {}, dir + "s/" + hash + "done": {},
			dir: {"", true}, top: {"", true}, "/": {"", true}, top + "/th": {},
		} {
			for range 2 { // what is known is the same
				if object, among := s.Finished(path), s.among(path); object != want.object || among != want.among {
					t.Errorf("%s: %q, %v, want %q, %v", path, object, among, want.object, want.among)
				}
			}
		}
	}
}
