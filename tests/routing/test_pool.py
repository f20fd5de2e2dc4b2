"""The InferencePool: its selector, port and failure mode."""

from __future__ import annotations

from typing import Any

import pytest
from routed import LLM_D, only, pair, routed
from rows import each_row
from samples import Manifest, listening, problems, role

SERVICE, TYPE = "fusioninfer.io/service", "fusioninfer.io/component-type"
LEADERS = {SERVICE: "svc", "leaderworkerset.sigs.k8s.io/worker-index": "0"}

TWO_PROFILES = """
plugins:
- {type: decode-filter}
- {type: prefill-filter}
- {type: always-disagg-pd-decider}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}]}
- {name: decode, plugins: [{pluginRef: decode-filter}]}
"""
ONE_PROFILE = """
plugins: [{type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: 1}]}]
"""


def pool(manifest: Manifest) -> Any:
    return only(manifest, "InferencePool")["spec"]


SELECTORS: dict[str, tuple[Manifest, dict[str, str]]] = {
    "workers": (routed(), {TYPE: "worker"}),
    "workers over several nodes": (
        routed(role(multinode={"nodeCount": 2})), {TYPE: "worker"},
    ),
    "several roles of one type": (routed(role("a"), role("b")), {TYPE: "worker"}),
    "a decoder and a worker": (routed(role("a", "decoder"), role("b")), {}),
    "a prefiller alone": (routed(role("a", "prefiller")), {TYPE: "prefiller"}),
    "a prefiller and a worker": (routed(role("a", "prefiller"), role("b")), {TYPE: "worker"}),
    "prefill and decode, paired": (pair(strategy="pd-disaggregation"), {}),
    "prefill and decode, not paired": (pair(strategy="queue-size"), {TYPE: "decoder"}),
    "prefill, decode and workers, not paired": (
        pair(role("w"), strategy="queue-size"), {TYPE: "decoder"},
    ),
    "a configuration with a profile for each": (
        pair(endpointPickerConfig=TWO_PROFILES, endpointPicker={"image": LLM_D}), {},
    ),
    "a configuration with one profile": (
        pair(endpointPickerConfig=ONE_PROFILE), {TYPE: "decoder"},
    ),
}  # fmt: skip


@each_row("case", SELECTORS)
def test_selector_matches_serving_pods(case: str) -> None:
    manifest, also = SELECTORS[case]
    assert pool(manifest)["selector"] == {"matchLabels": {**LEADERS, **also}}


def test_ports_of_roles_outside_the_pool_are_ignored() -> None:
    manifest = routed(listening("a", 9000, "prefiller"), listening("b", 8080))
    assert pool(manifest)["targetPorts"] == [{"number": 8080}]


def test_invalid_role_is_not_reported_as_missing() -> None:
    manifest = pair(strategy="pd-disaggregation")
    manifest["spec"]["roles"][2]["componentType"] = "decode"
    assert problems(manifest) == [
        (
            "roles[2].componentType: must be one of router, prefiller, decoder, worker, got "
            '"decode"; did you mean decoder?'
        )
    ]


@pytest.mark.parametrize("mode", [None, "FailOpen", "FailClose"])
def test_failure_mode_is_in_the_pool(mode: str | None) -> None:
    manifest = routed(endpointPicker={} if mode is None else {"failureMode": mode})
    assert pool(manifest)["endpointPickerRef"]["failureMode"] == (mode or "FailOpen")
