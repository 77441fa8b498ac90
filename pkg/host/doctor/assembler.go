package doctor

import (
	"os"
	"os/exec"
	"strings"

	"cuda-runpath/pkg/starts"
)

// checkAssembler says which wheel has ptxas, where JAX is in an environment of Python's and does not find one: XLA starts
// it for all that it compiles, from a wheel beside it, from the toolkit, or from PATH. "No PTX compilation provider is
// available" is XLA's message, which lists these places.
func (h *Doctor) checkAssembler(d *Diagnosis, place *starts.Place) {
	if place.Python == nil {
		return
	}
	plugin, names := "", h.Programs.Files().Names
	for _, site := range place.Python.Sites {
		for wheel := range names(site + "/nvidia") {
			if names(site + "/nvidia/" + wheel + "/bin")["ptxas"] {
				return
			}
		}
		for name := range names(site + "/jax_plugins") {
			if strings.HasPrefix(name, "xla_cuda") {
				plugin = site + "/jax_plugins/" + name
			}
		}
	}
	_, err := exec.LookPath("ptxas")
	told := h.Root.IsHost() && (err == nil || os.Getenv("CUDA_HOME") != "")
	if plugin == "" || told || h.Root.Exists("/usr/local/cuda/bin/ptxas") {
		return
	}
	wheel := "nvidia-cuda-nvcc"
	if strings.HasSuffix(plugin, "12") {
		wheel += "-cu12"
	}
	d.add("JAX", Warning, plugin, "pip install "+wheel,
		"it compiles with ptxas, which is in no wheel here, in no toolkit and not in PATH: it fails with "+
			"\"No PTX compilation provider\"")
}
