// Command gotest reads what `go test -json` prints and says in people's words what happened: the whole output of
// every test that failed, the reason of every test that was skipped, and, last, the line that tests/run adds up.
//
// It exists because tests/run counts Go tests together with the shell suites, and neither jq nor a `go test -v` log
// can do that safely: a test's own output may look like a result.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

// event is one line of `go test -json`; `go doc test2json` documents the fields. A build failure arrives as
// Action "build-output" with ImportPath in place of Package.
type event struct {
	Action, Package, ImportPath, Test, Output string
	FailedBuild                               string
}

// result is one test of one package, or a package itself where test is empty.
type result struct{ pkg, test string }

func main() {
	failed, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// report reads events from r until its end and writes the report to w. It says whether anything failed.
func report(r io.Reader, w io.Writer) (bool, error) {
	output := map[result]*strings.Builder{}
	action := map[result]string{}
	parent := map[result]bool{} // tests that have subtests are not counted beside them
	var order []result

	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprint(w, string(line)) // go's own complaint, such as a module that cannot be had
			} else if e.Action == "build-output" {
				fmt.Fprint(w, e.Output)
			} else if e.Package != "" {
				key := result{e.Package, e.Test}
				switch e.Action {
				case "output":
					if output[key] == nil {
						output[key] = &strings.Builder{}
					}
					output[key].WriteString(e.Output)
				case "pass", "fail", "skip":
					if _, seen := action[key]; !seen {
						order = append(order, key)
					}
					action[key] = e.Action
					if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
						parent[result{e.Package, e.Test[:i]}] = true
					}
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
	}

	count := map[string]int{}
	counted := map[string]bool{} // packages in which a failing test says why the package failed
	for _, key := range order {
		if key.test == "" || parent[key] && action[key] != "fail" {
			continue
		}
		if action[key] == "fail" {
			counted[key.pkg] = true
			fmt.Fprintf(w, "FAIL %s %s\n%s", key.pkg, key.test, text(output[key]))
			if parent[key] && childFailed(key, action) {
				continue
			}
		}
		if action[key] == "skip" {
			fmt.Fprintf(w, "skipped %s %s\n%s", key.pkg, key.test, text(output[key]))
		}
		count[action[key]]++
	}
	sort.Slice(order, func(i, j int) bool { return order[i].pkg < order[j].pkg })
	for _, key := range order {
		// A package fails without a failing test when it does not build, panics in init or runs out of time.
		if key.test == "" && action[key] == "fail" && !counted[key.pkg] {
			count["fail"]++
			fmt.Fprintf(w, "FAIL %s\n%s", key.pkg, text(output[key]))
		}
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", count["pass"], count["fail"], count["skip"])
	return count["fail"] > 0, nil
}

func childFailed(parent result, action map[result]string) bool {
	for key, a := range action {
		if a == "fail" && key.pkg == parent.pkg && strings.HasPrefix(key.test, parent.test+"/") {
			return true
		}
	}
	return false
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}
