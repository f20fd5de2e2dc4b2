"""RDMA devices of the pods that hand a KV cache over, and their names for UCX and NCCL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.kv_transfer import RdmaArgs
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube.containers import with_env
from fusioninfer_pulumi.pods.pod import Context, Pod, Pods
from fusioninfer_pulumi.rules.common import TAKEN_BY_TEMPLATE

_IPC_LOCK = "IPC_LOCK"


def rdma(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Gives the serving containers their devices, and the variables that name them."""
    args = ctx.role.kv_transfer.rdma if ctx.role.kv_transfer is not None else None
    if args is None:
        return pods, []
    findings: list[Finding] = []
    for pod in pods.each():
        taken = list(_taken(pod, args))
        findings += taken
        if not taken:
            pods = pods.put(pod.with_container(lambda container: _container(container, args)))
    return pods, findings


def _container(container: Mapping[str, Any], args: RdmaArgs) -> dict[str, Any]:
    built = with_env(container, _variables(args))
    if args.resource is not None:
        resources = container.get("resources") or {}
        amounts = {args.resource: str(args.count)}
        built["resources"] = {
            **resources,
            "limits": {**(resources.get("limits") or {}), **amounts},
        }
    if args.lock_memory:
        security = container.get("securityContext") or {}
        capabilities = security.get("capabilities") or {}
        added = [
            capability for capability in capabilities.get("add") or () if capability != _IPC_LOCK
        ]
        capabilities = {**capabilities, "add": [*added, _IPC_LOCK]}
        built["securityContext"] = {**security, "capabilities": capabilities}
    return built


def _variables(args: RdmaArgs) -> list[dict[str, str]]:
    explicit: dict[str, str | None] = {
        "UCX_TLS": args.transports,
        "UCX_NET_DEVICES": ",".join(args.devices) if args.devices else None,
        # NCCL calls a device by its name alone; UCX wants the port behind it.
        "NCCL_IB_HCA": ",".join(dict.fromkeys(device.partition(":")[0] for device in args.devices))
        if args.devices
        else None,
    }
    for name in ("UCX_IB_GID_INDEX", "NCCL_IB_GID_INDEX"):
        explicit[name] = None if args.gid_index is None else str(args.gid_index)
    return [{"name": name, "value": value} for name, value in explicit.items() if value is not None]


def _taken(pod: Pod, args: RdmaArgs) -> Iterator[Finding]:
    limits = (pod.container.get("resources") or {}).get("limits") or {}
    if args.resource is not None and args.resource in limits:
        yield error(
            TAKEN_BY_TEMPLATE,
            (*pod.container_path, "resources", "limits", args.resource),
            "is asked for by kvTransfer.rdma; remove one",
        )
    variables = {variable["name"] for variable in _variables(args)}
    for index, variable in enumerate(pod.container.get("env") or ()):
        if variable.get("name") in variables:
            yield error(
                TAKEN_BY_TEMPLATE,
                (*pod.container_path, "env", index),
                f"{variable['name']} is set by kvTransfer.rdma; remove one",
            )
