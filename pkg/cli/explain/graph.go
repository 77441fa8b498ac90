package explain

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/loader"
)

// writeGraph writes the loads of cases as one graph in Graphviz's language.
func writeGraph(w io.Writer, cases []*explain.Case) {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "digraph load {")
	fmt.Fprintln(b,
		"  rankdir=LR; node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\", fontsize=11]; "+
			"edge [fontname=\"sans-serif\", fontsize=9, color=gray40];")
	nodes := map[string]bool{}
	id := func(o *loader.Object) string {
		if o.Found() {
			return o.Path
		}
		return "not found: " + o.Name
	}
	for _, c := range cases {
		s, verdicts := c.Load, map[string]*explain.Verdict{}
		if s.Role != loader.Static {
			for _, v := range c.Verdicts() {
				if verdicts[v.Soname] == nil { // in the order that was followed
					verdicts[v.Soname] = v
				}
			}
		}
		for _, o := range c.WithFailed() {
			if n := id(o); !nodes[n] {
				nodes[n] = true
				fill, label := "", o.Path
				if !o.Found() {
					fill, label = "mistyrose", o.Name+"\nnot found"
				}
				if o == s.Main {
					fill = "lightblue"
				}
				if v, ok := verdicts[o.Name]; ok {
					fill = map[bool]string{true: "palegreen", false: "lightsalmon"}[v.Good]
					if v.Origin == explain.FromStub {
						label = o.Path + "\na stub"
					}
				}
				if why := o.Err + o.LackText(); why != "" {
					fill, label = "mistyrose", o.Path+"\n"+why
				}
				attr := "label=" + quote(label)
				if fill != "" {
					attr += ", fillcolor=" + fill
				}
				fmt.Fprintf(b, "  %s [%s];\n", quote(n), attr)
			}
			for _, u := range c.Asks(o) {
				attr := ""
				if !u.Again && u.To.Found() {
					attr = "label=" + quote(string(u.To.Rule))
				}
				if !u.Cause.Certain() {
					attr = strings.TrimPrefix(attr+", style=dashed", ", ")
				}
				fmt.Fprintf(b, "  %s -> %s [%s];\n", quote(id(o)), quote(id(u.To)), attr)
			}
		}
	}
	fmt.Fprintln(b, "}")
	b.Flush()
}

func quote(s string) string {
	s = strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
