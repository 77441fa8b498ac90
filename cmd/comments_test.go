package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a comment of Go leads to by a name in brackets is there. A move of code leaves such links behind.
func TestLinksOfComments(t *testing.T) {
	link := regexp.MustCompile(`\[\*?([A-Za-z]\w*(?:\.[A-Za-z]\w*){0,2})\]`)
	packages := map[string][]*ast.File{} // by name
	set := token.NewFileSet()
	for _, root := range []string{"../pkg", "../cmd", "../tests", "../hooks", "../nix"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.Contains(path, "/testdata/") {
				return err
			}
			f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err == nil {
				packages[f.Name.Name] = append(packages[f.Name.Name], f)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	names := map[string]map[string]bool{}
	for name, all := range packages {
		names[name] = declared(all)
	}
	seen := 0
	for name, all := range packages {
		for _, f := range all {
			for _, group := range f.Comments {
				for _, found := range link.FindAllStringSubmatch(group.Text(), -1) {
					seen++
					pkg, rest, qualified := strings.Cut(found[1], ".")
					switch {
					case names[name][found[1]], qualified && names[pkg][rest], !ast.IsExported(found[1]) && names[pkg] == nil:
					case strings.HasPrefix(found[1], "EI_"): // an index of e_ident
					default:
						t.Errorf("%s: [%s] leads nowhere", set.Position(group.Pos()), found[1])
					}
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d links were found", seen)
	}
}

// declared returns what a package declares: its names, and those of its types' methods and fields as "Type.Name", through
// the types that one embeds.
func declared(all []*ast.File) map[string]bool {
	names, embeds := map[string]bool{}, map[string][]string{}
	members := func(owner string, fields *ast.FieldList) {
		for _, field := range fields.List {
			for _, id := range field.Names {
				names[owner+"."+id.Name] = true
			}
			if len(field.Names) == 0 {
				embeds[owner] = append(embeds[owner], typeName(field.Type))
			}
		}
	}
	for _, f := range all {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name := n.Name.Name
				if n.Recv != nil {
					name = typeName(n.Recv.List[0].Type) + "." + name
				}
				names[name] = true
			case *ast.TypeSpec:
				names[n.Name.Name] = true
				switch of := n.Type.(type) {
				case *ast.StructType:
					members(n.Name.Name, of.Fields)
				case *ast.InterfaceType:
					members(n.Name.Name, of.Methods)
				}
			case *ast.ValueSpec:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			}
			return true
		})
	}
	for owner, types := range embeds {
		for _, embedded := range types {
			for name := range names {
				if of, member, _ := strings.Cut(name, "."); of == embedded && member != "" {
					names[owner+"."+member] = true
				}
			}
		}
	}
	return names
}

// typeName is the name of a type, without its package, pointer and parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}
