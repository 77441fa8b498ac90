package audit

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/references"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/sysroot"
)

// Closure returns the store paths that paths are in, and all that these need at run time, themselves
// included, as nix-store -qR says. With a root other than "" the paths are below it, and it is that
// root's store which is asked.
func Closure(root string, paths []string) (roots, all []string, err error) {
	for _, p := range paths {
		real, err := sysroot.Realpath(p)
		if root != "" {
			real, err = sysroot.Root{Dir: root}.Resolve(p)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p, err)
		}
		object := store.Path(real)
		if object == "" {
			return nil, nil, fmt.Errorf("%s is not in a Nix store", p)
		}
		roots = append(roots, object)
	}
	all, err = nixStore(root, append([]string{"-qR"}, roots...)...)
	return roots, all, err
}

// Kept is a store path that nothing but resolution notes keeps in a closure.
type Kept struct {
	Object string   `json:"object"`
	Files  []string `json:"files"` // whose notes name it
	Bytes  int64    `json:"bytes"` // that the closure would lose without it
}

// KeptByNotes returns what resolution notes alone keep in the closure, all, of the store paths roots of
// a root: what no file there names in another place, of what the notes of some files alone name.
func KeptByNotes(root string, roots, all []string, reports []*Report) (kept []Kept, err error) {
	files := map[string][]string{} // whose notes alone name a store path
	for _, r := range reports {
		for _, object := range r.Noted {
			if !slices.Contains(roots, object) {
				files[object] = append(files[object], r.Path)
			}
		}
	}
	refers := map[string][]string{}
	for _, p := range all {
		if len(files) == 0 {
			break
		}
		if refers[p], err = nixStore(root, "-q", "--references", p); err != nil {
			return nil, err
		}
	}
	for _, object := range slices.Sorted(maps.Keys(files)) {
		if slices.ContainsFunc(all, func(p string) bool {
			return p != object && slices.Contains(refers[p], object) && namedBelow(root+p, object)
		}) {
			continue
		}
		stay := map[string]bool{object: true}
		var reach func(paths []string)
		reach = func(paths []string) {
			for _, p := range paths {
				if !stay[p] {
					stay[p] = true
					reach(refers[p])
				}
			}
		}
		reach(roots)
		k := Kept{Object: object, Files: files[object]}
		lost := append(slices.DeleteFunc(slices.Clone(all), func(p string) bool { return stay[p] }), object)
		sizes, err := nixStore(root, append([]string{"-q", "--size"}, lost...)...)
		if err != nil {
			return nil, err
		}
		for _, size := range sizes {
			n, _ := strconv.ParseInt(size, 10, 64)
			k.Bytes += n
		}
		kept = append(kept, k)
	}
	return kept, nil
}

// namedBelow reports whether a file or link of a package names a store path elsewhere than in a resolution note.
func namedBelow(dir, object string) (named bool) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			named = true // nobody knows
		case d.Type().IsRegular():
			named = named || explain.NamedElsewhere(p, object, references.ResolutionNote)
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			named = named || strings.Contains(target, object)
		}
		return nil
	})
	return named
}

// KeptText says what was counted, a line for each.
func KeptText(kept []Kept) string {
	var b strings.Builder
	fmt.Fprintf(&b, "resolution notes alone keep %s in the closure:", remedy.Count(len(kept), "store path"))
	for _, k := range kept {
		fmt.Fprintf(&b, "\n  %s, %s: %s", k.Object, size(k.Bytes), strings.Join(k.Files, ", "))
	}
	return b.String()
}

// nixStore asks the store of a root, "" for this machine's.
func nixStore(root string, args ...string) ([]string, error) {
	if root != "" {
		dir, err := filepath.Abs(root) // what is relative is a store's name to Nix
		if err != nil {
			return nil, err
		}
		args = append([]string{"--store", dir}, args...)
	}
	cmd := exec.Command("nix-store", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = fmt.Errorf("%s", text)
		}
		return nil, fmt.Errorf("nix-store %s: %w", strings.Join(args[:min(len(args), 3)], " "), err)
	}
	return strings.Fields(string(out)), nil
}

// Saved returns what says how many bytes a store path's closure would lose without one of its
// references, where nothing else in that path refers to it; false where the store of a root, "" for
// this machine's, does not know. The store is asked once about two paths, and no more once it has failed.
func Saved(root string) func(pkg, ref string) (bytes int64, ok bool) {
	var mu sync.Mutex
	known := map[[2]string]int64{}
	var failed error
	ask := func(args ...string) (out []string) {
		if failed == nil {
			out, failed = nixStore(root, args...)
		}
		return out
	}
	return func(pkg, ref string) (bytes int64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if bytes, ok = known[[2]string{pkg, ref}]; ok {
			return bytes, true
		}
		keep := []string{pkg}
		if others := slices.DeleteFunc(ask("-q", "--references", pkg), func(p string) bool { return p == ref || p == pkg }); len(others) > 0 {
			keep = append(keep, ask(append([]string{"-qR"}, others...)...)...)
		}
		if lost := slices.DeleteFunc(ask("-qR", ref), func(p string) bool { return slices.Contains(keep, p) }); len(lost) > 0 {
			for _, size := range ask(append([]string{"-q", "--size"}, lost...)...) {
				n, _ := strconv.ParseInt(size, 10, 64)
				bytes += n
			}
		}
		if failed != nil {
			return 0, false
		}
		known[[2]string{pkg, ref}] = bytes
		return bytes, true
	}
}

func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d kB", (n+999)/1000)
}
