"""`check --server`: where the API server's answers are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import role, service

from fusioninfer_pulumi.checks.server import API_SERVER_NOT_ASKED
from fusioninfer_pulumi.cli import server
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.findings import warning


def test_answers_stand_at_the_lines_of_their_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = warning(API_SERVER_NOT_ASKED, ("roles", 0, "name"), "of the server")

    def answers(_client: object, plans: list[Any], **_: object) -> list[list[Any]]:
        return [[] if plan.service == "a" else [answer] for plan in plans]

    monkeypatch.setattr(server, "server_findings", answers)
    monkeypatch.setattr(server, "KubernetesApi", lambda *_: None)
    path = tmp_path / "two.yaml"
    documents = [service(role("x"), name="a"), service(role("y"), name="b")]
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    assert main(["check", str(path), "--server"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "of the server" in line]
    number = path.read_text().splitlines().index("  - name: y") + 1
    assert line.startswith(f"{path}:{number}: warning: roles[0].name: of the server")
