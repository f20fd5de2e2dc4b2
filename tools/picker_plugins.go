// Reads what a release of an endpoint picker registers, from its sources by their syntax alone.
//
//	go run picker_plugins.go MODULE=FOLDER [MODULE=FOLDER ...]
//
// The first module is the picker's; types and factories are followed into the others. It prints
// JSON: plugins, configuration, feature gates, flags, and the sidecar's flags and connectors.
package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
)

type module struct{ path, folder string }

// A symbol is a declaration with the file that it stands in, whose imports its names refer to.
type symbol struct {
	pkg   *pkg
	file  *ast.File
	fn    *ast.FuncDecl
	typ   ast.Expr // of a type its definition, of a value its type
	value ast.Expr
	name  string
}

type pkg struct {
	name    string
	files   []*ast.File
	symbols map[string]*symbol
	methods map[string]map[string]*symbol
}

var (
	modules  []module
	packages = map[string]*pkg{}
	// Types of other modules, by import path and name.
	external = map[string][]string{
		"k8s.io/apimachinery/pkg/apis/meta/v1.LabelSelector": {"matchLabels", "matchExpressions"},
	}
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
		found := &pkg{symbols: map[string]*symbol{}, methods: map[string]map[string]*symbol{}}
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
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			made := &symbol{pkg: p, file: file, fn: decl, name: decl.Name.Name}
			if decl.Recv == nil {
				p.symbols[decl.Name.Name] = made
				continue
			}
			holder := typeName(decl.Recv.List[0].Type)
			if p.methods[holder] == nil {
				p.methods[holder] = map[string]*symbol{}
			}
			p.methods[holder][decl.Name.Name] = made
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					p.symbols[spec.Name.Name] = &symbol{pkg: p, file: file, typ: spec.Type, name: spec.Name.Name}
				case *ast.ValueSpec:
					for i, name := range spec.Names {
						made := &symbol{pkg: p, file: file, typ: spec.Type, name: name.Name}
						if i < len(spec.Values) {
							made.value = spec.Values[i]
						}
						p.symbols[name.Name] = made
					}
				}
			}
		}
	}
}

func typeName(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return typeName(expr.X)
	case *ast.IndexExpr:
		return typeName(expr.X)
	case *ast.Ident:
		return expr.Name
	}
	return ""
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

// lookup finds what a name, or a name of another package, refers to.
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
	case *ast.IndexExpr:
		return lookup(at, expr.X)
	}
	return nil
}

// text evaluates a constant.
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

// A function is a body with the names of its parameters.
type function struct {
	at   *symbol
	typ  *ast.FuncType
	body *ast.BlockStmt
}

func functionOf(at *symbol, expr ast.Expr) *function {
	if literal, ok := expr.(*ast.FuncLit); ok {
		return &function{at, literal.Type, literal.Body}
	}
	if call, ok := expr.(*ast.CallExpr); ok {
		// A function that returns one: its literal is the factory.
		if maker := functionOf(at, call.Fun); maker != nil && maker.body != nil {
			for _, value := range returned(maker.body) {
				if literal, ok := value.(*ast.FuncLit); ok {
					return &function{maker.at, literal.Type, literal.Body}
				}
			}
		}
		return nil
	}
	found := lookup(at, expr)
	if found == nil {
		return nil
	}
	if found.fn != nil {
		return &function{found, found.fn.Type, found.fn.Body}
	}
	if found.value != nil {
		return functionOf(found, found.value)
	}
	return nil
}

func returned(body *ast.BlockStmt) (values []ast.Expr) {
	ast.Inspect(body, func(node ast.Node) bool {
		if _, ok := node.(*ast.FuncLit); ok {
			return false
		}
		if statement, ok := node.(*ast.ReturnStmt); ok && len(statement.Results) > 0 {
			values = append(values, statement.Results[0])
		}
		return true
	})
	// Functions that a return holds are its values, not a part of the body.
	for _, statement := range body.List {
		if statement, ok := statement.(*ast.ReturnStmt); ok && len(statement.Results) > 0 {
			values = append(values, statement.Results[0])
		}
	}
	return values
}

// A typed is a type expression with the place that its names refer to.
type typed struct {
	at   *symbol
	expr ast.Expr
}

