"""Kubernetes' own schemas of the objects that are rendered, and what does not fit them.

`data` holds one file for each kind, written by `tools/schemas.py`; it is read when it is needed.
`kind` loads them, `check` compares values with them and writes values as they want them.
"""
