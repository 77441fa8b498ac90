package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/sysroot"
)

// Devices are nodes, none of them a directory or a link; all else is mounted, read-only, with what is mounted below it.
func TestCDI(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"nvidia0", "dri/card0", "dri/by-path/x", "nvidia-caps/nvidia-cap1", "real"} {
		node(t, root, "dev/"+name)
	}
	write(t, root, "dev/dri/text", "")
	if err := errors.Join(os.Symlink("card0", filepath.Join(root, "dev/dri/link")), os.Symlink("/dev/real", filepath.Join(root, "dev/nvidiactl"))); err != nil {
		t.Fatal(err)
	}
	var paths []Path
	for _, name := range []string{"/dev/dri", "/dev/nvidia-caps", "/dev/nvidia0", "/dev/nvidiactl"} {
		paths = append(paths, nodesOf(sysroot.Root{Dir: root}, name)...)
	}
	spec, err := CDI(append(paths, Path{"/run/opengl-driver/lib/libcuda.so.1", "/cache/libcuda.so.1"}))
	if err != nil {
		t.Fatal(err)
	}
	node := func(name, at string) string {
		return `{"hostPath":"ROOT/dev/` + at + `","path":"/dev/` + name + `","permissions":"rw"}`
	}
	want := `{"cdiVersion":"0.5.0","devices":[{"containerEdits":{"deviceNodes":[` +
		node("dri/card0", "dri/card0") + "," + node("nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap1") + "," + node("nvidia0", "nvidia0") + "," + node("nvidiactl", "real") +
		`],"mounts":[{"containerPath":"/run/opengl-driver/lib/libcuda.so.1","hostPath":"/cache/libcuda.so.1","options":["ro","nosuid","nodev","rbind"]}]},"name":"all"}],"kind":"cuda-runpath/driver"}`
	if got := strings.ReplaceAll(toJSON(spec), root, "ROOT"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if spec, err := CDI([]Path{{"/dev/null", "/dev/null"}}); err != nil || strings.Contains(toJSON(spec), "hostPath") {
		t.Errorf("a device of this host: %v, %v", spec, err) // hostPath is for those that are elsewhere
	}
	const file = "/run/opengl-driver/share/glvnd/egl_vendor.d/10_nvidia.json"
	spec, err = CDI([]Path{{file, "/cache/10_nvidia.json"}, {"/run/opengl-driver/share/glvnd/egl_vendor.d/11.json", "/x"}})
	variable := `"env":["__EGL_VENDOR_LIBRARY_DIRS=/run/opengl-driver/share/glvnd/egl_vendor.d:/etc/glvnd/egl_vendor.d:/usr/share/glvnd/egl_vendor.d"]`
	if got := toJSON(spec); err != nil || !strings.Contains(got, variable) {
		t.Errorf("%s, %v\nwithout %s", got, err, variable)
	}
	if _, err := CDI([]Path{{"/x\xff", "/y"}}); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Error(err)
	}
}

func toJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
