"""Converts requirements on the cluster of a service.

Modelplane's controller chooses a cluster for each replica. Our service is in the cluster of its
Pulumi provider or kubectl context. So the requirements become annotations of the service.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.modelplane.models import MatchLabels
from fusioninfer_pulumi.plugins.importers import SourceField, labels

_SELECTOR = ("metadata", "annotations", labels.CLUSTER_SELECTOR)
_TOLERATIONS = ("metadata", "annotations", labels.CLUSTER_TOLERATIONS)


def convert_cluster(
    builder: ServiceBuilder, selector: MatchLabels | None, field: SourceField
) -> None:
    """Convert the labels that a cluster must have."""
    if selector is None:
        return
    require_labels(builder, selector.match_labels or {}, field / "matchLabels")
    builder.report.translated(
        field,
        "becomes an annotation; the Pulumi provider or the kubectl context must point to one of "
        "these clusters",
    )


def require_labels(
    builder: ServiceBuilder, match_labels: Mapping[str, str], field: SourceField
) -> None:
    """Add labels that a cluster must have; `field` has a subfield for each of them, by key."""
    required = _read_required_labels(builder)
    for key, value in match_labels.items():
        if required.get(key, value) != value:
            builder.report.invalid(
                field / key,
                f"{key}={value} conflicts with {key}={required[key]}; no cluster has both",
            )
            continue
        required[key] = value
        text = ",".join(f"{name}={label}" for name, label in sorted(required.items()))
        builder.derive(_SELECTOR, text, field / key)


def find_conflicting_label(first: ServiceBuilder, second: ServiceBuilder) -> str | None:
    """Return a label for which two services need different clusters; None if there is none."""
    labels_a, labels_b = _read_required_labels(first), _read_required_labels(second)
    return next(
        (key for key in labels_a if labels_b.get(key, labels_a[key]) != labels_a[key]), None
    )


def _read_required_labels(builder: ServiceBuilder) -> dict[str, str]:
    text = str(builder.get(_SELECTOR) or "")
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def convert_tolerations(
    builder: ServiceBuilder, tolerations: Sequence[Mapping[str, Any]] | None, field: SourceField
) -> None:
    """Convert the tolerated taints of clusters."""
    if not tolerations:
        return
    text = json.dumps([dict(toleration) for toleration in tolerations], sort_keys=True)
    builder.derive(_TOLERATIONS, text, field)
    builder.report.translated(
        field,
        "becomes an annotation, because it concerns clusters; set tolerations for nodes in the "
        "pod templates",
    )
