"""Reads the storage format of weights from a `quantization_config`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Quantization:
    """A storage format of weights.

    Attributes:
        name: Its display name.
        bits: Bits of a parameter, including its part of scales and zero points.
        excluded: Patterns for modules that keep the model's type, from the checkpoint's config.
        experts_only: Whether only routed experts have this format.
        block: Side of the weight blocks that share a scale, which tensor ranks must not split; None
            without blocks.
        modules: Bits of each module of a layer if only these are quantized, else None.
    """

    name: str
    bits: float
    excluded: Sequence[str] = ()
    experts_only: bool = False
    block: int | None = None
    modules: Mapping[str, float] | None = None

    def get_bits(self, layer: int | None, module: str) -> float | None:
        """Return the bits of a module's parameters; None if they have the model's type."""
        if self.modules is None:
            return self.bits if self.covers(layer, module) else None
        prefixes = (name for name in self.modules if f"{module}.".startswith(f"{name}."))
        return next((self.modules[name] for name in prefixes), None)

    def covers(self, layer: int | None, module: str) -> bool:
        """Return whether the format applies to a module; outside of layers, `layer` is None."""
        if layer is None:
            return not any(pattern.search(module) for pattern in self._excluded_everywhere)
        name = f"model.layers.{layer}.{module}"
        patterns = self._excluded_in_layer.get(layer, ())
        if any(
            fnmatchcase(module, pattern)
            for pattern in (*patterns, *self._excluded_in_layer.get(None, ()))
        ):
            return False
        return not any(pattern.search(name) for pattern in self._excluded_everywhere)

    @cached_property
    def _excluded_in_layer(self) -> Mapping[int | None, Sequence[str]]:
        """Patterns by layer N, without the prefix `layers.N.`; under None those for all layers."""
        by_layer: dict[int | None, list[str]] = {}
        for text in self.excluded:
            match = _LAYER.search(text)
            if match is None or text.startswith("re:"):
                continue
            layer = None if match[1] == "*" else int(match[1])
            rest = match[2]
            # The module itself, and the modules inside it.
            by_layer.setdefault(layer, []).extend([rest, f"{rest}.*"] if rest else ["*"])
        return by_layer

    @cached_property
    def _excluded_everywhere(self) -> Sequence[re.Pattern[str]]:
        patterns = []
        for text in self.excluded:
            if text.startswith("re:"):
                patterns.append(re.compile(text.removeprefix("re:")))
            elif _LAYER.search(text) is None:
                inner = ".*".join(re.escape(part) for part in text.split("*"))
                patterns.append(re.compile(rf"(^|\.){inner}($|\.)"))
        return patterns


_LAYER = re.compile(r"layers\.(\d+|\*)\.?(.*)")
#: Keys under which configs list the modules that are not quantized.
_EXCLUDED = ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers")
#: Display names of the methods that store integers.
_INTEGER_METHODS = {
    "awq": "AWQ",
    "awq_marlin": "AWQ",
    "gptq": "GPTQ",
    "gptq_marlin": "GPTQ",
    "auto-round": "AutoRound",
}


def read_quantization(config: Mapping[str, Any]) -> Quantization | str:
    """Return the format of a `quantization_config`; a string explains why it is unknown."""
    config = {**config, **(config.get("quantization") or {})}
    method = str(config.get("quant_method") or "modelopt").lower()
    algorithm = str(config.get("quant_algo") or "").upper()
    excluded = next((tuple(map(str, config[key])) for key in _EXCLUDED if config.get(key)), ())
    # With method fp8 the model is DeepSeek-V4: `_read_deepseek_v4` knows the bits of its experts.
    if algorithm == "MIXED_PRECISION" and method != "fp8":
        return _read_mixed(config.get("quantized_layers") or {})
    if method == "fp8" or algorithm in ("FP8", "FP8_PB_WO"):
        return Quantization("FP8", 8.0, (*excluded, "lm_head"), block=_read_block(config))
    if algorithm in ("NVFP4", "NVFP4_AWQ"):
        return Quantization("NVFP4", 4.5, (*excluded, "lm_head"))
    if method == "mxfp4":
        return Quantization("MXFP4", 4.25, (*excluded, "lm_head"), experts_only=True)
    if method in _INTEGER_METHODS:
        bits = config.get("bits") or config.get("w_bit")
        group = config.get("group_size") or config.get("q_group_size") or 128
        if bits not in (2, 3, 4, 8):
            return f"{bits} bits of {method} are not known"
        name = f"{_INTEGER_METHODS[method]} INT{bits}"
        return Quantization(name, _count_bits(bits, group, zeros=True), (*excluded, "lm_head"))
    if method == "compressed-tensors":
        return _read_compressed(config, excluded)
    return f"the quantization {method}{f' {algorithm}' if algorithm else ''} is not known"


def list_formats(layers: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the formats of each module in all layers, by the names of `Part.name`."""
    modules: dict[str, set[str]] = {}
    for name, stored in layers.items():
        module = _LAYER.sub(r"\2", name[max(name.find("layers."), 0) :])
        module = re.sub(r"experts\.\d+\..*", "experts", module)
        module = module.replace("block_sparse_moe", "mlp")
        module = re.sub(r"shared_expert\b", "shared_experts", module)
        modules.setdefault(module, set()).add(str(stored.get("quant_algo")).upper())
    return modules


