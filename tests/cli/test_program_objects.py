"""Resources of a program become manifests."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from cli.projects import messages, plans

from fusioninfer_pulumi.cli.program.recording import Recording

Run = Callable[..., Recording]


def manifests(recording: Recording) -> list[dict[str, Any]]:
    return list(recording.objects)


def test_custom_resource_spec_is_verbatim(run: Run) -> None:
    recording = run(
        """
        k8s.apiextensions.CustomResource(
            "lws",
            api_version="leaderworkerset.x-k8s.io/v1",
            kind="LeaderWorkerSet",
            metadata={
                "name": "qwen-worker-0",
                "namespace": "models",
                "labels": {"b": "1", "a": "2"},
            },
            spec={
                "replicas": 1,
                "leaderWorkerTemplate": {"size": 2, "snake_case": True, "ratio": 0.5},
                "args": ["--tp", "8"],
                "none": None,
                "empty": {},
            },
        )
        """
    )
    (manifest,) = recording.objects
    assert manifest == {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": "qwen-worker-0",
            "namespace": "models",
            "labels": {"a": "2", "b": "1"},
        },
        "spec": {
            "args": ["--tp", "8"],
            "empty": {},
            "leaderWorkerTemplate": {"ratio": 0.5, "size": 2, "snake_case": True},
            "none": None,
            "replicas": 1,
        },
    }
    assert list(manifest) == ["apiVersion", "kind", "metadata", "spec"]
    assert list(manifest["metadata"]["labels"]) == ["a", "b"]
    assert type(manifest["spec"]["replicas"]) is int
    assert messages(recording) == ()
    assert plans(recording) == []


def test_patches_are_never_listed(run: Run) -> None:
    recording = run(
        """
        k8s.apps.v1.DeploymentPatch("a", metadata={"name": "a"}, spec={"replicas": 2})
        k8s.apiextensions.CustomResourcePatch(
            "b", api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet",
            metadata={"name": "b"}, spec={"replicas": 2})
        k8s.apiextensions.CustomResource(
            "c", api_version="gateway.envoyproxy.io/v1alpha1", kind="EnvoyPatch",
            metadata={"name": "c"}, spec={})
        k8s.core.v1.ConfigMapList("d", items=[{"metadata": {"name": "x"}, "data": {"a": "b"}}])
        """
    )
    kinds = [manifest["kind"] for manifest in recording.objects]
    assert kinds == ["EnvoyPatch", "ConfigMapList"]
    assert recording.objects[1]["metadata"] == {}


@pytest.mark.skipif(not hasattr(pulumi, "run"), reason="not in the oldest SDK")
def test_asynchronous_main_runs(run: Run) -> None:
    recording = run(
        """
        async def main():
            made = k8s.core.v1.ConfigMap("a", metadata={"name": "a"})
            return {"name": made.metadata.name}

        pulumi.run(main)
        """
    )
    assert [actual["metadata"]["name"] for actual in manifests(recording)] == ["a"]


@pytest.mark.slow
def test_hundreds_of_objects_take_seconds(run: Run) -> None:
    before = os.times()
    recording = run(
        """
        for index in range(300):
            k8s.apiextensions.CustomResource(
                f"lws-{index}", api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet",
                metadata={"name": f"lws-{index}"}, spec={"replicas": index})
        """
    )
    assert [actual["spec"]["replicas"] for actual in manifests(recording)] == list(range(300))
    # CPU time of the program's process, which does not depend on the load of the machine.
    assert os.times().children_user - before.children_user < 15
