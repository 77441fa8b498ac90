package scripts

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/scripts/syntax"
	"cuda-runpath/pkg/tree"
)

// Read returns what is in a script that may open the driver; "" for every other file.
func Read(f *tree.File) (string, syntax.Language, error) {
	if f.ELF() {
		return "", syntax.Unknown, nil
	}
	lang := syntax.LanguageOf(path.Base(f.Path), f.Head())
	if lang == syntax.Unknown {
		return "", lang, nil
	}
	text, err := worth(f, Worth)
	return text, lang, err
}

// ReadSource is [Read] also for what tells how to build something, and for what names directories of the host to a
// linker; is reports whether the file is one.
func ReadSource(f *tree.File) (text string, lang syntax.Language, is bool, err error) {
	if f.ELF() {
		return "", syntax.Unknown, false, nil
	}
	name := path.Base(f.Path)
	if lang = syntax.LanguageOf(name, f.Head()); lang == syntax.Unknown && !builds(name, f.Head()) {
		return "", lang, false, nil
	}
	text, err = worth(f, func(text []byte) bool { return lang != syntax.Unknown && Worth(text) || mayBurn(text) })
	return text, lang, true, err
}

// worth returns what is in a file, "" where that is not worth a look.
func worth(f *tree.File, look func([]byte) bool) (string, error) {
	text, err := f.Whole(MaxSize)
	if errors.Is(err, tree.ErrTooLarge) || errors.Is(err, regular.ErrNotRegular) || err == nil && !look(text) {
		return "", nil
	}
	return string(text), err
}

// Write gives a script another text, as a new file in its place: see [tree.File.Replace].
func Write(f *tree.File, text string) error {
	return f.Replace(tree.Replacing{Anew: true, Sync: true}, func(w tree.Copy) error {
		_, err := w.WriteAt([]byte(text), 0)
		return err
	})
}

// ToolkitIn returns the path of a library in the first of some directories that has it: by its
// name or, where that is without a version, as the only one there that has one.
func ToolkitIn(dirs []string) (func(name string) string, error) {
	for i, dir := range dirs {
		dir, err := filepath.Abs(dir)
		if err != nil || strings.ContainsAny(dir, "\"'`$\\") || !remedy.Seen(dir) {
			return nil, fmt.Errorf("%q: a script cannot name it", dirs[i])
		}
		dirs[i] = dir
	}
	return func(name string) string {
		for _, dir := range dirs {
			if st, err := os.Stat(dir + "/" + name); err == nil && !st.IsDir() {
				return dir + "/" + name
			}
			found := map[string]string{} // where they lead to
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if real, err := regular.Real(dir + "/" + e.Name()); err == nil && strings.HasPrefix(e.Name(), name+".") &&
					(found[real] == "" || len(e.Name()) < len(found[real])) {
					found[real] = e.Name()
				}
			}
			if len(found) == 1 && strings.HasSuffix(name, ".so") {
				for _, as := range found {
					return dir + "/" + as
				}
			}
		}
		return ""
	}, nil
}
