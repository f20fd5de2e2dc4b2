"""How many replicas of prefill there are for each replica of decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.plan.records import RolePlan
from fusioninfer_pulumi.spec.autoscaling import PrefillDecodeRatioArgs
from fusioninfer_pulumi.spec.role import ComponentType

_AT = "prefillDecodeRatio"


def ratio_findings(
    given: PrefillDecodeRatioArgs | None, roles: Sequence[RolePlan]
) -> Iterator[Finding]:
    """Checks the replicas of prefill and decode against each other.

    Args:
        given: The bounds, None for none.
        roles: The serving roles.

    Yields:
        An error for replicas beyond the bounds, a warning for autoscalers that may get there.
        Parked roles are not compared.
    """
    if given is None:
        return
    prefill = [role for role in roles if role.component_type is ComponentType.PREFILLER]
    decode = [role for role in roles if role.component_type is ComponentType.DECODER]
    if not prefill or not decode:
        yield error(_AT, "needs roles of prefiller and decoder; remove it")
        return
    now = (
        sum(role.group_replicas for role in prefill),
        sum(role.group_replicas for role in decode),
    )
    if 0 in now:
        return
    beyond = _beyond(given, *now)
    if beyond:
        yield error(_AT, f"must be {beyond}, got {_told(*now)}")
        return
    for few, many in ((True, False), (False, True)):
        far = (_bound(prefill, fewest=few), _bound(decode, fewest=many))
        beyond = _beyond(given, *far) if 0 not in far else None
        if beyond:
            yield warning(_AT, f"must be {beyond}; autoscaling may bring it to {_told(*far)}")


def _bound(roles: Sequence[RolePlan], *, fewest: bool) -> int:
    """The fewest replicas that autoscalers leave, or the most that they make."""
    total = 0
    for role in roles:
        scaled = role.args.autoscaling
        if scaled is None:
            total += role.group_replicas
        else:
            total += scaled.min_replicas if fewest else scaled.max_replicas
    return total


def _beyond(given: PrefillDecodeRatioArgs, prefill: int, decode: int) -> str | None:
    if given.max is not None and prefill / decode > given.max:
        return f"at most {given.max:g}"
    if given.min is not None and prefill / decode < given.min:
        return f"at least {given.min:g}"
    return None


def _told(prefill: int, decode: int) -> str:
    return f"{prefill / decode:.3g} (prefill {prefill}, decode {decode})"
