"""The sidecar of decode pods, which KServe's presets run as an init container.

A user overrides it by an init container of its name; its fields are those of `kvTransfer.sidecar`.
"""

from __future__ import annotations

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.kserve._nodes import Node, copy_fields, copy_node, with_fields
from fusioninfer_importers.kserve.scheduler import pairs
from fusioninfer_pulumi.plugins.importers import Location

NAME = "llm-d-routing-sidecar"
#: Flags of the presets that follow from the service here, with their values there.
_SAME = {
    "port": ("8000",),
    "vllm-port": ("8001",),
    "kv-connector": ("nixlv2",),
    "connector": ("nixlv2",),
    "secure-proxy": ("false",),
    "enable-ssrf-protection": ("true",),
    "pool-group": ("inference.networking.k8s.io", "inference.networking.x-k8s.io"),
}
#: Fields of the presets' container that ours has as well.
_PRESET = {"name": NAME, "restartPolicy": "Always", "imagePullPolicy": "IfNotPresent"}


def convert_sidecar(builder: ServiceBuilder, role: Location, decode: Node) -> Node:
    """Set the sidecar of a decode role; return the workload without it.

    Like KServe's, ours accepts only prefill addresses of its own pool by default.
    """
    target = (*role, "kvTransfer", "sidecar")
    template = decode.get("template")
    listed = template.get("initContainers") if template is not None else None
    items = listed.items if listed is not None else []
    kept = [container for container in items if container.text("name") != NAME]
    if template is None or listed is None or len(kept) == len(items):
        return decode
    for container in items:
        if container.text("name") == NAME:
            _convert_override(builder, target, container)
    others = Node(listed.at, kept) if kept else None
    return with_fields(decode, template=with_fields(template, initContainers=others))


def _convert_override(builder: ServiceBuilder, target: Location, container: Node) -> None:
    report = builder.report
    copy_fields(builder, target, container, "image", "resources")
    flags: list[Node] = []
    for field in ("command", "args"):
        words = container.get(field)
        if words is None or not isinstance(words.content, list):
            continue
        # The first word of the command is the program.
        arguments = Node(words.at, words.items[1:] if field == "command" else words.items)
        report.consume(words.at)
        for flag, value, nodes in pairs(arguments):
            if value is None or str(value.content) not in _SAME.get(flag, ()):
                flags += nodes
    if flags:
        copy_node(builder, (*target, "args"), Node(container.at, flags, synthetic=True))
    for key, field in container.content.items():
        if field.content == _PRESET.get(key, field):
            report.consume(field.at)
        elif key not in ("image", "resources", "command", "args"):
            report.unsupported(
                field.at, "is not supported; the sidecar has image, resources and args"
            )
