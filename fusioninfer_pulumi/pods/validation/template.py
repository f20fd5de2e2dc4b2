"""Rules about a whole pod template, as API validation has them in Kubernetes 1.35.

They come from `pkg/apis/core/validation/validation.go` (`ValidatePodSpec`,
`validatePodMetadataAndSpec`) and from what `pkg/apis/apps/validation` asks of the templates of
StatefulSets and Deployments. Schemas decide about types, unknown and missing fields and the keys of
lists; what they say is not repeated here. A rule stands here only if the API server refuses what it
refuses: a template that may pass on some cluster passes.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pods.validation._values import (
    DNS_LABEL,
    IPV4,
    OBJECT_NAME,
    SEARCH_DOMAIN,
    SYSCTL,
    between,
    each,
    exactly_one,
    fields,
    formatted,
    given,
    known,
    listed,
    mappings,
    one_of,
    text,
)
from fusioninfer_pulumi.pods.validation.containers import (
    SECURITY,
    PodFacts,
    container_findings,
    container_names,
    grace_seconds,
    host_ports,
)
from fusioninfer_pulumi.pods.validation.metadata import annotation_findings, label_map
from fusioninfer_pulumi.pods.validation.resources import overhead, pod_resources
from fusioninfer_pulumi.pods.validation.scheduling import (
    affinity,
    gates,
    keys_selected_twice,
    readiness_gates,
    spread_findings,
    tolerations,
)
from fusioninfer_pulumi.pods.validation.volumes import volume_names, volumes
from fusioninfer_pulumi.rules.common import TOO_LONG

POD_RESTART_POLICY = Rule(
    "pod-restart-policy",
    "error",
    "Pods of a LeaderWorkerSet have `restartPolicy: Always`.",
    remedy="Remove `restartPolicy` from the template; the role's `restartPolicy` says what a "
    "failure restarts.",
)
POD_DEADLINE = Rule(
    "pod-deadline",
    "error",
    "Pods that serve have no deadline.",
    remedy="Remove `activeDeadlineSeconds`.",
    source="Kubernetes API validation",
)
EPHEMERAL_CONTAINER = Rule(
    "ephemeral-container",
    "error",
    "Pod templates have no ephemeral containers.",
    remedy="Remove them.",
    source="Kubernetes API validation",
)
PROCESS_NAMESPACES_SEVERAL = Rule(
    "process-namespaces-several",
    "error",
    "A pod has one way to share process namespaces.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
HOST_NAMESPACE_WITHOUT_USERS = Rule(
    "host-namespace-without-users",
    "error",
    "Pods with users of their own do not share the host's namespaces.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
DEVICES_WITHOUT_HOST_USERS = Rule(
    "devices-without-host-users",
    "error",
    "Pods with users of their own have no block devices.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
NODE_NAME_WITH_GATES = Rule(
    "node-name-with-gates",
    "error",
    "A pod with scheduling gates has no `nodeName`.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
OVERHEAD_WITHOUT_RUNTIME_CLASS = Rule(
    "overhead-without-runtime-class",
    "error",
    "Overhead belongs to a runtime class.",
    remedy="Remove it.",
    source="Kubernetes API validation",
)
NAMESERVER_MISSING = Rule(
    "nameserver-missing",
    "error",
    "`dnsPolicy: None` stands beside a name server.",
    remedy="Add `dnsConfig.nameservers`.",
    source="Kubernetes API validation",
)
INVALID_ADDRESS = Rule(
    "invalid-address",
    "error",
    "An address is an IP address.",
    remedy="Correct it.",
    source="Kubernetes API validation",
)
SYSCTL_TWICE = Rule(
    "sysctl-twice",
    "error",
    "A pod sets each sysctl once.",
    remedy="Remove the second one.",
    source="Kubernetes API validation",
)
SYSCTL_OF_HOST = Rule(
    "sysctl-of-host",
    "error",
    "A pod on the host's namespaces does not set their sysctls.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
CLAIM_SOURCES_NOT_ONE = Rule(
    "claim-sources-not-one",
    "error",
    "A resource claim of a pod has one source.",
    remedy="Keep either `resourceClaimName` or `resourceClaimTemplateName`.",
    source="Kubernetes API validation",
)

_MOST_NAMESERVERS = 3
_MOST_SEARCHES = 32
_SEARCH_CHARACTERS = 2048


class Owner(enum.Enum):
    """Whose pod template it is."""

    STATEFUL_SET = enum.auto()
    DEPLOYMENT = enum.auto()
    JOB = enum.auto()


def template_findings(
    template: Mapping[str, Any], owner: Owner = Owner.STATEFUL_SET
) -> Iterator[Finding]:
    """Checks a finished pod template; locations are relative to it."""
    spec = known(template.get("spec"))
    metadata = known(template.get("metadata"))
    yield from label_map(("metadata", "labels"), metadata.get("labels"))
    yield from annotation_findings((), template)
    pod = PodFacts(
        volumes=volume_names(spec),
        claims=_claim_names(spec),
        host_network=spec.get("hostNetwork") is True,
        host_users=spec.get("hostUsers") in (None, True),
        grace_seconds=grace_seconds(spec),
    )
    at: Location = ("spec",)
    yield from volumes((*at, "volumes"), spec.get("volumes"))
    for key in ("initContainers", "containers"):
        for index, container in mappings(spec.get(key)):
            here = (*at, key, index)
            yield from container_findings(here, container, pod, starting=key != "containers")
    yield from container_names(at, spec)
    yield from host_ports(at, spec, pod)
    yield from pod_resources(at, spec)
    yield from _SPEC(at, spec)
    yield from keys_selected_twice(at, spec, known(metadata.get("labels")))
    if owner is not Owner.JOB:
        yield from _kept_running(at, spec)
    if owner is not Owner.STATEFUL_SET:  # which names the hosts of its pods by itself
        yield from _HOST_NAMES(at, spec)


def _claim_names(spec: Mapping[str, Any]) -> set[str] | None:
    claims = spec.get("resourceClaims")
    if is_output(claims) or any(is_output(each) for each in listed(claims)):
        return None
    return {text(each.get("name")) for _, each in mappings(claims)} - {""}


def _kept_running(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    policy = spec.get("restartPolicy")
    if policy not in (None, "", "Always") and not is_output(policy):
        message = f"must be Always for pods that are kept running, got {shown(policy)}"
        yield error(POD_RESTART_POLICY, (*at, "restartPolicy"), message)
    if spec.get("activeDeadlineSeconds") is not None:
        message = "must not be set for pods that are kept running; remove it"
        yield error(POD_DEADLINE, (*at, "activeDeadlineSeconds"), message)


def _ephemeral(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    if listed(spec.get("ephemeralContainers")):
        message = "are added to running pods only (kubectl debug); remove them"
        yield error(EPHEMERAL_CONTAINER, (*at, "ephemeralContainers"), message)


def _host_users(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    if spec.get("shareProcessNamespace") is True and spec.get("hostPID") is True:
        message = "excludes hostPID; remove one of them"
        yield error(PROCESS_NAMESPACES_SEVERAL, (*at, "shareProcessNamespace"), message)
    if spec.get("hostUsers") is not False:
        return
    # `hostNetwork` is allowed behind a feature gate since 1.35.
    for key in ("hostPID", "hostIPC"):
        if spec.get(key) is True:
            message = "excludes hostUsers: false; remove one of them"
            yield error(HOST_NAMESPACE_WITHOUT_USERS, (*at, key), message)
    for key in ("initContainers", "containers"):
        for index, container in mappings(spec.get(key)):
            if listed(container.get("volumeDevices")):
                where = (*at, key, index, "volumeDevices")
                message = "excludes hostUsers: false; remove one of them"
                yield error(DEVICES_WITHOUT_HOST_USERS, where, message)


def _gated_node(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    if text(spec.get("nodeName")) and listed(spec.get("schedulingGates")):
        message = "excludes schedulingGates; remove one of them"
        yield error(NODE_NAME_WITH_GATES, (*at, "nodeName"), message)


def _overhead(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    held = known(spec.get("overhead"))
    yield from overhead((*at, "overhead"), held)
    if held and not given(spec.get("runtimeClassName")):
        message = "is that of a RuntimeClass; set runtimeClassName, or remove it"
        yield error(OVERHEAD_WITHOUT_RUNTIME_CLASS, (*at, "overhead"), message)


def _dns(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    config = spec.get("dnsConfig")
    if is_output(config):
        return
    at = (*at, "dnsConfig")
    servers, searches = known(config).get("nameservers"), listed(known(config).get("searches"))
    if spec.get("dnsPolicy") == "None" and not is_output(servers) and not servers:
        message = "needs a nameserver with dnsPolicy None"
        yield error(NAMESERVER_MISSING, (*at, "nameservers"), message)
    if len(listed(servers)) > _MOST_NAMESERVERS:
        message = f"must hold at most {_MOST_NAMESERVERS} nameservers, got {len(listed(servers))}"
        yield error(TOO_LONG, (*at, "nameservers"), message)
    characters = len(" ".join(each for each in searches if isinstance(each, str)))
    if len(searches) > _MOST_SEARCHES or characters > _SEARCH_CHARACTERS:
        message = (
            f"must hold at most {_MOST_SEARCHES} domains of {_SEARCH_CHARACTERS} characters "
            f"together, got {len(searches)} of {characters}"
        )
        yield error(TOO_LONG, (*at, "searches"), message)


def _address(at: Location, value: Any) -> Iterator[Finding]:
    if not isinstance(value, str) or IPV4.fits(value):
        return
    try:
        valid = "%" not in value and ipaddress.ip_address(value) is not None
    except ValueError:
        valid = False
    if not valid:
        yield error(INVALID_ADDRESS, at, f"must be an IP address, got {shown(value)}")


def _alias(at: Location, alias: Mapping[str, Any]) -> Iterator[Finding]:
    if not is_output(alias.get("ip")):
        yield from _address((*at, "ip"), alias.get("ip") or "")


def _sysctls(at: Location, security: Mapping[str, Any]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, sysctl in mappings(security.get("sysctls")):
        name = text(sysctl.get("name"))
        if name and name in seen:
            where = (*at, "sysctls", index, "name")
            yield error(SYSCTL_TWICE, where, f"{shown(name)} is there twice; remove one")
        seen.add(name)


_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def _host_sysctls(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    sysctls = known(spec.get("securityContext")).get("sysctls")
    for index, sysctl in mappings(sysctls):
        name = text(sysctl.get("name")).replace("/", ".")
        where = (*at, "securityContext", "sysctls", index, "name")
        for key, prefixes in (("hostNetwork", ("net.",)), ("hostIPC", _IPC_SYSCTLS)):
            if spec.get(key) is True and name.startswith(prefixes):
                message = f"{shown(name)} would change the node with {key}; remove one of them"
                yield error(SYSCTL_OF_HOST, where, message)


_POD_SECURITY = fields(
    {
        **SECURITY,
        "fsGroup": between(0),
        "supplementalGroups": each(between(0)),
        "sysctls": each(fields({"name": formatted(SYSCTL)}, required=("name",))),
        "fsGroupChangePolicy": one_of("Always", "OnRootMismatch"),
        "supplementalGroupsPolicy": one_of("Merge", "Strict"),
        "seLinuxChangePolicy": one_of("MountOption", "Recursive"),
    },
    _sysctls,
)
_CLAIM = fields(
    {
        "name": formatted(DNS_LABEL),
        "resourceClaimName": formatted(OBJECT_NAME),
        "resourceClaimTemplateName": formatted(OBJECT_NAME),
    },
    exactly_one(
        CLAIM_SOURCES_NOT_ONE, "source", ("resourceClaimName", "resourceClaimTemplateName")
    ),
    required=("name",),
)
_SPEC = fields(
    {
        "dnsPolicy": one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        "dnsConfig": fields(
            {
                "nameservers": each(_address),
                "searches": each(formatted(SEARCH_DOMAIN)),
                "options": each(fields({}, required=("name",))),
            }
        ),
        "hostAliases": each(fields({"hostnames": each(formatted(OBJECT_NAME))}, _alias)),
        "nodeSelector": label_map,
        "nodeName": formatted(OBJECT_NAME),
        "serviceAccountName": formatted(OBJECT_NAME),
        "priorityClassName": formatted(OBJECT_NAME),
        "runtimeClassName": formatted(OBJECT_NAME),
        "preemptionPolicy": one_of("Never", "PreemptLowerPriority"),
        "os": fields({"name": one_of("linux", "windows")}, required=("name",)),
        "securityContext": _POD_SECURITY,
        "affinity": affinity,
        "tolerations": tolerations,
        "topologySpreadConstraints": spread_findings,
        "schedulingGates": gates,
        "readinessGates": readiness_gates,
        "resourceClaims": each(_CLAIM),
    },
    _ephemeral,
    _host_users,
    _gated_node,
    _overhead,
    _dns,
    _host_sysctls,
)
_HOST_NAMES = fields({"hostname": formatted(DNS_LABEL), "subdomain": formatted(DNS_LABEL)})
