package fixup

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"testing"

	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/tests/tinyelf"
)

// What is found by a DT_RPATH that is inherited, also in libraries that are not edited, and by a name among constants: which
// files are to have a DT_RPATH for that, whatever they had.
func TestKeepRPath(t *testing.T) {
	dir := t.TempDir()
	with := func(o tinyelf.Object, soname string, needed ...string) tinyelf.Object {
		return o.With(elf.DT_SONAME, soname).Needs(needed...)
	}
	for name, o := range map[string]tinyelf.Object{
		dir + "/p.so": tinyelf.Object{}.Needs("liba.so", "libopens.so").With(elf.DT_RPATH, dir), dir + "/liba.so": with(tinyelf.Object{}, "liba.so", "libb.so", "libnone.so"),
		dir + "/libb.so": with(tinyelf.Object{}, "libb.so"), dir + "/libopens.so": with(tinyelf.Object{Data: "\x00libnamed.so\x00"}, "libopens.so"),
		dir + "/r.so": tinyelf.Object{}.Needs("libd.so").With(elf.DT_RPATH, dir+":"+dir+"/e"), dir + "/libd.so": with(tinyelf.Object{}, "libd.so", "libe.so"),
		dir + "/e/libe.so":   with(tinyelf.Object{}, "libe.so"),
		dir + "/libnamed.so": with(tinyelf.Object{}, "libnamed.so"), dir + "/q.so": tinyelf.Object{}.Needs("libb.so").With(elf.DT_RPATH, dir),
	} {
		tinyelf.Put(t, name, o)
	}
	moved := func(file string, from elf.DynTag) move {
		m := move{dir + "/" + file, edit.State{Tag: from, List: nil}, edit.State{Tag: elf.DT_RUNPATH, List: runpath.List{"/driver"}}}
		if from != elf.DT_NULL {
			m.From.List = runpath.List{dir}
			m.To.List = append(m.To.List, dir)
		}
		return m
	}
	for _, c := range []struct {
		moves []move
		keep  []string
	}{
		{[]move{moved("p.so", elf.DT_RPATH)}, []string{"p.so"}},
		{[]move{moved("p.so", elf.DT_RPATH), moved("liba.so", elf.DT_NULL), moved("libb.so", elf.DT_NULL), moved("libopens.so", elf.DT_NULL), moved("libnamed.so", elf.DT_NULL)},
			[]string{"liba.so", "libopens.so", "p.so"}},
		{[]move{moved("q.so", elf.DT_RPATH), moved("libb.so", elf.DT_NULL)}, nil}, // which finds it by itself
		{[]move{moved("p.so", elf.DT_RUNPATH)}, nil},
		// The entry itself goes: no DT_RPATH brings it back.
		{[]move{{dir + "/r.so", edit.State{Tag: elf.DT_RPATH, List: runpath.List{dir, dir + "/e"}}, edit.State{Tag: elf.DT_RUNPATH, List: runpath.List{dir}}}}, nil},
	} {
		var keep []string
		for p, loss := range keepRPath(nil, c.moves) {
			if keep = append(keep, filepath.Base(p)); loss.Opened != (loss.Name == "libnamed.so") {
				t.Errorf("%s: %s", p, loss)
			}
		}
		if slices.Sort(keep); !slices.Equal(keep, c.keep) {
			t.Errorf("%q, want %q", keep, c.keep)
		}
	}
}

// A program that needs the driver starts where there is one, by whichever name it asks for it: what its libraries find there they inherit.
func TestTheDriverByItsPathIsTheDriver(t *testing.T) {
	for name, cuda := range map[string]string{"by name": "libcuda.so.1", "by path": "/run/opengl-driver/nowhere/libcuda.so.1"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.put("out/deps/libinner.so", lib("libinner.so").Object)
			s.put("out/lib/libouter.so", lib("libouter.so", "libinner.so").Object)
			s.put("out/main", onStage("libouter.so", cuda).with(elf.DT_RPATH, "$ORIGIN/lib:$ORIGIN/deps").Object)
			s.byHand()
			r := s.resolve()
			if n := r.outcome("out/lib/libouter.so", "libinner.so", BySystem); n == nil || !n.inherited {
				t.Errorf("%+v", n)
			}
			r.outcome("out/main", cuda, Missing)
			if surprises := r.apply(); len(surprises) > 0 || r.plan("out/lib/libouter.so").Changes() {
				t.Errorf("%+v", surprises)
			}
		})
	}
}
