"""The parts of a model's `config.json` that determine the memory of its weights and KV cache.

Only known architectures are read; for other configs `UnknownArchitectureError` has the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from fusioninfer_capacity.fit.engines import ModelShape
from fusioninfer_capacity.fit.quantization import Quantization, read_quantization

Config = Mapping[str, Any]


class UnknownArchitectureError(Exception):
    """A config is not supported; the message says why."""


@dataclass(frozen=True)
class Part:
    """Weights of one layer that are stored and split alike.

    Attributes:
        name: Module of the weights, by which a quantization config may exclude it.
        split: Whether tensor parallelism splits the weights; otherwise every rank has a full copy.
        expert: Whether these are routed experts, which expert parallelism distributes.
        heads: Maximum number of pieces, because heads are not split; None without a maximum.
        bits: Bits per parameter if the checkpoint's format does not apply, else None.
        width: Width of a feed-forward layer or of one expert, which ranks divide; else None.
        tile: Multiple to which the width that a rank gets is padded.
    """

    name: str
    parameters: int
    split: bool = True
    expert: bool = False
    heads: int | None = None
    bits: float | None = None
    width: int | None = None
    tile: int = 1


@dataclass(frozen=True)
class Cache:
    """The KV cache of a layer for each token.

    Attributes:
        heads: Key-value heads; 1 for a latent, which every rank keeps whole.
        width: Elements of a token in one head, keys and values together.
        window: Tokens of a sliding window, or None if all tokens are kept.
        latent: Whether the layer has multi-head latent attention.
        indexer: Further bytes per token, for the indexer of sparse attention; 0 without one.
        scaled_bytes: Bytes per token of an 8-bit cache with scales; None if it has no scales.
    """

    heads: int
    width: int
    window: int | None = None
    latent: bool = False
    indexer: int = 0
    scaled_bytes: int | None = None

    def count_elements(self, tensor: int) -> int:
        """Return the elements of one token that each rank keeps."""
        return max(1, -(-self.heads // tensor)) * self.width

    def count_bytes(self, tensor: int, bits: int) -> int:
        """Return the bytes of one token that each rank keeps."""
        if self.scaled_bytes is not None and bits == 8:
            return self.scaled_bytes + self.indexer
        return self.count_elements(tensor) * bits // 8 + self.indexer


#: A layer without attention.
NO_CACHE = Cache(0, 0)


@dataclass(frozen=True)
class State:
    """The state of a layer for each sequence, independent of its length; ranks divide it.

    Attributes:
        convolution: Elements of its convolution, in the type of the model.
        recurrent: Elements of its recurrent state.
        recurrent_bits: Bits of an element of the recurrent state.
    """

    convolution: int
    recurrent: int
    recurrent_bits: int

    def count_bytes(self, tensor: int, bits: int) -> int:
        """Return the bytes of one sequence that each rank keeps; `bits` are of the model's type."""
        return (self.convolution * bits + self.recurrent * self.recurrent_bits) // 8 // tensor


@dataclass(frozen=True)
class Compressed:
    """The KV cache of a layer of DeepSeek-V4; every rank has all of it.

    Attributes:
        ratio: Tokens that one latent represents; 0 if only the window is kept.
        window: Tokens whose separate latents are kept.
        width: Elements of a latent.
        rope: Number of these elements that encode positions; they are stored in 16 bits.
        indexer: Elements per latent that the layer's indexer keeps, 0 without an indexer.
    """

    ratio: int
    window: int
    width: int
    rope: int
    indexer: int


@dataclass(frozen=True)
class Layer:
    """One layer: its weights and its cache."""

    parts: tuple[Part, ...]
    cache: Cache | State | Compressed


@dataclass(frozen=True)
class Architecture(ModelShape):
    """The properties of a model that determine its memory.

    Attributes:
        embedding: Parameters of the token embedding.
        tied: Whether the head uses the weights of the embedding.
        longest: Tokens of the longest sequence; None if the config has none.
        limit: Maximum length that engines accept by default; None if the config has none.
        heads: Attention heads, and key-value heads; 0 if unknown, or if ranks do not divide them.
        bits: Bits of a parameter that is not quantized.
        quantization: Format of the quantized parameters, or None if none are quantized.
        doubt: Why the memory of its family is uncertain; None if it is not.
        experts: Routed experts of a layer, 0 without them.
    """

    layers: tuple[Layer, ...]
    embedding: int
    tied: bool
    longest: int | None
    limit: int | None
    heads: tuple[int, int]
    bits: int
    quantization: Quantization | None
    doubt: str | None = None
    experts: int = 0

    @property
    def parameters(self) -> int:
        """All parameters."""
        in_layers = sum(
            part.parameters
            for layer in self.layers
            for part in layer.parts
            if not part.name.endswith(".absorbed")  # a copy of `kv_b_proj`
        )
        return in_layers + self.embedding * (1 if self.tied else 2) + self.vision


