"""vLLM's KV cache: connectors between pods, offloading, and what prefill and decode must share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.kv_transfer import KvTransferArgs
from fusioninfer_pulumi.engines.argument_tables import parse_release
from fusioninfer_pulumi.engines.command_flags import canonical, dump_json, parse_json
from fusioninfer_pulumi.engines.engine import (
    NIXL,
    Argument,
    EngineCommand,
    KvCache,
    KvConnector,
    Offload,
    Offloading,
    PairState,
    Transfer,
)
from fusioninfer_pulumi.engines.engine_images import Version, version_text
from fusioninfer_pulumi.findings import Finding, Rule, error, info, warning
from fusioninfer_pulumi.rules.common import RELEASE_WITHOUT_FEATURE, STATED_TWICE

CONNECTOR_WITH_OFFLOADING = Rule("connector-with-offloading")

#: A connector of the old (V0) engine, which no supported release has; vLLM stops with it.
_REMOVED_CONNECTOR = "PyNcclConnector"

#: Holds other connectors in its extra settings.
_MULTI = "MultiConnector"
#: The connector to host memory and the tiers behind it.
_OFFLOADING = "OffloadingConnector"
#: First release whose OffloadingConnector takes bytes (`cpu_bytes_to_use`). 0.11.0 to 0.13.0 want
#: a number of blocks, whose size follows from the model. (`vllm/v1/kv_offload`, read in 0.11.0 to
#: 0.14.0, 0.18.0, 0.21.0 to 0.25.0 and 0.33.0.)
CPU_OFFLOADING: Version = (0, 14, 0)
#: First release with tiers behind the host memory (`TieringOffloadingSpec`; vllm#40020).
SECONDARY_OFFLOADING: Version = (0, 22, 0)
#: First release whose tests run NixlConnector and OffloadingConnector in one MultiConnector, as
#: far as was read (`tests/v1/kv_connector/nixl_integration` of 0.21.0, not of 0.18.0).
OFFLOADING_WITH_NIXL: Version = (0, 21, 0)

_ENFORCE = "enforce_handshake_compat"
#: First release of NIXL in which a decoder's block need not be several of a prefiller's
#: (`_split_remote_blocks`: in 0.33.0, not in 0.32.0).
NIXL_ANY_BLOCKS: Version = (0, 33, 0)
#: First release in which NIXL knows who sends and who fetches: it warns that `kv_both` will go
#: (`NixlConnector.__init__`: in 0.23.0 to 0.32.0, not in 0.14.0 and 0.20.0 to 0.22.0).
NIXL_ROLES: Version = (0, 23, 0)


#: The handshake of NIXL: from which release on, which settings prefill and decode must share in
#: addition to the rows before. Read in the source distributions of 0.11.0 to 0.14.0 and 0.16.0 to
#: 0.33.0 (`nixl_connector.py`, `compute_nixl_compatibility_hash`). From 0.13.0 on a hash is
#: compared, in another message than before; it contains the release, so only engines of one release
#: are compatible.
_HANDSHAKES: tuple[tuple[Version, tuple[str, ...]], ...] = (
    ((0, 11, 0), ("dtype", "cache dtype")),
    ((0, 13, 0), ("release", "model", "attention backend")),
    ((0, 18, 0), ("hybrid cache",)),
    ((0, 28, 0), ("speculation",)),
)
#: First release that reports failed handshakes to the scheduler, and first one whose decode engine
#: survives that: the ones between exit with a KeyError in `NixlConnectorWorker.get_finished`,
#: whatever the policy is (vllm#40364).
_REPORTS_FAILURES: Version = (0, 11, 2)
_SURVIVES_FAILURES: Version = (0, 22, 0)
#: First release whose default for `kv_load_failure_policy` is `fail`, not `recompute`.
_FAILS_BY_DEFAULT: Version = (0, 17, 0)
_LOAD_FAILURE_POLICY, _RECOMPUTE = "kv_load_failure_policy", "recompute"

#: Where NIXL's agents of two pods meet: the address is the one that others reach, and ranks count
#: up from the port (`vllm/envs.py`; the default address is localhost).
_SIDE_CHANNEL = ("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT")
#: Seeds block hashes. Random in each process up to 0.25.0 at least, so that no process finds what
#: another one has written.
_HASH_SEED_ENV = "PYTHONHASHSEED"

TRANSFER = "--kv-transfer-config"


class VllmKvCache(KvCache):
    """The KV cache of vLLM, whose connectors are all settings of one argument."""

    handshake_source = (
        "vLLM 0.11.0 to 0.33.0, compute_nixl_compatibility_hash and KVTransferConfig; "
        "measured with 0.17.0, 0.31.0 and 0.32.0"
    )
    recompute_setting = f'"{_LOAD_FAILURE_POLICY}": "{_RECOMPUTE}" to {TRANSFER}'

    def connector(self, command: EngineCommand) -> KvConnector | str | None:
        settings = transfer_config(command)
        if any(canonical(word).startswith(f"{TRANSFER}.") for word in command.arguments):
            return "is split into keys; write it as one JSON object"
        if settings is None:
            return "has no value" if command.has(TRANSFER) else None
        if isinstance(settings, str):
            return "is not a JSON object"
        if not isinstance(settings.get("kv_connector"), str):
            return "names no kv_connector"
        return _connector_of(settings)

    def check_connector(self, command: EngineCommand) -> list[Finding]:
        settings = transfer_config(command)
        named = _connectors(settings) if isinstance(settings, dict) else ()
        if not any(
            connector.get("kv_connector") == _REMOVED_CONNECTOR
            and not connector.get("kv_connector_module_path")
            for connector in named
        ):
            return []
        message = f"vLLM has no {_REMOVED_CONNECTOR} and stops; use {NIXL}"
        return [warning(RELEASE_WITHOUT_FEATURE, (TRANSFER,), message)]

    def settings_to_match(self, prefill: EngineCommand, decode: EngineCommand) -> Collection[str]:
        configs = [transfer_config(side) for side in (prefill, decode)]
        settings = [config for config in configs if isinstance(config, dict)]
        if len(settings) < 2 or not all(NIXL in _names(config) for config in settings):
            return ()
        # The sidecar passes a prefiller's 404 on to the client.
        agreed = ["served name"]
        versions = [_version(side) for side in (prefill, decode)]
        blocks, decode_blocks = prefill.block_size, decode.block_size
        divides = blocks is None or decode_blocks is None or decode_blocks % blocks == 0
        if not divides and versions[1] is not None and versions[1] < NIXL_ANY_BLOCKS:
            agreed.append("block size")
        if None in versions:
            return agreed
        compared = [_compared_settings(version) for version in versions]
        hashes = ["release" in settings for settings in compared]
        if not all(hashes):
            return [*agreed, *(["release"] if any(hashes) else []), "dtype", "cache dtype"]
        extras = [config.get("kv_connector_extra_config") for config in settings]
        if any(isinstance(extra, Mapping) and extra.get(_ENFORCE) is False for extra in extras):
            return agreed
        return [*agreed, *compared[1]]

    def check_pair_sizes(self, prefill: EngineCommand, decode: EngineCommand) -> str | None:
        first, second = prefill.parallelism, decode.parallelism
        by_nixl = all(NIXL in _names(transfer_config(side)) for side in (prefill, decode))
        if not by_nixl or first is None or second is None:
            return None
        # `tp_ratio`, up to 0.33.0.
        large, small = max(first.tensor, second.tensor), min(first.tensor, second.tensor)
        return f"{large} is no multiple of {small}" if large % small else None

    def load_failure(self, command: EngineCommand) -> PairState:
        version = _version(command)
        if version is None or version < _REPORTS_FAILURES:
            return PairState.UNKNOWN
        settings = transfer_config(command)
        policy = settings.get(_LOAD_FAILURE_POLICY) if isinstance(settings, dict) else None
        recomputes = policy == _RECOMPUTE and self.can_reject_pair(command)
        return PairState.DEGRADED if recomputes else PairState.BROKEN

    def can_reject_pair(self, command: EngineCommand) -> bool:
        version = _version(command)
        return version is not None and version >= _SURVIVES_FAILURES

    def transfer(
        self,
        command: EngineCommand,
        asked: KvTransferArgs | None,
        offloading: Offloading | None,
        *,
        prefills: bool = False,
    ) -> Transfer:
        if asked is None:
            if offloading is None:
                return Transfer()
            return Transfer((_transfer_argument(_offloading_settings(offloading)),))
        name, version = asked.connector or NIXL, command.image.version
        role = "kv_both"
        if name == NIXL and version is not None and version >= NIXL_ROLES:
            role = "kv_producer" if prefills else "kv_consumer"
        role = asked.role.value if asked.role is not None else role
        settings = _connector_settings(name, role, asked.extra_config)
        findings: tuple[Finding, ...] = ()
        if offloading is not None:
            both = {"connectors": [settings, _offloading_settings(offloading)]}
            settings = _connector_settings(_MULTI, "kv_both", both)
            findings = tuple(_check_together(name, version))
        if not prefills and version is not None and version >= _FAILS_BY_DEFAULT:
            settings[_LOAD_FAILURE_POLICY] = _RECOMPUTE
        return Transfer((_transfer_argument(settings),), _connector_of(settings), findings)

    def offload(
        self, command: EngineCommand, wanted: Offloading, nodes: int, *, decodes: bool
    ) -> Offload:
        # The ranks share one region in /dev/shm, which every pod of an engine creates in full size;
        # each data parallel copy has its own.
        sizes = command.parallelism
        copies = 1 if sizes is None else min(sizes.ranks_of_pod(nodes), sizes.data)
        return Offload(
            arguments=(),
            variables={_HASH_SEED_ENV: "0"} if wanted.shared else {},
            memory=Decimal(wanted.cpu * copies),
            in_shared_memory=True,
            findings=tuple(_check_offload(command, wanted)),
        )


def transfer_config(command: EngineCommand) -> dict[str, Any] | str | None:
    """Return the settings of `--kv-transfer-config`, or its text if that is no JSON object.

    None when the flag is absent.
    """
    text = command.value(TRANSFER)
    try:
        settings = None if text is None else parse_json(text)
    except ValueError:
        return text
    return settings if isinstance(settings, dict) else text


def _connectors(settings: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the settings of a connector, and of those inside of it."""
    yield settings
    extra = settings.get("kv_connector_extra_config")
    is_multi = settings.get("kv_connector") == _MULTI and isinstance(extra, Mapping)
    inner = extra.get("connectors") if is_multi and extra is not None else None
    for connector in inner if isinstance(inner, list) else ():
        if isinstance(connector, Mapping):
            yield from _connectors(connector)


