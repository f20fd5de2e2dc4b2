"""Write `docs/verified.md` from the claims of the end-to-end tests, and compare it with them.

The marker `proves` has a test's claim. A complete run fails if the page and the markers differ, or
if a claim did not pass. `--write-verified` writes the page from the markers, and `--collect-only`
with it needs no cluster. With `-n` (pytest-xdist) the workers know the claims, and the main process
the outcomes.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pickle
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

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
"""Titles of tools whose catalog names are unclear."""

CLI = "Pulumi CLI and Python language host"
PROVIDER = "Pulumi Kubernetes provider"
PACKAGES = {
    "Pulumi SDK for Python": "pulumi",
    "Pulumi Kubernetes SDK for Python": "pulumi-kubernetes",
}
_SECONDS = 30

OTHER_COMPONENTS = (
    (CLI, "3.246.0", "on PATH, else skipped"),
    ("Pulumi SDK for Python", "3.272.0", "PyPI"),
    ("Pulumi Kubernetes SDK for Python", "4.34.2", "PyPI"),
    (PROVIDER, "4.29.0", "on PATH, else skipped"),
    ("llm-d endpoint picker and sidecar", "0.10.0", "on PATH, else skipped; they do not say it"),
)
"""Components that no Go module here builds; reported versions are checked before writing."""

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
    "engine": f"Pulumi CLI {OTHER_COMPONENTS[0][1]}, {_CLUSTER}",
    "serve": "vLLM 0.32.0, Envoy and kubelet on Kubernetes {kubernetes}",
    "strategies": "Endpoint pickers {epp12}, {epp15} and llm-d 0.10.0",
    "": _CLUSTER,
}
"""Folder of a test -> the components that its tests run on."""

NOT_VERIFIED = """\
## Not verified

- **GPUs.** No accelerator, driver or device plugin was used. vLLM runs a two-layer model with
  random weights on CPUs. KV cache offloading and Ray stop there: vLLM requires GPUs for them.
- **SGLang** never runs: its kernels on PyPI require a GPU.
- **Images** are not pulled. Outside "vLLM, Envoy and kubelet", kwok simulates the pods.
- **Gateway controllers** do not run, except Envoy Gateway for access rules. Envoy gets its
  configuration from the test; "stand-in" marks tests that write a Gateway's status themselves.
- **Prometheus and KEDA** run by hand only; CI checks that their objects are accepted.
  The Prometheus operator never runs: tests write the configuration that it makes of monitors.
- **Grafana** never runs. Prometheus answers the dashboards' queries.
- **Volcano** runs without its controllers and webhooks: no queue quotas, preemption or reclaim.
- **Start-up times** of real models are not tried; pods become ready at once or after a fixed delay.
- **Eviction five minutes after a node is lost** is not covered. Most tests delete the Node.
- **Other versions** may differ. The Kubernetes provider is the one on PATH, older than its SDK.
"""

_SHARED = "verified"
"""Key under which a worker hands over its claims."""

STATES = ("verified", "not verified", "skipped", "deselected")


@dataclass
class Claim:
    """One row of the page.

    Attributes:
        text: The claim.
        file: Test file.
        test: Test function.
        by_hand: Whether CI skips it.
        needs: Whether programs must be installed, else its tests are skipped.
        cases: Node ids of its tests.
    """

    text: str
    file: Path
    test: str
    by_hand: bool
    needs: bool
    cases: set[str] = field(default_factory=set)


class Report:
    """Plugin that records which claims pass in this run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.claims: dict[tuple[Path, str], Claim] = {}
        self.outcomes: dict[str, str] = {}
        self.selected: set[str] = set()
        self.problems: list[str] = []
        self.is_whole = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            marker = item.get_closest_marker("proves")
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
            # Folders and runs by hand whose programs may be missing.
            needs = bool({"engine", "long", "serve"} & names or marker.kwargs.get("needs"))
            claim = self.claims.setdefault(
                (item.path, text), Claim(text, item.path, test, by_hand, needs)
            )
            claim.cases.add(item.nodeid)
        files = set(Path(__file__).parent.rglob("test_*.py"))
        named = any("::" in argument for argument in self.config.args)
        self.is_whole = files <= {item.path for item in items} and not named

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
            self.claims, self.selected, self.is_whole = pickle.loads(output[_SHARED])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the page, or compare a complete run with it."""
        if hasattr(self.config, "workeroutput"):
            shared = pickle.dumps((self.claims, self.selected, self.is_whole))
            self.config.workeroutput[_SHARED] = shared
        elif self.config.getoption("--write-verified"):
            if not self.is_whole:
                raise pytest.UsageError("not all files were collected: select tests with -m and -k")
            DOCUMENT.write_text(document(list(self.claims.values())), encoding="utf-8")
        elif self.is_whole and not (
            self.config.option.collectonly or session.testsfailed or session.shouldstop
        ):
            self._compare()
        if self.problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _compare(self) -> None:
        """Report claims that did not pass, other versions, and differences of the page."""
        skipped = [c.text for c in self.claims.values() if self._state(c) == "not verified"]
        self.problems += [f"claimed, but not verified in this run: {text}" for text in skipped]
        installed = installed_versions()
        self.problems += [
            f"{name} {installed[name]} is installed, OTHER_COMPONENTS has {listed}; update it"
            for name, listed, _ in OTHER_COMPONENTS
            if installed.get(name, listed) != listed
        ]
        if document(list(self.claims.values())) != DOCUMENT.read_text(encoding="utf-8"):
            self.problems.append(
                "docs/verified.md differs from the tests; regenerate it with "
                "python -m pytest e2e --collect-only --write-verified"
            )

    def _state(self, claim: Claim) -> str:
        if not claim.cases & self.selected:
            return "deselected"
        outcomes = {self.outcomes.get(case) for case in claim.cases & self.selected}
        if outcomes == {"passed"}:
            return "verified"
        return "skipped" if claim.needs and outcomes <= {"passed", "skipped"} else "not verified"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how many claims passed."""
        states = [self._state(claim) for claim in self.claims.values()]
        counts = {state: states.count(state) for state in STATES}
        summary = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        terminalreporter.write_line(f"claims of docs/verified.md: {summary or 'none'}")
        for problem in self.problems:
            terminalreporter.write_line(problem, red=True)


