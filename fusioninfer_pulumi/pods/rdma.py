"""Gives the pods that hand a KV cache over their RDMA devices, and names them to UCX and NCCL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.kv_transfer import RdmaArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube.containers import with_env
from fusioninfer_pulumi.pods.templates import Place, Template, places, with_container, with_template

_IPC_LOCK = "IPC_LOCK"


def rdma_role(position: int, role: RoleArgs) -> tuple[RoleArgs, list[Finding]]:
    """Completes one role.

    Args:
        position: Index of the role in the spec.
        role: The role, valid by the spec's rules.

    Returns:
        The role whose serving containers have the devices and variables, and what is to be said.
    """
    given = role.kv_transfer.rdma if role.kv_transfer is not None else None
    if given is None:
        return role, []
    findings: list[Finding] = []
    for place in places(position, role):
        taken = list(_taken(place, given))
        findings += taken
        if not taken:
            name = str(place.container["name"])
            template = with_container(place.template, name, lambda each: _container(each, given))
            role = with_template(role, place.field, template)
    return role, findings


def _container(container: Mapping[str, Any], given: RdmaArgs) -> Template:
    built = with_env(container, _variables(given))
    if given.resource is not None:
        resources = container.get("resources") or {}
        amounts = {given.resource: str(given.count)}
        built["resources"] = {
            **resources,
            "limits": {**(resources.get("limits") or {}), **amounts},
        }
    if given.lock_memory:
        security = container.get("securityContext") or {}
        capabilities = security.get("capabilities") or {}
        added = [each for each in capabilities.get("add") or () if each != _IPC_LOCK]
        capabilities = {**capabilities, "add": [*added, _IPC_LOCK]}
        built["securityContext"] = {**security, "capabilities": capabilities}
    return built


def _variables(given: RdmaArgs) -> list[dict[str, str]]:
    stated: dict[str, str | None] = {
        "UCX_TLS": given.transports,
        "UCX_NET_DEVICES": ",".join(given.devices) if given.devices else None,
        # NCCL calls a device by its name alone; UCX wants the port behind it.
        "NCCL_IB_HCA": ",".join(dict.fromkeys(each.partition(":")[0] for each in given.devices))
        if given.devices
        else None,
    }
    for name in ("UCX_IB_GID_INDEX", "NCCL_IB_GID_INDEX"):
        stated[name] = None if given.gid_index is None else str(given.gid_index)
    return [{"name": name, "value": value} for name, value in stated.items() if value is not None]


def _taken(place: Place, given: RdmaArgs) -> Iterator[Finding]:
    limits = (place.container.get("resources") or {}).get("limits") or {}
    if given.resource in limits:
        yield error(
            f"{place.container_at}.resources.limits.{given.resource}",
            "is asked for by kvTransfer.rdma; remove one",
        )
    variables = {each["name"] for each in _variables(given)}
    for index, each in enumerate(place.container.get("env") or ()):
        if each.get("name") in variables:
            yield error(
                f"{place.container_at}.env[{index}]",
                f"{each['name']} is set by kvTransfer.rdma; remove one",
            )
