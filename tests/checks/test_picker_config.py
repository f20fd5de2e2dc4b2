"""What the check says: the router document's configurations, and one deviation at a time.

An error is what stopped the real endpoint picker.
"""

from typing import Any

import pytest
import yaml
from picker_configs import base, document, said

from fusioninfer_pulumi.checks.picker_config.checks import check_config
from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES

Found = tuple[str, str, str]
X_K8S = "inference.networking.x-k8s.io/v1alpha1"
LLM_D = "llm-d.ai/v1alpha1"
TOP = "schedulingProfiles"
REF = f"{TOP}[0].plugins[0]"
ROUTER = ("llm-d-0.9", "llm-d-0.10")


def messages(text: str, family: str) -> str:
    return "\n".join(finding.message for finding in check_config(text, FAMILIES[family]))


DEPRECATED_API = ("info", "picker-feature-unstable", "apiVersion")


def about(rule: str, severity: str, at: str, *names: str) -> list[Found]:
    return [(severity, rule, f"{at}.{name}" if name else at) for name in names or ("",)]


SIZE = "plugins[0].parameters.blockSize"
IN_CHARACTERS = "prefix-block-size-in-characters"
STRICT = about(
    "picker-config-invalid",
    "error",
    "plugins[0].parameters",
    "blockSize",
    "maxPrefixBlocksToMatch",
    "lruCapacityPerServer",
)


@pytest.mark.parametrize("name", ["prefix-cache", "custom"])
@pytest.mark.parametrize(
    ("family", "want"),
    [
        ("gaie-1.2", []),
        ("gaie-1.3", []),
        ("gaie-1.4", about(IN_CHARACTERS, "error", SIZE)),
        ("gaie-1.5", about(IN_CHARACTERS, "warning", SIZE)),
        ("llm-d-0.7", about(IN_CHARACTERS, "error", SIZE)),
        ("llm-d-0.8", about(IN_CHARACTERS, "warning", SIZE)),
        ("llm-d-0.9", [DEPRECATED_API, *STRICT]),
        ("llm-d-0.10", [DEPRECATED_API, *STRICT]),
    ],
)
def test_document_prefix_cache(name: str, family: str, want: list[Found]) -> None:
    assert said(document(name), family) == want


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("strategy", ["kv-cache-utilization", "queue-size", "lora-affinity"])
def test_document_single_scorers(strategy: str, family: str) -> None:
    want = [DEPRECATED_API] if family in ROUTER else []
    assert said(document(strategy), family) == want


@pytest.mark.parametrize("family", ["gaie-1.2", "gaie-1.3", "gaie-1.4", "gaie-1.5"])
def test_document_disaggregation_has_no_plugins_in_the_inference_extension(family: str) -> None:
    text = document("pd-disaggregation")
    for own_image, severity in ((False, "error"), (True, "warning")):
        types = [(severity, "plugin-not-registered", f"plugins[{at}].type") for at in range(4)]
        ignored = ("warning", "picker-config-doubtful", "plugins[4].parameters.hashBlockSize")
        assert said(text, family, own_image=own_image) == [*types, ignored]
    assert "registered by llm-d-0.7, llm-d-0.8, llm-d-0.9, llm-d-0.10" in messages(text, family)


WITHOUT_DECIDER = ("error", "picker-config-invalid", "plugins[0].parameters.deciderPluginName")
DATA_PARALLEL = ("warning", "data-parallel-without-pod-ip", "plugins[0].parameters.primaryPort")


@pytest.mark.parametrize("family", ["llm-d-0.7", "llm-d-0.8"])
def test_document_disaggregation_lacks_a_decider(family: str) -> None:
    ignored = ("picker-config-doubtful", "warning")
    assert said(document("pd-disaggregation"), family) == [
        *about(*ignored, "plugins[0].parameters", "threshold", "hashBlockSize"),
        DATA_PARALLEL,
        *about(*ignored, "plugins[4].parameters", "hashBlockSize"),
        WITHOUT_DECIDER,
    ]


