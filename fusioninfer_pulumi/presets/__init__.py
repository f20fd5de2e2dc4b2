"""Expands a spec: generates the containers of roles that have none."""
