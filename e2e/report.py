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
# What is verified, and on which components

Each row is a claim and the test that verifies it on the programs named here, built from
source and started on one machine. A run of all end-to-end tests fails if this page differs from the
tests; `python -m pytest e2e --write-verified` writes it once every test passed with the same code.
To repeat a claim: `python -m pytest e2e/FILE -k TEST`
([setup](https://github.com/fusioninfer/fusioninfer-pulumi/blob/main/e2e/README.md)).

CI runs the rows with "yes", and those with "if installed" where the programs are on the machine.
"""

RUNS_ON = {
    "engine": "Pulumi, Kubernetes",
    "serve": "vLLM, Envoy, kubelet",
    "strategies": "endpoint pickers",
}
"""Folder of a test -> what it runs on, by default Kubernetes with LeaderWorkerSet and Volcano."""

NOT_PROVED = """\
## What is not proved

- **Few pods run.** Only what the sections "Serves" name runs on a kubelet: vLLM for processors with
  a model of two layers and random weights, on one node or two. Elsewhere kwok says pods are ready.
  Not shown: that an image exists. Images there are links to programs of the machine, under the
  manifests' names. DNS is CoreDNS.
- **SGLang never runs.** Its kernels on PyPI (sglang-kernel 0.4.10) are for GPUs alone: on a
  processor `import sgl_kernel` ends with "Could not load any common_ops library".
- **Ray never carries an engine**: vLLM 0.32.0 for processors connects to the cluster that the pods
  create, and ends with "current platform cpu does not support ray".
- **Not every service of the pages runs.** `e2e/serve/shown.py` has a reason for each that does not.
- **Offloading of the KV cache never runs.** vLLM 0.32.0 for processors was tried once with the
  arguments of a service with memory and disk: it takes them, creates the `OffloadingConnector`, and
  its worker ends with "CPU Offloading is currently only supported on CUDA-alike and XPU GPUs".
- **No accelerator** is there, no device plugin, no driver. Nodes state a number; where devices are
  claimed, a test writes the ResourceSlices that a driver would, and kube-scheduler allocates them.
- **No gateway's controller.** Gateway API and InferencePool objects are stored and validated; no
  implementation writes their status. In the sections "Serves" requests pass a real Envoy, whose
  configuration the test makes of HTTPRoute and InferencePool or Service, as the inference
  extension's standalone form has it. Where a claim names a stand-in, a thread of the test writes
  that status, and answers `/v1/models`.
- **No Prometheus, no KEDA in what CI runs.** Monitors and ScaledObjects are stored and validated,
  and their selectors compared with pods; HorizontalPodAutoscalers scale by their bounds, and by
  metrics that a thread of the test serves as an adapter would. `test_keda.py` (long) runs both, on
  gauges of the test's, `serve/test_scaled.py` (long) on engines and a picker;
  `serve/test_dashboards.py` (long) runs Prometheus on engines and pickers,
  with the configuration that the operator would make of the monitors.
- **No Grafana.** Of dashboards only the queries were asked. No registry offers its server with its
  frontend. `test_prometheus_operator.py` (long) runs the Prometheus operator; its Prometheus has
  targets of the test, because Debian's has no discovery in Kubernetes.
- **Only these versions.** Others may differ; the library's minima are from their source and notes.
  The Kubernetes provider is the one on PATH, older than the SDK beside it. A plain installation
  gets the provider of its SDK's version: nothing was run with that.
- **Volcano without its controllers and webhooks**: no queue quotas (`proportion`, `capacity`), no
  preemption or reclaim, no PodGroups of its own. The capacity model is compared for one service at
  a time on nodes of its own, where only accelerators decide.
- **Time.** Pods are ready at once or after a fixed delay; timeouts of real models are not tried.
- **Unready nodes.** But for `e2e/serve/test_lost_node.py` a lost node is one that is deleted with
  its pods. What follows five minutes later, when its pods are evicted, is not played.
- **`leaderworkerset.sigs.k8s.io/group-key`** as an own label is refused because it would mistake
  groups in exclusive topologies; without those nothing breaks.
- **Role names of the router's objects** (`epp`, `pool`, ...) are refused to keep names readable; a
  replica's number keeps the objects apart.
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
    table = ["## Claims\n\n| Claim | Runs on | CI | Test |\n|---|---|---|---|"]
    table += [
        f"| {claim.text} | {_runs_on(claim)} | {_in_ci(claim)} "
        f"| `{claim.file.relative_to(ROOT / 'e2e')}` `{claim.test}` |"
        for claim in sorted(claims, key=lambda claim: claim.file)
    ]
    parts.append("\n".join(table) + "\n")
    return "\n".join([*parts, NOT_PROVED])


def _runs_on(claim: Claim) -> str:
    return RUNS_ON.get(claim.file.relative_to(ROOT / "e2e").parts[0], "Kubernetes")


def _in_ci(claim: Claim) -> str:
    if claim.by_hand:
        return "by hand"
    return "if installed" if claim.needs else "yes"


def add_options(parser: pytest.Parser) -> None:
    """Add `--write-verified`."""
    parser.addoption("--write-verified", action="store_true", help="write docs/verified.md anew")


def register(config: pytest.Config) -> None:
    """Start watching; UsageError where CI would write what it is to compare."""
    if config.getoption("--write-verified") and os.environ.get("CI"):
        raise pytest.UsageError("--write-verified would make the comparison pass: not in CI")
    config.pluginmanager.register(Report(config), "verified")
