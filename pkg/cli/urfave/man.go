//go:build !urfave_cli_no_docs

package urfave

import "github.com/urfave/cli/v2"

// manPage returns the man page of an app, section 1.
func manPage(app *cli.App) (string, error) { return app.ToManWithSection(1) }
