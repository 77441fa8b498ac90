// Command stubReplace takes link-time stub directories out of run paths and lets
// the host's driver directory stand in for them.
package main

import "cuda-runpath/pkg/command"

func main() { command.Main(command.StubReplace().App()) }