@pytest.mark.parametrize("family", ROUTER)
def test_document_disaggregation_on_the_router(family: str) -> None:
    text = document("pd-disaggregation")
    unknown = ("picker-config-invalid", "error")
    removed = ("picker-feature-unstable", "info")
    limits = ("hashBlockSize", "maxPrefixBlocksToMatch", "lruCapacityPerServer")
    assert said(text, family) == [
        DEPRECATED_API,
        *about(*removed, "plugins[0].type"),
        *about(*unknown, "plugins[0].parameters", "threshold", "hashBlockSize"),
        DATA_PARALLEL,
        *(found for at in (1, 2, 3) for found in about(*removed, f"plugins[{at}].type")),
        *about(*unknown, "plugins[4].parameters", *limits),
        WITHOUT_DECIDER,
    ]
    assert "v0.11.0; write label-selector-filter" in messages(text, family)


@pytest.mark.parametrize("family", FAMILIES)
def test_document_example_3_is_written_as_an_object(family: str) -> None:
    flat = yaml.safe_load(document("queue-size"))
    header = {key: flat.pop(key) for key in ("apiVersion", "kind")}
    text = yaml.safe_dump({**header, "metadata": {"name": "x"}, "spec": flat})
    assert [each for each in said(text, family) if each[0] == "error"][:2] == [
        ("error", "picker-config-invalid", "metadata"),
        ("error", "picker-config-invalid", "spec"),
    ]


def profile(*references: Any, name: str = "default") -> dict[str, Any]:
    return {"name": name, "plugins": list(references)}


def plugins(*extra: Any) -> list[Any]:
    return [{"type": "queue-scorer"}, {"type": "max-score-picker"}, *extra]


