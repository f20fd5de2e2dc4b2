"""Roles of one service that do not fit together: prefill and decode, and workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.engines.engine import KvConnector
from fusioninfer_pulumi.engines.handshake import AUTO, read_pair_setting
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.pods.pod import PAIRED, Context, RolePods

PAIRED_SETTINGS_DIFFER = Rule("paired-settings-differ")
PREFILL_WITHOUT_DECODE = Rule("prefill-without-decode")
DECODE_WITHOUT_PREFILL = Rule("decode-without-prefill")
PAIRED_SIZES_UNSUPPORTED = Rule("paired-sizes-unsupported")
KV_TRANSFER_WRONG_WAY = Rule("kv-transfer-wrong-way")
SERVED_MODELS_DIFFER = Rule("served-models-differ")

_MakeFinding = Callable[[Rule, Location, str], Finding]
#: Settings that prefill and decode should share; see `KvCache.settings_to_match`.
_SETTINGS = (
    "model", "release", "dtype", "cache dtype", "quantization", "block size", "revision",
    "tokenizer",
)  # fmt: skip
#: Rules of a role without its other half.
_ALONE = {
    ComponentType.PREFILLER: ("decoder", PREFILL_WITHOUT_DECODE),
    ComponentType.DECODER: ("prefiller", DECODE_WITHOUT_PREFILL),
}


def pair_findings(roles: Sequence[tuple[Context, RolePods]]) -> list[Finding]:
    """Report settings in which prefill and decode roles differ.

    Refused only where an endpoint picker pairs them and the connector is known to stop; other pairs
    may never meet, and other connectors may do without.
    """
    sides = [[role for role in roles if role[0].role.component_type is kind] for kind in PAIRED]
    findings: list[Finding] = []
    if not all(sides):
        findings = [_report_unpaired(ctx) for side in sides for ctx, _ in side]
    for prefiller, decoder in product(*sides):
        findings += _check_pair(prefiller, decoder)
    return findings


def _report_unpaired(ctx: Context) -> Finding:
    other, rule = _ALONE[ctx.role.component_type]
    message = (
        f"the service has no {other}, so no KV cache is transferred; add one, or use "
        "componentType worker"
    )
    return warning(rule, ctx.at("componentType"), message)


def _check_pair(
    prefiller: tuple[Context, RolePods], decoder: tuple[Context, RolePods]
) -> Iterator[Finding]:
    (first, first_pods), (second, second_pods) = prefiller, decoder
    prefill, decode = first_pods.command, second_pods.command
    engine = prefill.engine
    if engine is None or decode.engine is not engine:
        return  # engines that differ are refused with their connectors
    paired = second.pairing is not None
    agreed = engine.kv_cache.settings_to_match(prefill, decode) if paired else ()
    shown = {"model": "the model", "release": engine.title, "block size": engine.block_size_flag}
    shown |= {key: flags[0] for key, flags in engine.model_setup_flags.items()}
    for key in _SETTINGS:
        filled, read = (
            read_pair_setting(prefill, key),
            read_pair_setting(decode, key),
        )
        if filled is None or read is None or filled == read:
            continue
        # The model's own configuration decides what `auto` means.
        make_finding: _MakeFinding = (
            error if key in agreed and AUTO not in (filled, read) else warning
        )
        message = (
            f"{shown[key]} is {read}, but {filled} in role {first.role.name}, which fills its KV "
            "cache; use the same value in both"
        )
        yield make_finding(PAIRED_SETTINGS_DIFFER, second.at(), message)
    if engine.rejects_unknown_models:
        yield from _check_served_names(prefiller, decoder, is_rejected="served name" in agreed)
    why = engine.kv_cache.check_pair_sizes(prefill, decode)
    if why is not None:
        make_finding = error if paired else warning
        flag = engine.size_flags["tensor"][0]
        message = (
            f"its {flag} does not match that of role {first.role.name}: {why}; use the same in both"
        )
        yield make_finding(PAIRED_SIZES_UNSUPPORTED, second.at(), message)


def _check_served_names(
    prefiller: tuple[Context, RolePods], decoder: tuple[Context, RolePods], *, is_rejected: bool
) -> Iterator[Finding]:
    served = [pods.command.served_names for _, pods in (prefiller, decoder)]
    if served[0] is None or served[1] is None:
        return
    missing = [name for name in served[1] if name not in served[0]]
    if not missing:
        return
    # Requests keep the name of their model on their way to the prefiller.
    make_finding: _MakeFinding = (
        error if is_rejected and len(missing) == len(served[1]) else warning
    )
    yield make_finding(
        PAIRED_SETTINGS_DIFFER,
        decoder[0].at(),
        f"serves {', '.join(missing)}, which role {prefiller[0].role.name} does not; give both the "
        "same --served-model-name",
    )


_WRONG_WAY = {
    ComponentType.PREFILLER: ("kv_consumer", "decode"),
    ComponentType.DECODER: ("kv_producer", "prefill"),
}


def agreement_findings(roles: Sequence[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Compare the connectors of prefill and decode; an error only if a router pairs them."""
    known = [
        (ctx, pods, setup)
        for ctx, pods in roles
        if ctx.role.component_type in PAIRED
        and isinstance(setup := _read_connector(pods), KvConnector)
    ]
    if not known:
        return
    first, wanted_pods, wanted = known[0]
    make_finding = error if first.pairing is not None else warning
    for ctx, _, setup in known:
        wrong = _WRONG_WAY[ctx.role.component_type]
        if setup.role in wrong and setup.side_channel is None:
            yield make_finding(
                KV_TRANSFER_WRONG_WAY,
                ctx.at(),
                f"kv_role {setup.role} conflicts with componentType "
                f"{ctx.role.component_type.value}: the KV cache is transferred from prefillers to "
                "decoders",
            )
    if not {ctx.role.component_type for ctx, _, _ in known} >= set(PAIRED):
        return
    for ctx, pods, setup in known[1:]:
        engines = (_engine_name(pods), _engine_name(wanted_pods))
        if engines[0] != engines[1] or setup.transfers != wanted.transfers:
            yield make_finding(
                PAIRED_SETTINGS_DIFFER,
                ctx.at(),
                f"transfers its KV cache with {setup.name} ({engines[0]}), role {first.role.name} "
                f"with {wanted.name} ({engines[1]}); use the same in all prefillers and decoders",
            )


def _read_connector(pods: RolePods) -> KvConnector | str | None:
    if pods.kv is not None and pods.kv.connector is not None:
        return pods.kv.connector
    return pods.command.connector


def _engine_name(pods: RolePods) -> str | None:
    return pods.command.engine.name if pods.command.engine is not None else None


def served_findings(roles: Sequence[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Warn of worker roles of one service that serve different names."""
    known = [
        (ctx, names)
        for ctx, pods in roles
        if ctx.role.component_type is ComponentType.WORKER
        and ctx.role.replicas
        and (engine := pods.command.engine) is not None
        and engine.rejects_unknown_models
        and (names := pods.command.served_names) is not None
    ]
    for ctx, names in known[1:]:
        first, others = known[0]
        missing = [name for name in names if name not in others]
        if not missing and set(names) == set(others):
            continue
        yield warning(
            SERVED_MODELS_DIFFER,
            ctx.at(),
            f"serves {', '.join(names)}, role {first.role.name} serves {', '.join(others)}: "
            "pods of both receive requests, so some get 404; give both the same "
            "--served-model-name",
        )
