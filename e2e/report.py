"""Write `docs/verified.md` from the claims of the end-to-end tests, and compare it with them.

The marker `verifies` has a test's claim. A complete run fails if the page and the markers differ,
or if the test of a claim did not pass. `--write-verified` writes the page from the markers; with
`--collect-only` it needs no cluster. With `-n` (pytest-xdist) the workers collect the claims, and
the main process the outcomes.
"""

from __future__ import annotations

import importlib.metadata
import pickle
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.catalog import TOOLS
from e2e.inputs import ROOT

PAGE = ROOT / "docs" / "verified.md"
PAGE_TEMPLATE = Path(__file__).with_name("verified_page.md")

CLI = "Pulumi CLI and Python language host"
PACKAGES = {
    "Pulumi SDK for Python": "pulumi",
    "Pulumi Kubernetes SDK for Python": "pulumi-kubernetes",
}

OTHER_COMPONENTS = (
    (CLI, "3.246.0", "on PATH, else skipped"),
    ("Pulumi SDK for Python", "3.272.0", "PyPI"),
    ("Pulumi Kubernetes SDK for Python", "4.34.2", "PyPI"),
    ("Pulumi Kubernetes provider", "4.29.0", "on PATH, else skipped"),
    ("llm-d endpoint picker and sidecar", "0.10.0", "on PATH, else skipped"),
)
"""Components that no Go module here builds; a complete run checks the versions they report."""

_CLUSTER = "Kubernetes {kubernetes}, LeaderWorkerSet {lws}, Volcano {volcano}"
RUNS_ON = {
    "engine": f"Pulumi CLI {OTHER_COMPONENTS[0][1]}, {_CLUSTER}",
    "serve": "vLLM 0.32.0, Envoy and kubelet on Kubernetes {kubernetes}",
    "strategies": "Endpoint pickers {epp12}, {epp15} and llm-d 0.10.0",
    "": _CLUSTER,
}
"""Folder of a test -> the components that its tests run on."""

_SHARED = "verified"
"""Key of the claims in a worker's output."""


@dataclass
class Claim:
    """One row of the page.

    Attributes:
        text: The claim.
        file: Test file.
        test: Test function.
        by_hand: Whether CI skips it.
        optional: Whether its tests are skipped if programs are missing.
        cases: Node ids of its tests.
    """

    text: str
    file: Path
    test: str
    by_hand: bool
    optional: bool
    cases: set[str] = field(default_factory=set)


class Report:
    """Plugin that records which claims pass in this run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.claims: dict[tuple[Path, str], Claim] = {}
        self.outcomes: dict[str, str] = {}
        self.selected: set[str] = set()
        self.problems: list[str] = []
        self.is_complete = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            marker = item.get_closest_marker("verifies")
            if marker is None:
                continue
            (text,) = marker.args
            test = item.nodeid.split("::")[1].partition("[")[0]
            # By folder, because conftest.py adds the marker `engine` later.
            names = {mark.name for mark in item.iter_markers()} | set(
                item.path.relative_to(ROOT).parts
            )
            is_core = "engine" not in names or "core" in names
            by_hand = bool({"long", "upstream"} & names) or not is_core
            optional = bool({"engine", "long", "serve"} & names or marker.kwargs.get("needs"))
            claim = self.claims.setdefault(
                (item.path, text), Claim(text, item.path, test, by_hand, optional)
            )
            claim.cases.add(item.nodeid)
        files = set(Path(__file__).parent.rglob("test_*.py"))
        has_test_names = any("::" in argument for argument in self.config.args)
        self.is_complete = files <= {item.path for item in items} and not has_test_names

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.selected = {item.nodeid for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = report.outcome

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Read the claims of a worker; each worker collects all tests."""
        output = getattr(node, "workeroutput", {})
        if _SHARED in output:
            self.claims, self.selected, self.is_complete = pickle.loads(output[_SHARED])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workeroutput"):
            shared = pickle.dumps((self.claims, self.selected, self.is_complete))
            self.config.workeroutput[_SHARED] = shared
        elif self.config.getoption("--write-verified"):
            if not self.is_complete:
                raise pytest.UsageError("not all files were collected: select tests with -m and -k")
            PAGE.write_text(render_page(list(self.claims.values())), encoding="utf-8")
        elif self.is_complete and not (
            self.config.option.collectonly or session.testsfailed or session.shouldstop
        ):
            self._find_problems()
        if self.problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _find_problems(self) -> None:
        """Report claims that did not pass, other versions, and differences of the page."""
        unverified = [c.text for c in self.claims.values() if self._get_state(c) == "not verified"]
        self.problems += [f"claimed, but not verified in this run: {text}" for text in unverified]
        installed = read_installed_versions()
        self.problems += [
            f"{name} {installed[name]} is installed, OTHER_COMPONENTS has {listed}; update it"
            for name, listed, _ in OTHER_COMPONENTS
            if installed.get(name, listed) != listed
        ]
        if render_page(list(self.claims.values())) != PAGE.read_text(encoding="utf-8"):
            self.problems.append(
                "docs/verified.md differs from the tests; regenerate it with "
                "python -m pytest e2e --collect-only --write-verified"
            )

    def _get_state(self, claim: Claim) -> str:
        if not claim.cases & self.selected:
            return "deselected"
        outcomes = {self.outcomes.get(case) for case in claim.cases & self.selected}
        if outcomes == {"passed"}:
            return "verified"
        return "skipped" if claim.optional and outcomes <= {"passed", "skipped"} else "not verified"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = Counter(self._get_state(claim) for claim in self.claims.values())
        summary = ", ".join(f"{count} {state}" for state, count in counts.most_common())
        terminalreporter.write_line(f"claims of docs/verified.md: {summary or 'none'}")
        for problem in self.problems:
            terminalreporter.write_line(problem, red=True)


def render_page(claims: list[Claim]) -> str:
    rows = [
        f"| {tool.title or tool.name} | {tool.version} | `{tool.source}` |"
        for tool in TOOLS
        if not tool.optional
    ]
    rows += [f"| {name} | {version} | {source} |" for name, version, source in OTHER_COMPONENTS]
    releases = {re.sub(r"-0\.9$|[-.]", "", tool.name): tool.version for tool in TOOLS}
    claims = sorted(claims, key=lambda claim: claim.file)
    tables = []
    for folder, title in RUNS_ON.items():
        head = f"## {title.format(**releases)}\n\n| Claim | Test |\n|---|---|"
        listed = [_format_row(claim) for claim in claims if _get_folder(claim) == folder]
        tables.append("\n".join([head, *listed]))
    page = PAGE_TEMPLATE.read_text(encoding="utf-8")
    return page.format(components="\n".join(rows), claims="\n\n".join(tables))


def _get_folder(claim: Claim) -> str:
    first = claim.file.relative_to(ROOT / "e2e").parts[0]
    return first if first in RUNS_ON else ""


def _format_row(claim: Claim) -> str:
    test = f"{claim.file.relative_to(ROOT / 'e2e').as_posix()}::{claim.test}"
    return f"| {claim.text} | `{test}`{'†' if claim.by_hand else '*' if claim.optional else ''} |"


def read_installed_versions() -> dict[str, str]:
    """Return the versions of installed components that report them."""
    versions = {name: importlib.metadata.version(package) for name, package in PACKAGES.items()}
    if shutil.which("pulumi") is not None:
        output = subprocess.run(["pulumi", "version"], capture_output=True, text=True, check=True)
        versions[CLI] = output.stdout.strip().removeprefix("v")
    return versions