@cache
def load_models() -> Mapping[str, Mapping[str, Any]]:
    """Return the table of models by name on Hugging Face, each with its `config` and `source`.

    `tools/model_table.py` writes it.
    """
    text = Path(__file__).with_name("models.json").read_text(encoding="utf-8")
    table: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return table


@cache
def find_architecture(name: str) -> Architecture | None:
    """Return the architecture of a model in the table, or None if it is not there."""
    entry = load_models().get(name)
    return read_config(entry["config"]) if entry is not None else None


_BITS = {"bfloat16": 16, "float16": 16, "half": 16, "float32": 32, "float": 32, "auto": 16}


def read_config(config: Config) -> Architecture:
    """Return the architecture of a config.

    Raises:
        UnknownArchitectureError: The config is not supported.
    """
    text = _rename_keys(_find_text_config(config))
    kind = str(text.get("model_type") or config.get("model_type") or "")
    if not kind:
        raise UnknownArchitectureError("the config has no model_type")
    read_layer = _FAMILIES.get(kind)
    if read_layer is None:
        near = get_close_matches(kind, _FAMILIES, n=1, cutoff=0.7)
        hint = (
            f"; if its layers are the same as in {near[0]}, set model_type to that" if near else ""
        )
        raise UnknownArchitectureError(f"unknown architecture {kind}{hint}")
    stored = config.get("quantization_config") or text.get("quantization_config")
    quantization = read_quantization(stored) if stored else None
    if isinstance(quantization, str):
        raise UnknownArchitectureError(quantization)
    blocks = text.get("layers_block_type")
    count = len(blocks) if blocks else _read(text, "num_hidden_layers")
    if count > _MAX_LAYERS:
        raise UnknownArchitectureError(f"{count} layers are more than {_MAX_LAYERS}")
    hidden, vocabulary = _read(text, "hidden_size"), _read(text, "vocab_size")
    layers = tuple(read_layer(text, index) for index in range(count))
    # Transformers ties embedding and head of Gemma by default.
    is_tied = config.get("tie_word_embeddings", kind.startswith("gemma"))
    dtype = str(text.get("dtype") or text.get("torch_dtype") or config.get("dtype")
                or config.get("torch_dtype") or "bfloat16")  # fmt: skip
    return Architecture(
        layers=layers,
        embedding=hidden * vocabulary,
        tied=bool(text.get("tie_word_embeddings", is_tied)),
        vision=_count_vision(config),
        hidden=hidden,
        vocabulary=vocabulary,
        intermediate=_read_intermediate(text),
        expert_width=_read_expert_width(text),
        experts_per_token=_read_experts_per_token(text),
        expert_hidden=int(text.get("moe_latent_size") or hidden),
        encoder=_read_encoder(config),
        image=_count_image_bytes(config),
        depth=count,
        recurrent=any(isinstance(layer.cache, State) for layer in layers),
        latent=bool(text.get("kv_lora_rank")),
        sparse=bool(text.get("index_topk")),
        longest=_read_longest(text),
        limit=_read_limit(text),
        heads=_count_heads(text),
        bits=_BITS.get(dtype.removeprefix("torch."), 16),
        quantization=quantization,
        doubt=_DOUBTS.get(kind),
        experts=next((int(text[key]) for key in _EXPERTS if text.get(key)), 0),
    )


_MAX_LAYERS = 1000


def _find_text_config(config: Config) -> Config:
    for key in ("text_config", "llm_config", "language_config"):
        nested = config.get(key)
        if isinstance(nested, Mapping):
            return nested
    return config


#: Keys in configs of Step-3.5 and Step-3.7, and the same keys in other families' configs.
_KEYS = {
    "num_attention_groups": "num_key_value_heads",
    "moe_num_experts": "num_experts",
    "moe_top_k": "num_experts_per_tok",
}


def _rename_keys(text: Config) -> Config:
    renamed = {new: text[key] for key, new in _KEYS.items() if key in text}
    return {**renamed, **text} if renamed else text


