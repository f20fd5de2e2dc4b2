"""What all shapes of a ModelDeployment have in common."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.dialects.carrier import Book, Carrier
from fusioninfer_pulumi.dialects.given import At, Path
from fusioninfer_pulumi.dialects.modelplane.models import (
    Phase,
    Template,
)

#: Component type of each phase.
TYPES = {Phase.PREFILL: "prefiller", Phase.DECODE: "decoder"}
_ENGINE = "engine"
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
    carrier: Carrier, target: Path, template: Template, at: At, *, gang: bool
) -> None:
    """Carries a pod template over, with what Modelplane adds to every pod.

    Args:
        carrier: The service.
        target: Where it stands in ours.
        template: The template.
        at: Where it stands.
        gang: Whether the pod is one of several of an engine.
    """
    for key in (template.metadata or {}).get("labels") or {}:
        if str(key).startswith("modelplane.ai/"):
            reserved(carrier.book, at / "metadata" / "labels" / key)
    containers = template.spec.get("containers")
    names = [each.get("name") for each in containers or () if isinstance(each, dict)]
    if names != [_ENGINE]:
        carrier.book.refuse(
            at / "spec" / "containers", f"must be one container named {_ENGINE}, got {names}"
        )
    built: dict[str, Any] = {"spec": _completed(template.spec, gang=gang)}
    if template.metadata is not None:
        built = {"metadata": template.metadata, **built}
    carrier.put(target, built, at)
    env = ("spec", "containers", 0, "env")
    for index, _ in enumerate(_own_env(template.spec) if gang else ()):
        place = at / "spec" / "containers" / 0 / "env" / index
        carrier.origin((*target, *env, index + len(_GANG)), place, whole=True)


def _completed(spec: dict[str, Any], *, gang: bool) -> dict[str, Any]:
    if not gang or not _is_well_formed(spec):
        return spec
    # In front: variables of the template may refer to them.
    added = [{"name": name, "value": value} for name, value in _GANG.items()]
    engine = {**spec["containers"][0], "env": [*added, *_own_env(spec)]}
    return {**spec, "containers": [engine, *spec["containers"][1:]]}


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
