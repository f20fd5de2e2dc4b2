"""Names of the core for companion packages, in one module for each kind of plugin.

Companion packages import no other module of the core, which `tests/test_plugins.py` checks.
"""
