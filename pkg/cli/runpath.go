package cli

import (
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/hook"
	"cuda-runpath/pkg/cli/manifest"
)

// RunPath returns the app of runpath, for looking and debugging.
func RunPath() *command.Command {
	app := command.New("runpath", "COMMAND ...", "look at and set the run paths of ELF files", `
The run path of a program or library is the list of directories in which the loader searches the libraries that it needs
(DT_RUNPATH, in older files DT_RPATH).`+exitStatus, "runpath explain app/bin/app\nrunpath audit app")
	app.OfFile = "show"
	app.Commands = append([]*command.Command{showCommand()}, listCommands()...)
	app.Commands = append(app.Commands, cacheCommands(), editCommand())
	app.Commands = append(app.Commands, shrinkCommand(), normalizeCommand(), explainCommand(), auditCommand(), gpuCommand(), thinCommand(), referencesCommand(), manifest.Command(jobsFlag, malformedFlag), scriptsCommand(), hook.Command())
	return app
}
