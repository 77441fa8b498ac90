package elfimage

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cuda-runpath/tests/tinyelf"
)

// What is needed weakly is told, which linkers seldom write.
func TestWeakVersions(t *testing.T) {
	data := tinyelf.Object{Requires: []tinyelf.Requirement{{Library: "liba.so", Version: "V_1"}, {Library: "liba.so", Version: "V_2", Weak: true}}}.Bytes()
	im, err := Parse(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if all, err := im.VersionsNeeded(); err != nil || len(all) != 2 || all[0].Weak || !all[1].Weak || all[1].Name != "V_2" {
		t.Errorf("%+v, %v", all, err)
	}
}

// The versions that files of this machine need and define, against debug/elf.
func TestVersions(t *testing.T) {
	var files []string
	for _, pattern := range []string{"/lib64/*.so.*", "/lib/*-linux-gnu/lib[a-d]*.so.*", "/usr/lib64/lib[a-d]*.so.*", "/usr/lib/lib[a-d]*.so.*", "/usr/*-linux-gnu*/lib/lib[a-d]*.so.*"} {
		some, _ := filepath.Glob(pattern)
		files = append(files, some...)
	}
	compared := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		f, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			continue
		}
		im, err := Parse(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			continue
		}
		var want, got [][3]string
		needs, err := f.DynamicVersionNeeds()
		if err != nil {
			continue
		}
		for _, n := range needs {
			for _, v := range n.Needs {
				weak := ""
				if v.Flags&2 != 0 {
					weak = "weak"
				}
				want = append(want, [3]string{n.Name, v.Dep, weak})
			}
		}
		defined, err := f.DynamicVersions()
		if err != nil {
			continue
		}
		for _, v := range defined {
			want = append(want, [3]string{"", v.Name, ""})
		}
		needed, err := im.VersionsNeeded()
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, v := range needed {
			weak := ""
			if v.Weak {
				weak = "weak"
			}
			got = append(got, [3]string{v.Library, v.Name, weak})
		}
		defines, ok, err := im.VersionsDefined()
		if err != nil || ok != (len(defined) > 0) {
			t.Errorf("%s: defines versions: %v, %v", file, ok, err)
		}
		for _, v := range defines {
			got = append(got, [3]string{"", v.Name, ""})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-debug/elf +image):\n%s", file, diff)
		}
		compared += len(want)
	}
	if compared == 0 {
		t.Skip("no files to compare on this machine")
	}
	t.Logf("%d versions", compared)
}
