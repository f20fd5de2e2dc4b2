"""Inputs that no person writes cost little and crash nothing."""

from __future__ import annotations

import time

import pytest
from samples import container, pod, problems


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (("if true; then ", "; fi"), ("$(", ")"), ('"$(', ')"'))
        ),
    ],
)
def test_shell_text_that_is_nested_deep(opening: str, closing: str) -> None:
    script = opening * 20_000 + "vllm serve m" + closing * 20_000
    begun = time.process_time()
    problems(pod(container(command=["sh", "-c", script], args=None)))
    assert time.process_time() - begun < 5
