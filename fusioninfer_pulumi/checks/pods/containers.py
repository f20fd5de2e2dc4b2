"""What API validation refuses of containers, as far as people get it wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.rules import INVALID_IMAGE, NAME_NOT_FOUND
from fusioninfer_pulumi.checks.pods._values import (
    DNS_LABEL,
    KEY,
    OBJECT_NAME,
    PORT_NAME,
    VARIABLE,
    Check,
    between,
    exactly_one,
    fields,
    formatted,
    given,
    items,
    mappings,
    number,
    one_of,
    text,
)
from fusioninfer_pulumi.checks.pods.resources import container_resources
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pods.rules import SOURCES_NOT_ONE
from fusioninfer_pulumi.rules.common import DUPLICATE_NAME, FIELD_REQUIRED

INVALID_PORT = Rule(
    "invalid-port",
    "error",
    "A port is a number from 1 to 65535, or a port's name.",
    remedy="Correct it.",
    source="Kubernetes API validation",
)
SUCCESS_THRESHOLD_NOT_ONE = Rule(
    "success-threshold-not-one",
    "error",
    "Liveness and startup probes have a `successThreshold` of 1.",
    remedy="Remove it.",
    source="Kubernetes API validation",
)
PROBE_OF_INIT_CONTAINER = Rule(
    "probe-of-init-container",
    "error",
    "Init containers have no probes, unless they restart always.",
    remedy="Remove the probe.",
    source="Kubernetes API validation",
)


@dataclass(frozen=True)
class PodFacts:
    """What the rules about a container ask of its pod.

    Attributes:
        volumes: Names of the volumes, None where they are not all known.
        claims: Names of the claims, None where they are not all known.
    """

    volumes: Collection[str] | None
    claims: Collection[str] | None


def _image(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    image = container.get("image")
    if is_output(image):
        return
    if not given(image):
        yield error(FIELD_REQUIRED, (*at, "image"), "is required: an image reference")
    elif isinstance(image, str) and any(character.isspace() for character in image):
        # The API server accepts a space inside of a reference, and no kubelet does.
        message = f"must be an image reference, got {shown(image)}"
        yield error(INVALID_IMAGE, (*at, "image"), message)


def _port(at: Location, value: Any) -> Iterator[Finding]:
    """A port's number, or the name of one."""
    if isinstance(value, str):
        if not PORT_NAME.fits(value):
            message = (
                f"must be an integer from 1 to 65535 or the name of a port, got {shown(value)}"
            )
            yield error(INVALID_PORT, at, message)
    else:
        yield from _PORT_NUMBER(at, value)


_PORT_NUMBER = between(1, 65535)


def _has_port(at: Location, value: Mapping[str, Any]) -> Iterator[Finding]:
    if value.get("port") is None:
        yield error(FIELD_REQUIRED, (*at, "port"), "is required")


def _has_command(at: Location, value: Mapping[str, Any]) -> Iterator[Finding]:
    command = value.get("command")
    if not is_output(command) and not command:
        yield error(FIELD_REQUIRED, (*at, "command"), "is required")


_HANDLERS: Mapping[str, Check] = {
    "exec": fields({}, _has_command),
    "httpGet": fields({"port": _port, "scheme": one_of("HTTP", "HTTPS")}, _has_port),
    "tcpSocket": fields({"port": _port}, _has_port),
    "grpc": fields({"port": _PORT_NUMBER}, _has_port),
}
_SECONDS = dict.fromkeys(
    (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ),
    between(0),
)


def _once(at: Location, probe: Mapping[str, Any]) -> Iterator[Finding]:
    """A probe that succeeds once succeeds."""
    successes = number(probe.get("successThreshold"))
    if successes is not None and successes > 1:
        message = f"must be 1, got {successes}"
        yield error(SUCCESS_THRESHOLD_NOT_ONE, (*at, "successThreshold"), message)


_ONE_HANDLER = exactly_one(SOURCES_NOT_ONE, "handler", tuple(_HANDLERS))
_PROBES = {
    "livenessProbe": fields({**_HANDLERS, **_SECONDS}, _ONE_HANDLER, _once),
    "readinessProbe": fields({**_HANDLERS, **_SECONDS}, _ONE_HANDLER),
    "startupProbe": fields({**_HANDLERS, **_SECONDS}, _ONE_HANDLER, _once),
}

