"""What a program registered, compared with the plans of its services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.outputs import UNKNOWN, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan

if TYPE_CHECKING:
    from fusioninfer_pulumi.cli.planned import PlannedDocument, Source

Objects = Sequence[Mapping[str, Any]]


def with_known_names(plans: Sequence[ServicePlan], objects: Objects) -> list[ServicePlan]:
    """The plans with the namespaces and host names that their objects state.

    A program passes an Output, such as the name of a Namespace; its objects have the value.
    """
    return [_with_hosts(_with_namespace(plan, plans, objects), objects) for plan in plans]


def _with_namespace(
    plan: ServicePlan, plans: Sequence[ServicePlan], objects: Objects
) -> ServicePlan:
    if not is_output(plan.namespace):
        return plan
    same_name = [other for other in plans if other.service == plan.service]
    stated = dict.fromkeys(
        str(item["metadata"].get("namespace")) for item in _of_service(plan.service, objects)
    )
    namespaces = [namespace for namespace in stated if _is_known(namespace)]
    # Services of one name stand in the order of their constructors, and so do their objects.
    if len(namespaces) != len(same_name) or not all(is_output(p.namespace) for p in same_name):
        return plan
    position = next(at for at, other in enumerate(same_name) if other is plan)
    return _in_namespace(plan, namespaces[position])


def _in_namespace(plan: ServicePlan, namespace: str) -> ServicePlan:
    router, output = plan.routing, plan.namespace
    plan = replace(plan, namespace=namespace)
    if router is not None:
        parents = (
            replace(parent, namespace=namespace) if parent.namespace is output else parent
            for parent in router.parents
        )
        plan = plan.with_routing(replace(router, parents=tuple(parents)))
    return plan


def _with_hosts(plan: ServicePlan, objects: Objects) -> ServicePlan:
    router = plan.routing
    route = router.route if router is not None else None
    if router is None or route is None or not any(map(is_output, route.hostnames or ())):
        return plan
    for item in _of_service(plan.service, objects):
        names = (item["kind"], item["metadata"].get("name"), item["metadata"].get("namespace"))
        hosts = (item.get("spec") or {}).get("hostnames") if "spec" in item else None
        if names == ("HTTPRoute", route.name, plan.namespace) and isinstance(hosts, list):
            known = tuple(
                stated if is_output(host) and _is_known(stated) else host
                for host, stated in zip(route.hostnames or (), hosts, strict=False)
            )
            return plan.with_routing(replace(router, route=replace(route, hostnames=known)))
    return plan


def _is_known(name: Any) -> bool:
    """Whether it is a name, not what stands in place of one that is unknown or secret."""
    return isinstance(name, str) and name != UNKNOWN and name.isprintable() and "<" not in name


def _of_service(service: str, objects: Objects) -> Iterator[Mapping[str, Any]]:
    for item in objects:
        item_labels = (item.get("metadata") or {}).get("labels")
        if isinstance(item_labels, Mapping) and item_labels.get(labels.SERVICE) == service:
            yield item


def objects_of(source: Source, document: PlannedDocument) -> list[Mapping[str, Any]]:
    """Objects of one service: those that a program registered, else those of its plan."""
    from fusioninfer_pulumi.plan.objects import render

    plan = document.plan
    assert plan is not None, "the caller asked"
    rendered: list[Mapping[str, Any]] = [] if document.refused else list(render(plan))
    if source.objects is None:
        return rendered
    registered = list(_of_service(plan.service, source.objects))
    same_name = [other for other in source.plans if other.service == plan.service]
    if len(same_name) == 1:
        return registered
    # Services of two namespaces have different objects, those of two clusters may have the same.
    before = [other.namespace for other in takewhile(lambda other: other is not plan, same_name)]
    wanted, turn = {_identity(item) for item in rendered}, before.count(plan.namespace)
    objects: list[Mapping[str, Any]] = []
    times: Counter[tuple[str, str, str]] = Counter()
    for item in registered:
        key = _identity(item)
        if key in wanted and times[key] == turn:
            objects.append(item)
        times[key] += 1
    return objects


def _identity(item: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = item["metadata"]
    return str(item["kind"]), str(metadata.get("namespace")), str(metadata.get("name"))
