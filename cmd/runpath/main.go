// Command runpath shows and sets the run paths of ELF files.
package main

import (
	urfave "github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli"
)

func main() {
	app := cli.New("runpath", "COMMAND ...", "look at and set the run paths of ELF files", `
The run path of a program or library is the list of directories in which the loader searches the libraries that it needs
(DT_RUNPATH, in older files DT_RPATH).`+cli.ExitStatus)
	app.Commands = append([]*urfave.Command{cli.ShowCommand()}, cli.ListCommands()...)
	app.Commands = append(app.Commands, cli.Normalize(), explainCommand, auditCommand)
	cli.Main(app)
}