_MODULE_BITS = {"FP8": 8.0, "FP8_PB_WO": 8.0, "MXFP8": 8.25, "NVFP4": 4.5, "W4A16_NVFP4": 4.5}


def _read_mixed(layers: Mapping[str, Any]) -> Quantization | str:
    """Return a mixed format if each module has the same format in all layers."""
    modules: dict[str, float] = {}
    mixed: set[str] = set()
    for module, formats in list_formats(layers).items():
        bits = {_MODULE_BITS.get(name) for name in formats}
        module_bits = bits.pop()
        if bits or module_bits is None:
            return f"the checkpoint mixes quantization formats; the format of {module} is unknown"
        modules[module] = module_bits
        mixed |= formats
    if not modules:
        return "the checkpoint mixes quantization formats, and no list of layers names them"
    lowest = min(modules.values())
    return Quantization(" and ".join(sorted(mixed, reverse=True)), lowest, modules=modules)


def _read_compressed(config: Mapping[str, Any], excluded: Sequence[str]) -> Quantization | str:
    groups = list((config.get("config_groups") or {}).values())
    weights = groups[0].get("weights") if len(groups) == 1 else None
    if not isinstance(weights, Mapping):
        return "the checkpoint mixes quantization formats"
    bits, kind = weights.get("num_bits"), weights.get("type")
    if bits == 8:
        return Quantization("FP8" if kind == "float" else "INT8", 8.0, excluded)
    if bits != 4:
        return f"{bits} bits of compressed-tensors are not known"
    group = weights.get("group_size") or 128
    if kind == "float":
        # NVFP4 has a scale of 8 bits for 16 parameters, MXFP4 for 32.
        return Quantization("FP4", 4 + 8 / group, excluded)
    zeros = not weights.get("symmetric", True)
    return Quantization("INT4", _count_bits(bits, group, zeros=zeros), excluded)


def _count_bits(bits: int, group: int, *, zeros: bool) -> float:
    """Return bits of a parameter with a scale of 16 bits and a zero point for each group."""
    if group <= 0:
        return float(bits)
    return bits + (16 + (bits if zeros else 0)) / group


def _read_block(config: Mapping[str, Any]) -> int | None:
    """Return the larger side of FP8's blocks."""
    sides = config.get("weight_block_size")
    if not isinstance(sides, Sequence) or not all(isinstance(side, int) for side in sides):
        return None
    return max(sides, default=None)
