package urfave

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/cli/command"
)

// leaves are the programs that packages call with files, and the commands of runpath.
func leaves() map[string]func() *command.Command {
	all := tools()
	var add func(words string, commands []*command.Command)
	add = func(words string, commands []*command.Command) {
		for _, c := range commands {
			if name := words + " " + c.Name; c.Commands != nil {
				add(name, c.Commands)
			} else {
				all[name] = cli.RunPath
			}
		}
	}
	add("runpath", cli.RunPath().Commands)
	return all
}

func tools() map[string]func() *command.Command {
	return map[string]func() *command.Command{
		"stubReplace":          cli.StubReplace.Command,
		"autoAddDriverRunpath": cli.AutoAddDriverRunpath.Command,
		"addCudaCompatRunpath": cli.AddCudaCompatRunpath.Command,
		"noRunpathAmbiguity":   cli.NoRunpathAmbiguity,
		"autoPatchelf":         cli.AutoPatchelf,
	}
}

// listen lets the action that a leaf's name leads to note what it reads, and returns its flags.
func listen(c *command.Command, name string, got *[]string) []*command.Flag {
	for _, word := range strings.Fields(name)[1:] {
		for _, sub := range c.Commands {
			if sub.Name == word {
				c = sub
				break
			}
		}
	}
	c.Action = func(l *command.Line) error { *got = said(c.Flags, l); return nil }
	return c.Flags
}

// said is what an action reads of a command line.
func said(flags []*command.Flag, l *command.Line) []string {
	out := []string{fmt.Sprintf("arguments %q", l.Args), l.Program, l.Command}
	for _, f := range flags {
		var value any
		switch f.Kind {
		case command.Bool:
			value = l.Bool(f.Name)
		case command.Int:
			value = l.Int(f.Name)
		case command.String:
			value = l.String(f.Name)
		case command.List:
			value = append([]string{}, l.StringSlice(f.Name)...)
		default:
			value = fmt.Sprintf("a flag of another kind: %v", f.Kind)
		}
		out = append(out, fmt.Sprintf("--%s %q set %v", f.Name, fmt.Sprint(value), l.IsSet(f.Name)))
	}
	return out
}

// What is read as a plain line, cli reads the same from the same words. Where they would
// differ, or cli has something to say, it is left to cli.
func TestPlainReadsWhatCLIReads(t *testing.T) {
	for name, make := range leaves() {
		t.Run(name, func(t *testing.T) {
			var words, got []string
			for _, f := range listen(make(), name, &got) {
				for _, n := range append([]string{f.Name}, f.Aliases...) {
					words = append(words, "-"+n, "--"+n, "--"+n+"=", "--"+n+"=true", "--"+n+"=0", "--"+n+"=x,y", "--"+n+"=1")
				}
			}
			words = append(words, "a", "b c", "", "-", "--", "-vq", "-vx", "--help", "-h", "--nothing", "warn", "3", "0x10", "-1", "---json", "--=x", "é")
			both := 0
			check := func(t interface{ Fatalf(string, ...any) }, words ...string) {
				program := make()
				listen(program, name, &got)
				args, err := program.Arrange(append(strings.Fields(name), words...))
				if err != nil {
					return
				}
				c, _, l := command.Plain(program, args)
				if c == nil {
					return
				}
				if err := c.Action(l); err != nil {
					t.Fatalf("%q: %v", args, err)
				}
				both++
				read := got
				got = nil
				program = make()
				listen(program, name, &got)
				if err := newApp(program, io.Discard, io.Discard).Run(args); err != nil {
					t.Fatalf("%q: it is read as a plain line, and cli says %v", args, err)
				}
				if diff := cmp.Diff(got, read); diff != "" {
					t.Fatalf("%q: -cli +plain:\n%s", args, diff)
				}
			}
			check(t, "-v", "a")
			check(t, "-v", "--verbose", "a")
			check(t, "--quiet", "-q", "a")
			check(t, "--jobs=3", "--jobs", "010", "a")
			check(t, "--verbose=false", "--json=F", "a")
			rapid.Check(t, func(t *rapid.T) {
				check(t, rapid.SliceOfN(rapid.SampledFrom(words), 0, 5).Draw(t, "args")...)
			})
			if both == 0 {
				t.Error("none of them is plain")
			}
		})
	}
}

// Both print the version in the same words, to stdout.
func TestPlainPrintsTheVersion(t *testing.T) {
	for name, make := range tools() {
		var plainly, byCLI bytes.Buffer
		program := make()
		args, _ := program.Arrange([]string{name, "--version"})
		c, _, l := command.Plain(program, args)
		if c == nil {
			t.Fatalf("%q: left to cli", args)
		}
		l.Stdout = &plainly
		if err := c.Action(l); err != nil {
			t.Fatal(err)
		}
		if err := newApp(program, &byCLI, io.Discard).Run(args); err != nil {
			t.Fatal(err)
		}
		if plainly.String() != byCLI.String() || !strings.HasPrefix(plainly.String(), name+" version ") {
			t.Errorf("%s: %q, cli %q", name, plainly.String(), byCLI.String())
		}
	}
}

// The calls that packages make do not need cli.
func TestPlainReadsWhatPackagesWrite(t *testing.T) {
	for _, args := range [][]string{
		{"autoAddDriverRunpath", "lib.so"},
		{"autoAddDriverRunpath", "--force-rpath", "lib.so", "--malformed", "warn", "--driver-link=/run/opengl-driver/lib", "-q"},
		{"stubReplace", "--quiet", "--jobs", "2", "a", "b"},
		{"addCudaCompatRunpath", "--compat", "/compat", "a"},
		{"noRunpathAmbiguity", "--strict", "a"},
		{"runpath", "explain", "--no-dlopen", "a", "b"},
		{"runpath", "set", "/opt/lib", "a", "-q"},
		{"runpath", "needed", "add", "libcuda.so.1", "a"},
	} {
		program := cli.RunPath()
		if make := tools()[args[0]]; make != nil {
			program = make()
		}
		arranged, _ := program.Arrange(args)
		if c, _, _ := command.Plain(program, arranged); c == nil {
			t.Errorf("%q: left to cli", args)
		}
	}
}
