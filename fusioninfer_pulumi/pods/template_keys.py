"""Keys of a pod template that Kubernetes does not know: most are typing errors.

Pod templates are passed on as they are written, and an API server drops what it does not know from
a LeaderWorkerSet, or refuses it, if it is asked to be strict. A later Kubernetes may know more
keys than the table, so that nothing here refuses one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import Finding, Location, similar, warning

#: Keys of kinds of core/v1 in Kubernetes 1.37, from the models of its official Python client, and
#: `workloadRef`, which 1.35 alone has. No key of them was ever given another meaning.
_NAMES = {
    "PodSpec": """
        activeDeadlineSeconds affinity automountServiceAccountToken containers
        dnsConfig dnsPolicy enableServiceLinks ephemeralContainers
        evictionResponders hostAliases hostIPC hostNetwork hostPID hostUsers
        hostname hostnameOverride imagePullSecrets initContainers nodeName
        nodeSelector os overhead preemptionPolicy priority priorityClassName
        readinessGates resourceClaims resources restartPolicy runtimeClassName
        schedulerName schedulingGates schedulingGroup securityContext serviceAccount
        serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
        terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes
        workloadRef
    """,
    "Container": """
        args command env envFrom image imagePullPolicy lifecycle livenessProbe name
        ports readinessProbe resizePolicy resources restartPolicy restartPolicyRules
        securityContext startupProbe stdin stdinOnce terminationMessagePath
        terminationMessagePolicy tty volumeDevices volumeMounts workingDir
    """,
    "ResourceRequirements": """
        claims limits requests
    """,
    "EnvVar": """
        name value valueFrom
    """,
    "ContainerPort": """
        containerPort hostIP hostPort name protocol
    """,
    "VolumeMount": """
        bindMountOptions mountPath mountPropagation name readOnly recursiveReadOnly
        subPath subPathExpr
    """,
    "Probe": """
        exec failureThreshold grpc httpGet initialDelaySeconds periodSeconds
        successThreshold tcpSocket terminationGracePeriodSeconds timeoutSeconds
    """,
    "Toleration": """
        effect key operator tolerationSeconds value
    """,
}
KEYS = {kind: frozenset(names.split()) for kind, names in _NAMES.items()}
#: What stands below a key of a kind: a kind, and whether it is a list of them.
_BELOW = {
    "PodSpec": {
        "containers": ("Container", True),
        "initContainers": ("Container", True),
        "resources": ("ResourceRequirements", False),
        "tolerations": ("Toleration", True),
    },
    "Container": {
        "env": ("EnvVar", True),
        "livenessProbe": ("Probe", False),
        "ports": ("ContainerPort", True),
        "readinessProbe": ("Probe", False),
        "resources": ("ResourceRequirements", False),
        "startupProbe": ("Probe", False),
        "volumeMounts": ("VolumeMount", True),
    },
}
#: What a message calls a thing of a kind.
_CALLED = {
    "PodSpec": "a pod's spec",
    "Container": "a container",
    "ResourceRequirements": "resources",
    "EnvVar": "a variable",
    "ContainerPort": "a container port",
    "VolumeMount": "a volume mount",
    "Probe": "a probe",
    "Toleration": "a toleration",
}


def key_findings(args: InferenceServiceArgs) -> Iterator[Finding]:
    """Warns of each unknown key in what Kubernetes defines as part of a pod."""
    for position, role in enumerate(args.roles):
        templates = {
            "template": role.template,
            "leaderTemplate": role.leader_template,
            "workerTemplate": role.worker_template,
        }
        for field, template in templates.items():
            at: Location = ("roles", position, field, "spec")
            yield from _unknown(at, (template or {}).get("spec"), "PodSpec")
        resources = {
            ("endpointPicker",): role.endpoint_picker and role.endpoint_picker.resources,
            ("kvTransfer", "sidecar"): role.kv_transfer and role.kv_transfer.sidecar.resources,
        }
        for owner, held in resources.items():
            at = ("roles", position, *owner, "resources")
            yield from _unknown(at, held, "ResourceRequirements")
    if args.model is not None:
        fetcher = args.model.fetcher
        at = ("model", "fetcher", "resources")
        yield from _unknown(at, fetcher.resources, "ResourceRequirements")
        for index, variable in enumerate(fetcher.env):
            yield from _unknown(("model", "fetcher", "env", index), variable, "EnvVar")


def _unknown(at: Location, held: Any, kind: str) -> Iterator[Finding]:
    if not isinstance(held, Mapping):
        return  # an Output, or what the spec refuses
    below = _BELOW.get(kind, {})
    for key, value in held.items():
        here = (*at, str(key))
        if key not in KEYS[kind]:
            yield warning("pod-key-unknown", here, _message(str(key), kind))
        elif key in below:
            inner, listed = below[key]
            if not listed:
                yield from _unknown(here, value, inner)
            elif isinstance(value, (list, tuple)):
                for index, item in enumerate(value):
                    yield from _unknown((*here, index), item, inner)


def _message(key: str, kind: str) -> str:
    meant = similar(key, KEYS[kind])
    guess = f", did you mean {meant}? The" if meant else ": the"
    return f"unknown key of {_CALLED[kind]}{guess} API server refuses it, or drops it"
