package hostdriver

import (
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/host/sandbox"
)

var cdiCommand = &command.Command{
	Name:     "cdi",
	Usage:    "print a CDI specification that gives containers the driver",
	Examples: `sudo "$(command -v hostDriver)" cdi | sudo tee /etc/cdi/cuda-runpath.json`,
	Description: `For /etc/cdi/cuda-runpath.json, where Docker, Podman, containerd and CRI-O read it. Print it again after each upgrade of the driver, and
where "install" has changed something: it names the files that are there now.

"--device cuda-runpath/driver=all" then gives a container of any image the GPU's devices and /run/opengl-driver, with the driver's
libraries and the files of OpenCL, Vulkan and EGL, read-only.`,
	Flags: []*command.Flag{prefixFlag, rootFlag, machineFlag, fromFlag, copiesFlag},
	Action: on(func(c *call) error {
		paths, err := c.visible()
		if err != nil {
			return err
		}
		spec, err := sandbox.CDI(c.host.Root, paths)
		if err != nil {
			return err
		}
		text, err := command.JSON(spec, "  ")
		if err == nil {
			_, err = c.Stdout.Write(append(text, '\n'))
		}
		return err
	}),
}
