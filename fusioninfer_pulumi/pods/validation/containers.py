"""Rules about containers: names, ports, mounts, probes, hooks and security."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.rules import INVALID_IMAGE
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown, warning
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pods.rules import INVALID_SECURITY_PROFILE, VOLUME_MISSING
from fusioninfer_pulumi.pods.validation._paths import descending, no_backsteps
from fusioninfer_pulumi.pods.validation._references import env, env_from, file_references
from fusioninfer_pulumi.pods.validation._values import (
    DNS_LABEL,
    HEADER,
    PORT_NAME,
    Check,
    between,
    each,
    exactly_one,
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
from fusioninfer_pulumi.pods.validation.resources import container_resources
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, TOO_LONG, UNKNOWN_VALUE

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
GRACE_PERIOD_OF_READINESS = Rule(
    "grace-period-of-readiness",
    "error",
    "A readiness probe has no grace period.",
    remedy="Remove it.",
    source="Kubernetes API validation",
)
PROBE_HANDLERS_NOT_ONE = Rule(
    "probe-handlers-not-one",
    "error",
    "A probe has one handler.",
    remedy="Keep one of `exec`, `httpGet`, `tcpSocket` and `grpc`.",
    source="Kubernetes API validation",
)
HOOK_HANDLERS_NOT_ONE = Rule(
    "hook-handlers-not-one",
    "error",
    "A lifecycle hook has one handler.",
    remedy="Keep one of `exec`, `httpGet`, `tcpSocket` and `sleep`.",
    source="Kubernetes API validation",
)
SLEEP_ABOVE_GRACE_PERIOD = Rule(
    "sleep-above-grace-period",
    "error",
    "A hook sleeps at most as long as the pod may take to stop.",
    remedy="Lower it, or raise `terminationGracePeriodSeconds`.",
    source="Kubernetes API validation",
)
PROFILE_WITHOUT_EFFECT = Rule(
    "profile-without-effect",
    "error",
    "A profile's name belongs to type Localhost.",
    remedy="Remove it, or change the type.",
    source="Kubernetes API validation",
)
PRIVILEGED_WITHOUT_ESCALATION = Rule(
    "privileged-without-escalation",
    "error",
    "A privileged container allows privilege escalation.",
    remedy="Remove `allowPrivilegeEscalation: false`, or `privileged`.",
    source="Kubernetes API validation",
)
ADMIN_WITHOUT_ESCALATION = Rule(
    "admin-without-escalation",
    "error",
    "A container with CAP_SYS_ADMIN allows privilege escalation.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
DUPLICATE_PORT_NAME = Rule(
    "duplicate-port-name",
    "error",
    "Ports of a container have different names.",
    remedy="Rename one of them.",
    source="Kubernetes API validation",
)
RESIZE_POLICY_TWICE = Rule(
    "resize-policy-twice",
    "error",
    "A resource has one resize policy.",
    remedy="Remove the second one.",
    source="Kubernetes API validation",
)
RESTART_RULES_OF_SIDECAR = Rule(
    "restart-rules-of-sidecar",
    "warning",
    "An init container that restarts always has no `restartPolicyRules`, which need an alpha "
    "feature gate.",
    remedy="Remove `restartPolicyRules`.",
    source="Kubernetes API validation (1.35, validateInitContainerRestartPolicy)",
)
PROBE_OF_INIT_CONTAINER = Rule(
    "probe-of-init-container",
    "error",
    "Init containers have no probes, unless they restart always.",
    remedy="Remove the probe.",
    source="Kubernetes API validation",
)
PROC_MOUNT_OF_HOST_USERS = Rule(
    "proc-mount-of-host-users",
    "error",
    "`procMount: Unmasked` belongs to pods with users of their own.",
    remedy="Set `hostUsers: false`.",
    source="Kubernetes API validation",
)
VOLUME_MOUNTED_AS_DEVICE = Rule(
    "volume-mounted-as-device",
    "error",
    "A volume is mounted or is a device.",
    remedy="Use it in one way.",
    source="Kubernetes API validation",
)
PATH_OF_DEVICE = Rule(
    "path-of-device",
    "error",
    "A mount and a device have different paths.",
    remedy="Change one of them.",
    source="Kubernetes API validation",
)
PROPAGATION_WITHOUT_PRIVILEGE = Rule(
    "propagation-without-privilege",
    "error",
    "Bidirectional mounts belong to privileged containers.",
    remedy="Make the container privileged, or change the propagation.",
    source="Kubernetes API validation",
)
DEVICE_NAMED_TWICE = Rule(
    "device-named-twice",
    "error",
    "A container has each device once.",
    remedy="Remove the second one.",
    source="Kubernetes API validation",
)
DEVICE_WITHOUT_CLAIM = Rule(
    "device-without-claim",
    "error",
    "A device is a claim of the pod.",
    remedy="Use a persistent volume claim.",
    source="Kubernetes API validation",
)
RECURSIVE_WITHOUT_READ_ONLY = Rule(
    "recursive-without-read-only",
    "error",
    "A recursive read-only mount is read-only.",
    remedy="Set `readOnly: true`.",
    source="Kubernetes API validation",
)
RECURSIVE_WITH_PROPAGATION = Rule(
    "recursive-with-propagation",
    "error",
    "A recursive read-only mount has no propagation.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
SUB_PATHS_SEVERAL = Rule(
    "sub-paths-several",
    "error",
    "A mount has `subPath` or `subPathExpr`.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
DUPLICATE_CONTAINER_NAME = Rule(
    "duplicate-container-name",
    "error",
    "Containers of a pod have different names.",
    remedy="Rename one of them.",
    source="Kubernetes API validation",
)
HOST_PORT_DIFFERS = Rule(
    "host-port-differs",
    "error",
    "On the node's network `hostPort` is `containerPort`.",
    remedy="Remove `hostPort`.",
    source="Kubernetes API validation",
)
HOST_PORT_TWICE = Rule(
    "host-port-twice",
    "error",
    "A pod has each host port once.",
    remedy="Change one of them.",
    source="Kubernetes API validation",
)

#: Seconds that a pod has to end, where it does not say so.
_GRACE_SECONDS = 30
_MOST_RESTART_RULES = 20


@dataclass(frozen=True)
class PodFacts:
    """What the rules about a container ask of its pod.

    Attributes:
        volumes: The volumes by name, None where they are not all known.
        claims: Names of the claims, None where they are not all known.
        host_network: Whether the pod uses the node's network.
        host_users: Whether it uses the node's users.
        grace_seconds: How long it has to end, None where that is not known.
    """

    volumes: Mapping[str, Mapping[str, Any]] | None
    claims: Collection[str] | None
    host_network: bool
    host_users: bool
    grace_seconds: int | None


def grace_seconds(spec: Mapping[str, Any]) -> int | None:
    """How long a pod has to end, None where that is not known."""
    held = spec.get("terminationGracePeriodSeconds")
    if held is None:
        return _GRACE_SECONDS
    seconds = number(held)
    # The API server makes a negative number one second.
    return None if seconds is None else seconds if seconds >= 0 else 1


def _image(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    image = container.get("image")
    if is_output(image):
        return
    if not given(image):
        yield error(FIELD_REQUIRED, (*at, "image"), "is required: an image reference")
    elif isinstance(image, str) and any(each.isspace() for each in image):
        # Inside of a reference the API server takes a space, and no kubelet does.
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
    "httpGet": fields(
        {
            "port": _port,
            "scheme": one_of("HTTP", "HTTPS"),
            "httpHeaders": each(fields({"name": formatted(HEADER)}, required=("name",))),
        },
        _has_port,
    ),
    "tcpSocket": fields({"port": _port}, _has_port),
}
_PROBE_HANDLERS = {**_HANDLERS, "grpc": fields({"port": _PORT_NUMBER}, _has_port)}


def _probe(*, once: bool) -> Check:
    """A probe; one that succeeds once succeeds."""

    def check(at: Location, probe: Mapping[str, Any]) -> Iterator[Finding]:
        successes = number(probe.get("successThreshold"))
        if once and successes is not None and successes > 1:
            message = f"must be 1, got {successes}"
            yield error(SUCCESS_THRESHOLD_NOT_ONE, (*at, "successThreshold"), message)
        if not once and probe.get("terminationGracePeriodSeconds") is not None:
            message = "must not be set: a readiness probe ends no container"
            here = (*at, "terminationGracePeriodSeconds")
            yield error(GRACE_PERIOD_OF_READINESS, here, message)

    counts = dict.fromkeys(
        ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
         "failureThreshold"),
        between(0),
    )  # fmt: skip
    return fields(
        {**_PROBE_HANDLERS, **counts, "terminationGracePeriodSeconds": between(1)},
        exactly_one(PROBE_HANDLERS_NOT_ONE, "handler", tuple(_PROBE_HANDLERS)),
        check,
    )


_PROBES = {
    "livenessProbe": _probe(once=True),
    "readinessProbe": _probe(once=False),
    "startupProbe": _probe(once=True),
}


def _hook_findings(at: Location, hook: Any, grace: int | None) -> Iterator[Finding]:
    hooked = fields(_HANDLERS, exactly_one(HOOK_HANDLERS_NOT_ONE, "handler", (*_HANDLERS, "sleep")))
    yield from hooked(at, hook)
    seconds = number(known(known(hook).get("sleep")).get("seconds"))
    if seconds is not None and grace is not None and not 0 <= seconds <= grace:
        message = f"must be from 0 to terminationGracePeriodSeconds ({grace}), got {seconds}"
        yield error(SLEEP_ABOVE_GRACE_PERIOD, (*at, "sleep", "seconds"), message)


_USER = between(0)
_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")


def _local_profile(at: Location, profile: Mapping[str, Any]) -> Iterator[Finding]:
    kind, local = profile.get("type"), profile.get("localhostProfile")
    here = (*at, "localhostProfile")
    if is_output(kind):
        return
    if kind == "Localhost":
        if local is None:
            yield error(FIELD_REQUIRED, here, "is required with type Localhost")
    elif local is not None:
        yield error(PROFILE_WITHOUT_EFFECT, here, "has an effect with type Localhost only")


def _unpadded(at: Location, value: Any) -> Iterator[Finding]:
    if isinstance(value, str) and (not value.strip() or value != value.strip()):
        yield error(INVALID_SECURITY_PROFILE, at, f"must be a profile's name, got {shown(value)}")


#: Fields of security that containers and pods share.
SECURITY: Mapping[str, Check] = {
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "seccompProfile": fields(
        {"type": one_of(*_PROFILE_TYPES), "localhostProfile": descending},
        _local_profile,
        required=("type",),
    ),
    "appArmorProfile": fields(
        {"type": one_of(*_PROFILE_TYPES), "localhostProfile": _unpadded},
        _local_profile,
        required=("type",),
    ),
}
_ADMIN = "CAP_SYS_ADMIN"


def _escalation(at: Location, security: Mapping[str, Any]) -> Iterator[Finding]:
    if security.get("allowPrivilegeEscalation") is not False:
        return
    here = (*at, "allowPrivilegeEscalation")
    if security.get("privileged") is True:
        message = "cannot be false with privileged: true; remove one of them"
        yield error(PRIVILEGED_WITHOUT_ESCALATION, here, message)
    if _ADMIN in listed(known(security.get("capabilities")).get("add")):
        message = f"cannot be false with the capability {_ADMIN}; remove one of them"
        yield error(ADMIN_WITHOUT_ESCALATION, here, message)


_SECURITY_CONTEXT = fields({**SECURITY, "procMount": one_of("Default", "Unmasked")}, _escalation)

#: Alpha in Kubernetes 1.35.
_RULES_GATE = "RestartAllContainersOnContainerExits"
_RESTART_RULE = fields(
    {
        "action": one_of("Restart", "RestartAllContainers"),
        "exitCodes": fields({"operator": one_of("In", "NotIn")}, required=("operator",)),
    },
    required=("action", "exitCodes"),
)


def _restart_rules(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    rules = listed(container.get("restartPolicyRules"))
    if rules and not given(container.get("restartPolicy")):
        message = "is required with restartPolicyRules"
        yield error(FIELD_REQUIRED, (*at, "restartPolicy"), message)
    if len(rules) > _MOST_RESTART_RULES:
        message = f"must hold at most {_MOST_RESTART_RULES} rules, got {len(rules)}"
        yield error(TOO_LONG, (*at, "restartPolicyRules"), message)


def _port_names(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    names: set[str] = set()
    for index, port in mappings(container.get("ports")):
        name = text(port.get("name"))
        if name and name in names:
            message = f"{shown(name)} names two ports of the container"
            yield error(DUPLICATE_PORT_NAME, (*at, "ports", index, "name"), message)
        names.add(name)


def _resized_twice(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, policy in mappings(container.get("resizePolicy")):
        name = text(policy.get("resourceName"))
        if name and name in seen:
            message = f"{shown(name)} has two policies; remove one"
            yield error(RESIZE_POLICY_TWICE, (*at, "resizePolicy", index), message)
        seen.add(name)


_CONTAINER = fields(
    {
        "name": formatted(DNS_LABEL),
        "imagePullPolicy": one_of("Always", "Never", "IfNotPresent"),
        "terminationMessagePolicy": one_of("File", "FallbackToLogsOnError"),
        "restartPolicyRules": each(_RESTART_RULE),
        "ports": each(
            fields(
                {
                    "name": formatted(PORT_NAME),
                    "containerPort": _PORT_NUMBER,
                    "hostPort": between(0, 65535),
                    "protocol": one_of("TCP", "UDP", "SCTP"),
                },
            )
        ),
        "env": env,
        "envFrom": env_from,
        "securityContext": _SECURITY_CONTEXT,
        "resizePolicy": each(
            fields(
                {
                    "resourceName": one_of("cpu", "memory"),
                    "restartPolicy": one_of("NotRequired", "RestartContainer"),
                },
                required=("resourceName", "restartPolicy"),
            )
        ),
    },
    _image,
    _restart_rules,
    _port_names,
    _resized_twice,
    required=("name",),
)
_RESTART_POLICY = one_of("Always", "Never", "OnFailure")


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
    yield from _restart_policy(at, container)
    yield from container_resources((*at, "resources"), container.get("resources"), pod.claims)
    yield from _security_of_pod(at, container, pod)
    yield from _mounts(at, container, pod)
    if pod.volumes is not None:
        yield from file_references(at, container, pod.volumes)
    policy = container.get("restartPolicy")
    if not starting or policy == "Always" or is_output(policy):
        yield from fields(_PROBES)(at, container)
        for hook in ("postStart", "preStop"):
            held = known(container.get("lifecycle")).get(hook)
            if isinstance(held, Mapping):
                yield from _hook_findings((*at, "lifecycle", hook), held, pod.grace_seconds)
        if starting and policy == "Always" and listed(container.get("restartPolicyRules")):
            message = f"needs the feature gate {_RULES_GATE} beside restartPolicy Always; remove it"
            yield warning(RESTART_RULES_OF_SIDECAR, (*at, "restartPolicyRules"), message)
        return
    for key in (*_PROBES, "lifecycle"):
        held = container.get(key)
        # API servers drop a stopSignal before they look, unless a feature gate is on.
        if held is not None and not (isinstance(held, Mapping) and {*held} == {"stopSignal"}):
            message = "needs restartPolicy Always in an init container; remove it"
            yield error(PROBE_OF_INIT_CONTAINER, (*at, key), message)


def _restart_policy(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    policy = container.get("restartPolicy")
    here = (*at, "restartPolicy")
    # The empty string is no default here.
    if policy == "":
        yield error(UNKNOWN_VALUE, here, "must be Always, Never or OnFailure, got an empty text")
    elif policy is not None:
        yield from _RESTART_POLICY(here, policy)


def _security_of_pod(
    at: Location, container: Mapping[str, Any], pod: PodFacts
) -> Iterator[Finding]:
    security = known(container.get("securityContext"))
    if security.get("procMount") == "Unmasked" and pod.host_users:
        message = "needs hostUsers: false of the pod to be Unmasked"
        yield error(PROC_MOUNT_OF_HOST_USERS, (*at, "securityContext", "procMount"), message)


def _mounts(at: Location, container: Mapping[str, Any], pod: PodFacts) -> Iterator[Finding]:
    privileged = known(container.get("securityContext")).get("privileged")
    devices = {
        text(each.get("name")): text(each.get("devicePath"))
        for _, each in mappings(container.get("volumeDevices"))
    }
    for index, mount in mappings(container.get("volumeMounts")):
        here = (*at, "volumeMounts", index)
        yield from _MOUNT(here, mount)
        name, path = text(mount.get("name")), text(mount.get("mountPath"))
        yield from _volume_missing(here, name, pod)
        if name and name in devices:
            message = f"{shown(name)} is among volumeDevices, too; remove one"
            yield error(VOLUME_MOUNTED_AS_DEVICE, (*here, "name"), message)
        elif path and path in devices.values():
            message = f"{shown(path)} is the path of a device, too; choose another path"
            yield error(PATH_OF_DEVICE, (*here, "mountPath"), message)
        shared = mount.get("mountPropagation") == "Bidirectional"
        if shared and privileged is not True and not is_output(privileged):
            message = "Bidirectional needs a privileged container"
            yield error(PROPAGATION_WITHOUT_PRIVILEGE, (*here, "mountPropagation"), message)
    yield from _devices(at, container, pod)


def _devices(at: Location, container: Mapping[str, Any], pod: PodFacts) -> Iterator[Finding]:
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in mappings(container.get("volumeDevices")):
        here = (*at, "volumeDevices", index)
        yield from _DEVICE(here, device)
        name, path = text(device.get("name")), text(device.get("devicePath"))
        yield from _volume_missing(here, name, pod)
        if (name and name in names) or (path and path in paths):
            message = f"{shown(name)} at {shown(path)} is there already; remove one"
            yield error(DEVICE_NAMED_TWICE, here, message)
        names.add(name)
        paths.add(path)
        volume = (pod.volumes or {}).get(name)
        if volume is not None and not any(
            volume.get(key) is not None for key in ("persistentVolumeClaim", "ephemeral")
        ):
            message = f"{shown(name)} must be a persistentVolumeClaim or ephemeral volume"
            yield error(DEVICE_WITHOUT_CLAIM, (*here, "name"), message)


def _volume_missing(at: Location, name: str, pod: PodFacts) -> Iterator[Finding]:
    if name and pod.volumes is not None and name not in pod.volumes:
        have = f"; it has {', '.join(sorted(pod.volumes))}" if pod.volumes else ""
        message = f"the pod has no volume {shown(name)}{have}: add it to its volumes"
        yield error(VOLUME_MISSING, (*at, "name"), message)


def _read_only(at: Location, mount: Mapping[str, Any]) -> Iterator[Finding]:
    recursive, propagation = mount.get("recursiveReadOnly"), mount.get("mountPropagation")
    here = (*at, "recursiveReadOnly")
    if recursive not in ("Enabled", "IfPossible"):
        return
    if mount.get("readOnly") is not True and not is_output(mount.get("readOnly")):
        yield error(RECURSIVE_WITHOUT_READ_ONLY, here, "needs readOnly: true")
    if propagation not in (None, "None") and not is_output(propagation):
        message = f"needs mountPropagation None, got {shown(propagation)}"
        yield error(RECURSIVE_WITH_PROPAGATION, here, message)


def _one_sub_path(at: Location, mount: Mapping[str, Any]) -> Iterator[Finding]:
    if text(mount.get("subPath")) and text(mount.get("subPathExpr")):
        message = "subPath and subPathExpr exclude each other; remove one"
        yield error(SUB_PATHS_SEVERAL, (*at, "subPathExpr"), message)


_MOUNT = fields(
    {
        "subPath": descending,
        "subPathExpr": descending,
        "mountPropagation": one_of("Bidirectional", "HostToContainer", "None"),
        "recursiveReadOnly": one_of("Disabled", "Enabled", "IfPossible"),
    },
    _read_only,
    _one_sub_path,
    required=("name", "mountPath"),
)
_DEVICE = fields({"devicePath": no_backsteps}, required=("name", "devicePath"))


def container_names(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    """Checks that no init container has the name of another container."""
    names = {text(each.get("name")) for _, each in mappings(spec.get("containers"))} - {""}
    for index, container in mappings(spec.get("initContainers")):
        name = text(container.get("name"))
        if name in names:
            message = f"{shown(name)} names two containers of the pod"
            yield error(DUPLICATE_CONTAINER_NAME, (*at, "initContainers", index, "name"), message)


def host_ports(at: Location, spec: Mapping[str, Any], pod: PodFacts) -> Iterator[Finding]:
    """Checks the ports that containers take of the node, each init container by itself."""
    if is_output(spec.get("hostNetwork")):
        return
    together = [
        ((*at, "containers", index), each) for index, each in mappings(spec.get("containers"))
    ]
    alone = [
        [((*at, "initContainers", index), each)]
        for index, each in mappings(spec.get("initContainers"))
    ]
    for group in (together, *alone):
        yield from _host_ports(group, pod)


def _host_ports(
    containers: list[tuple[Location, Mapping[str, Any]]], pod: PodFacts
) -> Iterator[Finding]:
    taken: set[tuple[str, str, int]] = set()
    for at, container in containers:
        for index, port in mappings(container.get("ports")):
            here = (*at, "ports", index)
            own, host = number(port.get("containerPort")), number(port.get("hostPort"))
            if pod.host_network and host and own and host != own and at[-2] == "containers":
                message = f"must be the containerPort ({own}) with hostNetwork, got {host}"
                yield error(HOST_PORT_DIFFERS, (*here, "hostPort"), message)
            host = host or (own if pod.host_network else None)
            if not host or is_output(port.get("protocol")) or is_output(port.get("hostIP")):
                continue
            key = (text(port.get("protocol")) or "TCP", text(port.get("hostIP")), host)
            if key in taken:
                message = f"{host}/{key[0]} of the node is taken twice in this pod; change one"
                yield error(HOST_PORT_TWICE, here, message)
            taken.add(key)
