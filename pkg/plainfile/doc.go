// Package plainfile writes files that are not ELF files: reports, records, baselines, units, configuration. It makes and
// exchanges directories, too.
//
// A path is resolved once, and nothing gets an owner, a mode or contents by its name: who exchanges a name meanwhile
// exchanges nothing for us. A killed process leaves the old file or the new one and nothing beside it: see
// [regular.Nameless]. [Replace] says where that cannot be.
package plainfile
