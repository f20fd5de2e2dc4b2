"""A router's `modelRewrites`: the models that clients ask for, and those that engines serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field
from typing_extensions import Unpack

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.types import Text
from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.generated import dicts

class ModelTargetArgs(SpecModel):
    """A model or adapter that the engines serve."""

    def __init__(self, **fields: Unpack[dicts.ModelTargetArgsDict]) -> None: ...
    model: Text
    "Its name, as the engines serve it (`--served-model-name`, `--lora-modules`)."
    weight: Annotated[int, Field(ge=0, le=1000000)] | None = None
    "Its share of the requests, of the sum of all weights; 0 sends it none. May be left out where\n    there is one target."

class ModelRewriteArgs(SpecModel):
    """Names that clients ask for, and the models that answer."""

    def __init__(self, **fields: Unpack[dicts.ModelRewriteArgsDict]) -> None: ...
    models: Annotated[list[Text], Field(min_length=1)] | None = None
    "Names in requests; by default all that no other rewrite has."
    targets: Annotated[list[ModelTargetArgs], Field(min_length=1)]
    "What the name becomes, drawn for each request by weight."

def model_rewrite_findings(
    at: Location, rewrites: Sequence[ModelRewriteArgs]
) -> Iterator[Finding]: ...
def _twice(at: Location, number: int, name: str | None) -> Finding: ...
def _targets(at: Location, targets: Sequence[ModelTargetArgs]) -> Iterator[Finding]: ...
