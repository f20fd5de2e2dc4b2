"""The components as a Pulumi package `fusioninfer`, for programs in YAML, TypeScript, Go, ...

`schema` generates the package's schema from the models, `server` constructs components for the
Pulumi engine. Python programs use the components themselves.
"""
