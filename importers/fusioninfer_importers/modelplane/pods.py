"""Converts pod templates of a ModelDeployment, and the devices that their pods request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_importers.conversion import ConversionReport, ServiceBuilder
from fusioninfer_importers.modelplane.models import Device, NodeSelector, Template
from fusioninfer_pulumi.plugins.importers import (
    PORT_FLAG,
    SHARED_MEMORY,
    Location,
    SourceField,
    parse_command,
    parse_integer,
)

#: Component type of each phase.
TYPES = {"Prefill": "prefiller", "Decode": "decoder"}
_ENGINE = "engine"
#: Fields that Modelplane adds to every pod (`backends/native.py` and `llmd.py`): shared memory for
#: tensor parallelism, a readiness probe of serving pods, and the toleration of the taint of its
#: nodes with GPUs. Kubernetes adds that toleration only to pods that request GPUs in `resources`.
_VOLUME, _PORT = "dshm", 8000
_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_PROBE = {"initialDelaySeconds": 30, "periodSeconds": 10, "timeoutSeconds": 5}
#: Variables by which the pods of an engine connect, with the values that LeaderWorkerSet's
#: variables have (functions/compose-model-replica/function/backends/base.py).
_CONNECTION_VARIABLES = {
    "MODELPLANE_LEADER_ADDRESS": "$(LWS_LEADER_ADDRESS)",
    "MODELPLANE_RANK": "$(LWS_WORKER_INDEX)",
}
#: `device.driver == "X"`, `device.attributes["X"]`, `device.capacity["X"]`, in either quotes.
_DRIVER = re.compile(
    r"""device\.(?:driver\s*==\s*|attributes\[|capacity\[)\s*["']([a-z0-9.-]+)["']"""
)


def report_reserved(report: ConversionReport, field: SourceField) -> None:
    """Report a label with Modelplane's prefix, which users must not set."""
    report.invalid(field, "uses the prefix modelplane.ai/, which is reserved")


def convert_template(
    builder: ServiceBuilder,
    target: Location,
    template: Template,
    field: SourceField,
    *,
    is_multi_pod: bool,
    is_serving: bool = True,
) -> None:
    """Convert a pod template, and add the fields that Modelplane adds to every pod.

    Args:
        builder: The service.
        target: The template of our manifest.
        template: Modelplane's template.
        field: Its field.
        is_multi_pod: Whether an engine has several pods.
        is_serving: Whether the pod answers requests.
    """
    labels = (template.metadata or {}).get("labels")
    # Our rules reject values that are not mappings.
    for key in labels if isinstance(labels, Mapping) else ():
        if str(key).startswith("modelplane.ai/"):
            report_reserved(builder.report, field / "metadata" / "labels" / key)
    containers = template.spec.get("containers")
    entries = containers if isinstance(containers, list) else None
    names = [container.get("name") for container in entries or () if isinstance(container, dict)]
    # Our rules reject `containers` that is not a list.
    if names != [_ENGINE] and (entries is not None or containers is None):
        builder.report.invalid(
            field / "spec" / "containers", f"must be one container named {_ENGINE}, got {names}"
        )
    converted: dict[str, Any] = {
        "spec": _complete_spec(template.spec, is_multi_pod=is_multi_pod, is_serving=is_serving)
    }
    if template.metadata is not None:
        converted = {"metadata": template.metadata, **converted}
    builder.copy(target, converted, field)
    env = ("spec", "containers", 0, "env")
    for index, _ in enumerate(_read_env(template.spec) if is_multi_pod else ()):
        subfield = field / "spec" / "containers" / 0 / "env" / index
        builder.set_origin(
            (*target, *env, index + len(_CONNECTION_VARIABLES)), subfield, copied=True
        )


def _complete_spec(spec: dict[str, Any], *, is_multi_pod: bool, is_serving: bool) -> dict[str, Any]:
    if not _is_well_formed(spec):
        return spec
    engine = dict(spec["containers"][0])
    if is_multi_pod:
        # First, because variables of the template may refer to them.
        added = [{"name": name, "value": value} for name, value in _CONNECTION_VARIABLES.items()]
        engine["env"] = [*added, *_read_env(spec)]
    if is_serving and "readinessProbe" not in engine:
        port = parse_integer(parse_command(engine).value(PORT_FLAG))
        http = {"path": "/health", "port": _PORT if port is None else port}
        engine["readinessProbe"] = {"httpGet": http, **_PROBE}
    volumes, mounts = spec.get("volumes") or [], engine.get("volumeMounts") or []
    completed = {**spec, "containers": [engine, *spec["containers"][1:]]}
    if isinstance(volumes, list) and isinstance(mounts, list) and not _has_memory(volumes, mounts):
        engine["volumeMounts"] = [*mounts, {"name": _VOLUME, "mountPath": SHARED_MEMORY}]
        completed["volumes"] = [*volumes, {"name": _VOLUME, "emptyDir": {"medium": "Memory"}}]
    tolerations = spec.get("tolerations") or []
    if isinstance(tolerations, list) and _TOLERATION not in tolerations:
        completed["tolerations"] = [*tolerations, dict(_TOLERATION)]
    return completed


def _has_memory(volumes: list[Any], mounts: list[Any]) -> bool:
    entries = [entry for entry in (*volumes, *mounts) if isinstance(entry, dict)]
    return any(
        entry.get("mountPath") == SHARED_MEMORY or entry.get("name") == _VOLUME for entry in entries
    )


def _is_well_formed(spec: dict[str, Any]) -> bool:
    containers = spec.get("containers")
    return (
        isinstance(containers, list)
        and bool(containers)
        and isinstance(containers[0], dict)
        and isinstance(containers[0].get("env", []), list)
    )


def _read_env(spec: dict[str, Any]) -> list[Any]:
    env: list[Any] = spec["containers"][0].get("env", []) if _is_well_formed(spec) else []
    return env


def convert_replicas(builder: ServiceBuilder, replicas: int | None) -> None:
    """Convert replicas to serving groups: each has its own prefill and decode pods."""
    if replicas is not None:
        builder.copy(("spec", "groups"), replicas, builder.main.at("spec", "replicas"))


def convert_devices(
    builder: ServiceBuilder,
    role: Location,
    members: Sequence[tuple[NodeSelector | None, SourceField]],
) -> None:
    """Convert the devices that a role's pods request to claims.

    Modelplane takes the DeviceClass from the InferenceClass of the pool where it runs a replica.
    Here the DeviceClass has the name of the driver in the expressions, as drivers install it.
    """
    selectors = [(selector, field) for selector, field in members if selector is not None]
    if not selectors:
        return
    first, subfield = selectors[0]
    if any(selector != first for selector, _ in members):
        for _, field in selectors:
            builder.report.unsupported(field, "all members of a role must have the same claims")
        return
    for index, device in enumerate(first.devices):
        _convert_claim(builder, (*role, "resourceClaims"), device, subfield / "devices" / index)
    # The other members request the same devices.
    builder.report.consume(*(field for _, field in selectors[1:]))


def _convert_claim(
    builder: ServiceBuilder, claims: Location, device: Device, field: SourceField
) -> None:
    expressions = [selector.cel for selector in device.selectors]
    drivers = sorted(
        {driver for expression in expressions for driver in _DRIVER.findall(expression)}
    )
    if len(drivers) != 1:
        builder.report.unsupported(
            field,
            "its expressions must name one driver, which stands for the DeviceClass, got "
            f'{" and ".join(drivers) or "none"}; add device.driver == "NAME"',
        )
        return
    target = (*claims, len(builder.get(claims) or ()))
    builder.copy((*target, "name"), device.name, field / "name")
    builder.set_origin(target, field)
    builder.derive((*target, "deviceClassName"), drivers[0], field / "selectors")
    builder.report.chosen(
        field / "selectors",
        f"uses DeviceClass {drivers[0]}, named after the driver in the expressions; Modelplane "
        "uses the one in the InferenceClass",
    )
    builder.copy((*target, "count"), device.count, field / "count")
    builder.derive((*target, "selectors"), expressions, field / "selectors")
    for number, _ in enumerate(expressions):
        cel = field / "selectors" / number / "cel"
        builder.set_origin((*target, "selectors", number), cel, copied=True)
