"""Rules of `kvTransfer` that hold whatever the rest of the service is."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.findings import Location, shown
from fusioninfer_pulumi.spec.container import amount_problems, resource_problems
from fusioninfer_pulumi.spec.kv_transfer import KvTransferArgs, SidecarArgs
from fusioninfer_pulumi.spec.problem import Problem
from fusioninfer_pulumi.spec.role import ComponentType, RoleArgs
from fusioninfer_pulumi.spec.router_leaves import leaf_problems


def kv_problems(at: Location, role: RoleArgs) -> Iterator[Problem]:
    """Checks how a role that runs pods hands its KV cache over.

    Args:
        at: Where it stands.
        role: The role, well-formed field by field.

    Yields:
        Every problem.
    """
    transfer = role.kv_transfer
    if transfer is None:
        return
    at = (*at, "kvTransfer")
    if role.component_type is ComponentType.WORKER:
        yield Problem(at, "belongs to a prefiller or a decoder (this role is a worker)")
        return
    if role.component_type is ComponentType.PREFILLER:
        for field, alias in (("engine_port", "enginePort"), ("sidecar", "sidecar")):
            if field in transfer.model_fields_set and getattr(transfer, field) is not None:
                yield Problem((*at, alias), "belongs to a decoder: only decode pods have a sidecar")
    if transfer.extra_config is not None:
        yield from leaf_problems((*at, "extraConfig"), transfer.extra_config)
    if transfer.shared_memory is not None:
        # Said in the words of a resource amount, at the field itself.
        amounts = {"sharedMemory": transfer.shared_memory}
        yield from amount_problems(at, amounts)
    yield from _ports(at, transfer)
    yield from _sidecar((*at, "sidecar"), transfer.sidecar)


def _ports(at: Location, transfer: KvTransferArgs) -> Iterator[Problem]:
    if transfer.engine_port == transfer.side_channel_port:
        yield Problem(
            (*at, "enginePort"),
            f"must differ from sideChannelPort, got {transfer.engine_port} for both",
        )


def _sidecar(at: Location, sidecar: SidecarArgs) -> Iterator[Problem]:
    if isinstance(sidecar.image, str) and (not sidecar.image or " " in sidecar.image):
        yield Problem((*at, "image"), f"must be an image reference, got {shown(sidecar.image)}")
    if sidecar.resources is not None:
        yield from leaf_problems((*at, "resources"), sidecar.resources)
        yield from resource_problems((*at, "resources"), sidecar.resources)
    if not sidecar.enabled:
        for field in sorted(sidecar.model_fields_set - {"enabled"}):
            alias = SidecarArgs.model_fields[field].alias or field
            yield Problem((*at, alias), "has no effect: the sidecar is not enabled; remove it")
