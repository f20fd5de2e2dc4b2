"""Where an engine keeps the KV cache that its accelerators have no room for, in KServe's words."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.api.field_types import Bytes, NameOrOutput, fits, json_findings
from fusioninfer_pulumi.api.spec_model import SpecModel, require_one
from fusioninfer_pulumi.api.validation_errors import string_format
from fusioninfer_pulumi.findings import OUTPUT_HINT, Finding, Location, error, shown
from fusioninfer_pulumi.kube.pulumi_outputs import has_output
from fusioninfer_pulumi.rules.common import (
    INVALID_FORMAT,
    OUTPUT_NOT_ALLOWED,
)
from fusioninfer_pulumi.schemas.kind_schema import CLAIM

_Folder = Annotated[
    str,
    string_format(
        r"^[^/\s][^\s]*$", "a folder such as cache/chat, without spaces or a / before it"
    ),
]


class EvictionPolicy(str, enum.Enum):
    """Eviction policy of the host memory."""

    LRU = "lru"  #: what was used least recently
    ARC = "arc"  #: adapts between least recently and least often used; vLLM only


class EmptyDirTierArgs(SpecModel):
    """The node's disk: each pod has its own, which ends with it."""

    size: Bytes
    """How much of it, such as `200Gi`: the volume's limit, and asked for as `ephemeral-storage`."""


class ClaimReferenceArgs(SpecModel):
    """An existing PersistentVolumeClaim of the service's namespace."""

    name: NameOrOutput
    """Name of the claim; several pods need one that is `ReadWriteMany`."""

    path: _Folder | None = None
    """Folder in the claim, by default its root."""


class ClaimTierArgs(SpecModel):
    """A PersistentVolumeClaim: `spec` creates one for each pod, `ref` names an existing claim."""

    spec: Annotated[dict[str, Any], fits(CLAIM)] | None = None
    """The spec of a claim that each pod gets, and that is deleted with it (an ephemeral volume)."""

    ref: ClaimReferenceArgs | None = None
    """An existing claim, whose content outlives the pods."""


class FileSystemTierArgs(SpecModel):
    """A folder that blocks are written to: of an `emptyDir`, or of a claim (`pvc`)."""

    empty_dir: EmptyDirTierArgs | None = None
    """The node's disk."""

    pvc: ClaimTierArgs | None = None
    """A claim."""


class SecondaryTierArgs(SpecModel):
    """A place behind the host memory."""

    file_system: FileSystemTierArgs
    """A folder, the only kind there is."""


class KvCacheOffloadingArgs(SpecModel):
    """The KV cache beyond the accelerators' memory: host memory, then disks.

    KServe's `kvCacheOffloading`. vLLM's OffloadingConnector from 0.14, with `secondary` from 0.22;
    SGLang's hierarchical cache, with `secondary` from 0.5.3.
    """

    cpu: Bytes
    """Host memory of each engine for its KV cache, such as `64Gi`, over all its accelerators; with
    `parallelism.data` each copy has so much. The container's memory limit has to be more."""

    eviction_policy: Annotated[EvictionPolicy, Field(strict=False)] | None = None
    """What leaves the host memory first: `lru` (the engines' default) or `arc` (vLLM)."""

    secondary: list[SecondaryTierArgs] = Field(default_factory=list)
    """What comes behind the host memory, in the order in which it is asked; SGLang has one. By
    default nothing."""


def offloading_findings(at: Location, offloading: KvCacheOffloadingArgs) -> Iterator[Finding]:
    """Check the tiers of a role, each field of which is valid."""
    for index, tier in enumerate(offloading.secondary):
        here = (*at, "secondary", index, "fileSystem")
        system = tier.file_system
        yield from require_one(here, system, "empty_dir", "pvc")
        if system.pvc is not None:
            yield from _claim((*here, "pvc"), system.pvc)


def _claim(at: Location, claim: ClaimTierArgs) -> Iterator[Finding]:
    yield from require_one(at, claim, "spec", "ref")
    if claim.ref is not None and claim.ref.path is not None and ".." in claim.ref.path.split("/"):
        yield error(
            INVALID_FORMAT,
            (*at, "ref", "path"),
            f"must not hold .., got {shown(claim.ref.path)}",
        )
    if claim.spec is None:
        return
    at = (*at, "spec")
    if has_output(claim.spec):
        yield error(OUTPUT_NOT_ALLOWED, at, OUTPUT_HINT)
        return
    yield from json_findings(at, claim.spec)
