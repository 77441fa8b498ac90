package host

import (
	"cmp"
	"os"
	"path"

	"cuda-runpath/pkg/driver"
)

// Container returns how the container that this is gets the machine's GPUs and their driver, "" where it is none.
// Sources: the files and variables that Docker, Podman, systemd-nspawn, and Apptainer (its user guide, "Environment and
// Metadata") put into theirs.
func (h *Host) Container() string {
	switch {
	case h.inApptainer():
		return "start the container with --nv (apptainer exec --nv, singularity exec --nv)"
	case h.Root.Exists("/.dockerenv"), h.Root.Exists("/run/.containerenv"), h.Root.Exists("/run/systemd/container"):
		return "start the container with its GPUs (podman: --device nvidia.com/gpu=all; docker: --gpus all)"
	}
	return ""
}

func (h *Host) inApptainer() bool {
	return h.Root.Exists(path.Dir(apptainerDir)) ||
		h.Root.IsHost() && cmp.Or(os.Getenv("APPTAINER_CONTAINER"), os.Getenv("SINGULARITY_CONTAINER")) != ""
}

// Outside returns, in a container that shows the machine's own files below /run/host, as distrobox and toolbox do, the
// first of its library directories that has a driver for m; "" for none.
func (h *Host) Outside(m Machine) string {
	for _, dir := range m.LibraryDirs() {
		dir = path.Join("/run/host", dir)
		if _, err := h.ExamineCUDA(path.Join(dir, driver.LibCUDA), m); err == nil {
			return dir
		}
	}
	return ""
}
