// Package hook is what the setup hooks of hooks/ call: `runpath hook MOMENT`. A hook is a shim in bash that tells of
// the moments of a build and hands over what the shell has. What that means is decided here: which tools run, in which
// order, with which arguments, what is said, and how the build goes on.
//
// # The interface
//
// The shim (hooks/core.bash) calls the program of the first package that brought a hook, by absolute path:
//
//	runpath hook --settings             prints the names of the variables that are wanted, a line each
//	runpath hook MOMENT                 reads what the shell has from stdin, and answers on stdout
//	runpath hook directories -- [--no-recurse] PATH...
//	                                    prints the directories below that hold shared objects, each with a NUL behind it
//
// The moments of a build:
//
//	before      preFixup: where the check phases are to get stubs, they are noted before stdenv's shrink step drops them
//	patchELF, auditTmpdir
//	            stdenv's functions, where fixupElfHook is there: stdenv calls them for each output, before it strips. The
//	            first does both where the second is what stdenv does next
//	(output)    stdenv has fixed an output. The shim alone acts: its entry comes last again, and nixpkgs' entries
//	            (dropIn) are taken over. Nothing can be edited yet, so the program is not called
//	fixup       the end of postFixup: the tools run
//	end         the exit hook of a build that succeeded: what later phases changed is looked at once more
//
// What packages, or nixpkgs' entries of postFixupHooks, call: addDriverRunpath, addCudaCompatRunpath,
// removeStubsFromRunpath, autoPatchelf, autoPatchelfPostFixup, with the arguments of nixpkgs' functions.
//
// The shell's state is words, each with a NUL behind it: NAME, the attributes that bash's declare gives it ("a" of an
// array, "A" of an attribute set), the number of its values, the values. What is unset is left out. Beside variables
// there are arguments, those of the moment (of a function), output:NAME, with the output's path, and
// function:autoPatchelf, where the shell has such a function. The array cudaRunpathGiven has what the hooks brought, as
// KEY=VALUE:
//
//	program=RELEASE TOOLS    a package of the program; two releases in one build are an error
//	tool=TOOL                runs at the end of fixup
//	settings=                cudaRunpathHook: cudaThin and its like make more tools run
//	link=DIR                 the driver link without /lib, where it is not the usual one
//	compat=DIR               the compat directory; compat-unknown=WHY where nobody knows whether there is one;
//	                         stubs-compat=DIR for the places of stubs alone, where no hook brought another
//	gpus=LIST                the GPUs of the CUDA set
//	bintools=DIR             for autoPatchelf; autoPatchelf= where the shell has its functions from us
//	elf=                     fixupElfHook: what stdenv does to ELF files is ours, its resolution notes too
//	notes=                   stdenv's own entry for resolution notes was there, and is taken out
//	stands-for=FUNCTION      nixpkgs' entry "autoFixElfFiles FUNCTION" was made; entry=FUNCTION: it was still there when
//	                         fixup took it over
//	off=TOOL VARIABLE        a hook that found itself switched off
//
// Answers are these words, each with a NUL behind it, and the shim obeys them as they come. Nothing is evaluated:
//
//	log TEXT, error TEXT     print it, by nixLog or nixErrorLog where these are
//	audited DIR              auditTmpdir DIR has nothing left to do
//	stubs DIR                the directory of the stubs, for later moments
//	offer                    wrap the check phases that follow, so that they find the stubs
//	notes                    nothing of ours edits: run stdenv's function that writes resolution notes
//	status N                 the last one; other than 0, the build fails, or the function returns it; without one it is 1
//
// Its version is the release, which shim and program have in common: hooks of two releases in one build are an error.
package hook
