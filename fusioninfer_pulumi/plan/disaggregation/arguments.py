"""Which flags the engines of a role get, and what speaks against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.facts import spelled
from fusioninfer_pulumi.engines.flags import has_flag, split_joined_flags
from fusioninfer_pulumi.engines.kv_connectors import (
    KV_EVENTS_FLAG,
    NIXL,
    KvSetup,
    kv_events_json,
    kv_json,
    kv_setup,
    kv_transfer_settings,
    multi_settings,
    sglang_setup,
)
from fusioninfer_pulumi.engines.kv_offloading import (
    VLLM_WITH_NIXL,
    Offloading,
    offloading_settings,
)
from fusioninfer_pulumi.engines.kv_settings import Setting
from fusioninfer_pulumi.engines.kv_transfer import KV_TRANSFER_FLAG
from fusioninfer_pulumi.engines.model_arguments import served_names
from fusioninfer_pulumi.findings import Finding, error, info, join, warning
from fusioninfer_pulumi.plan.kv_offloading import offloading_of
from fusioninfer_pulumi.spec.kv_transfer import KvRole, KvTransferArgs
from fusioninfer_pulumi.spec.role import ComponentType, RoleArgs

#: Variable with the pod's address, which the kubelet puts into arguments.
POD_IP_ENV = "POD_IP"
_STATED = ("connector", "role", "extra_config")


@dataclass(frozen=True)
class Transfer:
    """How a role's engines hand their KV cache over.

    Attributes:
        settings: Flags that every pod's engine gets for it.
        setup: What the engine then does, None where it is not known.
    """

    settings: tuple[Setting, ...] = ()
    setup: KvSetup | None = None


def transfer(
    position: int, args: RoleArgs, command: EngineCommand, at: str, *, needed: bool
) -> tuple[Transfer, list[Finding]]:
    """Decides on the flags for the KV cache's way.

    Args:
        position: Index of the role in the spec.
        args: The role.
        command: The engine's command line as written.
        at: Field that holds it.
        needed: Whether a picker pairs the pods, so that they have to hand their cache over.

    Returns:
        The flags, and what is to be said.
    """
    given = args.kv_transfer
    field = join("roles", position, "kvTransfer")
    # SGLang has a flag of its own for it, which is set already.
    offloading = offloading_of(args) if command.engine == "vllm" else None
    setup = kv_setup(command)
    if isinstance(setup, str):
        asked = needed or given or offloading
        return Transfer(), [error(at, f"{KV_TRANSFER_FLAG} {setup}")] if asked else []
    if setup is not None:
        twice = [] if given is None else list(_twice(given, field))
        if offloading is not None:
            twice.append(
                error(
                    join("roles", position, "kvCacheOffloading"),
                    f"the engine's arguments hold {KV_TRANSFER_FLAG} ({setup.connector}) already; "
                    "remove one of them",
                )
            )
        return Transfer((), setup), twice
    if given is not None:
        return _generated(args.component_type, given, command, field, offloading)
    if not needed:
        if offloading is None:
            return Transfer(), []
        return Transfer((_flag(offloading_settings(offloading)),)), []
    if command.engine is None or not command.readable:
        return Transfer(), [
            warning(
                at,
                "whether the engine hands its KV cache over cannot be read here: it needs "
                f"{KV_TRANSFER_FLAG} (vLLM) or --disaggregation-mode (SGLang)",
            )
        ]
    flag = KV_TRANSFER_FLAG if command.engine == "vllm" else "--disaggregation-mode"
    return Transfer(), [
        error(
            at,
            f"{flag} is missing, without which no KV cache goes from prefill to decode: add it, "
            f"or let kvTransfer: {{}} generate it for {NIXL}",
        )
    ]


def why_unknown(command: EngineCommand) -> str:
    """Why no flag can be set in a command line whose engine is not known."""
    if command.script is not None:
        return "no start of either can be read in the container's shell script"
    return "the container's program is neither vLLM nor SGLang"


def _twice(given: KvTransferArgs, field: str) -> Iterator[Finding]:
    for name in _STATED:
        if getattr(given, name) is not None:
            alias = KvTransferArgs.model_fields[name].alias or name
            yield error(
                f"{field}.{alias}", "the engine's arguments state it already; remove one of them"
            )


def _flag(settings: Mapping[str, Any]) -> Setting:
    return Setting(KV_TRANSFER_FLAG, kv_json(settings))


def _generated(
    component_type: ComponentType,
    given: KvTransferArgs,
    command: EngineCommand,
    field: str,
    offloading: Offloading | None,
) -> tuple[Transfer, list[Finding]]:
    if command.engine is None:
        return Transfer(), [
            error(
                field,
                f"generates arguments of vLLM or SGLang, but {why_unknown(command)}; write the "
                "arguments yourself",
            )
        ]
    if command.engine == "sglang":
        for name in ("role", "extra_config"):
            if getattr(given, name) is not None:
                alias = KvTransferArgs.model_fields[name].alias or name
                return Transfer(), [error(f"{field}.{alias}", "is vLLM's; SGLang has no such")]
        mode = "prefill" if component_type is ComponentType.PREFILLER else "decode"
        flags, setup = sglang_setup(mode, given.connector)
        return Transfer(tuple(Setting(*each) for each in flags), setup), []
    connector, role = given.connector or NIXL, given.role or KvRole.BOTH
    settings = kv_transfer_settings(connector, role.value, given.extra_config)
    said = []
    if offloading is not None:
        said = list(_unfit(connector, command, field))
        settings = multi_settings([settings, offloading_settings(offloading)])
    flag = _flag(settings)
    # Read back, so that what is known of a connector is known of a generated one too.
    words = (flag.flag, flag.value)
    made = kv_setup(EngineCommand("vllm", (), words, None, readable=True))
    assert isinstance(made, KvSetup), "what is generated can be read"
    return Transfer((flag,), made), said


def _unfit(connector: str, command: EngineCommand, field: str) -> Iterator[Finding]:
    """What is not known to work together with offloading in one engine."""
    if connector != NIXL:
        yield error(
            f"{field}.connector",
            f"{connector} together with kvCacheOffloading is not known to work, {NIXL} is; remove "
            f"one, or write {KV_TRANSFER_FLAG} with both into the arguments",
        )
    elif command.image.version is not None and command.image.version < VLLM_WITH_NIXL:
        yield error(
            field,
            f"together with kvCacheOffloading needs vLLM {spelled(VLLM_WITH_NIXL)}, got "
            f"{spelled(command.image.version)}",
        )


def events(
    position: int, args: RoleArgs, command: EngineCommand, port: int
) -> tuple[list[Setting], list[Finding]]:
    """Decides on the flag for the KV cache's events, which only the leader's engine publishes.

    Args:
        position: Index of the role in the spec.
        args: The role.
        command: The engine's command line as written.
        port: Port by which the picker knows the pod.

    Returns:
        The flag, and what is to be said.
    """
    given = args.kv_events
    if given is None:
        return [], []
    field = join("roles", position, "kvEvents")
    if command.engine is None:
        return [], [error(field, "needs an engine that is known: vLLM or SGLang")]
    if has_flag(split_joined_flags(command.arguments), KV_EVENTS_FLAG):
        return [], [error(field, f"the engine's arguments hold {KV_EVENTS_FLAG}; remove one")]
    topic = given.topic
    said: list[Finding] = []
    if topic is None:
        served = served_names(command)
        if served is None:
            return [], [
                error(f"{field}.topic", "is required: the model's name cannot be read here")
            ]
        topic = f"kv@$({POD_IP_ENV}):{port}@{served[0]}"
        if len(set(served)) > 1:
            # The picker looks events up by the name that a request asks for.
            others = ", ".join(dict.fromkeys(name for name in served if name != served[0]))
            said.append(
                warning(
                    f"{field}.topic",
                    f"names one model, by default {served[0]}: pickers find no events for requests "
                    f"that ask for {others}; state the topic, or serve one name",
                )
            )
    if topic.count("@") != 2:
        said.append(
            info(f"{field}.topic", "llm-d's pickers read kv@POD@MODEL, and ignore the pod here")
        )
    value = kv_events_json(command.engine, given.endpoint, topic)
    return [Setting(KV_EVENTS_FLAG, value)], said
