"""A difference as JSON, for programs."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.cli.diff.records import (
    Difference,
    FieldChange,
    ObjectChange,
    RoleEffect,
    ServiceTotals,
)


def to_json(difference: Difference) -> dict[str, Any]:
    """Builds the JSON form; its keys are a contract.

    Args:
        difference: What `compare` found.

    Returns:
        `different` (whether anything is), `objects`, `effects`, `notes` and `totals`, with the
        fields of the records in camelCase; pairs are objects with `before` and `after`.
    """
    return {
        "different": bool(difference),
        "objects": [_object(change) for change in difference.objects],
        "effects": [_effect(effect) for effect in difference.effects],
        "notes": list(difference.notes),
        "totals": [_totals(totals) for totals in difference.totals],
    }


def _object(change: ObjectChange) -> dict[str, Any]:
    return {
        "apiVersion": change.api_version,
        "kind": change.kind,
        "namespace": change.namespace,
        "name": change.name,
        "action": change.action,
        "fields": [_field(field) for field in change.fields],
    }


def _field(change: FieldChange) -> dict[str, Any]:
    # Both values always stand there; `kind` tells an absent one from null.
    return {"path": change.path, "kind": change.kind, "old": change.old, "new": change.new}


def _effect(effect: RoleEffect) -> dict[str, Any]:
    return {
        "service": effect.service,
        "namespace": effect.namespace,
        "role": effect.role,
        "kind": effect.kind,
        "replicas": {"before": effect.replicas_before, "after": effect.replicas_after},
        "restarts": list(effect.restarts),
        "added": list(effect.added),
        "removed": list(effect.removed),
        "kept": list(effect.kept),
        "reason": effect.reason,
        "order": [
            {
                "replicas": list(stage.replicas),
                "atATime": stage.at_a_time,
                "groups": stage.groups,
                "atMost": stage.at_most,
            }
            for stage in effect.order
        ],
        "after": list(effect.after),
        "held": list(effect.held),
    }


def _totals(totals: ServiceTotals) -> dict[str, Any]:
    return {
        "service": totals.service,
        "namespace": totals.namespace,
        "pods": {"before": totals.pods_before, "after": totals.pods_after},
        "accelerators": {
            "before": totals.accelerators_before,
            "after": totals.accelerators_after,
        },
    }