def _read(config: Config, *names: str) -> int:
    """Return the first of these keys that has a positive integer."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise UnknownArchitectureError(f"the config has no {names[0]}")


def _read_longest(text: Config) -> int | None:
    """Return the longest sequence, as vLLM derives it from positions and their scaling."""
    length = text.get("max_position_embeddings")
    if not isinstance(length, int):
        return None
    scaling = text.get("rope_scaling") or {}
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind == "yarn":
        base = scaling.get("original_max_position_embeddings") or length
        return int(base * float(scaling.get("factor", 1)))
    if kind in ("linear", "dynamic") and not str(text.get("model_type")).startswith("gemma3"):
        return int(length * float(scaling.get("factor", 1)))
    return length


def _read_limit(text: Config) -> int | None:
    """Return the largest limit of all releases: vLLM applied yarn's factor before 0.30.0."""
    lengths = [
        _read_longest(text),
        text.get("max_position_embeddings"),
        text.get("model_max_length"),
    ]
    return max((length for length in lengths if isinstance(length, int)), default=None)


def _count_heads(text: Config) -> tuple[int, int]:
    """Return attention and key-value heads; 0 for latent attention, which ranks do not divide."""
    heads = text.get("num_attention_heads")
    if not isinstance(heads, int):
        return 0, 0
    kv = 0 if text.get("kv_lora_rank") else text.get("num_key_value_heads") or heads
    return heads, kv if isinstance(kv, int) else 0


def _count_vision(config: Config) -> int:
    """Return the parameters of the image encoder's attention and feed-forward layers."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 0

    def size(*names: str) -> int:
        sizes = (vision.get(name) or vision.get(f"vt_{name}") for name in names)  # vt_: Kimi
        return int(next(filter(None, sizes), 0))

    width = size("hidden_size")
    inner = size("intermediate_size") or 4 * width
    return size("depth", "num_hidden_layers") * width * (4 * width + 3 * inner)


def _read_encoder(config: Config) -> tuple[int, int]:
    """Return the encoder's layers and width as SGLang reads them."""
    vision = config.get("vision_config")
    settings = vision if isinstance(vision, Mapping) else {}
    return int(settings.get("num_hidden_layers") or 24), int(settings.get("hidden_size") or 1024)


def _count_image_bytes(config: Config) -> int:
    """Return bytes of the largest image in Qwen's encoders: 16,384 tokens of several patches.

    Images of other families have a few hundred tokens.
    """
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping) or not str(config.get("model_type")).startswith("qwen"):
        return 0
    width, inner = (int(vision.get(key) or 0) for key in ("hidden_size", "intermediate_size"))
    merged = int(vision.get("spatial_merge_size") or 2)
    return 16384 * merged**2 * (4 * inner + 8 * width)


def _read_heads(text: Config) -> tuple[int, int, int]:
    heads = _read(text, "num_attention_heads")
    kv = text.get("num_key_value_heads") or heads
    head = text.get("head_dim") or _read(text, "hidden_size") // heads
    return heads, int(kv), int(head)


def _make_attention(text: Config, *, gated: bool = False) -> Iterator[Part]:
    """Yield the projections; that of the values is counted with `k_proj`."""
    heads, kv, head = _read_heads(text)
    hidden = _read(text, "hidden_size")
    queries = 2 if gated else 1
    yield Part("self_attn.q_proj", queries * hidden * heads * head)
    yield Part("self_attn.k_proj", 2 * hidden * kv * head, heads=kv)
    yield Part("self_attn.o_proj", hidden * heads * head)


def _make_mlp(text: Config, width: int, name: str = "mlp.up_proj") -> Part:
    return Part(name, 3 * _read(text, "hidden_size") * width, width=width)


def _make_norms(text: Config) -> Part:
    return Part("input_layernorm", 2 * _read(text, "hidden_size"), split=False, bits=16)


def _make_experts(
    text: Config, count: int, width: int, shared: int, *, gate: str = "mlp.gate"
) -> Iterator[Part]:
    hidden = _read(text, "hidden_size")
    yield Part(gate, hidden * count, split=False, bits=16)
    experts = 3 * hidden * width * count
    yield Part("mlp.experts.0.up_proj", experts, expert=True, width=width)
    if shared:
        yield Part("mlp.shared_experts.up_proj", 3 * hidden * shared, width=shared)


def _read_intermediate(text: Config) -> int:
    names = ("intermediate_size_mlp", "dense_intermediate_size", "intermediate_size")
    return int(next((text[name] for name in names if text.get(name)), 0))


def _read_expert_width(text: Config) -> int:
    width = text.get("moe_intermediate_size") or text.get("intermediate_size")
    return _read_experts_per_token(text) * int(width or 0)


def _read_experts_per_token(text: Config) -> int:
    names = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "top_k_experts")
    routed = next((text[name] for name in names if text.get(name)), 0)
    return int(routed) if any(text.get(key) for key in _EXPERTS) else 0


