package cli

import "github.com/urfave/cli/v2"

// RunPath returns the app of runpath, for looking and debugging.
func RunPath() *cli.App {
	app := New("runpath", "COMMAND ...", "look at and set the run paths of ELF files", `
The run path of a program or library is the list of directories in which the loader searches the libraries that it needs
(DT_RUNPATH, in older files DT_RPATH).`+ExitStatus)
	app.Commands = append([]*cli.Command{ShowCommand()}, ListCommands()...)
	app.Commands = append(app.Commands, PartCommands()...)
	app.Commands = append(app.Commands, ShrinkCommand(), Normalize(), ExplainCommand(), AuditCommand(), ScriptsCommand())
	return app
}
