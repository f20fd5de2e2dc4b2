"""Checks of prefill and decode roles: KV cache transfer, sidecar, and settings that must match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from fusioninfer_pulumi.api.kv_cache import KvTransferArgs
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.endpoint_pickers.picker_families import SIDECAR_FLAGS
from fusioninfer_pulumi.engines.engine import NIXL, KvConnector
from fusioninfer_pulumi.engines.engine_commands import ENGINES
from fusioninfer_pulumi.engines.pair_compatibility import AUTO, get_pair_setting
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, quote_value, warning
from fusioninfer_pulumi.pods.pod import PD_ROLES, Context, RolePods
from fusioninfer_pulumi.rules.common import (
    ARGUMENTS_UNREADABLE,
    RELEASE_WITHOUT_FEATURE,
    SET_BY_LIBRARY,
    TAKEN_BY_TEMPLATE,
)

KV_TRANSFER_DISABLED = Rule("kv-transfer-disabled")
KV_TRANSFER_MISSING = Rule("kv-transfer-missing")


def check_kv_transfer(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check that the engine's command line enables KV cache transfer from prefill to decode."""
    command = pods.leader.initial_command  # before `add_kv_transfer` has added arguments
    args, location = ctx.role.kv_transfer, pods.leader.command_path
    if pods.kv is None or command.connector is not None:
        return
    if args is not None:
        if not args.enabled:
            message = "no KV cache is transferred from prefill to decode: decode recomputes it"
            yield warning(KV_TRANSFER_DISABLED, ctx.locate("kvTransfer", "enabled"), message)
        return
    if ctx.pd_settings is None:  # no endpoint picker pairs prefill with decode
        return
    if command.engine is None or not command.is_readable:
        flags = " or ".join(
            f"{engine.kv_cache.transfer_flag} ({engine.title})" for engine in ENGINES.values()
        )
        message = (
            f"cannot tell whether the engine transfers its KV cache; the transfer requires {flags}"
        )
        yield warning(ARGUMENTS_UNREADABLE, location, message)
    else:
        message = (
            f"{command.engine.kv_cache.transfer_flag} is missing, so no KV cache is transferred "
            f"from prefill to decode; add it, or let kvTransfer: {{}} generate it for {NIXL}"
        )
        yield error(KV_TRANSFER_MISSING, location, message)


