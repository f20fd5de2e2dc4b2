"""One deviation at a time, on the pinned picker: an error is what stopped the real one."""

from collections.abc import Callable
from typing import Any

import pytest

Said = Callable[..., list[tuple[str, str]]]
LLM_D = "llm-d.ai/v1alpha1"


def profile(*references: Any, name: str = "default") -> dict[str, Any]:
    return {"name": name, "plugins": list(references)}


def plugins(*extra: Any) -> list[Any]:
    return [{"type": "queue-scorer"}, {"type": "max-score-picker"}, *extra]


QUEUE, WEIGHED = {"pluginRef": "queue-scorer"}, {"pluginRef": "queue-scorer", "weight": 1}
MAX, RANDOM = {"pluginRef": "max-score-picker"}, {"pluginRef": "random-picker"}
TOP = "schedulingProfiles"
REF = f"{TOP}[0].plugins[0]"


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, []),
        ({"apiVersion": "absent", "kind": "absent"}, []),
        ({"kind": "ConfigMap"}, [("error", "kind")]),
        ({"apiVersion": LLM_D}, [("error", "apiVersion")]),
        ({"apiVersion": "v1"}, [("error", "apiVersion")]),
        ({"foo": 1}, [("error", "foo")]),
        ({"dataLayer": {}}, [("error", "dataLayer")]),
        ({"saturationDetector": {"queueDepthThreshold": 5}}, []),
        ({"saturationDetector": {"pluginRef": "x"}}, [("error", "saturationDetector.pluginRef")]),
        ({"saturationDetector": 5}, [("error", "saturationDetector")]),
        ({"featureGates": ["flowControl"]}, [("info", "featureGates[0]")]),
        ({"featureGates": ["prepareDataPlugins"]}, [("error", "featureGates[0]")]),
        ({"featureGates": ["flowControl=true"]}, [("error", "featureGates[0]")]),
        ({"featureGates": {"flowControl": True}}, [("error", "featureGates")]),
        ({"plugins": {"a": 1}}, [("error", "plugins"), ("error", f"{REF}.pluginRef")]),
        ({"plugins": plugins("queue-scorer")}, [("error", "plugins[2]")]),
        ({"plugins": plugins({"name": "x"})}, [("error", "plugins[2].type")]),
        ({"plugins": plugins({"type": 5})}, [("error", "plugins[2].type")]),
        ({"plugins": plugins({"type": "mine"})}, [("warning", "plugins[2].type")]),
        ({"plugins": plugins({"type": "load-aware-scorer"})}, [("error", "plugins[2].type")]),
        ({"plugins": plugins({"type": "queue-scorer"})}, [("error", "plugins[2].name")]),
        (
            {"plugins": plugins({"type": "random-picker", "name": 5})},
            [("error", "plugins[2].name")],
        ),
        (
            {"plugins": plugins({"type": "random-picker", "params": {}})},
            [("error", "plugins[2].params")],
        ),
        (
            {"plugins": plugins({"type": "lora-affinity-scorer", "parameters": [1]})},
            [("warning", "plugins[2].parameters")],
        ),
        (
            {"plugins": plugins({"type": "random-picker", "parameters": [1]})},
            [("error", "plugins[2].parameters")],
        ),
        (
            {"plugins": plugins({"type": "random-picker", "parameters": {"MAXNUMOFENDPOINTS": 2}})},
            [],
        ),
        (
            {"plugins": plugins({"type": "random-picker", "parameters": {"most": 2}})},
            [("warning", "plugins[2].parameters.most")],
        ),
        (
            {"plugins": plugins({"type": "prefix-cache-scorer", "parameters": {"blockSize": 5.5}})},
            [("error", "plugins[2].parameters.blockSize")],
        ),
        (
            {"plugins": plugins({"type": "prefix-cache-scorer", "parameters": {"autoTune": 1}})},
            [("error", "plugins[2].parameters.autoTune")],
        ),
        ({"plugins": plugins({"type": "single-profile-handler"})}, []),
        (
            {
                "plugins": plugins(
                    {"type": "single-profile-handler"},
                    {"type": "single-profile-handler", "name": "b"},
                )
            },
            [("error", "plugins[3]")],
        ),
        ({TOP: "absent"}, [("error", TOP)]),
        ({TOP: {}}, [("error", TOP)]),
        ({TOP: ["default"]}, [("error", f"{TOP}[0]")]),
        ({TOP: [{"plugins": [WEIGHED]}]}, [("error", f"{TOP}[0].name")]),
        ({TOP: [{"name": 5, "plugins": [WEIGHED]}]}, [("error", f"{TOP}[0].name")]),
        ({TOP: [{"name": "default"}]}, []),
        ({TOP: [{"name": "default", "plugins": 5}]}, [("error", f"{TOP}[0].plugins")]),
        ({TOP: [{"name": "default", "weight": 5}]}, [("error", f"{TOP}[0].weight")]),
        ({TOP: [profile(WEIGHED), profile(WEIGHED, name="b")]}, [("error", TOP)]),
        (
            {TOP: [profile(WEIGHED), profile(WEIGHED)]},
            [("error", f"{TOP}[1].name"), ("error", TOP)],
        ),
        (
            {
                TOP: [profile(WEIGHED), profile(WEIGHED, name="b")],
                "plugins": plugins({"type": "single-profile-handler"}),
            },
            [("error", "plugins[2].type")],
        ),
        # A type that nobody knows may be a handler.
        (
            {
                TOP: [profile(WEIGHED), profile(WEIGHED, name="b")],
                "plugins": plugins({"type": "mine"}),
            },
            [("warning", "plugins[2].type")],
        ),
        ({TOP: [profile({"pluginRef": "nope"})]}, [("error", f"{REF}.pluginRef")]),
        (
            {TOP: [profile({"pluginRef": "single-profile-handler"})]},
            [("warning", f"{REF}.pluginRef")],
        ),
        ({TOP: [profile({"pluginRef": "utilization-detector"})]}, [("error", f"{REF}.pluginRef")]),
        ({TOP: [profile({"pluginRef": 5})]}, [("error", f"{REF}.pluginRef")]),
        ({TOP: [profile({"weight": 1})]}, [("error", f"{REF}.pluginRef")]),
        ({TOP: [profile({**WEIGHED, "wieght": 1})]}, [("error", f"{REF}.wieght")]),
        ({TOP: [profile("queue-scorer")]}, [("error", REF)]),
        ({TOP: [profile(MAX, WEIGHED, MAX)]}, [("error", f"{TOP}[0].plugins[2].pluginRef")]),
        (
            {"plugins": plugins({"type": "random-picker"}), TOP: [profile(WEIGHED, MAX, RANDOM)]},
            [("error", f"{TOP}[0].plugins[2].pluginRef")],
        ),
        # The picker adds max-score-picker itself, but only where there is no other one.
        ({"plugins": [{"type": "queue-scorer"}]}, []),
        (
            {"plugins": [{"type": "queue-scorer"}, {"type": "random-picker"}]},
            [("error", f"{TOP}[0].plugins[1].pluginRef")],
        ),
        (
            {
                "plugins": plugins({"type": "single-profile-handler"}),
                TOP: [profile(WEIGHED, {"pluginRef": "single-profile-handler"})],
            },
            [("warning", f"{TOP}[0].plugins[1].pluginRef")],
        ),
        ({TOP: [profile(QUEUE, MAX)]}, []),
        # v1.2.1 dereferences nil here.
        ({TOP: [profile(MAX, QUEUE)]}, [("error", f"{TOP}[0].plugins[1].weight")]),
        ({TOP: [profile({**QUEUE, "weight": 0.5})]}, [("error", f"{REF}.weight")]),
        ({TOP: [profile({**QUEUE, "weight": 2.0})]}, []),
        ({TOP: [profile({**QUEUE, "weight": 10**20})]}, [("error", f"{REF}.weight")]),
        ({TOP: [profile({**QUEUE, "weight": "1"})]}, [("error", f"{REF}.weight")]),
        ({TOP: [profile({**QUEUE, "weight": True})]}, [("error", f"{REF}.weight")]),
        ({TOP: [profile({**QUEUE, "weight": float("inf")})]}, [("error", f"{REF}.weight")]),
        ({TOP: [profile({**QUEUE, "weight": 0})]}, [("warning", f"{REF}.weight")]),
        ({TOP: [profile({**MAX, "weight": 1})]}, [("warning", f"{REF}.weight")]),
    ],
)
def test_one_deviation_on_the_pinned_picker(
    changes: dict[str, Any], want: list[tuple[str, str]], base: Callable[..., str], said: Said
) -> None:
    assert said(base(**changes), "gaie-1.2") == want
