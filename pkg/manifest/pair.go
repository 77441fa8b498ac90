package manifest

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/store"
)

// keyOf returns a package's name without its version, but with the output that stands behind that: "cuda_cudart-lib"
// of cuda_cudart-12.4.127-lib (Nix takes the first hyphen that no letter follows for the beginning of a version: Nix
// manual, builtins.parseDrvName).
func keyOf(name string) string {
	for i := 0; i+1 < len(name); i++ {
		if next := name[i+1]; name[i] == '-' && !(next >= 'a' && next <= 'z' || next >= 'A' && next <= 'Z') && i > 0 {
			output := ""
			if last := strings.LastIndexByte(name, '-'); last > i && !strings.ContainsAny(name[last:], "0123456789.+") {
				output = name[last:]
			}
			return name[:i] + output
		}
	}
	return name
}

// general is a path or name with each number, and a version of several, in the place of one that is another version's.
func general(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if c := p[i]; c < '0' || c > '9' {
			b.WriteByte(c)
			continue
		}
		for i+1 < len(p) && (p[i+1] >= '0' && p[i+1] <= '9' || p[i+1] == '.' && i+2 < len(p) && p[i+2] >= '0' &&
			p[i+2] <= '9') {
			i++
		}
		b.WriteByte('0')
	}
	return b.String()
}

// pair is a package, or a file, before and after; one of them may be nil.
type pair[T any] struct{ a, b *T }

// match pairs what has the same key, each with the first that is left, in order; what is left over stays alone.
func match[T any](a, b []*T, keys ...func(*T) string) (all []pair[T]) {
	with := make([]*T, len(b)) // of a, by the index of b
	taken := map[*T]bool{}
	for _, key := range keys {
		left := map[string][]*T{}
		for _, x := range a {
			if !taken[x] {
				left[key(x)] = append(left[key(x)], x)
			}
		}
		for i, y := range b {
			if of := left[key(y)]; with[i] == nil && len(of) > 0 {
				with[i], left[key(y)] = of[0], of[1:]
				taken[of[0]] = true
			}
		}
	}
	for i, y := range b {
		all = append(all, pair[T]{with[i], y})
	}
	for _, x := range a {
		if !taken[x] {
			all = append(all, pair[T]{x, nil})
		}
	}
	return all
}

// paired pairs the packages of two documents: by name and version, then by name, in the order of versions. One and
// one are a pair whatever they are called.
func paired(a, b []*Package) []pair[Package] {
	if len(a) == 1 && len(b) == 1 {
		return []pair[Package]{{a[0], b[0]}}
	}
	order := func(all []*Package) []*Package {
		all = slices.Clone(all)
		slices.SortFunc(all, func(x, y *Package) int {
			return cmp.Or(natural(x.Name, y.Name), strings.Compare(x.Path, y.Path))
		})
		return all
	}
	return match(order(a), order(b), func(p *Package) string { return p.Name },
		func(p *Package) string { return keyOf(p.Name) })
}

// natural compares texts in which numbers count as such.
func natural(a, b string) int {
	digits := func(s string) int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n
	}
	for a != "" && b != "" {
		n, m := digits(a), digits(b)
		if n > 0 && m > 0 {
			x, y := strings.TrimLeft(a[:n], "0"), strings.TrimLeft(b[:m], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[n:], b[m:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// pairedPaths pairs what has paths: by path, then by the last name in a directory with other numbers in it, then by path
// with other numbers.
func pairedPaths[T any](a, b []*T, of func(*T) string) []pair[T] {
	return match(a, b, of, func(x *T) string { return general(path.Dir(of(x))) + "/" + path.Base(of(x)) },
		func(x *T) string { return general(of(x)) })
}

// objectOf is the store path that a path is in; "" for none.
func objectOf(p string) string {
	if !strings.HasPrefix(p, "/") {
		return ""
	}
	return store.Path(p)
}
