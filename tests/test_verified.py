"""Which runs of the end-to-end tests docs/verified.md may be held against, and what they say."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2e import report

HERE = Path(report.__file__).parent
ENGINE = HERE / "engine" / "test_rollout.py"
TEXT = "a claim of the engine"


def whole_run(
    document: Path,
    outcome: str,
    *,
    needs: str | None,
    writes: bool = False,
    cache: Any = None,
    code: str = "this",
    found: dict[str, str] | None = None,
) -> tuple[report.Report, Any]:
    """A run of every file in which one test claims something and ends in some way."""
    config: Any = SimpleNamespace(
        args=["e2e"],
        option=SimpleNamespace(collectonly=False),
        cache=cache,
        getoption=lambda name: writes and name == "--write-verified",
    )
    marker = pytest.mark.proves(TEXT, **({"needs": needs} if needs else {})).mark

    def item(path: Path, mark: Any) -> Any:
        node = f"{path.relative_to(HERE.parent)}::test_it"
        closest = {"proves": mark}.get
        return SimpleNamespace(path=path, nodeid=node, get_closest_marker=closest)

    others = sorted(set(HERE.rglob("test_*.py")) - {ENGINE})
    items = [item(ENGINE, marker), *(item(path, None) for path in others)]
    session: Any = SimpleNamespace(items=items, testsfailed=0, shouldstop=False, exitstatus=0)
    watched = report.Report(config)
    watched.pytest_collection_modifyitems(items)
    watched.pytest_collection_finish(session)
    when = "call" if outcome == "passed" else "setup"
    ended: Any = SimpleNamespace(nodeid=items[0].nodeid, when=when, outcome=outcome)
    watched.pytest_runtest_logreport(ended)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "DOCUMENT", document)
        patch.setattr(report, "code_digest", lambda: code)
        patch.setattr(report.versions, "found", lambda: found or {})
        watched.pytest_sessionfinish(session)
    return watched, session


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """The document that a run with the engine wrote."""
    path = tmp_path / "verified.md"
    whole_run(path, "passed", needs="the engine is there", writes=True)
    assert f"{TEXT} (only where the engine is there, else skipped)" in path.read_text()
    return path


def test_a_run_without_the_engine_does_not_fail(document: Path) -> None:
    watched, session = whole_run(document, "skipped", needs="the engine is there")
    assert watched.problems == []
    assert session.exitstatus == 0
    lines: list[str] = []
    terminal: Any = SimpleNamespace(write_line=lambda line, **_: lines.append(line))
    watched.pytest_terminal_summary(terminal)
    assert lines == ["claims of docs/verified.md: 1 skipped"]


def test_what_needs_nothing_may_not_be_skipped(document: Path) -> None:
    watched, session = whole_run(document, "skipped", needs=None)
    assert f"claimed, but not proved in this run: {TEXT}" in watched.problems
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED


class Cache(dict[str, Any]):
    """pytest's cache."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


def test_versions_that_did_not_run_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "v.md"
    stated = {name: version for name, version, _ in report.BESIDE}
    other = {**stated, report.versions.PROVIDER: "4.34.2"}
    watched, _ = whole_run(path, "passed", needs="the engine", writes=True, found=other)
    told = f"{report.versions.PROVIDER} 4.34.2 is here, and the document would say 4.29.0"
    assert watched.problems == [f"{told}: change BESIDE"]
    assert not path.exists()
    whole_run(path, "passed", needs="the engine", writes=True, found=stated)
    assert path.exists()


def test_what_says_its_version_is_in_the_document() -> None:
    asked = {report.versions.CLI, report.versions.PROVIDER, *report.versions.PACKAGES}
    assert asked < {name for name, *_ in report.BESIDE}


def test_what_was_skipped_is_not_written(tmp_path: Path) -> None:
    watched, session = whole_run(tmp_path / "v.md", "skipped", needs="the engine", writes=True)
    assert watched.problems == [f"not proved yet with this code: {TEXT}"]
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED
    assert not (tmp_path / "v.md").exists()


def test_what_an_earlier_run_of_the_same_code_proved_counts(tmp_path: Path) -> None:
    path, cache = tmp_path / "v.md", Cache()
    whole_run(path, "passed", needs="the engine", writes=True, cache=cache)
    path.unlink()
    for code, written in (("another", False), ("this", False)):
        # The first run of other code forgets what was proved.
        whole_run(path, "skipped", needs="the engine", writes=True, cache=cache, code=code)
        assert path.exists() is written
    whole_run(path, "passed", needs="the engine", writes=True, cache=cache)
    path.unlink()
    whole_run(path, "skipped", needs="the engine", writes=True, cache=cache)
    assert path.exists()


@pytest.mark.parametrize(
    "path", sorted(ENGINE.parent.glob("test_*.py")), ids=lambda path: path.stem
)
def test_claims_of_the_engine_say_what_they_need(path: Path) -> None:
    calls = [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)]
    claims = [each for each in calls if ast.unparse(each.func) == "pytest.mark.proves"]
    assert claims
    for each in claims:
        assert [word.arg for word in each.keywords] == ["needs"], ast.unparse(each)
