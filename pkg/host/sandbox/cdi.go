package sandbox

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// CDI returns a specification of the Container Device Interface, to be encoded as JSON
// (https://github.com/cncf-tags/container-device-interface, SPEC.md): the one device,
// cuda-runpath/driver=all, gives a container what Paths returns. 0.5.0 is the first version
// with a device's hostPath.
func CDI(paths []Path) (map[string]any, error) {
	nodes, mounts := []map[string]any{}, []map[string]any{}
	edits := map[string]any{}
	for _, p := range paths {
		if !utf8.ValidString(p.Guest + p.Host) {
			return nil, fmt.Errorf("%q cannot be named in JSON: it is not UTF-8", p.String())
		}
		if strings.HasPrefix(p.Guest, "/dev/") { // its numbers are left to the runtime: nvidia-uvm's are others at each start
			node := map[string]any{"path": p.Guest, "permissions": "rw"}
			if p.Host != p.Guest {
				node["hostPath"] = p.Host
			}
			nodes = append(nodes, node)
			continue
		}
		if dir := path.Dir(p.Guest); strings.HasSuffix(dir, "/share/glvnd/egl_vendor.d") {
			// For the host's libEGL, which the driver opens for Vulkan: it searches the other two, which are the image's here.
			edits["env"] = []string{"__EGL_VENDOR_LIBRARY_DIRS=" + dir +
				":/etc/glvnd/egl_vendor.d:/usr/share/glvnd/egl_vendor.d"}
		}
		// rbind: below WSL's directory lie mounts of their own. On a file it is bind.
		mounts = append(mounts, map[string]any{"containerPath": p.Guest, "hostPath": p.Host,
			"options": []string{"ro", "nosuid", "nodev", "rbind"}})
	}
	edits["deviceNodes"], edits["mounts"] = nodes, mounts
	return map[string]any{
		"cdiVersion": "0.5.0",
		"kind":       "cuda-runpath/driver",
		"devices":    []any{map[string]any{"name": "all", "containerEdits": edits}},
	}, nil
}
