"""Whether prefill and decode are paired, and whether their roles agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fusioninfer_pulumi import pickers
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs
from fusioninfer_pulumi.api.topology import is_prefill_decode, serving
from fusioninfer_pulumi.engines import table
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.kv_connectors import KvSetup, kv_setup
from fusioninfer_pulumi.engines.serving_container import serving_container, serving_port
from fusioninfer_pulumi.findings import Finding, error, join, warning
from fusioninfer_pulumi.pickers.intent import picker_image, picker_intent
from fusioninfer_pulumi.pods.records import Disaggregation
from fusioninfer_pulumi.topology.role import RolePlan

_PAIR = (ComponentType.PREFILLER, ComponentType.DECODER)
_WRONG_WAY = {
    ComponentType.PREFILLER: ("kv_consumer", "decode"),
    ComponentType.DECODER: ("kv_producer", "prefill"),
}


def disaggregation_of(service: str, declared: Sequence[RoleArgs]) -> Disaggregation | None:
    """Finds out whether prefill and decode pods work on one request.

    Args:
        service: Name of the service.
        declared: All roles of the service.

    Returns:
        What their pods have to agree on; None without a router whose picker pairs them, and
        where that picker's release has no sidecar.
    """
    routers = [role for role in declared if role.component_type is ComponentType.ROUTER]
    if not routers or not is_prefill_decode(serving(declared)):
        return None
    intent = picker_intent(routers[0], declared)
    if not intent.pairs:
        return None
    _, family, _ = picker_image((), routers[0].endpoint_picker or EndpointPickerArgs(), intent)
    if family is None:
        # The router's own plan refuses it; the rest is held against the picker by default.
        family = pickers.family_of(pickers.DEFAULT_PD_IMAGE)
        assert family is not None, "the default picker is in the table"
    if family.sidecar_image is None:
        return None
    prefillers = [
        role
        for role in declared
        if role.component_type is ComponentType.PREFILLER and _leader_template(role)
    ]
    if not prefillers:
        return None
    containers = [serving_container(_leader_template(role), role.container) for role in prefillers]
    commands = [read_command(container) for container in containers]
    return Disaggregation(
        service=service,
        family=family,
        port=serving_port(containers[0], commands[0], prefillers[0].port),
        prefill_https=any(table.serves_https(command) for command in commands),
    )


def agreement_findings(
    roles: Sequence[RolePlan], disaggregation: Disaggregation | None
) -> Iterator[Finding]:
    """What prefill and decode roles do not agree on.

    Args:
        roles: The service's roles that run pods.
        disaggregation: The pairing by a picker, without which nothing is refused.

    Yields:
        Findings at the roles' `kvTransfer` or at the arguments that state the setting.
    """
    say = error if disaggregation is not None else warning
    known = [
        (role, setup)
        for role in roles
        if role.component_type in _PAIR and isinstance(setup := _setup(role), KvSetup)
    ]
    for role, setup in known:
        wrong = _WRONG_WAY[role.component_type]
        if setup.role in wrong and not setup.uses_nixl:
            yield say(
                join("roles", role.position),
                f"a {role.component_type.value} whose engine says {setup.role}: the KV cache goes "
                "from prefillers to decoders",
            )
    if not {role.component_type for role, _ in known} >= set(_PAIR):
        return
    first, wanted = known[0]
    for role, setup in known[1:]:
        if (role.serving.command.engine, setup.transfers) != (
            first.serving.command.engine,
            wanted.transfers,
        ):
            yield say(
                join("roles", role.position),
                f"hands its KV cache over by {setup.connector} ({role.serving.command.engine}), "
                f"role {first.name} by {wanted.connector} ({first.serving.command.engine}); all "
                "prefillers and decoders need the same",
            )
    sizes = {role.name: table.block_size(role.serving.command) for role, _ in known}
    stated = {size for size in sizes.values() if size is not None}
    if len(stated) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items() if size is not None)
        yield warning(
            "roles", f"the blocks of the KV caches have different sizes ({listed}); give one size"
        )


def _setup(role: RolePlan) -> KvSetup | str | None:
    if role.wiring is not None and role.wiring.setup is not None:
        return role.wiring.setup
    return kv_setup(role.serving.command)


def _leader_template(role: RoleArgs) -> Mapping[str, object]:
    return role.leader_template or role.template or {}
