"""A cluster with a real node for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.serve import sandbox
from e2e.serve.serving import Serving, start_serving

_HERE = Path(__file__).parent
_REASON = "runs real engines: make e2e-serve"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a real node, except in a sandbox."""
    for item in items:
        is_ours = _HERE in item.path.parents and item.get_closest_marker("serve") is not None
        if is_ours and not sandbox.is_inside():
            item.add_marker(pytest.mark.skip(reason=_REASON))


@pytest.fixture(scope="session")
def running() -> Iterator[Serving]:
    with start_serving() as started:
        yield started


@pytest.fixture(scope="module")
def namespace(running: Serving) -> Iterator[str]:
    """Return the namespace of a module's pods."""
    name = running.cluster.new_namespace()
    yield name
    running.cluster.delete_namespace(name)
