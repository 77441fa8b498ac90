package cmd_test

import (
	"os"
	"strings"
	"testing"
)

// A library that finds another by the DT_RPATH of who loads it keeps finding it, whatever gives it a run path, and whether or not
// that is asked of the other file too.
func TestWhatIsInheritedStaysFound(t *testing.T) {
	for _, args := range []string{
		"runpath edit --add-entry /e tree", "runpath add /e tree", "runpath add /e tree/libouter.so.1", "runpath set /e tree/libouter.so.1",
		"autoAddDriverRunpath tree/libouter.so.1", "addCudaCompatRunpath --compat /e tree/libouter.so.1", "autoAddDriverRunpath --when needed tree",
		"runpath edit --add-entry /e --force-runpath tree",
	} {
		t.Run(args, func(t *testing.T) {
			d := t.TempDir()
			t.Chdir(d)
			os.Mkdir("inner", 0o755)
			library(t, "inner/libinner.so.1", "libinner.so.1", "")
			library(t, "driver/libcuda.so.1", "libcuda.so.1", "")
			library(t, "tree/libouter.so.1", "libouter.so.1", "", "inner/libinner.so.1", "driver/libcuda.so.1")
			library(t, "tree/heir.so", "", "", "tree/libouter.so.1")
			tool(t, "runpath", "set", "-q", "--force-rpath", d+"/inner:"+d+"/tree", "tree/heir.so")
			words := strings.Fields(args)
			said := tool(t, words[0], words[1:]...)
			tag := "DT_RPATH"
			if strings.Contains(args, "--force-runpath") {
				tag = "DT_RUNPATH"
			} else if !strings.Contains(said, "-> DT_RPATH /") {
				t.Errorf("it is not said: %s", said)
			}
			if shown := tool(t, "runpath", "show", "tree/libouter.so.1"); !strings.Contains(shown, tag+" ") {
				t.Errorf("want %s: %s", tag, shown)
			}
		})
	}
}
