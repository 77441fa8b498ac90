package remedy

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// What is printed is what a shell makes of it.
func TestShellReadsBackWhatIsQuoted(t *testing.T) {
	plain := []string{"", "a", "$ORIGIN/../lib", "it's", "a b", "~", "*", "-x", `\`, "ü", "x;y", "#", "!", "=", "a=b"}
	read := func(shell string, words []string) {
		out, err := exec.Command(shell, "-c", `for w in `+Quote(words...)+`; do printf '%s|' "$w"; done`).Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(out), strings.Join(words, "|")+"|"; got != want {
			t.Errorf("%s: %q, not %q", shell, got, want)
		}
	}
	read("sh", plain)
	unseen := []string{"a\nb", "a\nb'c\\'", "\x1b[31m", "\u009b0", "\x7fa", "\u202eü", "\xff0", "$a\r`b`\"\t\xe2\x82"}
	read("bash", append(unseen, plain...))
	for _, word := range unseen {
		if q := Quote(word); !Seen(q) || strings.Count(q, "'") != 2 {
			t.Errorf("%q is quoted as %q", word, q)
		}
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
