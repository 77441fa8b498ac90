package fixup

import (
	"debug/elf"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cuda-runpath/tests/tinyelf"
)

// What is found by a DT_RPATH that is inherited, also by a name among constants: which files get a DT_RPATH for that where a tool
// gives each an entry.
func TestKeepRPath(t *testing.T) {
	for name, c := range map[string]struct {
		put  map[string]object
		keep map[string]string
	}{
		"DT_NEEDED, and a name among constants": {map[string]object{
			"out/p.so": lib("", "liba.so", "libopens.so").with(elf.DT_RPATH, "~/out:~/deps"), "out/liba.so": lib("liba.so", "libb.so", "libnone.so"),
			"deps/libb.so": lib("libb.so"), "out/libopens.so": {tinyelf.Object{Data: "\x00libnamed.so\x00"}.With(elf.DT_SONAME, "libopens.so")},
			"out/libnamed.so": lib("libnamed.so"),
		}, map[string]string{"out/liba.so": "libb.so, which ~/out/liba.so needs", "out/libopens.so": "libnamed.so, which ~/out/libopens.so opens by name"}},
		"of a program, for what it opens": {map[string]object{
			"out/main": onStage().opens("libc.so.6").with(elf.DT_RPATH, "~/deps"), "deps/libb.so": lib("libb.so"), "out/plugin.so": lib("plugin.so", "libb.so"),
		}, map[string]string{"out/plugin.so": "libb.so, which ~/out/plugin.so needs"}},
		"what it finds by itself": {map[string]object{
			"out/q.so": lib("", "libb.so").with(elf.DT_RPATH, "~/out"), "out/libb.so": lib("libb.so"),
		}, nil},
		"what has a DT_RUNPATH inherits nothing": {map[string]object{
			"out/p.so": lib("", "liba.so").with(elf.DT_RPATH, "~/out:~/deps"), "out/liba.so": lib("liba.so", "libb.so").with(elf.DT_RUNPATH, "~/else"),
			"deps/libb.so": lib("libb.so"),
		}, nil},
		"a DT_RUNPATH is not inherited": {map[string]object{
			"out/p.so": lib("", "liba.so").with(elf.DT_RUNPATH, "~/out:~/deps"), "out/liba.so": lib("liba.so", "libb.so"), "deps/libb.so": lib("libb.so"),
		}, nil},
		// The entry itself goes: no DT_RPATH brings it back.
		"the entry goes": {map[string]object{
			"out/r.so": lib("", "libd.so").with(elf.DT_RPATH, "~/out:~/deps/stubs"), "out/libd.so": lib("libd.so", "libe.so"), "deps/stubs/libe.so": lib("libe.so"),
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			for file, o := range c.put {
				s.put(file, o.Object)
			}
			s.byHand()
			s.src.Store, s.set.Map = "/none", driverFirst("/driver")
			got := map[string]string{}
			for _, p := range s.resolve().plans {
				if kept := p.KeptRPath; kept != nil {
					got[strings.TrimPrefix(p.Object.Path, s.dir+"/")] = strings.ReplaceAll(kept.String(), s.dir, "~")
				}
				if o := p.Object; len(p.After) > 0 && (p.tag == elf.DT_RPATH) != (o.Tag == elf.DT_RPATH || p.KeptRPath != nil) {
					t.Errorf("%s: %v", o.Path, p.tag)
				}
			}
			if diff := cmp.Diff(c.keep, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
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
