package loader

import "fmt"

// Rule says by which rule of the loader a library was found.
type Rule string

// The rules, in the order in which glibc applies them. The table below has the words for each.
const (
	ByProgram  Rule = "program"             // the file that was asked about
	ByLoader   Rule = "the loader itself"   // ld.so, or musl's libc, which are one with the loader
	ByKernel   Rule = "the kernel"          // the vDSO, which is in every process and has no file
	ByProcess  Rule = "the program's glibc" // of a library whose loader is not known: it is loaded before
	ByPath     Rule = "path"                // the name has a slash: no search
	ByRPath    Rule = "DT_RPATH"            // of the object that needs it, of those that loaded that one, of the program
	ByEnv      Rule = "LD_LIBRARY_PATH"     //
	ByNote     Rule = "resolution note"     // of the object that needs it only; nixpkgs' glibc (ldcache.patch)
	ByRunPath  Rule = "DT_RUNPATH"          // of the object that needs it only
	ByCache    Rule = "ld.so.cache"         //
	ByDefault  Rule = "default directories" // compiled into the loader
	ByPathFile Rule = "ld-musl path file"   // musl: /etc/ld-musl-ARCH.path
	NotFound   Rule = "not found"
)

// HasEntry reports whether the rule searches a list of directories. [Object.Entry] and [Try.Entry] are then entries
// of that list, or a place in a resolution note.
func (r Rule) HasEntry() bool {
	return r.InRunPath() || r == ByNote || r == ByEnv || r == ByDefault || r == ByPathFile
}

// InRunPath reports whether that list is the run path of an object, [Object.List] or [Try.List].
func (r Rule) InRunPath() bool { return r == ByRPath || r == ByRunPath }

// Of says the rule in words, and whose run path it is unless it is asker's.
func (r Rule) Of(owner, asker *Object) string {
	words := string(r)
	if r == ByPath {
		words = "by its path, no search"
	}
	if r == ByNote {
		words = "by the note"
	}
	if (r.InRunPath() || r == ByNote) && owner != nil && owner != asker {
		words += " of " + owner.Path
	}
	return words
}

// How says by which rule and which entry the object was found: "DT_RUNPATH of PATH: ENTRY". asker is the object that
// the sentence is about, whose path is not repeated; nil for none.
func (o *Object) How(asker *Object) string {
	words := o.Rule.Of(o.List, asker)
	if !o.Rule.HasEntry() {
		return words
	}
	return fmt.Sprintf("%s: %s", words, EntryText(o.Entry))
}

// EntryText shows an entry of a run path in a line of text.
func EntryText(entry string) string {
	if entry == "" {
		return `"" (the working directory)`
	}
	return entry
}
