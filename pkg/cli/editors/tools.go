package editors

import (
	"slices"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/session"
)

// Tool describes a binary that applies one map of the normal form to the files
// and directories named on its command line.
type Tool struct {
	Name, Usage, Description, Examples string
	// Flags are those of this tool alone.
	Flags []*command.Flag
	// Common are those of all that help shows first.
	Common []string
}

// Tools returns the three editing tools.
func Tools() []*Tool { return []*Tool{&StubReplace, &AutoAddDriverRunpath, &AddCudaCompatRunpath} }

// StubReplace replaces stub directories by the driver link.
var StubReplace = Tool{
	Name:  "stubReplace",
	Usage: "replace stub directories in run paths with the driver's directory",
	Description: `
A stub directory holds libraries for the linker only: a libcuda.so whose functions all fail. Where one is left in
a run path before the driver's directory, the program loads the stub and reports CUDA_ERROR_STUB_LIBRARY.

stubReplace removes stub directories: entries with a component "stubs" or "stub", or below a Nix store path whose name
ends in "-stubs". It puts the driver link first instead, also where the file needs a library of the driver that no
other entry holds. Libraries that only the removed stubs offered and that do not come with the driver are reported as
missing.` + session.ExitStatus,
	Examples: "stubReplace --dry-run app\nstubReplace app",
	Common:   []string{"stub", "offer", "dry-run", "json", "verbose"},
	Flags: []*command.Flag{
		flags.Stub,
		{
			Name:  "compat-for-stubs",
			Usage: "add the directory of --compat, too, wherever a stub makes the driver link be added"},
		{Kind: command.String, Name: "offer", Check: flags.SomeDirectory,
			Usage: "link the driver's stubs that are found into `DIR`, by soname; with --dry-run do nothing else"},
	},
}

// AutoAddDriverRunpath adds the driver link.
var AutoAddDriverRunpath = Tool{
	Name:  "autoAddDriverRunpath",
	Usage: "add the directory of the host's GPU driver to run paths",
	Description: `
The driver's libraries, such as libcuda.so.1, belong to the host and are in no package; on NixOS they are linked in
/run/opengl-driver/lib (for 32-bit x86 in /run/opengl-driver-32/lib). autoAddDriverRunpath makes that directory the
first entry of the run path, after a compat directory, once.` + session.ExitStatus,
	Examples: "autoAddDriverRunpath app\nautoAddDriverRunpath --when needed app",
	Common:   []string{"when", "position", "dry-run", "json", "verbose"},
	Flags: []*command.Flag{
		{Kind: command.String, Name: "when", Default: "always", Values: []string{"always", "needed"},
			Usage: "edit `always|needed`: every file, or those that name a library of the driver or the CUDA toolkit in " +
				"DT_NEEDED, .note.dlopen or a string literal in read-only data"},
	},
}

// AddCudaCompatRunpath adds the compat directory.
var AddCudaCompatRunpath = Tool{
	Name:  "addCudaCompatRunpath",
	Usage: "add a CUDA compat directory to run paths, before the driver's",
	Description: `
A compat directory (${cuda_compat}/compat) holds a libcuda.so.1 that is newer than the host's driver and works with
its kernel module: on Jetson, and by forward compatibility on data-centre GPUs. addCudaCompatRunpath makes the
directory that --compat names, which is required, the first entry of the run path, once.` + session.ExitStatus,
	Examples: "addCudaCompatRunpath --compat /nix/store/...-cuda_compat-12.4/compat app",
	Common:   []string{"compat", "force-rpath", "dry-run", "json", "verbose"},
}

// Command returns the tool as a program.
func (t *Tool) Command() *command.Command {
	app := command.New(t.Name, "PATH...", t.Usage, t.Description, t.Examples)
	app.Common = t.Common
	if t == &AddCudaCompatRunpath {
		app.UsageText = t.Name + " --compat DIR [flags] PATH..."
	}
	app.Flags = slices.Concat(app.Flags, t.Flags, flags.Edit, flags.Tree)
	app.Action = func(c *command.Line) error {
		return Files(c, c.Args, func(e *Editor) error { return e.Apply([]string{t.Name}) })
	}
	return app
}
