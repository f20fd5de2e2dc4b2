"""Converts the sidecar of decode pods, which KServe's presets run as an init container.

Users override it with an init container of the same name, which becomes `kvTransfer.sidecar`.
"""

from __future__ import annotations

from typing import Any

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.kserve._nodes import Node, copy_fields, copy_node, set_fields
from fusioninfer_importers.kserve.scheduler import split_flags
from fusioninfer_pulumi.plugins.importers import Location, object_names

NAME = "llm-d-routing-sidecar"
#: Flags that are generated here, with their values in the presets.
_PRESET_FLAGS = {
    "port": ("8000",),
    "vllm-port": ("8001",),
    "kv-connector": ("nixlv2",),
    "connector": ("nixlv2",),
    "secure-proxy": ("false",),
    "enable-ssrf-protection": ("true",),
    "pool-group": ("inference.networking.k8s.io", "inference.networking.x-k8s.io"),
}
_PROBE = {
    "httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"},
    "initialDelaySeconds": 10,
    "periodSeconds": 10,
}
_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": False,
    "runAsNonRoot": True,
}
#: Values in the presets' container that are generated here, or have no effect here.
_PRESET_FIELDS: dict[str, tuple[Any, ...]] = {
    "name": (NAME,),
    "restartPolicy": ("Always",),
    "imagePullPolicy": ("IfNotPresent",),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("FallbackToLogsOnError",),
    "ports": ([{"containerPort": 8000, "protocol": "TCP"}],),
    "env": (
        [
            {
                "name": "INFERENCE_POOL_NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            },
            {
                "name": "SSL_CERT_DIR",
                "value": "/var/run/kserve/tls:/var/run/secrets/kubernetes.io/serviceaccount:"
                "/etc/pki/tls/certs",
            },
        ],
    ),
    "livenessProbe": ({**_PROBE, "failureThreshold": 3, "timeoutSeconds": 10},),
    "readinessProbe": ({**_PROBE, "failureThreshold": 10, "timeoutSeconds": 5},),
    "securityContext": (_SECURITY, {**_SECURITY, "seccompProfile": {"type": "RuntimeDefault"}}),
    "volumeMounts": ([],),
}


def convert_sidecar(builder: ServiceBuilder, role: Location, decode: Node) -> Node:
    """Set the sidecar of a decode role; return the workload without it.

    Like KServe's, ours accepts only prefill addresses of its own pool by default.
    """
    target = (*role, "kvTransfer", "sidecar")
    template, entries = decode.get("template"), decode.get("template", "initContainers")
    if template is None or entries is None:
        return decode
    kept = [container for container in entries.items if container.text("name") != NAME]
    if len(kept) == len(entries.items):
        return decode
    for container in entries.items:
        if container.text("name") == NAME:
            _convert_override(builder, target, container)
    init_containers = Node(entries.field, kept) if kept else None
    return set_fields(decode, template=set_fields(template, initContainers=init_containers))


def _convert_override(builder: ServiceBuilder, target: Location, container: Node) -> None:
    report = builder.report
    pool = f"{builder.main.namespace}/{object_names.inference_pool(str(builder.main.name))}"
    preset_flags = {**_PRESET_FLAGS, "inference-pool": (pool,)}
    copy_fields(builder, target, container, "image", "resources")
    user_flags: list[Node] = []
    for field in ("command", "args"):
        words = container.get(field)
        if words is None or not isinstance(words.content, list):
            continue
        # The first word of the command is the program.
        arguments = Node(words.field, words.items[1:] if field == "command" else words.items)
        report.consume(words.field)
        for flag, value, nodes in split_flags(arguments):
            if value is None or str(value.content) not in preset_flags.get(flag, ()):
                user_flags += nodes
    if user_flags:
        copy_node(builder, (*target, "args"), Node(container.field, user_flags, synthetic=True))
    for key, field in container.content.items():
        if field.value in _PRESET_FIELDS.get(key, ()):
            report.consume(*(leaf.field for _, leaf in field.leaves()))
        elif key not in ("image", "resources", "command", "args"):
            report.unsupported(
                field.field, "is not supported; the sidecar has image, resources and args"
            )
