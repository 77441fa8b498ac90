package cmd_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A ring is packages of pkg/, with the folders below them, and the rings that it may import from. See .github/ARCHITECTURE.md.
type ring struct{ name, packages, below string }

var rings = []ring{
	{"elf", "elfimage elfedit resolution", ""},
	{"paths", "inorder regular tree plainfile sysroot", ""},
	{"rules", "runpath store driver nixpkgs forwardcompat remedy finding", "paths"},
	{"gpu", "gpucode thin image", "elf paths"},
	{"load", "ldcache files loader process", "elf paths rules"},
	{"starts", "scripts starts references", "elf paths rules gpu load"},
	{"edit", "patchelf normal edit fixup", "elf paths rules load starts"},
	{"find", "explain audit manifest", "elf paths rules gpu load starts"},
	{"host", "host", "elf paths rules gpu load starts find"},
	{"tell", "cli", "elf paths rules gpu load starts edit find host"},
}

// ringOf returns the ring of a package of pkg/, with no name where it is in none.
func ringOf(pkg string) ring {
	top, _, _ := strings.Cut(strings.TrimPrefix(pkg, "cuda-runpath/pkg/"), "/")
	for _, r := range rings {
		if slices.Contains(strings.Fields(r.packages), top) {
			return r
		}
	}
	return ring{}
}

// mayImport reports whether a package of pkg/ may import another one.
func mayImport(pkg, imported string) bool {
	from, to := ringOf(pkg), ringOf(imported)
	return from.name != "" && to.name != "" && (from.name == to.name || slices.Contains(strings.Fields(from.below), to.name))
}

// Domain packages take values and return data: what speaks to people, and knows flags, is pkg/cli alone. There
// urfave/cli is for one package.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "cuda-runpath/pkg/...", "cuda-runpath/cmd/...").Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 20 {
		t.Fatalf("go list names %d packages only", len(lines))
	}
	for _, line := range lines {
		words := strings.Fields(line)
		pkg, imports := words[0], words[1:]
		isCLI := strings.HasPrefix(pkg, "cuda-runpath/pkg/cli/")
		for _, imported := range imports {
			switch {
			case strings.HasPrefix(imported, "github.com/urfave/"):
				if pkg != "cuda-runpath/pkg/cli/urfave" {
					t.Errorf("%s imports %s, which is for pkg/cli/urfave", pkg, imported)
				}
			case strings.HasPrefix(imported, "github.com/sirupsen/"):
				if !isCLI {
					t.Errorf("%s imports %s, which is for pkg/cli", pkg, imported)
				}
			case imported == "testing", strings.HasPrefix(imported, "cuda-runpath/tests/"):
				t.Errorf("%s imports %s, which is for tests", pkg, imported)
			case strings.HasPrefix(pkg, "cuda-runpath/cmd/"):
				if strings.HasPrefix(imported, "cuda-runpath/") && !strings.HasPrefix(imported, "cuda-runpath/pkg/cli") {
					t.Errorf("%s imports %s: a command is a line that calls pkg/cli", pkg, imported)
				}
			case strings.HasPrefix(imported, "cuda-runpath/") && !mayImport(pkg, imported):
				t.Errorf("%s (%s) imports %s (%s), which is not below it", pkg, ringOf(pkg).name, imported, ringOf(imported).name)
			case strings.HasPrefix(imported, "cuda-runpath/pkg/cli") && !isCLI:
				t.Errorf("%s imports %s", pkg, imported)
			}
		}
	}
}

// linked are the packages that a tool is made of; of autoPatchelf those beside what the editors are made of. Who reads a tool reads these.
// cmd/runpath is everything, and hostDriver has no command of the others.
var linked = []struct{ tools, packages string }{
	{"stubReplace autoAddDriverRunpath addCudaCompatRunpath", "cli/editors edit/runpaths driver/symbols cli/normalform cli/session cli/flags cli/command cli/urfave " +
		"edit normal files elfedit elfimage tree regular driver runpath resolution store remedy"},
	{"autoPatchelf", "cli/autopatchelf fixup loader ldcache nixpkgs plainfile process scripts/syntax scripts/wrapper starts"},
	{"noRunpathAmbiguity", "cli/ambiguity cli/findings cli/loading cli/session cli/flags cli/command cli/urfave " +
		"finding remedy/change driver/stubcode driver/symbols explain forwardcompat process references gpucode nixpkgs host host/ldconf " +
		"loader ldcache files sysroot elfimage tree regular driver runpath resolution store remedy"},
}