QUEUE, WEIGHED = {"pluginRef": "queue-scorer"}, {"pluginRef": "queue-scorer", "weight": 1}
MAX, RANDOM = {"pluginRef": "max-score-picker"}, {"pluginRef": "random-picker"}


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, []),
        ({"apiVersion": "absent", "kind": "absent"}, []),
        ({"kind": "ConfigMap"}, [("error", "picker-config-invalid", "kind")]),
        ({"apiVersion": LLM_D}, [("error", "picker-config-invalid", "apiVersion")]),
        ({"apiVersion": "v1"}, [("error", "picker-config-invalid", "apiVersion")]),
        ({"foo": 1}, [("error", "picker-config-invalid", "foo")]),
        ({"dataLayer": {}}, [("error", "picker-config-invalid", "dataLayer")]),
        ({"saturationDetector": {"queueDepthThreshold": 5}}, []),
        (
            {"saturationDetector": {"pluginRef": "x"}},
            [("error", "picker-config-invalid", "saturationDetector.pluginRef")],
        ),
        ({"saturationDetector": 5}, [("error", "picker-config-invalid", "saturationDetector")]),
        ({"featureGates": ["flowControl"]}, []),
        (
            {"featureGates": ["prepareDataPlugins"]},
            [("error", "picker-config-invalid", "featureGates[0]")],
        ),
        (
            {"featureGates": ["flowControl=true"]},
            [("error", "picker-config-invalid", "featureGates[0]")],
        ),
        (
            {"featureGates": {"flowControl": True}},
            [("error", "picker-config-invalid", "featureGates")],
        ),
        (
            {"plugins": {"a": 1}},
            [
                ("error", "picker-config-invalid", "plugins"),
                ("error", "picker-config-invalid", f"{REF}.pluginRef"),
            ],
        ),
        ({"plugins": plugins("queue-scorer")}, [("error", "picker-config-invalid", "plugins[2]")]),
        ({"plugins": plugins({"name": "x"})}, [("error", "field-required", "plugins[2].type")]),
        (
            {"plugins": plugins({"type": 5})},
            [("error", "picker-config-invalid", "plugins[2].type")],
        ),
        (
            {"plugins": plugins({"type": "mine"})},
            [("warning", "plugin-not-registered", "plugins[2].type")],
        ),
        (
            {"plugins": plugins({"type": "load-aware-scorer"})},
            [("error", "plugin-not-registered", "plugins[2].type")],
        ),
        (
            {"plugins": plugins({"type": "queue-scorer"})},
            [("error", "picker-config-invalid", "plugins[2].name")],
        ),
        (
            {"plugins": plugins({"type": "random-picker", "name": 5})},
            [("error", "picker-config-invalid", "plugins[2].name")],
        ),
        (
            {"plugins": plugins({"type": "random-picker", "params": {}})},
            [("error", "picker-config-invalid", "plugins[2].params")],
        ),
        (
            {"plugins": plugins({"type": "random-picker", "parameters": [1]})},
            [("error", "picker-config-invalid", "plugins[2].parameters")],
        ),
        (
            {"plugins": plugins({"type": "random-picker", "parameters": {"MAXNUMOFENDPOINTS": 2}})},
            [],
        ),
        (
            {"plugins": plugins({"type": "random-picker", "parameters": {"most": 2}})},
            [("warning", "picker-config-doubtful", "plugins[2].parameters.most")],
        ),
        ({"plugins": plugins({"type": "single-profile-handler"})}, []),
        (
            {
                "plugins": plugins(
                    {"type": "single-profile-handler"},
                    {"type": "single-profile-handler", "name": "b"},
                )
            },
            [("error", "picker-config-invalid", "plugins[3]")],
        ),
        ({TOP: "absent"}, [("error", "picker-config-invalid", TOP)]),
        ({TOP: {}}, [("error", "picker-config-invalid", TOP)]),
        ({TOP: ["default"]}, [("error", "picker-config-invalid", f"{TOP}[0]")]),
        ({TOP: [{"plugins": [WEIGHED]}]}, [("error", "field-required", f"{TOP}[0].name")]),
        (
            {TOP: [{"name": 5, "plugins": [WEIGHED]}]},
            [("error", "picker-config-invalid", f"{TOP}[0].name")],
        ),
        ({TOP: [{"name": "default"}]}, []),
        (
            {TOP: [{"name": "default", "plugins": 5}]},
            [("error", "picker-config-invalid", f"{TOP}[0].plugins")],
        ),
        (
            {TOP: [{"name": "default", "weight": 5}]},
            [("error", "picker-config-invalid", f"{TOP}[0].weight")],
        ),
        (
            {TOP: [profile(WEIGHED), profile(WEIGHED, name="b")]},
            [("error", "picker-config-invalid", TOP)],
        ),
        (
            {TOP: [profile(WEIGHED), profile(WEIGHED)]},
            [
                ("error", "picker-config-invalid", f"{TOP}[1].name"),
                ("error", "picker-config-invalid", TOP),
            ],
        ),
        (
            {
                TOP: [profile(WEIGHED), profile(WEIGHED, name="b")],
                "plugins": plugins({"type": "single-profile-handler"}),
            },
            [("error", "picker-config-invalid", "plugins[2].type")],
        ),
        # A type that nobody knows may be a handler.
        (
            {
                TOP: [profile(WEIGHED), profile(WEIGHED, name="b")],
                "plugins": plugins({"type": "mine"}),
            },
            [("warning", "plugin-not-registered", "plugins[2].type")],
        ),
        (
            {TOP: [profile({"pluginRef": "nope"})]},
            [("error", "picker-config-invalid", f"{REF}.pluginRef")],
        ),
        (
            {TOP: [profile({"pluginRef": "utilization-detector"})]},
            [("error", "picker-config-invalid", f"{REF}.pluginRef")],
        ),
        (
            {TOP: [profile({"pluginRef": 5})]},
            [("error", "picker-config-invalid", f"{REF}.pluginRef")],
        ),
        ({TOP: [profile({"weight": 1})]}, [("error", "field-required", f"{REF}.pluginRef")]),
        (
            {TOP: [profile({**WEIGHED, "wieght": 1})]},
            [("error", "picker-config-invalid", f"{REF}.wieght")],
        ),
        ({TOP: [profile("queue-scorer")]}, [("error", "picker-config-invalid", REF)]),
        (
            {TOP: [profile(MAX, WEIGHED, MAX)]},
            [("error", "picker-config-invalid", f"{TOP}[0].plugins[2].pluginRef")],
        ),
        (
            {"plugins": plugins({"type": "random-picker"}), TOP: [profile(WEIGHED, MAX, RANDOM)]},
            [("error", "picker-config-invalid", f"{TOP}[0].plugins[2].pluginRef")],
        ),
        # The picker adds max-score-picker itself, but only where there is no other one.
        ({"plugins": [{"type": "queue-scorer"}]}, []),
        (
            {"plugins": [{"type": "queue-scorer"}, {"type": "random-picker"}]},
            [("error", "picker-config-invalid", f"{TOP}[0].plugins[1].pluginRef")],
        ),
        ({TOP: [profile(QUEUE, MAX)]}, []),
        # v1.2.1 dereferences nil here.
        (
            {TOP: [profile(MAX, QUEUE)]},
            [("error", "field-required", f"{TOP}[0].plugins[1].weight")],
        ),
        (
            {TOP: [profile({**QUEUE, "weight": 0.5})]},
            [("error", "out-of-range", f"{REF}.weight")],
        ),
        ({TOP: [profile({**QUEUE, "weight": 2.0})]}, []),
        (
            {TOP: [profile({**QUEUE, "weight": "1"})]},
            [("error", "picker-config-invalid", f"{REF}.weight")],
        ),
        (
            {TOP: [profile({**QUEUE, "weight": True})]},
            [("error", "picker-config-invalid", f"{REF}.weight")],
        ),
        (
            {TOP: [profile({**QUEUE, "weight": 0})]},
            [("warning", "out-of-range", f"{REF}.weight")],
        ),
    ],
)
def test_one_deviation_on_the_pinned_picker(changes: dict[str, Any], want: list[Found]) -> None:
    assert said(base(**changes), "gaie-1.2") == want


