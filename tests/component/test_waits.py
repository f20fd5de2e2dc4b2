"""Annotations by which the provider waits for, ignores and replaces objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from routed import routed
from samples import nodes, role, service, template

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component.kubernetes_objects import find_latest

SKIP = {"pulumi.com/skipAwait": "true"}


def deployed(engine: Any, *roles: Any, **spec: Any) -> Any:
    manifest = service(*roles, **spec)
    return engine.run(lambda: InferenceService("svc", manifest) and None)


def annotations(registered: Any) -> dict[str, str]:
    result: dict[str, str] = registered.inputs["metadata"].get("annotations") or {}
    return result


@pytest.mark.parametrize(
    ("leader", "worker", "delete"),
    [(None, None, ""), (300, 30, ""), (301, 30, "601s"), (60, 3600, "3900s")],
)
def test_deletion_timeout_follows_grace_period(
    engine: Any, leader: int | None, worker: int | None, delete: str
) -> None:
    def ending(seconds: int | None) -> Any:
        return template() if seconds is None else template(terminationGracePeriodSeconds=seconds)

    wide = role(template=None, multinode=nodes(2))
    wide |= {"leaderTemplate": ending(leader), "workerTemplate": ending(worker)}
    deployment = deployed(engine, wide)
    assert deployment["svc-inference-0"].request.customTimeouts.delete == delete


def test_deletion_timeout_of_picker_follows_grace_period(engine: Any) -> None:
    slow = {"spec": {"terminationGracePeriodSeconds": 900}}
    built = routed(endpointPicker={"template": slow})
    deployment = engine.run(lambda: InferenceService("svc", built) and None)
    (picker,) = [child for child in deployment.children if child.inputs["kind"] == "Deployment"]
    assert picker.request.customTimeouts.delete == "1200s"


def test_template_below_partition_is_ignored(engine: Any) -> None:
    deployment = deployed(engine, role(replicas=2), rollout={"partition": 1})
    ignored = [
        list(deployment[f"svc-inference-{index}"].request.ignoreChanges) for index in range(2)
    ]
    assert ignored == [["spec", 'metadata.labels["fusioninfer.io/revision"]'], []]


def test_strategy_recreate_replaces_changed_lws(engine: Any) -> None:
    result = deployed(engine, role(), rollout={"strategy": "Recreate"})["svc-inference-0"].request
    assert "spec.leaderWorkerTemplate" in result.replaceOnChanges
    assert result.deleteBeforeReplace


def test_rendered_files_have_no_provider_annotations(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"kubernetes:renderYamlToDirectory": "out"}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(config))
    deployment = deployed(engine, role(replicas=2), wait={"level": "Scheduled"})
    assert all(annotations(child) == {} for child in deployment.children)


def test_latest_state_has_highest_resource_version() -> None:
    old, new = ({"metadata": {"resourceVersion": text}} for text in ("99", "100"))
    assert find_latest(old, new) is new
    assert find_latest(new, old) is new
    assert find_latest(None, old) is old
    assert find_latest({"metadata": {}}, old) is old
    assert find_latest(None, {}) is None
