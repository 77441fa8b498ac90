package doctor

import (
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/nixconf"
)

// checkBuilds says whether builds of Nix can see the GPU, where the host has Nix.
func (h *Doctor) checkBuilds(d *Diagnosis) {
	const subject, file = "Nix builds", "/etc/nix/nix.conf"
	if !h.Root.Exists("/nix/store") {
		return
	}
	c, err := nixconf.Read(h.Root, file)
	if err != nil {
		d.add(subject, Note, file, "", "%v", host.Reason(err))
		return
	}
	configure := h.itself() + " sandbox"
	if h.Root.Exists("/etc/NIXOS") { // whose driver's closure that does not know
		configure =
			"programs.nix-required-mounts.enable = true and programs.nix-required-mounts.presets.nvidia-gpu.enable = true in " +
				"NixOS's configuration"
	}
	asks := slices.ContainsFunc(c.Features, func(f string) bool { return slices.Contains(nixconf.Features, f) })
	switch {
	case c.Sandbox == "false":
		d.add(subject, Note, file, "", "are not in a sandbox: each of them sees the GPU")
	case c.Hook != "" && !h.Root.Exists(c.Hook):
		d.add(subject, Warning, file, configure, "the pre-build-hook %s does not exist: every build fails", c.Hook)
	case path.Base(c.Hook) == nixconf.Hook && !asks:
		d.add(subject, Warning, file, configure,
			"get the GPU through %s if they ask for it, but the system features include none of %s", c.Hook,
			strings.Join(nixconf.Features, ", "))
	case path.Base(c.Hook) == nixconf.Hook:
		d.add(subject, Good, file, "", "get the GPU through %s if their requiredSystemFeatures ask for it", c.Hook)
	case c.Hook != "":
		d.add(subject, Note, file, "", "%s decides whether they see the GPU", c.Hook)
	case slices.ContainsFunc(c.Paths, func(p string) bool { return strings.HasPrefix(p, "/dev/nvidia") }):
		d.add(subject, Note, file, "", "all see the GPU, by extra-sandbox-paths")
	default:
		d.add(subject, Note, file, configure, "cannot see the GPU")
	}
}
