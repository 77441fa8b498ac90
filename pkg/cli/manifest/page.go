package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/manifest"
	"cuda-runpath/pkg/remedy"
)

// pageHead begins the page: one file, no script, no network.
const pageHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>runpath manifest</title>
<style>
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2024; --dim: #646b73;
  --line: #dfe3e8; --bar: #2f6db5; --bad: #c62828; --good: #2e7d32; }
@media (prefers-color-scheme: dark) {
  :root {
    --bg: #16191d; --fg: #e4e7ea; --dim: #98a1ab;
    --line: #2e343b; --bar: #79b8ff; --bad: #ff7b72; --good: #7ccf85;
  }
}
body { margin: 0; padding: 1.5rem 2rem 4rem; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; max-width: 80rem; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem; }
p { margin: .2rem 0 .6rem; } .dim { color: var(--dim); } .bad { color: var(--bad); } .good { color: var(--good); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th { text-align: left; border-bottom: 2px solid var(--line); }
th, td { padding: .25rem .7rem .25rem 0; vertical-align: top; }
td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
meter { width: 10rem; } code { font-size: .92em; }
</style>
</head>
<body>
`

// The page's lists are cut after so many rows.
const mostRows = 50

// page writes the page.
type page struct {
	bytes.Buffer
}

func (p *page) text(s string) string { return html.EscapeString(command.Printable(s)) }

// table writes a section with a table, or what there is to say where there are no rows. Cells are HTML.
func (p *page) table(title, about, none string, head []string, rows [][]string) {
	fmt.Fprintf(p, "<h2>%s</h2>\n", title)
	if len(rows) == 0 {
		fmt.Fprintf(p, "<p class=dim>%s</p>\n", none)
		return
	}
	fmt.Fprintf(p, "<p class=dim>%s</p>\n<div class=wide><table>\n<tr>", about)
	numeric := func(i int) string {
		if strings.HasPrefix(head[i], "#") {
			return " class=n"
		}
		return ""
	}
	for i, h := range head {
		fmt.Fprintf(p, "<th%s scope=col>%s</th>", numeric(i), strings.TrimPrefix(h, "#"))
	}
	p.WriteString("</tr>\n")
	for _, row := range rows[:min(len(rows), mostRows)] {
		p.WriteString("<tr>")
		for i, cell := range row {
			fmt.Fprintf(p, "<td%s>%s</td>", numeric(i), cell)
		}
		p.WriteString("</tr>\n")
	}
	p.WriteString("</table></div>\n")
	if more := len(rows) - mostRows; more > 0 {
		fmt.Fprintf(p, "<p class=dim>and %d more, which the document has</p>\n", more)
	}
}

func megabytes(n uint64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }

// meter shows a part of the largest.
func meter(n, most uint64) string {
	return fmt.Sprintf(`<meter min=0 max=%d value=%d></meter>`, max(most, 1), n)
}

// writePage writes the page about packages.
func writePage(packages []*manifest.Package, sum *manifest.Summary) []byte {
	p := &page{}
	p.WriteString(pageHead)
	fmt.Fprintf(p, "<h1>%s, %s</h1>\n<p>%s: ELF files, wrappers, archives with code for GPUs; code for GPUs: %s.",
		remedy.Count(len(packages), "package"),
		gpucode.Megabytes(uint64(sum.Bytes)), remedy.Count(sum.Files, "file"), gpucode.Megabytes(sum.GPUBytes))
	if sum.Failed > 0 {
		fmt.Fprintf(p, ` <span class=bad>%s could not be read.</span>`, remedy.Count(sum.Failed, "file"))
	}
	p.WriteString("</p>\n")
	p.largest(packages)
	p.byGPU(packages)
	p.weight(packages, sum)
	p.majors(packages)
	p.stubs(packages)
	p.notFound(packages)
	p.packages(packages)
	p.WriteString("</body>\n</html>\n")
	return p.Bytes()
}

func (p *page) largest(packages []*manifest.Package) {
	type file struct {
		pkg  string
		file manifest.Sized
	}
	var all []file
	for _, pkg := range packages {
		for _, f := range pkg.Largest {
			all = append(all, file{pkg.Name, f})
		}
	}
	slices.SortStableFunc(all, func(a, b file) int { return cmp.Compare(b.file.Bytes, a.file.Bytes) })
	var rows [][]string
	for _, f := range all[:min(len(all), 20)] {
		rows = append(rows, []string{megabytes(f.file.Bytes), meter(f.file.Bytes, all[0].file.Bytes), "<code>" +
			p.text(f.file.Path) + "</code>", p.text(f.pkg)})
	}
	p.table("Largest GPU code", "The files with most code for GPUs.", "No file has code for GPUs.", []string{"#MB", "",
		"file", "package"}, rows)
}

// codes are the lists of code of packages.
func codes(packages []*manifest.Package) (lists [][]gpucode.Listed) {
	for _, pkg := range packages {
		lists = append(lists, pkg.GPU.Code)
	}
	return lists
}

func (p *page) byGPU(packages []*manifest.Package) {
	gpus := gpucode.GPUs(codes(packages)...)
	head := []string{"package", "#MB"}
	for _, g := range gpus {
		head = append(head, g.String())
	}
	head = append(head, "other")
	var rows [][]string
	for _, pkg := range packages {
		if pkg.GPU.Files == 0 {
			continue
		}
		row := []string{p.text(pkg.Name), megabytes(pkg.GPU.Bytes)}
		for _, g := range gpus {
			of, kind := gpucode.On(pkg.GPU.Code, g.Capability)
			switch {
			case of == "":
				row = append(row, "<span class=bad>none</span>")
			case kind == gpucode.PTX:
				row = append(row, "PTX "+of)
			case of == g.String():
				row = append(row, "<span class=good>own</span>")
			default:
				row = append(row, "of "+of)
			}
		}
		var other []string
		for i := range pkg.GPU.Code {
			if c := &pkg.GPU.Code[i]; c.Kind != gpucode.Cubin.String() && c.Kind != gpucode.PTX.String() {
				name := c.GPU()
				if c.Kind != gpucode.Object.String() {
					name = c.Kind
				}
				if !slices.Contains(other, name) {
					other = append(other, name)
				}
			}
		}
		rows = append(rows, append(row, p.text(strings.Join(other, ", "))))
	}
	p.table("Packages by GPU",
		"What at least one file of the package has for a GPU of NVIDIA's: code of its own, code of an older one that runs "+
			"there, or PTX, which the driver compiles. Of one file: <code>runpath gpu --for</code>.",
		"No package has code for GPUs.", head, rows)
}

func (p *page) weight(packages []*manifest.Package, sum *manifest.Summary) {
	var rows [][]string
	for _, g := range gpucode.GPUs(codes(packages)...) {
		var others uint64
		for _, pkg := range packages {
			others += manifest.WithoutOthers(pkg.GPU.Code, []gpucode.Target{g})
		}
		rest := max(uint64(sum.Bytes), others) - others
		rows = append(rows, []string{g.String(), megabytes(rest), meter(rest, uint64(sum.Bytes)), megabytes(others)})
	}
	p.table("For one GPU",
		fmt.Sprintf(
			"What the packages, %s now, would weigh without the code that this GPU can never take. <code>runpath thin</code> "+
				"leaves more: what a library looks up by itself, parts of pages, and what it does not understand.",
			gpucode.Megabytes(uint64(sum.Bytes))),
		"There is no code for GPUs of NVIDIA's to leave out.", []string{"GPU", "#MB", "", "#MB for others"}, rows)
}

func (p *page) majors(packages []*manifest.Package) {
	by := map[string][]string{}
	for _, pkg := range packages {
		for _, c := range pkg.CUDA {
			by[c.Name] = append(by[c.Name], fmt.Sprintf("%s (%d)", pkg.Name, c.Files))
		}
	}
	var rows [][]string
	for _, major := range slices.Sorted(maps.Keys(by)) {
		rows = append(rows, []string{"CUDA " + p.text(major), p.text(strings.Join(by[major], ", "))})
	}
	p.table("Who loads which CUDA",
		"The packages that have the toolkit of a major version in a process, and in brackets of how many files.",
		"No file loads the CUDA toolkit.", []string{"toolkit", "packages"}, rows)
}

func (p *page) stubs(packages []*manifest.Package) {
	var rows [][]string
	for _, pkg := range packages {
		for _, f := range pkg.Stubs {
			rows = append(rows, []string{p.text(pkg.Name), "<code>" + p.text(f) + "</code>"})
		}
	}
	p.table("Stubs",
		"Files in whose process a stub stands in the place of the driver's library: its calls fail with error 34.",
		"No file loads a stub in place of the driver's library.", []string{"package", "file"}, rows)
}

func (p *page) notFound(packages []*manifest.Package) {
	var rows [][]string
	for _, pkg := range packages {
		for _, c := range pkg.NotFound {
			rows = append(rows, []string{p.text(pkg.Name), p.text(c.Name), fmt.Sprint(c.Files)})
		}
	}
	p.table("Not found",
		"Libraries that files need and do not find by themselves, the driver's left out. A process that has them already, "+
			"as Python's has libpython, may settle that: <code>runpath audit</code> says.",
		"Every file finds what it needs.", []string{"package", "library", "#files"}, rows)
}

func (p *page) packages(packages []*manifest.Package) {
	all := slices.Clone(packages)
	slices.SortStableFunc(all, func(a, b *manifest.Package) int { return cmp.Compare(b.Bytes, a.Bytes) })
	var rows [][]string
	for _, pkg := range all {
		most, bytes := "", int64(0)
		for _, r := range pkg.References {
			if r.Bytes != nil && *r.Bytes > bytes {
				most, bytes = fmt.Sprintf("%s: %s", p.text(manifest.NameOf(r.Object)),
					gpucode.Megabytes(uint64(*r.Bytes))), *r.Bytes
			}
		}
		rows = append(rows, []string{p.text(pkg.Name), megabytes(uint64(pkg.Bytes)), megabytes(pkg.GPU.Bytes),
			fmt.Sprint(pkg.Files), fmt.Sprint(pkg.Kinds[manifest.Program]), fmt.Sprint(pkg.Kinds[manifest.Shared]),
			fmt.Sprint(pkg.DriverLinks), fmt.Sprint(len(pkg.References)), most})
	}
	p.table("Packages",
		"The largest first. The last column is the reference that alone brings most into the closure, where the store knows.",
		"There are no packages.",
		[]string{"package", "#MB", "#GPU code", "#files", "#programs", "#libraries", "#driver links", "#references",
			"costliest reference"}, rows)
}
