"""Properties of all valid services: user values are rendered, and replica counts agree."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from hypothesis import event, given
from profiles import examples
from samples import of_kind
from strategies import PLAIN, component_types, has_layout_per_role, services, shuffled

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.kube.object_names import leader_worker_set_limit
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.loading.yaml_text import parse_yaml
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import get_gang_scope

Manifest = dict[str, Any]
Member = tuple[str, bool, Manifest]
PREFIX = "fusioninfer.io/"
GROUP = "scheduling.k8s.io/group-name"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
TASK = "volcano.sh/task-spec"
#: Resources of pods that are not accelerators.
NETWORK = "rdma/"
LEADER_ONLY = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "ports")


def built(manifest: Manifest) -> tuple[ServicePlan, list[Manifest]]:
    (args,) = load(manifest)
    plan = plan_service(args)
    return plan, list(render(plan))


def pods(objects: list[Manifest]) -> Iterator[tuple[str, bool, Manifest]]:
    """Yield name, whether it is a leader, and template of each pod that LeaderWorkerSet creates."""
    for item in of_kind(objects, "LeaderWorkerSet"):
        body = item["spec"]["leaderWorkerTemplate"]
        name = item["metadata"]["name"]
        for group in range(item["spec"]["replicas"]):
            leader = copy.deepcopy(body.get("leaderTemplate", body["workerTemplate"]))
            workers = [copy.deepcopy(body["workerTemplate"]) for _ in range(body["size"] - 1)]
            for index, pod in enumerate((leader, *workers)):
                key = "leaderworkerset.sigs.k8s.io/worker-index"
                pod["metadata"]["labels"][key] = str(index)
                pod["metadata"]["labels"][GROUP_INDEX] = str(group)
                suffix = f"-{index}" if index else ""
                yield f"{name}-{group}{suffix}", index == 0, pod


def roles(manifest: Manifest) -> Iterator[tuple[Manifest, int, int]]:
    """Yield each role, its replicas in all serving groups, and the pods of one replica."""
    copies = manifest["spec"].get("groups", 1)
    for role in manifest["spec"]["roles"]:
        nodes = role.get("multinode", {}).get("nodeCount", 1)
        yield role, role.get("replicas", 1) * copies, nodes


def is_gang(manifest: Manifest) -> bool:
    mode = gang_policy(manifest).get("mode", "Auto")
    several = any(nodes > 1 for _, _, nodes in roles(manifest))
    pair = {"prefiller", "decoder"} <= component_types(manifest)
    return mode in ("On", True) or (mode == "Auto" and (several or pair))


def gang_policy(manifest: Manifest) -> Manifest:
    policy: Manifest = manifest["spec"].get("schedulingStrategy", {}).get("gangPolicy", {})
    return policy


def has_volcano(manifest: Manifest) -> bool:
    return gang_policy(manifest).get("backend", "Volcano") == "Volcano"


def is_counted(manifest: Manifest) -> bool:
    """Whether only `nodeCount` sets the nodes of replicas, and Volcano starts the gang."""
    return has_volcano(manifest) and not any(
        {"multinode", "parallelism"} & role.keys() and "nodeCount" not in role.get("multinode", {})
        for role in manifest["spec"]["roles"]
    )


@given(services(wanted=is_counted))
def test_numbers_in_plan_gang_and_objects_agree(manifest: Manifest) -> None:
    plan, objects = built(manifest)
    total = sum(replicas * nodes for _, replicas, nodes in roles(manifest))
    result = list(pods(objects))
    assert plan.total_pods == len(result) == total
    lws = of_kind(objects, "LeaderWorkerSet")
    per_role = has_layout_per_role(manifest)
    copies = manifest["spec"].get("groups", 1)
    wanted = [min(replicas, copies) if per_role else replicas for _, replicas, _ in roles(manifest)]
    assert len(lws) == sum(wanted)
    assert sum(entry["spec"]["replicas"] for entry in lws) == sum(r for _, r, _ in roles(manifest))
    event(f"layout: {plan.shape.layout.value}")
    assert len(of_kind(objects, "Service")) == 1
    groups = of_kind(objects, "PodGroup")
    order = ["PodGroup"] * len(groups) + ["LeaderWorkerSet"] * len(lws) + ["Service"]
    assert [entry["kind"] for entry in objects if entry["kind"] in order] == order
    assert len(groups) == len(plan.gangs) == (copies if is_gang(manifest) and total > 0 else 0)
    event(f"gang: {get_gang_scope(plan.gang).value}")
    requests = [pod["spec"] for _, _, pod in result]
    accelerators = sum(_devices(spec) for spec in requests)
    assert plan.total_accelerators == accelerators
    members: dict[str, list[Member]] = {entry["metadata"]["name"]: [] for entry in groups}
    for item in result if groups else ():
        members[item[2]["metadata"]["annotations"][GROUP]].append(item)
    for group in groups:
        fields = members[group["metadata"]["name"]]
        _check_gang(plan, group["spec"], fields)
        assert len(fields) * copies == total
        index = group["metadata"]["labels"].get(f"{PREFIX}group-index")
        assert (index is None) == ("groups" not in manifest["spec"])
        assert {pod["metadata"]["labels"].get(f"{PREFIX}group-index") for _, _, pod in fields} == {
            index
        }
        wanted_minimum = bool(gang_policy(manifest).get("minResources"))
        assert ("minResources" in group["spec"]) == wanted_minimum
    if groups:
        assert len({spec.get("schedulerName") for spec in requests}) == 1
        assert requests[0]["schedulerName"] == "volcano"


def _check_gang(plan: ServicePlan, spec: Manifest, made: list[Member]) -> None:
    assert spec["minMember"] > 0
    tasks = Counter(pod["metadata"]["annotations"][TASK] for _, _, pod in made)
    if "minTaskMember" in spec:
        assert "subGroupPolicy" not in spec
        assert spec["minTaskMember"] == tasks
        assert spec["minMember"] == sum(tasks.values())
    else:
        needed = 0
        left = [pod["metadata"]["labels"] for _, _, pod in made]
        for policy in spec["subGroupPolicy"]:
            # Volcano uses the first policy that matches a pod.
            chosen = [kept for kept in left if _matches(policy, kept)]
            left = [kept for kept in left if not _matches(policy, kept)]
            (key,) = policy["matchLabelKeys"]
            result = Counter(kept[key] for kept in chosen)
            assert set(result.values()) <= {policy["subGroupSize"]}
            assert result or policy["minSubGroups"] == 0
            assert 0 <= policy["minSubGroups"] <= len(result)
            needed += policy["minSubGroups"] * policy["subGroupSize"]
        assert left == []
        assert spec["minMember"] == needed
    minimum = spec.get("minResources", {})
    assert plan.gang is not None
    assert plan.gang.min_accelerators <= sum(_devices(pod["spec"]) for _, _, pod in made)
    if minimum:
        assert _count_devices(minimum.items()) == plan.gang.min_accelerators


def _devices(spec: Manifest) -> int:
    limits = (container.get("resources", {}).get("limits", {}) for container in spec["containers"])
    return _count_devices(amount for limit in limits for amount in limit.items())


def _count_devices(amounts: Iterable[tuple[str, Any]]) -> int:
    return sum(
        int(amount) for name, amount in amounts if "/" in name and not name.startswith(NETWORK)
    )


def _matches(policy: Manifest, kept: Manifest) -> bool:
    """Whether a policy's labelSelector selects a pod by its labels."""
    selector = policy["labelSelector"]
    listed = selector.get("matchExpressions", ())
    assert all(item["operator"] == "In" for item in listed)
    return kept.items() >= selector["matchLabels"].items() and all(
        kept.get(item["key"]) in item["values"] for item in listed
    )


