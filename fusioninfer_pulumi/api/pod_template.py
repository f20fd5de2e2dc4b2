"""Structure checks of pod templates: the fields of Kubernetes' that would be refused.

A check takes one value and yields every error in it. Null is valid unless the field is required:
the API server reads it as a field that is not set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.messages import mismatch
from fusioninfer_pulumi.api.types import json_findings, label_finding, label_key_finding
from fusioninfer_pulumi.findings import LIFT, Finding, Location, error, shown
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.outputs import contains_output, is_output

Check = Callable[[Location, Any], Iterator[Finding]]

_MAX_INT32 = 2**31 - 1


def text(
    kind: str = "a string",
    pattern: str = r"(?s:.*)",
    longest: int | None = None,
    *,
    plain: bool = False,
) -> Check:
    """A string that matches a pattern; unless `plain`, it may be an Output."""
    compiled = re.compile(pattern)

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if value is None or (is_output(value) and not plain):
            return
        right = isinstance(value, str) and compiled.fullmatch(value) is not None
        if not right or (longest is not None and len(value) > longest):
            yield mismatch(
                at, value, kind, "invalid-format" if isinstance(value, str) else "wrong-type"
            )

    return check


def choice(*allowed: str, plain: bool = False) -> Check:
    """One of a few values; the empty string is the API server's default."""

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if value is None or (is_output(value) and not plain) or value == "":
            return
        if not isinstance(value, str) or value not in allowed:
            yield mismatch(at, value, f"one of {', '.join(allowed)}", "unknown-value")

    return check


def whole(least: int = -_MAX_INT32 - 1, most: int = _MAX_INT32) -> Check:
    """A whole number within bounds."""
    kind = "an integer" if least < 0 else f"an integer of at least {least}"
    if most < _MAX_INT32:
        kind = f"an integer from {least} to {most}"

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if value is None or is_output(value):
            return
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            yield mismatch(at, value, kind, "out-of-range" if type(value) is int else "wrong-type")

    return check


def flag(at: Location, value: Any) -> Iterator[Finding]:
    """True or false."""
    if value is not None and not isinstance(value, bool) and not is_output(value):
        yield mismatch(at, value, "true or false")


#: Name of a port (IANA_SVC_NAME).
port_name = text(
    "a port name: at most 15 of a-z 0-9 -, with a letter, - only between others",
    r"|(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
    15,
)


def port(at: Location, value: Any) -> Iterator[Finding]:
    """A port's number, or the name of one of the container's ports."""
    number = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536
    named = isinstance(value, str) and value and not any(port_name(at, value))
    if value is not None and not is_output(value) and not number and not named:
        yield mismatch(at, value, "an integer from 1 to 65535 or the name of a port")


def items(of: Check, *, open_to_outputs: bool = False) -> Check:
    """A list; one that the library adds nothing to may be an Output as a whole."""

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if value is None or (open_to_outputs and is_output(value)):
            return
        if not isinstance(value, (list, tuple)):
            yield mismatch(at, value, "a list")
            return
        for index, item in enumerate(value):
            if item is None:
                yield error("null-item", (*at, index), "must not be null")
            elif not (open_to_outputs and is_output(item)):
                yield from of((*at, index), item)

    return check


def mapping(fields: Mapping[str, Check], *required: str, open_to_outputs: bool = False) -> Check:
    """A mapping; keys that it does not name are passed on."""

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if value is None or (open_to_outputs and is_output(value)):
            return
        if not isinstance(value, Mapping):
            yield mismatch(at, value, "a mapping")
            return
        for key in required:
            if value.get(key) is None or value[key] == "":
                yield error("incomplete-item", (*at, key), "is required")
        for key, check_field in fields.items():
            if value.get(key) is not None and not (key in required and value[key] == ""):
                yield from check_field((*at, key), value[key])

    return check


def label_key(at: Location, value: Any) -> Iterator[Finding]:
    """The key of a label."""
    found = None if is_output(value) else label_key_finding(at, value)
    if found is not None:
        yield found


