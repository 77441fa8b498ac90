package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The loader's own account of where it searches: dlinfo(RTLD_DI_SERINFO), for the program
// and for a library that it needs. Each has the name of a library that is nowhere among its
// string literals, for which explain tells all the places where it looked.
const (
	librarySource = `const char *name_in_l(void) { return "libnone_l.so"; }
`
	programSource = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
const char *name_in_l(void);
const char *volatile name = "libnone_p.so";
static void show(const char *whose, void *handle) {
  Dl_serinfo size, *all;
  if (!handle || dlinfo(handle, RTLD_DI_SERINFOSIZE, &size)) exit(3);
  all = malloc(size.dls_size);
  if (dlinfo(handle, RTLD_DI_SERINFOSIZE, all) || dlinfo(handle, RTLD_DI_SERINFO, all)) exit(4);
  for (unsigned i = 0; i < all->dls_cnt; i++) printf("%s %s\n", whose, all->dls_serpath[i].dls_name);
}
int main(void) {
  show("p", dlopen(NULL, RTLD_NOW));
  show("l", dlopen("libl.so", RTLD_NOLOAD | RTLD_NOW));
  return name_in_l()[0] != 'l';
}
`
)

// searchLists compares the directories that explain says are searched with the loader's
// own, for random run paths and LD_LIBRARY_PATHs.
func searchLists(n int) (int, error) {
	if _, err := exec.LookPath("cc"); err != nil || *glibc != usual {
		return 0, fmt.Errorf("%w: it takes cc and this machine's own glibc", errSkip)
	}
	dir, err := os.MkdirTemp("", "lists")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, err
	}
	for _, sub := range []string{"d", "wd"} {
		if err := os.Mkdir(dir+"/"+sub, 0o755); err != nil {
			return 0, err
		}
	}
	os.WriteFile(dir+"/l.c", []byte(librarySource), 0o644)
	os.WriteFile(dir+"/p.c", []byte(programSource), 0o644)
	room := "-Wl,--no-as-needed,-rpath," + strings.Repeat("/room", 400)
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-o", "d/libl.so", "l.c", "-Wl,-soname,libl.so", room},
		{"-o", "p", "p.c", "d/libl.so", room},
	} {
		if out, err := inDir(dir, "cc", args...); err != nil {
			return 0, fmt.Errorf("cc: %w: %s", err, out)
		}
	}
	rng := rand.New(rand.NewSource(*seed))
	differ := 0
	for i := range n {
		if why := oneList(dir, rng); why != "" {
			fmt.Printf("search list %d, seed %d: %s\n", i, *seed, why)
			differ++
		}
	}
	if differ > 0 {
		return n, fmt.Errorf("%d of %d differ", differ, n)
	}
	return n, nil
}

func inDir(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return cmd.Output()
}

// oneList sets random lists and compares; "" where both agree.
func oneList(dir string, rng *rand.Rand) string {
	entries := []string{"$ORIGIN", "${ORIGIN}/x", "$ORIGIN/../y", "$LIB", "/usr/$LIB", "/a/${PLATFORM}", "/a/$PLATFORM/b",
		"", ".", "./", "rel", "rel/x/",
		"/none", "/none//", "//none", "/none/", "/", "//", "$UNKNOWN/x", "/$ORIGINX", "$ORIGINX", "/x$ORIGIN", "${LIB}64",
		"/usr/lib", "/usr/lib/x86_64-linux-gnu/",
		"/long/" + strings.Repeat("y", rng.Intn(240)), dir + "/d", "$ORIGIN$ORIGIN", "$ORIGIN/", "${ORIGIN", "$", "/opt/$",
		"a b", "/é", "/usr/lib/../lib", "$ORIGIN//x", "/proc/self/cwd"}
	some := func(n int) []string {
		var list []string
		for range rng.Intn(n) {
			list = append(list, entries[rng.Intn(len(entries))])
		}
		return list
	}
	set := func(file string, list []string) error {
		args := []string{"remove", "--all", "--quiet", file}
		if len(list) > 0 {
			text := strings.Join(list, ":")
			if !strings.ContainsAny(text, "/$:") {
				text += ":/none" // a word alone is taken for a mistake
			}
			args = []string{"set", "--quiet", "--keep-empty", text, file}
			if rng.Intn(2) == 0 {
				args = slices.Insert(args, 1, "--force-rpath")
			}
		}
		out, err := exec.Command(runpath, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%v: %w: %s", args, err, out)
		}
		return nil
	}
	ofProgram, ofLibrary := some(6), some(6)
	ofProgram = slices.Insert(ofProgram, rng.Intn(len(ofProgram)+1), dir+"/d") // where the library is
	if rng.Intn(3) == 0 {
		ofProgram = append(ofProgram, ofProgram...)
	}
	if err := set(dir+"/p", ofProgram); err != nil {
		return err.Error()
	}
	if err := set(dir+"/d/libl.so", ofLibrary); err != nil {
		return err.Error()
	}
	var env []string
	if rng.Intn(2) == 0 {
		env = []string{"LD_LIBRARY_PATH=" + strings.Join(some(4), []string{":", ";"}[rng.Intn(2)])}
	}
	cmd := exec.Command(dir + "/p")
	cmd.Dir, cmd.Env = dir+"/wd", env
	out, err := cmd.Output()
	if err != nil {
		return fmt.Sprintf("the program with %q and %q, %q: %v", ofProgram, ofLibrary, env, err)
	}
	for _, whose := range []string{"p", "l"} {
		var theirs []string
		for line := range strings.Lines(string(out)) {
			if of, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); of == whose && !slices.Contains(theirs, path) {
				theirs = append(theirs, path)
			}
		}
		ours, err := placesFor("libnone_"+whose+".so", dir, env)
		if err != nil {
			return err.Error()
		}
		if !slices.Equal(ours, theirs) {
			return fmt.Sprintf("of %s, where the program has %q, the library %q, and %q:\n  explain %q\n  loader  %q", whose,
				ofProgram, ofLibrary, env, ours, theirs)
		}
	}
	return ""
}

// placesFor returns the directories where explain looked for a name, each once.
func placesFor(name, dir string, env []string) (places []string, err error) {
	args := []string{"explain", "--json", "--lib", name}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	out, _ := inDir(dir+"/wd", runpath, append(args, dir+"/p")...) // it is not found: the status is 1
	var doc struct {
		Files []struct {
			Libraries []struct {
				Tried []struct{ Path, Rule string }
			}
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, fmt.Errorf("explain --lib %s: %q: %w", name, out, err)
	}
	if len(doc.Files) != 1 || len(doc.Files[0].Libraries) != 1 {
		return nil, fmt.Errorf("explain --lib %s: not one file and one library: %q", name, out)
	}
	for _, t := range doc.Files[0].Libraries[0].Tried {
		if t.Path == "" || t.Rule == "ld.so.cache" {
			continue
		}
		place := strings.TrimSuffix(t.Path, name)
		if len(place) > 1 {
			place = strings.TrimSuffix(place, "/")
		} else if place == "" {
			place = "."
		}
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places, nil
}