def document(claims: list[Claim]) -> str:
    rows = [
        f"| {COMPONENTS.get(tool.name, tool.name)} | {tool.version} | `{tool.source}` |"
        for tool in sorted(TOOLS, key=lambda tool: list(COMPONENTS).index(tool.name)
                           if tool.name in COMPONENTS else len(COMPONENTS))
        if not tool.optional
    ]  # fmt: skip
    rows += [f"| {name} | {version} | {source} |" for name, version, source in OTHER_COMPONENTS]
    parts = [HEAD, "## Components\n\n| Component | Version | Built from |\n|---|---|---|"]
    parts[-1] += "\n" + "\n".join(rows) + "\n"
    releases = {re.sub(r"-0\.9$|[-.]", "", tool.name): tool.version for tool in TOOLS}
    claims = sorted(claims, key=lambda claim: claim.file)
    for folder, title in RUNS_ON.items():
        table = [f"## {title.format(**releases)}\n\n| Claim | Test |\n|---|---|"]
        table += [_row(claim) for claim in claims if _folder(claim) == folder]
        parts.append("\n".join(table) + "\n")
    return "\n".join([*parts, NOT_VERIFIED])


def _folder(claim: Claim) -> str:
    first = claim.file.relative_to(ROOT / "e2e").parts[0]
    return first if first in RUNS_ON else ""


def _row(claim: Claim) -> str:
    test = f"{claim.file.relative_to(ROOT / 'e2e').as_posix()}::{claim.test}"
    return f"| {claim.text} | `{test}`{'†' if claim.by_hand else '*' if claim.needs else ''} |"


def installed_versions() -> dict[str, str]:
    """Asks what is here; what is not, and llm-d's programs, which do not say, are left out."""
    versions = {name: importlib.metadata.version(each) for name, each in PACKAGES.items()}
    cli = shutil.which("pulumi")
    if cli is not None:
        output = subprocess.run(
            [cli, "version"], capture_output=True, text=True, check=True, timeout=_SECONDS
        )
        versions[CLI] = output.stdout.strip().removeprefix("v")
    provider = shutil.which("pulumi-resource-kubernetes")
    if provider is not None:
        versions[PROVIDER] = _of_provider(provider)
    return versions


def _of_provider(program: str) -> str:
    """Asks it as the engine does: it has no flag for that."""
    grpc: Any = importlib.import_module("grpc")
    services: Any = importlib.import_module("pulumi.runtime.proto.provider_pb2_grpc")
    empty: Any = importlib.import_module("google.protobuf.empty_pb2")
    # The address is the engine's, which is not called for this.
    process = subprocess.Popen(
        [program, "127.0.0.1:1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = services.ResourceProviderStub(channel)
            output = stub.GetPluginInfo(empty.Empty(), timeout=_SECONDS)
            return str(output.version).removeprefix("v")
    finally:
        process.kill()
        process.communicate()
