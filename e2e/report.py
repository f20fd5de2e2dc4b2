"""What the end-to-end tests prove, written to `docs/verified.md` and held against it.

A test says what it proves by the marker `proves`. A whole run compares the document with the
markers, so that no claim stands there without a test. `--write-verified` writes it once every claim
has been proved, in this run or in earlier ones of the same code. With `-n` (pytest-xdist) the
workers know the claims and the main process what passed.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e import versions
from e2e.catalog import TOOLS
from e2e.inputs import ROOT

DOCUMENT = ROOT / "docs" / "verified.md"

COMPONENTS = {
    "kubernetes": "kube-apiserver, kube-controller-manager, kube-scheduler",
    "etcd": "etcd",
    "lws-0.9": "LeaderWorkerSet, with its webhooks",
    "volcano": "Volcano scheduler",
    "kwok": "kwok, in place of kubelets",
}
"""Names of the tools that have better ones than those of the catalog."""

BESIDE = (
    (versions.CLI, "3.246.0", "on PATH, else skipped"),
    ("Pulumi SDK for Python", "3.272.0", "PyPI"),
    ("Pulumi Kubernetes SDK for Python", "4.34.2", "PyPI"),
    (versions.PROVIDER, "4.29.0", "on PATH, else skipped"),
    ("llm-d endpoint picker and sidecar", "0.10.0", "on PATH, else skipped; they do not say it"),
)
"""What no Go module of ours builds, in the versions with which its claims were proved: those that
say theirs are asked before the document is written."""

HEAD = """\
# Which behaviour is verified, and on which components

