"""What prefill and decode engines compare when they first meet, and what clients see otherwise.

vLLM: `compute_nixl_compatibility_hash` and `_nixl_handshake` of NixlConnector, read in the source
distributions of 0.11.0 to 0.14.0 and 0.16.0 to 0.33.0. SGLang: `disaggregation/common/conn.py` of
0.5.3 to 0.5.23. Measured with vLLM 0.17.0, 0.31.0 and 0.32.0 (the last two in
`e2e/serve/test_prefill_decode.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.engines.engine import CONFIG_FLAG, EngineCommand, KvConnector, PairState

#: Names of one type; `fp8` is `fp8_e4m3` on all accelerators that have it.
_SYNONYMS = {
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "float": "float32",
    "fp8_e4m3": "fp8",
}
#: The value of a setting that the model's own configuration or the accelerator decides.
AUTO = "auto"
_DEFAULTS = {
    "quantization": "none",
    "revision": "the default",
    "tokenizer": "that of the model",
    "speculation": "off",
}


def read_pair_setting(command: EngineCommand, key: str) -> str | None:
    """Return a setting that prefill and decode must agree on, None where it is not known."""
    engine, image = command.engine, command.image
    if engine is None:
        return None
    if key == "release":
        return image.release or (".".join(map(str, image.version)) if image.version else None)
    if key == "block size":
        return str(command.block_size) if command.block_size is not None else None
    if key == "model":
        value = command.model
    elif command.has(*engine.model_setup_flags.get(key, ())):
        # A switch has no value.
        value = command.value(*engine.model_setup_flags[key]) or "set"
    elif command.readable and not command.has(CONFIG_FLAG):
        return _DEFAULTS.get(key, AUTO)
    else:
        return None
    return None if value is None or "$" in value else _SYNONYMS.get(value, value)


def pair_revision(commands: Sequence[EngineCommand]) -> str | None:
    """Return a short hash of all that the engines of a prefill/decode service compare.

    Pods whose services have the same value can transfer KV caches to each other. The engines'
    images, models and connectors count, and every argument that vLLM's handshake compares in any
    release; counts, limits and names do not.

    Args:
        commands: The finished command lines of all prefill and decode roles, in any order. One
            value for all of them, because roles may differ where the handshake allows it.

    Returns:
        Ten hexadecimal digits, None if an engine, its image or its arguments are not known.
    """
    factors: set[str] = set()
    for command in commands:
        engine, connector, image = command.engine, command.connector, command.image.name
        if engine is None or image is None or not isinstance(connector, KvConnector):
            return None
        if not command.readable or command.has(CONFIG_FLAG):
            return None
        release = read_pair_setting(command, "release")
        if release is not None:  # the same for all mirrors
            image = f"{command.image.repository.rpartition('/')[2]}:{release}"
        # Settings with their default are left out, so that a setting can be added here without
        # changing the value of services that do not use it.
        keys = ("model", "block size", *engine.model_setup_flags)
        settings = {key: read_pair_setting(command, key) for key in keys}
        changed = {
            key: value
            for key, value in settings.items()
            if value not in (None, _DEFAULTS.get(key, AUTO))
        }
        values = {"image": image, "connectors": sorted(connector.transfers), **changed}
        factors.add(json.dumps(values, sort_keys=True))
    if not factors:
        return None
    return hashlib.sha256("\n".join(sorted(factors)).encode()).hexdigest()[:10]


@dataclass(frozen=True)
class PairCompatibility:
    """What happens to requests of a prefill and a decode pod.

    Attributes:
        differences: Settings that differ, as `name prefill -> decode`.
        clients: What clients see; empty where nothing differs.
        source: Where that was read or measured; empty where it is unknown.
    """

    state: PairState
    differences: tuple[str, ...] = ()
    clients: str = ""
    source: str = ""


_CLIENTS = {
    PairState.DEGRADED: "decode computes these prompts itself",
    PairState.BROKEN: "these requests fail with HTTP 500",
}
_EXITS = "the decode engine exits, and all requests on it fail"


def compare_pair(prefill: EngineCommand, decode: EngineCommand) -> PairCompatibility:
    """Return whether a decode pod can use the KV caches of a prefill pod.

    Unknown unless the engine's releases, connectors and compared arguments are known.
    """
    engine = decode.engine
    if engine is None or prefill.engine is not engine or not (prefill.readable and decode.readable):
        return PairCompatibility(PairState.UNKNOWN)
    first, second = prefill.connector, decode.connector
    if not (isinstance(first, KvConnector) and isinstance(second, KvConnector)):
        return PairCompatibility(PairState.UNKNOWN)
    if first.transfers != second.transfers:
        return PairCompatibility(PairState.UNKNOWN, (f"connector {first.name} -> {second.name}",))
    differences, is_certain = [], True
    for key in sorted(engine.kv_cache.settings_to_match(prefill, decode)):
        before, after = (read_pair_setting(side, key) for side in (prefill, decode))
        if before != after:
            is_certain = is_certain and not {None, AUTO} & {before, after}
            differences.append(f"{key} {before or 'unknown'} -> {after or 'unknown'}")
    sizes = engine.kv_cache.check_pair_sizes(prefill, decode)
    if sizes is not None:
        differences.append(f"{engine.size_flags['tensor'][0]}: {sizes}")
    releases = {read_pair_setting(side, "release") for side in (prefill, decode)}
    if not differences and len(releases) == 1 and None not in releases:
        return PairCompatibility(PairState.COMPATIBLE, source=engine.kv_cache.handshake_source)
    if not differences or not is_certain:
        return PairCompatibility(PairState.UNKNOWN, tuple(differences))
    state = engine.kv_cache.load_failure(decode)
    if state not in _CLIENTS:
        return PairCompatibility(state, tuple(differences))
    clients = _CLIENTS[state] if engine.kv_cache.can_reject_pair(decode) else _EXITS
    return PairCompatibility(state, tuple(differences), clients, engine.kv_cache.handshake_source)