def label_map(at: Location, value: Any) -> Iterator[Finding]:
    """Labels with their values."""
    if value is None or is_output(value):
        return
    if not isinstance(value, Mapping):
        yield mismatch(at, value, "a mapping")
        return
    for key, item in value.items():
        here = (*at, str(key))
        known = not is_output(item)
        found = label_finding(here, key, item) if known else label_key_finding(here, key)
        if found is not None:
            yield found


# What every release takes; a release before 1.32 takes less.
_VARIABLE = text("printable ASCII without =", r"[ -<>-~]*")
_PORT = mapping(
    {
        "name": port_name,
        "protocol": choice("TCP", "UDP", "SCTP", plain=True),
        "hostPort": whole(0, 65535),
        "hostIP": text(),
    }
)
_CLAIMS = items(mapping({"name": text()}, "name"))


def image_findings(at: Location, image: Any) -> Iterator[Finding]:
    """Checks the reference of an image, which may be an Output."""
    if not is_output(image) and (not isinstance(image, str) or not image or " " in image):
        yield mismatch(at, image, "an image reference", "invalid-image")


def is_extended(resource: str) -> bool:
    """Whether a resource name is an extended resource (a device, not cpu or memory)."""
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def _strings(at: Location, value: Any) -> Iterator[Finding]:
    if value is None:
        return
    if not isinstance(value, list):
        yield mismatch(at, value, "a list of strings")
        return
    for index, item in enumerate(value):
        if not isinstance(item, str) and not is_output(item):
            yield error(
                "wrong-type", (*at, index), f"must be a string, got {shown(item)}; quote it in YAML"
            )


def _env(at: Location, value: Any) -> Iterator[Finding]:
    if value is None:
        return
    if not isinstance(value, list):
        yield mismatch(at, value, "a list")
        return
    for index, item in enumerate(value):
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
            yield error("env-name-missing", (*at, index), "must be a mapping with a name")
            continue
        if not item["name"]:
            yield error("value-empty", (*at, index, "name"), "must not be empty")
        yield from _VARIABLE((*at, index, "name"), item["name"])
        held = item.get("value")
        if held is not None and not isinstance(held, str) and not is_output(held):
            yield error(
                "wrong-type",
                (*at, index, "value"),
                f"must be a string, got {shown(held)}; quote it in YAML",
            )


def _ports(at: Location, value: Any) -> Iterator[Finding]:
    if value is None:
        return
    if not isinstance(value, list):
        yield mismatch(at, value, "a list")
        return
    names: list[str] = []
    for index, item in enumerate(value):
        number = item.get("containerPort") if isinstance(item, Mapping) else None
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 65536:
            yield mismatch((*at, index, "containerPort"), number, "an integer from 1 to 65535")
        if not isinstance(item, Mapping):
            continue
        yield from _PORT((*at, index), item)
        name = item.get("name")
        if isinstance(name, str) and name:
            if name in names:
                yield error(
                    "duplicate-port-name",
                    (*at, index, "name"),
                    f"{shown(name)} names two ports of the container",
                )
            names.append(name)


def resource_findings(at: Location, resources: Any) -> Iterator[Finding]:
    """Checks the limits and requests of a container or of a pod."""
    if resources is None:
        return
    if not isinstance(resources, Mapping):
        yield mismatch(at, resources, "a mapping")
        return
    yield from _CLAIMS((*at, "claims"), resources.get("claims"))
    held: dict[str, Mapping[str, Any]] = {}
    for key in ("limits", "requests"):
        amounts = resources.get(key)
        yield from amount_findings((*at, key), amounts)
        if isinstance(amounts, Mapping):
            held[key] = amounts
    limits, requests = held.get("limits", {}), held.get("requests", {})
    for name, amount in requests.items():
        if is_extended(str(name)) and not contains_output(amount):
            limit = limits.get(name)
            if limit is None:
                yield error(
                    "limit-missing", (*at, "requests", name), "needs the same amount in limits"
                )
            elif not _same_amount(limit, amount):
                yield error(
                    "request-differs-from-limit",
                    (*at, "requests", name),
                    f"must equal limits[{name}] ({limit}), got {shown(amount)}",
                )


