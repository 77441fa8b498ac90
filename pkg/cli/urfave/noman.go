//go:build urfave_cli_no_docs

package urfave

import (
	"errors"

	"github.com/urfave/cli/v2"
)

// manPage: the Markdown parser behind urfave/cli's man pages costs every start of the
// program more than reading an ELF file does. So what is shipped is built without it, and
// the pages come with the package, from a build without this tag.
func manPage(*cli.App) (string, error) {
	return "", errors.New("this build contains no man page; it is installed with the program")
}