_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def _has_window(text: Config, index: int) -> bool:
    """Return whether a layer has a sliding window, by the config's list or pattern."""
    if text.get("use_sliding_window") is False or not text.get("sliding_window"):
        return False
    kinds = text.get("layer_types")
    if isinstance(kinds, list | tuple):
        return str(kinds[index]) == "sliding_attention"
    if int(text["sliding_window"]) >= int(text.get("max_position_embeddings") or 0):
        return False
    pattern = text.get("sliding_window_pattern") or _PATTERNS.get(str(text.get("model_type")))
    return pattern is None or (index + 1) % int(pattern) != 0


#: One of this many layers has full attention, if the config does not list its layers.
_PATTERNS = {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "gpt_oss": 2}


def _read_cache(text: Config, index: int) -> Cache:
    _, kv, head = _read_heads(text)
    window = int(text["sliding_window"]) if _has_window(text, index) else None
    return Cache(kv, 2 * head, window)


def _read_dense(text: Config, index: int) -> Layer:
    parts = (
        *_make_attention(text),
        _make_mlp(text, _read(text, "intermediate_size")),
        _make_norms(text),
    )
    return Layer(parts, _read_cache(text, index))


def _read_mixture(text: Config, index: int) -> Layer:
    """Return a layer with routed experts, unless the config makes it dense."""
    count = _read(text, *_EXPERTS)
    width = _read(text, "moe_intermediate_size", "intermediate_size")
    shared = int(text.get("shared_expert_intermediate_size") or 0)
    shared += int(text.get("n_shared_experts") or text.get("num_shared_experts") or 0) * width
    is_dense = index < int(text.get("first_k_dense_replace") or 0)
    is_dense |= index in (text.get("mlp_only_layers") or ())
    step = int(text.get("decoder_sparse_step") or 1)
    is_dense |= (index + 1) % step != 0
    parts = [*_make_attention(text), _make_norms(text)]
    if is_dense:
        parts.append(_make_mlp(text, _read(text, "intermediate_size")))
    else:
        parts += _make_experts(text, count, width, shared)
    return Layer(tuple(parts), _read_cache(text, index))