def _same_amount(one: Any, other: Any) -> bool:
    if is_output(one):
        return True  # reported by itself, like what is no quantity
    try:
        return quantity.parse(one) == quantity.parse(other)
    except ValueError:
        return True


def amount_findings(at: Location, amounts: Any) -> Iterator[Finding]:
    """Checks a mapping of resource names to quantities."""
    if amounts is not None and not isinstance(amounts, Mapping):
        yield mismatch(at, amounts, "a mapping")
        return
    for name, amount in (amounts or {}).items():
        yield from _amount((*at, str(name)), str(name), amount)


def _amount(at: Location, name: str, amount: Any) -> Iterator[Finding]:
    if is_output(amount):
        yield error("output-not-allowed", at, LIFT)
        return
    if isinstance(amount, bool) or not isinstance(amount, (str, int, float)):
        yield mismatch(at, amount, "a Kubernetes quantity")
        return
    try:
        parsed = quantity.parse(amount)
    except ValueError:
        yield error(
            "invalid-quantity",
            at,
            f"must be a Kubernetes quantity such as 8, 500m or 16Gi, got {shown(amount)}",
        )
        return
    if parsed < 0:
        yield error("negative-quantity", at, f"must be at least 0, got {shown(amount)}")
    elif is_extended(name) and parsed != parsed.to_integral_value():
        yield error(
            "fractional-devices", at, f"must be a whole number of devices, got {shown(amount)}"
        )


_LABEL = text("a DNS label (a-z 0-9 -, at most 63)", r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)
_NAME_OF_OBJECT = (
    "the name of an object (at most 253 of a-z 0-9 - .)",
    r"|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    253,
)
_OBJECT = text(*_NAME_OF_OBJECT)
_TEXT = text()


def _size(at: Location, value: Any) -> Iterator[Finding]:
    yield from amount_findings(at[:-1], {at[-1]: value})


_VOLUME = mapping(
    {
        "name": _LABEL,
        "emptyDir": mapping(
            {"medium": _TEXT, "sizeLimit": _size},
            open_to_outputs=True,
        ),
        **{
            source: mapping({}, open_to_outputs=True)
            for source in ("configMap", "csi", "downwardAPI", "ephemeral", "hostPath", "image",
                           "nfs", "persistentVolumeClaim", "projected", "secret")
        },
    },
    "name",
)  # fmt: skip