// A tool links what it does, and nothing else.
func TestWhatToolsLink(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here: ", err)
	}
	const ours = "cuda-runpath/pkg/"
	for i, l := range linked {
		may := strings.Fields(l.packages)
		if l.tools == "autoPatchelf" { // which does what those do, in the same edit
			may = append(may, strings.Fields(strings.TrimPrefix(linked[i-1].packages, "cli/editors edit/runpaths driver/symbols "))...)
		}
		slices.Sort(may)
		for _, name := range strings.Fields(l.tools) {
			var links []string
			for _, pkg := range strings.Fields(tool(t, "go", "list", "-tags", shippedTags, "-deps", "./"+name)) {
				if pkg, is := strings.CutPrefix(pkg, ours); is {
					links = append(links, pkg)
				}
			}
			slices.Sort(links)
			if diff := cmp.Diff(may, links); diff != "" {
				t.Errorf("%s links (+) and may link (-):\n%s", name, diff)
			}
		}
	}
}

// ARCHITECTURE.md's picture has each ring, and each arrow between two that does not follow from others, and no other.
func TestPicture(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", shippedTags, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "cuda-runpath/pkg/...").Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		from := ringOf(words[0]).name
		for _, imported := range words[1:] {
			if to := ringOf(imported).name; to != "" && to != from && !slices.Contains(imports[from], to) {
				imports[from] = append(imports[from], to)
			}
		}
	}
	var leads func(from, to string) bool
	leads = func(from, to string) bool {
		return slices.ContainsFunc(imports[from], func(next string) bool { return next == to || leads(next, to) })
	}
	var want, drawn []string
	for _, r := range rings {
		want = append(want, r.name+": "+r.packages)
		for _, to := range imports[r.name] {
			if !slices.ContainsFunc(imports[r.name], func(by string) bool { return leads(by, to) }) {
				want = append(want, r.name+" --> "+to)
			}
		}
	}
	text, err := os.ReadFile("../.github/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, box := range regexp.MustCompile(`(?m)^  ([a-z]+)\["([^"<]*)<br>[^"]*"\](?: --> (.*))?$`).FindAllStringSubmatch(string(text), -1) {
		drawn = append(drawn, box[2])
		for _, to := range strings.Fields(strings.ReplaceAll(box[3], "&", " ")) {
			drawn = append(drawn, box[1]+" --> "+to)
		}
	}
	slices.Sort(want)
	slices.Sort(drawn)
	if diff := cmp.Diff(want, drawn); diff != "" {
		t.Errorf("drawn in ARCHITECTURE.md (+), and so (-):\n%s", diff)
	}
}

// byName are the calls that make, replace or change a file by a name, which whoever owns its directory may have exchanged
// since it was last looked at. What is not an ELF file is written by pkg/plainfile. Of the calls that take a directory's
// descriptor, or flags, those count that are given what is named here.
var byName = map[string]string{
	"os.WriteFile": "", "os.Create": "", "os.CreateTemp": "", "os.Rename": "", "os.Truncate": "", "os.Link": "",
	"os.Chmod": "", "os.Chown": "", "os.Lchown": "", "os.OpenFile": "O_CREATE",
	"unix.Rename": "", "unix.Chmod": "", "unix.Chown": "", "unix.Lchown": "", "unix.Link": "", "unix.Truncate": "", "unix.Open": "O_CREAT", "unix.Creat": "",
	"unix.Renameat": "AT_FDCWD", "unix.Renameat2": "AT_FDCWD", "unix.Fchmodat": "", "unix.Fchownat": "AT_FDCWD", "unix.Openat": "O_CREAT",
	"os.Remove": "", "os.RemoveAll": "", "os.Symlink": "", "os.Mkdir": "", "os.MkdirAll": "", "os.Chtimes": "",
	"unix.Setxattr": "", "unix.Lsetxattr": "", "unix.Removexattr": "",
}

