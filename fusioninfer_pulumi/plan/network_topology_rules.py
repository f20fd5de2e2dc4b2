"""What Volcano does, and does not do, with the network topology of a gang.

Volcano 1.14.1: a hard constraint counts only together with a tier (`pkg/scheduler/api/job_info.go`,
IsHardTopologyMode), and is applied by the plugin `network-topology-aware` alone, which the default
configuration of the scheduler does not have; the tiers are those of HyperNodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.findings import Finding, error, info, warning
from fusioninfer_pulumi.spec.scheduling import (
    NetworkTopologyMode,
    NetworkTopologyRuleArgs,
    SchedulingStrategyArgs,
)

_AT = "schedulingStrategy.gangPolicy.networkTopology"


def network_topology_findings(
    scheduling: SchedulingStrategyArgs, *, gang_scheduled: bool
) -> Iterator[Finding]:
    """Checks the network topology of a service's gang.

    Args:
        scheduling: The scheduling strategy.
        gang_scheduled: Whether the pods are a gang.

    Yields:
        Every finding; nothing where no topology is asked for.
    """
    policy = scheduling.gang_policy
    topology = policy.network_topology
    if topology is None:
        return
    rules = {"groupPolicy": topology.group_policy, "rolePolicy": topology.role_policy}
    given = {name: rule for name, rule in rules.items() if rule is not None}
    if not given:
        yield warning(_AT, "has no effect: it names neither groupPolicy nor rolePolicy")
        return
    if not gang_scheduled:
        yield error(
            _AT,
            "stands on the PodGroup of a gang, and the pods are no gang; remove it, or set "
            "gangPolicy.mode to On",
        )
        return
    for name, rule in given.items():
        yield from _rule(f"{_AT}.{name}", rule)
    if topology.role_policy is not None and policy.min_role_replicas is None:
        yield info(
            f"{_AT}.rolePolicy",
            "makes each replica a subgroup of the PodGroup: needs Volcano 1.14.1 or later",
        )
    yield info(
        _AT,
        "is applied by Volcano's scheduler plugin network-topology-aware, which is off by default, "
        "on HyperNodes (topology.volcano.sh): without the plugin it does nothing, and the capacity "
        "table does not know it",
    )


def _rule(at: str, rule: NetworkTopologyRuleArgs) -> Iterator[Finding]:
    hard = rule.mode is NetworkTopologyMode.HARD
    if hard and rule.highest_tier_allowed is None:
        yield error(
            f"{at}.highestTierAllowed",
            "is required with mode hard: Volcano ignores the mode without it",
        )
    elif not hard and rule.highest_tier_allowed is not None:
        yield warning(f"{at}.highestTierAllowed", "has no effect with mode soft")
