"""Where the families differ: fields, gates, weights and the parameters of plugins."""

from collections.abc import Callable
from typing import Any

import pytest

Said = Callable[..., list[tuple[str, str]]]
X_K8S = "inference.networking.x-k8s.io/v1alpha1"
LLM_D = "llm-d.ai/v1alpha1"


def profile(*references: Any, name: str = "default") -> dict[str, Any]:
    return {"name": name, "plugins": list(references)}


def plugins(*extra: Any) -> list[Any]:
    return [{"type": "queue-scorer"}, {"type": "max-score-picker"}, *extra]


QUEUE = {"pluginRef": "queue-scorer"}
MAX = {"pluginRef": "max-score-picker"}
TOP = "schedulingProfiles"
REF = f"{TOP}[0].plugins[0]"


@pytest.mark.parametrize(
    ("family", "changes", "want"),
    [
        ("gaie-1.3", {TOP: [profile(MAX, QUEUE)]}, []),
        ("gaie-1.3", {TOP: "absent"}, []),
        ("gaie-1.3", {TOP: [profile({**QUEUE, "weight": 0.5})]}, [("error", f"{REF}.weight")]),
        ("gaie-1.3", {"data": {"sources": []}}, [("error", "data")]),
        ("gaie-1.3", {"featureGates": ["dataLayer"], "data": {}}, [("info", "featureGates[0]")]),
        ("gaie-1.4", {"data": {"sources": []}}, []),
        (
            "gaie-1.4",
            {"featureGates": ["dataLayer"], "data": {}},
            [("info", "featureGates[0]"), ("error", "data")],
        ),
        ("gaie-1.4", {TOP: [profile({**QUEUE, "weight": 0.5})]}, []),
        ("gaie-1.4", {"featureGates": ["prepareDataPlugins"]}, [("info", "featureGates[0]")]),
        # llm-d v0.8.0's own sample sets it, and v0.8.0 crashes on it.
        ("llm-d-0.8", {"featureGates": ["prepareDataPlugins"]}, [("error", "featureGates[0]")]),
        ("gaie-1.5", {"dataLayer": {"sources": []}, "parser": {"pluginRef": "x"}}, []),
        (
            "gaie-1.5",
            {"saturationDetector": {"queueDepthThreshold": 5}},
            [("error", "saturationDetector.queueDepthThreshold")],
        ),
        ("llm-d-0.10", {"apiVersion": LLM_D}, []),
        ("llm-d-0.10", {}, [("info", "apiVersion")]),
        (
            "llm-d-0.10",
            {"apiVersion": LLM_D, "featureGates": ["flowControl=False", "flowControl=x"]},
            [("info", "featureGates[0]"), ("error", "featureGates[1]")],
        ),
        (
            "llm-d-0.10",
            {"apiVersion": LLM_D, "featureGates": ["dataLayer"]},
            [("error", "featureGates[0]")],
        ),
        (
            "llm-d-0.10",
            {"apiVersion": LLM_D, TOP: [profile({"pluginRef": "utilization-detector"})]},
            [],
        ),
        (None, {}, []),
        (None, {"apiVersion": LLM_D, "dataLayer": {"x": 1}, "data": {}}, []),
        (None, {"apiVersion": "v1", "foo": 1}, [("error", "apiVersion"), ("error", "foo")]),
        (None, {"plugins": plugins({"type": "mine"})}, [("info", "plugins[2].type")]),
        (None, {TOP: [profile(MAX, QUEUE)]}, []),
        (None, {TOP: [profile({**QUEUE, "weight": 0.5})]}, []),
        (None, {"featureGates": ["foo"]}, []),
    ],
)
def test_one_deviation_elsewhere(
    family: str | None,
    changes: dict[str, Any],
    want: list[tuple[str, str]],
    base: Callable[..., str],
    said: Said,
) -> None:
    assert said(base(**changes), family) == want


@pytest.mark.parametrize(
    ("family", "plugin", "parameters", "want"),
    [
        ("gaie-1.4", "prefix-cache-scorer", {"blockSize": 5, "blockSizeTokens": 16}, ["warning"]),
        ("gaie-1.4", "prefix-cache-scorer", {"autoTune": False}, []),
        ("gaie-1.5", "prefix-cache-scorer", {"blockSize": 5, "blockSizeTokens": 0}, ["error"]),
        ("gaie-1.5", "prefix-cache-scorer", {"autoTune": False, "blockSizeTokens": 0}, ["error"]),
        ("gaie-1.5", "approx-prefix-cache-producer", {"blockSize": 5}, ["warning"]),
        ("gaie-1.5", "predicted-latency-scorer", {"anything": 1}, []),
        ("llm-d-0.10", "approx-prefix-cache-producer", {"blockSize": 5}, []),
        ("llm-d-0.10", "approx-prefix-cache-producer", {"blocks": 5}, ["error"]),
        (
            "llm-d-0.10",
            "approx-prefix-cache-producer",
            {"autoTune": False, "blockSizeTokens": 0},
            ["error"],
        ),
        ("llm-d-0.10", "queue-scorer", {"anything": 1}, ["warning"]),
        ("llm-d-0.10", "max-score-picker", {"anything": 1}, ["error"]),
        ("llm-d-0.10", "prefix-cache-scorer", {"matchLengthWeight": 0.5}, []),
        ("llm-d-0.9", "prefix-cache-scorer", {"matchLengthWeight": 0.5}, ["error"]),
        ("llm-d-0.10", "label-selector-filter", {"matchLabels": {"a": "b"}}, []),
        ("llm-d-0.10", "label-selector-filter", {"label": "a"}, ["error"]),
        ("llm-d-0.10", "topology-affinity-scorer", None, ["warning"]),
        ("llm-d-0.10", "by-label", {"label": "a", "validValues": ["b"]}, ["info"]),
        ("llm-d-0.8", "by-label", {"label": "a", "validValues": ["b"]}, []),
        ("llm-d-0.8", "by-label", {"label": "a", "allowsNoLabel": True}, []),
        ("llm-d-0.8", "by-label", {"label": "a"}, ["error"]),
        ("llm-d-0.8", "by-label", None, ["error", "error"]),
        ("llm-d-0.8", "prefill-filter", {"label": "a"}, ["warning"]),
        ("llm-d-0.10", "prefix-based-pd-decider", None, ["warning"]),
        ("llm-d-0.10", "prefix-based-pd-decider", {"nonCachedTokens": 0}, ["warning"]),
        ("llm-d-0.10", "prefix-based-pd-decider", {"nonCachedTokens": -1}, ["error"]),
        ("llm-d-0.10", "prefix-based-pd-decider", {"nonCachedTokens": "x"}, ["error"]),
        ("llm-d-0.10", "prefix-based-pd-decider", {"nonCachedTokens": 16}, []),
    ],
)
def test_parameters(
    family: str,
    plugin: str,
    parameters: dict[str, Any] | None,
    want: list[str],
    base: Callable[..., str],
    said: Said,
) -> None:
    entry = {"type": plugin, "name": "it", "parameters": parameters}
    declared: list[Any] = [{"type": "queue-scorer", "name": "q"}, {"type": "random-picker"}, entry]
    references: list[Any] = [{"pluginRef": "q", "weight": 1}, {"pluginRef": "random-picker"}]
    api = LLM_D if family in ("llm-d-0.9", "llm-d-0.10") else X_K8S
    found = base(apiVersion=api, plugins=declared, schedulingProfiles=[profile(*references)])
    assert [severity for severity, _ in said(found, family)] == want
