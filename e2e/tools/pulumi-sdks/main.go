package main

import (
	"encoding/json"
	"log"
	"os"
	"path/filepath"

	golang "github.com/pulumi/pulumi/pkg/v3/codegen/go"
	"github.com/pulumi/pulumi/pkg/v3/codegen/nodejs"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
)

// Generates the SDKs of a package's schema, as `pulumi package gen-sdk` does, without language
// hosts: pulumi-sdks SCHEMA FOLDER writes FOLDER/nodejs and FOLDER/go.
func main() {
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var spec schema.PackageSpec
	check(json.Unmarshal(text, &spec))
	for language, generate := range map[string]func(*schema.Package) (map[string][]byte, error){
		"nodejs": func(pkg *schema.Package) (map[string][]byte, error) {
			return nodejs.GeneratePackage("pulumi", pkg, nil, nil, true, nil)
		},
		"go": func(pkg *schema.Package) (map[string][]byte, error) {
			return golang.GeneratePackage("pulumi", pkg, nil)
		},
	} {
		pkg, problems, err := schema.BindSpec(spec, nil, schema.ValidationOptions{})
		check(err)
		if problems.HasErrors() {
			log.Fatal(problems)
		}
		files, err := generate(pkg)
		check(err)
		for name, content := range files {
			path := filepath.Join(os.Args[2], language, name)
			check(os.MkdirAll(filepath.Dir(path), 0o755))
			check(os.WriteFile(path, content, 0o644))
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
