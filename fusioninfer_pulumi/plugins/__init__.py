"""What packages beside the core use of it: one module for each kind of plug-in, and nothing else.

`tests/test_plugins.py` holds that they import no other module. docs/importers.md says how to write
an importer.
"""
