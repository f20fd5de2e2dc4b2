"""The choice among clusters.

Modelplane's controller chooses a cluster for each replica. A service of ours is in the one of its
Pulumi provider or kubectl context: whoever applies it makes the choice. What the documents say of
it stands on the objects, so that it can be held against that cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At
from fusioninfer_pulumi.importers.modelplane.models import MatchLabels
from fusioninfer_pulumi.kube import labels

_SELECTOR = ("metadata", "annotations", labels.CLUSTER_SELECTOR)
_TOLERATIONS = ("metadata", "annotations", labels.CLUSTER_TOLERATIONS)


def carry_cluster(carrier: Carrier, selector: MatchLabels | None, at: At) -> None:
    """Carries the labels that a cluster must have over.

    Args:
        carrier: The service.
        selector: The labels.
        at: Where they stand.
    """
    if selector is None:
        return
    choose(carrier, selector.match_labels or {}, at / "matchLabels")
    carrier.book.note(
        at,
        "is carried into an annotation: a service is in the cluster of its Pulumi provider or "
        "kubectl context, which must be one of these",
    )


def choose(carrier: Carrier, wanted: Mapping[str, str], at: At) -> None:
    """Adds labels that a cluster must have to those that were asked for already.

    Args:
        carrier: The service.
        wanted: The labels.
        at: Where each of them stands, by its key.
    """
    held = _chosen(carrier)
    for key, value in wanted.items():
        if held.get(key, value) != value:
            carrier.book.refuse(
                at / key,
                f"no cluster can be both {key}={held[key]}, as is asked for elsewhere,"
                f" and {key}={value}",
            )
            continue
        held[key] = value
        text = ",".join(f"{name}={chosen}" for name, chosen in sorted(held.items()))
        carrier.derive(_SELECTOR, text, at / key)


def contradiction(one: Carrier, other: Carrier) -> str | None:
    """Why two services cannot be in one cluster: the label of which each wants another value."""
    wanted, also = _chosen(one), _chosen(other)
    return next((key for key in wanted if also.get(key, wanted[key]) != wanted[key]), None)


def _chosen(carrier: Carrier) -> dict[str, str]:
    text = str(carrier.held(_SELECTOR) or "")
    return dict(each.split("=", 1) for each in text.split(",") if "=" in each)


def carry_tolerations(
    carrier: Carrier, tolerations: Sequence[Mapping[str, Any]] | None, at: At
) -> None:
    """Carries the tolerated taints of clusters over.

    Args:
        carrier: The service.
        tolerations: What is tolerated.
        at: Where it stands.
    """
    if not tolerations:
        return
    text = json.dumps([dict(each) for each in tolerations], sort_keys=True)
    carrier.derive(_TOLERATIONS, text, at)
    carrier.book.note(
        at,
        "is about taints of clusters, and carried into an annotation; tolerations of nodes stand "
        "in the pod templates",
    )
