"""Checks of pod templates: their structure by Kubernetes' schema, and what no schema says.

A rule stands under the field that it checks, and reads values of the right type only: the schema
reports all others. Null is a field that is not set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.messages import mismatch
from fusioninfer_pulumi.api.types import (
    json_findings,
    known_json_findings,
    label_finding,
    label_key_finding,
)
from fusioninfer_pulumi.findings import LIFT, Finding, Location, error, shown
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.outputs import contains_output, is_output, output_paths
from fusioninfer_pulumi.schemas.check import part_findings
from fusioninfer_pulumi.schemas.kind import POD_TEMPLATE, RESOURCES

_SIZE = POD_TEMPLATE.below("spec", "volumes", 0, "emptyDir", "sizeLimit")

Check = Callable[[Location, Any], Iterator[Finding]]


def pod_template_findings(
    at: Location, template: Mapping[str, Any], serving: str | None
) -> Iterator[Finding]:
    """Checks one pod template.

    Args:
        at: Where it stands.
        template: The template.
        serving: Name of the container that must exist in it, None for any.
    """
    yield from part_findings(at, template, POD_TEMPLATE)
    yield from json_findings(at, template)
    for place in output_paths(template):
        if not _may_be_output(place):
            yield error("output-not-allowed", (*at, *place), LIFT)
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        if spec is None:
            yield mismatch((*at, "spec"), spec, "a mapping")
        return
    for place, value in _nodes(template):
        check = _RULES.get(_pattern(place))
        if check is not None and value is not None and not is_output(value):
            yield from check((*at, *place), value)
    yield from _containers((*at, "spec"), spec, serving)


def resource_findings(at: Location, resources: Any) -> Iterator[Finding]:
    """Checks the limits and requests of a container that is written apart from a template."""
    yield from part_findings(at, resources, RESOURCES)
    yield from known_json_findings(at, resources)
    for place, value in _nodes(resources):
        check = _RESOURCES.get(_pattern(place))
        if check is not None:
            yield from check((*at, *place), value)


def size_findings(at: Location, size: Any) -> Iterator[Finding]:
    """Checks the size of a memory volume."""
    yield from part_findings(at, size, _SIZE)
    yield from known_json_findings(at, size)
    yield from _amount(at, size)


def image_findings(at: Location, image: Any) -> Iterator[Finding]:
    """Checks the reference of an image, which may be an Output."""
    if not is_output(image) and (not isinstance(image, str) or not image or " " in image):
        yield mismatch(at, image, "an image reference", "invalid-image")


def is_extended(resource: str) -> bool:
    """Tells whether a resource name is an extended resource (a device, not cpu or memory)."""
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def _nodes(value: Any, at: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Everything in a template with its location, in the order of the text."""
    yield at, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _nodes(item, (*at, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _nodes(item, (*at, index))


def _pattern(place: Location) -> str:
    """A location as the tables below write it: `spec.volumes[0].name` is `spec.volumes[].name`."""
    return ".".join(part for part in place if isinstance(part, str))


# Checks of one value


def _text(kind: str, pattern: str, longest: int = 2**31, rule: str = "invalid-format") -> Check:
    compiled = re.compile(pattern)

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if isinstance(value, str) and (compiled.fullmatch(value) is None or len(value) > longest):
            yield mismatch(at, value, kind, rule)

    return check


def _choice(*allowed: str) -> Check:
    """One of a few values; the empty string is the API server's default."""

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if isinstance(value, str) and value not in (*allowed, ""):
            yield mismatch(at, value, f"one of {', '.join(allowed)}", "unknown-value")

    return check


def _whole(least: int, most: int | None = None) -> Check:
    kind = f"an integer from {least} to {most}" if most else f"an integer of at least {least}"

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if type(value) is int and (value < least or (most is not None and value > most)):
            yield mismatch(at, value, kind, "out-of-range")

    return check


_LABEL = _text("a DNS label (a-z 0-9 -, at most 63)", r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)
_OBJECT = _text(
    "the name of an object (at most 253 of a-z 0-9 - .)",
    r"|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    253,
)
#: Name of a port (IANA_SVC_NAME).
_PORT_NAME = _text(
    "a port name: at most 15 of a-z 0-9 -, with a letter, - only between others",
    r"|(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
    15,
)
_PORT_NUMBER = _whole(1, 65535)
# What every release takes; a release before 1.32 takes less.
_VARIABLE = _text("printable ASCII without =", r"[ -<>-~]*")


def _variable_name(at: Location, value: Any) -> Iterator[Finding]:
    if value == "":
        yield error("value-empty", at, "must not be empty")
    yield from _VARIABLE(at, value)


def _port(at: Location, value: Any) -> Iterator[Finding]:
    """A port's number, or the name of one of the container's ports."""
    number = type(value) is int and 0 < value < 65536
    named = isinstance(value, str) and value and not any(_PORT_NAME(at, value))
    if not number and not named:
        yield mismatch(at, value, "an integer from 1 to 65535 or the name of a port")


def _image(at: Location, value: Any) -> Iterator[Finding]:
    if isinstance(value, str):
        yield from image_findings(at, value)


def _label_key(at: Location, value: Any) -> Iterator[Finding]:
    found = label_key_finding(at, value) if isinstance(value, str) else None
    if found is not None:
        yield found


def _label_map(at: Location, value: Any) -> Iterator[Finding]:
    for key, item in _mapping(value).items():
        here = (*at, str(key))
        known = isinstance(item, str)
        found = label_finding(here, key, item) if known else label_key_finding(here, key)
        if found is not None:
            yield found


def _amounts(at: Location, value: Any) -> Iterator[Finding]:
    for name, amount in _mapping(value).items():
        yield from _amount((*at, str(name)), amount)


def _amount(at: Location, amount: Any) -> Iterator[Finding]:
    parsed = _parsed(amount)
    if parsed is None:
        return
    if parsed < 0:
        yield error("negative-quantity", at, f"must be at least 0, got {shown(amount)}")
    elif is_extended(str(at[-1])) and parsed != parsed.to_integral_value():
        yield error(
            "fractional-devices", at, f"must be a whole number of devices, got {shown(amount)}"
        )


def _parsed(amount: Any) -> Any:
    try:
        return quantity.parse(amount) if isinstance(amount, (str, int, float)) else None
    except ValueError:
        return None  # reported by its schema


def _resources(at: Location, resources: Any) -> Iterator[Finding]:
    limits = _mapping(_mapping(resources).get("limits"))
    for name, amount in _mapping(_mapping(resources).get("requests")).items():
        here = (*at, "requests", str(name))
        if not is_extended(str(name)) or contains_output(amount) or _parsed(amount) is None:
            continue
        limit = limits.get(name)
        if limit is None:
            yield error("limit-missing", here, "needs the same amount in limits")
        elif not is_output(limit) and _parsed(limit) not in (None, _parsed(amount)):
            yield error(
                "request-differs-from-limit",
                here,
                f"must equal limits[{name}] ({limit}), got {shown(amount)}",
            )


def _port_names(at: Location, value: Any) -> Iterator[Finding]:
    names: list[str] = []
    for index, item in enumerate(value if isinstance(value, (list, tuple)) else ()):
        name = _mapping(item).get("name")
        if isinstance(name, str) and name:
            if name in names:
                message = f"{shown(name)} names two ports of the container"
                yield error("duplicate-port-name", (*at, index, "name"), message)
            names.append(name)


def _toleration(at: Location, value: Any) -> Iterator[Finding]:
    if isinstance(at[-1], int) and _mapping(value).get("key") in (None, ""):
        operator = _mapping(value).get("operator")
        if operator != "Exists" and not is_output(operator):
            yield error(
                "toleration-without-key",
                (*at, "operator"),
                "must be Exists without a key, which tolerates everything; or name a key",
            )


def _toleration_key(at: Location, value: Any) -> Iterator[Finding]:
    if value != "":
        yield from _label_key(at, value)


def _restart_policy(at: Location, value: Any) -> Iterator[Finding]:
    if value != "Always":
        yield error(
            "pod-restart-policy",
            at,
            f"must be Always for pods of a LeaderWorkerSet, got {shown(value)}",
        )


def _metadata(at: Location, metadata: Any) -> Iterator[Finding]:
    for key in _mapping(metadata):
        if key in ("finalizers", "name", "namespace"):
            message = "has no effect on pods; allowed: labels, annotations"
            yield error("field-without-effect", (*at, key), message)


def _labels(at: Location, value: Any) -> Iterator[Finding]:
    for key, item in _mapping(value).items():
        here = (*at, str(key))
        if key in labels.OWNED_LABELS or key in labels.LWS_OWNED_LABELS:
            owner = "fusioninfer-pulumi" if key in labels.OWNED_LABELS else "LeaderWorkerSet"
            yield error("label-reserved", here, f"is set by {owner}; remove it")
        else:
            yield from _label_map(at, {key: item})


def _annotations(at: Location, value: Any) -> Iterator[Finding]:
    for key in _mapping(value):
        yield from _label_key((*at, str(key)), key)


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _containers(at: Location, spec: Mapping[str, Any], serving: str | None) -> Iterator[Finding]:
    names: dict[str, list[Any]] = {}
    for field in ("containers", "initContainers"):
        listed = spec.get(field)
        names[field] = []
        if field == "containers" and listed == []:
            yield error("no-container", (*at, field), "must hold at least one container")
        for index, container in enumerate(listed if isinstance(listed, (list, tuple)) else ()):
            if not isinstance(container, Mapping):
                continue
            name = container.get("name")
            if container.get("image") is None:
                yield mismatch((*at, field, index, "image"), None, "an image reference")
            if name in names["containers"] and field == "initContainers":
                message = f'"{name}" names two containers of the pod'
                yield error("duplicate-container-name", (*at, field, index, "name"), message)
            names[field].append(name)
    if serving is not None and names["containers"] and serving not in names["containers"]:
        listed_names = ", ".join(str(name) for name in names["containers"])
        yield error(
            "container-not-found",
            (*at[:2], "container"),
            f"no container of that name in {at[2]}; allowed: {listed_names}",
        )


# The rules by the fields that they check, without the indexes of lists.


def _below(*prefixes: str, fields: Mapping[str, Check]) -> dict[str, Check]:
    return {
        f"{prefix}.{field}".rstrip("."): check
        for prefix in prefixes
        for field, check in fields.items()
    }


_HANDLER: Mapping[str, Check] = {
    "httpGet.port": _port,
    "httpGet.scheme": _choice("HTTP", "HTTPS"),
    "tcpSocket.port": _port,
    "grpc.port": _PORT_NUMBER,
}
_PROBE: Mapping[str, Check] = {
    **_HANDLER,
    **dict.fromkeys(
        ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold",
         "failureThreshold"),
        _whole(0),
    ),
}  # fmt: skip
_RESOURCES: Mapping[str, Check] = {"": _resources, "limits": _amounts, "requests": _amounts}
_CONTAINER: Mapping[str, Check] = {
    "name": _text(
        "a DNS label (a-z 0-9 -, at most 63)",
        r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        rule="invalid-name",
    ),
    "image": _image,
    "env.name": _variable_name,
    "ports": _port_names,
    "ports.name": _PORT_NAME,
    "ports.containerPort": _PORT_NUMBER,
    "ports.hostPort": _whole(0, 65535),
    "ports.protocol": _choice("TCP", "UDP", "SCTP"),
    "restartPolicy": _choice("Always", "Never", "OnFailure"),
    "imagePullPolicy": _choice("Always", "Never", "IfNotPresent"),
    **_below("resources", fields=_RESOURCES),
    **_below("livenessProbe", "readinessProbe", "startupProbe", fields=_PROBE),
    **_below("lifecycle.postStart", "lifecycle.preStop", fields=_HANDLER),
}
_NODE_TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_EXPRESSIONS = f"{_NODE_TERMS}.nodeSelectorTerms.matchExpressions"
_POD: Mapping[str, Check] = {
    "overhead": _amounts,
    "restartPolicy": _restart_policy,
    "volumes.name": _LABEL,
    "volumes.emptyDir.sizeLimit": _amount,
    "imagePullSecrets.name": _OBJECT,
    "resourceClaims.name": _LABEL,
    "topologySpreadConstraints.maxSkew": _whole(1),
    "topologySpreadConstraints.topologyKey": _label_key,
    "topologySpreadConstraints.whenUnsatisfiable": _choice("DoNotSchedule", "ScheduleAnyway"),
    "tolerations": _toleration,
    "tolerations.key": _toleration_key,
    "tolerations.operator": _choice("Exists", "Equal", "Lt", "Gt"),
    "tolerations.effect": _choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
    "nodeSelector": _label_map,
    f"{_EXPRESSIONS}.key": _label_key,
    f"{_EXPRESSIONS}.operator": _choice("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    "schedulerName": _text("the name of a scheduler", r"\S*"),
    "priorityClassName": _OBJECT,
    "runtimeClassName": _OBJECT,
    "serviceAccountName": _OBJECT,
    "nodeName": _OBJECT,
    **_below("resources", fields=_RESOURCES),
    **_below("containers", "initContainers", fields=_CONTAINER),
}
_RULES: Mapping[str, Check] = {
    "metadata": _metadata,
    "metadata.labels": _labels,
    "metadata.annotations": _annotations,
    **_below("spec", fields=_POD),
}

# Fields that are read or added to: an Output there, or in the items of a list, is refused.

_AMOUNTS = ("", ".limits", ".limits.*", ".requests", ".requests.*", ".claims")
_READ_OF_CONTAINERS = (
    "", ".name", ".command", ".args", ".env", ".env.name", ".ports", ".ports.containerPort",
    ".ports.protocol", ".volumeMounts", ".volumeDevices", ".securityContext",
    ".securityContext.capabilities", ".securityContext.capabilities.add",
    ".securityContext.capabilities.drop", *(f".resources{each}" for each in _AMOUNTS),
)  # fmt: skip
_READ = {
    "", "metadata", "metadata.labels", "metadata.labels.*", "metadata.annotations", "spec",
    "spec.overhead", "spec.overhead.*", "spec.volumes", "spec.volumes.emptyDir.sizeLimit",
    "spec.imagePullSecrets", "spec.resourceClaims", "spec.topologySpreadConstraints",
    "spec.restartPolicy", "spec.schedulerName", "spec.priorityClassName",
    *(f"spec.resources{each}" for each in _AMOUNTS),
    *(
        f"spec.{field}{each}"
        for field in ("containers", "initContainers")
        for each in _READ_OF_CONTAINERS
    ),
}  # fmt: skip
#: Lists whose items may be Outputs: the items are passed on, only the list is read.
_LISTS_OF_LEAVES = ("command", "args", "add", "drop")


def _may_be_output(place: Location) -> bool:
    if place and isinstance(place[-1], int) and place[-2] in _LISTS_OF_LEAVES:
        return True
    return not {_pattern(place), f"{_pattern(place[:-1])}.*"} & _READ