// named follows pointers and names to the declaration of a type, or to a structure without name.
func (t *typed) named() (*symbol, *ast.StructType) {
	if t == nil {
		return nil, nil
	}
	switch expr := t.expr.(type) {
	case *ast.StarExpr:
		return (&typed{t.at, expr.X}).named()
	case *ast.StructType:
		return t.at, expr
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr:
		found := lookup(t.at, expr)
		if found == nil || found.typ == nil {
			return nil, nil
		}
		if structure, ok := found.typ.(*ast.StructType); ok {
			return found, structure
		}
		if inner, structure := (&typed{found, found.typ}).named(); inner != nil {
			return inner, structure
		}
		return found, nil
	}
	return nil, nil
}

// locals are the types of a function's names.
func (f *function) local(name string) *typed {
	var found *typed
	for _, list := range []*ast.FieldList{f.typ.Params} {
		for _, field := range list.List {
			for _, ident := range field.Names {
				if ident.Name == name {
					found = &typed{f.at, field.Type}
				}
			}
		}
	}
	ast.Inspect(f.body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ValueSpec:
			for i, ident := range node.Names {
				if ident.Name == name && found == nil {
					if node.Type != nil {
						found = &typed{f.at, node.Type}
					} else if i < len(node.Values) {
						found = f.typeOf(node.Values[i])
					}
				}
			}
		case *ast.AssignStmt:
			for i, left := range node.Lhs {
				if ident, ok := left.(*ast.Ident); ok && ident.Name == name && found == nil && node.Tok == token.DEFINE {
					if i < len(node.Rhs) {
						found = f.typeOf(node.Rhs[i])
					}
				}
			}
		}
		return true
	})
	return found
}

func (f *function) typeOf(expr ast.Expr) *typed {
	switch expr := expr.(type) {
	case *ast.ParenExpr:
		return f.typeOf(expr.X)
	case *ast.UnaryExpr:
		return f.typeOf(expr.X)
	case *ast.StarExpr:
		return f.typeOf(expr.X)
	case *ast.CompositeLit:
		return &typed{f.at, expr.Type}
	case *ast.TypeAssertExpr:
		return &typed{f.at, expr.Type}
	case *ast.Ident:
		if found := f.local(expr.Name); found != nil {
			return found
		}
		return valueType(lookup(f.at, expr))
	case *ast.SelectorExpr:
		if found := lookup(f.at, expr); found != nil {
			return valueType(found)
		}
		if holder, structure := f.typeOf(expr.X).named(); structure != nil {
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					if name.Name == expr.Sel.Name {
						return &typed{holder, field.Type}
					}
				}
			}
		}
	case *ast.CallExpr:
		if name, ok := expr.Fun.(*ast.Ident); ok && name.Name == "new" {
			return &typed{f.at, expr.Args[0]}
		}
		if called := functionOf(f.at, expr.Fun); called != nil && called.typ.Results != nil {
			if made := made(called); made != nil {
				return made
			}
			return &typed{called.at, called.typ.Results.List[0].Type}
		}
		if method, ok := expr.Fun.(*ast.SelectorExpr); ok {
			if holder, _ := f.typeOf(method.X).named(); holder != nil {
				if called := methodOf(holder, method.Sel.Name); called != nil && called.fn.Type.Results != nil {
					return &typed{called, called.fn.Type.Results.List[0].Type}
				}
			}
		}
	}
	return nil
}

func valueType(found *symbol) *typed {
	if found == nil {
		return nil
	}
	if found.typ != nil {
		return &typed{found, found.typ}
	}
	if found.value != nil {
		return (&function{found, &ast.FuncType{Params: &ast.FieldList{}}, &ast.BlockStmt{}}).typeOf(found.value)
	}
	return nil
}

var making = map[*ast.BlockStmt]bool{}

// made is the type of what a function returns, where that is one of a structure's.
func made(f *function) *typed {
	if f.body == nil || making[f.body] {
		return nil
	}
	making[f.body] = true
	defer delete(making, f.body)
	for _, value := range returned(f.body) {
		if found := f.typeOf(value); found != nil {
			if _, structure := found.named(); structure != nil {
				return found
			}
		}
	}
	return nil
}

func methodOf(holder *symbol, name string) *symbol {
	return methodsOf(holder)[name]
}

