// Package change has the remedies that change a file: run a tool, make a link. What nobody edits, a file of a Nix store
// or of the host's driver, gets words in place of a command.
package change

import (
	"cmp"
	"slices"
	"strings"

	"cuda-runpath/pkg/remedy"
)

// File is a file that a command is to change, or the directory in which one is to make a file.
type File struct {
	Path string // as an argument of the command
	// Object is the store path that it is in, "" for none, and Rest its path there, "" for the object itself.
	Object, Rest string
	// Driver says that it is the host's driver's, Package whose author adds a hook where that is another package than the
	// one that is looked at, "" for that one.
	Driver  bool
	Package string
	// Program is what is started by "hostDriver run" where that helps with the problem without a change; "" where it does
	// not.
	Program string
	// Building says that the package is being built: there is no today.
	Building bool
}

// hooks are the tools that are hooks of a build too, and what else a package has to say for each.
var hooks = map[string]string{
	"stubReplace":          ", and do not set dontStubReplace",
	"autoAddDriverRunpath": "",
	"addCudaCompatRunpath": ", and do not set dontAddCudaCompatRunpath",
}

// Edit returns the remedy of a change of an ELF file, as [Run] has it.
func Edit(f File, c *remedy.Change) remedy.Remedy {
	r := Run(f, c.Command()...)
	if r.Command != nil {
		r.File, r.Change = f.Path, c
	}
	return r
}

// Run returns the remedy of running an editing tool on a file: its name and arguments are argv, to which the file's
// path is added. What nobody edits, a file of a Nix store or of the host's driver, gets words: what helps today, and
// what the author of the package writes.
func Run(f File, argv ...string) remedy.Remedy {
	switch {
	case f.Object == "" && !f.Driver:
		return remedy.Run(append(slices.Clone(argv), remedy.Operand(f.Path))...)
	case f.Driver:
		return f.today(remedy.Say("; %s itself is the host's driver's, which is not edited", f.Path))
	}
	if more, is := hooks[argv[0]]; is {
		words := remedy.Say(forGood+"add %s to nativeBuildInputs", argv[0])
		if f.Package != "" {
			words += remedy.Say(" of %s's package", f.Package)
		}
		return f.today(words + remedy.Text(more))
	}
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = f.inBuild(w)
	}
	return f.today(remedy.Say(forGood+"in the postFixup of the package: %s %s", remedy.Text(strings.Join(words, " ")),
		f.inOutput("")))
}

// Link returns the remedy of making a symbolic link in a directory.
func Link(dir File, target, name string) remedy.Remedy {
	if dir.Object == "" {
		return remedy.Run("ln", "-s", remedy.Operand(target), strings.TrimSuffix(dir.Path, "/")+"/"+name)
	}
	return remedy.Do("in the postFixup of the package that makes %s: %s %s", dir.Object,
		remedy.Command("ln", "-s", remedy.Operand(target)), dir.inOutput("/"+name))
}

// InPackage returns what to do about a file of a store, where what the author of its package writes is known.
func InPackage(f File, what remedy.Text) remedy.Remedy { return f.today(forGood + what) }

const forGood = "; for good, "

// today begins with what helps without a change of the file.
func (f File) today(then remedy.Text) remedy.Remedy {
	switch {
	case f.Building:
		return remedy.Do("%s", remedy.Text(strings.TrimPrefix(strings.TrimPrefix(string(then), forGood), "; ")))
	case f.Program != "":
		return remedy.Do("for today, %s%s", f.ByHostDriver(), then)
	case f.Driver:
		return remedy.Do("start programs by hostDriver run, or have hostDriver install it%s", then)
	}
	return remedy.Do("for today, edit a copy%s", then)
}

// ByHostDriver is the command that gives the program the driver of a host that has no driver link; of what is no
// program, it says PROGRAM.
func (f File) ByHostDriver() remedy.Text {
	program := cmp.Or(f.Program, "PROGRAM")
	if f.Program != "" && !strings.Contains(program, "/") { // which would be looked for on PATH
		program = "./" + program
	}
	return remedy.Command("hostDriver", "run", program)
}

// inBuild is a word of a command in the script that builds the object, which has another path then.
func (f File) inBuild(w string) string {
	parts := strings.Split(w, f.Object)
	for i, part := range parts {
		if parts[i] = ""; part != "" || len(parts) == 1 {
			parts[i] = remedy.Word(part)
		}
	}
	return strings.Join(parts, f.output())
}

// output is the object as the script that builds it names it.
func (f File) output() string { return `"$` + outputOf(f.Object) + `"` }

// inOutput is a file of the object as the script that builds it names it.
func (f File) inOutput(more string) remedy.Text {
	out := remedy.Text(f.output())
	if rest := strings.TrimPrefix(f.Rest+more, "/"); rest != "" {
		out += "/" + remedy.Text(remedy.Word(rest))
	}
	return out
}

// outputOf guesses which output of a package a store path is, by nixpkgs' names: NAME-VERSION-OUTPUT.
func outputOf(object string) string {
	parts := strings.Split(object[strings.LastIndexByte(object, '/')+1:], "-")
	last := parts[len(parts)-1]
	versioned := func(part string) bool { return part != "" && part[0] >= '0' && part[0] <= '9' }
	if slices.Contains([]string{"bin", "dev", "lib", "static", "stubs", "include"}, last) &&
		slices.ContainsFunc(parts[1:len(parts)-1], versioned) {
		return last
	}
	return "out"
}
