"""Weighted rewrites of model names (InferenceModelRewrite)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from e2e.harness import Cluster
from e2e.routers import install_llm_d_kind, picker_versions
from e2e.strategies.fleet import Fleet, PickerClient

REQUESTS = 400


@pytest.fixture(autouse=True, scope="module")
def _install_llm_d_kind(cluster: Cluster) -> Iterator[None]:
    with install_llm_d_kind(cluster):
        yield


def make_rewrites(share: int) -> list[dict[str, Any]]:
    targets = [{"model": "base", "weight": 100 - share}, {"model": "tuned", "weight": share}]
    return [{"models": ["chat"], "targets": targets}]


# Release 1.2.1 does not support rewrites, and the library rejects them.
@picker_versions(
    "Pickers rewrite model names by weight, from 5 % to 100 % and back", "1.5", "llm-d"
)
def test_canary_gets_its_share(fleet: Fleet, version: str) -> None:
    with fleet.run_picker(version, strategy="queue-size", modelRewrites=make_rewrites(5)) as picker:
        fleet.wait_scraped()
        for share in (5, 50, 100, 0):
            # `pulumi up` changes this object without restarting the picker.
            fleet.apply_router(version, strategy="queue-size", modelRewrites=make_rewrites(share))
            fleet.cluster.wait(partial(_is_near_share, picker, share))
            served = count_models(picker, REQUESTS)
            assert abs(served["tuned"] / REQUESTS - share / 100) <= _five_deviations(share), served
            assert served["base"] + served["tuned"] == REQUESTS
            if share in (0, 100):
                assert len(served) == 1, served


def count_models(picker: PickerClient, count: int, requested: str = "chat") -> Counter[str]:
    return Counter(
        json.loads(picker.send_request(model=requested).body)["model"] for _ in range(count)
    )


def _is_near_share(picker: PickerClient, share: int) -> bool:
    served = count_models(picker, 60)
    assert sum(served.values()) == 60
    if share in (0, 100):
        return set(served) == {"tuned" if share else "base"}
    return 0 < served["tuned"] < 60 and abs(served["tuned"] / 60 - share / 100) < 0.25


def _five_deviations(share: int) -> float:
    """Return five standard deviations of the share, exceeded once in two million runs."""
    return 5 * math.sqrt(share / 100 * (1 - share / 100) / REQUESTS)
