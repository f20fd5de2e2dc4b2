"""Small services and node pools for the tests of placement."""

from __future__ import annotations

from typing import Any

from fusioninfer_capacity import Placement, place
from fusioninfer_capacity.placement.result import ServicePlacement
from fusioninfer_pulumi.api import InferenceServiceArgs, InventoryArgs
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load, load_inventory
from tests import samples
from tests.told import without_rules

LABEL = "cloud.google.com/gke-nodepool"


def pool(name: str, nodes: Any, accelerators: int = 8, **more: Any) -> dict[str, Any]:
    """A pool as in YAML."""
    return {"name": name, "nodes": nodes, "accelerators": accelerators, **more}


def inventory(*pools: dict[str, Any], **more: Any) -> InventoryArgs:
    """An inventory of GKE's label."""
    return load_inventory({"poolLabel": LABEL, "pools": list(pools), **more})


def role(
    name: str, kind: str, replicas: int = 1, nodes: int = 1, gpus: Any = 8, **more: Any
) -> dict[str, Any]:
    """A role of replicas x nodes x gpus; whatever else is given goes into the role.

    `pod` goes into its pod spec.
    """
    spec = more.pop("pod", {})
    if nodes > 1:
        more["multinode"] = {"nodeCount": nodes}
    words = [
        "--model",
        "m",
        *(["--tensor-parallel-size", str(gpus * max(nodes, 1))] if gpus else []),
    ]
    spec = {"hostIPC": True, **spec}
    template = samples.template(samples.container(gpus=gpus, args=words), **spec)
    return samples.role(name, kind, replicas=replicas, template=template, **more)


def worker(name: str, replicas: int = 1, nodes: int = 1, gpus: Any = 8, **more: Any) -> Any:
    """A service of one role."""
    return samples.service(role("serve", "worker", replicas, nodes, gpus, **more), name=name)


def pair(name: str, prefill: Any = (), decode: Any = (), **spec: Any) -> Any:
    """A service of prefill and decode, each replicas x nodes x gpus or a whole role."""
    roles = [
        given if isinstance(given, dict) else role(each, kind, *given)
        for each, kind, given in (
            ("prefill", "prefiller", prefill),
            ("decode", "decoder", decode),
        )
    ]
    return samples.service(*roles, name=name, **spec)


def args(manifest: Any) -> InferenceServiceArgs:
    """A manifest as the library reads it."""
    (read,) = load(manifest)
    return read


def where(found: Placement) -> dict[str, dict[str, str]]:
    """Pool of each role of each service."""
    return {
        each.service: {role.name: role.pool for role in each.roles}
        for each in found.placed
        if each is not None
    }


def only(found: Placement) -> ServicePlacement:
    """Returns the placement result of the only service."""
    (record,) = found.placed
    assert record is not None
    return record


def refusal(*given: Any, **more: Any) -> str:
    """Returns the error of `place`."""
    try:
        found = place(*given, **more)
    except InvalidServiceError as refused:
        return without_rules(str(refused))
    raise AssertionError(f"placed: {where(found)}")


def pod_specs(service: InferenceServiceArgs) -> list[dict[str, Any]]:
    """The pod specs of all templates of a service."""
    return [
        template["spec"]
        for each in service.roles
        for template in (each.template, each.leader_template, each.worker_template)
        if template is not None
    ]
