"""The policy pack of the examples, run by the Pulumi engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from e2e.engine.project import REPOSITORY
from e2e.engine.services import Stack, role


@pytest.mark.proves("A policy pack reads the component's inputs and its objects")
def test_policy_pack_rejects_service(project: Callable[..., Stack], tmp_path: Path) -> None:
    pack = shutil.copytree(REPOSITORY / "examples" / "policies", tmp_path / "pack")
    described = yaml.safe_load((pack / "PulumiPolicy.yaml").read_text(encoding="utf-8"))
    # The pack uses the virtual environment of the tests.
    described["runtime"] = yaml.safe_load((project().folder / "Pulumi.yaml").read_text())["runtime"]
    (pack / "PulumiPolicy.yaml").write_text(yaml.safe_dump(described), encoding="utf-8")
    stack = project("prod")
    manifest = stack.service(role(replicas=1))
    manifest["spec"]["model"] = {"uri": "hf://example/unapproved"}
    stack.write(manifest)
    result = stack.run("preview", "--policy-pack", str(pack), "--color", "never").assert_failed()
    assert "hf://example/unapproved is not an approved model" in result.text
    assert "is not from an allowed registry" in result.text
