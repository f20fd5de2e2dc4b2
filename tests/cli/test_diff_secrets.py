"""`diff` of programs with changed secrets shows a difference but no secret."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli.projects import PROGRAM, PROJECT, Folder
from profiles import slow_unless

from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.program.recording import mark_secret, remove_marks

SERVICE = """
from fusioninfer_pulumi import InferenceService

InferenceService("svc", {"roles": [{"name": "w", "componentType": "worker", "template": {
    "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "m"], "env": [{"name": "TOKEN", "value": TOKEN}]}]}}}]})
k8s.core.v1.Secret("s", metadata={"name": "s"}, string_data={"key": TOKEN, "same": "open"})
"""


def project(root: Path, token: str, config: str = "") -> str:
    folder = Folder(root)
    folder.write("Pulumi.yaml", PROJECT)
    folder.write("__main__.py", f"{PROGRAM}\nTOKEN = {token}\n{SERVICE}")
    if config:
        folder.write("Pulumi.dev.yaml", config)
    return str(root)


@pytest.fixture
def compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(old: str, new: str, *options: str, configs: Any = ("", "")) -> tuple[int, str]:
        sides = zip(("old", "new"), (old, new), configs, strict=True)
        names = [project(tmp_path / side, token, config) for side, token, config in sides]
        capsys.readouterr()
        status = main(["diff", *names, *options])
        return status, capsys.readouterr().out

    return call


def secret(value: str) -> str:
    return f'pulumi.Output.secret("{value}")'


@pytest.mark.parametrize("form", slow_unless("text".__eq__, ["text", "markdown", "json"]))
def test_changed_secret_is_a_masked_difference(compared: Any, form: str) -> None:
    status, out = compared(secret("hunter2"), secret("opensesame"), "--output", form)
    assert status == 1
    # Neither the values nor anything derived from them.
    assert not re.search(r"hunter|sesame|\\u0000|\0|[0-9a-f]{16}", out)
    assert "w-0" in out
    if form == "text":
        assert ".env[TOKEN].value: <secret> -> <secret>\n" in out
        assert "stringData.key: <secret> -> <secret>\n" in out
        assert "same" not in out
    elif form == "json":
        read = json.loads(out)
        assert read["effects"][0]["restarts"] == ["w-0"]
        fields = [field for stream in read["objects"] for field in stream["fields"]]
        assert [(field["old"], field["new"]) for field in fields] == [("<secret>", "<secret>")] * 2
    else:
        assert "<secret>" in out


def test_equal_secrets_do_not_differ(compared: Any) -> None:
    assert compared(secret("hunter2"), secret("hunter2"), "--output", "text") == (0, "")
    both = f"pulumi.Output.concat('a', {secret('one')})"
    assert compared(both, both, "--output", "text") == (0, "")


def test_show_secrets_prints_secrets(compared: Any) -> None:
    status, out = compared(secret("hunter2"), secret("opensesame"), "--show-secrets")
    assert status == 1
    assert "stringData.key: hunter2 -> opensesame\n" in out


def test_changed_ciphertext_is_noted_once(compared: Any) -> None:
    read = 'config.require_secret("token")'
    stack = "config:\n  app:token: {secure: %s}\n"
    same = (stack % "v1:a", stack % "v1:a")
    assert compared(read, read, configs=same) == (0, "")
    status, out = compared(read, read, configs=(stack % "v1:a", stack % "v1:b"))
    assert status == 1
    assert out.count("config app:token: the encrypted text changed; whether the value changed") == 1
    assert "v1:" not in out


def test_secret_marks_differ_by_value_and_are_removed() -> None:
    one, other = mark_secret("one"), mark_secret("other")
    assert one != other
    assert one == mark_secret("one")
    stream = {one: [other, (f"x{one}y",)], "n": None}
    assert remove_marks(stream) == {"<secret>": ["<secret>", ("x<secret>y",)], "n": None}


TRANSFORMED = """
from fusioninfer_pulumi import InferenceService

def change(args):
    spec = args.props.get("spec")
    {change}
    return pulumi.ResourceTransformResult(args.props, args.opts)

TOKEN = pulumi.Output.secret("hunter2")
InferenceService("svc", {{"roles": [{{"name": "w", "componentType": "worker", "template": {{
    "spec": {{"containers": [{{"name": "vllm", "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "m", "--max-model-len", "{length}"],
        "env": [{{"name": "TOKEN", "value": TOKEN}}, {{"name": "OPEN", "value": "open"}}],
        "resources": {{"limits": {{"nvidia.com/gpu": "1"}}}}}}]}}}}}}]}},
    pulumi.ResourceOptions(transforms=[change]))
"""
LABELED = """if args.custom:
        args.props["metadata"]["labels"]["team"] = "x"
"""
MOVED = """if args.type_.endswith("LeaderWorkerSet"):
        spec = spec["value"]  # of the one secret that the spec is
        (container,) = spec["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
        token = container["env"][0]["value"]
        container["workingDir"] = "/" + token
        container["env"].insert(0, {"name": "NEW", "value": "x-" + token})
        args.props["spec"] = pulumi.Output.secret(spec)
"""


def transformed(root: Path, change: str, length: int) -> str:
    folder = Folder(root)
    folder.write("Pulumi.yaml", PROJECT)
    text = TRANSFORMED.format(change=change, length=length)
    folder.write("__main__.py", f"{PROGRAM}\n{text}")
    return str(root)


def test_secret_masks_only_its_field_of_a_transformed_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [transformed(tmp_path / str(length), LABELED, length) for length in (4096, 8192)]
    assert main(["diff", *sides, "--output", "json"]) == 1
    out = capsys.readouterr().out
    (effect,) = json.loads(out)["effects"]
    assert (effect["restarts"], effect["reason"]) == (["w-0"], "arguments changed")
    assert "hunter2" not in out
    assert main(["render", sides[0]]) == 0
    out = capsys.readouterr().out
    assert out.count("<secret>") == 1
    assert "hunter2" not in out
    assert "team: x" in out


def test_property_with_a_secret_that_a_transform_changes_is_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [transformed(tmp_path / str(length), MOVED, length) for length in (4096, 8192)]
    assert main(["render", sides[0]]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert "spec: <secret>" in out
    assert main(["diff", *sides]) == 1
    assert "spec: <secret> -> <secret>" in capsys.readouterr().out