_KEY_REFERENCE = fields(
    {"name": formatted(OBJECT_NAME), "key": formatted(KEY)}, required=("name", "key")
)
_SOURCES: Mapping[str, Check] = {
    "configMapKeyRef": _KEY_REFERENCE,
    "secretKeyRef": _KEY_REFERENCE,
    "fieldRef": fields({}, required=("fieldPath",)),
    "resourceFieldRef": fields({}, required=("resource",)),
    "fileKeyRef": fields({}),
}
_VALUE_FROM = fields(_SOURCES, exactly_one(SOURCES_NOT_ONE, "source", tuple(_SOURCES)))


def _one_value(at: Location, variable: Mapping[str, Any]) -> Iterator[Finding]:
    source, value = variable.get("valueFrom"), variable.get("value")
    # An Output may turn out empty, which would be allowed.
    if source is not None and given(value) and not is_output(value):
        message = "excludes value; remove one of them"
        yield error(SOURCES_NOT_ONE, (*at, "valueFrom"), message)


def _port_names(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    names: set[str] = set()
    for index, port in mappings(container.get("ports")):
        name = text(port.get("name"))
        if name and name in names:
            message = f"{shown(name)} names two ports of the container"
            yield error(DUPLICATE_NAME, (*at, "ports", index, "name"), message)
        names.add(name)


_CONTAINER = fields(
    {
        "name": formatted(DNS_LABEL),
        "imagePullPolicy": one_of("Always", "Never", "IfNotPresent"),
        "ports": items(
            fields(
                {
                    "name": formatted(PORT_NAME),
                    "containerPort": _PORT_NUMBER,
                    "hostPort": between(0, 65535),
                    "protocol": one_of("TCP", "UDP", "SCTP"),
                },
            )
        ),
        "env": items(
            fields(
                {"name": formatted(VARIABLE), "valueFrom": _VALUE_FROM},
                _one_value,
                required=("name",),
            )
        ),
    },
    _image,
    _port_names,
    required=("name",),
)
_MOUNT = fields({}, required=("name", "mountPath"))


def container_findings(
    at: Location, container: Mapping[str, Any], pod: PodFacts, *, starting: bool
) -> Iterator[Finding]:
    """Checks one container.

    Args:
        at: Where it stands.
        container: The container.
        pod: Its pod.
        starting: Whether it is an init container.
    """
    yield from _CONTAINER(at, container)
    yield from container_resources((*at, "resources"), container.get("resources"), pod.claims)
    for index, mount in mappings(container.get("volumeMounts")):
        yield from _MOUNT((*at, "volumeMounts", index), mount)
        yield from _volume_missing((*at, "volumeMounts", index), text(mount.get("name")), pod)
    policy = container.get("restartPolicy")
    if not starting or policy == "Always" or is_output(policy):
        yield from fields(_PROBES)(at, container)
        return
    for key in _PROBES:
        if container.get(key) is not None:
            message = "needs restartPolicy Always in an init container; remove it"
            yield error(PROBE_OF_INIT_CONTAINER, (*at, key), message)


def _volume_missing(at: Location, name: str, pod: PodFacts) -> Iterator[Finding]:
    if name and pod.volumes is not None and name not in pod.volumes:
        have = f"; it has {', '.join(sorted(pod.volumes))}" if pod.volumes else ""
        message = f"the pod has no volume {shown(name)}{have}: add it to its volumes"
        yield error(NAME_NOT_FOUND, (*at, "name"), message)


def container_names(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    """Checks that no init container has the name of another container."""
    names = {text(container.get("name")) for _, container in mappings(spec.get("containers"))} - {
        ""
    }
    for index, container in mappings(spec.get("initContainers")):
        name = text(container.get("name"))
        if name in names:
            message = f"{shown(name)} names two containers of the pod"
            yield error(DUPLICATE_NAME, (*at, "initContainers", index, "name"), message)
