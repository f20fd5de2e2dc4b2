"""A router's `modelRewrites`: the models that clients ask for, and those that engines serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.types import Text
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.rules.common import DUPLICATE_NAME, FIELD_REQUIRED, OUT_OF_RANGE


class ModelTargetArgs(SpecModel):
    """A model or adapter that the engines serve."""

    model: Text
    """Its name, as the engines serve it (`--served-model-name`, `--lora-modules`)."""

    weight: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Its share of the requests, of the sum of all weights; 0 sends it none. May be left out where
    there is one target."""


class ModelRewriteArgs(SpecModel):
    """Names that clients ask for, and the models that answer."""

    models: Annotated[list[Text], Field(min_length=1)] | None = None
    """Names in requests; by default all that no other rewrite has."""

    targets: Annotated[list[ModelTargetArgs], Field(min_length=1)]
    """What the name becomes, drawn for each request by weight."""


def model_rewrite_findings(at: Location, rewrites: Sequence[ModelRewriteArgs]) -> Iterator[Finding]:
    """Checks rewrites, each field of which is valid."""
    seen: set[str | None] = set()
    for index, rewrite in enumerate(rewrites):
        here = (*at, index)
        for number, name in enumerate(rewrite.models or [None]):
            if name in seen:
                yield _twice(here, number, name)
            seen.add(name)
        yield from _targets((*here, "targets"), rewrite.targets)


def _twice(at: Location, number: int, name: str | None) -> Finding:
    if name is None:
        return error(DUPLICATE_NAME, at, "has no models, and neither has another one; name them")
    message = f'"{name}" is rewritten already; remove one'
    return error(DUPLICATE_NAME, (*at, "models", number), message)


def _targets(at: Location, targets: Sequence[ModelTargetArgs]) -> Iterator[Finding]:
    names = [target.model for target in targets]
    for index, target in enumerate(targets):
        if target.model in names[:index]:
            message = f'"{target.model}" is a target already; add the weights up'
            yield error(DUPLICATE_NAME, (*at, index, "model"), message)
        if target.weight is None and len(targets) > 1:
            message = "is required where there are several targets"
            yield error(FIELD_REQUIRED, (*at, index, "weight"), message)
    if all(target.weight == 0 for target in targets):
        message = "all have weight 0, so no model would answer; give one a weight above 0"
        yield error(OUT_OF_RANGE, at, message)
