"""vLLM's KV cache: connectors between pods, offloading, and the prefill/decode handshake."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.kv_cache import KvTransferArgs
from fusioninfer_pulumi.engines.argument_tables import parse_release
from fusioninfer_pulumi.engines.command_flags import dump_json, normalize_flag, parse_json
from fusioninfer_pulumi.engines.engine import (
    NIXL,
    Argument,
    Compatibility,
    EngineCommand,
    KvCache,
    KvConnector,
    OffloadRequest,
    OffloadResult,
    Transfer,
)
from fusioninfer_pulumi.engines.engine_images import ReleaseNumber, format_release
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube.object_metadata import lookup
from fusioninfer_pulumi.rules.common import RELEASE_WITHOUT_FEATURE, UNSUPPORTED_BY_ENGINE

CONNECTOR_WITH_OFFLOADING = Rule("connector-with-offloading")

#: A connector of vLLM's old engine (V0). Supported releases do not have it, and exit if it is set.
_REMOVED_CONNECTOR = "PyNcclConnector"

#: Combines connectors, which are listed in its `kv_connector_extra_config`.
_MULTI = "MultiConnector"
#: Offloads KV cache to host memory and secondary tiers.
_OFFLOADING = "OffloadingConnector"
#: First release whose OffloadingConnector accepts bytes (`cpu_bytes_to_use`). 0.11.0 to 0.13.0 need
#: a number of blocks, whose size depends on the model (`vllm/v1/kv_offload` of 0.11.0 to 0.14.0,
#: 0.18.0, 0.21.0 to 0.25.0 and 0.33.0).
CPU_OFFLOADING: ReleaseNumber = (0, 14, 0)
#: First release with secondary tiers (`TieringOffloadingSpec`; vllm#40020).
SECONDARY_OFFLOADING: ReleaseNumber = (0, 22, 0)
#: First release known to test NixlConnector and OffloadingConnector in one MultiConnector
#: (`tests/v1/kv_connector/nixl_integration` of 0.21.0, not of 0.18.0).
OFFLOADING_WITH_NIXL: ReleaseNumber = (0, 21, 0)

#: Setting of NixlConnector. If false, decode accepts prefill engines with other handshake hashes.
_STRICT_HASH = "enforce_handshake_compat"
#: First release in which the decoder's block size need not be a multiple of the prefiller's
#: (`_split_remote_blocks`: in 0.33.0, not in 0.32.0).
NIXL_ANY_BLOCKS: ReleaseNumber = (0, 33, 0)
#: First release that deprecates the role `kv_both` for NIXL, in favor of `kv_producer` for prefill
#: and `kv_consumer` for decode (`NixlConnector.__init__`: in 0.23.0 to 0.32.0, not in 0.14.0 and
#: 0.20.0 to 0.22.0).
NIXL_ROLES: ReleaseNumber = (0, 23, 0)

#: Settings that the NIXL handshake compares, by the first release that compares them; later
#: releases also compare them (`nixl_connector.py`, `compute_nixl_compatibility_hash` in 0.11.0 to
#: 0.14.0 and 0.16.0 to 0.33.0). Releases from 0.13.0 on send a hash of the settings, in a message
#: that older releases cannot read. The hash contains the release, so prefill and decode must run
#: the same release.
_HANDSHAKES: tuple[tuple[ReleaseNumber, tuple[str, ...]], ...] = (
    ((0, 11, 0), ("dtype", "cache dtype")),
    ((0, 13, 0), ("release", "model", "attention backend")),
    ((0, 18, 0), ("hybrid cache",)),
    ((0, 28, 0), ("speculation",)),
)
#: First release that reports failed handshakes to the scheduler.
_REPORTS_FAILURES: ReleaseNumber = (0, 11, 2)
#: First release whose decode engine keeps running after a failed handshake. From 0.11.2 on, older
#: releases exit with a KeyError in `NixlConnectorWorker.get_finished`, with any
#: `kv_load_failure_policy` (vllm#40364).
_SURVIVES_FAILURES: ReleaseNumber = (0, 22, 0)
#: First release whose prefill engines answer with `remote_request_id`. Decode engines of this and
#: later releases receive no KV cache from older prefill engines, and wait
#: (`update_state_after_alloc`). If the client disconnects, the decode engine exits with a KeyError
#: (measured: prefill 0.12.0, decode 0.32.0).
_REQUEST_IDS: ReleaseNumber = (0, 13, 0)
#: First release whose handshake message has a pipeline rank (three parts in 0.26.0, two in 0.25.0).
#: A message with the wrong number of parts ends a prefill engine's thread
#: `nixl_handshake_listener`, and the engine answers no handshake until it restarts. Decode engines
#: of this and later releases then wait (measured with 0.12.0, 0.17.0, 0.28.0 and 0.32.0 in
#: `e2e/serve/test_engine_pairs.py`).
_PIPELINE_RANKS: ReleaseNumber = (0, 26, 0)
#: First release whose default for `kv_load_failure_policy` is `fail`, not `recompute`.
_FAILS_BY_DEFAULT: ReleaseNumber = (0, 17, 0)
_LOAD_FAILURE_POLICY, _RECOMPUTE = "kv_load_failure_policy", "recompute"
_HANGS = "these requests get no answer, and decode may exit when their clients disconnect"

#: Address and port of NIXL's handshake (`vllm/envs.py`). Other pods must reach the address, whose
#: default is localhost. Each rank adds its number to the port.
_SIDE_CHANNEL = ("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT")
#: Variable with the seed of the block hashes. Its default is random in each process (at least up
#: to 0.25.0), so processes cannot find each other's blocks.
_HASH_SEED_ENV = "PYTHONHASHSEED"

TRANSFER_FLAG = "--kv-transfer-config"


class VllmKvCache(KvCache):
    """The KV cache of vLLM, where one argument configures all connectors."""

    block_size_flag = "--block-size"
    transfer_flag = TRANSFER_FLAG
    offloads_by_connector = True
    offloading_flags = ("--kv-offloading-size", "--kv-offloading-backend")
    event_settings: Mapping[str, bool] = {"enable_kv_cache_events": True}
    pair_setting_flags: Mapping[str, tuple[str, ...]] = {
        "dtype": ("--dtype",),
        "cache dtype": ("--kv-cache-dtype",),
        "quantization": ("--quantization", "-q"),
        "revision": ("--revision",),
        "tokenizer": ("--tokenizer",),
        "attention backend": ("--attention-backend",),
        "hybrid cache": ("--disable-hybrid-kv-cache-manager",),
        "speculation": ("--speculative-config", "-sc"),
    }
    handshake_source = (
        "vLLM 0.11.0 to 0.33.0, compute_nixl_compatibility_hash and KVTransferConfig; "
        "measured with 0.12.0, 0.17.0, 0.28.0, 0.31.0 and 0.32.0"
    )

    def parse_connector(self, command: EngineCommand) -> KvConnector | str | None:
        settings = parse_transfer_config(command)
        if any(normalize_flag(word).startswith(f"{TRANSFER_FLAG}.") for word in command.arguments):
            return "is split into keys; write it as one JSON object"
        if settings is None:
            return "has no value" if command.has(TRANSFER_FLAG) else None
        if isinstance(settings, str):
            return "is not a JSON object"
        if not isinstance(settings.get("kv_connector"), str):
            return "names no kv_connector"
        return _build_connector(settings)

    def check_connector(self, command: EngineCommand) -> list[Finding]:
        connector = self.parse_connector(command)
        if not isinstance(connector, KvConnector) or _REMOVED_CONNECTOR not in connector.names:
            return []
        message = f"vLLM no longer has {_REMOVED_CONNECTOR} and exits; use {NIXL}"
        return [warning(RELEASE_WITHOUT_FEATURE, (TRANSFER_FLAG,), message)]

    def list_pair_settings(self, prefill: EngineCommand, decode: EngineCommand) -> Collection[str]:
        prefill_config, decode_config = map(parse_transfer_config, (prefill, decode))
        if not (_has_nixl(prefill_config) and _has_nixl(decode_config)):
            return ()
        # If served names differ, the prefiller answers 404, which the sidecar passes on.
        settings = ["served name"]
        prefill_release, decode_release = _get_release(prefill), _get_release(decode)
        prefill_size, decode_size = prefill.block_size, decode.block_size
        is_multiple = prefill_size is None or decode_size is None or decode_size % prefill_size == 0
        if not is_multiple and decode_release is not None and decode_release < NIXL_ANY_BLOCKS:
            settings.append("block size")
        if prefill_release is None or decode_release is None:
            return settings
        prefill_keys = _list_handshake_keys(prefill_release)
        decode_keys = _list_handshake_keys(decode_release)
        prefill_sends_hash, decode_sends_hash = "release" in prefill_keys, "release" in decode_keys
        if prefill_sends_hash and decode_sends_hash:
            if _accepts_other_hashes(prefill_config) or _accepts_other_hashes(decode_config):
                return settings
            return [*settings, *decode_keys]
        if prefill_sends_hash or decode_sends_hash:
            settings.append("release")
        return [*settings, "dtype", "cache dtype"]

    def explain_size_mismatch(self, prefill: EngineCommand, decode: EngineCommand) -> str | None:
        prefill_sizes, decode_sizes = prefill.parallelism, decode.parallelism
        if prefill_sizes is None or decode_sizes is None:
            return None
        if not all(_has_nixl(parse_transfer_config(side)) for side in (prefill, decode)):
            return None
        # Source: `tp_ratio` in NixlConnector, up to 0.33.0.
        small, large = sorted((prefill_sizes.tensor, decode_sizes.tensor))
        return f"{large} is not a multiple of {small}" if large % small else None

    def predict_failure(
        self, prefill: EngineCommand, decode: EngineCommand, *, differs: bool
    ) -> tuple[Compatibility, str]:
        suffix, release = "", _get_release(decode)
        new_decode_adds_rank = self._spans_change(_PIPELINE_RANKS, old=prefill, new=decode)
        if new_decode_adds_rank or self._spans_change(_PIPELINE_RANKS, old=decode, new=prefill):
            suffix = "; the prefill engine then answers no decode engine until it restarts"
        if new_decode_adds_rank or self._spans_change(_REQUEST_IDS, old=prefill, new=decode):
            return Compatibility.BROKEN, _HANGS + suffix
        if not differs or release is None or release < _REPORTS_FAILURES:
            return Compatibility.UNKNOWN, ""
        if release < _SURVIVES_FAILURES:
            return (
                Compatibility.BROKEN,
                f"the decode engine exits, and all requests on it fail{suffix}",
            )
        if _recomputes(decode):
            return Compatibility.DEGRADED, f"decode computes these prompts itself{suffix}"
        return Compatibility.BROKEN, f"these requests fail with HTTP 500{suffix}"

    def find_recompute_setting(self, decode: EngineCommand) -> str:
        release = _get_release(decode)
        if release is None or release < _SURVIVES_FAILURES or _recomputes(decode):
            return ""
        return f'"{_LOAD_FAILURE_POLICY}": "{_RECOMPUTE}" to {TRANSFER_FLAG}'

    def _spans_change(
        self, change: ReleaseNumber, *, old: EngineCommand, new: EngineCommand
    ) -> bool:
        """Return whether only `new` has a handshake change, and the handshake compares releases."""
        old_release, new_release = _get_release(old), _get_release(new)
        if old_release is None or new_release is None or not old_release < change <= new_release:
            return False
        return "release" in self.list_pair_settings(old, new)

    def build_transfer(
        self,
        command: EngineCommand,
        args: KvTransferArgs | None,
        offloading: OffloadRequest | None,
        *,
        is_prefiller: bool = False,
    ) -> Transfer:
        if args is None:
            assert offloading is not None, "the role transfers or offloads its KV cache"
            return Transfer((_build_transfer_argument(_build_offloading_settings(offloading)),))
        name, release = args.connector or NIXL, command.image.stock_release
        deprecates_both = name == NIXL and release is not None and release >= NIXL_ROLES
        if args.role is not None:
            role = args.role.value
        elif deprecates_both:
            role = "kv_producer" if is_prefiller else "kv_consumer"
        else:
            role = "kv_both"
        settings = _build_connector_settings(name, role, args.extra_config)
        findings: tuple[Finding, ...] = ()
        if offloading is not None:
            connectors = [settings, _build_offloading_settings(offloading)]
            settings = _build_connector_settings(_MULTI, "kv_both", {"connectors": connectors})
            findings = tuple(_check_connector_and_offloading(name, release))
        sizes = command.parallelism
        knows_ranks = name == NIXL and release is not None and release >= _PIPELINE_RANKS
        # Source: `NixlBaseConnectorWorker.__init__`, in 0.26.0 to 0.32.0.
        if knows_ranks and role == "kv_consumer" and sizes is not None and sizes.pipeline > 1:
            message = f"{NIXL} does not support pipeline > 1 in decode engines; set pipeline to 1"
            findings += (error(UNSUPPORTED_BY_ENGINE, (), message),)
        if not is_prefiller and release is not None and release >= _FAILS_BY_DEFAULT:
            settings[_LOAD_FAILURE_POLICY] = _RECOMPUTE
        return Transfer((_build_transfer_argument(settings),), _build_connector(settings), findings)

    def build_offloading(
        self, command: EngineCommand, request: OffloadRequest, nodes: int, *, is_decoder: bool
    ) -> OffloadResult:
        # In every pod, the ranks of each data parallel copy share `host_bytes` in /dev/shm.
        sizes = command.parallelism
        copies = 1 if sizes is None else min(sizes.count_pod_ranks(nodes), sizes.data)
        return OffloadResult(
            arguments=(),
            variables={_HASH_SEED_ENV: "0"} if request.is_shared else {},
            memory=Decimal(request.host_bytes * copies),
            in_shared_memory=True,
            findings=tuple(_check_offload(command, request)),
        )


def parse_transfer_config(command: EngineCommand) -> dict[str, Any] | str | None:
    """Parse the value of `--kv-transfer-config`.

    Return its text if it is not a JSON object, or None if the argument is absent.
    """
    text = command.value(TRANSFER_FLAG)
    if text is None:
        return None
    try:
        settings = parse_json(text)
    except ValueError:
        return text
    return settings if isinstance(settings, dict) else text


def _has_nixl(config: dict[str, Any] | str | None) -> bool:
    return isinstance(config, dict) and NIXL in _list_connector_names(config)


def _recomputes(command: EngineCommand) -> bool:
    """Return whether a decode engine is set to compute prompts whose KV cache it cannot load."""
    return bool(lookup(parse_transfer_config(command), _LOAD_FAILURE_POLICY) == _RECOMPUTE)


def _accepts_other_hashes(config: dict[str, Any] | str | None) -> bool:
    return lookup(config, "kv_connector_extra_config", _STRICT_HASH) is False


def _list_handshake_keys(release: ReleaseNumber) -> list[str]:
    """Return the settings that the NIXL handshake of a release compares."""
    return [key for since, keys in _HANDSHAKES if release >= since for key in keys]


def _list_connector_names(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a connector and of its nested connectors."""
    name = settings.get("kv_connector")
    names: tuple[str, ...] = (name,) if isinstance(name, str) else ()
    nested = lookup(settings, "kv_connector_extra_config", "connectors")
    if name != _MULTI or not isinstance(nested, list):
        return names
    for connector in nested:
        if isinstance(connector, Mapping):
            names += _list_connector_names(connector)
    return names


