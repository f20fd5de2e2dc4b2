"""Chooses the node pools of the roles of several services together.

Pure: services and an inventory in, services with node selectors and an explanation out. Only
`cluster` reads a cluster, when it is called.
"""
