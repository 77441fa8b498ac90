package cmd_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers are the packages of pkg/, the lowest first: each imports only from layers before its own. What is not
// listed stands just below cli. See .github/ARCHITECTURE.md.
var layers = [][]string{
	{"elfimage", "runpath", "store", "sysroot", "remedy", "plainfile"},
	{"tree"},
	{"elfedit", "ldcache", "driver", "gpucode"},
	{"loader", "patchelf"},
	{"explain", "fixup", "normal", "scripts"},
	{"audit", "host"},
	{ /* not listed */ },
	{"cli"},
}

func layerOf(pkg string) int {
	name, _, _ := strings.Cut(strings.TrimPrefix(pkg, "cuda-runpath/pkg/"), "/")
	if i := slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, name) }); i >= 0 {
		return i
	}
	return len(layers) - 2
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
		isCLI := pkg == "cuda-runpath/pkg/cli" || strings.HasPrefix(pkg, "cuda-runpath/pkg/cli/")
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
			case imported == "testing", strings.HasPrefix(imported, "cuda-runpath/pkg/loader/tinyelf"):
				t.Errorf("%s imports %s, which is for tests", pkg, imported)
			case strings.HasPrefix(pkg, "cuda-runpath/cmd/"):
				if strings.HasPrefix(imported, "cuda-runpath/") && !strings.HasPrefix(imported, "cuda-runpath/pkg/cli") {
					t.Errorf("%s imports %s: a command is a line that calls pkg/cli", pkg, imported)
				}
			case strings.HasPrefix(imported, "cuda-runpath/") && !isCLI && layerOf(imported) >= layerOf(pkg) && layerOf(pkg) != len(layers)-2:
				t.Errorf("%s imports %s, which is not below it", pkg, imported)
			case strings.HasPrefix(imported, "cuda-runpath/pkg/cli") && !isCLI:
				t.Errorf("%s imports %s", pkg, imported)
			}
		}
	}
}