@pytest.mark.parametrize(
    ("family", "changes", "want"),
    [
        ("gaie-1.3", {TOP: [profile(MAX, QUEUE)]}, []),
        ("gaie-1.3", {TOP: "absent"}, []),
        (
            "gaie-1.3",
            {TOP: [profile({**QUEUE, "weight": 0.5})]},
            [("error", "out-of-range", f"{REF}.weight")],
        ),
        ("gaie-1.4", {"data": {"sources": []}}, []),
        ("gaie-1.4", {TOP: [profile({**QUEUE, "weight": 0.5})]}, []),
        ("gaie-1.4", {"featureGates": ["prepareDataPlugins"]}, []),
        # llm-d v0.8.0's own sample sets it, and v0.8.0 crashes on it.
        (
            "llm-d-0.8",
            {"featureGates": ["prepareDataPlugins"]},
            [("error", "picker-config-invalid", "featureGates[0]")],
        ),
        ("gaie-1.5", {"dataLayer": {"sources": []}, "parser": {"pluginRef": "x"}}, []),
        (
            "gaie-1.5",
            {"saturationDetector": {"queueDepthThreshold": 5}},
            [("error", "picker-config-invalid", "saturationDetector.queueDepthThreshold")],
        ),
        ("llm-d-0.10", {"apiVersion": LLM_D}, []),
        ("llm-d-0.10", {}, [("info", "picker-feature-unstable", "apiVersion")]),
        (
            "llm-d-0.10",
            {"apiVersion": LLM_D, "featureGates": ["flowControl=False", "flowControl=x"]},
            [("error", "picker-config-invalid", "featureGates[1]")],
        ),
        (
            "llm-d-0.10",
            {"apiVersion": LLM_D, "featureGates": ["dataLayer"]},
            [("error", "picker-config-invalid", "featureGates[0]")],
        ),
        (
            "llm-d-0.10",
            {"apiVersion": LLM_D, TOP: [profile({"pluginRef": "utilization-detector"})]},
            [],
        ),
    ],
)
def test_one_deviation_elsewhere(
    family: str,
    changes: dict[str, Any],
    want: list[Found],
) -> None:
    assert said(base(**changes), family) == want


