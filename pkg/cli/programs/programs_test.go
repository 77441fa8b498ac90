package programs

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/cli/hook"
	"cuda-runpath/pkg/cli/urfave"
)

// toolEntry is a tool in cmd/tools.json: what Nix and the hooks read of it.
type toolEntry struct {
	Name string
	// Install is false where the name is another program's, whose place it takes only
	// where somebody asks for that.
	Install *bool
	Hook    bool // hooks/NAME.bash runs it
}

func listedTools(t *testing.T) []toolEntry {
	t.Helper()
	text, err := os.ReadFile("../../../cmd/tools.json")
	if err != nil {
		t.Fatal(err)
	}
	var entries []toolEntry
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

// A tool is one entry of the manifest. Nix makes its links from it, the hooks their
// order; this is what keeps the Go side to it.
func TestManifestIsWhatTheProgramIs(t *testing.T) {
	entries := listedTools(t)
	programs := map[string]Program{}
	for _, p := range All() {
		programs[p.Name] = p
	}
	for _, entry := range entries {
		if _, ok := programs[entry.Name]; !ok {
			t.Errorf("%s is in the manifest, and the program does not answer to it", entry.Name)
		}
		delete(programs, entry.Name)
		var help strings.Builder
		Run([]string{"/x/" + entry.Name, "--help"}, &help, &help, urfave.Run)
		if entry.Name != "patchelf" && !strings.Contains(help.String(), entry.Name+" - ") {
			t.Errorf("called as %s it answers:\n%s", entry.Name, help.String())
		}
	}
	for name := range programs {
		t.Errorf("the program answers to %s, which is not in the manifest", name)
	}
}

// The hooks run the tools in the manifest's order, and each has a hook; so has what runpath does in a build and no tool has the name of.
func TestManifestOrderIsTheHooks(t *testing.T) {
	text, err := os.ReadFile("../../../hooks/hooks.nix")
	if err != nil {
		t.Fatal(err)
	}
	tools, commands := []string{}, []string{"thinCuda", "cudaCapabilitiesCheck"}
	for _, name := range hook.Tools() {
		if !strings.Contains(string(text), "      runs = [ \""+name+"\" ];\n") {
			t.Errorf("hooks/hooks.nix has no hook that runs %s", name)
		}
		if !slices.Contains(commands, name) {
			tools = append(tools, name)
		}
	}
	order := listedTools(t)
	order = slices.DeleteFunc(order, func(e toolEntry) bool { return !e.Hook })
	if !slices.EqualFunc(tools, order, func(name string, e toolEntry) bool { return name == e.Name }) {
		t.Errorf("the hooks run %q, the manifest has %v", tools, order)
	}
}

// nixpkgs' name of the program, for builds that run it by themselves.
func TestAutoPatchelfsOtherName(t *testing.T) {
	var out strings.Builder
	if status := Run([]string{"/x/auto-patchelf", "--help"}, &out, &out, urfave.Run); status != 0 || !strings.Contains(out.String(), "autoPatchelf - ") {
		t.Errorf("%d, %s", status, out.String())
	}
}

// A name that it does not know, such as a wrapper's, is runpath.
func TestUnknownNames(t *testing.T) {
	for _, args := range [][]string{{"/nix/store/x/bin/.runpath-wrapped", "--version"}, {"", "--version"}} {
		var out strings.Builder
		if status := Run(args, &out, &out, urfave.Run); status != 0 || !strings.HasPrefix(out.String(), "runpath version ") {
			t.Errorf("%q: %d, %s", args, status, out.String())
		}
	}
}
