"""Updates with a fake cluster: order, waits and failures."""

from __future__ import annotations

import copy
from typing import Any

import pulumi
import pytest
from component.awaited import awaited
from component.stacks import Stack
from routed import pair as routed_pair
from samples import nodes, role, service

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import cluster_access as access, update_run
from fusioninfer_pulumi.component.pulumi_sdk import SIGNATURE
from fusioninfer_pulumi.kube.client import UnreadableError

NAME = "svc-inference-{}"


def run(stack: Stack, *roles: Any, **spec: Any) -> Any:
    """Run the program of one service, with three replicas by default."""
    more = {"wait": {"timeout": "1s"}, "rollout": {"timeout": "1s"}, **spec}
    manifest = service(*(roles or (role(replicas=3),)), **more)
    return stack.run(lambda: InferenceService("svc", manifest) and None, ("svc",))


def tagged(image: str, replicas: int = 3, **more: Any) -> Any:
    result = role(replicas=replicas, **more)
    result["template"] = copy.deepcopy(result["template"])
    result["template"]["spec"]["containers"][0]["image"] = image
    return result


@pytest.fixture
def running(stack: Stack) -> Stack:
    run(stack)
    return stack


def names(*indices: int) -> list[str]:
    return [NAME.format(index) for index in indices]


def test_creation_returns_when_replicas_are_available(stack: Stack) -> None:
    run(stack)
    assert sorted(stack.order) == names(0, 1, 2)
    assert stack.all_up()
    assert stack.logged[-1].startswith("inference ")


def test_dependents_wait_until_service_is_available(stack: Stack) -> None:
    seen: list[Any] = []

    async def all_up(built: Any) -> None:
        await built.service.urn.future()
        seen.append(stack.all_up())

    def program() -> None:
        result = InferenceService("svc", service(role(replicas=2), wait={"timeout": "5s"}))
        pulumi.Output.from_input(all_up(result))
        result.endpoint.apply(lambda _: seen.append(stack.all_up()))

    stack.engine.run(program)
    assert seen == [True, True]


def test_unchanged_service_lists_nothing(running: Stack) -> None:
    run(running)
    assert running.lists == 0
    run(running, metadata={"labels": {"team": "a"}})
    assert running.lists == 0


def test_image_change_restarts_replicas_in_sequence(running: Stack) -> None:
    run(running, tagged("b"))
    assert running.order == names(2, 1, 0)
    assert running.lowest == 2


def test_all_at_once_restarts_replicas_together(running: Stack) -> None:
    run(running, tagged("b"), rollout={"strategy": "AllAtOnce", "timeout": "5s"})
    assert running.lowest == 0
    assert running.all_up()


def test_unavailable_replicas_change_first(running: Stack) -> None:
    running.down = set(names(0, 1))
    run(running, tagged("b"))
    assert running.order == names(1, 0, 2)


def test_gang_that_never_started_is_repaired_in_one_update(stack: Stack) -> None:
    stack.broken = {"a"}
    with pytest.raises(pulumi.RunError):
        run(stack, tagged("a"), wait={"timeout": "200ms"})
    run(stack, tagged("b"))
    assert stack.order == names(2, 1, 0)
    assert stack.lists < 6, "they change together"


def test_bad_image_halts_update(running: Stack) -> None:
    running.broken = {"b"}
    short = {"rollout": {"timeout": "200ms"}}
    with pytest.raises(pulumi.RunError) as failed:
        run(running, tagged("b"), **short)
    assert str(failed.value) == (
        "svc: svc-inference-2 is not available after 200ms (rollout.timeout)\n"
        "why of svc-inference-2"
    )
    assert running.order == names(2)
    # The same update resumes at that replica, and fails there again.
    with pytest.raises(pulumi.RunError):
        run(running, tagged("b"), **short)
    assert running.order == names(2)
    run(running, tagged("c"))
    assert running.order == names(2, 1, 0)
    assert running.lowest == 2


def test_replicas_that_never_served_are_awaited_again(stack: Stack) -> None:
    stack.broken = {"a"}
    for _ in range(2):
        with pytest.raises(pulumi.RunError, match=r"\(wait.timeout\)"):
            run(stack, tagged("a"), wait={"timeout": "200ms"})
    stack.broken = set()
    run(stack, tagged("a"))
    assert stack.all_up()


