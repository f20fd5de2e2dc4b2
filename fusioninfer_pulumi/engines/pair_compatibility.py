"""Whether a prefill and a decode engine can exchange KV caches, and what happens if they cannot.

Sources: `compute_nixl_compatibility_hash` and `_nixl_handshake` of NixlConnector in vLLM 0.11.0 to
0.14.0 and 0.16.0 to 0.33.0, and `disaggregation/common/conn.py` in SGLang 0.5.3 to 0.5.23.
Measured with vLLM 0.12.0, 0.17.0, 0.28.0 and 0.32.0 in `e2e/serve/test_engine_pairs.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fusioninfer_pulumi.engines.engine import CONFIG_FLAG, Compatibility, EngineCommand, KvConnector

#: Alternative spellings of types, and the spelling to compare: `half` is compared as `float16`.
#: `fp8` is `fp8_e4m3` on all accelerators.
_SYNONYMS = {
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "float": "float32",
    "fp8_e4m3": "fp8",
}
#: Default of all settings without a row in `_DEFAULTS`: the engine chooses a value that depends on
#: the model's configuration or the accelerator.
AUTO = "auto"
#: Defaults of settings, as shown in messages.
_DEFAULTS = {
    "quantization": "none",
    "revision": "the default",
    "tokenizer": "the model's",
    "speculation": "off",
}


def _has_hidden_arguments(command: EngineCommand) -> bool:
    return not command.is_readable or command.has(CONFIG_FLAG)


def get_pair_setting(command: EngineCommand, key: str) -> str | None:
    """Return the value of a setting of `KvCache.list_pair_settings`, or None if it is unknown.

    For `dtype` that is for example `float16`. An unset argument has its default or `auto`, but an
    unset model or block size is None. `served name` is always `auto`, because it is not in
    `pair_setting_flags`; `prefill_decode_checks` compares served names.
    """
    engine, image = command.engine, command.image
    if engine is None:
        return None
    if key == "release":
        if image.release is None and image.stock_release is not None:
            return ".".join(map(str, image.stock_release))
        return image.release
    if key == "block size":
        return None if command.block_size is None else str(command.block_size)
    if key == "model":
        value = command.model
    else:
        flag_names = engine.kv_cache.pair_setting_flags.get(key, ())
        if not command.has(*flag_names):
            return None if _has_hidden_arguments(command) else _DEFAULTS.get(key, AUTO)
        value = command.value(*flag_names) or "set"  # a switch has no value
    if value is None or "$" in value:
        return None
    return _SYNONYMS.get(value, value)


def compute_pair_revision(commands: Sequence[EngineCommand]) -> str | None:
    """Return a short hash of the settings that prefill and decode must share to exchange KV caches.

    Pods of two revisions of a service can transfer KV caches to each other if the revisions have
    the same hash. It covers the images, models, connectors, and all arguments that the handshake
    compares in any release. Replica counts, parallel sizes, limits and served names do not
    change it.

    Args:
        commands: The finished command lines of all prefill and decode roles, in any order. Their
            settings may differ, because the hash covers the set of all settings.

    Returns:
        Ten hexadecimal digits, or None if an engine, image or connector is unknown, or arguments
        are hidden. Values with `$` are omitted.
    """
    distinct_settings: set[str] = set()
    for command in commands:
        engine, connector, image = command.engine, command.connector, command.image.name
        if engine is None or image is None or not isinstance(connector, KvConnector):
            return None
        if _has_hidden_arguments(command):
            return None
        release = get_pair_setting(command, "release")
        if release is not None:
            # Without the registry, so that an image and its mirrors have the same hash.
            image = f"{command.image.repository.rpartition('/')[2]}:{release}"
        settings: dict[str, Any] = {
            "image": image,
            "connectors": sorted(connector.transfer_connectors),
        }
        for key in ("model", "block size", *engine.kv_cache.pair_setting_flags):
            value = get_pair_setting(command, key)
            # Defaults are omitted, so that a setting added in a later version of this library does
            # not change the hash of services that do not set it.
            if value is not None and value != _DEFAULTS.get(key, AUTO):
                settings[key] = value
        distinct_settings.add(json.dumps(settings, sort_keys=True))
    if not distinct_settings:
        return None
    return hashlib.sha256("\n".join(sorted(distinct_settings)).encode()).hexdigest()[:10]


class PairCompatibility(NamedTuple):
    """Whether a prefill and a decode pod are compatible, and how that affects requests."""

    state: Compatibility  #: whether the decode pod can use the KV cache of the prefill pod
    differences: tuple[str, ...] = ()  #: settings that differ, such as `dtype float16 -> bfloat16`
    client_effect: str = ""  #: what clients see; empty if nothing differs or the outcome is unknown
    source: str = ""  #: source of these facts; empty if the outcome is unknown


def compare_pair(prefill: EngineCommand, decode: EngineCommand) -> PairCompatibility:
    """Compare the settings of a prefill and a decode pod.

    The state is `UNKNOWN` if arguments are hidden, or if engines or connectors are unknown or
    differ. Except for releases with which decode certainly hangs, it is also `UNKNOWN` if

    - a setting differs, but is `auto` or unknown on one side,
    - no setting differs, but the releases differ or one is unknown, or
    - it is unknown what decode does if it cannot load a KV cache.
    """
    engine = decode.engine
    if engine is None or prefill.engine is not engine:
        return PairCompatibility(Compatibility.UNKNOWN)
    if _has_hidden_arguments(prefill) or _has_hidden_arguments(decode):
        return PairCompatibility(Compatibility.UNKNOWN)
    sender, receiver = prefill.connector, decode.connector
    if not (isinstance(sender, KvConnector) and isinstance(receiver, KvConnector)):
        return PairCompatibility(Compatibility.UNKNOWN)
    if sender.transfer_connectors != receiver.transfer_connectors:
        return PairCompatibility(
            Compatibility.UNKNOWN, (f"connector {sender.name} -> {receiver.name}",)
        )
    cache = engine.kv_cache
    differences, is_certain = [], True
    for key in sorted(cache.list_pair_settings(prefill, decode)):
        prefill_value = get_pair_setting(prefill, key)
        decode_value = get_pair_setting(decode, key)
        if prefill_value != decode_value:
            if prefill_value in (None, AUTO) or decode_value in (None, AUTO):
                is_certain = False
            differences.append(f"{key} {prefill_value or 'unknown'} -> {decode_value or 'unknown'}")
    size_mismatch = cache.explain_size_mismatch(prefill, decode)
    if size_mismatch is not None:
        differences.append(f"{engine.sizes.flags['tensor'][0]}: {size_mismatch}")
    prefill_release = get_pair_setting(prefill, "release")
    is_same_release = prefill_release == get_pair_setting(decode, "release")
    if not differences and is_same_release and prefill_release is not None:
        return PairCompatibility(Compatibility.COMPATIBLE, source=cache.handshake_source)
    differs = bool(differences) and is_certain
    state, client_effect = cache.predict_failure(prefill, decode, differs=differs)
    source = cache.handshake_source if client_effect else ""
    return PairCompatibility(state, tuple(differences), client_effect, source)
