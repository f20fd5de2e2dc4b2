// Lists the plugins and flags that a release of an endpoint picker registers, by parsing its sources.
//
//	go run picker_plugins.go MODULE=FOLDER [MODULE=FOLDER ...]
//
// The first module is the picker; the others are its dependencies, which define constants and flags.
// It prints JSON: plugin types, flags, and the sidecar's flags and connectors.
package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

type module struct{ path, folder string }

// A symbol is the value of a constant or variable, and the file whose imports the value uses.
type symbol struct {
	pkg   *pkg
	file  *ast.File
	value ast.Expr
}

type pkg struct {
	name    string
	files   []*ast.File
	symbols map[string]*symbol
}

var (
	modules  []module
	packages = map[string]*pkg{}
)

func load(path string) *pkg {
	if known, ok := packages[path]; ok {
		return known
	}
	packages[path] = nil
	for _, module := range modules {
		if path != module.path && !strings.HasPrefix(path, module.path+"/") {
			continue
		}
		folder := filepath.Join(module.folder, strings.TrimPrefix(path, module.path))
		sources, _ := filepath.Glob(filepath.Join(folder, "*.go"))
		found := &pkg{symbols: map[string]*symbol{}}
		for _, source := range sources {
			if strings.HasSuffix(source, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
			if err != nil {
				panic(err)
			}
			found.add(file)
		}
		packages[path] = found
	}
	return packages[path]
}

func (p *pkg) add(file *ast.File) {
	p.name = file.Name.Name
	p.files = append(p.files, file)
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			values, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, name := range values.Names {
				if i < len(values.Values) {
					p.symbols[name.Name] = &symbol{p, file, values.Values[i]}
				}
			}
		}
	}
}

func importPath(file *ast.File, name string) string {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if spec.Name != nil {
			if spec.Name.Name == name {
				return path
			}
			continue
		}
		last := path[strings.LastIndex(path, "/")+1:]
		if found := load(path); found != nil && found.name == name || last == name {
			return path
		}
	}
	return ""
}

// lookup returns the constant or variable that `name` or `pkg.Name` refers to.
func lookup(at *symbol, expr ast.Expr) *symbol {
	switch expr := expr.(type) {
	case *ast.Ident:
		return at.pkg.symbols[expr.Name]
	case *ast.SelectorExpr:
		if holder, ok := expr.X.(*ast.Ident); ok {
			if found := load(importPath(at.file, holder.Name)); found != nil {
				return found.symbols[expr.Sel.Name]
			}
		}
	}
	return nil
}

// text returns the value of a string constant, "" if it is none.
func text(at *symbol, expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.BasicLit:
		value, _ := strconv.Unquote(expr.Value)
		return value
	case *ast.BinaryExpr:
		return text(at, expr.X) + text(at, expr.Y)
	case *ast.CallExpr:
		if len(expr.Args) == 1 {
			return text(at, expr.Args[0])
		}
	default:
		if found := lookup(at, expr); found != nil && found.value != nil {
			return text(found, found.value)
		}
	}
	return ""
}

type release struct {
	Plugins      []string `json:"plugins"`
	Flags        []string `json:"flags"`
	SidecarFlags []string `json:"sidecarFlags,omitempty"`
	Connectors   []string `json:"sidecarConnectors,omitempty"`
}

var out = release{}

// visitCalls visits the calls in a package to functions of other packages.
func visitCalls(path string, visit func(at *symbol, path, name string, call *ast.CallExpr)) {
	found := load(path)
	if found == nil {
		return
	}
	for _, file := range found.files {
		at := &symbol{pkg: found, file: file}
		ast.Inspect(file, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
					if holder, ok := selector.X.(*ast.Ident); ok {
						visit(at, importPath(file, holder.Name), selector.Sel.Name, call)
					}
				}
			}
			return true
		})
	}
}