def _names(settings: Mapping[str, Any] | str | None) -> tuple[str, ...]:
    """Return the connector that settings name, and those inside of it."""
    connectors = _connectors(settings) if isinstance(settings, Mapping) else ()
    names = (connector.get("kv_connector") for connector in connectors)
    return tuple(name for name in names if isinstance(name, str))


def _connector_of(settings: Mapping[str, Any]) -> KvConnector:
    role, names = settings.get("kv_role"), _names(settings)
    to_pods = tuple(connector for connector in names if connector not in (_MULTI, _OFFLOADING))
    return KvConnector(
        name=names[0],
        role=role if isinstance(role, str) else None,
        names=names,
        transfers=to_pods or names,
        side_channel=_SIDE_CHANNEL if NIXL in names else None,
    )


def _transfer_argument(settings: Mapping[str, Any]) -> Argument:
    return Argument((TRANSFER,), (dump_json(settings),), replaces=True)


def _connector_settings(
    connector: str, role: str, extra: Mapping[str, Any] | None
) -> dict[str, Any]:
    settings: dict[str, Any] = {"kv_connector": connector, "kv_role": role}
    if extra:
        settings["kv_connector_extra_config"] = dict(extra)
    return settings


def _version(command: EngineCommand) -> Version | None:
    """Return the release, also that of builds for processors and AMD."""
    image = command.image
    return image.version or (parse_release(image.release)[:3] if image.release else None)


