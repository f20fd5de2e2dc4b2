"""Services that are drawn from a seed: manifests of every feature, in every combination.

A seed gives the same manifests on every Python and machine; nothing but the standard library is
needed, and nothing of the package, so that two versions of it can be held against each other
(`tools/compare_versions.py`). Most manifests can be rendered; the others are rejected for reasons
that combinations bring about.
"""

from drawn_services.services import DrawnService, draw_service

__all__ = ["DrawnService", "draw_service"]