@pytest.mark.parametrize(
    ("family", "plugin", "parameters", "want"),
    [
        (
            "gaie-1.4",
            "prefix-cache-scorer",
            {"blockSize": 5, "blockSizeTokens": 16},
            ["warning prefix-block-size-in-characters"],
        ),
        ("gaie-1.4", "prefix-cache-scorer", {"autoTune": False}, []),
        (
            "gaie-1.5",
            "prefix-cache-scorer",
            {"blockSize": 5, "blockSizeTokens": 0},
            ["error prefix-block-size-in-characters"],
        ),
        (
            "gaie-1.5",
            "approx-prefix-cache-producer",
            {"blockSize": 5},
            ["warning prefix-block-size-in-characters"],
        ),
        ("gaie-1.5", "predicted-latency-scorer", {"samplingMean": 1}, []),
        (
            "gaie-1.5",
            "predicted-latency-scorer",
            {"anything": 1},
            ["warning picker-config-doubtful"],
        ),
        ("gaie-1.3", "model-server-protocol-metrics", {"anything": 1}, []),
        ("llm-d-0.10", "approx-prefix-cache-producer", {"blockSize": 5}, []),
        (
            "llm-d-0.10",
            "approx-prefix-cache-producer",
            {"blocks": 5},
            ["error picker-config-invalid"],
        ),
        ("llm-d-0.10", "queue-scorer", {"anything": 1}, ["warning picker-config-doubtful"]),
        ("llm-d-0.10", "max-score-picker", {"anything": 1}, ["error picker-config-invalid"]),
        ("llm-d-0.10", "prefix-cache-scorer", {"matchLengthWeight": 0.5}, []),
        (
            "llm-d-0.9",
            "prefix-cache-scorer",
            {"matchLengthWeight": 0.5},
            ["error picker-config-invalid"],
        ),
        ("llm-d-0.10", "label-selector-filter", {"matchLabels": {"a": "b"}}, []),
        ("llm-d-0.10", "label-selector-filter", {"label": "a"}, ["error picker-config-invalid"]),
        ("llm-d-0.10", "topology-affinity-scorer", None, ["warning picker-feature-unstable"]),
        (
            "llm-d-0.10",
            "by-label",
            {"label": "a", "validValues": ["b"]},
            ["info picker-feature-unstable"],
        ),
        ("llm-d-0.8", "by-label", {"label": "a", "validValues": ["b"]}, []),
        ("llm-d-0.8", "by-label", {"label": "a", "allowsNoLabel": True}, []),
        ("llm-d-0.8", "prefill-filter", {"label": "a"}, ["warning picker-config-doubtful"]),
        ("llm-d-0.10", "prefix-based-pd-decider", None, ["warning picker-config-doubtful"]),
        (
            "llm-d-0.10",
            "prefix-based-pd-decider",
            {"nonCachedTokens": 0},
            ["warning picker-config-doubtful"],
        ),
        ("llm-d-0.10", "prefix-based-pd-decider", {"nonCachedTokens": 16}, []),
    ],
)
def test_parameters(
    family: str,
    plugin: str,
    parameters: dict[str, Any] | None,
    want: list[str],
) -> None:
    entry = {"type": plugin, "name": "it", "parameters": parameters}
    declared: list[Any] = [{"type": "queue-scorer", "name": "q"}, {"type": "random-picker"}, entry]
    references: list[Any] = [{"pluginRef": "q", "weight": 1}, {"pluginRef": "random-picker"}]
    api = LLM_D if family in ("llm-d-0.9", "llm-d-0.10") else X_K8S
    found = base(apiVersion=api, plugins=declared, schedulingProfiles=[profile(*references)])
    assert [f"{severity} {rule}" for severity, rule, _ in said(found, family)] == want


