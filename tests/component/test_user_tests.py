"""Unit tests of users, as Pulumi documents them: mocks are set once, for all tests of a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USER_TESTS = """
import unittest

import pulumi


class Mocks(pulumi.runtime.Mocks):
    def new_resource(self, args):
        return [args.name + "_id", args.inputs]

    def call(self, args):
        return {}


pulumi.runtime.set_mocks(Mocks(), preview=False)

from fusioninfer_pulumi import InferenceService

CONTAINER = {
    "name": "vllm",
    "image": "vllm/vllm-openai:v0.11.0",
    "args": ["--model", "Qwen/Qwen3-8B"],
    "resources": {"limits": {"nvidia.com/gpu": "1"}},
}


def made(replicas):
    template = {"spec": {"containers": [CONTAINER]}}
    role = {"name": "serve", "componentType": "worker", "replicas": replicas, "template": template}
    return InferenceService("qwen", {"roles": [role]})


class Tests(unittest.TestCase):
    @pulumi.runtime.test
    def test_one_replica(self):
        return made(1).endpoint.apply(
            lambda url: self.assertEqual(url, "http://qwen.default.svc:8000")
        )

    @pulumi.runtime.test
    def test_two_replicas(self):
        sets = made(2).leader_worker_sets
        return sets["qwen-serve-1"].metadata.apply(
            lambda metadata: self.assertEqual(metadata["name"], "qwen-serve-1")
        )
"""


def test_two_tests_of_one_service_pass(tmp_path: Path) -> None:
    (tmp_path / "test_service.py").write_text(USER_TESTS, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "unittest", "test_service"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Ran 2 tests" in ran.stderr
