"""Services that are drawn from a seed: manifests of every feature, in every combination.

A seed gives the same manifests on every Python and machine; nothing but the standard library is
needed, and nothing of the package, so that `tools/compare_versions.py` can compare two versions
of it. Most manifests can be rendered; in the others, the drawn fields conflict.
"""

from drawn_services.services import DrawnService, draw_service

__all__ = ["DrawnService", "draw_service"]
