"""Subgroup policies as LeaderWorkerSet stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.api.role import SubGroupPolicyType

FIELD = "subGroupPolicy"
SIZE = "subGroupSize"
TYPE = "subGroupPolicyType"
#: Default type of LeaderWorkerSet's webhook.
DEFAULT_TYPE = SubGroupPolicyType.LEADER_WORKER.value


def completed(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a policy as LeaderWorkerSet's webhook stores it: with its type."""
    explicit = {key: value for key, value in policy.items() if value is not None}
    return {**explicit, TYPE: explicit.get(TYPE) or DEFAULT_TYPE}


def same_policy(one: Any, other: Any) -> bool:
    """Returns whether two policies are equal after defaulting; None equals empty."""
    first, second = (completed(e) if e and isinstance(e, Mapping) else e for e in (one, other))
    return bool(first == second) if first and second else not first and not second
