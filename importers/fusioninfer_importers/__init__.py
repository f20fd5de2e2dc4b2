"""Importers of Kthena, KServe and Modelplane for fusioninfer-pulumi.

One directory per system. `table` has the entry points; a system's modules are imported only for
documents of its kinds.
"""