Each claim is verified by the named end-to-end test on real components, built from source and run on
one machine. CI runs all tests but those with a † (by hand), and those with a * only where their
programs are installed. To run one: `python -m pytest e2e/FILE -k TEST`
([setup](https://github.com/fusioninfer/fusioninfer-pulumi/blob/main/e2e/README.md)). A complete run
fails if this page and the tests differ.
"""

_CLUSTER = "Kubernetes {kubernetes}, LeaderWorkerSet {lws}, Volcano {volcano}"
RUNS_ON = {
    "engine": f"Pulumi CLI {BESIDE[0][1]}, {_CLUSTER}",
    "serve": "vLLM 0.32.0, Envoy and kubelet on Kubernetes {kubernetes}",
    "strategies": "Endpoint pickers {epp12}, {epp15} and llm-d 0.10.0",
    "": _CLUSTER,
}
"""Folder of a test -> the components that its tests run on."""

NOT_PROVED = """\
## Not verified

- **GPUs.** No accelerator, driver or device plugin was used. vLLM runs a two-layer model with
  random weights on CPUs. KV cache offloading and Ray stop there: vLLM requires GPUs for them.
- **SGLang** never runs: its kernels on PyPI require a GPU.
- **Images** are not pulled. Outside "vLLM, Envoy and kubelet", kwok simulates the pods.
- **Gateway controllers** do not run, except Envoy Gateway for access rules. Envoy gets its
  configuration from the test; "stand-in" marks tests that write a Gateway's status themselves.
- **Prometheus and KEDA** run by hand only; CI checks that their objects are accepted.
- **Grafana** never runs. Prometheus answers the dashboards' queries.
- **Volcano** runs without its controllers and webhooks: no queue quotas, preemption or reclaim.
- **Start-up times** of real models are not tried; pods become ready at once or after a fixed delay.
- **Eviction five minutes after a node is lost** is not covered. Most tests delete the Node.
- **Other versions** may differ. The Kubernetes provider is the one on PATH, older than its SDK.
"""

PROVED = "e2e/proved"
"""Where pytest's cache keeps the tests that have passed, and with which code."""

_SHARED = "verified"
"""Where a worker leaves what it has collected."""

STATES = ("proved", "not proved", "skipped", "left out")


@dataclass
class Claim:
    """One sentence of the document.

    Attributes:
        text: The sentence.
        file: Test file.
        test: Test function.
        by_hand: Whether CI leaves it out.
        needs: Programs that no registry offers, without which its tests are skipped.
        cases: Node ids of its tests.
    """

    text: str
    file: Path
    test: str
    by_hand: bool
    needs: str | None
    cases: set[str] = field(default_factory=set)


class Report:
    """A plugin that watches which claims are proved in this run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.claims: dict[tuple[Path, str], Claim] = {}
        self.outcomes: dict[str, str] = {}
        self.selected: set[str] = set()
        self.problems: list[str] = []
        self.is_whole = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note all claims, before any test is left out."""
        for item in items:
            marker = item.get_closest_marker("proves")
            if marker is None:
                continue
            (text,) = marker.args
            test = item.nodeid.split("::")[1].partition("[")[0]
            names = {mark.name for mark in item.iter_markers()}
            by_hand = "long" in names or ("engine" in names and "core" not in names)
            claim = self.claims.setdefault(
                (item.path, text), Claim(text, item.path, test, by_hand, marker.kwargs.get("needs"))
            )
            claim.cases.add(item.nodeid)
        files = set(Path(__file__).parent.rglob("test_*.py"))
        named = any("::" in argument for argument in self.config.args)
        self.is_whole = files <= {item.path for item in items} and not named

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which tests will run."""
        self.selected = {item.nodeid for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = report.outcome

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker has collected; each one collects all."""
        output = getattr(node, "workeroutput", {})
        if _SHARED in output:
            self.claims, self.selected, self.is_whole = pickle.loads(output[_SHARED])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare the document with this run, or write it."""
        if hasattr(self.config, "workeroutput"):
            shared = pickle.dumps((self.claims, self.selected, self.is_whole))
            self.config.workeroutput[_SHARED] = shared
            return
        if self.config.option.collectonly or not self.selected:
            return
        if self.config.getoption("--write-verified"):
            self._write()
        elif (
            self.is_whole and DOCUMENT.exists() and not (session.testsfailed or session.shouldstop)
        ):
            self._compare()
        if self.problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write(self) -> None:
        """Write the document if nothing is left to be proved, else say what is."""
        passed = {case for case in self.selected if self.outcomes.get(case) == "passed"}
        cache = self.config.cache
        if cache is not None:
            known = cache.get(PROVED, {})
            code = code_digest()
            passed |= set(known["cases"]) if known.get("code") == code else set()
            cache.set(PROVED, {"code": code, "cases": sorted(passed)})
        missing = [claim.text for claim in self.claims.values() if not claim.cases <= passed]
        self.problems += [f"not proved yet with this code: {text}" for text in missing]
        self.problems += differing(versions.found())
        if not self.is_whole:
            self.problems.append("not all files were collected: choose tests by -m and -k alone")
        if not self.problems:
            DOCUMENT.write_text(document(list(self.claims.values())), encoding="utf-8")

    def _compare(self) -> None:
        """Find claims that were not proved, and a document that says anything else."""
        skipped = [c.text for c in self.claims.values() if self._state(c) == "not proved"]
        self.problems += [f"claimed, but not proved in this run: {text}" for text in skipped]
        if document(list(self.claims.values())) != DOCUMENT.read_text(encoding="utf-8"):
            self.problems.append(
                "docs/verified.md does not say what the tests prove; write it anew with "
                "python -m pytest e2e --write-verified"
            )

    def _state(self, claim: Claim) -> str:
        if not claim.cases & self.selected:
            return "left out"
        outcomes = {self.outcomes.get(case) for case in claim.cases & self.selected}
        if outcomes == {"passed"}:
            return "proved"
        return "skipped" if claim.needs and outcomes <= {"passed", "skipped"} else "not proved"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell how many claims this run proved."""
        states = [self._state(claim) for claim in self.claims.values()]
        counts = {state: states.count(state) for state in STATES}
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        terminalreporter.write_line(f"claims of docs/verified.md: {told or 'none'}")
        for problem in self.problems:
            terminalreporter.write_line(problem, red=True)


def differing(found: Mapping[str, str]) -> list[str]:
    """What is wrong with BESIDE.

    Args:
        found: Versions of what is here, by name.

    Returns:
        A line for each one that BESIDE gives another version.
    """
    return [
        f"{name} {found[name]} is here, and the document would say {stated}: change BESIDE"
        for name, stated, _ in BESIDE
        if found.get(name, stated) != stated
    ]


def code_digest() -> str:
    """What tells one state of the code from another."""
    digest = hashlib.sha256()
    for folder in ("fusioninfer_pulumi", "e2e", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def document(claims: list[Claim]) -> str:
    """The whole text of `docs/verified.md`."""
    rows = [
        f"| {COMPONENTS.get(tool.name, tool.name)} | {tool.version} | `{tool.source}` |"
        for tool in sorted(TOOLS, key=lambda tool: list(COMPONENTS).index(tool.name)
                           if tool.name in COMPONENTS else len(COMPONENTS))
        if not tool.optional
    ]  # fmt: skip
    rows += [f"| {name} | {version} | {source} |" for name, version, source in BESIDE]
    parts = [HEAD, "## Components\n\n| Component | Version | Built from |\n|---|---|---|"]
    parts[-1] += "\n" + "\n".join(rows) + "\n"
    releases = {re.sub(r"-0\.9$|[-.]", "", tool.name): tool.version for tool in TOOLS}
    claims = sorted(claims, key=lambda claim: claim.file)
    for folder, title in RUNS_ON.items():
        table = [f"## {title.format(**releases)}\n\n| Claim | Test |\n|---|---|"]
        table += [_row(claim) for claim in claims if _folder(claim) == folder]
        parts.append("\n".join(table) + "\n")
    return "\n".join([*parts, NOT_PROVED])


def _folder(claim: Claim) -> str:
    first = claim.file.relative_to(ROOT / "e2e").parts[0]
    return first if first in RUNS_ON else ""


def _row(claim: Claim) -> str:
    test = f"{claim.file.relative_to(ROOT / 'e2e').as_posix()}::{claim.test}"
    return f"| {claim.text} | `{test}`{'†' if claim.by_hand else '*' if claim.needs else ''} |"


def add_options(parser: pytest.Parser) -> None:
    """Add `--write-verified`."""
    parser.addoption("--write-verified", action="store_true", help="write docs/verified.md anew")


def register(config: pytest.Config) -> None:
    """Start watching; UsageError where CI would write what it is to compare."""
    if config.getoption("--write-verified") and os.environ.get("CI"):
        raise pytest.UsageError("--write-verified would make the comparison pass: not in CI")
    config.pluginmanager.register(Report(config), "verified")
