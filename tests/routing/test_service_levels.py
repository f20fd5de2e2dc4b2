"""Priorities of requests, and sessions: objects, configuration and image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from routed import LLM_D, objects, only, picker_container, routed
from samples import problems

from fusioninfer_pulumi.cli.main import main

LLM_D_1 = LLM_D.replace("v0.10.0", "v1.0.0")
LEVELS = [
    {"name": "interactive", "priority": 10},
    {"name": "batch", "priority": -10, "maxQueued": 50},
]
POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "svc-pool"}
FAIR = "round-robin-fairness-policy"


def levelled(**picker: Any) -> dict[str, Any]:
    return routed(endpointPicker={"serviceLevels": {"levels": LEVELS}, **picker})


def config(manifest: dict[str, Any]) -> Any:
    return yaml.safe_load(only(manifest, "ConfigMap")["data"]["config.yaml"])


@pytest.mark.parametrize(
    ("image", "version", "pools"),
    [
        (LLM_D, "llm-d.ai/v1alpha2", {"poolRef": POOL}),
        (LLM_D_1, "llm-d.ai/v1", {"poolRefs": [POOL]}),
    ],
)
def test_each_level_is_an_inference_objective(image: str, version: str, pools: Any) -> None:
    made = objects(levelled(image=image), "InferenceObjective")
    assert [each["metadata"]["name"] for each in made] == ["svc-interactive", "svc-batch"]
    assert [each["apiVersion"] for each in made] == [version] * 2
    assert [each["spec"] for each in made] == [
        {"priority": 10, **pools},
        {"priority": -10, **pools},
    ]


def test_levels_select_llm_d_and_enable_flow_control() -> None:
    manifest = levelled()
    assert problems(manifest) == []
    assert picker_container(manifest)["image"] == LLM_D
    made = config(manifest)
    assert made["featureGates"] == ["flowControl"]
    assert made["flowControl"] == {
        "defaultRequestTTL": "0s",
        "defaultPriorityBand": {"priority": 0, "fairnessPolicyRef": FAIR},
        "priorityBands": [
            {"priority": 10, "fairnessPolicyRef": FAIR},
            {"priority": -10, "maxRequests": "50", "fairnessPolicyRef": FAIR},
        ],
        "saturationDetector": {"pluginRef": "concurrency-detector"},
    }
    concurrency = {"type": "concurrency-detector", "parameters": {"maxConcurrency": 100}}
    assert made["plugins"][:2] == [{"type": FAIR}, concurrency]


def test_eviction_and_concurrency_are_in_picker_config() -> None:
    levels = {"levels": LEVELS, "maxConcurrency": 8, "evict": True}
    made = config(levelled(serviceLevels=levels))
    assert made["flowControl"]["enableEviction"] is True
    assert made["plugins"][1]["parameters"] == {"maxConcurrency": 8}


@pytest.mark.parametrize(
    ("session", "plugins"),
    [
        ({}, {"session-affinity-scorer": {"header": "x-session-id"}}),
        ({"header": "x-chat"}, {"session-affinity-scorer": {"header": "x-chat"}}),
        (
            {"cookie": "chat"},
            {
                "session-id-producer": None,
                "session-affinity-scorer": {"attribute": "SessionIDDataKey/session-id-producer"},
            },
        ),
    ],
)
def test_session_is_named_by_header_or_cookie(session: Any, plugins: dict[str, Any]) -> None:
    manifest = routed(strategy="session-affinity", endpointPicker={"session": session})
    assert problems(manifest) == []
    container = picker_container(manifest)
    assert container["image"] == LLM_D
    assert "--allow-experimental-plugins=true" in container["args"]
    found = {
        plugin["type"]: plugin["parameters"]
        for plugin in config(manifest)["plugins"]
        if plugin["type"].startswith("session-")
    }
    assert found.keys() == plugins.keys()
    assert found["session-affinity-scorer"] == {
        "strategy": "session_id",
        "sessionIdConfig": {"sources": [plugins["session-affinity-scorer"]]},
    }
    if "cookie" in session:
        assert found["session-id-producer"] == {"cookieName": "chat"}


def test_plan_shows_the_header_of_each_level(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "service.yaml"
    path.write_text(yaml.safe_dump(levelled()), encoding="utf-8")
    assert main(["plan", str(path)]) == 0
    row = "svc-interactive 10, svc-batch -10, any other request 0"
    assert row in " ".join(capsys.readouterr().out.split())
