"""Stacks on the real Pulumi engine. Without it, all tests here are skipped, with a notice."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.project import list_missing_programs
from e2e.engine.services import Stack
from e2e.harness import Cluster
from e2e.harness.processes import find_ports

_counter = itertools.count(1)
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the Pulumi engine, and skip them if it is not installed."""
    missing = list_missing_programs()
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker("engine")
        if missing and _HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=f"not on PATH: {', '.join(missing)}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if list_missing_programs():
        terminalreporter.write_sep("!", "TESTS OF THE PULUMI ENGINE WERE SKIPPED", red=True)
        terminalreporter.write_line(f"not on PATH: {', '.join(list_missing_programs())}")


@pytest.fixture
def project(cluster: Cluster, namespace: str, tmp_path: Path) -> Callable[..., Stack]:
    """Return a function that creates stacks in the test's namespace."""

    def make(name: str = "app", **more: Any) -> Stack:
        return Stack(tmp_path / f"{name}{next(_counter)}", cluster, namespace, **more)

    return make


@pytest.fixture
def stack(project: Callable[..., Stack]) -> Stack:
    return project()


@pytest.fixture
def other_namespace(stack: Stack) -> Iterator[str]:
    """Return a second namespace; destroy the stack and delete the namespace afterwards."""
    name = stack.cluster.new_namespace()
    yield name
    stack.down()
    stack.cluster.delete_namespace(name)


@pytest.fixture
def port() -> int:
    """Return a free port, for engines that have their own addresses."""
    (port,) = find_ports(1)
    return port
