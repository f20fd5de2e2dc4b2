"""Pods that every API server rejects, with our messages."""

from __future__ import annotations

from typing import Any

Case = tuple[dict[str, Any], str, str]

_PORT_NAME = "must be a port name: at most 15 of a-z 0-9 -, with a letter, no - at the ends, no --"

#: Fields of the pod's spec, the location of the error in it, and the message.
PODS: list[Case] = [
    ({"volumes": {"name": "x"}}, "volumes", 'must be a list, got {"name": "x"}'),
    ({"volumes": [None]}, "volumes[0]", 'must be a mapping, got null'),
    ({"volumes": [{"emptyDir": {}}]}, "volumes[0].name", "is required: a string"),
    ({"volumes": [{"name": "a", "emptyDir": {"sizeLimit": []}}]},
     "volumes[0].emptyDir.sizeLimit",
     "must be a Kubernetes quantity such as 8, 500m or 16Gi, got []"),
    ({"imagePullSecrets": ["a"]}, "imagePullSecrets[0]", 'must be a mapping, got "a"'),
    ({"resourceClaims": [{"name": {}}]}, "resourceClaims[0].name",
     "must be a string, got {}"),
    ({"tolerations": {"a": "b"}}, "tolerations", 'must be a list, got {"a": "b"}'),
    ({"tolerations": [{"key": "a", "effect": "Never"}]}, "tolerations[0].effect",
     'must be one of NoSchedule, PreferNoSchedule, NoExecute, got "Never"'),
    ({"tolerations": [{"value": "a"}]}, "tolerations[0]",
     "needs a key, or operator Exists, which tolerates everything"),
    ({"tolerations": [{"key": "x y"}]}, "tolerations[0].key",
     'must be a label key such as example.com/name, got "x y"'),
    ({"terminationGracePeriodSeconds": "x"}, "terminationGracePeriodSeconds",
     'must be an integer, got "x"'),
    ({"priorityClassName": "Bad Name"}, "priorityClassName",
     'must be the name of an object (at most 253 of a-z 0-9 - .), got "Bad Name"'),
    ({"hostNetwork": "yes"}, "hostNetwork", 'must be true or false, got "yes"'),
    ({"nodeSelector": {"a": "x y"}}, "nodeSelector.a",
     'must be a label value (at most 63 of A-Z a-z 0-9 - _ .), got "x y"'),
]  # fmt: skip

#: Fields of the serving container, the location of the error in it, and the message.
CONTAINERS: list[Case] = [
    ({"imagePullPolicy": "Sometimes"}, "imagePullPolicy",
     'must be one of Always, Never, IfNotPresent, got "Sometimes"'),
    ({"env": [{"name": ""}]}, "env[0].name", "is required"),
    ({"env": [{"name": "A=B"}]}, "env[0].name",
     'must be printable ASCII without =, got "A=B"'),
    ({"ports": [{"name": {}, "containerPort": 1}]}, "ports[0].name", "must be a string, got {}"),
    ({"ports": [{"name": "a--b", "containerPort": 1}]}, "ports[0].name",
     f'{_PORT_NAME}, got "a--b"'),
    ({"ports": [{"containerPort": 1, "protocol": "tcp"}]}, "ports[0].protocol",
     'must be one of TCP, UDP, SCTP, got "tcp"'),
    ({"volumeMounts": {"name": "x"}}, "volumeMounts", 'must be a list, got {"name": "x"}'),
    ({"volumeMounts": [{"name": "x"}]}, "volumeMounts[0].mountPath",
     "is required: a string"),
    ({"resources": {"claims": {"name": "x"}}}, "resources.claims",
     'must be a list, got {"name": "x"}'),
    ({"readinessProbe": {"httpGet": {"port": {}}}}, "readinessProbe.httpGet.port",
     "must be an integer or a string, got {}"),
    ({"livenessProbe": {"tcpSocket": {"port": "80"}}}, "livenessProbe.tcpSocket.port",
     'must be an integer from 1 to 65535 or the name of a port, got "80"'),
    ({"lifecycle": {"preStop": []}}, "lifecycle.preStop", "must be a mapping, got []"),
    ({"securityContext": {"capabilities": []}}, "securityContext.capabilities",
     "must be a mapping, got []"),
]  # fmt: skip

#: Unusual but valid fields of the pod's spec.
ACCEPTED: list[dict[str, Any]] = [
    {"imagePullSecrets": [{"name": "a.b"}, {}], "priorityClassName": None},
    {"tolerations": [{"operator": "Exists"}, {"key": "a.example/b", "value": ""}]},
    {"volumes": [{"name": "a", "emptyDir": {"sizeLimit": 1}}, {"name": "b", "csi": None}]},
    {"priority": 0, "schedulerName": " "},
    {"priority": 2_000_000_000, "priorityClassName": "system-cluster-critical"},
    {"terminationGracePeriodSeconds": 0, "hostNetwork": None, "affinity": {}},
]
