"""The gang of each serving group: what Kthena's PodGroups hold together, and how close by."""

from __future__ import annotations

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At, Path
from fusioninfer_pulumi.importers.kthena.models import ServingGroup, TopologyPolicy
from fusioninfer_pulumi.importers.kthena.servers import Serving
from fusioninfer_pulumi.importers.kthena.serving import VOLCANO

_SCHEDULING = ("spec", "schedulingStrategy")
_GANG = (*_SCHEDULING, "gangPolicy")
_MINIMA = (*_GANG, "minRoleReplicas")


def carry_gang(serving: Serving) -> None:
    """Carries the gang of a ModelServing over, when it is known which of its roles are scaled.

    Args:
        serving: The ModelServing.
    """
    carrier, group = serving.carrier, serving.model.spec.template
    at = carrier.main.at("spec")
    here, scheduler = at / "template", carrier.held((*_SCHEDULING, "schedulerName"))
    if group.gang_policy is not None and group.gangpolicy is not None:
        carrier.book.refuse(here / "gangpolicy", "is gangPolicy, which is given too; give it once")
    # Kthena makes PodGroups for Volcano only, and then whatever the roles are (podgroupmanager,
    # shouldCreatePodGroup).
    volcano = scheduler == VOLCANO
    for key, policy in (("gangPolicy", group.gang_policy), ("gangpolicy", group.gangpolicy)):
        if policy is None:
            continue
        place = here / key
        carrier.book.read(place)
        if not volcano:
            carrier.book.note(place, f"has no effect with schedulerName {scheduler}; left out")
        elif policy.min_role_replicas is not None:
            carrier.put(_MINIMA, policy.min_role_replicas, place / "minRoleReplicas")
    mode = _mode(serving) if volcano else "Off"
    if mode is not None:
        carrier.imply((*_GANG, "mode"), mode, at / "schedulerName")
    _topologies(carrier, group, here / "networkTopology", volcano=volcano)


def _mode(serving: Serving) -> str | None:
    """Lets the gang go on without replicas that come and go; None where it needs none at all."""
    carrier = serving.carrier
    given = carrier.held(_MINIMA) or {}
    scaled = {name: each for name, each in serving.lowest.items() if name not in given}
    least = {**given, **{name: count for name, (count, _) in scaled.items()}}
    none = all(least.get(role.name) == 0 for role in serving.roles)
    if none and not given and not any(role.worker_replicas for role in serving.roles):
        for _, at in scaled.values():
            carrier.book.note(at, "all roles scale to 0: nothing is held together, no PodGroup")
        return "Off"
    for name, (count, at) in scaled.items():
        carrier.imply((*_MINIMA, name), count, at)
        carrier.book.note(at, f"the gang needs {count} replicas of {name}, its minimum")
    # Our own rules say what a minimum of 0 for all does.
    return None if none else "On"


def _topologies(carrier: Carrier, group: ServingGroup, at: At, *, volcano: bool) -> None:
    topology = group.network_topology
    if topology is None:
        return
    if not volcano:
        scheduler = carrier.held((*_SCHEDULING, "schedulerName"))
        carrier.book.note(at, f"has no effect with schedulerName {scheduler}; left out")
        return
    target = (*_GANG, "networkTopology")
    carrier.imply(target, {}, at)
    carrier.origin(target, at, whole=True)
    carrier.book.read(at)
    for key, rule in (("groupPolicy", topology.group_policy), ("rolePolicy", topology.role_policy)):
        if rule is not None:
            _topology(carrier, (*target, key), rule, at / key)


def _topology(carrier: Carrier, target: Path, rule: TopologyPolicy, at: At) -> None:
    carrier.imply(target, {}, at)
    carrier.book.read(at)
    if rule.mode is not None:
        carrier.put((*target, "mode"), rule.mode.value, at / "mode")
    if rule.highest_tier_allowed is not None:
        tier = at / "highestTierAllowed"
        carrier.put((*target, "highestTierAllowed"), rule.highest_tier_allowed, tier)
    if rule.highest_tier_name is not None:
        carrier.book.lost(at / "highestTierName", "tiers are numbers; use highestTierAllowed")
