"""Subgroup policies as LeaderWorkerSet stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.api.role import SubGroupPolicyType

FIELD = "subGroupPolicy"
SIZE = "subGroupSize"
TYPE = "subGroupPolicyType"
#: What LeaderWorkerSet's webhook writes where a policy states no type.
DEFAULT_TYPE = SubGroupPolicyType.LEADER_WORKER.value


def completed(policy: Mapping[str, Any]) -> dict[str, Any]:
    """A policy as LeaderWorkerSet's webhook leaves it: with its type."""
    given = {key: value for key, value in policy.items() if value is not None}
    return {**given, TYPE: given.get(TYPE) or DEFAULT_TYPE}


def same_policy(one: Any, other: Any) -> bool:
    """Tells whether two policies mean the same; without one, None or empty."""
    first, second = (completed(e) if e and isinstance(e, Mapping) else e for e in (one, other))
    return bool(first == second) if first and second else not first and not second
