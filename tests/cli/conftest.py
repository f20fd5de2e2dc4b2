"""Fixtures of the command line's tests."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.projects import PROJECT, Folder, run_masked
from cli.revisions import MANIFEST, PROGRAM, git

from fusioninfer_pulumi.cli.program.recording import Recording

PARTIAL = """
apiVersion: fusioninfer.io/v1alpha1
kind: InferenceService
metadata: {name: deepseek, namespace: models}
spec:
  schedulingStrategy:
    gangPolicy: {minRoleReplicas: {prefill: 1, decode: 1}}
  roles:
    - name: prefill
      componentType: prefiller
      replicas: 1
      multinode: {nodeCount: 2}
      template:
        spec:
          hostIPC: true
          containers:
            - name: vllm
              image: vllm/vllm-openai:v0.11.0
              args: [--model=m, --tensor-parallel-size=16]
              resources: {limits: {nvidia.com/gpu: 8}}
    - name: decode
      componentType: decoder
      replicas: 2
      multinode: {nodeCount: 4}
      template:
        spec:
          hostIPC: true
          containers:
            - name: vllm
              image: vllm/vllm-openai:v0.11.0
              args: [--model=m, --tensor-parallel-size=32]
              resources: {limits: {nvidia.com/gpu: 8}}
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Recording]:
    """Run the text of a Pulumi program, in which pulumi and k8s are imported."""

    def call(program: str, **options: Any) -> Recording:
        (tmp_path / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
        head = "import pulumi\nimport pulumi_kubernetes as k8s\n"
        (tmp_path / "__main__.py").write_text(head + textwrap.dedent(program))
        return run_masked(tmp_path, **options)

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    result = Folder(tmp_path)
    result.write("Pulumi.yaml", PROJECT)
    return result


@pytest.fixture
def partial(tmp_path: Path) -> str:
    """Return a manifest with a partial gang."""
    (tmp_path / "partial.yaml").write_text(PARTIAL)
    return str(tmp_path / "partial.yaml")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a new git repository with one commit of a service and a program."""
    (tmp_path / "chat.yaml").write_text(MANIFEST)
    project = tmp_path / "project"
    project.mkdir()
    (project / "Pulumi.yaml").write_text("name: chat\nruntime: python\n")
    (project / "__main__.py").write_text(PROGRAM)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    monkeypatch.chdir(tmp_path)
    return tmp_path