def _read_gpt_oss(text: Config, index: int) -> Layer:
    """Return a layer; experts are padded for MXFP4 kernels: rows to 256, a rank's share to 64."""
    hidden, count = _read(text, "hidden_size"), _read(text, "num_local_experts")
    width = _read(text, "intermediate_size")
    padded = -(-hidden // 256) * 256
    parameters = 3 * padded * width * count
    experts = Part("mlp.experts.0.up_proj", parameters, expert=True, width=width, tile=64)
    gate = Part("mlp.router", hidden * count, split=False, bits=16)
    return Layer(
        (*_make_attention(text), _make_norms(text), gate, experts), _read_cache(text, index)
    )


def _read_llama4(text: Config, index: int) -> Layer:
    """Return a layer; every layer, or every second one, has routed and one shared expert.

    Its chunked attention is kept like full attention (vLLM's default; SGLang splits the cache).
    """
    step = int(text.get("interleave_moe_layer_step") or 1)
    width = _read(text, "intermediate_size")
    parts = [*_make_attention(text), _make_norms(text)]
    if (index + 1) % step == 0:
        count = _read(text, "num_local_experts")
        parts += _make_experts(text, count, width, width, gate="feed_forward.router")
    else:
        parts.append(_make_mlp(text, _read(text, "intermediate_size_mlp"), "feed_forward.up_proj"))
    return Layer(tuple(parts), _read_cache(text, index))


def _make_latent_attention(text: Config) -> Iterator[Part]:
    """Yield the parts; engines keep a second 16-bit copy of `kv_b_proj` to absorb into queries."""
    hidden, heads = _read(text, "hidden_size"), _read(text, "num_attention_heads")
    rank, rope = _read(text, "kv_lora_rank"), _read(text, "qk_rope_head_dim")
    nope, value = _read(text, "qk_nope_head_dim"), _read(text, "v_head_dim")
    queries = text.get("q_lora_rank")
    if queries:
        yield Part("self_attn.q_a_proj", hidden * queries, split=False)
        yield Part("self_attn.q_b_proj", queries * heads * (nope + rope))
    else:
        yield Part("self_attn.q_proj", hidden * heads * (nope + rope))
    up_projection = rank * heads * (nope + value)
    yield Part("self_attn.kv_a_proj_with_mqa", hidden * (rank + rope), split=False)
    yield Part("self_attn.kv_b_proj", up_projection)
    yield Part("self_attn.kv_b_proj.absorbed", up_projection, bits=16)
    yield Part("self_attn.o_proj", heads * value * hidden)


def _read_latent(text: Config, index: int) -> Layer:
    """Return a layer of latent attention; layers after the first dense ones have experts."""
    parts = [_make_norms(text), *_make_latent_attention(text)]
    hidden, queries = _read(text, "hidden_size"), text.get("q_lora_rank")
    rank, rope = _read(text, "kv_lora_rank"), _read(text, "qk_rope_head_dim")
    sparse = text.get("index_topk")
    if sparse:
        width, head_count = _read(text, "index_head_dim"), _read(text, "index_n_heads")
        weights = hidden * width + int(queries or hidden) * width * head_count + hidden * head_count
        parts.append(Part("self_attn.indexer.wq_b", weights, split=False))
    count = text.get("n_routed_experts")
    frequency = int(text.get("moe_layer_freq") or 1)
    first = int(text.get("first_k_dense_replace") or 0)
    if count and index >= first and index % frequency == 0:
        width = _read(text, "moe_intermediate_size")
        parts += _make_experts(
            text, int(count), width, int(text.get("n_shared_experts") or 0) * width
        )
    else:
        parts.append(_make_mlp(text, _read(text, "intermediate_size")))
    indexer = int(text.get("index_head_dim") or 0) + _INDEX_SCALE if sparse else 0
    # 8-bit format of vLLM and SGLang: 512 elements, 4 scales, and 64 elements in 16 bits.
    scaled = rank + rank // 128 * 4 + 2 * rope if sparse else None
    cache = Cache(1, rank + rope, latent=True, indexer=indexer, scaled_bytes=scaled)
    return Layer(tuple(parts), cache)


#: Bytes of the scale of an indexer's key, whose elements are stored in 8 bits.
_INDEX_SCALE = 4


def _read_gated_delta(text: Config, index: int) -> Layer:
    """Return a layer of Qwen3-Next or Qwen3.5: every fourth has attention, others a fixed state."""
    hidden = _read(text, "hidden_size")
    kinds = text.get("layer_types")
    interval = int(text.get("full_attention_interval") or 4)
    has_attention = kinds[index] == "full_attention" if kinds else (index + 1) % interval == 0
    parts = [_make_norms(text)]
    if has_attention:
        parts += _make_attention(text, gated=True)
    else:
        keys = _read(text, "linear_num_key_heads") * _read(text, "linear_key_head_dim")
        head_count = _read(text, "linear_num_value_heads")
        values = head_count * _read(text, "linear_value_head_dim")
        parts.append(Part("linear_attn.in_proj_qkv", hidden * (2 * keys + 2 * values)))
        parts.append(Part("linear_attn.in_proj_ba", hidden * 2 * head_count, bits=16))
        parts.append(Part("linear_attn.out_proj", hidden * values))
    if any(text.get(key) for key in _EXPERTS):
        width = _read(text, "moe_intermediate_size")
        shared = int(text.get("shared_expert_intermediate_size") or 0)
        parts += _make_experts(text, _read(text, *_EXPERTS), width, shared)
    else:
        parts.append(_make_mlp(text, _read(text, "intermediate_size")))
    return Layer(
        tuple(parts), _read_cache(text, index) if has_attention else _make_delta_state(text)
    )


def _make_delta_state(text: Config) -> State:
    """Return the state (vLLM's `gated_delta_net_state_shape`); Qwen3-Next's config has no type."""
    keys = _read(text, "linear_num_key_heads") * _read(text, "linear_key_head_dim")
    heads, value = _read(text, "linear_num_value_heads"), _read(text, "linear_value_head_dim")
    kernel = int(text.get("linear_conv_kernel_dim") or 4)
    return State(
        (2 * keys + heads * value) * (kernel - 1),
        heads * value * _read(text, "linear_key_head_dim"),
        _BITS.get(str(text.get("mamba_ssm_dtype") or "auto"), 16),
    )


def _read_nemotron_h(text: Config, index: int) -> Layer:
    """Return a layer of Mamba-2, attention, ungated feed-forward or ungated experts."""
    pattern = text.get("layers_block_type") or str(text.get("hybrid_override_pattern") or "")
    kind = _BLOCKS.get(pattern[index], pattern[index]) if index < len(pattern) else ""
    hidden = _read(text, "hidden_size")
    norm = Part("norm", hidden, split=False, bits=16)
    if kind == "*":
        # The config's name of `head_dim`, and the module's name, differ from other families.
        attention = {**text, "head_dim": text.get("head_dim") or text.get("attention_head_dim")}
        parts = (norm, *(replace(part, name=part.name.replace("self_attn", "mixer"))
                         for part in _make_attention(attention)))  # fmt: skip
        return Layer(parts, _read_cache(attention, index))
    if kind == "-":
        width = _read(text, "intermediate_size")
        return Layer((norm, Part("mixer.up_proj", 2 * hidden * width, width=width)), NO_CACHE)
    if kind == "E":
        return Layer((norm, *_make_ungated_experts(text)), NO_CACHE)
    if kind != "M":
        raise UnknownArchitectureError(f"unknown layer type {kind or '(empty)'}")
    heads, width = _read(text, "mamba_num_heads"), _read(text, "mamba_head_dim")
    states, groups = _read(text, "ssm_state_size"), _read(text, "n_groups")
    inner, shared = heads * width, 2 * groups * states
    kernel = int(text.get("conv_kernel") or 4)
    dtype = str(text.get("mamba_ssm_cache_dtype") or "float16")
    state = State((inner + shared) * (kernel - 1), heads * width * states, _BITS.get(dtype, 16))
    parts = (
        norm,
        Part("mixer.in_proj", hidden * (2 * inner + shared + heads)),
        Part("mixer.out_proj", inner * hidden),
        Part("mixer.conv1d", (inner + shared) * kernel, bits=16),
    )
    return Layer(parts, state)


#: Letters of `hybrid_override_pattern` for the names in `layers_block_type`.
_BLOCKS = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}


