"""Checks pod specs against a pool's labels and taints, and restricts specs to a pool.

Only node selectors, required node affinity and tolerations matter ("Assigning Pods to Nodes"
and "Taints and Tolerations"). Preferences are ignored, because the scheduler need not respect them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.plugins.capacity import (
    InventoryArgs,
    Location,
    NodePoolArgs,
    TaintArgs,
    TaintEffect,
    is_accelerator,
    output_paths,
    quote_value,
)

#: Fields of a pod spec that restrict its nodes.
NODE_FIELDS = ("nodeSelector", "affinity", "tolerations", "nodeName")


def find_outputs(spec: Mapping[str, Any]) -> Iterator[Location]:
    """Yield the locations of Outputs in fields that restrict nodes."""
    for key in NODE_FIELDS:
        if key == "affinity":
            affinity = spec.get(key)
            node = affinity.get("nodeAffinity") if isinstance(affinity, Mapping) else affinity
            yield from output_paths(node, ("affinity", "nodeAffinity"))
        else:
            yield from output_paths(spec.get(key), (key,))


def find_mismatches(spec: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield why the spec keeps a pod away from nodes with these labels, or might do so."""
    if spec.get("nodeName"):
        node = quote_value(spec["nodeName"])
        yield f"nodeName {node} selects a node, and inventories list only pools"
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            yield f"nodeSelector requires {key}={value}, {_describe_label(key, labels)}"
    required = (
        ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
    ) or {}
    terms = required.get("nodeSelectorTerms") or []
    if required and not any(_is_term_met(term, labels) for term in terms):
        alternatives = " or ".join(map(_format_term, terms))
        requirement = f"requires {alternatives}" if terms else "has no terms: it matches no node"
        yield f"node affinity {requirement}"


def find_untolerated(spec: Mapping[str, Any], taints: Iterable[TaintArgs]) -> Iterator[TaintArgs]:
    """Yield the taints that keep a pod away."""
    tolerations = spec.get("tolerations") or ()
    for taint in taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not any(
            _is_tolerated(toleration, taint) for toleration in tolerations
        ):
            yield taint


def is_tolerated_by_admission(taint: TaintArgs) -> bool:
    """Return whether pods tolerate a taint without a toleration in their template.

    Providers taint accelerator nodes with a resource name, such as `nvidia.com/gpu`. The admission
    plugin ExtendedResourceToleration adds a NoSchedule toleration to pods that request it.
    """
    return is_accelerator(taint.key) and taint.effect is TaintEffect.NO_SCHEDULE


def select_pool(
    spec: Mapping[str, Any], pool: NodePoolArgs, inventory: InventoryArgs
) -> dict[str, Any]:
    """Return a pod spec that also selects a pool and tolerates its taints."""
    key = inventory.selector_label
    assert key is not None, "an inventory without a label is rejected"
    selector = {**(spec.get("nodeSelector") or {}), key: inventory.selector_value(pool)}
    selected = {**spec, "nodeSelector": selector}
    added = [_make_toleration(taint) for taint in find_untolerated(spec, pool.taints)]
    if added:
        selected["tolerations"] = [*(spec.get("tolerations") or ()), *added]
    return selected


def format_taint(taint: TaintArgs) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect.value}"


def _make_toleration(taint: TaintArgs) -> dict[str, str]:
    equal = {"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}
    return {"key": taint.key, **equal, "effect": taint.effect.value}


def _is_tolerated(toleration: Mapping[str, Any], taint: TaintArgs) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect.value):
        return False
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key"):
        return bool(operator == "Exists")
    if toleration["key"] != taint.key:
        return False
    return bool(operator == "Exists" or (toleration.get("value") or "") == taint.value)


def _is_term_met(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions") or []
    # `matchFields` selects node names, which no inventory has. An empty term matches no node.
    if term.get("matchFields") or not expressions:
        return False
    return all(_is_met(expression, labels) for expression in expressions)


def _is_met(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.get("key", ""))
    values = list(expression.get("values") or ())
    operator = expression.get("operator")
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    try:
        if value is None or len(values) != 1:
            return False
        if operator == "Gt":
            return int(value) > int(values[0])
        return operator == "Lt" and int(value) < int(values[0])
    except ValueError:
        return False


def _describe_label(key: str, labels: Mapping[str, str]) -> str:
    return f"has {key}={labels[key]}" if key in labels else "has no such label"


def _format_term(term: Mapping[str, Any]) -> str:
    parts = [
        " ".join(
            str(part)
            for part in (
                expression.get("key"),
                expression.get("operator"),
                ",".join(expression.get("values") or ()),
            )
            if part
        )
        for expression in term.get("matchExpressions") or ()
    ]
    if term.get("matchFields"):
        parts.append("a node by its name, which an inventory does not list")
    return " and ".join(parts) or "an empty term, which matches no node"
