"""What a router asks of its endpoint picker, independent of the endpoint picker's version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusioninfer_pulumi.api.role import Strategy


@dataclass(frozen=True)
class GroupPairing:
    """How the prefill and the decode pod of a request stay in one serving group.

    Attributes:
        selector: Labels of the pods whose groups count, which are those that serve.
        strict: Whether a request never leaves a group. If so the endpoint picker first draws one
            of the groups that have both parts, by their numbers of ready pods. Else it takes the
            best decode pod of all, and a prefill pod of another group where that group has none.
    """

    selector: Mapping[str, str]
    strict: bool = True


@dataclass(frozen=True)
class PickerRequest:
    """What an endpoint picker shall do.

    Attributes:
        strategy: What it balances by.
        scorers: Weights by scorer name (see `config.SCORERS`), None for the strategy's own scorer
            alone.
        block_size: Tokens in a block of the engine's KV cache (vLLM's `--block-size`), None
            when it is not known.
        threshold: With `pd-disaggregation`, characters of a prompt that must be missing from the
            decode pod's cache before the prompt goes to a prefill pod; 0 sends every prompt
            there. The unit is that of the documents' `pd-profile-handler`.
        groups: With `pd-disaggregation`, how the two pods stay in one group; None where there are
            no groups.
    """

    strategy: Strategy
    scorers: Mapping[str, float] | None = None
    block_size: int | None = None
    threshold: int = 0
    groups: GroupPairing | None = None
