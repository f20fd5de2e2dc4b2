"""Which pods the pool holds, on which port, and what the gateway does without the picker."""

from __future__ import annotations

from typing import Any

import pytest
from routed import LLM_D, only, pair, routed
from samples import Manifest, container, listening, problems, role, template, warnings

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


@pytest.mark.parametrize("case", SELECTORS)
def test_selector_matches_serving_pods(case: str) -> None:
    manifest, also = SELECTORS[case]
    assert pool(manifest)["selector"] == {"matchLabels": {**LEADERS, **also}}


WARNED: dict[str, tuple[Manifest, list[str]]] = {
    "strategies that do not pair": (
        pair(role("w"), strategy="queue-size"),
        [
            (
                "warning: roles[0].strategy: requests go to decode only, prefill (prefiller), w "
                "(worker) gets none: choose pd-disaggregation to pair prefill with decode"
            )
        ],
    ),
    "a configuration that does not pair": (
        pair(endpointPickerConfig=ONE_PROFILE),
        [
            (
                "warning: roles[0].endpointPickerConfig: requests go to decode only, prefill "
                "(prefiller) gets none: choose pd-disaggregation to pair prefill with decode"
            )
        ],
    ),
    "a prefiller beside workers": (
        routed(role("a", "prefiller"), role("b")),
        [
            (
                "warning: roles[0].strategy: requests go to b only, a (prefiller) gets none: a "
                "prefill pod answers with one token only"
            )
        ],
    ),
    "workers beside a pair": (
        pair(role("w"), strategy="pd-disaggregation"),
        [
            (
                "warning: roles[0].strategy: requests go to prefillers and decoders only, w "
                "(worker) gets none"
            )
        ],
    ),
    "an engine with TLS of its own": (
        routed(
            role(
                template=template(
                    container(args=["--model", "m", "--ssl-certfile=/c", "--ssl-keyfile=/k"])
                )
            )
        ),
        [
            (
                "warning: roles[1]: serves HTTPS, but gateway and endpoint picker send plain HTTP "
                "to pods of a pool; end TLS at the Gateway"
            )
        ],
    ),
}


@pytest.mark.parametrize("case", WARNED)
def test_pods_that_get_no_requests_are_a_warning(case: str) -> None:
    manifest, expected = WARNED[case]
    ours = [line for line in warnings(manifest) if "serves HTTPS" in line or "requests go" in line]
    assert ours == expected


REFUSED: dict[str, tuple[Manifest, list[str]]] = {
    "pairing without a prefiller": (
        routed(role("a", "decoder"), strategy="pd-disaggregation"),
        [
            (
                "roles[0].strategy: pd-disaggregation requires a prefiller and a decoder; there "
                "is no "
                "prefiller"
            )
        ],
    ),
    "pairing without both": (
        routed(strategy="pd-disaggregation"),
        [
            (
                "roles[0].strategy: pd-disaggregation requires a prefiller and a decoder; there "
                "is no "
                "prefiller and no decoder"
            )
        ],
    ),
    "different ports": (
        routed(role("a", port=8000), listening("b", 8080)),
        [
            (
                "roles[0]: pods of a pool must serve on one port, got a "
                "8000, b 8080; give the roles one port"
            )
        ],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_pool_that_cannot_serve_is_rejected(case: str) -> None:
    manifest, expected = REFUSED[case]
    assert problems(manifest) == expected


def test_ports_of_roles_outside_of_the_pool_do_not_matter() -> None:
    manifest = routed(listening("a", 9000, "prefiller"), listening("b", 8080))
    assert pool(manifest)["targetPorts"] == [{"number": 8080}]


def test_role_that_could_not_be_read_is_not_missed() -> None:
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
