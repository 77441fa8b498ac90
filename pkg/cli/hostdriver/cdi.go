package hostdriver

import (
	"fmt"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host/made"
	"cuda-runpath/pkg/host/sandbox"
)

// cdiSpec is where runtimes look for specifications that an administrator makes (SPEC.md of the Container Device
// Interface).
const cdiSpec = "/etc/cdi/cuda-runpath.json"

var cdiCommand = &command.Command{
	Name:     "cdi",
	Usage:    "give containers the driver, by a CDI specification",
	Examples: `sudo "$(command -v hostDriver)" cdi`,
	Description: `It is written to /etc/cdi/cuda-runpath.json, where Docker, Podman, containerd and CRI-O read it;
--dry-run prints it. Write it again after each upgrade of the driver, and where "install" has changed something: it names the files that
are there now.

"--device cuda-runpath/driver=all" then gives a container of any image the GPU's devices and /run/opengl-driver, with
the driver's libraries and the files of OpenCL, Vulkan and EGL, read-only.`,
	Flags: []*command.Flag{prefixFlag, rootFlag, machineFlag, fromFlag, copiesFlag, dryRunFlag,
		{Name: "write", Usage: "what is done without --dry-run", Hidden: true}},
	Action: on(func(c *call) error {
		paths, err := c.visible()
		if err != nil {
			return err
		}
		spec, err := sandbox.CDI(paths)
		if err != nil {
			return err
		}
		text, err := command.JSON(spec, "  ")
		if err != nil {
			return err
		}
		text = append(text, '\n')
		if c.Bool("dry-run") {
			_, err = c.Stdout.Write(text)
			return err
		}
		changed, err := made.Put(c.host, made.File{Path: cdiSpec, Text: string(text)})
		if err != nil {
			return needsRoot(err, "")
		}
		action := "unchanged"
		if len(changed) > 0 {
			action = "written"
		}
		_, err = fmt.Fprintf(c.Stdout, "%s: %s\n", command.Printable(c.host.Root.Path(cdiSpec)), action)
		return err
	}),
}
