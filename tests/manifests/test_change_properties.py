"""Properties of changes: scaling restarts no pods, and changed pod templates restart them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, strategies as st
from profiles import examples
from samples import of_kind, rendered
from strategies import has_layout_per_role, services

Manifest = dict[str, Any]
PREFIX = "fusioninfer.io/"
OF_A_GROUP = ("LeaderWorkerSet", "PodGroup", "HorizontalPodAutoscaler", "ScaledObject")


def revisions(objects: list[Manifest]) -> dict[str, str]:
    return {
        item["metadata"]["name"]: item["metadata"]["labels"][f"{PREFIX}revision"]
        for item in of_kind(objects, "LeaderWorkerSet")
    }


def is_scalable(manifest: Manifest) -> bool:
    """Whether no field depends on the number of replicas."""
    spec = manifest["spec"]
    by_groups = spec.get("rollout", {}).get("level") == "Group"
    counted = ("ReadWriteOnce", "%", "prefillDecodeRatio")
    return not by_groups and not any(word in str(spec) for word in counted)


@given(services(wanted=is_scalable), st.integers(1, 3))
@examples(0.5)
def test_scaling_adds_lws_and_restarts_nothing(manifest: Manifest, more: int) -> None:
    before = list(rendered(manifest))
    larger = copy.deepcopy(manifest)
    role = larger["spec"]["roles"][0]
    role["replicas"] = role.get("replicas", 1) + more
    if "autoscaling" in role:
        role["autoscaling"]["maxReplicas"] += more
    larger["metadata"]["labels"] = {"relabeled": "yes"}
    larger["metadata"]["annotations"] = {"noted": "yes"}
    after = list(rendered(larger))
    old, new = revisions(before), revisions(after)
    assert new.items() >= old.items()
    copies = manifest["spec"].get("groups", 1)
    per_role = has_layout_per_role(manifest)
    # With layout PerRole, `replicas` grows; a role scaled to zero has no LeaderWorkerSet.
    added = more if not per_role else role["replicas"] == more
    assert len(new) == len(old) + added * copies
    lws = {entry["metadata"]["name"]: entry for entry in of_kind(after, "LeaderWorkerSet")}
    for item in of_kind(before, "LeaderWorkerSet"):
        grown = lws[item["metadata"]["name"]]
        scaled = per_role and grown["metadata"]["labels"][f"{PREFIX}role-name"] == role["name"]
        replicas = item["spec"]["replicas"] + (more if scaled else 0)
        assert grown["spec"] == {**item["spec"], "replicas": replicas}
    policy = manifest["spec"].get("schedulingStrategy", {}).get("gangPolicy", {})
    named = role["name"] in policy.get("minRoleReplicas", {}) and role["replicas"] > more
    if named and of_kind(before, "PodGroup"):
        specs = [[one["spec"] for one in of_kind(entry, "PodGroup")] for entry in (before, after)]
        assert specs[0] == specs[1]


@given(services(wanted=lambda manifest: manifest["spec"].get("groups", 0) > 0), st.integers(1, 2))
@examples(0.5)
def test_added_group_changes_no_existing_group(manifest: Manifest, more: int) -> None:
    before = list(rendered(manifest))
    larger = copy.deepcopy(manifest)
    larger["spec"]["groups"] += more
    after = list(rendered(larger))
    # Budgets and alerts count the pods of all groups.
    old, new = (
        {(item["kind"], item["metadata"]["name"]): item for item in objects
         if item["kind"] not in ("PodDisruptionBudget", "PrometheusRule")}
        for objects in (before, after)
    )  # fmt: skip
    assert new.items() >= old.items()
    of_groups = [sum(kind in OF_A_GROUP for kind, _ in item) for item in (old, new)]
    assert of_groups[1] == of_groups[0] * larger["spec"]["groups"] // manifest["spec"]["groups"]
    assert len(new) - len(old) == of_groups[1] - of_groups[0]


@given(
    services(wanted=lambda manifest: "gpus" not in manifest["spec"]["roles"][-1]),
    st.sampled_from(("label", "annotation", "image", "env", "volume", "init")),
)
@examples(0.5)
def test_every_pod_template_change_changes_revision(manifest: Manifest, what: str) -> None:
    changed = copy.deepcopy(manifest)
    role = changed["spec"]["roles"][-1]
    template = role.get("template") or role["workerTemplate"]
    spec = template["spec"]
    if what in ("label", "annotation"):
        template.setdefault("metadata", {}).setdefault(f"{what}s", {})["changed"] = "yes"
    elif what == "image":
        spec["containers"][0]["image"] += "-changed"
    elif what == "env":
        spec["containers"][-1]["env"] = [{"name": "CHANGED", "value": "yes"}]
    elif what == "volume":
        spec.setdefault("volumes", []).append({"name": "changed", "emptyDir": {}})
    else:
        spec.setdefault("initContainers", []).append({"name": "changed", "image": "a:1"})
    objects = list(rendered(manifest))
    old, new = revisions(objects), revisions(list(rendered(changed)))
    mine = {
        item["metadata"]["name"]
        for item in of_kind(objects, "LeaderWorkerSet")
        if item["metadata"]["labels"][f"{PREFIX}role-name"] == role["name"]
    }
    for name, revision in old.items():
        assert (new[name] != revision) == (name in mine)