// writers are the places that may all the same, and why.
var writers = map[string]string{
	"pkg/plainfile/output.go os.OpenFile":      "a link that leads to no file: only the kernel knows whether it may be followed",
	"pkg/cli/patchelf/output.go os.OpenFile":   "patchelf's --output: an ELF file, written by descriptor, where a shell's > would",
	"pkg/edit/runpaths/offer.go os.MkdirAll":   "the directory of --offer, by the name that was given, which is then opened once",
	"pkg/cli/hook/moments.go os.MkdirAll":      "the stubs of a build, in the directory that is the build's own",
	"pkg/cli/hook/moments.go os.Symlink":       "the same",
	"pkg/plainfile/dirs.go os.Mkdir":           "makes what is not there, and changes nothing that is",
	"pkg/plainfile/dirs.go os.MkdirAll":        "makes what is not there, and changes nothing that is",
	"pkg/host/private/private.go os.Chtimes":   "the user's own cache, which OpenCache lets nobody else write: only lets a directory live longer",
	"pkg/host/private/private.go os.RemoveAll": "the user's own cache, which OpenCache lets nobody else write",
	"pkg/host/private/private.go os.Remove":    "the user's own cache, which OpenCache lets nobody else write",
	"pkg/host/run/run.go os.Symlink":           "in a file system of the process's own",
	"pkg/host/run/run.go os.Remove":            "in a file system of the process's own",
	"pkg/host/run/run.go os.WriteFile":         "an empty file to mount on, in a file system of the process's own",
}

// reading are the calls that open, list, walk, resolve or lock by a way of their own: pkg/regular does, and what is
// examined may be a FIFO, a device, or exchanged at any moment.
var reading = map[string]string{
	"os.Open": "", "os.OpenFile": "", "os.OpenRoot": "", "os.ReadFile": "", "unix.Open": "", "unix.Openat": "", "unix.Openat2": "",
	"os.ReadDir": "", "os.DirFS": "", "unix.Getdents": "", "unix.ReadDirent": "", "filepath.Walk": "", "filepath.WalkDir": "", "fs.WalkDir": "",
	"filepath.Glob": "", "fs.Glob": "", "filepath.EvalSymlinks": "", "os.Readlink": "", "unix.Readlink": "", "unix.Readlinkat": "", "unix.Flock": "",
}

// readers are the places that may all the same, and why.
var readers = map[string]string{
	"pkg/audit/closure.go filepath.WalkDir":            "a finished object of a store, which nobody changes",
	"pkg/audit/closure.go os.Readlink":                 "what a link says: nothing is opened by it",
	"pkg/audit/farm.go os.ReadDir":                     "names of links in what the walk has listed; where they lead is resolved by regular",
	"pkg/cli/autopatchelf/autopatchelf.go os.OpenFile": "--hints is text that is handed over, and may be a pipe",
	"pkg/cli/autopatchelf/autopatchelf.go os.Readlink": "what a link says, in a warning",
	"pkg/cli/hook/functions.go filepath.WalkDir":       "names only, as nixpkgs' find does, in a build's own outputs",
	"pkg/cli/hook/moments.go filepath.WalkDir":         "times of a build's own outputs",
	"pkg/cli/hook/moments.go os.ReadDir":               "the stubs of a build, which it made itself",
	"pkg/cli/manifest/command.go os.Open":              "a manifest that is handed over by a pipe",
	"pkg/cli/patchelf/run.go os.ReadFile":              "@FILE of patchelf's, which may be a pipe",
	"pkg/driver/symbols/genexports.go os.ReadFile":     "a program that makes a table, run by hand",
	"pkg/edit/runpaths/offer.go os.OpenRoot":           "the directory of --offer, by the name that was given: work goes on in it",
	"pkg/files/files.go os.OpenFile":                   "names of a directory, by a path without links below the root; remembered",
	"pkg/fixup/outside.go os.Readlink":                 "what a link says: whether it is followed at all",
	"pkg/fixup/wheels.go fs.Glob":                      "names of directories of --libs, which the caller gave",
	"pkg/fixup/wheels.go os.DirFS":                     "the same",
	"pkg/fixup/wheels.go os.ReadDir":                   "names of directories of --libs: what is in them is opened by tree and loader",
	"pkg/host/install/program.go os.Open":              "the program that runs, by its link in /proc",
	"pkg/host/install/program.go os.Readlink":          "the same",
	"pkg/host/offer/offer.go fs.WalkDir":               "in an opened directory that hostDriver made",
	"pkg/host/offer/offer.go unix.Readlinkat":          "whether names of an opened directory are links, in one call each",
	"pkg/host/private/private.go os.OpenRoot":          "the user's own cache, which OpenCache lets nobody else write",
	"pkg/host/private/private.go filepath.WalkDir":     "the user's own cache: what was made, before others know it",
	"pkg/host/private/private.go os.ReadDir":           "the user's own cache",
	"pkg/host/run/run.go os.ReadDir":                   "names of files that Vulkan's loader reads; entries of this process's own /run",
	"pkg/host/run/run.go os.ReadFile":                  "/proc",
	"pkg/host/run/run.go os.Readlink":                  "in a file system of the process's own",
	"pkg/host/run/run.go unix.Open":                    "the terminal",
	"pkg/host/trust.go os.ReadFile":                    "/proc",
	"pkg/manifest/read.go os.Readlink":                 "what a link says: it is written down",
	"pkg/normal/weigh.go filepath.WalkDir":             "sizes of a store object, for a number in a report",
	"pkg/plainfile/write.go os.ReadFile":               "/proc",
	"pkg/regular/below.go os.OpenRoot":                 "here",
	"pkg/regular/follow.go os.Readlink":                "here",
	"pkg/regular/lock.go unix.Flock":                   "here",
	"pkg/regular/open.go os.OpenFile":                  "here",
	"pkg/regular/open.go unix.Openat":                  "here",
	"pkg/scripts/file.go os.ReadDir":                   "names of a directory of --toolkit, which the caller gave",
	"pkg/sysroot/sysroot.go unix.Readlinkat":           "of what is open already",
	"pkg/tree/dir.go unix.Getdents":                    "a walk's own list, into a buffer that is used again",
}

