"""Checks of finished pod templates: credentials, and mistakes that the API server rejects.

The JSON Schema `schemas/pod_template.json` has the constraints of single fields. This module checks
constraints between fields, quantities and resource names. A server-side dry run
(`checks/server_dry_run.py`) finds violations of other constraints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.model import ModelArgs
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, quote_value, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.resource_requests import is_extended, suggest_accelerator
from fusioninfer_pulumi.pods.credentials import find_credential_arguments, is_credential
from fusioninfer_pulumi.pods.pod import Context, RolePods
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.rules.common import (
    FIELD_OUT_OF_PLACE,
    NAME_NOT_FOUND,
    OUT_OF_RANGE,
    WRONG_TYPE,
)
from fusioninfer_pulumi.schemas.schema_check import pod_field_findings


def check_template(template: Mapping[str, Any]) -> Iterator[Finding]:
    """Check a finished pod template of a StatefulSet; locations are relative to it."""
    yield from pod_field_findings(template)
    spec = as_mapping(template.get("spec"))
    volumes, claims = _list_names(spec, "volumes"), _list_names(spec, "resourceClaims")
    for key in ("initContainers", "containers"):
        for index, container in enumerate_mappings(spec.get(key)):
            location: Location = ("spec", key, index)
            resources = as_mapping(container.get("resources"))
            yield from _check_requirements((*location, "resources"), resources)
            for position, claim in enumerate_mappings(resources.get("claims")):
                claim_location = (*location, "resources", "claims", position)
                yield from check_name_exists(claim_location, claim, claims, "claim")
            for position, mount in enumerate_mappings(container.get("volumeMounts")):
                yield from check_name_exists(
                    (*location, "volumeMounts", position), mount, volumes, "volume"
                )
    if isinstance(spec.get("activeDeadlineSeconds"), int):
        message = "is not supported for pods of a StatefulSet, which runs the replicas; remove it"
        yield error(FIELD_OUT_OF_PLACE, ("spec", "activeDeadlineSeconds"), message)


def _list_names(spec: Mapping[str, Any], key: str) -> set[str] | None:
    """Return the names of a list's items, or None if the list, an item or a name is an Output."""
    value = spec.get(key)
    if is_output(value) or any(
        is_output(item) or is_output(as_mapping(item).get("name")) for item in as_list(value)
    ):
        return None
    return {as_text(item.get("name")) for _, item in enumerate_mappings(value)} - {""}


REQUESTS_AND_LIMITS = Rule("requests-and-limits")
UNKNOWN_RESOURCE = Rule("unknown-resource")

_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"

#: Fields of the pod spec by the kind of their items.
_LIST_FIELDS = {"volume": "volumes", "claim": "resourceClaims"}


def as_text(value: Any) -> str:
    """Return a string unchanged; for any other value, such as an Output, return an empty string."""
    return value if isinstance(value, str) else ""


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping unchanged; for any other value return an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> Sequence[Any]:
    """Return a list or tuple unchanged; for any other value return an empty sequence."""
    return value if isinstance(value, (list, tuple)) else ()


