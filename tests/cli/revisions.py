"""Contents of git repositories for tests of `diff --base`."""

from __future__ import annotations

import subprocess
from pathlib import Path

MANIFEST = """\
apiVersion: fusioninfer.io/v1alpha1
kind: InferenceService
metadata: {name: chat}
spec:
  roles:
    - name: serve
      componentType: worker
      replicas: 2
      template: {spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.11.0-cpu"}]}}
"""
PROGRAM = """\
from pathlib import Path
from fusioninfer_pulumi import InferenceService, load
for args in load(Path(__file__).parent.parent / "chat.yaml"):
    InferenceService("chat", args)
"""


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=tests", "-c", "user.email=tests@example.invalid"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)