def test_failed_replica_does_not_block_metadata_update(running: Stack) -> None:
    running.broken = {"vllm/vllm-openai:v0.11.0"}
    run(running, metadata={"labels": {"team": "a"}})
    assert running.lists == 0


def test_unavailable_frozen_replica_counts_against_limit(running: Stack) -> None:
    running.down, running.frozen = set(names(0)), set(names(0))
    with pytest.raises(pulumi.RunError) as failed:
        run(running, tagged("b"), rollout={"partition": 1, "timeout": "200ms"})
    assert str(failed.value) == (
        "svc: for 200ms (rollout.timeout) no replica of role inference was allowed to change, "
        "because svc-inference-0 is not available and rollout.maxUnavailable allows 1\n"
        "why of svc-inference-0"
    )
    assert running.order == names(0)
    limit = {"partition": 1, "timeout": "5s", "maxUnavailable": 2}
    run(running, tagged("b"), rollout=limit)
    assert running.lowest == 1


def test_new_required_replicas_are_created_before_optional_ones(stack: Stack) -> None:
    wide = {"multinode": nodes(2, launcher="none")}
    minimum = {"gangPolicy": {"minRoleReplicas": {"inference": 3}}}
    run(
        stack,
        tagged("a", 2, **wide),
        schedulingStrategy={"gangPolicy": {"minRoleReplicas": {"inference": 2}}},
    )
    run(stack, tagged("b", 5, **wide), schedulingStrategy=minimum)
    assert stack.order[0] == NAME.format(2)
    assert stack.order[1:3] == names(1, 0)
    assert sorted(stack.order[3:]) == names(3, 4)


def test_optional_replicas_are_created_after_the_required_ones(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    register, existing = update_run.Update._register, {}

    def noted(self: update_run.Update, names: Any) -> None:
        existing.update({name: {*stack.lws} for name in names})
        register(self, names)

    monkeypatch.setattr(update_run.Update, "_register", noted)
    minimum = {"gangPolicy": {"minRoleReplicas": {"inference": 2}}}
    wide = {"multinode": nodes(2, launcher="none")}
    run(stack, tagged("a", 4, **wide), schedulingStrategy=minimum)
    for optional in names(2, 3):
        assert existing[optional] >= {*names(0, 1)}


def test_creation_without_cluster_access_is_logged_once(stack: Stack) -> None:
    stack.problem = UnreadableError("no answer")
    run(stack)
    assert stack.logged == ["availability of replicas was not checked: no answer"]


def test_sequential_update_without_cluster_access_fails(running: Stack) -> None:
    running.problem = UnreadableError("no answer")
    with pytest.raises(pulumi.RunError, match="cannot limit how many replicas restart at a time"):
        run(running, tagged("b"))
    assert running.order == []
    # No list is needed if all replicas may be down at once, or if only metadata changes.
    run(running, metadata={"labels": {"team": "a"}})
    run(running, tagged("b"), rollout={"maxUnavailable": 3})
    assert len(running.order) == 3


def test_failed_list_is_retried(running: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def sometimes(_: Any, *where: Any) -> Any:
        running.problem = UnreadableError("no answer") if running.lists % 2 else None
        return running.list(*where[1:])

    monkeypatch.setattr(access, "list_objects", sometimes)
    run(running, tagged("b"), rollout={"timeout": "20s"})
    assert running.lowest == 2


def test_sequential_roles_change_in_order(stack: Stack) -> None:
    def pair(image: str) -> list[Any]:
        kinds = (("prefill", "prefiller"), ("decode", "decoder"))
        return [tagged(image, 2, name=name, componentType=kind) for name, kind in kinds]

    off = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}
    run(stack, *pair("a"), **off)
    run(stack, *pair("b"), rollout={"roleOrder": "Sequential", "timeout": "5s"}, **off)
    assert stack.order == ["svc-prefill-1", "svc-prefill-0", "svc-decode-1", "svc-decode-0"]


def paired_roles(image: str, *more: str, replicas: int = 2) -> list[Any]:
    roles: list[Any] = routed_pair()["spec"]["roles"]
    for item in roles[1:]:
        item |= {"replicas": replicas, "template": copy.deepcopy(item["template"])}
        (container,) = item["template"]["spec"]["containers"]
        container |= {"image": image, "args": [*container["args"], *more]}
    return roles


NO_GANG = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}, "rollout": {"timeout": "5s"}}
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # Pulumi's mark of a secret
OLD_RELEASE, NEW_RELEASE = "vllm/vllm-openai:v0.31.0", "vllm/vllm-openai:v0.32.0"


