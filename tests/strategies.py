"""Hypothesis strategies for InferenceService manifests that are valid.

With `extras` they draw fields beside the topology too (`service_extras`). Nothing but Hypothesis
and the standard library is needed, so that other suites (against a real cluster, say) can draw
from them too. Everything that is drawn is accepted by Kubernetes, apart from objects that it refers
to: volumes name config maps and secrets, pods a service account.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tests.pod_strategies import (
    LAUNCHERS,
    annotation_maps,
    image_and_command,
    labels,
    optional,
    templates,
)
from tests.service_extras import models, parallelisms, role_extras, service_extras

Manifest = dict[str, Any]

_WORDS = ("chat", "decode", "embed", "inference", "long-context", "prefill", "rank", "short")
_USUAL = ("vllm", "sglang", "engine", "main")
#: None that is known: drawn sizes do not divide their heads.
_MODELS = ("team/chat-8b", "team/reason-600b", "/models/llama 70b")

service_names = st.from_regex(r"[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,6})?", fullmatch=True)


@st.composite
def _role(
    draw: st.DrawFn,
    name: str,
    component_type: str,
    max_replicas: int,
    max_nodes: int,
    forms: Sequence[str],
    ports: Sequence[int | None],
    model: Manifest | None = None,
    *,
    extras: bool = False,
) -> Manifest:
    role: Manifest = {"name": name, "componentType": component_type}
    optional(draw, role, "replicas", st.integers(0, max_replicas))
    nodes = draw(st.sampled_from((None, None, *range(1, max_nodes + 1))))
    count = nodes or 1
    devices = draw(st.sampled_from((0, 1, 2, 8)))
    form = draw(st.sampled_from(tuple(forms)))
    container = draw(st.sampled_from((*_USUAL, "server")))
    launcher, split = None, None
    if nodes is not None:
        role["multinode"] = {"nodeCount": nodes}
        launcher = draw(st.sampled_from(LAUNCHERS[form]))
        if launcher is not None and count > 1:
            role["multinode"]["launcher"] = launcher
    own_launch = launcher == "multiprocessing" or (launcher is None and form == "sglang")
    # The engine's own multi-node mode divides its accelerators evenly among the nodes.
    if own_launch or draw(st.booleans()):
        split = max(devices, 1) * count
    port = draw(st.sampled_from(tuple(ports)))
    if extras and split is not None and form != "own" and draw(st.booleans()):
        role["parallelism"] = draw(parallelisms(split, count, launcher, form))
        split = None
    named = None if model is not None else draw(st.sampled_from(_MODELS))
    engine = image_and_command(form, named, split, port)
    separate = count > 1 and launcher in (None, "none") and "parallelism" not in role
    if separate and draw(st.booleans()):
        role["multinode"].pop("launcher", None)
        role["leaderTemplate"] = draw(templates(container, engine, devices))
        worker = image_and_command("own", "join", None, None)
        role["workerTemplate"] = draw(templates(container, worker, devices))
    else:
        role["template"] = draw(templates(container, engine, devices))
    if container not in _USUAL:
        role["container"] = container
    # The engine's port; another one is an error.
    optional(draw, role, "port", st.just(port or (30000 if form == "sglang" else 8000)))
    policies = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None")
    optional(draw, role, "restartPolicy", st.sampled_from(policies))
    optional(draw, role, "networkConfig", st.sampled_from(
        ({"subdomainPolicy": "Shared"}, {"subdomainPolicy": "UniquePerReplica"})
    ))  # fmt: skip
    if count > 1:
        sizes = [size for size in range(1, count + 1) if count % size == 0]
        optional(draw, role, "subGroupPolicy", st.builds(
            lambda size: {"subGroupSize": size}, st.sampled_from(sizes)
        ))  # fmt: skip
    return role


def is_gang(manifest: Manifest) -> bool:
    """Tells whether the pods of a drawn manifest are scheduled as a gang."""
    spec = manifest["spec"]
    policy = spec.get("schedulingStrategy", {}).get("gangPolicy", {})
    types = {role["componentType"] for role in spec["roles"]}
    several = any(role.get("multinode", {}).get("nodeCount", 1) > 1 for role in spec["roles"])
    return policy.get("mode") == "On" or (
        policy.get("mode") != "Off" and (several or {"prefiller", "decoder"} <= types)
    )


@st.composite
def _scheduling(
    draw: st.DrawFn,
    roles: Sequence[Manifest],
    queues: Sequence[str],
    priority_classes: Sequence[str],
) -> Manifest:
    scheduling: Manifest = {}
    policy: Manifest = {}
    optional(draw, policy, "mode", st.sampled_from(("Auto", "Auto", "On", "Off")))
    optional(draw, policy, "minResources", st.booleans())
    minima = {
        role["name"]: draw(st.integers(0, role.get("replicas", 1)))
        for role in roles
        if draw(st.booleans())
    }
    needed = [minima.get(role["name"], role.get("replicas", 1)) for role in roles]
    if any(needed) and draw(st.booleans()):
        policy["minRoleReplicas"] = minima
        optional(draw, policy, "requiredReplicas", st.sampled_from(("Any", "LowestOrdinals")))
    if policy:
        scheduling["gangPolicy"] = policy
    optional(draw, scheduling, "schedulerName", st.just("volcano"))
    if queues:
        optional(draw, scheduling, "queue", st.sampled_from(queues))
    if priority_classes:
        optional(draw, scheduling, "priorityClassName", st.sampled_from(priority_classes))
    return scheduling


@st.composite
def services(
    draw: st.DrawFn,
    *,
    min_roles: int = 1,
    max_roles: int = 3,
    max_replicas: int = 4,
    max_nodes: int = 4,
    namespaces: Sequence[str] = ("default", "team-a"),
    queues: Sequence[str] = ("research",),
    priority_classes: Sequence[str] = ("high",),
    groups: Sequence[int | None] = (None, None, 0, 1, 2, 3),
    forms: Sequence[str] = tuple(LAUNCHERS),
    ports: Sequence[int | None] = (None, None, None, 8000, 8000, 8080),
    extras: bool = False,
) -> Manifest:
    """Manifests of services without a router that can be planned without an error.

    Args:
        draw: Supplied by Hypothesis.
        min_roles: Fewest roles of a service.
        max_roles: Most roles of a service.
        max_replicas: Most replicas of a role.
        max_nodes: Most nodes of a replica.
        namespaces: Namespaces to choose from.
        queues: Volcano queues that exist; empty for the default one alone.
        priority_classes: Priority classes that exist; empty for none.
        groups: Serving groups to choose from, None for a service without.
        forms: Engines to choose from, and how they are called.
        ports: What engines are told to listen on to choose from, None for their own choice.
        extras: Whether to draw models, sizes, offloading and what day two needs, too.
    """
    extras = extras and draw(st.booleans())
    model = draw(models) if extras else None
    types = draw(
        st.lists(st.sampled_from(("worker", "prefiller", "decoder")), min_size=min_roles,
                 max_size=max_roles)
    )  # fmt: skip
    names = draw(
        st.lists(st.sampled_from(_WORDS), min_size=len(types), max_size=len(types), unique=True)
    )
    roles = [
        draw(_role(name, kind, max_replicas, max_nodes, forms, ports, model, extras=extras))
        for name, kind in zip(names, types, strict=True)
    ]
    metadata: Manifest = {"name": draw(service_names)}
    optional(draw, metadata, "namespace", st.sampled_from(tuple(namespaces)))
    optional(draw, metadata, "labels", labels)
    optional(draw, metadata, "annotations", annotation_maps)
    spec: Manifest = {"roles": roles}
    optional(draw, spec, "layout", st.sampled_from(("PerReplica", "PerRole")))
    copies = draw(st.sampled_from(tuple(groups)))
    if copies is not None:
        spec["groups"] = copies
    scheduling = draw(_scheduling(roles, queues, priority_classes))
    if extras and draw(st.booleans()):  # else few roles could be scaled
        spec["layout"] = "PerRole"
        scheduling = {"gangPolicy": {"mode": "Off"}}
    if spec.get("layout") == "PerRole":
        scheduling.get("gangPolicy", {}).pop("requiredReplicas", None)
    if scheduling:
        spec["schedulingStrategy"] = scheduling
    manifest: Manifest = {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": spec,
    }
    gang = is_gang(manifest)
    for role in roles:
        startups = ("LeaderCreated",) if gang else ("LeaderCreated", "LeaderReady")
        optional(draw, role, "startupPolicy", st.sampled_from(startups))
        if extras:
            per_role = spec.get("layout") == "PerRole"
            grouped = copies is not None
            role.update(draw(role_extras(role, per_role=per_role, gang=gang, groups=grouped)))
    if extras:
        spec.update(draw(service_extras(roles)))
        if model is not None:
            spec["model"] = model
    return manifest


def shuffled(value: Any, keys: itertools.cycle[int] | None = None) -> Any:
    """Returns a copy of plain data with the keys of every mapping in another order."""
    turn = keys or itertools.cycle((1, 2, 3))
    if isinstance(value, dict):
        items = [(key, shuffled(item, turn)) for key, item in value.items()]
        at = next(turn) % max(len(items), 1)
        return dict(reversed(items[at:] + items[:at]))
    if isinstance(value, list):
        return [shuffled(item, turn) for item in value]
    return value
