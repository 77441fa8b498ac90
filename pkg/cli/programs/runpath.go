package programs

import (
	"cuda-runpath/pkg/cli/audit"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/explain"
	"cuda-runpath/pkg/cli/gpu"
	"cuda-runpath/pkg/cli/hook"
	"cuda-runpath/pkg/cli/manifest"
	"cuda-runpath/pkg/cli/references"
	"cuda-runpath/pkg/cli/scripts"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/cli/show"
	"cuda-runpath/pkg/cli/thin"
	"cuda-runpath/pkg/cli/write"
)

// RunPath returns the app of runpath, for looking and debugging.
func RunPath() *command.Command {
	app := command.New("runpath", "COMMAND ...", "look at and set the run paths of ELF files", `
The run path of a program or library is the list of directories in which the loader searches the libraries that it needs
(DT_RUNPATH, in older files DT_RPATH).`+session.ExitStatus, "runpath explain app/bin/app\nrunpath audit app")
	app.OfFile = "show"
	app.Commands = append([]*command.Command{show.Command()}, write.Commands()...)
	app.Commands = append(app.Commands, explain.Command(), audit.Command(), gpu.Command(), thin.Command(),
		references.Command(), manifest.Command(), scripts.Command(), hook.Command())
	return app
}
