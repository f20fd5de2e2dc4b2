"""What a router asks of its endpoint picker, independent of the picker's version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fusioninfer_pulumi.kube import labels

PREFIX_CACHE = "prefix-cache"
KV_CACHE = "kv-cache-utilization"
QUEUE_SIZE = "queue-size"
LORA_AFFINITY = "lora-affinity"
PD_DISAGGREGATION = "pd-disaggregation"

#: The strategy names of the router document, `spec/fusioninfer-router.md`.
STRATEGIES = (PREFIX_CACHE, KV_CACHE, QUEUE_SIZE, LORA_AFFINITY, PD_DISAGGREGATION)


@dataclass(frozen=True)
class GroupPairing:
    """How a picker keeps the prefill and the decode pod of a request in one group.

    Attributes:
        selector: Labels of the pods whose groups count, which are those that serve.
        strict: Whether a request never leaves a group. If so the picker first draws one of the
            groups that have both parts, by their numbers of ready pods. Else it takes the best
            decode pod of all, and a prefill pod of another group where that group has none.
        label: Label that names a pod's group.
    """

    selector: Mapping[str, str]
    strict: bool = True
    label: str = labels.GROUP_INDEX


@dataclass(frozen=True)
class PrefillDecode:
    """How a picker tells prefill from decode pods, and when it uses both.

    The pods are told apart by our own component-type label, which every serving pod carries
    already. The built-in `prefill-filter` and `decode-filter` would need a second label
    (`llm-d.ai/role`), and `decode-filter` also takes pods that do not carry it.

    Attributes:
        threshold: Characters of a prompt that must be missing from the decode pod's cache before
            the prompt goes to a prefill pod; 0 sends every prompt there. The unit is that of the
            documents' `pd-profile-handler`.
        label: Label that names a pod's part.
        prefill: The label's value on prefill pods.
        decode: The label's value on decode pods.
        groups: How the two stay in one group, None where there are no groups.
    """

    threshold: int = 0
    label: str = labels.COMPONENT_TYPE
    prefill: str = "prefiller"
    decode: str = "decoder"
    groups: GroupPairing | None = None


@dataclass(frozen=True)
class PickerRequest:
    """What a picker shall do.

    Attributes:
        strategy: One of `STRATEGIES`.
        scorers: Weights by scorer name (see `scorers`), None for the strategy's own scorer alone.
        block_size: Tokens in a block of the engine's KV cache (vLLM's `--block-size`), None
            when it is not known.
        prefill_decode: Used by `pd-disaggregation` only.
    """

    strategy: str
    scorers: Mapping[str, float] | None = None
    block_size: int | None = None
    prefill_decode: PrefillDecode = field(default_factory=PrefillDecode)