ALWAYS = {"type": "always-disagg-pd-decider"}
HEADERS = {"type": "disagg-headers-handler"}
NAMED = {"deciders": {"prefill": "always-disagg-pd-decider"}}
WHERE = "plugins[2].parameters"


def handler(parameters: dict[str, Any], kind: str = "disagg-profile-handler") -> dict[str, Any]:
    return {"type": kind, "parameters": parameters}


def both(*declared: Any, names: tuple[str, ...] = ("prefill", "decode")) -> dict[str, Any]:
    references = [{"pluginRef": "queue-scorer", "weight": 1}]
    return {
        "apiVersion": "absent",
        "plugins": [{"type": "queue-scorer"}, *declared],
        "schedulingProfiles": [{"name": name, "plugins": references} for name in names],
    }


@pytest.mark.parametrize(
    ("family", "config", "want"),
    [
        ("llm-d-0.10", both(ALWAYS, handler(NAMED)), []),
        ("llm-d-0.10", both(handler(NAMED), ALWAYS), []),
        (
            "llm-d-0.9",
            both(handler(NAMED), ALWAYS),
            [("error", "picker-config-invalid", "plugins[1].parameters.deciders.prefill")],
        ),
        (
            "llm-d-0.8",
            both(ALWAYS, handler(NAMED)),
            [("warning", "picker-config-doubtful", "plugins")],
        ),
        ("llm-d-0.8", both(ALWAYS, handler(NAMED), HEADERS), []),
        (
            "llm-d-0.10",
            both(ALWAYS, handler({})),
            [("warning", "picker-config-doubtful", f"{WHERE}.deciders.prefill")],
        ),
        (
            "llm-d-0.10",
            both(ALWAYS, handler({"deciders": {"prefill": "nope"}})),
            [("error", "picker-config-invalid", f"{WHERE}.deciders.prefill")],
        ),
        (
            "llm-d-0.10",
            both(ALWAYS, handler({"prefillDeciderPluginName": "always-disagg-pd-decider"})),
            [],
        ),
        (
            "llm-d-0.10",
            both(ALWAYS, handler(NAMED), names=("prefill", "d")),
            [("error", "picker-config-invalid", WHERE)],
        ),
        (
            "llm-d-0.10",
            both(ALWAYS, handler(NAMED), names=("p", "decode")),
            [("warning", "picker-config-doubtful", WHERE)],
        ),
        (
            "llm-d-0.10",
            both(
                ALWAYS,
                handler({**NAMED, "profiles": {"prefill": "p", "decode": "d"}}),
                names=("p", "d"),
            ),
            [],
        ),
        (
            "llm-d-0.7",
            both(
                HEADERS,
                {"type": "prefix-based-pd-decider", "parameters": {"nonCachedTokens": 4}},
                handler({"deciders": {"prefill": "prefix-based-pd-decider"}}),
            ),
            [("warning", "picker-config-doubtful", "plugins[3].parameters")],
        ),
        (
            "llm-d-0.8",
            both(
                HEADERS,
                ALWAYS,
                handler(
                    {"deciderPluginName": "always-disagg-pd-decider", "primaryPort": 8000},
                    "pd-profile-handler",
                ),
            ),
            [("warning", "data-parallel-without-pod-ip", "plugins[3].parameters.primaryPort")],
        ),
    ],
)
def test_handlers(
    family: str,
    config: dict[str, Any],
    want: list[Found],
) -> None:
    assert said(base(**config), family) == want
