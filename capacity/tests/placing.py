"""Small services and node pools for the tests of placement."""

from __future__ import annotations

from typing import Any

from fusioninfer_capacity import Placement, place
from fusioninfer_capacity.placement.result import ServicePlacement
from fusioninfer_pulumi.api import InferenceServiceArgs, InventoryArgs
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load, load_inventory
from tests import samples
from tests.printed_findings import without_rules

LABEL = "cloud.google.com/gke-nodepool"


def pool(name: str, nodes: Any, accelerators: int = 8, **fields: Any) -> dict[str, Any]:
    """Return a pool as in YAML."""
    return {"name": name, "nodes": nodes, "accelerators": accelerators, **fields}


def inventory(*pools: dict[str, Any], **fields: Any) -> InventoryArgs:
    """Return an inventory with GKE's pool label."""
    return load_inventory({"poolLabel": LABEL, "pools": list(pools), **fields})


def role(
    name: str, kind: str, replicas: int = 1, nodes: int = 1, gpus: Any = 8, **fields: Any
) -> dict[str, Any]:
    """Return a role; `fields` are further fields of the role, except `pod`: fields of its pods."""
    spec = fields.pop("pod", {})
    if nodes > 1:
        fields["multinode"] = {"nodeCount": nodes}
    tensor_arguments = ["--tensor-parallel-size", str(gpus * max(nodes, 1))] if gpus else []
    arguments = ["--model", "m", *tensor_arguments]
    spec = {"hostIPC": True, **spec}
    template = samples.template(samples.container(gpus=gpus, args=arguments), **spec)
    return samples.role(name, kind, replicas=replicas, template=template, **fields)


def worker(name: str, replicas: int = 1, nodes: int = 1, gpus: Any = 8, **fields: Any) -> Any:
    """Return a service of one role."""
    return samples.service(role("serve", "worker", replicas, nodes, gpus, **fields), name=name)


def pair(name: str, prefill: Any = (), decode: Any = (), **spec: Any) -> Any:
    """Return a service; `prefill` and `decode` are replicas, nodes and GPUs, or a complete role."""
    roles = [
        value if isinstance(value, dict) else role(item, kind, *value)
        for item, kind, value in (("prefill", "prefiller", prefill), ("decode", "decoder", decode))
    ]
    return samples.service(*roles, name=name, **spec)


def args(manifest: Any) -> InferenceServiceArgs:
    """Return a manifest as the library reads it."""
    (read,) = load(manifest)
    return read


def where(placement: Placement) -> dict[str, dict[str, str]]:
    """Return the pool of each role of each service."""
    return {
        item.service: {role.name: role.pool for role in item.roles}
        for item in placement.placed
        if item is not None
    }


def only(placement: Placement) -> ServicePlacement:
    """Return the placement of the only service."""
    (record,) = placement.placed
    assert record is not None
    return record


def rejection(*arguments: Any, **options: Any) -> str:
    """Return the error of `place`."""
    try:
        result = place(*arguments, **options)
    except InvalidServiceError as rejected:
        return without_rules(str(rejected))
    raise AssertionError(f"placed: {where(result)}")


def pod_specs(service: InferenceServiceArgs) -> list[dict[str, Any]]:
    """Return the pod specs of all templates of a service."""
    return [
        template["spec"]
        for item in service.roles
        for template in (item.template, item.leader_template, item.worker_template)
        if template is not None
    ]