// Files are written in one place, and opened, listed, walked and resolved in one, but for those that the lists give a
// reason for; and what is on a list is there.
func TestFilesAreWrittenInOnePlace(t *testing.T) {
	lists := []struct {
		calls, may map[string]string
		through    string
	}{
		{byName, writers, "write through pkg/plainfile, or say in writers why not"},
		{reading, readers, "read through pkg/regular, or say in readers why not"},
	}
	unseen := map[string]bool{}
	for _, list := range lists {
		for place := range list.may {
			unseen[place] = true
		}
	}
	files := token.NewFileSet()
	seen := 0
	for _, dir := range []string{"cmd", "pkg"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			seen++
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name := selector(call.Fun)
				place := strings.TrimPrefix(filepath.ToSlash(path), "../") + " " + name
				for _, list := range lists {
					given, listed := list.calls[strings.Replace(name, "syscall.", "unix.", 1)]
					if !listed || given != "" && !mentions(call.Args, given) {
						continue
					}
					if delete(unseen, place); list.may[place] == "" {
						t.Errorf("%s calls %s: %s", files.Position(n.Pos()), name, list.through)
					}
					break
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 100 {
		t.Errorf("%d files were read only", seen)
	}
	for place := range unseen {
		t.Errorf("%s is there no more: take it off the list", place)
	}
}

// selector returns "os.Rename" for such an expression.
func selector(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name
	}
	return ""
}

// mentions reports whether an identifier occurs in expressions.
func mentions(all []ast.Expr, name string) (found bool) {
	for _, e := range all {
		ast.Inspect(e, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == name
			return true
		})
	}
	return found
}

// ours are the names of commands that remedies have.
const ours = `runpath (?:set|add|remove|edit|normalize|shrink|cache|thin|scripts|explain|audit)|stubReplace|autoAddDriverRunpath|addCudaCompatRunpath|` +
	`noRunpathAmbiguity|autoPatchelf|substituteInPlace|addAutoPatchelfSearchPath|patchelf|hostDriver [a-z]+|ln -s|cp|mv|rm|chmod|chown|mkdir|nix|nix-store|systemctl|sudo`

var (
	// A command with a place for a value in it, or with nothing behind it.
	madeByHand = regexp.MustCompile(`(?:^|[^-A-Za-z0-9_./])(?:` + ours + `)(?: [-a-zA-Z0-9"$]+)* ["']?(?:%[svq]|$)`)
	// What edits a file.
	editors = []string{"runpath", "stubReplace", "autoAddDriverRunpath", "addCudaCompatRunpath", "autoPatchelf", "patchelf", "ln", "cp", "mv", "rm", "chmod"}
)

