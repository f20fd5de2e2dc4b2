"""What services name and somebody else makes: DeviceClasses, PriorityClasses and Queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.component.prerequisites import table
from fusioninfer_pulumi.component.prerequisites.facts import ClusterFacts
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.plan.device_claims import claim_templates, claimed_classes
from fusioninfer_pulumi.plan.records import RolePlan, ServicePlan


@dataclass(frozen=True)
class NamedKind:
    """A kind without a namespace whose objects services name.

    Attributes:
        kind: The kind.
        group: Its API group.
        versions: Versions of the group that have it, the newest first.
        plural: Its name in paths of the API.
        product: What it belongs to.
        way_out: What brings an object of it.
        own: Whether a program commonly makes it beside its services, so that one that is not there
            yet may be no fault.
    """

    kind: str
    group: str
    versions: tuple[str, ...]
    plural: str
    product: str
    way_out: str
    own: bool = True


DEVICE_CLASS = NamedKind(
    kind="DeviceClass",
    group=table.CLAIMS.group,
    versions=table.CLAIMS.versions,
    plural="deviceclasses",
    product=table.CLAIMS.product,
    way_out="install the driver of the devices, which brings it",
    own=False,
)
# Admission refuses pods whose class is not there (plugin Priority), and so a set stays without.
PRIORITY_CLASS = NamedKind(
    kind="PriorityClass",
    group="scheduling.k8s.io",
    versions=("v1",),
    plural="priorityclasses",
    product="Priority",
    way_out="no pod is admitted without it; create it, unless this program does first",
)
# Volcano's webhook refuses a PodGroup without its queue (validate_podgroup.go of v1.14.1), and its
# scheduler leaves the job out (cache.go).
QUEUE = NamedKind(
    kind="Queue",
    group="scheduling.volcano.sh",
    versions=("v1beta1",),
    plural="queues",
    product="Volcano",
    way_out="no pod is scheduled without it; create it, unless this program does first",
)

#: Each object that is named, and the services that name it.
Named = Mapping[tuple[NamedKind, str], Sequence[str]]


def named_objects(plans: Sequence[ServicePlan]) -> Named:
    """Objects that services name, each with the services."""
    found: dict[tuple[NamedKind, str], dict[str, None]] = {}
    for plan in plans:
        for each in _named(plan):
            found.setdefault(each, {})[plan.service] = None
    return {each: list(services) for each, services in found.items()}


def check_named(plans: Sequence[ServicePlan], facts: ClusterFacts) -> Iterator[Finding]:
    """Finds the objects that are not there.

    Args:
        plans: The services that name them.
        facts: What is known of the cluster.

    Yields:
        Errors; warnings for what the program itself may be about to make.
    """
    for (kind, name), services in named_objects(plans).items():
        if facts.named.get((kind.kind, name), True):
            continue
        need = "needs" if len(services) == 1 else "need"
        tell = warning if kind.own else error
        yield tell(
            kind.product,
            f"there is no {kind.kind} {name}; {', '.join(services)} {need} it: {kind.way_out}",
        )


def _named(plan: ServicePlan) -> Iterator[tuple[NamedKind, str]]:
    for role in plan.roles:
        for template in claim_templates(plan.service, role.args):
            for name in claimed_classes(template.spec):
                yield DEVICE_CLASS, name
    named = (plan.priority_class, *(each for role in plan.roles for each in _classes(role)))
    for priority in named:
        if isinstance(priority, str) and priority:
            yield PRIORITY_CLASS, priority
    if plan.queue and plan.scheduler_name:
        yield QUEUE, plan.queue


def _classes(role: RolePlan) -> Iterator[object]:
    for template in (role.requesting_leader, role.worker_template):
        yield (template.get("spec") or {}).get("priorityClassName")