def _make_ungated_experts(text: Config) -> Iterator[Part]:
    hidden, count = _read(text, "hidden_size"), _read(text, "n_routed_experts")
    width, latent = _read(text, "moe_intermediate_size"), text.get("moe_latent_size")
    yield Part("mixer.gate", hidden * count, split=False, bits=16)
    routed = 2 * int(latent or hidden) * width * count
    yield Part("mixer.experts.0.up_proj", routed, expert=True, width=width)
    if latent:
        yield Part("mixer.fc1_latent_proj", 2 * hidden * int(latent), split=False)
    shared = int(text.get("moe_shared_expert_intermediate_size") or 0)
    shared *= int(text.get("n_shared_experts") or 0)
    if shared:
        yield Part("mixer.shared_experts.up_proj", 2 * hidden * shared, width=shared)


def _read_gemma4(text: Config, index: int) -> Layer:
    """Return a layer; without a window it has wider heads, and its values may be its keys.

    Layers with experts have a feed-forward layer as well.
    """
    if text.get("hidden_size_per_layer_input") or text.get("num_kv_shared_layers"):
        raise UnknownArchitectureError("per-layer embeddings are not supported")
    has_window = _has_window(text, index)
    hidden = _read(text, "hidden_size")
    heads, kv, head = _read_heads(text)
    if not has_window:
        head = int(text.get("global_head_dim") or head)
        kv = int(text.get("num_global_key_value_heads") or kv)
    copies = 2 if has_window or not text.get("attention_k_eq_v") else 1
    parts = [
        Part("self_attn.q_proj", hidden * heads * head),
        Part("self_attn.k_proj", copies * hidden * kv * head, heads=kv),
        Part("self_attn.o_proj", hidden * heads * head),
        _make_norms(text),
        _make_mlp(text, _read(text, "intermediate_size")),
    ]
    if text.get("enable_moe_block"):
        count, width = _read(text, "num_experts"), _read(text, "moe_intermediate_size")
        parts += [
            replace(part, name=part.name.removeprefix("mlp."))
            for part in _make_experts(text, count, width, 0, gate="router.proj")
        ]
    window = int(text["sliding_window"]) if has_window else None
    return Layer(tuple(parts), Cache(kv, 2 * head, window))


def _has_experts(text: Config, index: int) -> bool:
    """Return whether a layer has routed experts: by a list, or after the first dense layers."""
    if text.get("moe_layers_enum"):
        return str(index) in str(text["moe_layers_enum"]).replace(" ", "").split(",")
    frequencies = text.get("moe_layer_freq")
    if isinstance(frequencies, list | tuple):
        return bool(frequencies[index])
    return index >= int(text.get("first_k_dense_replace") or 0)


