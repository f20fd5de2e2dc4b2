"""The command line: render, plan, check and diff, with nothing but the Python package."""