def _build_connector(settings: Mapping[str, Any]) -> KvConnector:
    role, names = settings.get("kv_role"), _list_connector_names(settings)
    between_pods = tuple(name for name in names if name not in (_MULTI, _OFFLOADING))
    return KvConnector(
        name=names[0],
        role=role if isinstance(role, str) else None,
        names=names,
        transfer_connectors=between_pods or names,
        side_channel=_SIDE_CHANNEL if NIXL in names else None,
    )


def _build_transfer_argument(settings: Mapping[str, Any]) -> Argument:
    return Argument((TRANSFER_FLAG,), (dump_json(settings),), replaces=True)


def _build_connector_settings(
    connector: str, role: str, extra: Mapping[str, Any] | None
) -> dict[str, Any]:
    settings: dict[str, Any] = {"kv_connector": connector, "kv_role": role}
    if extra:
        settings["kv_connector_extra_config"] = dict(extra)
    return settings


def _get_release(command: EngineCommand) -> ReleaseNumber | None:
    """Return the release in the tag of a stock image, or of an image for CPUs or AMD GPUs."""
    image = command.image
    if image.stock_release is None and image.release is not None:
        return parse_release(image.release)[:3]
    return image.stock_release


def _build_offloading_settings(request: OffloadRequest) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if request.directories:
        extra["spec_name"] = "TieringOffloadingSpec"
    extra["cpu_bytes_to_use"] = request.host_bytes
    if request.eviction is not None:
        extra["eviction_policy"] = request.eviction
    if request.directories:
        extra["secondary_tiers"] = [
            {"type": "fs", "root_dir": directory} for directory in request.directories
        ]
    return _build_connector_settings(_OFFLOADING, "kv_both", extra)


def _check_connector_and_offloading(
    connector: str, release: ReleaseNumber | None
) -> Iterator[Finding]:
    if connector != NIXL:
        yield error(
            CONNECTOR_WITH_OFFLOADING,
            ("connector",),
            f"{connector} is not known to work with kvCacheOffloading, but {NIXL} is; remove one, "
            f"or configure both with {TRANSFER_FLAG} in the arguments",
        )
    elif release is not None and release < OFFLOADING_WITH_NIXL:
        needed = f"{format_release(OFFLOADING_WITH_NIXL)} or later, got {format_release(release)}"
        message = f"KV transfer together with kvCacheOffloading needs vLLM {needed}"
        yield error(RELEASE_WITHOUT_FEATURE, (), message)


def _check_offload(command: EngineCommand, request: OffloadRequest) -> Iterator[Finding]:
    release = _get_release(command)
    needed = SECONDARY_OFFLOADING if request.directories else CPU_OFFLOADING
    field: Location = ("secondary",) if request.directories else ()
    if release is not None and release < needed:
        message = f"needs vLLM {format_release(needed)} or later, got {format_release(release)}"
        yield error(RELEASE_WITHOUT_FEATURE, field, message)
