"""Inputs that no person writes cost little and crash nothing."""

from __future__ import annotations

import time

import pytest
from samples import container, pod, problems


def test_resource_whose_name_is_a_number() -> None:
    given = {**container(), "resources": {"limits": {"1": "all"}}}
    (told,) = problems(pod(given))
    assert told.partition(": ")[0] == "roles[0].template.spec.containers[0].resources.limits.1"
    assert told.endswith('got "all"')


@pytest.mark.parametrize("text", ['{"a":' * 1_000 + "1" + "}" * 1_000, "[" * 100_000])
def test_json_that_is_nested_deep(text: str) -> None:
    problems(pod(container(args=["--model", "m", "--kv-transfer-config", text])))


@pytest.mark.parametrize(
    ("opening", "closing"), [("if true; then ", "; fi"), ("(", ")"), ("$(", ")"), ('"$(', ')"')]
)
def test_shell_text_that_is_nested_deep(opening: str, closing: str) -> None:
    script = opening * 20_000 + "vllm serve m" + closing * 20_000
    begun = time.process_time()
    problems(pod(container(command=["sh", "-c", script], args=None)))
    assert time.process_time() - begun < 5