def _read_mimo_v2(text: Config, index: int) -> Layer:
    """Return a layer; with a window it has other head counts, and values are narrower than keys."""
    has_window = bool(text["hybrid_layer_pattern"][index])
    prefix = "swa_" if has_window else ""
    hidden, heads = _read(text, "hidden_size"), _read(text, f"{prefix}num_attention_heads")
    kv, key = _read(text, f"{prefix}num_key_value_heads"), _read(text, f"{prefix}head_dim")
    value = _read(text, f"{prefix}v_head_dim")
    parts = [
        _make_norms(text),
        Part("self_attn.q_proj", hidden * heads * key),
        Part("self_attn.k_proj", hidden * kv * (key + value), heads=kv),
        Part("self_attn.o_proj", hidden * heads * value),
    ]
    if _has_experts(text, index):
        width = _read(text, "moe_intermediate_size")
        parts += _make_experts(text, _read(text, *_EXPERTS), width, 0)
    else:
        parts.append(_make_mlp(text, _read(text, "intermediate_size")))
    window = _read(text, "sliding_window_size", "sliding_window") if has_window else None
    return Layer(tuple(parts), Cache(kv, key + value, window))


def _read_step3(text: Config, index: int) -> Layer:
    """Return a layer; experts follow dense layers, and layers with a window have more heads."""
    settings = text.get("attention_other_setting") or {}
    heads = settings.get("num_attention_heads") if _has_window(text, index) else None
    parts = [
        *_make_attention({**text, "num_attention_heads": heads} if heads else text),
        _make_norms(text),
    ]
    if _has_experts(text, index):
        width, shared = _read(text, "moe_intermediate_size"), _read(text, "share_expert_dim")
        parts += _make_experts(text, _read(text, *_EXPERTS), width, 0)
        parts.append(_make_mlp(text, shared, "share_expert.up_proj"))
    else:
        parts.append(_make_mlp(text, _read(text, "intermediate_size")))
    return Layer(tuple(parts), _read_cache(text, index))


def _read_minimax_m3(text: Config, index: int) -> Layer:
    """Return a layer; with sparse attention it also keeps one 16-bit index key per token."""
    hidden = _read(text, "hidden_size")
    _, kv, head = _read_heads(text)
    parts = [*_make_attention(text), _make_norms(text)]
    if _has_experts(text, index):
        width = _read(text, "intermediate_size")
        shared = int(text.get("n_shared_experts") or 0) * width
        parts += _make_experts(text, _read(text, *_EXPERTS), width, shared)
    else:
        parts.append(_make_mlp(text, _read(text, "dense_intermediate_size")))
    sparse = text.get("sparse_attention_config") or {}
    if not (sparse.get("sparse_attention_freq") or [0] * (index + 1))[index]:
        return Layer(tuple(parts), Cache(kv, 2 * head))
    head_count, width = _read(sparse, "sparse_num_index_heads"), _read(sparse, "sparse_index_dim")
    parts.append(Part("self_attn.index_q_proj", hidden * head_count * width, heads=head_count))
    parts.append(Part("self_attn.index_k_proj", hidden * width, split=False))
    return Layer(tuple(parts), Cache(kv, 2 * head, indexer=2 * width))


def _read_kimi_linear(text: Config, index: int) -> Layer:
    """Return a layer of Kimi-K3: latent attention, or a state of fixed size."""
    linear = text.get("linear_attn_config") or {}
    hidden = _read(text, "hidden_size")
    parts = [_make_norms(text)]
    layer_cache: Cache | State
    if index + 1 in linear["full_attn_layers"]:
        parts += _make_latent_attention(text)
        if text.get("mla_use_output_gate"):
            value = _read(text, "num_attention_heads") * _read(text, "v_head_dim")
            parts.append(Part("self_attn.g_proj", hidden * value))
        width = _read(text, "kv_lora_rank") + _read(text, "qk_rope_head_dim")
        layer_cache = Cache(1, width, latent=True)
    else:
        heads, head = _read(linear, "num_heads"), _read(linear, "head_dim")
        kernel, inner = _read(linear, "short_conv_kernel_size"), heads * head
        parts += [
            Part("self_attn.in_proj", hidden * (4 * inner + heads)),
            Part("self_attn.f_a_proj", hidden * head, split=False),
            Part("self_attn.f_b_proj", head * inner),
            Part("self_attn.conv1d", 3 * inner * kernel, bits=32),
            Part("self_attn.o_proj", hidden * inner),
        ]
        layer_cache = State(3 * inner * (kernel - 1), inner * head, 32)
    if not _has_experts(text, index):
        parts.append(_make_mlp(text, _read(text, "intermediate_size")))
        return Layer(tuple(parts), layer_cache)
    latent, width = text.get("routed_expert_hidden_size"), _read(text, "moe_intermediate_size")
    shared = int(text.get("num_shared_experts") or 0) * width
    routed = {**text, "hidden_size": latent or hidden}
    count = _read(text, *_EXPERTS)
    parts += (part for part in _make_experts(routed, count, width, 0) if part.expert)
    parts.append(Part("mlp.gate", hidden * count, split=False, bits=16))
    if latent:
        parts.append(Part("mlp.routed_expert_down_proj", 2 * hidden * latent, split=False))
    if shared:
        parts.append(Part("mlp.shared_experts.up_proj", 3 * hidden * shared, width=shared))
    return Layer(tuple(parts), layer_cache)


