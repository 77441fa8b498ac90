package loader

import "strings"

// libNames are what loaders in use put for $LIB (SLIBDIR's last part; Debian's multiarch names).
var libNames = []string{"lib", "lib64", "lib32", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib/i386-linux-gnu"}

// Directories returns the absolute directories that an entry of a run path may stand
// for where it is not known which loader will read it: $ORIGIN is origin, $LIB one of
// the names in use, and $PLATFORM nothing that is known.
func Directories(entry, origin string) []string {
	var dirs []string
	for _, lib := range libNames {
		dir := tokens{origin: origin, lib: lib}.expand(entry)
		if !strings.HasPrefix(dir, "/") || strings.Contains(dir, "$") || len(dirs) > 0 && dir == dirs[0] {
			break // there is no $LIB in it
		}
		dirs = append(dirs, dir)
	}
	return dirs
}
