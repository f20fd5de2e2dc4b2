"""Kubernetes' schemas of the rendered objects, and validation against them.

`data` holds one file for each kind, written by `tools/schemas.py`; it is read when it is needed.
`kind` loads them, `check` compares values with them and writes values as they want them.
"""
