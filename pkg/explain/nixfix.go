package explain

import (
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/remedy"
)

// FixInPackage returns what the author of a Nix package writes to settle a finding: inside a build, or in a store,
// nobody runs the command that [Conclusion] names. Where there is nothing better than that command in the package, it
// is [Conclusion].Fix. The settings are those of hooks/, the chapter on them is nix/hooks.section.md.
func (f *Conclusion) FixInPackage() remedy.Text {
	switch f.ID {
	case EmptyEntry:
		// nixpkgs' own autoAddDriverRunpath writes them
		return "add cudaRunpathHook to nativeBuildInputs, which drops empty entries"
	case StubEntry:
		return "add stubReplace to nativeBuildInputs, and do not set dontStubReplace"
	case StoppedEdit:
		return "have it built again: an edit by hand was stopped there"
	case DriverBeforeCompat:
		return "add addCudaCompatRunpath to nativeBuildInputs, and do not set dontAddCudaCompatRunpath"
	case Ambiguous:
		const ignore = "set noRunpathAmbiguityIgnore = [ %s ];"
		if driver.Provides(f.Library) {
			return remedy.Say(
				"%s comes with the host's driver: leave the package that holds another one out of buildInputs; or, where that is "+
					"a compat package, "+
					"set cudaCompat to its directory; or "+ignore, f.Library, remedy.NixPattern(f.Library))
		}
		return remedy.Say(
			"leave all but one of the packages that hold %s out of buildInputs; or, where the first one is meant, "+ignore,
			f.Library, remedy.NixPattern(f.Library))
	}
	return remedy.Text(f.Fix)
}
