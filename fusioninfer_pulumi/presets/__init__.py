"""Expands a spec: generates the serving containers of roles, from a model's name."""
