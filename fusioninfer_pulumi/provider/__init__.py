"""The Pulumi package `fusioninfer`: the components for programs in YAML, TypeScript, Go, ...

Python programs use the components directly. `tools/package_schema.py` generates its schema.
"""