_EXPRESSION = mapping(
    {
        "key": label_key,
        "operator": choice("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
        "values": items(_TEXT, open_to_outputs=True),
    },
    "key",
    "operator",
    open_to_outputs=True,
)
_NODE_TERM = mapping(
    {
        "matchExpressions": items(_EXPRESSION, open_to_outputs=True),
        "matchFields": items(mapping({}, open_to_outputs=True), open_to_outputs=True),
    },
    open_to_outputs=True,
)
_REQUIRED_NODES = mapping(
    {"nodeSelectorTerms": items(_NODE_TERM, open_to_outputs=True)}, open_to_outputs=True
)
_AFFINITY = mapping(
    {
        "nodeAffinity": mapping(
            {"requiredDuringSchedulingIgnoredDuringExecution": _REQUIRED_NODES},
            open_to_outputs=True,
        ),
        "podAffinity": mapping({}, open_to_outputs=True),
        "podAntiAffinity": mapping({}, open_to_outputs=True),
    },
    open_to_outputs=True,
)
_TOLERATION_FIELDS = mapping(
    {
        "key": label_key,
        "operator": choice("Exists", "Equal", "Lt", "Gt"),
        "value": _TEXT,
        "effect": choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
        "tolerationSeconds": whole(-(2**63), 2**63 - 1),
    },
    open_to_outputs=True,
)


def _toleration(at: Location, value: Any) -> Iterator[Finding]:
    if isinstance(value, Mapping) and value.get("key") in (None, ""):
        value = {key: item for key, item in value.items() if key != "key"}
        if value.get("operator") != "Exists" and not is_output(value.get("operator")):
            yield error(
                "toleration-without-key",
                (*at, "operator"),
                "must be Exists without a key, which tolerates everything; or name a key",
            )
            return
    yield from _TOLERATION_FIELDS(at, value)


_SPREAD = mapping(
    {
        "maxSkew": whole(1),
        "topologyKey": label_key,
        "whenUnsatisfiable": choice("DoNotSchedule", "ScheduleAnyway"),
        "labelSelector": mapping({}, open_to_outputs=True),
    },
    "maxSkew",
    "topologyKey",
    "whenUnsatisfiable",
)


def _restart_policy(at: Location, value: Any) -> Iterator[Finding]:
    if value != "Always":
        yield error(
            "pod-restart-policy",
            at,
            f"must be Always for pods of a LeaderWorkerSet, got {shown(value)}",
        )


_POD = mapping(
    {
        "overhead": amount_findings,
        "resources": resource_findings,
        "restartPolicy": _restart_policy,
        "volumes": items(_VOLUME),
        "imagePullSecrets": items(mapping({"name": _OBJECT})),
        "resourceClaims": items(mapping({"name": _LABEL}, "name")),
        "topologySpreadConstraints": items(_SPREAD),
        "tolerations": items(_toleration, open_to_outputs=True),
        "nodeSelector": label_map,
        "affinity": _AFFINITY,
        "securityContext": mapping({}, open_to_outputs=True),
        "terminationGracePeriodSeconds": whole(-(2**63), 2**63 - 1),
        "schedulerName": text("the name of a scheduler", r"\S*", plain=True),
        "priorityClassName": text(*_NAME_OF_OBJECT, plain=True),
        "runtimeClassName": _OBJECT,
        "serviceAccountName": _OBJECT,
        "nodeName": _OBJECT,
        "hostNetwork": flag,
        "hostIPC": flag,
        "hostPID": flag,
        "shareProcessNamespace": flag,
        "automountServiceAccountToken": flag,
    }
)

_HANDLER = {
    "httpGet": mapping(
        {"port": port, "path": _TEXT, "host": _TEXT, "scheme": choice("HTTP", "HTTPS")},
        "port",
        open_to_outputs=True,
    ),
    "tcpSocket": mapping({"port": port, "host": _TEXT}, "port", open_to_outputs=True),
    "grpc": mapping({"port": whole(1, 65535), "service": _TEXT}, "port", open_to_outputs=True),
    "exec": mapping({"command": items(_TEXT, open_to_outputs=True)}, open_to_outputs=True),
}
_HANDLED = mapping(_HANDLER, open_to_outputs=True)
_PROBE = mapping(
    {
        **_HANDLER,
        **dict.fromkeys(
            ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold",
             "failureThreshold"),
            whole(0),
        ),
    },
    open_to_outputs=True,
)  # fmt: skip

_CONTAINER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CONTAINER = mapping(
    {
        "command": _strings,
        "args": _strings,
        "env": _env,
        "ports": _ports,
        "resources": resource_findings,
        "restartPolicy": choice("Always", "Never", "OnFailure"),
        "imagePullPolicy": choice("Always", "Never", "IfNotPresent"),
        "volumeMounts": items(mapping({"name": _TEXT, "mountPath": _TEXT}, "name", "mountPath")),
        "volumeDevices": items(mapping({"name": _TEXT, "devicePath": _TEXT}, "name")),
        "envFrom": items(mapping({}, open_to_outputs=True), open_to_outputs=True),
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "startupProbe": _PROBE,
        "lifecycle": mapping({"postStart": _HANDLED, "preStop": _HANDLED}, open_to_outputs=True),
        "securityContext": mapping(
            {"capabilities": mapping({"add": items(_TEXT), "drop": items(_TEXT)})}
        ),
        "workingDir": _TEXT,
    }
)


