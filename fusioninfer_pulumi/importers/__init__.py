"""Other systems' manifests: which kinds are known, and who turns them into ours.

One folder per system. `DIALECTS` is all that the reader knows of them; a system's modules are
imported when a manifest of its kinds is met. How to add one: docs/architecture.md.
"""

from fusioninfer_pulumi.importers.table import DIALECTS, Dialect, dialect_of, platform_of

__all__ = ["DIALECTS", "Dialect", "dialect_of", "platform_of"]
