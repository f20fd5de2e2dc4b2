"""Pods that are accepted and cannot run, or serve a part of their requests, by common mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from routed import routed
from samples import container, plan_of, pod, role, service, template

from fusioninfer_pulumi.findings import Finding, InvalidServiceError
from fusioninfer_pulumi.loading import load

Manifest = dict[str, Any]
C = "roles[0].template.spec.containers[0]"


def findings(manifest: Manifest, *rules: str) -> list[Finding]:
    """The findings of some rules about a manifest."""
    try:
        (_,) = load(manifest)
    except InvalidServiceError as problem:
        return [finding for finding in problem.findings if finding.rule in rules]
    return [finding for finding in plan_of(manifest).findings if finding.rule in rules]


def said(manifest: Manifest, *rules: str) -> list[tuple[str, str]]:
    """Severity and field of each of them."""
    return [(finding.severity.value, finding.path) for finding in findings(manifest, *rules)]


def engine(**more: Any) -> Manifest:
    """A vLLM container for one GPU, of the project's own image."""
    return {**container(gpus=1), **more}


def test_priority_is_that_of_a_class() -> None:
    at = "roles[0].template.spec.priority"
    assert said(pod(engine(), priority=1000), "field-out-of-place") == [("error", at)]


# Images


@pytest.mark.parametrize(
    "image",
    ["https://ghcr.io/a/b:1", "a/b:1:2", "Example/Model:1", "a//b", "a/b:", "a/b@sha256:1", "/a"],
)
def test_invalid_image_reference_is_rejected(image: str) -> None:
    assert said(pod(engine(image=image)), "invalid-format") == [("error", f"{C}.image")]


@pytest.mark.parametrize(
    "image",
    ["a", "a/b", "localhost:5000/a/b:v1", "Registry.example.com/a/b_c.d--e:1_2.3-x",
     f"a/b@sha256:{'0' * 64}", f"ghcr.io/a/b:1@sha256:{'a' * 64}"],
)  # fmt: skip
def test_valid_image_references_are_accepted(image: str) -> None:
    assert said(pod(engine(image=image)), "invalid-format") == []


@pytest.mark.parametrize(
    ("fields", "probe", "reported"),
    [
        ({}, {"readinessProbe": {"httpGet": {"path": "/health", "port": 8000}}}, True),
        ({"launcher": "ray"}, {"startupProbe": {"httpGet": {"path": "/", "port": 8000}}}, True),
        ({}, {}, True),  # the library adds probes
        ({"launcher": "none"}, {"readinessProbe": {"httpGet": {"port": 8000}}}, False),
    ],
)
def test_leader_ready_with_launcher_is_reported(
    fields: dict[str, Any], probe: dict[str, Any], *, reported: bool
) -> None:
    multinode = {"nodeCount": 2, "launcher": "multiprocessing", **fields}
    manifest = service(
        role(template=template(engine(**probe)), multinode=multinode, startupPolicy="LeaderReady")
    )
    messages = said(manifest, "launcher-contradicted")
    assert messages == ([("warning", "roles[0].startupPolicy")] if reported else [])


# Arguments of releases that are not known yet


def test_misspelt_argument_is_found_in_newer_releases() -> None:
    args = ["--model", "m", "--max-nm-seqs", "8"]
    (finding,) = findings(
        pod(engine(image="vllm/vllm-openai:v0.99.0", args=args)), "argument-unknown"
    )
    assert finding.severity.value == "warning"
    assert "did you mean --max-num-seqs?" in finding.message


# Models


def serving(name: str, *args: str, **more: Any) -> Manifest:
    return role(name, template=template(engine(args=list(args))), **more)


DIFFER = "served-models-differ"


@pytest.mark.parametrize("make", [service, routed])
def test_roles_behind_one_address_serve_the_same_names(make: Any) -> None:
    other = serving("b", "--model", "m/two")
    at = "roles[2]" if make is routed else "roles[1]"
    assert said(make(serving("a", "--model", "m/one"), other), DIFFER) == [("warning", at)]
    assert said(make(serving("a", "--model", "m/two"), other), DIFFER) == []
    named = serving("a", "--model", "m/one", "--served-model-name", "m/two")
    assert said(make(named, other), DIFFER) == []
    parked = serving("a", "--model", "m/one", replicas=0)
    assert said(make(parked, other), DIFFER) == []


# Ports and shared memory


def test_script_may_start_a_proxy() -> None:
    script = "nginx && exec vllm serve m --port 8000"
    ports = [{"name": "http", "containerPort": 8080}]
    kept = engine(command=["sh", "-c", script], args=None, ports=ports)
    rule = "port-not-served"
    assert said(service(role(port=8080, template=template(kept))), rule) == []
    without = {**kept, "ports": []}
    assert said(service(role(port=8080, template=template(without))), rule) != []


SHARED = "shared-memory-missing"


@pytest.mark.parametrize(
    ("device", "expected"),
    [("nvidia.com/gpu", True), ("google.com/tpu", False), ("aws.amazon.com/neuroncore", False)],
)
def test_ranks_of_some_devices_share_no_memory(device: str, expected: bool) -> None:
    limits = {"limits": {device: 4}}
    kept = engine(args=["--model", "m", "--tensor-parallel-size", "4"], resources=limits)
    assert bool(said(pod(kept), SHARED)) == expected
