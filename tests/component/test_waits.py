"""What waits for what, as the SDK tells the engine."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded import recorded, urn
from routed import routed
from samples import nodes, role, service, template

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component.outputs import latest

SKIP = {"pulumi.com/skipAwait": "true"}


def deployed(engine: Any, *roles: Any, **spec: Any) -> Any:
    manifest = service(*roles, **spec)
    return engine.run(lambda: InferenceService("svc", manifest) and None)


def annotations(registered: Any) -> dict[str, str]:
    found: dict[str, str] = registered.inputs["metadata"].get("annotations") or {}
    return found


def test_a_patch_follows_its_own_set_and_the_last_of_the_chain(engine: Any) -> None:
    deployment = deployed(engine, role(replicas=3))
    lws = {name: deployment[f"svc-inference-{name}"].urn for name in range(3)}
    for index in range(3):
        request = deployment[f"svc-inference-{index}-wait"].request
        assert set(request.dependencies) == {lws[index], lws[0]}
        assert request.deletedWith == lws[index]
        assert list(request.replace_with) == [lws[index]]
        assert request.deleteBeforeReplace
        assert list(request.additionalSecretOutputs) == ["spec"]
        assert request.customTimeouts.create == request.customTimeouts.update == "45m"


def test_a_patch_adds_annotations_and_nothing_else(engine: Any) -> None:
    patch = deployed(engine)["svc-inference-0-wait"].inputs
    added = patch["metadata"].pop("annotations")
    assert patch == {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "svc-inference-0", "namespace": "default"},
    }
    assert added.pop("pulumi.com/patchForce") == "true"
    assert json.loads(added.pop("pulumi.com/waitFor")) == [
        "condition=Available",
        "jsonpath={.metadata.annotations['pulumi.com/patchForce']}",
    ]
    assert added == {}


def test_timeouts_of_rollout_and_wait(engine: Any) -> None:
    deployment = deployed(
        engine, role(replicas=1), rollout={"timeout": "2h"}, wait={"timeout": "90s"}
    )
    assert deployment["svc-inference-0"].request.customTimeouts.update == "2h"
    assert deployment["svc-inference-0-wait"].request.customTimeouts.create == "90s"


@pytest.mark.parametrize(
    ("strategy", "held", "create"),
    [
        ("Recreate", True, "5m"),  # it replaces a replica: the same as an update
        ("Recreate", False, "2h"),
        ("Rolling", True, "2h"),
        ("AllAtOnce", True, "2h"),
    ],
)
def test_a_set_that_is_made_anew_has_the_time_of_an_update(
    engine: Any, strategy: str, held: bool, create: str
) -> None:
    engine.state = {urn("svc-inference-0"): recorded("svc-inference-0", index="0")} if held else {}
    rollout = {"strategy": strategy, "timeout": "5m"}
    deployment = deployed(engine, role(replicas=2), rollout=rollout, wait={"timeout": "2h"})
    assert deployment["svc-inference-0-wait"].request.customTimeouts.create == create
    assert deployment["svc-inference-1-wait"].request.customTimeouts.create == "2h"


@pytest.mark.parametrize(
    ("leader", "worker", "delete"),
    [(None, None, ""), (300, 30, ""), (301, 30, "601s"), (60, 3600, "3900s")],
)
def test_a_deletion_waits_as_long_as_pods_may_take_to_end(
    engine: Any, leader: int | None, worker: int | None, delete: str
) -> None:
    def ending(seconds: int | None) -> Any:
        return template() if seconds is None else template(terminationGracePeriodSeconds=seconds)

    wide = role(template=None, multinode=nodes(2))
    wide |= {"leaderTemplate": ending(leader), "workerTemplate": ending(worker)}
    deployment = deployed(engine, wide)
    assert deployment["svc-inference-0"].request.customTimeouts.delete == delete
    # It goes with its set.
    assert deployment["svc-inference-0-wait"].request.customTimeouts.delete == ""


def test_a_picker_may_take_its_time_to_end(engine: Any) -> None:
    slow = {"spec": {"terminationGracePeriodSeconds": 900}}
    built = routed(endpointPicker={"template": slow})
    deployment = engine.run(lambda: InferenceService("svc", built) and None)
    (picker,) = [each for each in deployment.children if each.inputs["kind"] == "Deployment"]
    assert picker.request.customTimeouts.delete == "1200s"


def test_below_the_partition_the_template_is_ignored(engine: Any) -> None:
    deployment = deployed(engine, role(replicas=2), rollout={"partition": 1})
    ignored = [
        list(deployment[f"svc-inference-{index}"].request.ignoreChanges) for index in range(2)
    ]
    assert ignored == [["spec", 'metadata.labels["fusioninfer.io/revision"]'], []]


@pytest.mark.parametrize(
    ("level", "patches", "skipped"),
    [
        ("None", ["svc-inference-0-wait"], True),
        ("Scheduled", ["svc-inference-0-wait", "svc-scheduled"], True),
        ("Available", ["svc-inference-0-wait"], False),
        ("Serving", ["svc-inference-0-wait"], False),
    ],
)
def test_levels(engine: Any, level: str, patches: list[str], skipped: bool) -> None:
    deployment = deployed(engine, role(multinode=nodes(2)), wait={"level": level})
    assert sorted(each.request.name for each in deployment.patches) == patches
    wait = annotations(deployment["svc-inference-0-wait"])
    assert (wait.get("pulumi.com/skipAwait") == "true") == skipped
    by_kind = {each.inputs["kind"]: each for each in deployment.children}
    assert annotations(by_kind["LeaderWorkerSet"]) == {}
    assert annotations(by_kind["PodGroup"]) == SKIP
    assert annotations(by_kind["Service"]) == ({} if level == "Serving" else SKIP)
    follows = deployment["svc-inference-0-wait"].urn in by_kind["Service"].request.dependencies
    assert follows == (level == "Serving")


def test_all_at_once_waits_by_patches_that_each_change_touches(engine: Any) -> None:
    deployment = deployed(engine, role(replicas=3), rollout={"strategy": "AllAtOnce"})
    for index in range(3):
        made = deployment[f"svc-inference-{index}"]
        assert list(made.request.dependencies) == []
        assert annotations(made) == SKIP
        revision = made.inputs["metadata"]["labels"]["fusioninfer.io/revision"]
        patch = annotations(deployment[f"svc-inference-{index}-wait"])
        assert patch["fusioninfer.io/revision"] == revision


def test_recreate_replaces_sets_whose_template_changes(engine: Any) -> None:
    made = deployed(engine, role(), rollout={"strategy": "Recreate"})["svc-inference-0"].request
    assert "spec.leaderWorkerTemplate" in made.replaceOnChanges
    assert made.deleteBeforeReplace


def test_optional_replicas_are_not_waited_for(engine: Any) -> None:
    minimum = {"gangPolicy": {"minRoleReplicas": {"inference": 1}}}
    wide = role(replicas=3, multinode=nodes(2))
    deployment = deployed(engine, wide, schedulingStrategy=minimum)
    assert [each.request.name for each in deployment.patches] == ["svc-inference-0-wait"]


def test_files_get_nothing_that_only_the_engine_reads(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"kubernetes:renderYamlToDirectory": "out"}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(config))
    deployment = deployed(engine, role(replicas=2), wait={"level": "Scheduled"})
    assert deployment.patches == []
    assert all(annotations(each) == {} for each in deployment.children)


def test_the_newest_look_counts() -> None:
    old, new = ({"metadata": {"resourceVersion": text}} for text in ("99", "100"))
    assert latest(old, new) is new
    assert latest(new, old) is new
    assert latest(None, old) is old
    assert latest({"metadata": {}}, old) is old
    assert latest(None, {}) is None
