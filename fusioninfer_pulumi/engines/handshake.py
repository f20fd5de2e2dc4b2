"""The handshake of prefill and decode engines: what must match, and what happens if it does not.

Sources: `compute_nixl_compatibility_hash` and `_nixl_handshake` of NixlConnector in vLLM 0.11.0 to
0.14.0 and 0.16.0 to 0.33.0, and `disaggregation/common/conn.py` in SGLang 0.5.3 to 0.5.23.
Measured with vLLM 0.12.0, 0.17.0, 0.28.0 and 0.32.0 in `e2e/serve/test_engine_pairs.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from fusioninfer_pulumi.engines.engine import CONFIG_FLAG, EngineCommand, KvConnector, PairState

#: Main spelling of each type by its other spellings. `fp8` is `fp8_e4m3` on all accelerators.
_SYNONYMS = {
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "float": "float32",
    "fp8_e4m3": "fp8",
}
#: Value of a setting that depends on the model's configuration or the accelerator.
AUTO = "auto"
#: Values of the other settings if they are not set.
_DEFAULTS = {
    "quantization": "none",
    "revision": "the default",
    "tokenizer": "the model's",
    "speculation": "off",
}


def _has_hidden_arguments(command: EngineCommand) -> bool:
    return not command.is_readable or command.has(CONFIG_FLAG)


def read_pair_setting(command: EngineCommand, key: str) -> str | None:
    """Return a setting of `list_pair_settings`: None if unknown, a default or `auto` if unset.

    The served name always counts as unset; `prefill_decode_checks` compares served names.
    """
    engine, image = command.engine, command.image
    if engine is None:
        return None
    if key == "release":
        return image.release or (".".join(map(str, image.version)) if image.version else None)
    if key == "block size":
        return str(command.block_size) if command.block_size is not None else None
    if key == "model":
        value = command.model
    elif command.has(*engine.kv_cache.pair_setting_flags.get(key, ())):
        # A switch has no value.
        value = command.value(*engine.kv_cache.pair_setting_flags[key]) or "set"
    elif not _has_hidden_arguments(command):
        return _DEFAULTS.get(key, AUTO)
    else:
        return None
    return None if value is None or "$" in value else _SYNONYMS.get(value, value)


def compute_pair_revision(commands: Sequence[EngineCommand]) -> str | None:
    """Return a short hash of the settings that prefill and decode must share to exchange KV caches.

    Pods of different revisions of a service can transfer KV caches to each other if the hash is the
    same. It covers the images, models, connectors, and all arguments that the handshake compares
    in any release. Replica counts, parallel sizes, limits and served names do not change it.

    Args:
        commands: The finished command lines of all prefill and decode roles, in any order. There is
            one hash for all of them, so two roles may differ where the handshake allows it.

    Returns:
        Ten hexadecimal digits; None if an engine, image or connector is unknown, or arguments are
        hidden. Values with `$` are left out.
    """
    factors: set[str] = set()
    for command in commands:
        engine, connector, image = command.engine, command.connector, command.image.name
        if engine is None or image is None or not isinstance(connector, KvConnector):
            return None
        if _has_hidden_arguments(command):
            return None
        release = read_pair_setting(command, "release")
        if release is not None:  # the same for all mirrors
            image = f"{command.image.repository.rpartition('/')[2]}:{release}"
        # Defaults are omitted, so that a setting added here does not change the hash of services
        # that do not set it.
        keys = ("model", "block size", *engine.kv_cache.pair_setting_flags)
        settings = {key: read_pair_setting(command, key) for key in keys}
        changed = {
            key: value
            for key, value in settings.items()
            if value not in (None, _DEFAULTS.get(key, AUTO))
        }
        values = {"image": image, "connectors": sorted(connector.transfer_connectors), **changed}
        factors.add(json.dumps(values, sort_keys=True))
    if not factors:
        return None
    return hashlib.sha256("\n".join(sorted(factors)).encode()).hexdigest()[:10]


class PairCompatibility(NamedTuple):
    """What happens to requests that a prefill and a decode pod serve together.

    Attributes:
        differences: Settings that differ, as `name prefill -> decode` or a sentence.
        client_effect: What clients see; empty if nothing differs or the outcome is unknown.
        source: Source of these facts; empty if the outcome is unknown.
    """

    state: PairState
    differences: tuple[str, ...] = ()
    client_effect: str = ""
    source: str = ""


_EFFECTS = {
    PairState.DEGRADED: "decode computes these prompts itself",
    PairState.BROKEN: "these requests fail with HTTP 500",
}
_EXITS = "the decode engine exits, and all requests on it fail"
_HANGS = "these requests get no answer, and decode may exit when their clients disconnect"
_LISTENER_ENDS = "; the prefill engine then answers no decode engine until it restarts"


def compare_pair(prefill: EngineCommand, decode: EngineCommand) -> PairCompatibility:
    """Compare the settings of a prefill and a decode pod, and return what happens to requests.

    The state is `UNKNOWN` if arguments are hidden, or if engines or connectors are unknown or
    differ. Unless decode is known to hang, it is also `UNKNOWN` if

    - a setting differs, but is `auto` or unknown on one side,
    - only the releases differ, or a release is unknown, or
    - it is unknown how decode handles a difference.
    """
    engine = decode.engine
    is_hidden = any(map(_has_hidden_arguments, (prefill, decode)))
    if engine is None or prefill.engine is not engine or is_hidden:
        return PairCompatibility(PairState.UNKNOWN)
    first, second = prefill.connector, decode.connector
    if not (isinstance(first, KvConnector) and isinstance(second, KvConnector)):
        return PairCompatibility(PairState.UNKNOWN)
    if first.transfer_connectors != second.transfer_connectors:
        return PairCompatibility(PairState.UNKNOWN, (f"connector {first.name} -> {second.name}",))
    cache, source = engine.kv_cache, engine.kv_cache.handshake_source
    differences, is_certain = [], True
    for key in sorted(cache.list_pair_settings(prefill, decode)):
        prefill_value, decode_value = (read_pair_setting(side, key) for side in (prefill, decode))
        if prefill_value != decode_value:
            is_certain = is_certain and not {None, AUTO} & {prefill_value, decode_value}
            differences.append(f"{key} {prefill_value or 'unknown'} -> {decode_value or 'unknown'}")
    sizes = cache.explain_size_mismatch(prefill, decode)
    if sizes is not None:
        differences.append(f"{engine.sizes.flags['tensor'][0]}: {sizes}")
    releases = {read_pair_setting(side, "release") for side in (prefill, decode)}
    if not differences and len(releases) == 1 and None not in releases:
        return PairCompatibility(PairState.COMPATIBLE, source=source)
    listener = _LISTENER_ENDS if cache.can_end_listener(prefill, decode) else ""
    if cache.can_decode_hang(prefill, decode):
        return PairCompatibility(PairState.BROKEN, tuple(differences), _HANGS + listener, source)
    if not differences or not is_certain:
        return PairCompatibility(PairState.UNKNOWN, tuple(differences))
    state = cache.predict_load_failure(decode)
    if state not in _EFFECTS:
        return PairCompatibility(state, tuple(differences))
    effect = _EFFECTS[state] if cache.can_survive_failed_handshake(decode) else _EXITS
    return PairCompatibility(state, tuple(differences), effect + listener, source)
