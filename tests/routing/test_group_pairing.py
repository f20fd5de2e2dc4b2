"""The picker of a service with groups: prefill and decode of one request stay in one group."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from routed import pair
from samples import (
    Manifest,
    problems,
    rendered,
)


def config(manifest: Manifest) -> dict[str, Any]:
    (found,) = [each for each in rendered(manifest) if each["kind"] == "ConfigMap"]
    read: dict[str, Any] = yaml.safe_load(found["data"]["config.yaml"])
    return read


def arguments(manifest: Manifest) -> list[str]:
    (found,) = [each for each in rendered(manifest) if each["kind"] == "Deployment"]
    listed: list[str] = found["spec"]["template"]["spec"]["containers"][0]["args"]
    return listed


def paired(groups: int | None = 2, **router: Any) -> Manifest:
    made = pair(**router)
    if groups is not None:
        made["spec"]["groups"] = groups
    return made


EXPERIMENTAL = "--allow-experimental-plugins=true"


def test_picker_pairs_within_a_group() -> None:
    found, plain = config(paired()), config(paired(None))
    screener = {
        "type": "disaggregatedset-rollout-screener",
        "parameters": {
            "scope": {
                "labelSelector": "fusioninfer.io/service=svc,"
                "leaderworkerset.sigs.k8s.io/worker-index=0"
            },
            "revisionGating": {
                "mode": "sum",
                "revisionLabelKey": "fusioninfer.io/group-index",
                "roleLabelKey": "fusioninfer.io/component-type",
                "requireRoles": {"values": ["prefiller", "decoder"]},
            },
        },
    }
    assert found == {**plain, "plugins": [screener, *plain["plugins"]]}
    assert EXPERIMENTAL in arguments(paired())
    assert EXPERIMENTAL not in arguments(paired(None))


def test_one_group_has_the_picker_of_several() -> None:
    assert config(paired(1)) == config(paired(3))


def test_preferred_looks_for_the_decode_pod_in_all_groups() -> None:
    preferred = paired(endpointPicker={"groupPairing": "Preferred"})
    found, plain = config(preferred), config(paired(None))
    added = [plugin for plugin in found["plugins"] if plugin not in plain["plugins"]]
    assert added == [
        {"type": "topology-extractor", "parameters": {"hostname": "fusioninfer.io/group-index"}},
        {
            "type": "topology-affinity-filter",
            "name": "prefill-pods-of-the-group",
            "parameters": {"minAffinity": "host"},
        },
    ]
    prefill, decode = (
        [plugin["pluginRef"] for plugin in profile["plugins"]]
        for profile in found["schedulingProfiles"]
    )
    assert prefill[:2] == ["prefill-pods", "prefill-pods-of-the-group"]
    assert "prefill-pods-of-the-group" not in decode
    assert EXPERIMENTAL in arguments(preferred)


def test_picker_without_support_is_rejected() -> None:
    old = {"image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"}
    assert problems(paired(None, endpointPicker=old)) == []
    (found,) = problems(paired(endpointPicker=old))
    assert found == (
        "roles[0].endpointPicker.image: llm-d-0.9 cannot keep prefill and decode of a request in "
        "one group; use ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"
    )


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (paired(None, endpointPicker={"groupPairing": "Strict"}), "the service has no groups"),
        (
            paired(strategy="queue-size", endpointPicker={"groupPairing": "Strict"}),
            "the strategy is queue-size, which pairs nothing",
        ),
    ],
)
def test_pairing_without_effect_is_rejected(manifest: Manifest, why: str) -> None:
    assert problems(manifest) == [
        f"roles[0].endpointPicker.groupPairing: has no effect: {why}; remove it"
    ]
