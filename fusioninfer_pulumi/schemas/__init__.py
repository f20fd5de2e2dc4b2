"""JSON Schemas of the rendered Kubernetes kinds, and validation against them.

`tools/schemas.py` writes them to `generated/kubernetes`. They are loaded on first use.
"""