def _compared_settings(version: Version | None) -> list[str]:
    return [
        key
        for since, keys in _HANDSHAKES
        if version is not None and version >= since
        for key in keys
    ]


def _offloading_settings(wanted: Offloading) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if wanted.folders:
        extra["spec_name"] = "TieringOffloadingSpec"
    extra["cpu_bytes_to_use"] = wanted.cpu
    if wanted.eviction is not None:
        extra["eviction_policy"] = wanted.eviction
    if wanted.folders:
        extra["secondary_tiers"] = [{"type": "fs", "root_dir": folder} for folder in wanted.folders]
    return _connector_settings(_OFFLOADING, "kv_both", extra)


def _check_together(connector: str, version: Version | None) -> Iterator[Finding]:
    """Check whether the connector works together with offloading."""
    if connector != NIXL:
        yield error(
            CONNECTOR_WITH_OFFLOADING,
            ("connector",),
            f"{connector} together with kvCacheOffloading is not known to work, {NIXL} is; remove "
            f"one, or write {TRANSFER} with both into the arguments",
        )
    elif version is not None and version < OFFLOADING_WITH_NIXL:
        needed = f"needs vLLM {version_text(OFFLOADING_WITH_NIXL)}, got {version_text(version)}"
        message = f"together with kvCacheOffloading {needed}"
        yield error(RELEASE_WITHOUT_FEATURE, (), message)


def _check_offload(command: EngineCommand, wanted: Offloading) -> Iterator[Finding]:
    for flag in ("--kv-offloading-size", "--kv-offloading-backend"):
        if command.has(flag):
            message = f"{flag} conflicts with kvCacheOffloading; remove one of them"
            yield error(STATED_TWICE, (), message)
    version = command.image.version
    needed, field = (
        (SECONDARY_OFFLOADING, ("secondary",)) if wanted.folders else (CPU_OFFLOADING, ())
    )
    if version is None:
        message = f"needs vLLM {version_text(needed)} or later; the image's tag has no release"
        yield info(RELEASE_WITHOUT_FEATURE, field, message)
    elif version < needed:
        place = field if version >= CPU_OFFLOADING else ()
        message = f"needs vLLM {version_text(needed)} or later, got {version_text(version)}"
        yield error(RELEASE_WITHOUT_FEATURE, place, message)
