"""Hypothesis strategies for services, which draw the seeds of `drawn_services`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from drawn_services import DrawnService, draw_service
from hypothesis import strategies as st

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.findings import InvalidServiceError, errors
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_plan import ServicePlan

Manifest = dict[str, Any]

#: Fields of services and roles that determine their pods.
PLAIN = {
    "spec": {"layout", "groups", "schedulingStrategy"},
    "roles": {
        "name", "componentType", "replicas", "multinode", "port", "container", "template",
        "leaderTemplate", "workerTemplate", "restartPolicy", "networkConfig", "subGroupPolicy",
        "startupPolicy",
    },
}  # fmt: skip


def services(**drawn: Any) -> st.SearchStrategy[Manifest]:
    """Return services that can be planned without an error; the arguments are those of `_drawn`."""
    return _drawn(**drawn).filter(lambda manifest: _plan(manifest) is not None)


def plans(**drawn: Any) -> st.SearchStrategy[ServicePlan]:
    """Return the plans of such services."""
    return _drawn(**drawn).map(_plan).filter(bool)


def _drawn(
    *,
    routed: bool = False,
    fields: Mapping[str, set[str]] | None = None,
    wanted: Callable[[Manifest], bool] = lambda _: True,
) -> st.SearchStrategy[Manifest]:
    """Return services of which most can be planned.

    Args:
        routed: Whether the services have a router.
        fields: Fields of `spec` and `roles` to keep; all by default.
        wanted: Predicate of the services to draw.
    """

    def prepare(drawn: DrawnService) -> Manifest:
        manifest = drawn.documents[0]
        spec = manifest["spec"]
        if not routed:
            spec["roles"] = [role for role in spec["roles"] if not is_router(role)]
        if fields is not None:
            roles = [_only(role, fields["roles"]) for role in spec["roles"]]
            manifest["spec"] = {**_only(spec, fields["spec"]), "roles": roles}
        return manifest

    def is_drawn(manifest: Manifest) -> bool:
        has_router = any(map(is_router, manifest["spec"]["roles"]))
        return has_router == routed and wanted(manifest)

    return st.integers(0, 2**16).map(draw_service).filter(_is_valid).map(prepare).filter(is_drawn)


def is_router(role: Manifest) -> bool:
    return bool(role["componentType"] == "router")


def component_types(manifest: Manifest) -> set[str]:
    """Return the component types of a service's roles."""
    return {role["componentType"] for role in manifest["spec"]["roles"]}


def has_layout_per_role(manifest: Manifest) -> bool:
    """Whether a service has one LeaderWorkerSet for each role, as autoscaling needs it."""
    spec = manifest["spec"]
    scaled = any("autoscaling" in role for role in spec["roles"])
    return scaled or spec.get("layout") == "PerRole"


def _is_valid(drawn: DrawnService) -> bool:
    return not any(feature.startswith("slip") for feature in drawn.features)


def _only(value: Manifest, keys: set[str]) -> Manifest:
    return {key: item for key, item in value.items() if key in keys}


def _plan(manifest: Manifest) -> ServicePlan | None:
    try:
        (args,) = load(manifest)
    except InvalidServiceError:
        return None
    plan = plan_service(args)
    return None if errors(plan.findings) else plan


def shuffled(value: Any, keys: itertools.cycle[int] | None = None) -> Any:
    """Return a copy of plain data with the keys of every mapping in another order."""
    turn = keys or itertools.cycle((1, 2, 3))
    if isinstance(value, dict):
        items = [(key, shuffled(item, turn)) for key, item in value.items()]
        at = next(turn) % max(len(items), 1)
        return dict(reversed(items[at:] + items[:at]))
    if isinstance(value, list):
        return [shuffled(item, turn) for item in value]
    return value
