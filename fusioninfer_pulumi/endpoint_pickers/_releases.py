"""What each release of the endpoint pickers has: the tables that `tools/picker_plugins.py` writes.

Its docstring has the keys of a table. A family's table is that of its newest release.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from fusioninfer_pulumi.endpoint_pickers.family import Family
from fusioninfer_pulumi.generated import FOLDER


@cache
def release(family: Family) -> dict[str, Any]:
    """The data of a family's newest release."""
    path = FOLDER / "endpoint_pickers" / f"{family.value}.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def names(family: Family, key: str) -> frozenset[str]:
    """A list of names in a release's data, empty where it has none."""
    return frozenset(release(family).get(key, ()))