def _read_deepseek_v4(text: Config, index: int) -> Layer:
    """Return a layer with low-rank queries, keys and outputs, and a compressor of its cache."""
    hidden, heads = _read(text, "hidden_size"), _read(text, "num_attention_heads")
    head, queries = _read(text, "head_dim"), _read(text, "q_lora_rank")
    outputs, groups = _read(text, "o_lora_rank"), _read(text, "o_groups")
    streams = int(text.get("hc_mult") or 1)
    mixed = 2 * (2 + streams) * streams * streams * hidden
    parts = [
        _make_norms(text),
        Part("attn.wq_a", hidden * (queries + head), split=False),
        Part("attn.wq_b", queries * heads * head),
        Part("attn.wo_a", heads * head * outputs),
        Part("attn.wo_b", groups * outputs * hidden),
        Part("hc", mixed, split=False, bits=32),
    ]
    ratio = text["compress_ratios"][index]
    if ratio > 1:
        overlap = 2 if ratio == _INDEXED_RATIO else 1
        parts.append(Part("attn.compressor", 2 * overlap * hidden * head, split=False, bits=16))
    if ratio == _INDEXED_RATIO:
        width, head_count = _read(text, "index_head_dim"), _read(text, "index_n_heads")
        parts.append(Part("attn.indexer.wq_b", queries * width * head_count, split=False))
        weights = hidden * head_count + 4 * hidden * width
        parts.append(Part("attn.indexer.compressor", weights, split=False, bits=16))
    stored = text.get("quantization_config") or {}
    bits = 4.5 if stored.get("moe_quant_algo") == "NVFP4" else 4.25
    width = _read(text, "moe_intermediate_size")
    shared = int(text.get("n_shared_experts") or 0) * width
    for part in _make_experts(text, _read(text, *_EXPERTS), width, shared):
        # FP8 blocks apply only to the other layers.
        in_fp4 = part.expert and text.get("expert_dtype", "fp4") == "fp4"
        parts.append(replace(part, bits=bits, width=None) if in_fp4 else part)
    layer_cache = Compressed(
        ratio if ratio > 1 else 0,
        _read(text, "sliding_window"),
        head,
        _read(text, "qk_rope_head_dim"),
        _read(text, "index_head_dim") if ratio == _INDEXED_RATIO else 0,
    )
    return Layer(tuple(parts), layer_cache)


#: Compression ratio (tokens per latent) of layers with an indexer.
_INDEXED_RATIO = 4


_FAMILIES: Mapping[str, Callable[[Config, int], Layer]] = {
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2", "gemma3_text", "granite",
         "ministral3", "mimo", "qwen2_5_vl", "qwen2_vl", "qwen2_5_vl_text", "qwen3_vl_text",
         "gemma3", "glm", "glm4", "seed_oss"),
        _read_dense,
    ),
    **dict.fromkeys(
        ("mixtral", "qwen2_moe", "qwen3_moe", "qwen3_vl_moe_text", "glm4_moe", "glm4v_moe_text",
         "minimax_m2", "phimoe", "hy_v3"),
        _read_mixture,
    ),
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "mistral4"),
        _read_latent,
    ),
    **dict.fromkeys(("minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text"), _read_minimax_m3),
    **dict.fromkeys(("step3p5", "step3p7"), _read_step3),
    "mimo_v2_flash": _read_mimo_v2,
    "kimi_linear": _read_kimi_linear,
    "deepseek_v4": _read_deepseek_v4,
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"),
        _read_gated_delta,
    ),
    "nemotron_h": _read_nemotron_h,
    "gemma4_text": _read_gemma4,
    "gpt_oss": _read_gpt_oss,
    "llama4_text": _read_llama4,
}  # fmt: skip

#: Model types read from the sources of vLLM 0.32.0 only, and why their memory is uncertain.
_DOUBTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text", "step3p5", "step3p7", "mistral4",
         "mimo_v2_flash", "kimi_linear", "hy_v3"),
        "no startup log of its model family is published",
    ),
    "deepseek_v4": "no startup log with its activations is published",
}  # fmt: skip
