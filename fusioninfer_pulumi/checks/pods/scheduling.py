"""What API validation refuses of labels, tolerations, affinity and spreading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.checks.pods._values import (
    LABEL_VALUE,
    QUALIFIED_NAME,
    Check,
    between,
    fields,
    given,
    items,
    known,
    one_of,
)
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, INVALID_FORMAT

INVALID_TOLERATION = Rule(
    "invalid-toleration",
    "error",
    "A toleration without a key has `operator: Exists`, and one with that operator no value.",
    remedy="Name a key, or remove the value.",
)


def label_key(at: Location, value: Any) -> Iterator[Finding]:
    """The key of a label."""
    if isinstance(value, str) and not QUALIFIED_NAME.fits(value):
        message = f"{shown(value)} is no valid Kubernetes label or annotation key"
        yield error(INVALID_FORMAT, at, message)


def label_value(at: Location, value: Any) -> Iterator[Finding]:
    """The value of a label."""
    if isinstance(value, str) and not LABEL_VALUE.fits(value):
        message = f"must be {LABEL_VALUE.kind}, got {shown(value)}"
        yield error(INVALID_FORMAT, at, message)


def label_map(at: Location, value: Any) -> Iterator[Finding]:
    """Labels with their values."""
    for key, part in known(value).items():
        here = (*at, str(key))
        yield from label_key(here, key)
        yield from label_value(here, part)


def _expressions(*operators: str) -> Check:
    operator = one_of("In", "NotIn", "Exists", "DoesNotExist", *operators)
    return items(fields({"key": label_key, "operator": operator, "values": items(label_value)}))


_SELECTOR = fields({"matchLabels": label_map, "matchExpressions": _expressions()})


def _toleration(at: Location, toleration: Mapping[str, Any]) -> Iterator[Finding]:
    operator, value = toleration.get("operator"), toleration.get("value")
    if is_output(operator):
        return
    if not given(toleration.get("key")) and operator != "Exists":
        message = "must be Exists without a key, which tolerates everything; or name a key"
        yield error(INVALID_TOLERATION, (*at, "operator"), message)
    if operator == "Exists" and given(value):
        message = "must be empty with operator Exists; remove it"
        yield error(INVALID_TOLERATION, (*at, "value"), message)
    elif operator in (None, "", "Equal"):
        yield from label_value((*at, "value"), value)


def _toleration_key(at: Location, value: Any) -> Iterator[Finding]:
    if value:
        yield from label_key(at, value)


#: The `tolerations` of a pod. `Lt` and `Gt` are behind a feature gate since 1.35.
tolerations = items(
    fields(
        {
            "key": _toleration_key,
            "operator": one_of("Equal", "Exists", "Lt", "Gt"),
            "effect": one_of("NoSchedule", "PreferNoSchedule", "NoExecute"),
        },
        _toleration,
    )
)


def _topology_key(at: Location, term: Mapping[str, Any]) -> Iterator[Finding]:
    if not given(term.get("topologyKey")):
        yield error(FIELD_REQUIRED, (*at, "topologyKey"), "is required")


_POD_TERM = fields({"labelSelector": _SELECTOR}, _topology_key)
_NODE_TERM = fields({"matchExpressions": _expressions("Gt", "Lt")})
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = between(1, 100)


def _weighted(key: str, term: Check) -> Check:
    return items(fields({"weight": _WEIGHT, key: term}, required=("weight",)))


_POD_AFFINITY = fields(
    {_REQUIRED: items(_POD_TERM), _PREFERRED: _weighted("podAffinityTerm", _POD_TERM)}
)
#: The `affinity` of a pod.
affinity = fields(
    {
        "nodeAffinity": fields(
            {
                _REQUIRED: fields({"nodeSelectorTerms": items(_NODE_TERM)}),
                _PREFERRED: _weighted("preference", _NODE_TERM),
            }
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)
#: The `topologySpreadConstraints` of a pod.
spread = items(
    fields(
        {
            "maxSkew": between(1),
            "whenUnsatisfiable": one_of("DoNotSchedule", "ScheduleAnyway"),
            "labelSelector": _SELECTOR,
        },
        required=("maxSkew", "topologyKey", "whenUnsatisfiable"),
    )
)
