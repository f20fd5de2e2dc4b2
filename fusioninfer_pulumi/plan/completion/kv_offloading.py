"""Gives every pod of a role what its KV cache is offloaded to: memory, volumes, variables.

vLLM's flag is set where KV connectors are decided on (`plan/disaggregation/arguments`), because it
names the way from prefill to decode as well; SGLang's flags are its own and set here.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi import quantity
from fusioninfer_pulumi.engines.added_arguments import with_arguments
from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.facts import SHARED_MEMORY
from fusioninfer_pulumi.engines.kv_offloading import (
    HASH_SEED_ENV,
    SGLANG_FOLDER_ENV,
    Offloading,
    hierarchical_words,
    offloading_notes,
    pod_memory,
)
from fusioninfer_pulumi.engines.kv_settings import SettingError
from fusioninfer_pulumi.engines.launch_types import with_words
from fusioninfer_pulumi.findings import Finding, Severity, error, info, join, parse_path, warning
from fusioninfer_pulumi.plan.completion.kv_offloading_pods import (
    tier_findings,
    with_shared_memory,
    with_tiers,
)
from fusioninfer_pulumi.plan.completion.templates import (
    Place,
    Template,
    places,
    with_template,
)
from fusioninfer_pulumi.plan.disaggregation.arguments import why_unknown
from fusioninfer_pulumi.plan.kv_offloading import offloading_of
from fusioninfer_pulumi.plan.pod_edits import mounted, with_env
from fusioninfer_pulumi.spec.kv_cache_offloading import KvCacheOffloadingArgs
from fusioninfer_pulumi.spec.role import ComponentType, RoleArgs


def offloading_role(position: int, role: RoleArgs) -> tuple[RoleArgs, list[Finding]]:
    """Completes one role.

    Args:
        position: Index of the role in the spec.
        role: The role with the sizes of `parallelism` in its arguments.

    Returns:
        The role whose pods have room for what is offloaded, and what is to be said.
    """
    given, wanted = role.kv_cache_offloading, offloading_of(role)
    if given is None or wanted is None:
        return role, []
    at = join("roles", position, "kvCacheOffloading")
    listed = list(places(position, role))
    command = read_command(listed[0].container)
    if command.engine is None:
        message = f"sets arguments of vLLM or SGLang, but {why_unknown(command)}"
        return role, [error(at, f"{message}; write the arguments yourself")]
    decodes = role.component_type is ComponentType.DECODER
    findings = [
        Finding(
            "", Severity(note.severity), parse_path(f"{at}.{field}" if field else at), note.message
        )
        for field, note in offloading_notes(command, wanted, decodes=decodes)
    ]
    need = pod_memory(command, wanted, role.nodes)
    for place in listed:
        findings += tier_findings(place, given)
        findings += _memory(f"{at}.cpu", place, need)
        if command.engine == "vllm":
            findings += _room(f"{at}.cpu", role, place, need)
    findings += _shared(at, role, given)
    if any(each.severity is Severity.ERROR for each in findings):
        return role, findings
    findings.append(info(at, _summary(given, need)))
    built = role
    for place in listed:
        try:
            container = _container(place, command, wanted, given)
        except SettingError as problem:
            message = f"the hierarchical cache cannot be set in it: {problem}"
            findings.append(error(place.command_at, f"{message}; write the command as a list"))
            continue
        template = with_tiers(place, container, given)
        if command.engine == "vllm":
            limit = role.kv_transfer.shared_memory if role.kv_transfer is not None else None
            template = with_shared_memory(template, str(container["name"]), limit)
        built = with_template(built, place.field, template)
    return built, findings


def _container(
    place: Place, command: EngineCommand, wanted: Offloading, given: KvCacheOffloadingArgs
) -> Template:
    variables: list[dict[str, Any]] = []
    container: Template = dict(place.container)
    if command.engine == "sglang":
        if place.leads or read_command(container).engine == "sglang":
            edit = with_arguments(container, hierarchical_words(command, wanted))
            container = with_words(container, edit)
        if wanted.folders:
            variables.append({"name": SGLANG_FOLDER_ENV, "value": wanted.folders[0]})
    elif any(_kept(tier) for tier in given.secondary):
        variables.append({"name": HASH_SEED_ENV, "value": "0"})
    return with_env(container, variables)


def _kept(tier: Any) -> bool:
    """Whether what a tier holds is met by another process than the one that wrote it."""
    claim = tier.file_system.pvc
    return claim is not None and claim.ref is not None


def _memory(at: str, place: Place, need: Decimal) -> Iterator[Finding]:
    resources = place.container.get("resources") or {}
    limit = (resources.get("limits") or {}).get("memory")
    asked = (resources.get("requests") or {}).get("memory", limit)
    amount = quantity.write(need)
    if limit is not None and need >= quantity.parse(limit):
        yield error(
            at,
            f"takes {amount} of host memory in each pod, but {place.container_at} may use "
            f"{limit} in all; raise its memory limit, or offload less",
        )
    elif asked is None or quantity.parse(asked) < need:
        has = "none" if asked is None else str(asked)
        yield warning(
            at,
            f"takes {amount} of host memory in each pod, but {place.container_at} asks for {has}: "
            "nodes are chosen that do not have it; raise requests.memory",
        )


def _room(at: str, role: RoleArgs, place: Place, need: Decimal) -> Iterator[Finding]:
    """The region of vLLM's tiers lies in /dev/shm, which has to hold all of it."""
    mount = mounted(place.container, SHARED_MEMORY)
    takes = f"takes {quantity.write(need)} of {SHARED_MEMORY}"
    stated = role.kv_transfer.shared_memory if role.kv_transfer is not None else None
    if mount is None and _less(stated, need):
        yield error(at, f"{takes}, but kvTransfer.sharedMemory is {stated}; raise or remove it")
    for volume in place.template["spec"].get("volumes") or ():
        source = volume.get("emptyDir")
        if mount is None or volume.get("name") != mount.get("name") or not isinstance(source, dict):
            continue
        limit = source.get("sizeLimit")
        if _less(limit, need):
            yield error(
                at,
                f"{takes}, but the volume {volume['name']} of {place.at} holds {limit}; raise its "
                "sizeLimit, or remove it",
            )


def _less(amount: Any, need: Decimal) -> bool:
    """Whether an amount is stated that is less; what is no quantity is refused elsewhere."""
    try:
        return amount is not None and quantity.parse(amount) < need
    except ValueError:
        return False


def _shared(at: str, role: RoleArgs, given: KvCacheOffloadingArgs) -> Iterator[Finding]:
    pods = role.replicas * role.nodes
    for index, tier in enumerate(given.secondary):
        claim = tier.file_system.pvc
        if claim is not None and claim.ref is not None and (pods > 1 or role.autoscaling):
            yield info(
                f"{at}.secondary[{index}]",
                f"every pod mounts the claim {claim.ref.name}: it has to be ReadWriteMany unless "
                "they share a node",
            )


def _summary(given: KvCacheOffloadingArgs, need: Decimal) -> str:
    words = [f"{quantity.write(need)} of host memory in each pod"]
    for tier in given.secondary:
        disk, claim = tier.file_system.empty_dir, tier.file_system.pvc
        if disk is not None:
            words.append(f"{disk.size} of its node's disk")
        elif claim is not None and claim.ref is not None:
            words.append(f"the claim {claim.ref.name}")
        else:
            words.append("a claim of its own")
    return f"KV cache goes on to {', then '.join(words)}"
