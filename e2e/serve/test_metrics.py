"""Metrics that endpoint pickers read, compared with vLLM's."""

from __future__ import annotations

import re

import pytest

from e2e.serve.engine import NIXL_RELEASES, RELEASES, explain_missing, vllm
from e2e.serve.parsers import run_parsers
from e2e.serve.services import render_objects, role, router, service
from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES
from fusioninfer_pulumi.engines.metric_names import has_metric, strip_suffix

pytestmark = [pytest.mark.serve, pytest.mark.long]

TESTED = sorted({*RELEASES, *NIXL_RELEASES})
NAME = re.compile(r"vllm:[a-z0-9_]+")

BY_DEFAULT = {"vllm:cache_config_info", "vllm:lora_requests_info", "vllm:num_requests_waiting"}
"""Metrics that endpoint pickers read without a flag."""


@pytest.mark.verifies(
    "vLLM registers the metrics that endpoint pickers read; `diff` predicts which names a release "
    f"lacks: {', '.join(TESTED)}"
)
@pytest.mark.parametrize("release", TESTED)
def test_engine_has_metrics_of_its_picker(release: str) -> None:
    reason = explain_missing(release)
    if reason is not None:
        pytest.skip(reason)
    objects = render_objects(service("ns", router(), role(image=f"vllm/vllm-openai:v{release}")))
    # One metric's name is in a flag for the oldest endpoint picker.
    by_flag = set(NAME.findall(str(objects)))
    assert len(by_flag) == 1
    registered = {strip_suffix(name) for name in run_parsers(vllm(release), []).metrics}
    assert by_flag | BY_DEFAULT <= registered
    for family in FAMILIES.values():
        for name in family.engine_metrics:
            assert has_metric(name, "vllm", release) == (strip_suffix(name) in registered), name
