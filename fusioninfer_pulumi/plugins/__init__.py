"""Names of the core for companion packages: one module for each kind of plug-in.

`tests/test_plugins.py` holds that they import no other module. docs/importers.md says how to write
an importer.
"""
