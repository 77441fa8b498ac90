package audit

import (
	"cmp"
	"encoding/json"
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
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/store"
)

// Closure returns the store paths that paths are in, and all that these need at run time, themselves
// included, as nix-store -qR says.
func Closure(paths []string) (roots, all []string, err error) {
	for _, p := range paths {
		real, err := regular.Real(p)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p, err)
		}
		object := store.Path(real)
		if object == "" {
			return nil, nil, fmt.Errorf("%s is not in a Nix store", p)
		}
		roots = append(roots, object)
	}
	all, err = nixStore(append([]string{"-qR"}, roots...)...)
	return roots, all, err
}

// KeptByNotes returns what resolution notes alone keep in the closure, all, of the store paths roots:
// what no file there names in another place, of what the notes of some files alone name.
func KeptByNotes(roots, all []string, reports []*explain.Report) (kept []explain.Kept, err error) {
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
		if refers[p], err = nixStore("-q", "--references", p); err != nil {
			return nil, err
		}
	}
	for _, object := range slices.Sorted(maps.Keys(files)) {
		if slices.ContainsFunc(all, func(p string) bool {
			return p != object && slices.Contains(refers[p], object) && namedBelow(p, object)
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
		k := explain.Kept{Object: object, Files: files[object]}
		lost := append(slices.DeleteFunc(slices.Clone(all), func(p string) bool { return stay[p] }), object)
		sizes, err := nixStore(append([]string{"-q", "--size"}, lost...)...)
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
func KeptText(kept []explain.Kept) string {
	var b strings.Builder
	fmt.Fprintf(&b, "resolution notes alone keep %s in the closure:", remedy.Count(len(kept), "store path"))
	for _, k := range kept {
		fmt.Fprintf(&b, "\n  %s, %s: %s", k.Object, size(k.Bytes), strings.Join(k.Files, ", "))
	}
	return b.String()
}

// nixStore asks this machine's store, where there is one: nix-store would make a database where there is none. The
// store of another system is not asked, because Nix follows that system's links out of it, and writes.
func nixStore(args ...string) ([]string, error) {
	if os.Getenv("NIX_REMOTE") == "" {
		state := cmp.Or(os.Getenv("NIX_STATE_DIR"), "/nix/var/nix")
		_, daemon := os.Stat(state + "/daemon-socket/socket")
		if _, err := os.Stat(state + "/db/db.sqlite"); err != nil && daemon != nil {
			return nil, fmt.Errorf("%s has neither Nix's database nor its daemon's socket", state)
		}
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
// references, where nothing else in that path refers to it; false where this machine's store does not
// know. The store is asked once about two paths, and no more once it has failed.
func Saved() func(pkg, ref string) (bytes int64, ok bool) {
	var mu sync.Mutex
	known := map[[2]string]int64{}
	var failed error
	ask := func(args ...string) (out []string) {
		if failed == nil {
			out, failed = nixStore(args...)
		}
		return out
	}
	return func(pkg, ref string) (bytes int64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if bytes, ok = known[[2]string{pkg, ref}]; ok {
			return bytes, true
		}
		gone := lost(pkg, ref, func(p string) []string { return ask("-q", "--references", p) },
			func(paths []string) []string { return ask(append([]string{"-qR"}, paths...)...) })
		if len(gone) > 0 {
			for _, size := range ask(append([]string{"-q", "--size"}, gone...)...) {
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

// lost returns what the closure of a store path has through one of its references alone.
func lost(pkg, ref string, references func(string) []string, closure func([]string) []string) []string {
	keep := []string{pkg}
	if others := slices.DeleteFunc(slices.Clone(references(pkg)),
		func(p string) bool { return p == ref || p == pkg }); len(others) > 0 {
		keep = append(keep, closure(others)...)
	}
	return slices.DeleteFunc(closure([]string{ref}), func(p string) bool { return slices.Contains(keep, p) })
}

// Graph is what Nix knows of store paths, by their paths.
type Graph map[string]Info

// Info is what Nix knows of a store path: of the size of its archive, and what it refers to.
type Info struct {
	Path       string   `json:"path"`
	Size       int64    `json:"narSize"`
	References []string `json:"references"`
}

// ReadGraph reads what exportReferencesGraph gives a build with structured attributes (Nix manual, "Advanced
// attributes"), or "nix path-info --json --recursive" prints: a list, or an object by path.
func ReadGraph(text []byte) (Graph, error) {
	var list []Info
	if err := json.Unmarshal(text, &list); err != nil {
		g := Graph{}
		if json.Unmarshal(text, &g) != nil {
			return nil, err
		}
		return g, nil
	}
	g := Graph{}
	for _, info := range list {
		g[info.Path] = info
	}
	return g, nil
}

// Saved is what [Saved] returns, of the paths of the graph.
func (g Graph) Saved(pkg, ref string) (bytes int64, ok bool) {
	whole := true
	closure := func(paths []string) (all []string) {
		seen := map[string]bool{}
		for todo := slices.Clone(paths); len(todo) > 0; {
			p := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if seen[p] {
				continue
			}
			info, known := g[p]
			seen[p], whole = true, whole && known
			all, todo = append(all, p), append(todo, info.References...)
		}
		return all
	}
	for _, p := range lost(pkg, ref, func(p string) []string { return g[p].References }, closure) {
		bytes += g[p].Size
	}
	_, known := g[pkg]
	if !known || !whole || !slices.Contains(g[pkg].References, ref) {
		return 0, false
	}
	return bytes, true
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
