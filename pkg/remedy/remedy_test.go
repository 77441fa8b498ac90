package remedy

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"cuda-runpath/pkg/runpath"
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
	unseen := []string{"a\nb", "a\nb'c\\'", "\x1b[31m", "\u009b0", "\x7fa", "\u202eü", "\xff0", "$a\r`b`\"\t\xe2\x82", "-\x01", "%s\x01"}
	for _, shell := range []string{"sh", "dash", "bash"} {
		read(shell, append(unseen, plain...))
	}
	for _, word := range unseen {
		if q := Quote(word); !Seen(q) || strings.Count(q, "'") != 2 {
			t.Errorf("%q is quoted as %q", word, q)
		}
	}
	// A newline at the end is not lost either.
	for _, word := range []string{"\n", "a\n", "a'\n\n"} {
		for _, shell := range []string{"sh", "dash", "bash"} {
			line := Quote("printf", "%s|", "x", word, "y z")
			if out, err := exec.Command(shell, "-c", line).Output(); !errors.Is(err, exec.ErrNotFound) && string(out) != "x|"+word+"|y z|" || !Seen(line) {
				t.Errorf("%s: %q of %s", shell, out, line)
			}
		}
	}
	if got := Quote("runpath", "edit", "--remove-entry", "$ORIGIN/a", "/b"); got != "runpath edit --remove-entry '$ORIGIN/a' /b" {
		t.Error(got)
	}
	// zsh looks a command up for a word that begins with =.
	if got := Quote("runpath", "set", "=x", "a=b"); got != "runpath set '=x' a=b" {
		t.Error(got)
	}
}

func TestRemedies(t *testing.T) {
	if r := Do("a\u202eb\xff\n"); r.Whole() != `a\xe2\x80\xaeb\xff\x0a` {
		t.Errorf("what is not seen is %s", r.Whole())
	}
	r := Run("stubReplace", "/a b").And(", or not")
	if r.Whole() != "stubReplace '/a b', or not" || len(r.Command) != 2 {
		t.Errorf("%+v", r)
	}
	if r := Do("%s is not %s, but %s", "a b", []string{"x", "$y"}, Command("z", "'")); r.Whole() != `'a b' is not x and '$y', but z ''\'''` {
		t.Errorf("%+v", r)
	}
	if r := Do("install it"); r.Whole() != "install it" || r.Command != nil {
		t.Errorf("%+v", r)
	}
}

// What helps with all files of a directory is one command where that is the driver link's, whatever the files are called.
func TestOfAll(t *testing.T) {
	link := func(file, at string) Remedy {
		c := &Change{Rules: &Rules{Maps: runpath.AddDriverLink, DriverLink: at}}
		r := Run(append(c.Command(), file)...).And("; or not")
		r.Change = c
		return r
	}
	stub := Run("stubReplace", "d/a")
	stub.Change = &Change{Rules: &Rules{Maps: runpath.ReplaceStubs}}
	for _, c := range []struct {
		all  []Remedy
		want string
	}{
		{nil, ""},
		{[]Remedy{Do("x")}, "x"},
		{[]Remedy{Do("x"), Do("x")}, "x"},
		{[]Remedy{Do("x"), Do("y")}, ""},
		{[]Remedy{link("d/a b", ""), link("d/it's", "")}, "autoAddDriverRunpath d; or not"},
		{[]Remedy{link("d/a", "/l"), link("d/b", "/l"), link("d/a", "/l")}, "autoAddDriverRunpath --driver-link /l d; or not"},
		{[]Remedy{link("d/a", "/l"), link("d/b", "")}, ""},
		{[]Remedy{link("d/a", ""), stub}, ""},
		{[]Remedy{stub, link("d/b", "")}, ""},
	} {
		if got := OfAll("d", c.all); got.Whole() != c.want {
			t.Errorf("%q, want %q", got.Whole(), c.want)
		}
	}
	if got := OfAll("", []Remedy{link("d/a", ""), link("d/b", "")}); got.Whole() != "" {
		t.Errorf("of no directory: %q", got.Whole())
	}
}
