"""`check --server`: where the API server's answers are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from clusters import FakeCluster, stored
from samples import role, service, template

from fusioninfer_pulumi.checks.live_cluster import ClusterFindings, LiveCluster
from fusioninfer_pulumi.checks.server_dry_run import API_SERVER_CHECK_INCOMPLETE
from fusioninfer_pulumi.cli import cluster_findings
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.findings import warning

#: Answers of Kubernetes 1.35, as `e2e/test_server.py` records them.
RECORDED = json.loads(
    (Path(__file__).parent.parent / "fixtures" / "server_answers.json").read_text()
)


def test_answers_have_the_lines_of_their_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = warning(API_SERVER_CHECK_INCOMPLETE, ("roles", 0, "name"), "of the server")

    def answers(cluster: LiveCluster) -> ClusterFindings:
        yield from ((plan, answer) for plan in cluster.plans if plan.service == "b")

    monkeypatch.setattr(cluster_findings, "SERVER_CHECKS", [answers])
    monkeypatch.setattr(cluster_findings, "KubernetesApi", lambda *_: FakeCluster())
    path = tmp_path / "two.yaml"
    documents = [service(role("x"), name="a"), service(role("y"), name="b")]
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    assert main(["check", str(path), "--server"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "of the server" in line]
    number = path.read_text().splitlines().index("  - name: y") + 1
    assert line.startswith(f"{path}:{number}: warning: roles[0].name: of the server")


def test_missing_objects_are_warnings_at_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    volumes = [{"name": "a", "secret": {"secretName": "absent"}}]
    pod = template(serviceAccountName="robot", volumes=volumes)
    path = tmp_path / "service.yaml"
    path.write_text(yaml.safe_dump(service(role("x", template=pod)), sort_keys=False))
    account = (403, RECORDED["account"])
    denied: list[str] = []

    def connect(*_: object) -> FakeCluster:
        return FakeCluster(
            stored("v1", "Namespace", "default"),
            denied=denied,
            reject=lambda pod: account if pod["spec"].get("serviceAccountName") else None,
        )

    def printed(*more: str) -> list[str]:
        monkeypatch.setattr(cluster_findings, "KubernetesApi", connect)
        assert main(["check", str(path), *more]) == 0
        return capsys.readouterr().err.splitlines()

    lines = path.read_text().splitlines()
    expected = {
        "serviceAccountName": "ServiceAccount robot",
        "volumes[0].secret.secretName": "Secret absent",
    }
    actual = [line for line in printed("--server") if "warning" in line]
    for line, (field, name) in zip(sorted(actual), expected.items(), strict=True):
        number = 1 + next(n for n, text in enumerate(lines) if name.split()[1] in text)
        assert line == (
            f"{path}:{number}: warning: roles[0].template.spec.{field}: namespace default has no "
            f"{name}: create it, or correct the name [named-object-missing]"
        )
    denied += ["/secrets/", "/serviceaccounts/"]
    unread, *_ = [line for line in printed("--server") if "not checked" in line]
    assert "serviceaccounts/robot in default: 403 Forbidden; secrets/absent in default" in unread
