package explain

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/loader"
)

// Style is how the tree is printed.
type Style struct {
	Color bool
	Tries bool // show every place that was tried
	// Only restricts the tree to the ways to one object; nil shows all.
	Only *loader.Object
}

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

type printer struct {
	Style
	w     *bufio.Writer
	s     *loader.Load
	shown map[*loader.Object]bool
	ways  map[*loader.Object]bool
}

func (p *printer) paint(color, text string) string {
	text = cli.Printable(text)
	if !p.Color || color == "" || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// Text prints a load as a tree, with what there is to say about the driver below it.
func Text(w io.Writer, s *loader.Load, l *Layout, st Style) error {
	p := &printer{Style: st, w: bufio.NewWriter(w), s: s, shown: map[*loader.Object]bool{}}
	fmt.Fprint(p.w, p.paint(bold, s.Main.Path))
	if s.Static {
		fmt.Fprintf(p.w, "  %s\n", p.paint(dim, string(s.Main.File.ELF.LeftAlone())))
		return p.w.Flush()
	}
	in := s.Interp
	about := in.Describe() + ", " + in.Path
	if !in.Found {
		about += ", which does not exist here"
	}
	if s.Secure {
		about += "; set-user-ID: LD_LIBRARY_PATH is ignored"
	}
	fmt.Fprintf(p.w, "  %s\n", p.paint(dim, "("+about+")"))
	if st.Only != nil {
		p.ways = ways(s, st.Only)
	}
	p.children(s.Main, "")
	if s.Err != "" {
		fmt.Fprintf(p.w, "%s\n", p.paint(red, "The program does not start: "+s.Err))
	}
	for _, o := range s.Missing() {
		if st.Only == nil || o == st.Only {
			fmt.Fprintf(p.w, "%s\n", p.paint(red, fmt.Sprintf("Not found: %s, needed by %s", o.Name, o.NeededBy.Path)))
		}
	}
	for _, o := range s.Objects {
		if o.Found() && !o.Cause.Certain() && (st.Only == nil || o == st.Only) {
			if why := o.Fails(); why != "" {
				fmt.Fprintf(p.w, "%s\n", p.paint(yellow, fmt.Sprintf("Opening %s would fail: %s", o.Name, why)))
			}
		}
	}
	for _, v := range l.Driver(s) {
		if st.Only != nil && v.Soname != st.Only.Name {
			continue
		}
		color := yellow
		if v.Good {
			color = green
		} else if v.Origin == FromStub {
			color = red
		}
		fmt.Fprintln(p.w, p.paint(color, v.Text))
	}
	return p.w.Flush()
}

// ways returns the objects on a way from the program to a target.
func ways(s *loader.Load, target *loader.Object) map[*loader.Object]bool {
	on := map[*loader.Object]bool{target: true}
	for again := true; again; {
		again = false
		for _, o := range s.Objects {
			if on[o] {
				continue
			}
			for _, u := range o.Uses {
				if on[u.To] {
					on[o], again = true, true
					break
				}
			}
		}
	}
	return on
}

// maxDepth bounds the tree's indentation: a chain of libraries can be as long as
// a hostile package likes.
const maxDepth = 64

func (p *printer) children(o *loader.Object, indent string) {
	if p.shown[o] {
		return
	}
	p.shown[o] = true
	if len(indent) > 16*maxDepth {
		fmt.Fprintf(p.w, "%s…\n", indent)
		return
	}
	var uses []loader.Use
	seen := map[string]bool{}
	for _, u := range o.Uses {
		if (p.ways == nil || p.ways[u.To]) && !seen[u.Name] {
			seen[u.Name] = true
			uses = append(uses, u)
		}
	}
	for i, u := range uses {
		branch, below := "├── ", "│   "
		if i == len(uses)-1 {
			branch, below = "└── ", "    "
		}
		fmt.Fprintf(p.w, "%s%s%s\n", indent, branch, p.line(u))
		first := !p.shown[u.To] && !u.Again
		if first && p.Tries {
			stem := "    "
			if len(u.To.Uses) > 0 {
				stem = "│   "
			}
			for _, t := range u.To.Tried {
				fmt.Fprintf(p.w, "%s%s%s%s\n", indent, below, stem, p.paint(dim, tryText(u.To, t)))
			}
		}
		if !u.Again {
			p.children(u.To, indent+below)
		}
	}
}

func (p *printer) line(u loader.Use) string {
	o := u.To
	name := p.paint(bold, u.Name)
	switch u.Cause {
	case loader.Needed:
	case loader.DlopenNote:
		name += p.paint(dim, " (may be opened: .note.dlopen"+feature(u.Feature)+")")
	case loader.DlopenString:
		name += p.paint(dim, " (may be opened: its name is among the constants)")
	case loader.DlopenAsked:
		name += p.paint(dim, " (if it were opened with dlopen)")
	default:
		name += p.paint(dim, " ("+string(u.Cause)+")")
	}
	switch {
	case !o.Found() && (u.Cause == loader.Preload || u.Cause == loader.PreloadFile || u.Cause == loader.Auxiliary):
		return name + " → " + p.paint(yellow, "not found; the loader goes on without it")
	case !o.Found():
		return name + " → " + p.paint(red, "not found")
	case o.Err != "":
		return name + " → " + p.paint(red, o.Path+": "+o.Err)
	case len(o.Lacks) > 0 && !u.Again:
		return name + " → " + p.paint(red, o.Path+": "+o.LackText())
	case u.Again:
		return name + " → " + p.paint(dim, o.Path+" (loaded already)")
	}
	return name + " → " + p.paint(green, o.Path) + p.paint(dim, "  "+found(o))
}

func feature(name string) string {
	if name == "" {
		return ""
	}
	return ", " + name
}

// found says by which rule an object was found.
func found(o *loader.Object) string {
	switch o.Rule {
	case loader.ByRPath, loader.ByRunPath:
		whose := ""
		if o.List != nil && o.List != o.NeededBy {
			whose = " of " + o.List.Path
		}
		return fmt.Sprintf("%s%s: %s", o.Rule, whose, shownEntry(o.Entry))
	case loader.ByEnv, loader.ByDefault, loader.ByPathFile:
		return fmt.Sprintf("%s: %s", o.Rule, shownEntry(o.Entry))
	case loader.ByPath:
		return "by its path, no search"
	}
	return string(o.Rule)
}

func shownEntry(e string) string {
	if e == "" {
		return `"" (the working directory)`
	}
	return e
}

func tryText(o *loader.Object, t loader.Try) string {
	where := string(t.Rule)
	if t.List != nil && t.List != o.NeededBy && t.Rule != loader.ByDefault {
		where += " of " + t.List.Path
	}
	if t.Path == "" {
		return fmt.Sprintf("%s: %s", where, t.Why)
	}
	return strings.TrimSpace(fmt.Sprintf("tried %s (%s): %s", t.Path, where, t.Why))
}

// Dot writes loads as one graph in Graphviz's language.
func Dot(w io.Writer, loads []*loader.Load, l *Layout) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "digraph load {")
	fmt.Fprintln(b, "  rankdir=LR; node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\", fontsize=11]; edge [fontname=\"sans-serif\", fontsize=9, color=gray40];")
	nodes := map[string]bool{}
	id := func(o *loader.Object) string {
		if o.Found() {
			return o.Path
		}
		return "not found: " + o.Name
	}
	for _, s := range loads {
		verdicts := map[string]Verdict{}
		if !s.Static {
			for _, v := range l.Driver(s) {
				verdicts[v.Soname] = v
			}
		}
		for _, o := range s.Objects {
			if n := id(o); !nodes[n] {
				nodes[n] = true
				fill, label := "", quote(o.Path)
				if !o.Found() {
					fill, label = "mistyrose", quote(o.Name+"\nnot found")
				}
				if o == s.Main {
					fill = "lightblue"
				}
				if v, ok := verdicts[o.Name]; ok {
					fill = map[bool]string{true: "palegreen", false: "lightsalmon"}[v.Good]
					if v.Origin == FromStub {
						label = quote(o.Path + "\na stub")
					}
				}
				if why := o.Err + o.LackText(); why != "" {
					fill, label = "mistyrose", quote(o.Path+"\n"+why)
				}
				attr := "label=" + label
				if fill != "" {
					attr += ", fillcolor=" + fill
				}
				fmt.Fprintf(b, "  %s [%s];\n", quote(n), attr)
			}
			for _, u := range o.Uses {
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
	return b.Flush()
}

func quote(s string) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
