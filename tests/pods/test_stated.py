"""What a service of prefill and decode leaves to be guessed."""

from __future__ import annotations

import samples

from fusioninfer_pulumi.findings import Severity

TOLD = "is not stated: 1 is assumed, and with it the ratio of prefill to decode"


def assumed(manifest: samples.Manifest) -> list[str]:
    return [each for each in samples.said(manifest, Severity.INFO) if "is not stated" in each]


def test_a_share_that_is_not_stated_is_worth_knowing() -> None:
    prefill, decode = samples.role("prefill", "prefiller"), samples.role("decode", "decoder")
    assert assumed(samples.service(prefill, decode)) == [
        f"info: roles[0].replicas: {TOLD}",
        f"info: roles[1].replicas: {TOLD}",
    ]
    assert assumed(samples.service(prefill, {**decode, "replicas": 1})) == [
        f"info: roles[0].replicas: {TOLD}"
    ]


def test_without_a_pair_there_is_no_ratio() -> None:
    assert assumed(samples.service(samples.role("prefill", "prefiller"))) == []
    assert assumed(samples.service()) == []
