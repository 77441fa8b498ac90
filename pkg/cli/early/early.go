// Package early carries out brief command lines before urfave/cli is initialised. cmd/runpath
// imports it for that effect, and nothing else may: in a program that imports it, main need not
// be reached.
//
// Packages call a tool once for each file, so it is the start that counts. In one run on a
// busy machine an empty Go program took 0.85 ms, one with urfave/cli linked in and not used
// 1.26, the edit that finds nothing to do 1.70 in main and 1.38 here.
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
