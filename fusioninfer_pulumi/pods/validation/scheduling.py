"""Rules about tolerations, affinity, topology spread and gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pods.validation._values import (
    DNS_LABEL,
    OBJECT_NAME,
    QUALIFIED_NAME,
    Check,
    between,
    each,
    fields,
    formatted,
    given,
    known,
    listed,
    mappings,
    number,
    one_of,
    text,
)
from fusioninfer_pulumi.pods.validation.metadata import (
    label_key,
    label_selector,
    label_value,
    operator_findings,
)
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, UNKNOWN_VALUE

TOLERATION_WITHOUT_KEY = Rule(
    "toleration-without-key",
    "error",
    "A toleration without a key has `operator: Exists`.",
    remedy="Name a key, or use `Exists`.",
    source="Kubernetes API validation",
)
TOLERATION_SECONDS_WITHOUT_EFFECT = Rule(
    "toleration-seconds-without-effect",
    "error",
    "`tolerationSeconds` belongs to effect NoExecute.",
    remedy="Remove it, or set the effect.",
    source="Kubernetes API validation",
)
TOLERATION_VALUE_WITH_EXISTS = Rule(
    "toleration-value-with-exists",
    "error",
    "A toleration with operator Exists has no value.",
    remedy="Remove it.",
    source="Kubernetes API validation",
)
NODE_TERMS_MISSING = Rule(
    "node-terms-missing",
    "error",
    "Node affinity has a term.",
    remedy="Add one, or remove it.",
    source="Kubernetes API validation",
)
LABEL_KEYS_WITHOUT_SELECTOR = Rule(
    "label-keys-without-selector",
    "error",
    "Label keys stand beside a label selector.",
    remedy="Add `labelSelector`.",
    source="Kubernetes API validation",
)
LABEL_KEY_CONTRADICTS = Rule(
    "label-key-contradicts",
    "error",
    "A label key is not matched and mismatched.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
LABEL_KEY_SELECTED_TWICE = Rule(
    "label-key-selected-twice",
    "error",
    "A label key is not in the selector, too.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
MINIMUM_DOMAINS_NOT_REQUIRED = Rule(
    "minimum-domains-not-required",
    "error",
    "`minDomains` belongs to DoNotSchedule.",
    remedy="Remove it, or change `whenUnsatisfiable`.",
    source="Kubernetes API validation",
)
SPREAD_TWICE = Rule(
    "spread-twice",
    "error",
    "A topology key is spread over once.",
    remedy="Remove one of them.",
)


def _toleration(at: Location, toleration: Mapping[str, Any]) -> Iterator[Finding]:
    operator, value = toleration.get("operator"), toleration.get("value")
    if is_output(operator):
        return
    if not given(toleration.get("key")) and operator != "Exists":
        message = "must be Exists without a key, which tolerates everything; or name a key"
        yield error(TOLERATION_WITHOUT_KEY, (*at, "operator"), message)
    effect = toleration.get("effect")
    ending = toleration.get("tolerationSeconds") is not None
    if ending and effect != "NoExecute" and not is_output(effect):
        message = f"must be NoExecute with tolerationSeconds, got {shown(effect)}"
        yield error(TOLERATION_SECONDS_WITHOUT_EFFECT, (*at, "effect"), message)
    if operator == "Exists" and given(value):
        message = "must be empty with operator Exists; remove it"
        yield error(TOLERATION_VALUE_WITH_EXISTS, (*at, "value"), message)
    elif operator in (None, "", "Equal"):
        yield from label_value((*at, "value"), value)


def _toleration_key(at: Location, value: Any) -> Iterator[Finding]:
    if value:
        yield from label_key(at, value)


#: The `tolerations` of a pod. `Lt` and `Gt` are behind a feature gate since 1.35.
tolerations = each(
    fields(
        {
            "key": _toleration_key,
            "operator": one_of("Equal", "Exists", "Lt", "Gt"),
            "effect": one_of("NoSchedule", "PreferNoSchedule", "NoExecute"),
        },
        _toleration,
    )
)


def _label_requirement(at: Location, value: Mapping[str, Any]) -> Iterator[Finding]:
    yield from operator_findings(
        at, value, ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")
    )


def _field_requirement(at: Location, value: Mapping[str, Any]) -> Iterator[Finding]:
    yield from operator_findings(at, value, (), (), ("In", "NotIn"))
    key = value.get("key")
    if key != "metadata.name" and not is_output(key):
        yield error(UNKNOWN_VALUE, (*at, "key"), f"must be metadata.name, got {shown(key)}")


def _node_term(*, required: bool) -> Check:
    values: Mapping[str, Check] = {"values": each(label_value)} if required else {}
    return fields(
        {
            "matchExpressions": each(fields({"key": label_key, **values}, _label_requirement)),
            "matchFields": each(
                fields({"values": each(formatted(OBJECT_NAME))}, _field_requirement)
            ),
        }
    )


def _has_terms(at: Location, selector: Mapping[str, Any]) -> Iterator[Finding]:
    terms = selector.get("nodeSelectorTerms")
    if not is_output(terms) and not terms:
        message = "must hold at least one term; remove the affinity to allow any node"
        yield error(NODE_TERMS_MISSING, (*at, "nodeSelectorTerms"), message)


def _label_keys(at: Location, term: Mapping[str, Any]) -> Iterator[Finding]:
    selector = term.get("labelSelector")
    if is_output(selector):
        return
    matching = listed(term.get("matchLabelKeys"))
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = listed(term.get(field))
        if keys and selector is None:
            yield error(LABEL_KEYS_WITHOUT_SELECTOR, (*at, field), "needs a labelSelector")
            continue
        for index, key in enumerate(keys):
            yield from label_key((*at, field, index), key)
            if field == "mismatchLabelKeys" and key in matching:
                message = f"{shown(key)} is also in matchLabelKeys; remove one"
                yield error(LABEL_KEY_CONTRADICTS, (*at, field, index), message)


def keys_selected_twice(
    at: Location, spec: Mapping[str, Any], labels: Mapping[str, Any]
) -> Iterator[Finding]:
    """Checks `matchLabelKeys` of all terms against their selectors.

    The API server adds a requirement for each key that is a label of the pod, and refuses a key
    that was there.
    """
    for place, term in _terms(spec):
        selector = known(term.get("labelSelector"))
        taken = {str(key) for key in known(selector.get("matchLabels"))}
        expressions = selector.get("matchExpressions")
        taken |= {text(each.get("key")) for _, each in mappings(expressions)}
        for index, key in enumerate(listed(term.get("matchLabelKeys"))):
            if key in taken and key in labels:
                where = (*at, *place, "matchLabelKeys", index)
                message = f"{shown(key)} is also in labelSelector; remove one of them"
                yield error(LABEL_KEY_SELECTED_TWICE, where, message)


def _terms(spec: Mapping[str, Any]) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    for index, term in mappings(spec.get("topologySpreadConstraints")):
        yield ("topologySpreadConstraints", index), term
    for kind in ("podAffinity", "podAntiAffinity"):
        held = known(known(spec.get("affinity")).get(kind))
        for index, term in mappings(held.get(_REQUIRED)):
            yield ("affinity", kind, _REQUIRED, index), term
        for index, weighted in mappings(held.get(_PREFERRED)):
            place = ("affinity", kind, _PREFERRED, index, "podAffinityTerm")
            yield place, known(weighted.get("podAffinityTerm"))


def _topology_key(at: Location, term: Mapping[str, Any]) -> Iterator[Finding]:
    if not given(term.get("topologyKey")):
        yield error(FIELD_REQUIRED, (*at, "topologyKey"), "is required")


_POD_TERM = fields(
    {
        "labelSelector": label_selector,
        "namespaceSelector": label_selector,
        "namespaces": each(formatted(DNS_LABEL)),
        "topologyKey": lambda at, value: label_key(at, value) if value else iter(()),
    },
    _label_keys,
    _topology_key,
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = between(1, 100)


def _weighted(key: str, term: Check) -> Check:
    return each(fields({"weight": _WEIGHT, key: term}, required=("weight",)))


_POD_AFFINITY = fields(
    {_REQUIRED: each(_POD_TERM), _PREFERRED: _weighted("podAffinityTerm", _POD_TERM)}
)
#: The `affinity` of a pod.
affinity = fields(
    {
        "nodeAffinity": fields(
            {
                _REQUIRED: fields(
                    {"nodeSelectorTerms": each(_node_term(required=True))}, _has_terms
                ),
                _PREFERRED: _weighted("preference", _node_term(required=False)),
            }
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)

_POLICY = one_of("Honor", "Ignore")


def _minimum(at: Location, constraint: Mapping[str, Any]) -> Iterator[Finding]:
    action = constraint.get("whenUnsatisfiable")
    minimum = number(constraint.get("minDomains"))
    if minimum is not None and action != "DoNotSchedule" and not is_output(action):
        message = f"needs whenUnsatisfiable DoNotSchedule, got {shown(action)}"
        yield error(MINIMUM_DOMAINS_NOT_REQUIRED, (*at, "minDomains"), message)


_CONSTRAINT = fields(
    {
        "maxSkew": between(1),
        "whenUnsatisfiable": one_of("DoNotSchedule", "ScheduleAnyway"),
        "minDomains": between(1),
        "nodeAffinityPolicy": _POLICY,
        "nodeTaintsPolicy": _POLICY,
        "labelSelector": label_selector,
    },
    _minimum,
    _label_keys,
    required=("maxSkew", "topologyKey", "whenUnsatisfiable"),
)


def spread_findings(at: Location, constraints: Any) -> Iterator[Finding]:
    """Checks the topology spread of a pod."""
    seen: set[tuple[str, str]] = set()
    for index, constraint in mappings(constraints):
        yield from _CONSTRAINT((*at, index), constraint)
        key = (text(constraint.get("topologyKey")), text(constraint.get("whenUnsatisfiable")))
        if all(key) and key in seen:
            message = f"{key[0]} with {key[1]} is there already; remove one of them"
            yield error(SPREAD_TWICE, (*at, index), message)
        seen.add(key)


#: The `schedulingGates` of a pod.
gates = each(fields({"name": formatted(QUALIFIED_NAME)}, required=("name",)))
#: The `readinessGates` of a pod.
readiness_gates = each(
    fields({"conditionType": formatted(QUALIFIED_NAME)}, required=("conditionType",))
)