def pod_template_findings(
    at: Location, template: Mapping[str, Any], serving: str | None
) -> Iterator[Finding]:
    """Checks one pod template.

    Args:
        at: Where it stands.
        template: The template.
        serving: Name of the container that must exist in it, None for any.
    """
    found = list(_structure_findings(at, template, serving))
    known = {problem.location for problem in found}
    yield from found
    yield from (each for each in json_findings(at, template) if each.location not in known)


def _structure_findings(
    at: Location, template: Mapping[str, Any], serving: str | None
) -> Iterator[Finding]:
    for key in template:
        if key not in ("metadata", "spec"):
            yield error(
                "unknown-key", (*at, key), "unknown key; a pod template has metadata and spec"
            )
    yield from _metadata((*at, "metadata"), template.get("metadata"))
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        yield mismatch((*at, "spec"), spec, "a mapping")
        return
    at = (*at, "spec")
    yield from _containers(at, spec, serving)
    yield from _POD(at, spec)


def _metadata(at: Location, metadata: Any) -> Iterator[Finding]:
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield mismatch(at, metadata, "a mapping")
        return
    for key, value in metadata.items():
        if key not in ("labels", "annotations"):
            yield error(
                "field-without-effect",
                (*at, key if isinstance(key, int) else str(key)),
                "has no effect on pods; allowed: labels, annotations",
            )
        elif value is not None and not isinstance(value, Mapping):
            yield mismatch((*at, key), value, "a mapping")
        else:
            check = _label if key == "labels" else _annotation
            for name, item in (value or {}).items():
                yield from check((*at, key, str(name)), name, item)


def _label(at: Location, key: Any, value: Any) -> Iterator[Finding]:
    if key in labels.OWNED_LABELS or key in labels.LWS_OWNED_LABELS:
        owner = "fusioninfer-pulumi" if key in labels.OWNED_LABELS else "LeaderWorkerSet"
        yield error("label-reserved", at, f"is set by {owner}; remove it")
    elif is_output(value):
        yield error("output-not-allowed", at, LIFT)
    elif found := label_finding(at, key, value):
        yield found


def _annotation(at: Location, key: Any, value: Any) -> Iterator[Finding]:
    if found := label_key_finding(at, key):
        yield found
    elif not isinstance(value, str) and not is_output(value):
        yield mismatch(at, value, "a string")


def _containers(at: Location, spec: Mapping[str, Any], serving: str | None) -> Iterator[Finding]:
    names: list[str] = []
    for key in ("containers", "initContainers"):
        listed = spec.get(key)
        if key == "initContainers" and listed is None:
            continue
        if not isinstance(listed, list):
            yield mismatch((*at, key), listed, "a list")
            continue
        if not listed and key == "containers":
            yield error("no-container", (*at, key), "must hold at least one container")
        for index, container in enumerate(listed):
            here = (*at, key, index)
            if not isinstance(container, Mapping):
                yield mismatch(here, container, "a mapping")
                continue
            name = container.get("name")
            if not isinstance(name, str) or _CONTAINER_NAME.fullmatch(name) is None:
                kind = "a DNS label (a-z 0-9 -, at most 63)"
                yield mismatch((*here, "name"), name, kind, "invalid-name")
            yield from image_findings((*here, "image"), container.get("image"))
            yield from _CONTAINER(here, container)
            if isinstance(name, str):
                if name in names:
                    yield error(
                        "duplicate-container-name",
                        (*here, "name"),
                        f'"{name}" names two containers of the pod',
                    )
                names.append(name)
    if serving is not None and isinstance(spec.get("containers"), list):
        regular = [c.get("name") for c in spec["containers"] if isinstance(c, Mapping)]
        if serving not in regular:
            listed_names = ", ".join(str(name) for name in regular)
            yield error(
                "container-not-found",
                (*at[:2], "container"),
                f"no container of that name in {at[2]}; allowed: {listed_names}",
            )