def enumerate_mappings(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the items of a list that are mappings, with their indexes."""
    for index, item in enumerate(as_list(value)):
        if isinstance(item, Mapping):
            yield index, item


def check_name_exists(
    location: Location, item: Mapping[str, Any], names: Collection[str] | None, kind: str
) -> Iterator[Finding]:
    """Check that the pod has a volume or claim with the name that `item` refers to."""
    name = as_text(item.get("name"))
    if name and names is not None and name not in names:
        hint = f" (it has {', '.join(sorted(names))})" if names else ""
        message = (
            f"the pod has no {kind} {quote_value(name)}{hint}; add one to its {_LIST_FIELDS[kind]}"
        )
        yield error(NAME_NOT_FOUND, (*location, "name"), message)


def parse_amount(amount: Any) -> Decimal | None:
    """Return a quantity as a number, or None if it is invalid or unknown."""
    try:
        return quantity.parse(amount) if isinstance(amount, (str, int, float)) else None
    except ValueError:
        return None


def _check_requirements(location: Location, resources: Mapping[str, Any]) -> Iterator[Finding]:
    limits, requests = (as_mapping(resources.get(key)) for key in ("limits", "requests"))
    for key, section in (("limits", limits), ("requests", requests)):
        for name, amount in section.items():
            amount_location = (*location, key, name)
            # A name in both sections is reported once.
            if key == "limits" or name not in limits:
                yield from _check_resource_name(amount_location, name)
            yield from _check_amount(amount_location, name, amount)
    for name, amount in requests.items():
        request_location, request = (*location, "requests", name), parse_amount(amount)
        limit = parse_amount(limits.get(name))
        must_be_equal = is_extended(name) or name.startswith(_HUGE_PAGES)
        if must_be_equal and name not in limits:
            message = (
                f"must equal limits[{name}], which is not set; set it to {quote_value(amount)}"
            )
            yield error(REQUESTS_AND_LIMITS, request_location, message)
        if request is None or limit is None:
            continue
        if request > limit or (must_be_equal and request < limit):
            relation = "equal" if must_be_equal else "be at most"
            message = f"must {relation} limits[{name}] ({limits[name]}), got {quote_value(amount)}"
            yield error(REQUESTS_AND_LIMITS, request_location, message)


def _check_resource_name(location: Location, name: str) -> Iterator[Finding]:
    suggestion = suggest_accelerator(name)
    if "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith(_HUGE_PAGES):
        hint = "devices have a domain, such as nvidia.com/gpu"
        if suggestion is not None:
            hint = f"did you mean {suggestion}?"
        message = f"{quote_value(name)} is not a valid container resource; {hint}"
        yield error(UNKNOWN_RESOURCE, location, message)
    elif suggestion is not None:
        # A name that differs only in case or by a plural `s` is certainly a mistake.
        is_certain = name.lower().removesuffix("s") == suggestion.lower().removesuffix("s")
        message = f"unknown device, so no node has it; did you mean {suggestion}?"
        make_finding = error if is_certain else warning
        yield make_finding(UNKNOWN_RESOURCE, location, message)


def _check_amount(location: Location, name: str, amount: Any) -> Iterator[Finding]:
    value = parse_amount(amount)
    if value is None:
        return
    if value < 0:
        yield error(OUT_OF_RANGE, location, f"must be at least 0, got {quote_value(amount)}")
    elif is_extended(name) and value != value.to_integral_value():
        message = f"must be a whole number of devices, got {quote_value(amount)}"
        yield error(WRONG_TYPE, location, message)


CREDENTIAL_IN_PLAIN_TEXT = Rule("credential-in-plain-text")


def check_role_credentials(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Warn about credentials in the templates of a role."""
    for pod in pods.user_pods:
        yield from check_credentials(pod.path, pod.initial_template)


def check_credentials(location: Location, template: Mapping[str, Any]) -> Iterator[Finding]:
    """Warn about each literal credential in the variables and arguments of a template."""
    spec = template.get("spec") or {}
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            container_location = (*location, "spec", key, index)
            yield from check_variables(container_location, container.get("env") or ())
            for field in ("command", "args"):
                for position, name in find_credential_arguments(as_list(container.get(field))):
                    yield _report_credential(
                        (*container_location, field, position),
                        name,
                        ", and pass the variable as $(NAME)",
                    )


def check_variables(
    location: Location, variables: Iterable[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Warn about each literal credential among the variables of a container."""
    for index, variable in enumerate(variables):
        name = str(variable.get("name"))
        if is_credential(name, variable.get("value")):
            yield _report_credential((*location, "env", index, "value"), name)


def _report_credential(location: Location, name: str, advice: str = "") -> Finding:
    return warning(
        CREDENTIAL_IN_PLAIN_TEXT,
        location,
        f"{name} is a credential in plain text: anyone who can read pods can read it; store it in "
        "a Secret, and set a variable with valueFrom: {secretKeyRef: {name: ..., key: ...}}"
        f"{advice}",
    )


def check_pods(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Yield errors that the API server would report for pods."""
    for pod in pods.all:
        for finding in check_template(pod.template):
            # Generated labels are derived from names, which are checked elsewhere.
            metadata = as_mapping(pod.initial_template.get("metadata"))
            user_labels = as_mapping(metadata.get("labels"))
            is_label = finding.location[:2] == ("metadata", "labels")
            if not is_label or finding.location[-1] in user_labels:
                yield finding.with_prefix(*pod.path)


def check_fetcher_and_picker_credentials(
    model: ModelArgs | None, routing: Routing | None
) -> Iterator[Finding]:
    """Warn about credentials in the fetcher's variables and the endpoint picker's template."""
    if model is not None:
        yield from check_variables(("model", "fetcher"), model.fetcher.env)
    if routing is not None and routing.picker is not None:
        template = routing.picker.epp.args.template or {}
        yield from check_credentials((*routing.location, "endpointPicker", "template"), template)
