"""The policy pack of the examples, run by the Pulumi engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from e2e.engine.project import ENGINE, REPOSITORY, Project
from e2e.engine.services import role, service


@pytest.mark.proves("A policy pack reads the component's inputs and its objects", needs=ENGINE)
def test_policy_pack_rejects_service(
    namespace: str, project: Callable[..., Project], tmp_path: Path
) -> None:
    pack = shutil.copytree(REPOSITORY / "examples" / "policies", tmp_path / "pack")
    described = yaml.safe_load((pack / "PulumiPolicy.yaml").read_text(encoding="utf-8"))
    # The pack uses the virtual environment of the tests.
    described["runtime"] = yaml.safe_load((project().folder / "Pulumi.yaml").read_text())["runtime"]
    (pack / "PulumiPolicy.yaml").write_text(yaml.safe_dump(described), encoding="utf-8")
    stack = project("prod")
    manifest = service(namespace, role(replicas=1))
    manifest["spec"]["model"] = {"uri": "hf://example/unapproved"}
    stack.write(manifest)
    told = stack.run("preview", "--policy-pack", str(pack), "--color", "never")
    assert told.status != 0, told.text
    assert "hf://example/unapproved is not an approved model" in told.text
    assert "is not from an allowed registry" in told.text
