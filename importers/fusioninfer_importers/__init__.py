"""Importers of Kthena, KServe and Modelplane for fusioninfer-pulumi.

One folder per system. `table` has the entry points; the modules of a system are imported when a
document of its kinds comes.
"""
