"""Extreme inputs are parsed quickly and without crashes."""

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
def test_deeply_nested_shell_text_is_parsed(opening: str, closing: str) -> None:
    script = opening * 20_000 + "vllm serve m" + closing * 20_000
    started = time.process_time()
    problems(pod(container(command=["sh", "-c", script], args=None)))
    assert time.process_time() - started < 5
