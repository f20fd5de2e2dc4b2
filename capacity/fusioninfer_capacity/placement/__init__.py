"""Chooses the node pools of the roles of several services together.

Pure, except that `cluster` reads a cluster, and `place` reads files whose paths are passed.
"""
