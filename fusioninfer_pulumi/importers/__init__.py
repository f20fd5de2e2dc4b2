"""Converts manifests of other systems (Kthena, KServe, Modelplane) into ours.

One folder per system. The loader knows them by `IMPORTERS` alone; the modules of a system are
imported when a document of its kinds comes. How to add one: docs/architecture.md.
"""

from fusioninfer_pulumi.importers.table import IMPORTERS, Importer, importer_of, platform_of

__all__ = ["IMPORTERS", "Importer", "importer_of", "platform_of"]
