// Package regular opens and makes regular files, whoever may write the directories that they are in.
//
// Whoever may write a directory may exchange names in it at any moment. So a path is resolved once; from then on
// everything is done to descriptors. What is no regular file is not opened, as that may do something or wait. What is
// new is first a file without a name (O_TMPFILE), so that a killed process leaves nothing beside it.
package regular
