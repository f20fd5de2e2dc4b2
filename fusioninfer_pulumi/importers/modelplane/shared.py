"""What all shapes of a ModelDeployment have in common."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.facts import SHARED_MEMORY
from fusioninfer_pulumi.engines.flags import flag_value, integer, split_joined_flags
from fusioninfer_pulumi.importers.carrier import Book, Carrier
from fusioninfer_pulumi.importers.given import At, Path
from fusioninfer_pulumi.importers.modelplane.models import Phase, Template

#: Component type of each phase.
TYPES = {Phase.PREFILL: "prefiller", Phase.DECODE: "decoder"}
_ENGINE = "engine"
#: What Modelplane gives every pod besides (`backends/native.py`, `backends/llmd.py`): room for
#: tensor parallelism, and a probe of whoever serves.
_MEMORY, _PORT = "dshm", 8000
_PACE = {"initialDelaySeconds": 30, "periodSeconds": 10, "timeoutSeconds": 5}
#: How the pods of an engine find each other, by LeaderWorkerSet's variables, which stand before a
#: template's own (functions/compose-model-replica/function/backends/base.py).
_GANG = {
    "MODELPLANE_LEADER_ADDRESS": "$(LWS_LEADER_ADDRESS)",
    "MODELPLANE_RANK": "$(LWS_WORKER_INDEX)",
}


def reserved(book: Book, at: At) -> None:
    """Refuses a label that Modelplane keeps for itself."""
    book.refuse(at, "uses the prefix modelplane.ai/, which is reserved")


def carry_template(
    carrier: Carrier, target: Path, template: Template, at: At, *, gang: bool, serves: bool = True
) -> None:
    """Carries a pod template over, with what Modelplane adds to every pod.

    Args:
        carrier: The service.
        target: Where it stands in ours.
        template: The template.
        at: Where it stands.
        gang: Whether the pod is one of several of an engine.
        serves: Whether it is the one of them that answers requests.
    """
    for key in (template.metadata or {}).get("labels") or {}:
        if str(key).startswith("modelplane.ai/"):
            reserved(carrier.book, at / "metadata" / "labels" / key)
    containers = template.spec.get("containers")
    listed = containers if isinstance(containers, list) else None
    names = [each.get("name") for each in listed or () if isinstance(each, dict)]
    # What is no list at all is refused by our own rules.
    if names != [_ENGINE] and (listed is not None or containers is None):
        carrier.book.refuse(
            at / "spec" / "containers", f"must be one container named {_ENGINE}, got {names}"
        )
    built: dict[str, Any] = {"spec": _completed(template.spec, gang=gang, serves=serves)}
    if template.metadata is not None:
        built = {"metadata": template.metadata, **built}
    carrier.put(target, built, at)
    env = ("spec", "containers", 0, "env")
    for index, _ in enumerate(_own_env(template.spec) if gang else ()):
        place = at / "spec" / "containers" / 0 / "env" / index
        carrier.origin((*target, *env, index + len(_GANG)), place, whole=True)


def _completed(spec: dict[str, Any], *, gang: bool, serves: bool) -> dict[str, Any]:
    if not _is_well_formed(spec):
        return spec
    engine = dict(spec["containers"][0])
    if gang:
        # In front: variables of the template may refer to them.
        added = [{"name": name, "value": value} for name, value in _GANG.items()]
        engine["env"] = [*added, *_own_env(spec)]
    if serves and "readinessProbe" not in engine:
        stated = integer(flag_value(split_joined_flags(read_command(engine).arguments), "--port"))
        port = _PORT if stated is None else stated
        engine["readinessProbe"] = {"httpGet": {"path": "/health", "port": port}, **_PACE}
    volumes, mounts = spec.get("volumes") or [], engine.get("volumeMounts") or []
    built = {**spec, "containers": [engine, *spec["containers"][1:]]}
    if isinstance(volumes, list) and isinstance(mounts, list) and not _has_memory(volumes, mounts):
        engine["volumeMounts"] = [*mounts, {"name": _MEMORY, "mountPath": SHARED_MEMORY}]
        built["volumes"] = [*volumes, {"name": _MEMORY, "emptyDir": {"medium": "Memory"}}]
    return built


def _has_memory(volumes: list[Any], mounts: list[Any]) -> bool:
    held = [each for each in (*volumes, *mounts) if isinstance(each, dict)]
    return any(
        each.get("mountPath") == SHARED_MEMORY or each.get("name") == _MEMORY for each in held
    )


def _is_well_formed(spec: dict[str, Any]) -> bool:
    containers = spec.get("containers")
    return (
        isinstance(containers, list)
        and bool(containers)
        and isinstance(containers[0], dict)
        and isinstance(containers[0].get("env", []), list)
    )


def _own_env(spec: dict[str, Any]) -> list[Any]:
    own: list[Any] = spec["containers"][0].get("env", []) if _is_well_formed(spec) else []
    return own


def carry_replicas(carrier: Carrier, replicas: int | None) -> None:
    """Carries the number of instances over: each is a serving group, which pairs by itself.

    Args:
        carrier: The service.
        replicas: Instances of the deployment, None where it does not state them.
    """
    if replicas is not None:
        carrier.put(("spec", "groups"), replicas, carrier.main.at("spec", "replicas"))
