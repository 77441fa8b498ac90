// Command runpath shows and sets the run paths of ELF files.
package main

import (
	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/command"
)

func main() {
	app := command.New("runpath", "COMMAND ...", "look at and set the run paths of ELF files", `
The run path of a program or library is the list of directories in which the loader searches the libraries that it needs
(DT_RUNPATH, in older files DT_RPATH).`+command.ExitStatus)
	app.Commands = []*cli.Command{show, set, add, remove, command.Normalize(), explainCommand, auditCommand}
	command.Main(app)
}
