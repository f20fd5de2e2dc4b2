"""Metrics that endpoint pickers, autoscalers and pages use, compared with vLLM's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2e.inputs import ROOT
from e2e.serve.engine import RELEASES, VLLM, absent, vllm
from e2e.serve.parsers import ask
from e2e.serve.services import objects_of, role, router, service

pytestmark = [pytest.mark.serve, pytest.mark.long]

NAME = re.compile(r"vllm:[a-z0-9_]+")

OF_PICKERS = (
    "vllm:cache_config_info",
    "vllm:kv_cache_usage_perc",
    "vllm:lora_requests_info",
    "vllm:num_requests_waiting",
)
"""Metrics that endpoint pickers read by default; the oldest gets the second by a flag."""

OF_OTHERS = ("vllm:gpu_cache_usage_perc", "vllm:nixl_bytes_transferred_sum")
"""A default of the oldest endpoint picker, and a metric of engines with NIXL."""

FOLDERS = (
    "fusioninfer_pulumi", "examples", "templates", "docs", "importers/fusioninfer_importers",
    "e2e/serve", "e2e/strategies",
)  # fmt: skip


def find_named_metrics() -> dict[str, str]:
    """Return all metrics in the library, examples and pages, each with a file."""
    metrics = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".json", ".md", ".py", ".yaml") and path != Path(__file__):
                for name in NAME.findall(path.read_text(encoding="utf-8")):
                    metrics[name] = str(path.relative_to(ROOT))
    return metrics


def picker_metrics(release: str) -> set[str]:
    """Return the metrics in the oldest endpoint picker's flags for a release."""
    image = f"vllm/vllm-openai:v{release}"
    objects = objects_of(service("ns", router(), role(image=image)))
    return set(NAME.findall(str(objects)))


@pytest.fixture(scope="module", params=RELEASES)
def registered(request: pytest.FixtureRequest) -> tuple[str, set[str]]:
    reason = absent(request.param)
    if reason is not None:
        pytest.skip(reason)
    return request.param, set(ask(vllm(request.param), []).metrics)


@pytest.mark.proves("vLLM 0.11.0 and 0.32.0 register the metrics that the endpoint picker reads")
def test_engine_has_metrics_of_its_picker(registered: tuple[str, set[str]]) -> None:
    release, metrics = registered
    rendered = picker_metrics(release)
    assert len(rendered) == 1
    by_default = {*OF_PICKERS} - {"vllm:kv_cache_usage_perc"}
    assert rendered | by_default <= metrics


@pytest.mark.proves("vLLM 0.32.0 registers every vLLM metric named in code, examples and pages")
def test_named_metrics_exist(registered: tuple[str, set[str]]) -> None:
    release, metrics = registered
    if release != VLLM:
        pytest.skip("pages are about the newest release")
    names = {name: file for name, file in find_named_metrics().items() if name not in OF_OTHERS}
    assert len(names) >= 5
    assert {name: file for name, file in names.items() if name not in metrics} == {}
