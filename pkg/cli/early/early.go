// Package early carries out brief command lines before urfave/cli is initialised. cmd/runpath
// imports it for that effect, and nothing else may: in a program that imports it, main need not
// be reached.
//
// Packages call a tool once for each file, so a start is half of what an edit costs. An empty
// Go program takes 0.83 ms; with urfave/cli linked in, and not used, 1.19; the edit that finds
// nothing to do took 1.47 in main and takes 1.22 here.
//
// The order is that of the Go specification, "Program initialization": packages sorted by
// import path, each as soon as those that it imports are initialised. So
// "cuda-runpath/pkg/cli/early" comes before "github.com/urfave/cli/v2", as long as it does not
// import that, itself or through others (cmd/start_test.go).
//
// What is left to main: lines that are not plain, commands that take their time, many files,
// and trees, since until main begins the main goroutine is locked to its thread.
package early

import (
	"os"

	"cuda-runpath/pkg/cli/command"
	_ "cuda-runpath/pkg/cli/early/stack"
	"cuda-runpath/pkg/cli/programs"
)

func init() {
	p, args := programs.Called(os.Args)
	switch {
	case p.Run == nil:
		if status, done := command.RunBrief(p.Command(), args, os.Stdout, os.Stderr); done {
			os.Exit(status)
		}
	case len(args) <= command.Few:
		os.Exit(p.Run(args[1:], os.Stdout, os.Stderr))
	}
}