// methodsOf has the methods of a type and of the types that it embeds.
func methodsOf(holder *symbol) map[string]*symbol {
	all := map[string]*symbol{}
	if structure, ok := holder.typ.(*ast.StructType); ok {
		for _, field := range structure.Fields.List {
			if len(field.Names) == 0 {
				if inner, _ := (&typed{holder, field.Type}).named(); inner != nil {
					for name, method := range methodsOf(inner) {
						all[name] = method
					}
				}
			}
		}
	}
	for name, method := range holder.pkg.methods[holder.name] {
		all[name] = method
	}
	return all
}

// keys are the names of a structure's fields in JSON; false where they are not known.
func keys(t *typed) ([]string, bool) {
	if selector, ok := t.expr.(*ast.SelectorExpr); ok {
		if holder, ok := selector.X.(*ast.Ident); ok {
			if known, ok := external[importPath(t.at.file, holder.Name)+"."+selector.Sel.Name]; ok {
				return known, true
			}
		}
	}
	holder, structure := t.named()
	if structure == nil {
		return nil, false
	}
	names := []string{}
	for _, field := range structure.Fields.List {
		tag := ""
		if field.Tag != nil {
			value, _ := strconv.Unquote(field.Tag.Value)
			tag = reflect.StructTag(value).Get("json")
		}
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case name == "-":
		case name != "":
			names = append(names, name)
		case len(field.Names) == 0:
			inner, ok := keys(&typed{holder, field.Type})
			if ok {
				names = append(names, inner...)
			}
		default:
			for _, ident := range field.Names {
				if ident.IsExported() {
					// JSON matches names in any case; how people write `KVUsage` is not known.
					if len(ident.Name) > 1 && ast.IsExported(ident.Name[1:]) {
						return nil, false
					}
					names = append(names, strings.ToLower(ident.Name[:1])+ident.Name[1:])
				}
			}
		}
	}
	return names, true
}

type reading struct {
	names   []string
	unknown bool
	seen    map[*ast.BlockStmt]bool
}

// read follows the parameters of a plugin through a function and those that it hands them to.
func (r *reading) read(f *function, raw string) {
	if f.body == nil || r.seen[f.body] {
		return
	}
	r.seen[f.body] = true
	ast.Inspect(f.body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		selector, isSelector := call.Fun.(*ast.SelectorExpr)
		if isSelector && slices.Contains([]string{"Decode", "Unmarshal", "UnmarshalStrict"}, selector.Sel.Name) {
			target := f.typeOf(call.Args[len(call.Args)-1])
			if target == nil {
				r.unknown = true
				return true
			}
			if selector, ok := target.expr.(*ast.SelectorExpr); ok && selector.Sel.Name == "RawMessage" {
				return true // decoded again below
			}
			names, known := keys(target)
			r.names = append(r.names, names...)
			r.unknown = r.unknown || !known
			return true
		}
		for i, argument := range call.Args {
			ident, ok := argument.(*ast.Ident)
			if !ok || ident.Name != raw {
				continue
			}
			if called := functionOf(f.at, call.Fun); called != nil {
				if name := parameter(called.typ, i); name != "" {
					r.read(called, name)
				}
			}
		}
		return true
	})
}

func parameter(typ *ast.FuncType, index int) string {
	for _, field := range typ.Params.List {
		for _, name := range field.Names {
			if index == 0 {
				return name.Name
			}
			index--
		}
	}
	return ""
}

type plugin struct {
	Parameters []string `json:"parameters"`
	Methods    []string `json:"methods"`
	Alpha      bool     `json:"alpha,omitempty"`
	Removal    []string `json:"removal,omitempty"` // announced in, removed in, instead
}

type section struct {
	Name string   `json:"name"`
	Keys []string `json:"keys"` // null where it is no structure
}

type release struct {
	Plugins      map[string]plugin `json:"plugins"`
	Sections     []section         `json:"sections"`
	FeatureGates []string          `json:"featureGates"`
	Flags        []string          `json:"flags"`
	SidecarFlags []string          `json:"sidecarFlags,omitempty"`
	Connectors   []string          `json:"sidecarConnectors,omitempty"`
}

var out = release{Plugins: map[string]plugin{}}

