"""The configuration of every strategy on every family, who can do it, and what it does in words."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from picker_configs import document

from fusioninfer_pulumi.api.role import Strategy
from fusioninfer_pulumi.checks.pickers import check_config, check_strategy
from fusioninfer_pulumi.endpoint_pickers.picker_config import (
    SCORERS,
    EppRequest,
    build_epp_config,
    describe_strategy,
    dump_epp_config,
)
from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES, LLM_D_API, X_K8S_API
from fusioninfer_pulumi.engines.engine import VLLM_METRICS, LoadMetrics
from fusioninfer_pulumi.findings import errors

ROUTER = ("llm-d-0.9", "llm-d-0.10")


def prefix_parameters(block: Mapping[str, int], blocks: int = 2048) -> dict[str, int]:
    limits = {"maxPrefixBlocksToMatch": blocks, "lruCapacityPerServer": 31250}
    return {"autoTune": False, **block, **limits}


PD = "pd-disaggregation"
PLAIN = [each.value for each in Strategy if each.value != PD]

Plugins = list[dict[str, Any]]

CHARACTERS: Plugins = [
    {"type": "prefix-cache-scorer", "parameters": prefix_parameters({"blockSize": 256})}
]
TOKENS: Plugins = [
    {"type": "prefix-cache-scorer", "parameters": prefix_parameters({"blockSizeTokens": 64})}
]
PRODUCER: Plugins = [
    {"type": "approx-prefix-cache-producer", "parameters": {"lruCapacityPerServer": 31250}},
    {"type": "prefix-cache-scorer"},
]
PREFIX: dict[str, Plugins] = {
    **dict.fromkeys(("gaie-1.2", "gaie-1.3"), CHARACTERS),
    **dict.fromkeys(("gaie-1.4", "gaie-1.5"), TOKENS),
    **dict.fromkeys(ROUTER, PRODUCER),
}


LOAD_WEIGHTS = {"kv-cache-utilization-scorer": 2, "queue-scorer": 2}
LOAD: Plugins = [{"type": name} for name in LOAD_WEIGHTS]


def config(family: str, strategy: str, **request: Any) -> dict[str, Any]:
    return build_epp_config(FAMILIES[family], EppRequest(Strategy(strategy), **request))


def one_profile(family: str, plugins: Plugins, weights: Mapping[str, float]) -> dict[str, Any]:
    references = [{"pluginRef": name, "weight": weight} for name, weight in weights.items()]
    return {
        "apiVersion": LLM_D_API if family in ROUTER else X_K8S_API,
        "kind": "EndpointPickerConfig",
        "plugins": [*plugins, {"type": "max-score-picker"}],
        "schedulingProfiles": [
            {"name": "default", "plugins": [{"pluginRef": "max-score-picker"}, *references]}
        ],
    }


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("strategy", "scorer"),
    [
        ("kv-cache-utilization", "kv-cache-utilization-scorer"),
        ("queue-size", "queue-scorer"),
    ],
)
def test_strategy_with_one_scorer(family: str, strategy: str, scorer: str) -> None:
    assert config(family, strategy) == one_profile(family, [{"type": scorer}], {scorer: 100})


@pytest.mark.parametrize("family", FAMILIES)
def test_prefix_cache_configuration(family: str) -> None:
    want = one_profile(family, [*PREFIX[family], *LOAD], {"prefix-cache-scorer": 3, **LOAD_WEIGHTS})
    assert config(family, "prefix-cache") == want


@pytest.mark.parametrize("family", FAMILIES)
def test_lora_affinity_configuration(family: str) -> None:
    plugins = [*LOAD, {"type": "lora-affinity-scorer"}]
    want = one_profile(family, plugins, {**LOAD_WEIGHTS, "lora-affinity-scorer": 3})
    assert config(family, "lora-affinity") == want


@pytest.mark.parametrize(
    ("strategy", "scorers"),
    [
        ("prefix-cache", {"prefix-cache": 100}),
        ("lora-affinity", {"lora": 100}),
        ("kv-cache-utilization", None),
        ("queue-size", None),
    ],
)
def test_documented_configuration_is_generated(strategy: str, scorers: Any) -> None:
    assert config("gaie-1.2", strategy, scorers=scorers) == yaml.safe_load(document(strategy))


@pytest.mark.parametrize(
    ("family", "block_size", "parameters"),
    [
        # The limit in blocks keeps a reach of 131,072 tokens, of four characters each.
        ("gaie-1.2", 16, prefix_parameters({"blockSize": 256})),
        ("gaie-1.3", 128, prefix_parameters({"blockSize": 512}, 1024)),
        ("gaie-1.4", 16, prefix_parameters({"blockSizeTokens": 64})),
        ("gaie-1.5", 128, prefix_parameters({"blockSizeTokens": 128}, 1024)),
        # It would raise 16 to 64 and warn about it in its log.
        ("llm-d-0.9", 16, {"lruCapacityPerServer": 31250}),
        ("llm-d-0.10", 64, {"blockSizeTokens": 64, "lruCapacityPerServer": 31250}),
        ("llm-d-0.10", 128, {"blockSizeTokens": 128, "lruCapacityPerServer": 31250}),
    ],
)
def test_prefix_blocks_are_the_engines_and_at_least_64_tokens(
    family: str, block_size: int, parameters: dict[str, int]
) -> None:
    first = config(family, "prefix-cache", block_size=block_size)["plugins"][0]
    assert first["parameters"] == parameters


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_combine_scorers_in_a_fixed_order(family: str) -> None:
    scorers = {"lora": 3.0, "queue": 1, "prefix-cache": 2.0, "kv-cache": 1}
    weights = {
        "prefix-cache-scorer": 2,
        "kv-cache-utilization-scorer": 1,
        "queue-scorer": 1,
        "lora-affinity-scorer": 3,
    }
    plugins = PREFIX[family] + [{"type": name} for name in list(weights)[1:]]
    found = config(family, "prefix-cache", scorers=scorers)
    assert found == one_profile(family, plugins, weights)
    written = [plugin.get("weight") for plugin in found["schedulingProfiles"][0]["plugins"]]
    assert [type(weight) for weight in written] == [type(None), int, int, int, int]


def test_load_and_fractions_where_they_are_known() -> None:
    found = config("llm-d-0.10", "queue-size", scorers={"load": 0.5, "running": 1, "queue": 1.5})
    plugins = ["queue-scorer", "load-aware-scorer", "running-requests-size-scorer"]
    weights = dict(zip(plugins, (1.5, 0.5, 1), strict=True))
    assert found == one_profile("llm-d-0.10", [{"type": name} for name in plugins], weights)


def disaggregated(family: str, first: Plugins, decider: Mapping[str, Any]) -> dict[str, Any]:
    def profile(name: str) -> dict[str, Any]:
        weights = {"prefix-cache-scorer": 3, **LOAD_WEIGHTS}
        scored = [{"pluginRef": scorer, "weight": weight} for scorer, weight in weights.items()]
        filtered, picked = {"pluginRef": f"{name}-pods"}, {"pluginRef": "max-score-picker"}
        return {"name": name, "plugins": [filtered, picked, *scored]}

    handler = {"deciders": {"prefill": decider["type"]}}
    return {
        "apiVersion": LLM_D_API if family in ROUTER else X_K8S_API,
        "kind": "EndpointPickerConfig",
        "plugins": [
            *first,
            *PREFIX[family],
            *LOAD,
            {"type": "max-score-picker"},
            decider,
            {"type": "disagg-profile-handler", "parameters": handler},
        ],
        "schedulingProfiles": [profile("prefill"), profile("decode")],
    }


LABEL = "fusioninfer.io/component-type"
SELECTORS: Plugins = [
    {
        "type": "label-selector-filter",
        "name": f"{name}-pods",
        "parameters": {"matchLabels": {LABEL: value}},
    }
    for name, value in (("prefill", "prefiller"), ("decode", "decoder"))
]
ALWAYS = {"type": "always-disagg-pd-decider"}


@pytest.mark.parametrize("family", ROUTER)
def test_disaggregation_configuration(family: str) -> None:
    assert config(family, "pd-disaggregation") == disaggregated(family, SELECTORS, ALWAYS)


@pytest.mark.parametrize(("threshold", "tokens"), [(1, 1), (4, 1), (5, 2), (64, 16), (1000, 250)])
def test_threshold_in_characters_becomes_tokens(threshold: int, tokens: int) -> None:
    decider = {"type": "prefix-based-pd-decider", "parameters": {"nonCachedTokens": tokens}}
    found = config("llm-d-0.10", "pd-disaggregation", threshold=threshold)
    assert found == disaggregated("llm-d-0.10", SELECTORS, decider)


SGLANG = LoadMetrics("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage")


@pytest.mark.parametrize("family", FAMILIES)
def test_metrics_of_another_engine_are_read_by_a_plugin(family: str) -> None:
    found = config(family, "queue-size", engine_metrics=SGLANG)["plugins"]
    extractor = {
        "type": "core-metrics-extractor",
        "parameters": {
            "defaultEngine": "of-the-service",
            "engineConfigs": [
                {
                    "name": "of-the-service",
                    "queuedRequestsSpec": "sglang:num_queue_reqs",
                    "runningRequestsSpec": "sglang:num_running_reqs",
                    "kvUsageSpec": "sglang:token_usage",
                }
            ],
        },
    }
    has_plugin = family in ("gaie-1.5", *ROUTER)
    assert (extractor in found) is has_plugin
    assert len(found) == 2 + has_plugin
    unchanged = config(family, "queue-size", engine_metrics=VLLM_METRICS)
    assert unchanged == config(family, "queue-size")


@pytest.mark.parametrize("family", [name for name, row in FAMILIES.items() if row.flow_control])
def test_flow_control_holds_requests_only_while_no_pod_can_take_them(family: str) -> None:
    """The mean that later releases compare must not be the queue of one pod."""
    found = config(family, "queue-size", flow_control=True)
    thresholds = {"queueDepthThreshold": 1_000_000, "kvCacheUtilThreshold": 0.999}
    detector = {"type": "utilization-detector", "parameters": thresholds}
    assert (detector in found["plugins"]) is (family in ("gaie-1.5", *ROUTER))
    assert found.get("saturationDetector") == (thresholds if family == "gaie-1.4" else None)


def test_text_has_no_anchors() -> None:
    text = dump_epp_config(config("llm-d-0.10", "pd-disaggregation"))
    assert text.startswith("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n")
    assert "&id" not in text
    assert yaml.safe_load(text) == config("llm-d-0.10", "pd-disaggregation")


requests = st.builds(
    EppRequest,
    strategy=st.sampled_from(Strategy),
    scorers=st.none() | st.dictionaries(st.sampled_from(list(SCORERS)), st.integers(1, 9)),
    block_size=st.none() | st.integers(1, 512),
    threshold=st.integers(0, 5000),
)


@given(family=st.sampled_from(list(FAMILIES.values())), request=requests)
def test_every_generated_config_passes_its_own_check(family: Any, request: EppRequest) -> None:
    if errors(check_strategy(family, request)):
        return
    found = build_epp_config(family, request)
    told = check_config(dump_epp_config(found), family)
    assert {finding.rule for finding in told} <= {"scorers-without-load"}
    for profile in found["schedulingProfiles"]:
        unweighted = [plugin for plugin in profile["plugins"] if "weight" not in plugin]
        assert {each["pluginRef"] for each in unweighted} <= {
            "max-score-picker",
            "prefill-pods",
            "decode-pods",
        }


NO_PD = (
    "strategy: pd-disaggregation needs plugins that no gaie-1.2 image has; "
    "use ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"
)


def said(family: str, strategy: str, **request: Any) -> list[str]:
    found = check_strategy(FAMILIES[family], EppRequest(Strategy(strategy), **request))
    return [str(finding) for finding in found]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_the_plain_strategies(family: str) -> None:
    for strategy in PLAIN:
        assert said(family, strategy) == []


@pytest.mark.parametrize("family", ROUTER)
def test_llm_d_disaggregates(family: str) -> None:
    assert said(family, PD) == []


@pytest.mark.parametrize("family", ["gaie-1.2", "gaie-1.3", "gaie-1.4", "gaie-1.5"])
def test_the_inference_extensions_pickers_do_not(family: str) -> None:
    assert said(family, PD) == [NO_PD.replace("gaie-1.2", family)]


@pytest.mark.parametrize(
    ("family", "strategy", "request_", "want"),
    [
        (
            "gaie-1.2",
            "queue-size",
            {"scorers": {"queue": 1, "load": 1}},
            [
                (
                    "scorers.load: gaie-1.2 has no load-aware-scorer; it has prefix-cache, "
                    "kv-cache, queue, lora (queue reads the same metric, waiting requests)"
                ),
            ],
        ),
        (
            "gaie-1.3",
            "queue-size",
            {"scorers": {"queue": 1, "latency": 1}},
            [
                (
                    "scorers.latency: unknown scorer; gaie-1.3 has prefix-cache, kv-cache, queue, "
                    "running, lora"
                ),
            ],
        ),
        (
            "gaie-1.3",
            "queue-size",
            {"scorers": {"queue": 0.5}},
            ["scorers.queue: must be a whole number for gaie-1.3, got 0.5: only ratios matter"],
        ),
        ("gaie-1.4", "queue-size", {"scorers": {"queue": 0.5}}, []),
        *(
            (
                "gaie-1.4",
                "queue-size",
                {"scorers": {"queue": weight}},
                [f"scorers.queue: must be a number above 0, got {written}"],
            )
            for weight, written in [
                (0, "0"),
                (-1, "-1"),
                (float("nan"), "nan"),
                (float("inf"), "inf"),
            ]
        ),
        (
            "gaie-1.2",
            "prefix-cache",
            {"scorers": {"queue": 1}},
            [
                (
                    "scorers: strategy prefix-cache uses scorer prefix-cache, which is not in "
                    '["queue"]; add it, or choose another strategy'
                ),
            ],
        ),
        (
            "gaie-1.2",
            "queue-size",
            {"scorers": {}},
            [
                (
                    "scorers: strategy queue-size uses scorer queue, which is not in []; add it, "
                    "or choose another strategy"
                ),
            ],
        ),
    ],
)
def test_unsupported_request_is_reported(
    family: str, strategy: str, request_: dict[str, Any], want: list[str]
) -> None:
    assert said(family, strategy, **request_) == want


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            EppRequest(Strategy("prefix-cache"), {"prefix-cache": 100}),
            "each request goes to the pod with the highest score: 100 x longest shared prefix",
        ),
        (
            EppRequest(Strategy("kv-cache-utilization")),
            "each request goes to the pod with the highest score: 100 x most free KV cache",
        ),
        (
            EppRequest(Strategy("queue-size")),
            "each request goes to the pod with the highest score: 100 x fewest waiting requests",
        ),
        (
            EppRequest(Strategy("prefix-cache")),
            (
                "each request goes to the pod with the highest score: 3 x longest shared prefix + "
                "2 x most free KV cache + 2 x fewest waiting requests"
            ),
        ),
        (
            EppRequest(Strategy("lora-affinity"), {"lora": 100}),
            "each request goes to the pod with the highest score: 100 x LoRA adapter loaded",
        ),
        (
            EppRequest(Strategy("prefix-cache"), {"queue": 1, "prefix-cache": 2.5}),
            (
                "each request goes to the pod with the highest score: "
                "2.5 x longest shared prefix + 1 x fewest waiting requests"
            ),
        ),
        (
            EppRequest(Strategy(PD)),
            (
                "prefill pods compute prompts, decode pods generate; "
                "both are chosen by the highest score: 3 x longest shared prefix + "
                "2 x most free KV cache + 2 x fewest waiting requests"
            ),
        ),
        (
            EppRequest(Strategy(PD), {"prefix-cache": 2}, threshold=64),
            (
                "prefill pods compute prompts with at least 64 uncached characters, decode pods "
                "generate; both are chosen by the highest score: 2 x longest shared prefix"
            ),
        ),
    ],
)
def test_strategy_is_described(request_: EppRequest, words: str) -> None:
    assert describe_strategy(request_) == words


@pytest.mark.parametrize(
    ("strategy", "scorers", "warns"),
    [
        ("prefix-cache", {"prefix-cache": 100}, True),
        ("prefix-cache", {"prefix-cache": 2, "lora": 1}, True),
        ("lora-affinity", {"lora": 1}, True),
        (PD, {"prefix-cache": 50}, True),
        ("prefix-cache", {"prefix-cache": 3, "queue": 1}, False),
        ("queue-size", {"queue": 1, "prefix-cache": 9}, False),
        ("prefix-cache", None, False),
    ],
)
def test_scorers_that_do_not_see_load(strategy: str, scorers: Any, *, warns: bool) -> None:
    request = EppRequest(Strategy(strategy), scorers)
    rules = [
        (found.rule, found.severity.value)
        for found in check_strategy(FAMILIES["llm-d-0.10"], request)
    ]
    assert rules == ([("scorers-without-load", "warning")] if warns else [])
