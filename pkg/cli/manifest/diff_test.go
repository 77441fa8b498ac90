package manifest

import (
	"bufio"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"cuda-runpath/pkg/manifest"
)

// written is what --diff prints of two packages.
func written(a, b *manifest.Document, all, markdown bool) string {
	var out strings.Builder
	w := bufio.NewWriter(&out)
	changes := manifest.Compare(a, b)
	sum := &diffSummary{Equal: len(changes) == 0, Changes: len(changes), Kinds: map[string]int{}}
	for _, c := range changes {
		sum.Kinds[c.Kind]++
	}
	(&writer{out: w, all: all, markdown: markdown}).write(changes, sum)
	w.Flush()
	return out.String()
}

// pkg is a package with some libraries.
func pkg(name string, files ...*manifest.File) *manifest.Document {
	for _, f := range files {
		f.Package, f.Kind = "/"+name, manifest.Shared
	}
	return &manifest.Document{Files: files, Packages: []*manifest.Package{{Path: "/" + name, Name: name}}}
}

// Names are in code spans, in which nothing is a mention, a reference to an issue or markup, as GitHub's renderer has it.
func TestMarkdownOfHostileNames(t *testing.T) {
	tags := regexp.MustCompile(`(?s)<code>.*?</code>`)
	var all []string
	for _, name := range []string{"a`b@everyone`.so", "c``d.so", "@octocat.so", "#1.so", "~~gone~~.so", "&amp;.so", "<img src=x>.so",
		"*b*.so", "[l](http:e).so", "a|b.so", "`", "``", " x ", " `", "x\\`y", "_a_", "www.example.com", "https://e.x", "e@x.org"} {
		was := &manifest.File{Path: "lib/a.so"}
		is := &manifest.File{Path: "lib/a.so", Soname: name, Needed: []string{name, "libc.so.6"}, RunPath: []string{name},
			Interpreter: name, Stops: name, NoteError: name, Opens: []manifest.Library{{Name: name, Cause: "string"}},
			Absent: []string{name}, References: []manifest.Reference{{Object: "/x/" + name}}}
		page := written(pkg("p", was), pkg(name, is, &manifest.File{Path: name}), true, true)
		all = append(all, page)
		for _, line := range strings.Split(page, "\n") {
			// As CommonMark says: a span ends at as many backquotes as it began with.
			for rest := line; strings.Contains(rest, "`"); {
				rest = rest[strings.Index(rest, "`"):]
				n := len(rest) - len(strings.TrimLeft(rest, "`"))
				end := regexp.MustCompile("[^`]`{" + fmt.Sprint(n) + "}([^`]|$)").FindStringIndex(rest)
				if end == nil {
					t.Fatalf("%q: no end of the span in %q", name, line)
				}
				rest = rest[end[1]-1:]
				rest = strings.TrimLeft(rest, "`")
			}
		}
	}
	render, err := exec.LookPath("cmark-gfm")
	if err != nil {
		t.Skip("cmark-gfm is not installed")
	}
	for i, page := range all {
		cmd := exec.Command(render, "-e", "table", "-e", "strikethrough", "-e", "autolink", "-e", "tagfilter")
		cmd.Stdin = strings.NewReader(page)
		html, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(html), "<code>") {
			t.Errorf("%d: no name is in %s", i, html)
		}
		if left := regexp.MustCompile("[@#`~&*_|]|<a |<img|<del|<em|octocat|example|everyone").FindString(
			strings.ReplaceAll(tags.ReplaceAllString(string(html), ""), "&quot;", "")); left != "" {
			t.Errorf("%q is left outside of code in\n%s\nof\n%s", left, html, page)
		}
	}
}

// Of a package no more than a screen is shown, of each kind something; -v shows all.
func TestScreen(t *testing.T) {
	var before, after []*manifest.File
	for i := range 60 {
		before = append(before, &manifest.File{Path: fmt.Sprintf("lib/lib%c%c.so", 'a'+i/26, 'a'+i%26), Needed: []string{"libc.so.6"}})
		after = append(after, &manifest.File{Path: before[i].Path, Needed: []string{fmt.Sprintf("lib%d.so", i)}, Soname: fmt.Sprint("s", i)})
	}
	after = append(after, &manifest.File{Path: "lib/new.so"})
	a, b := pkg("p", before...), pkg("q", after...)
	screen := written(a, b, false, false)
	rows := 0
	for _, line := range strings.Split(strings.TrimSuffix(screen, "\n"), "\n") {
		rows += 1 + len([]rune(line))/columns
	}
	if rows > 30 || rows < 15 || !strings.Contains(screen, "lib/new.so: is new") || !strings.Contains(screen, "soname s0") ||
		!regexp.MustCompile(`(?m)^  and [0-9]+ more lines \(-v\)$`).MatchString(screen) {
		t.Errorf("%d rows:\n%s", rows, screen)
	}
	if whole := written(a, b, true, false); strings.Count(whole, "soname s") != 60 || strings.Contains(whole, "more lines") {
		t.Error(whole)
	}
	if page := written(a, b, false, true); strings.Count(page, "soname `s") != 60 {
		t.Error(page)
	}
}

// What is said of several files is in the plural, and the order of libraries is one line, or with -v one for each order.
func TestLines(t *testing.T) {
	file := func(path string, needed ...string) *manifest.File { return &manifest.File{Path: path, Needed: needed} }
	a := pkg("p", file("a.so", "x", "y"), file("b.so", "x", "y"), file("c.so", "x", "y"), file("d.so", "y", "x", "z"))
	b := pkg("q", file("a.so", "y", "x"), file("b.so", "y", "x"), file("c.so", "y", "x"), file("d.so", "x", "y", "z"), file("e.so"), file("f.so"))
	got := written(a, b, false, false)
	for _, want := range []string{"  4 files: need libraries in another order (a.so, b.so, c.so and 1 more)\n",
		"  e.so and f.so: are new (library, 0.0 kB)\n", "6 changes, +0.0 kB, GPU code +0.0 kB: files that are new 2, needed libraries 4\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	got = written(a, b, true, false)
	for _, want := range []string{"  a.so, b.so and c.so: need libraries in another order: y x, not x y\n",
		"  d.so: needs libraries in another order: x y z, not y x z\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