// calls visits the calls of exported functions of other packages in a package.
func calls(path string, visit func(at *symbol, path, name string, call *ast.CallExpr)) {
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

func register(at *symbol, path, name string, call *ast.CallExpr) {
	last := path[strings.LastIndex(path, "/")+1:]
	if name == "RegisterFeatureGate" {
		out.FeatureGates = append(out.FeatureGates, text(at, call.Args[0]))
	}
	if !strings.HasPrefix(name, "Register") || last != "plugin" && last != "plugins" {
		return
	}
	kind := text(at, call.Args[0])
	if name, ok := call.Args[0].(*ast.Ident); ok && kind == "" && lookup(at, name) == nil {
		return // a variable of a test's runner
	}
	if kind == "" {
		panic("the type of a plugin cannot be read: " + types.ExprString(call))
	}
	entry := plugin{Parameters: []string{}}
	for _, argument := range call.Args[1:] {
		if selector, ok := argument.(*ast.SelectorExpr); ok && selector.Sel.Name == "StabilityAlpha" {
			entry.Alpha = true
		}
		factory := functionOf(at, argument)
		if factory == nil || factory.typ.Params.NumFields() != 3 || factory.typ.Results == nil {
			continue
		}
		reads := &reading{seen: map[*ast.BlockStmt]bool{}}
		reads.read(factory, parameter(factory.typ, 1))
		sort.Strings(reads.names)
		entry.Parameters = append(entry.Parameters, slices.Compact(reads.names)...)
		if reads.unknown {
			entry.Parameters = nil
		}
		if holder, _ := made(factory).named(); holder != nil {
			for method := range methodsOf(holder) {
				entry.Methods = append(entry.Methods, method)
			}
			sort.Strings(entry.Methods)
		}
		break
	}
	if strings.HasPrefix(name, "RegisterDeprecated") {
		for _, argument := range call.Args[len(call.Args)-3:] {
			entry.Removal = append(entry.Removal, text(at, argument))
		}
	}
	out.Plugins[kind] = entry
}

// flags are the names of the flags that a package binds, without those that it refuses.
func flags(path string) []string {
	names, refused := map[string]bool{}, map[string]bool{}
	found := load(path)
	if found == nil {
		return nil
	}
	for _, file := range found.files {
		at := &symbol{pkg: found, file: file}
		ast.Inspect(file, func(node ast.Node) bool {
			for _, name := range listed(node, "deprecatedMetricFlags") {
				refused[text(at, name)] = true
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
		if name != "" && !refused[name] {
			kept = append(kept, name)
		}
	}
	sort.Strings(kept)
	return kept
}

// listed are the elements, or keys, of the literal that a name is declared with at a node.
func listed(node ast.Node, name string) (elements []ast.Expr) {
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
			elements = append(elements, element)
		}
	}
	return elements
}

func main() {
	for _, argument := range os.Args[1:] {
		path, folder, _ := strings.Cut(argument, "=")
		modules = append(modules, module{path, folder})
	}
	root := modules[0].path
	for _, module := range modules {
		calls(module.path+"/cmd/epp/runner", register)
	}
	for _, path := range []string{"/pkg/plugins", "/pkg/epp/framework/plugins"} {
		calls(root+path, register)
	}
	for _, module := range modules {
		var holder *symbol
		if found := load(module.path + "/apix/config/v1alpha1"); found != nil {
			holder = found.symbols["EndpointPickerConfig"]
		}
		if holder == nil {
			continue
		}
		for _, field := range holder.typ.(*ast.StructType).Fields.List {
			if len(field.Names) == 0 {
				continue
			}
			tag, _ := strconv.Unquote(field.Tag.Value)
			name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			inner, _ := keys(&typed{holder, field.Type})
			sort.Strings(inner)
			out.Sections = append(out.Sections, section{name, inner})
		}
		break
	}
	for _, module := range modules {
		out.Flags = append(out.Flags, flags(module.path+"/cmd/epp/runner")...)
		out.Flags = append(out.Flags, flags(module.path+"/pkg/epp/server")...)
		out.Flags = append(out.Flags, flags(module.path+"/pkg/common/observability/logging")...)
	}
	out.SidecarFlags = flags(root + "/pkg/sidecar/proxy")
	if sidecar := load(root + "/pkg/sidecar/proxy"); sidecar != nil {
		for _, file := range sidecar.files {
			at := &symbol{pkg: sidecar, file: file}
			ast.Inspect(file, func(node ast.Node) bool {
				for _, name := range listed(node, "supportedKVConnectors") {
					out.Connectors = append(out.Connectors, text(at, name))
				}
				return true
			})
		}
	}
	sort.Strings(out.FeatureGates)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(out); err != nil {
		panic(err)
	}
}