def check_sidecar(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check a decode role's sidecar: the generated one, or the one in the user's template."""
    kv = pods.kv
    is_decoder = ctx.role.component_type is ComponentType.DECODER
    if kv is None or ctx.pd_settings is None or not is_decoder:
        return
    args = ctx.role.kv_transfer or KvTransferArgs()
    if kv.user_sidecar is not None and kv.engine_port == kv.pool_port:
        message = (
            f"container {kv.user_sidecar} listens on port {kv.pool_port}, which is also the "
            "port of the engine; give the engine another --port"
        )
        yield warning(TAKEN_BY_TEMPLATE, ctx.locate(), message)
    if kv.sidecar is None:
        return
    location, family = ctx.locate("kvTransfer", "sidecar"), kv.sidecar.family
    if args.sidecar.ssrf_protection and not family.sidecar_reads_pool:
        message = (
            f"the sidecar of {family.name} does not read v1 InferencePools and would reject every "
            "prefill pod; use llm-d v0.10.0 or later"
        )
        yield error(RELEASE_WITHOUT_FEATURE, (*location, "ssrfProtection"), message)
    for index, argument in enumerate(args.sidecar.args or ()):
        name = argument.partition("=")[0].lstrip("-")
        if name in SIDECAR_FLAGS:
            yield error(
                SET_BY_LIBRARY, (*location, "args", index), f"--{name} {SIDECAR_FLAGS[name]}"
            )


PAIRED_SETTINGS_DIFFER = Rule("paired-settings-differ")
PAIRED_SIZES_UNSUPPORTED = Rule("paired-sizes-unsupported")
KV_TRANSFER_WRONG_WAY = Rule("kv-transfer-wrong-way")
SERVED_MODELS_DIFFER = Rule("served-models-differ")

_MakeFinding = Callable[[Rule, Location, str], Finding]
#: Settings that prefill and decode should share; it is an error if those differ that
#: `KvCache.list_pair_settings` returns. Served names are checked separately.
_SETTINGS = (
    "model", "release", "dtype", "cache dtype", "quantization", "block size", "revision",
    "tokenizer",
)  # fmt: skip


def check_pair_settings(roles: Sequence[tuple[Context, RolePods]]) -> list[Finding]:
    """Report settings in which prefill and decode roles differ.

    A difference is an error only if an endpoint picker pairs the roles and the engine is known to
    fail if the setting differs.
    """
    prefillers, decoders = (
        [(ctx, pods) for ctx, pods in roles if ctx.role.component_type is component_type]
        for component_type in (ComponentType.PREFILLER, ComponentType.DECODER)
    )
    return [finding for pair in product(prefillers, decoders) for finding in _check_pair(*pair)]


def _check_pair(
    prefiller: tuple[Context, RolePods], decoder: tuple[Context, RolePods]
) -> Iterator[Finding]:
    (prefill_ctx, prefill_pods), (decode_ctx, decode_pods) = prefiller, decoder
    prefill, decode = prefill_pods.command, decode_pods.command
    engine = prefill.engine
    if engine is None or decode.engine is not engine:
        return  # check_kv_connectors() reports different engines
    is_paired = decode_ctx.pd_settings is not None
    must_match = engine.kv_cache.list_pair_settings(prefill, decode) if is_paired else ()
    setting_names = {
        "model": "the model",
        "release": f"the {engine.title} release",
        "block size": engine.kv_cache.block_size_flag,
    }
    setting_names |= {key: flags[0] for key, flags in engine.kv_cache.pair_setting_flags.items()}
    for key in _SETTINGS:
        prefill_value = get_pair_setting(prefill, key)
        decode_value = get_pair_setting(decode, key)
        if prefill_value is None or decode_value is None or prefill_value == decode_value:
            continue
        # The model's configuration decides what `auto` means, so the values may be equal.
        is_certain = AUTO not in (prefill_value, decode_value)
        make_finding: _MakeFinding = error if key in must_match and is_certain else warning
        message = (
            f"{setting_names[key]} ({decode_value}) differs from role "
            f'"{prefill_ctx.role.name}" ({prefill_value}), which fills this role\'s KV cache; use '
            "the same in both"
        )
        yield make_finding(PAIRED_SETTINGS_DIFFER, decode_ctx.locate(), message)
    if engine.http.rejects_unknown_models:
        names, prefill_names = decode.served_names or (), prefill.served_names
        missing = [n for n in names if prefill_names is not None and n not in prefill_names]
        # Each request goes to both pods, with the same model name.
        if missing:
            fails_always = "served name" in must_match and len(missing) == len(names)
            make_finding = error if fails_always else warning
            message = (
                f"serves {', '.join(map(quote_value, missing))}, but role "
                f'"{prefill_ctx.role.name}" does not; give both the same --served-model-name'
            )
            yield make_finding(PAIRED_SETTINGS_DIFFER, decode_ctx.locate(), message)
    reason = engine.kv_cache.explain_size_mismatch(prefill, decode)
    if reason is not None:
        make_finding = error if is_paired else warning
        flag, role = engine.sizes.flags["tensor"][0], prefill_ctx.role.name
        message = f'{flag} does not match that of role "{role}": {reason}; use the same in both'
        yield make_finding(PAIRED_SIZES_UNSUPPORTED, decode_ctx.locate(), message)


# Values of `KvConnector.role` that transfer in the wrong direction, with the engine's setting and
# the value to use instead.
_WRONG_WAY = {
    ComponentType.PREFILLER: {
        "kv_consumer": ("kv_role", "kv_both"),
        "decode": ("--disaggregation-mode", "prefill"),
    },
    ComponentType.DECODER: {
        "kv_producer": ("kv_role", "kv_both"),
        "prefill": ("--disaggregation-mode", "decode"),
    },
}


def check_kv_connectors(roles: Sequence[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Report a transfer direction that conflicts with the component type, and differing connectors.

    Both are errors if an endpoint picker pairs prefill with decode, otherwise warnings.
    """
    roles_with_connector = []
    for ctx, pods in roles:
        connector = (pods.kv and pods.kv.connector) or pods.command.connector
        engine_name = None if pods.command.engine is None else pods.command.engine.name
        if ctx.role.component_type in PD_ROLES and isinstance(connector, KvConnector):
            roles_with_connector.append((ctx, engine_name, connector))
    if not roles_with_connector:
        return
    first_ctx, first_engine, first_connector = roles_with_connector[0]
    make_finding = error if first_ctx.pd_settings is not None else warning
    for ctx, _, connector in roles_with_connector:
        setting_and_fix = _WRONG_WAY[ctx.role.component_type].get(connector.role or "")
        # NIXL, which has a side channel, accepts any role.
        if setting_and_fix is not None and connector.side_channel is None:
            setting, fix = setting_and_fix
            message = (
                f"{setting} {connector.role} conflicts with componentType "
                f"{ctx.role.component_type.value}, because KV caches are transferred from "
                f"prefillers to decoders; use {fix}"
            )
            yield make_finding(KV_TRANSFER_WRONG_WAY, ctx.locate(), message)
    component_types = {ctx.role.component_type for ctx, _, _ in roles_with_connector}
    if component_types != set(PD_ROLES):
        return  # only prefillers, or only decoders
    for ctx, engine, connector in roles_with_connector[1:]:
        has_same_connectors = connector.transfer_connectors == first_connector.transfer_connectors
        if engine != first_engine or not has_same_connectors:
            message = (
                f"transfers its KV cache with {connector.name} ({engine}), but role "
                f'"{first_ctx.role.name}" with {first_connector.name} ({first_engine}); use the '
                "same in all prefillers and decoders"
            )
            yield make_finding(PAIRED_SETTINGS_DIFFER, ctx.locate(), message)


def check_served_names(roles: Sequence[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Warn about roles of type `worker` in one service that serve different names."""
    roles_with_names = []
    for ctx, pods in roles:
        is_worker = ctx.role.component_type is ComponentType.WORKER and ctx.role.replicas
        engine, names = pods.command.engine, pods.command.served_names
        if is_worker and engine and engine.http.rejects_unknown_models and names is not None:
            roles_with_names.append((ctx, names))
    for ctx, names in roles_with_names[1:]:
        first_ctx, first_names = roles_with_names[0]
        if set(names) == set(first_names):
            continue
        message = (
            f'serves {", ".join(map(quote_value, names))}, but role "{first_ctx.role.name}" serves '
            f"{', '.join(map(quote_value, first_names))}: pods of both receive requests, and some "
            "return 404; give both the same --served-model-name"
        )
        yield warning(SERVED_MODELS_DIFFER, ctx.locate(), message)
