"""What a service of prefill and decode leaves to be guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.topology import is_prefill_decode
from fusioninfer_pulumi.findings import Finding, info, join

_PAIRED = (ComponentType.PREFILLER, ComponentType.DECODER)


def stated_findings(roles: Sequence[RoleArgs]) -> Iterator[Finding]:
    """Says which share of prefill or decode is assumed, not stated.

    Modelplane refuses such a service: the best ratio depends on prompts and answers, and no
    default is right. That there is no router is said elsewhere.

    Args:
        roles: The declared roles.

    Yields:
        An `info` for each such role.
    """
    if not is_prefill_decode(roles):
        return
    for index, role in enumerate(roles):
        if role.component_type in _PAIRED and "replicas" not in role.model_fields_set:
            yield info(
                join("roles", index, "replicas"),
                f"is not stated: {role.replicas} is assumed, and with it the ratio of prefill to "
                "decode",
            )
