package remedy

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// What is printed is what a shell makes of it.
func TestShellReadsBackWhatIsQuoted(t *testing.T) {
	words := []string{"", "a", "$ORIGIN/../lib", "it's", "a b", "~", "*", "-x", "a\nb", `\`, "ü", "x;y", "#", "!", "=", "a=b"}
	out, err := exec.Command("sh", "-c", `for w in `+Quote(words...)+`; do printf '%s|' "$w"; done`).Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), strings.Join(words, "|")+"|"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if got := Quote("runpath", "edit", "--remove-entry", "$ORIGIN/a", "/b"); got != "runpath edit --remove-entry '$ORIGIN/a' /b" {
		t.Error(got)
	}
}

func TestRemedies(t *testing.T) {
	r := Run("stubReplace", "/a b").And(", or not")
	if r.Fix != "stubReplace '/a b', or not" || len(r.Command) != 2 {
		t.Errorf("%+v", r)
	}
	if r := Do("install it"); r.Fix != "install it" || r.Command != nil {
		t.Errorf("%+v", r)
	}
}
