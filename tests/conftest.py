"""Fixtures of all fast tests: Hypothesis profiles, golden files, real Outputs."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import profiles
import pulumi
import pytest
import yaml
import yaml_files

profiles.load()

FIXTURES = Path(__file__).parent / "fixtures"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate", action="store_true", help="write golden files instead of comparing them"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--regenerate") and os.environ.get("CI"):
        raise pytest.UsageError("--regenerate would make every golden test pass: not in CI")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run only the tests that write a golden file if `--regenerate` is set."""
    if not config.getoption("--regenerate"):
        return
    writers = [item for item in items if "regenerate" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in writers])
    items[:] = writers


def pytest_collection() -> None:
    """Disable the garbage collector during collection, whose objects live until the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Load once what many tests need, and exclude it from garbage collection."""
    # Programs run in forks of this process, and the import would take 0.2 s in each.
    for module in ("core", "meta"):
        importlib.import_module(f"pulumi_kubernetes.{module}.v1")
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_runtest_setup() -> None:
    """Let tests that need an event loop but create none fail, whatever ran before."""
    asyncio.set_event_loop(None)


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    """Whether a test writes its golden file instead of comparing it."""
    return bool(request.config.getoption("--regenerate"))


@pytest.fixture
def golden(regenerate: bool) -> Callable[[str, Sequence[dict[str, Any]]], None]:
    """Compare objects with `fixtures/golden/NAME.yaml` as a whole."""

    def compare(name: str, objects: Sequence[dict[str, Any]]) -> None:
        path = FIXTURES / "golden" / f"{name}.yaml"
        if regenerate:
            text = yaml.dump_all(
                objects, Dumper=yaml_files.Dumper, sort_keys=False, allow_unicode=True, width=100
            )
            path.write_text(text, encoding="utf-8")
        assert list(objects) == yaml_files.load_documents(path)

    return compare


@pytest.fixture
def output() -> Iterator[Callable[[Any], Any]]:
    """Create real Pulumi Outputs in the test's own event loop."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    result: list[Any] = []

    def make(value: Any, *, secret: bool = False) -> Any:
        result.append(pulumi.Output.secret(value) if secret else pulumi.Output.from_input(value))
        return result[-1]

    yield make
    for item in result:
        loop.run_until_complete(item.future())
    while pending := asyncio.all_tasks(loop):
        loop.run_until_complete(asyncio.gather(*pending))
    asyncio.set_event_loop(None)
    loop.close()
