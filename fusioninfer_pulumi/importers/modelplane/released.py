"""The released ModelDeployment: engines of members."""

from __future__ import annotations

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At
from fusioninfer_pulumi.importers.metadata import carry_metadata
from fusioninfer_pulumi.importers.modelplane.cache import Caches, carry_cache
from fusioninfer_pulumi.importers.modelplane.clusters import carry_cluster, carry_tolerations
from fusioninfer_pulumi.importers.modelplane.engines import carry_engine
from fusioninfer_pulumi.importers.modelplane.models import (
    EarlySpec,
    Mode,
    Phase,
    ReleasedSpec,
    Replica,
)
from fusioninfer_pulumi.importers.modelplane.shared import carry_replicas, reserved

PREFIX = "modelplane.ai/"


def carry_released(carrier: Carrier, spec: ReleasedSpec, caches: Caches) -> None:
    """Carries a deployment of 0.2 and later over.

    Args:
        carrier: The service that stands for it.
        spec: Its spec.
        caches: The ModelCaches of the input.
    """
    carry_metadata(carrier, carrier.main)
    at = carrier.main.at("spec", "template")
    labels = (spec.template.metadata.labels if spec.template.metadata else None) or {}
    if not labels:
        carrier.book.read(at / "metadata")
    for key, value in labels.items():
        place = at / "metadata" / "labels" / key
        target = ("metadata", "labels", key)
        held = carrier.held(target)
        if key.startswith(PREFIX):
            reserved(carrier.book, place)
        elif held not in (None, value):
            carrier.book.lost(
                place, f"a service has one set of labels, metadata.labels says {held}"
            )
        else:
            carrier.put(target, value, place)
    _replica(carrier, spec.template.spec, at / "spec", spec.replicas, caches)


def carry_early(carrier: Carrier, spec: EarlySpec, caches: Caches) -> None:
    """Carries a deployment of 0.1 over.

    Args:
        carrier: The service that stands for it.
        spec: Its spec.
        caches: The ModelCaches of the input.
    """
    carry_metadata(carrier, carrier.main)
    _replica(carrier, spec, carrier.main.at("spec"), spec.replicas, caches)


def _replica(carrier: Carrier, replica: Replica, at: At, replicas: int, caches: Caches) -> None:
    book = carrier.book
    mode = replica.serving.mode if replica.serving is not None else Mode.UNIFIED
    pairs = mode is Mode.PREFILL_DECODE
    book.read(at / "serving" / "mode")
    _phases(carrier, replica, at, pairs=pairs)
    carrier.origin(("spec", "roles"), at / "engines")
    for index, engine in enumerate(replica.engines):
        carry_engine(carrier, engine, at / "engines" / index, pairs=pairs)
    if pairs:
        carrier.role(at / "serving")
        router = ("spec", "roles", len(carrier.roles) - 1)
        carrier.derive((*router, "name"), "router", at / "serving" / "mode")
        carrier.derive((*router, "componentType"), "router", at / "serving" / "mode")
    carry_replicas(carrier, replicas)
    carry_cluster(carrier, replica.cluster_selector, at / "clusterSelector")
    carry_tolerations(carrier, replica.tolerations, at / "tolerations")
    carry_cache(carrier, replica.model_cache_ref, at / "modelCacheRef", caches)


def _phases(carrier: Carrier, replica: Replica, at: At, *, pairs: bool) -> None:
    book, phases = carrier.book, [engine.phase for engine in replica.engines]
    if not pairs:
        for index, phase in enumerate(phases):
            if phase is not None:
                book.refuse(at / "engines" / index / "phase", "needs serving.mode PrefillDecode")
        return
    if len(phases) != 2:
        book.refuse(
            at / "engines",
            f"serving.mode PrefillDecode needs two engines, one of phase Prefill and one of phase "
            f"Decode, got {len(phases)}",
        )
        return
    missing = [phase.value for phase in Phase if phase not in phases]
    if missing:
        book.refuse(
            at / "engines",
            f"serving.mode PrefillDecode needs an engine of phase {' and one of '.join(missing)}",
        )
