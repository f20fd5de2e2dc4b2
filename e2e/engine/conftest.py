"""Stacks on the real Pulumi engine. Without it, all tests here are skipped, with a notice."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.project import missing
from e2e.engine.services import Stack
from e2e.harness import Cluster
from e2e.harness.processes import free_ports

_counter = itertools.count(1)
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the Pulumi engine, and skip them if it is not installed."""
    absent = missing()
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker("engine")
        if absent and _HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=f"not on PATH: {', '.join(absent)}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report that the tests of the Pulumi engine were skipped."""
    if missing():
        terminalreporter.write_sep("!", "NOTHING WAS PROVED ON THE PULUMI ENGINE", red=True)
        terminalreporter.write_line(f"not on PATH: {', '.join(missing())}")


@pytest.fixture
def project(cluster: Cluster, namespace: str, tmp_path: Path) -> Callable[..., Stack]:
    """Return a function that creates stacks in the test's namespace."""

    def make(name: str = "app", **more: Any) -> Stack:
        return Stack(tmp_path / f"{name}{next(_counter)}", cluster, namespace, **more)

    return make


@pytest.fixture
def stack(project: Callable[..., Stack]) -> Stack:
    """Return an empty stack whose services run in the test's namespace."""
    return project()


@pytest.fixture
def elsewhere(stack: Stack) -> Iterator[str]:
    """Return a second namespace; destroy the stack and delete the namespace afterwards."""
    name = stack.cluster.new_namespace()
    yield name
    stack.down()
    stack.cluster.delete_namespace(name)


@pytest.fixture
def port() -> int:
    """Return a free port, for engines that have their own addresses."""
    (port,) = free_ports(1)
    return port
