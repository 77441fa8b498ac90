// Package regular opens and makes regular files, safely in directories that others may write.
//
// Whoever may write a directory may exchange names in it at any moment. So a path is resolved once, and from then on
// everything is done to descriptors. Only regular files are opened, because opening anything else may do something or
// wait. A new file has no name at first (O_TMPFILE), so a killed process leaves nothing behind.
package regular
