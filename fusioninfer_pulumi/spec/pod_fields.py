"""Fields of a pod's spec of which it is certain what Kubernetes takes.

The API server holds the pod template of a LeaderWorkerSet to its types only. What else is wrong is
refused pod by pod, where nobody sees it but who asks for the events of a StatefulSet. So the forms
that pod validation asks for are asked for here (Kubernetes 1.35, pkg/apis/core/validation), as far
as they hold for every release and need no other object; and keys of labels, without which no node
can be chosen, though an API server takes any text for them. Containers' names, images, commands,
variables, ports and resources are judged in `container.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.outputs import is_output
from fusioninfer_pulumi.spec.container import amount_problems
from fusioninfer_pulumi.spec.problem import Problem
from fusioninfer_pulumi.spec.shapes import (
    choice,
    flag,
    items,
    label_key,
    label_map,
    mapping,
    port,
    text,
    whole,
)

_LABEL = text("a DNS label (a-z 0-9 -, at most 63)", r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)
_NAME_OF_OBJECT = (
    "the name of an object (at most 253 of a-z 0-9 - .)",
    r"|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    253,
)
_OBJECT = text(*_NAME_OF_OBJECT)
_TEXT = text()


def _size(at: Location, value: Any) -> Iterator[Problem]:
    yield from amount_problems(at[:-1], {at[-1]: value})


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


def _toleration(at: Location, value: Any) -> Iterator[Problem]:
    if isinstance(value, Mapping) and value.get("key") in (None, ""):
        value = {key: item for key, item in value.items() if key != "key"}
        if value.get("operator") != "Exists" and not is_output(value.get("operator")):
            yield Problem(
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

#: Of a pod's spec.
pod_fields = mapping(
    {
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

#: Of a container.
container_fields = mapping(
    {
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
