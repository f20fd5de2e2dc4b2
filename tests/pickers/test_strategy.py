"""What a picker can do, and what it does in words."""

from typing import Any

import pytest

from fusioninfer_pulumi.pickers import (
    FAMILIES,
    STRATEGIES,
    PickerRequest,
    PrefillDecode,
    check_strategy,
    strategy_in_words,
)

PD = "pd-disaggregation"
ALL = ", ".join(STRATEGIES)
ABLE = ", ".join(
    [
        "ghcr.io/llm-d/llm-d-inference-scheduler:v0.7.1",
        "ghcr.io/llm-d/llm-d-inference-scheduler:v0.8.0",
        "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0",
        "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0",
    ]
)
NO_PD = (
    "strategy: pd-disaggregation needs plugins that no gaie-1.2 image has; "
    f"images that have them: {ABLE}"
)


def said(family: str, strategy: str, **request: Any) -> list[str]:
    found = check_strategy(FAMILIES[family], PickerRequest(strategy, **request))
    return [str(finding) for finding in found]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_the_plain_strategies(family: str) -> None:
    for strategy in STRATEGIES:
        if strategy != PD:
            assert said(family, strategy) == []


@pytest.mark.parametrize("family", ["llm-d-0.7", "llm-d-0.8", "llm-d-0.9", "llm-d-0.10"])
def test_llm_d_disaggregates(family: str) -> None:
    assert said(family, PD) == []


@pytest.mark.parametrize("family", ["gaie-1.2", "gaie-1.3", "gaie-1.4", "gaie-1.5"])
def test_the_inference_extensions_pickers_do_not(family: str) -> None:
    assert said(family, PD) == [NO_PD.replace("gaie-1.2", family)]


@pytest.mark.parametrize(
    ("family", "strategy", "request_", "want"),
    [
        ("gaie-1.2", "round-robin", {}, [f'strategy: must be one of {ALL}, got "round-robin"']),
        (
            "llm-d-0.10",
            PD,
            {"prefill_decode": PrefillDecode(-1)},
            ["threshold: must be at least 0 characters, got -1"],
        ),
        (
            "llm-d-0.7",
            PD,
            {"prefill_decode": PrefillDecode(64)},
            [
                "threshold: must be 0 for llm-d-0.7, got 64: it can only disaggregate every "
                "prompt; images that can decide by length: "
                + ABLE.removeprefix("ghcr.io/llm-d/llm-d-inference-scheduler:v0.7.1, "),
            ],
        ),
        ("gaie-1.2", "queue-size", {"block_size": 0}, ["blockSize: must be at least 1, got 0"]),
        (
            "gaie-1.2",
            "queue-size",
            {"scorers": {"queue": 1, "load": 1}},
            [
                (
                    "scorers.load: gaie-1.2 has no load-aware-scorer; it has prefix-cache, "
                    "kv-cache, queue, lora (queue reads the same metric, the requests that wait)"
                ),
            ],
        ),
        (
            "gaie-1.3",
            "queue-size",
            {"scorers": {"queue": 1, "latency": 1}},
            [
                (
                    "scorers.latency: no such scorer; gaie-1.3 has prefix-cache, kv-cache, queue, "
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
                (True, "true"),
                ("1", '"1"'),
            ]
        ),
        (
            "gaie-1.2",
            "prefix-cache",
            {"scorers": {"queue": 1}},
            [
                (
                    "scorers: strategy prefix-cache scores by prefix-cache, which is not among "
                    '["queue"]: add it, or choose another strategy'
                ),
            ],
        ),
        (
            "gaie-1.2",
            "queue-size",
            {"scorers": {}},
            [
                (
                    "scorers: strategy queue-size scores by queue, which is not among []: "
                    "add it, or choose another strategy"
                ),
            ],
        ),
    ],
)
def test_what_speaks_against_a_request(
    family: str, strategy: str, request_: dict[str, Any], want: list[str]
) -> None:
    assert said(family, strategy, **request_) == want


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            PickerRequest("prefix-cache"),
            "requests with the longest shared prefix go to the same pod",
        ),
        (
            PickerRequest("kv-cache-utilization"),
            "each request goes to the pod with the most free KV cache",
        ),
        (
            PickerRequest("queue-size"),
            "each request goes to the pod with the fewest waiting requests",
        ),
        (
            PickerRequest("lora-affinity"),
            "each request goes to a pod that has its LoRA adapter loaded",
        ),
        (
            PickerRequest("prefix-cache", {"queue": 1, "prefix-cache": 2.5}),
            (
                "each request goes to the pod with the highest score: "
                "2.5 x longest shared prefix + 1 x fewest waiting requests"
            ),
        ),
        (
            PickerRequest(PD),
            (
                "each request goes to a decode pod, and every prompt is computed by a prefill pod "
                "first; both are chosen by the longest shared prefix"
            ),
        ),
        (
            PickerRequest(PD, {"prefix-cache": 2}, prefill_decode=PrefillDecode(64)),
            (
                "each request goes to a decode pod, and prompts with at least 64 characters that "
                "are not cached there are computed by a prefill pod first; "
                "both are chosen by score: 2 x longest shared prefix"
            ),
        ),
    ],
)
def test_in_words(request_: PickerRequest, words: str) -> None:
    assert strategy_in_words(request_) == words
