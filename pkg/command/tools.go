package command

import (
	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/runpath"
)

// Tool describes a binary that applies one map of the normal form to the files
// and directories named on its command line.
type Tool struct {
	Name, Usage, Description string
	Map                      runpath.Map
	Flags                    []cli.Flag // beside Flags() and EditFlags()
	// Configure reads the tool's own flags into the editor.
	Configure func(*cli.Context, *Editor) error
}

// App returns the tool's app.
func (t Tool) App() *cli.App {
	app := New(t.Name, "PATH...", t.Usage, t.Description)
	app.Flags = append(append(append(app.Flags, t.Flags...), EditFlags()...), Flags()...)
	app.Action = func(c *cli.Context) error {
		session, err := Start(c, c.Args().Slice())
		if err != nil {
			return err
		}
		editor, err := NewEditor(c)
		if err != nil {
			return err
		}
		editor.Maps = t.Map
		if t.Configure != nil {
			if err := t.Configure(c, editor); err != nil {
				return err
			}
		}
		return editor.Run(session)
	}
	return app
}