def test_new_pair_revision_changes_decode_between_halves_of_prefill(stack: Stack) -> None:
    run(stack, *paired_roles(OLD_RELEASE), **NO_GANG)
    run(stack, *paired_roles(NEW_RELEASE), **NO_GANG)
    expected = ["svc-prefill-1", "svc-decode-1", "svc-decode-0", "svc-prefill-0"]
    assert [name for name in stack.order if name in expected] == expected
    # Another setting changes no pair revision: both roles change at the same time.
    run(stack, *paired_roles(NEW_RELEASE, "--max-num-seqs=7"), **NO_GANG)
    assert {*[name for name in stack.order if name in expected][:2]} == {*expected[:2]}


@pytest.mark.parametrize(
    ("replicas", "secret", "warned"), [(1, False, True), (2, False, False), (1, True, False)]
)
def test_preview_warns_of_mixed_revisions_unless_state_has_secrets(
    stack: Stack, replicas: int, secret: bool, warned: bool
) -> None:
    run(stack, *paired_roles(OLD_RELEASE, replicas=replicas), **NO_GANG)
    for resource in stack.engine.state.values() if secret else ():
        spec = resource["outputs"].get("spec")
        resource["outputs"]["spec"] = {SIGNATURE: SECRET, "value": spec}
    manifest = service(*paired_roles(NEW_RELEASE, replicas=replicas), **NO_GANG)
    preview = stack.engine.run(lambda: InferenceService("svc", manifest) and None, preview=True)
    lines = [line for line in preview.logged if "mixed revisions, degraded" in line]
    assert len(lines) == warned


def test_preview_lists_nothing(running: Stack) -> None:
    manifest = service(tagged("b"))
    running.lists = 0
    running.engine.run(lambda: InferenceService("svc", manifest) and None, preview=True)
    assert running.lists == 0


def test_replicas_of_older_library_version_are_not_awaited(running: Stack) -> None:
    (component,) = [urn for urn in running.engine.state if urn.endswith("Service::svc")]
    del running.engine.state[component]["outputs"]["observed"]
    running.broken = {"vllm/vllm-openai:v0.11.0"}
    run(running)
    assert running.lists == 1, "for the status alone"


def test_replicas_can_be_added_without_cluster_access(running: Stack) -> None:
    running.problem = UnreadableError("no answer")
    run(running, role(replicas=5))
    assert sorted(running.order) == names(0, 1, 2, 3, 4)
    messages = [item for item in running.logged if "not checked" in item]
    assert messages == ["availability of replicas was not checked: no answer"]


def test_unknown_state_is_read_from_cluster(running: Stack) -> None:
    running.engine.state = None
    run(running, tagged("b"))
    assert running.order == names(2, 1, 0)
    assert running.lowest == 2


def test_recreated_lws_change_together(running: Stack) -> None:
    # As after a rename: old ones run until the end of the update, and new ones may be a gang.
    for urn, resource in running.engine.state.items():
        if "LeaderWorkerSet" in urn:
            resource["outputs"]["metadata"]["uid"] = "old"
    run(running, tagged("b"), rollout={"timeout": "5s"})
    assert running.lowest < 2, "no replica waits for another"
    assert running.all_up()


@pytest.mark.parametrize("router", [True, False])
def test_level_serving_waits_for_gateways(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, *, router: bool
) -> None:
    accepted = [{"type": item, "status": "True"} for item in ("Accepted", "ResolvedRefs")]
    programmed = [*accepted, {"type": "Programmed", "status": "True"}]
    parents = [{"parentRef": {"name": "svc-gateway"}, "conditions": accepted}]
    status = {"conditions": programmed, "parents": parents}

    def listed(_: Any, *where: Any) -> Any:
        kinds = {kind for _, kind in where[2]}
        if kinds == {"LeaderWorkerSet"}:
            return stack.list(*where[1:])
        names = {
            "Gateway": "svc-gateway",
            "HTTPRoute": "svc-httproute",
            "InferencePool": "svc-pool",
        }
        return {names[kind]: {"metadata": {}, "status": status} for kind in kinds}

    monkeypatch.setattr(access, "list_objects", listed)
    manifest = awaited() if router else service(role(), wait={"level": "Serving"})
    deployment = stack.engine.run(lambda: InferenceService("svc", manifest) and None)
    assert deployment.outputs[-1][1]["observed"]["served"]
