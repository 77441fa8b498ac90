package scripts

import (
	"fmt"
	"slices"
	"strings"
)

// compilers are the programs of CUDA's that scripts start, and the variables by which they are told where those are:
// what stands for each in a package of nixpkgs.
var compilers = map[string]string{
	"nvcc":              "${cudaPackages.cuda_nvcc}/bin/nvcc",
	"ptxas":             "${cudaPackages.cuda_nvcc}/bin/ptxas",
	"cuobjdump":         "${cudaPackages.cuda_cuobjdump}/bin/cuobjdump",
	"nvdisasm":          "${cudaPackages.cuda_nvdisasm}/bin/nvdisasm",
	"CUDA_HOME":         "${cudaPackages.cudatoolkit}",
	"CUDA_PATH":         "${cudaPackages.cudatoolkit}",
	"CUDA_ROOT":         "${cudaPackages.cudatoolkit}",
	"TRITON_PTXAS_PATH": "${cudaPackages.cuda_nvcc}/bin/ptxas",
}

// inEnvironment reports whether a name of compilers is that of a variable.
func inEnvironment(name string) bool { return strings.ToUpper(name) == name }

// InPackage returns what a package of nixpkgs writes for a Program or a Variable: the path in the name's place, or an
// attribute that sets it.
func (p Place) InPackage() string {
	if p.Kind == Variable {
		return fmt.Sprintf(`makeWrapperArgs = [ "--set-default" "%s" "%s" ]`, p.Library, compilers[p.Library])
	}
	return compilers[p.Library]
}

// starts are the calls that look a program up in PATH or start it, of Python and of Node.js.
var starts = []string{"which", "find_executable", "run", "call", "check_call", "check_output", "Popen", "spawn",
	"spawnSync", "execFile", "execFileSync"}

// looksForCompiler reports whether a literal is a program of CUDA's that a call looks up or starts, or a variable that
// is read.
func (f *finder) looksForCompiler(i int, stack []call) bool {
	name, c := f.Tokens[i].Text, stack[len(stack)-1]
	if compilers[name] == "" {
		return false
	}
	if inEnvironment(name) {
		of := func(k int) bool { return f.Is(k, "environ", "env") }
		return i == c.at+1 && (c.name == "getenv" || c.name == "get" && of(c.at-3) ||
			c.name == "[]" && of(c.at-1) && !f.Is(i+2, "="))
	}
	if c.open == "[" && c.name == "" && len(stack) > 1 && i == c.at+1 { // the first word of a list
		first := c.at
		c = stack[len(stack)-2]
		return first == c.at+1 && slices.Contains(starts, c.name)
	}
	return i == c.at+1 && slices.Contains(starts, c.name)
}