@given(services())
@examples(0.5)
def test_names_are_unique_and_within_their_limits(manifest: Manifest) -> None:
    _, objects = built(manifest)
    names = [(entry["kind"], entry["metadata"]["name"]) for entry in objects]
    assert len(set(names)) == len(names)
    pod_names = [name for name, _, _ in pods(objects)]
    assert len(set(pod_names)) == len(pod_names)
    assert all(len(name) <= 63 for name in pod_names)
    for item in of_kind(objects, "LeaderWorkerSet"):
        size, replicas = item["spec"]["leaderWorkerTemplate"]["size"], item["spec"]["replicas"]
        limit = leader_worker_set_limit(size, replicas)
        assert len(item["metadata"]["name"]) <= limit
    namespace = manifest["metadata"].get("namespace", "default")
    assert {entry["metadata"]["namespace"] for entry in objects} == {namespace}


@given(services(fields=PLAIN, wanted=has_volcano))
def test_user_values_appear_in_the_objects(manifest: Manifest) -> None:
    _, objects = built(manifest)
    metadata = manifest["metadata"]
    for item in objects:
        assert item["metadata"]["labels"].items() >= metadata.get("labels", {}).items()
        assert item["metadata"].get("annotations", {}) == metadata.get("annotations", {})
    for role, replicas, nodes in roles(manifest):
        mine = [
            (leads, pod)
            for pod_name, leads, pod in pods(objects)
            if pod_name.startswith(f"{metadata['name']}-")
            and f"-{role['name']}-" in pod_name
            and pod["metadata"]["labels"][f"{PREFIX}role-name"] == role["name"]
        ]
        assert len(mine) == replicas * nodes
        for leads, pod in mine:
            separate = role.get("leaderTemplate" if leads else "workerTemplate")
            trimmed = nodes > 1 and not leads and separate is None
            given_ = separate or role["template"]
            _kept(given_, pod, leads=leads, wide=nodes > 1, trimmed=trimmed)


