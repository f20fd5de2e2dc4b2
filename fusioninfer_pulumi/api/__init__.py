"""Pydantic models of manifests: one module for each concept, with its models and their checks.

This package and `fusioninfer_pulumi` export the models and enums of all modules. For type checkers,
a stub lists them.
"""

from __future__ import annotations

import enum
import sys

from fusioninfer_pulumi.api import (
    inventory as inventory,
    service as service,  # imports the modules of all other models
)


def public_types() -> dict[str, type]:
    """Return all models and enums by their names, sorted."""
    types = {
        name: value
        for module_name, module in sys.modules.items()
        if module_name.startswith(f"{__name__}.")
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module_name
        and (name.endswith("Args") or issubclass(value, enum.Enum))
    }
    return dict(sorted(types.items()))


globals().update(public_types())
