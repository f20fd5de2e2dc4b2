"""Random services, generated from seeds: manifests of every feature, in every combination.

A seed gives the same manifests on every Python version and machine. Generating them needs only the
standard library, so that `tools/compare_versions.py` can compare two versions of the package.
Most manifests can be rendered; in the others, fields conflict.
"""

from random_services.services import RandomService, generate_service

__all__ = ["RandomService", "generate_service"]
