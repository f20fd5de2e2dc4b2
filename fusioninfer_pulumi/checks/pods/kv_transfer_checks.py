"""Checks of how a role's pods hand their KV cache over: connector, events, sidecar, ports."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.kv_transfer import KvTransferArgs
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.endpoint_pickers.picker_families import FLAG_UNKNOWN
from fusioninfer_pulumi.endpoint_pickers.sidecar_releases import (
    OWNED_FLAGS,
    is_unknown,
)
from fusioninfer_pulumi.engines.engine import KV_EVENTS_FLAG, NIXL
from fusioninfer_pulumi.engines.engine_commands import ENGINES
from fusioninfer_pulumi.findings import Finding, Rule, error, info, shown, warning
from fusioninfer_pulumi.pods.kv_cache_transfer import KV_EVENTS_TOPIC
from fusioninfer_pulumi.pods.pod import Context, RolePods, SidecarPlan
from fusioninfer_pulumi.rules.common import ARGUMENTS_UNREADABLE, SET_BY_LIBRARY, TAKEN_BY_TEMPLATE

POOL_PODS_SERVE_HTTPS = Rule("pool-pods-serve-https")

KV_TRANSFER_MISSING = Rule("kv-transfer-missing")
SIDECAR_PROTECTION = Rule("sidecar-protection")
KV_TRANSFER_DISABLED = Rule("kv-transfer-disabled")


def transfer_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check that prefill and decode hand their KV cache over."""
    # The written command line: the finished one has the generated arguments.
    args, command, at = ctx.role.kv_transfer, pods.leader.user_command, pods.leader.command_path
    if pods.kv is None or command.connector is not None:
        return
    if args is not None:
        if not args.enabled:
            message = (
                "no KV cache is transferred from prefill to decode: decode recomputes every prompt"
            )
            yield warning(KV_TRANSFER_DISABLED, ctx.at("kvTransfer", "enabled"), message)
        return
    if ctx.pairing is None:
        return
    if command.engine is None or not command.readable:
        flags = " or ".join(
            f"{engine.transfer_flag} ({engine.title})" for engine in ENGINES.values()
        )
        yield warning(
            ARGUMENTS_UNREADABLE,
            at,
            f"cannot tell whether the engine transfers its KV cache; it needs {flags}",
        )
    else:
        yield error(
            KV_TRANSFER_MISSING,
            at,
            f"{command.engine.transfer_flag} is missing, so no KV cache is transferred from "
            f"prefill to decode; add it, or let kvTransfer: {{}} generate it for {NIXL}",
        )


def event_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check the topic of KV events against what endpoint pickers read."""
    args, served, at = ctx.role.kv_events, pods.command.served_names, ctx.at("kvEvents", "topic")
    engine, user_command = pods.command.engine, pods.leader.user_command
    if args is None or engine is None or user_command.has(KV_EVENTS_FLAG):
        return
    if args.topic is None and served is not None and len(set(served)) > 1:
        # The endpoint picker looks events up by the name that a request asks for.
        others = ", ".join(dict.fromkeys(name for name in served if name != served[0]))
        yield warning(
            KV_EVENTS_TOPIC,
            at,
            f"names one model, by default {served[0]}: endpoint pickers find no events for "
            f"requests for {others}; set the topic, or serve one name",
        )
    topic = f"kv@POD@{served[0]}" if args.topic is None and served else args.topic
    if topic is not None and topic.count("@") != 2:
        message = "llm-d's endpoint pickers expect kv@POD@MODEL, and ignore the pod here"
        yield info(KV_EVENTS_TOPIC, at, message)


def sidecar_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check a decode role's sidecar: ours, the template's own, or none."""
    plan = pods.kv
    if plan is None or ctx.pairing is None or ctx.role.component_type is not ComponentType.DECODER:
        return
    args = ctx.role.kv_transfer or KvTransferArgs()
    if plan.user_sidecar is not None and plan.engine_port == plan.pool_port:
        yield warning(
            TAKEN_BY_TEMPLATE,
            ctx.at(),
            f"container {plan.user_sidecar} listens on port {plan.pool_port}, and so does the "
            "engine, as far as its arguments say; give it another --port",
        )
    if plan.sidecar is None:
        return
    yield from _argument_findings(plan.sidecar, args, ctx)
    yield from _protection_findings(plan.sidecar, args, ctx)


def _protection_findings(
    sidecar: SidecarPlan, args: KvTransferArgs, ctx: Context
) -> Iterator[Finding]:
    """Check whether the sidecar's release can reject prefill addresses."""
    wanted = args.sidecar.ssrf_protection
    if sidecar.family.sidecar_reads_pool or wanted is False:
        return
    at = ctx.at("kvTransfer", "sidecar", "ssrfProtection")
    name = f"the sidecar of {sidecar.family.name}"
    if wanted:
        message = f"{name} does not read v1 InferencePools and would reject every prefill pod"
        yield error(SIDECAR_PROTECTION, at, f"{message}; use llm-d v0.10.0 or later")
    else:
        message = f"{name} cannot protect itself: a client's header chooses its prefill pod"
        yield info(SIDECAR_PROTECTION, at, f"{message}; use llm-d v0.10.0 or later")


def _argument_findings(
    sidecar: SidecarPlan, args: KvTransferArgs, ctx: Context
) -> Iterator[Finding]:
    """Check the user's own flags; an image that is not known may have more than the family's."""
    at = ctx.at("kvTransfer", "sidecar", "args")
    words, image, family = args.sidecar.args or (), args.sidecar.image, sidecar.family
    own_image = image is not None and is_unknown(image)
    for index, argument in enumerate(words):
        name = argument.partition("=")[0].lstrip("-")
        if not argument.startswith("-"):
            message = f"must be a flag such as --name=value, got {shown(argument)}"
            yield error(FLAG_UNKNOWN, (*at, index), message)
        elif name in OWNED_FLAGS:
            yield error(SET_BY_LIBRARY, (*at, index), f"--{name} {OWNED_FLAGS[name]}")
        elif name not in family.sidecar_flags:
            make_finding = warning if own_image else error
            message = f"the sidecar of {family.name} has no flag --{name} and would not start"
            yield make_finding(FLAG_UNKNOWN, (*at, index), message)
    if sidecar.https:
        yield warning(
            POOL_PODS_SERVE_HTTPS,
            at,
            "--secure-proxy serves HTTPS on the pool's port, but gateway and endpoint picker send "
            "plain HTTP to pods of a pool",
        )