// byHand are the places that have a command in a text all the same, and why.
var byHand = map[string]string{
	"pkg/audit/closure.go":         "what nix-store was asked, in an error",
	"pkg/cli/patchelf/run.go":      "what a message begins with",
	"pkg/host/doctor/diagnosis.go": "a fix in words, which others have made",
	"pkg/host/doctor/doctor.go":    "sudo before a command",
	"pkg/host/doctor/program.go":   "what the loader's rules, and this host, say of a program, in words that others have made",
}

// A command is made of its words in pkg/remedy, which quotes each; what edits a file is made by remedy/change, which knows what
// nobody edits. As far as the text of a program shows: a literal that is a command with a place for a value in it, or that ends where
// one would be, and a remedy in words whose format is no constant.
func TestCommandsAreMadeInOnePlace(t *testing.T) {
	files := token.NewFileSet()
	unseen, seen := map[string]bool{}, 0
	for place := range byHand {
		unseen[place] = true
	}
	literal := func(e ast.Expr) (string, bool) {
		l, ok := e.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(l.Value)
		return s, err == nil
	}
	var constant func(e ast.Expr) bool
	constant = func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.BasicLit:
			return true
		case *ast.BinaryExpr:
			return constant(e.X) && constant(e.Y)
		case *ast.Ident: // a constant of the function or of the package
			return e.Obj == nil || e.Obj.Kind == ast.Con
		case *ast.SelectorExpr: // another package's
			x, ok := e.X.(*ast.Ident)
			return ok && x.Obj == nil
		}
		return false
	}
	err := filepath.WalkDir(filepath.Join("..", "pkg"), func(path string, e fs.DirEntry, err error) error {
		place := strings.TrimPrefix(filepath.ToSlash(path), "../")
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(place, "pkg/remedy/") {
			return err
		}
		seen++
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		wrong := func(n ast.Node, format string, args ...any) {
			if delete(unseen, place); byHand[place] == "" {
				t.Errorf("%s: %s", files.Position(n.Pos()), fmt.Sprintf(format, args...))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr: // "runpath edit " + name
				if s, ok := literal(n.X); ok && n.Op == token.ADD && !constant(n.Y) && madeByHand.MatchString(s) {
					wrong(n, "a command is put together by hand: %q + …: remedy.Say quotes what is put in", s)
				}
			case *ast.CallExpr:
				name := selector(n.Fun)
				for i, arg := range n.Args {
					if s, ok := literal(arg); ok && !strings.HasPrefix(name, "remedy.") && !strings.HasSuffix(name, ".And") && strings.Contains(s, "%") && madeByHand.MatchString(s) && i < len(n.Args)-1 {
						wrong(n, "a command is put together by hand: %q: remedy.Say quotes what is put in", s)
					}
				}
				if s, ok := "", false; name == "remedy.Run" && len(n.Args) > 0 {
					if s, ok = literal(n.Args[0]); ok && slices.Contains(editors, s) {
						wrong(n, "what edits a file is change.Edit's, which knows what nobody edits: %s", s)
					}
				}
				if (name == "remedy.Do" || name == "remedy.Say" || strings.HasSuffix(name, ".And")) && len(n.Args) > 0 && !constant(n.Args[0]) {
					wrong(n, "the format of a remedy is no constant")
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("%d files were read only", seen)
	}
	for place := range unseen {
		t.Errorf("%s has none any more: take it off the list", place)
	}
}

// Each file and each name that ARCHITECTURE.md gives as the place of a rule exists.
func TestRulesAreWhereTheTableSays(t *testing.T) {
	text, err := os.ReadFile("../.github/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Where each rule is\n")
	table, _, _ = strings.Cut(table, "\n## ")
	places := regexp.MustCompile("`([a-z/]+)(?:\\.([A-Za-z_.]+))?`").FindAllStringSubmatch(table, -1)
	if len(places) < 60 {
		t.Fatalf("the table names %d places", len(places))
	}
	for _, place := range places {
		at := filepath.Join("..", "pkg", place[1])
		if strings.HasPrefix(place[1], "cmd/") {
			at = "../" + place[1]
		}
		if ext := place[2]; ext == "go" || ext == "txt" {
			if _, err := os.Stat(at + "." + ext); err != nil {
				t.Errorf("%s: %v", place[0], err)
			}
			continue
		}
		dirs := []string{at}
		if _, err := os.Stat(at); err != nil {
			dirs, _ = filepath.Glob("../pkg/*/" + place[1]) // host's and cli's are named by their last word, too
		}
		if len(dirs) == 0 {
			t.Errorf("%s: there is no such package", place[0])
		}
		if place[2] == "" || len(dirs) == 0 {
			continue
		}
		for name := range strings.SplitSeq(place[2], ".") {
			declared := regexp.MustCompile(`(?m)^\s*(func |func \([^)]*\) |type |var |const )?` + name + `\b`)
			if !slices.ContainsFunc(dirs, func(dir string) bool {
				files, _ := filepath.Glob(dir + "/*.go")
				return slices.ContainsFunc(files, func(file string) bool {
					source, _ := os.ReadFile(file)
					return declared.Match(source)
				})
			}) {
				t.Errorf("%s: %s is declared nowhere in %s", place[0], name, dirs)
			}
		}
	}
}

// Each file that CONTRIBUTING.md names in its table exists.
func TestContributingNamesFiles(t *testing.T) {
	text, err := os.ReadFile("../.github/CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## How to add")
	table, _, _ = strings.Cut(table, "\n## ")
	files := regexp.MustCompile("`((?:pkg|cmd|tests|nix|hooks)/[a-z/_.A-Z]+)`").FindAllStringSubmatch(table, -1)
	if len(files) < 40 {
		t.Fatalf("the table names %d files", len(files))
	}
	for _, file := range files {
		if _, err := os.Stat("../" + file[1]); err != nil && !strings.Contains(file[1], "NAME") && !strings.Contains(file[1], "KIND") {
			t.Error(err)
		}
	}
}

// foreign are names in comments that are no code of this repository.
var foreign = strings.Fields("addValue binutilsQuirkPadding canonicalisePathMetaData cuDSS cuTENSOR elFarto formatArgs gABI hipModuleLoad nixGL psABI psABIs " +
	"rewriteHeaders rewriteSectionsExecutable rewriteSectionsLibrary symlinkJoin Unmarshaler xHH")

// A name in a comment, with a capital inside, is that of something. (TestLinksOfComments has those in brackets.)
func TestCommentsNameWhatThereIs(t *testing.T) {
	word := regexp.MustCompile(`[A-Za-z_]\w*`)
	known := map[string]bool{}
	for _, name := range foreign {
		known[name] = true
	}
	type named struct{ at, name string }
	var inComments []named
	camel := regexp.MustCompile(`(?:^|[^\w./$-])([a-z]+[A-Z]\w*)`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, "../.git/") || strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) > 1<<20 {
			return err
		}
		if !strings.HasSuffix(path, ".go") {
			for _, w := range word.FindAllString(string(text), -1) {
				known[w] = true
			}
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				for _, m := range camel.FindAllStringSubmatch(c.Text, -1) {
					inComments = append(inComments, named{files.Position(c.Pos()).String(), m[1]})
				}
				clear(text[c.Pos()-file.FileStart : c.End()-file.FileStart])
			}
		}
		for _, w := range word.FindAllString(string(text), -1) {
			known[w] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(inComments) < 1000 {
		t.Errorf("only %d names in comments", len(inComments))
	}
	for _, n := range inComments {
		if !known[n.name] {
			t.Errorf("%s: there is no %s", n.at, n.name)
		}
	}
}

// Of a process substitution bash 5.2 forgets the status, once in some thousand times, so that a build would fail of nothing.
func TestShimsDoNotWaitForSubstitutions(t *testing.T) {
	shims, err := filepath.Glob("../hooks/*.bash")
	if err != nil || len(shims) == 0 {
		t.Fatal(err)
	}
	for _, shim := range shims {
		if text, err := os.ReadFile(shim); err != nil || regexp.MustCompile(`(?m)^[^#]*\bwait\b`).Match(text) {
			t.Errorf("%s: waits, %v", shim, err)
		}
	}
}
