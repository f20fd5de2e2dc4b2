"""Rules of a router role that hold whatever the rest of the service is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.pod_template import MISSING, pod_template_problems, resource_problems
from fusioninfer_pulumi.api.problem import Problem
from fusioninfer_pulumi.api.role import RoleArgs, Strategy
from fusioninfer_pulumi.api.route import gateway_problems, httproute_problems
from fusioninfer_pulumi.api.router import EndpointPickerArgs, NetworkPolicyArgs, leaf_problems
from fusioninfer_pulumi.findings import Location, shown
from fusioninfer_pulumi.kube import labels

#: Name of the picker's container, under which a template overrides it.
PICKER_CONTAINER = "epp"


_ELSEWHERE = {
    "ports": "the picker's ports are fixed; remove it",
    "args": "stands in endpointPicker.args; remove it here",
    "image": "stands in endpointPicker.image; remove it here",
    "resources": "stands in endpointPicker.resources; remove it here",
}


def router_problems(at: Location, role: RoleArgs) -> Iterator[Problem]:
    """Checks a router role.

    Args:
        at: Where it stands.
        role: The role, well-formed field by field.

    Yields:
        Every problem.
    """
    if role.endpoint_picker_config is not None:
        for key, value in (("strategy", role.strategy), ("scorers", role.scorers)):
            if value is not None:
                yield Problem(
                    (*at, key), "endpointPickerConfig stands in its place; give one or the other"
                )
    if role.endpoint_picker is not None:
        yield from _picker((*at, "endpointPicker"), role.endpoint_picker, role)
    if role.httproute is not None:
        yield from httproute_problems((*at, "httproute"), role.httproute)
    if role.gateway is not None:
        yield from gateway_problems((*at, "gateway"), role.gateway)
        if (
            role.httproute is not None
            and role.httproute.elsewhere is not None
            and role.gateway.refs is None
            and role.gateway.model_fields_set != {"implementation"}
        ):
            yield Problem(
                (*at, "gateway"),
                f"would be a Gateway without a route (httproute.{role.httproute.elsewhere}); "
                "remove it, or leave implementation alone, or give refs",
            )
        if role.gateway.refs and role.httproute is not None and role.httproute.parent_refs:
            yield Problem(
                (*at, "httproute", "parentRefs"),
                "follow from gateway.refs; give one or the other",
            )
    if role.network_policy is not None:
        yield from _peers((*at, "networkPolicy"), role.network_policy)


def _picker(at: Location, picker: EndpointPickerArgs, role: RoleArgs) -> Iterator[Problem]:
    if isinstance(picker.image, str) and (not picker.image or " " in picker.image):
        yield Problem(
            (*at, "image"), f"must be an image reference, got {shown(picker.image)}", picker.image
        )
    other = role.endpoint_picker_config is not None or role.strategy not in (
        None,
        Strategy.PD_DISAGGREGATION,
    )
    if picker.threshold is not None and other:
        yield Problem(
            (*at, "threshold"),
            f"is the threshold of {Strategy.PD_DISAGGREGATION.value}; remove it, or choose that",
        )
    if picker.tls.secret_name is not None and not picker.tls.enabled:
        yield Problem((*at, "tls", "secretName"), "has no effect without TLS; remove it")
    if picker.resources is not None:
        yield from leaf_problems((*at, "resources"), picker.resources)
        yield from resource_problems((*at, "resources"), picker.resources)
    if picker.template is not None:
        yield from _template((*at, "template"), picker.template)


def _template(at: Location, template: Mapping[str, Any]) -> Iterator[Problem]:
    """Checks the overrides as the whole template that they become a part of."""
    for index, container in _own_containers(template):
        for key, why in _ELSEWHERE.items():
            if key in container:
                yield Problem((*at, "spec", "containers", index, key), why)
    metadata = template.get("metadata")
    own = metadata.get("labels") if isinstance(metadata, Mapping) else None
    if isinstance(own, Mapping) and labels.APP in own:
        yield Problem(
            (*at, "metadata", "labels", labels.APP), "is set by fusioninfer-pulumi; remove it"
        )
    spec = {} if template.get("spec") is None else template["spec"]
    whole = {**template, "spec": _with_picker(spec) if isinstance(spec, Mapping) else spec}
    for problem in pod_template_problems(at, whole, None):
        # What only our stand-in for the generated container has is no problem of the user's.
        ours = isinstance(spec, Mapping) and "containers" not in spec
        if ours and "containers" in problem.location:
            continue
        # The generated template may state what an override of an item leaves out.
        if problem.message == MISSING and problem.location[-1] != "name":
            continue
        yield problem


def _own_containers(template: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    spec = template.get("spec")
    listed = spec.get("containers") if isinstance(spec, Mapping) else None
    for index, container in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(container, Mapping) and container.get("name") == PICKER_CONTAINER:
            yield index, container


def _with_picker(spec: Mapping[str, Any]) -> dict[str, Any]:
    generated = {"name": PICKER_CONTAINER, "image": "generated"}
    listed = spec.get("containers")
    if listed is None:
        return {**spec, "containers": [generated]}
    if not isinstance(listed, list):
        return dict(spec)
    return {
        **spec,
        "containers": [
            {**generated, **item}
            if isinstance(item, Mapping) and item.get("name") == PICKER_CONTAINER
            else item
            for item in listed
        ],
    }


_PEER_KEYS = ("podSelector", "namespaceSelector", "ipBlock")


def _peers(at: Location, policy: NetworkPolicyArgs) -> Iterator[Problem]:
    for field, peers in (("gateway", policy.gateway), ("metrics", policy.metrics or [])):
        for index, peer in enumerate(peers):
            here = (*at, field, index)
            yield from leaf_problems(here, peer)
            if not peer:
                # An empty peer is refused by the API server; an empty list would match everybody.
                yield Problem(here, f"must hold one of {', '.join(_PEER_KEYS)}")
            for key in peer:
                if key not in _PEER_KEYS:
                    yield Problem((*here, key), f"unknown key; allowed: {', '.join(_PEER_KEYS)}")
