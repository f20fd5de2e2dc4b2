"""Hypothesis strategies for services, which draw seeds of `random_services`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st
from random_services import RandomService, generate_service

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.findings import InvalidServiceError, filter_errors
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


def services(**filters: Any) -> st.SearchStrategy[Manifest]:
    """Return services that can be planned without an error; arguments as for `_manifests`."""
    return _manifests(**filters).filter(lambda manifest: _plan(manifest) is not None)


def plans(**filters: Any) -> st.SearchStrategy[ServicePlan]:
    """Return the plans of such services."""
    return _manifests(**filters).map(_plan).filter(bool)


def _manifests(
    *,
    routed: bool = False,
    fields: Mapping[str, set[str]] | None = None,
    wanted: Callable[[Manifest], bool] = lambda _: True,
) -> st.SearchStrategy[Manifest]:
    """Return services, most of which can be planned.

    Args:
        routed: Whether the services have a router.
        fields: Fields of `spec` and `roles` to keep; all by default.
        wanted: Condition that each service meets.
    """

    def prepare(service: RandomService) -> Manifest:
        manifest = service.documents[0]
        spec = manifest["spec"]
        if not routed:
            spec["roles"] = [role for role in spec["roles"] if not is_router(role)]
        if fields is not None:
            roles = [_only(role, fields["roles"]) for role in spec["roles"]]
            manifest["spec"] = {**_only(spec, fields["spec"]), "roles": roles}
        return manifest

    def is_wanted(manifest: Manifest) -> bool:
        has_router = any(map(is_router, manifest["spec"]["roles"]))
        return has_router == routed and wanted(manifest)

    valid_services = st.integers(0, 2**16).map(generate_service).filter(_is_valid)
    return valid_services.map(prepare).filter(is_wanted)


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


def _is_valid(service: RandomService) -> bool:
    return not any(feature.startswith("invalid field") for feature in service.features)


def _only(value: Manifest, keys: set[str]) -> Manifest:
    return {key: item for key, item in value.items() if key in keys}


def _plan(manifest: Manifest) -> ServicePlan | None:
    try:
        (args,) = load(manifest)
    except InvalidServiceError:
        return None
    plan = plan_service(args)
    return None if filter_errors(plan.findings) else plan


def shuffled(value: Any, keys: itertools.cycle[int] | None = None) -> Any:
    """Return a copy in which the keys of every mapping have a different order."""
    rotations = keys or itertools.cycle((1, 2, 3))
    if isinstance(value, dict):
        items = [(key, shuffled(item, rotations)) for key, item in value.items()]
        start = next(rotations) % max(len(items), 1)
        return dict(reversed(items[start:] + items[:start]))
    if isinstance(value, list):
        return [shuffled(item, rotations) for item in value]
    return value
