"""JSON Schemas of the rendered Kubernetes kinds, and validation against them.

`tools/schemas.py` writes the schemas to `generated/kubernetes`. Each is loaded on first use.
"""