def _kept(given_: Manifest, pod: Manifest, *, leads: bool, wide: bool, trimmed: bool) -> None:
    metadata = given_.get("metadata", {})
    assert pod["metadata"]["labels"].items() >= metadata.get("labels", {}).items()
    wanted = metadata.get("annotations", {}).items()
    assert pod["metadata"].get("annotations", {}).items() >= wanted
    spec = {key: value for key, value in pod["spec"].items() if key != "containers"}
    assert spec.items() >= {k: v for k, v in given_["spec"].items() if k != "containers"}.items()
    added = set(spec) - set(given_["spec"])
    assert added <= {"schedulerName", "priorityClassName", "terminationGracePeriodSeconds"}
    # All containers keep their place, and only the serving container may differ.
    serving = 0
    assert len(pod["spec"]["containers"]) == len(given_["spec"]["containers"])
    for before, after in zip(given_["spec"]["containers"], pod["spec"]["containers"], strict=True):
        if before["name"].startswith(("side-", "routing-proxy")):
            assert before == after
            continue
        serving += 1
        launched = ("command", "args", "env") if wide else ()
        lost = LEADER_ONLY if trimmed else ()
        kept = {k: v for k, v in before.items() if k not in (*launched, *lost)}
        if wide and leads and "ports" in kept:
            ports = kept.pop("ports")
            assert [port for port in after["ports"] if port in ports] == ports
        for key in ("command", "args"):
            if any(" " in word for word in kept.get(key) or ()):
                del kept[key]  # elements of several words are split
        env = before.get("env", [])
        assert after.get("env", [])[: len(env)] == env
        assert {key: after.get(key) for key in kept} == kept
        assert set(after) - set(before) <= {"readinessProbe", "ports", "lifecycle", *launched}
        fields = () if "lifecycle" in before else ("lifecycle",)
        assert not ({*lost} - {*fields}) & set(after)
    assert serving == 1


@given(services())
@examples(0.5)
def test_service_selects_exactly_the_entry_pods(manifest: Manifest) -> None:
    plan, objects = built(manifest)
    (entry,) = of_kind(objects, "Service")
    paired = {"prefiller", "decoder"} <= component_types(manifest)
    for name, leads, pod in pods(objects):
        labels = pod["metadata"]["labels"]
        decodes = labels[f"{PREFIX}component-type"] == "decoder"
        reached = labels.items() >= entry["spec"]["selector"].items()
        assert reached == (leads and (decodes or not paired)), name
    # Pods of other services and pods without a LeaderWorkerSet are not selected.
    assert entry["spec"]["selector"][f"{PREFIX}service"] == plan.service
    assert entry["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"


@given(services())
@examples(0.5)
def test_objects_depend_only_on_the_manifest(manifest: Manifest) -> None:
    before = copy.deepcopy(manifest)
    _, objects = built(manifest)
    assert manifest == before
    assert built(manifest)[1] == objects
    _, other = built(shuffled(manifest))
    assert other == objects
    assert [json.dumps(item, sort_keys=True) for item in other] == [
        json.dumps(item, sort_keys=True) for item in objects
    ]


@given(services())
@examples(0.25)
def test_objects_survive_json_and_yaml(manifest: Manifest) -> None:
    _, objects = built(manifest)
    assert json.loads(json.dumps(objects, allow_nan=False)) == objects
    text = yaml.safe_dump_all(objects, allow_unicode=True)
    assert list(yaml.safe_load_all(text)) == objects
    assert list(parse_yaml(text)) == objects
