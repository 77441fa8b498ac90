package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	"pgregory.net/rapid"
)

// leaves are the apps that packages call with files, and the commands of runpath.
func leaves() map[string]func() *cli.App {
	all := tools()
	var add func(words string, commands []*cli.Command)
	add = func(words string, commands []*cli.Command) {
		for _, c := range commands {
			if name := words + " " + c.Name; c.Subcommands != nil {
				add(name, c.Subcommands)
			} else {
				all[name] = RunPath
			}
		}
	}
	add("runpath", RunPath().Commands)
	return all
}

func tools() map[string]func() *cli.App {
	return map[string]func() *cli.App{
		"stubReplace":          StubReplace().App,
		"autoAddDriverRunpath": AutoAddDriverRunpath().App,
		"addCudaCompatRunpath": AddCudaCompatRunpath().App,
		"noRunpathAmbiguity":   NoRunpathAmbiguity,
		"autoPatchelf":         AutoPatchelf,
	}
}

// listen lets the action that a leaf's name leads to note what it reads, and returns its flags.
func listen(app *cli.App, name string, got *[]string) []cli.Flag {
	inherit(app, app.Commands)
	flags, action, commands := app.Flags, &app.Action, app.Commands
	for _, word := range strings.Fields(name)[1:] {
		for _, c := range commands {
			if c.Name == word {
				flags, action, commands = c.Flags, &c.Action, c.Subcommands
				break
			}
		}
	}
	*action = func(c *cli.Context) error { *got = said(flags, c); return nil }
	return flags
}

// said is what an action reads of a command line.
func said(flags []cli.Flag, c *cli.Context) []string {
	out := []string{fmt.Sprintf("arguments %q", c.Args().Slice()), c.App.Name}
	if c.Command.Name != "" && c.Command.Name != c.App.Name { // else an app's
		out = append(out, c.Command.HelpName)
	}
	for _, f := range flags {
		name := names(f)[0]
		var value any
		switch f.(type) {
		case *cli.BoolFlag:
			value = c.Bool(name)
		case *cli.IntFlag:
			value = c.Int(name)
		case *cli.StringFlag:
			value = c.String(name)
		case *cli.StringSliceFlag:
			value = append([]string{}, c.StringSlice(name)...)
		default:
			value = fmt.Sprintf("a flag of another kind: %T", f)
		}
		out = append(out, fmt.Sprintf("--%s %q set %v", name, fmt.Sprint(value), c.IsSet(name)))
	}
	return out
}

// What plain reads, cli reads the same from the same words. Where they would differ, or
// cli has something to say, plain leaves it to cli.
func TestPlainReadsWhatCLIReads(t *testing.T) {
	for name, make := range leaves() {
		t.Run(name, func(t *testing.T) {
			var words, got []string
			for _, f := range listen(make(), name, &got) {
				for _, n := range names(f) {
					words = append(words, "-"+n, "--"+n, "--"+n+"=", "--"+n+"=true", "--"+n+"=0", "--"+n+"=x,y", "--"+n+"=1")
				}
			}
			words = append(words, "a", "b c", "", "-", "--", "-vq", "-vx", "--help", "-h", "--nothing", "warn", "3", "0x10", "-1", "---json", "--=x", "é")
			both := 0
			check := func(t interface{ Fatalf(string, ...any) }, words ...string) {
				app := make()
				listen(app, name, &got)
				args := flagsFirst(app.Flags, app.Commands, append(strings.Fields(name), words...))
				action := plain(context.Background(), app, args)
				if action == nil {
					return
				}
				if err := action(); err != nil {
					t.Fatalf("%q: %v", args, err)
				}
				both++
				read := got
				got = nil
				app = make()
				app.Writer, app.ErrWriter = io.Discard, io.Discard
				listen(app, name, &got)
				if err := app.Run(args); err != nil {
					t.Fatalf("%q: plain reads it, and cli says %v", args, err)
				}
				if diff := cmp.Diff(got, read); diff != "" {
					t.Fatalf("%q: -cli +plain:\n%s", args, diff)
				}
			}
			check(t, "-v", "a")
			check(t, "-v", "--verbose", "a")
			check(t, "--quiet", "-q", "a")
			rapid.Check(t, func(t *rapid.T) {
				check(t, rapid.SliceOfN(rapid.SampledFrom(words), 0, 5).Draw(t, "args")...)
			})
			if both == 0 {
				t.Error("plain read none of them")
			}
		})
	}
}

// Both print the version in the same words, to the writer of the app.
func TestPlainPrintsTheVersion(t *testing.T) {
	for name, make := range tools() {
		var plainly, byCLI bytes.Buffer
		app := make()
		app.Writer = &plainly
		args := flagsFirst(app.Flags, nil, []string{name, "--version"})
		action := plain(context.Background(), app, args)
		if action == nil {
			t.Fatalf("%q: left to cli", args)
		}
		if err := action(); err != nil {
			t.Fatal(err)
		}
		app = make()
		app.Writer = &byCLI
		if err := app.Run(args); err != nil {
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
		app := RunPath()
		if make := tools()[args[0]]; make != nil {
			app = make()
		}
		if plain(context.Background(), app, flagsFirst(app.Flags, app.Commands, args)) == nil {
			t.Errorf("%q: left to cli", args)
		}
	}
}
