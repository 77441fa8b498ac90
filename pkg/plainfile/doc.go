// Package plainfile reads and writes files that are not ELF files: reports, records,
// baselines, units, configuration.
//
// Whoever may write the directory of such a file may exchange names in it at any moment.
// So a path is resolved once; from then on everything is done to descriptors, and nothing
// gets an owner, a mode or contents by its name. What is written is first a file without a
// name (O_TMPFILE), so that a killed process leaves the old file or the new one and nothing
// beside it. [Replace] says where that cannot be.
package plainfile