// register adds the type of a plugin that a call registers, such as plugins.Register(TYPE, FACTORY).
func register(at *symbol, path, name string, call *ast.CallExpr) {
	last := path[strings.LastIndex(path, "/")+1:]
	if !strings.HasPrefix(name, "Register") || last != "plugin" && last != "plugins" {
		return
	}
	kind := text(at, call.Args[0])
	if name, ok := call.Args[0].(*ast.Ident); ok && kind == "" && lookup(at, name) == nil {
		return // a variable: test runners pass plugins in one
	}
	if kind == "" {
		panic("the type of a plugin cannot be read: " + types.ExprString(call))
	}
	out.Plugins = append(out.Plugins, kind)
}

// findFlags returns the names of the flags that a package binds, without those that it rejects.
func findFlags(path string) []string {
	names, rejected := map[string]bool{}, map[string]bool{}
	found := load(path)
	if found == nil {
		return nil
	}
	for _, file := range found.files {
		at := &symbol{pkg: found, file: file}
		ast.Inspect(file, func(node ast.Node) bool {
			for _, name := range elements(node, "deprecatedMetricFlags") {
				rejected[text(at, name)] = true
			}
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name := selector.Sel.Name
			kind := strings.TrimSuffix(strings.TrimSuffix(name, "P"), "Var")
			switch {
			case !slices.Contains([]string{"Int", "Bool", "String", "Duration", "IntSlice", "StringSlice", "Float64", ""}, kind):
			case strings.Contains(name, "Var") && len(call.Args) >= 3:
				names[text(at, call.Args[1])] = true
			case len(call.Args) == 3:
				names[text(at, call.Args[0])] = true
			}
			return true
		})
	}
	kept := []string{}
	for name := range names {
		if name != "" && !rejected[name] {
			kept = append(kept, name)
		}
	}
	sort.Strings(kept)
	return kept
}

// elements returns the elements, or the keys, of the literal that a node assigns to a name.
func elements(node ast.Node, name string) (found []ast.Expr) {
	var names, values []ast.Expr
	switch node := node.(type) {
	case *ast.AssignStmt:
		names, values = node.Lhs, node.Rhs
	case *ast.ValueSpec:
		for _, ident := range node.Names {
			names = append(names, ident)
		}
		values = node.Values
	}
	for i, value := range values {
		ident, ok := names[min(i, len(names)-1)].(*ast.Ident)
		literal, isLiteral := value.(*ast.CompositeLit)
		if !ok || !isLiteral || ident.Name != name {
			continue
		}
		for _, element := range literal.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				element = pair.Key
			}
			found = append(found, element)
		}
	}
	return found
}

func main() {
	for _, argument := range os.Args[1:] {
		path, folder, _ := strings.Cut(argument, "=")
		modules = append(modules, module{path, folder})
	}
	root := modules[0].path
	for _, module := range modules {
		visitCalls(module.path+"/cmd/epp/runner", register)
	}
	for _, path := range []string{"/pkg/plugins", "/pkg/epp/framework/plugins"} {
		visitCalls(root+path, register)
	}
	for _, module := range modules {
		out.Flags = append(out.Flags, findFlags(module.path+"/cmd/epp/runner")...)
		out.Flags = append(out.Flags, findFlags(module.path+"/pkg/epp/server")...)
		out.Flags = append(out.Flags, findFlags(module.path+"/pkg/common/observability/logging")...)
	}
	out.SidecarFlags = findFlags(root + "/pkg/sidecar/proxy")
	if sidecar := load(root + "/pkg/sidecar/proxy"); sidecar != nil {
		for _, file := range sidecar.files {
			at := &symbol{pkg: sidecar, file: file}
			ast.Inspect(file, func(node ast.Node) bool {
				for _, name := range elements(node, "supportedKVConnectors") {
					out.Connectors = append(out.Connectors, text(at, name))
				}
				return true
			})
		}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(out); err != nil {
		panic(err)
	}
}
