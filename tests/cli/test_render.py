"""`render` prints objects of manifests and projects as YAML and JSON."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.projects import Folder
from rows import each_row

from fusioninfer_pulumi import load, plan_service, render
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.printing import to_yaml

INPUTS = Path(__file__).parent.parent / "fixtures" / "inputs"
STORIES = sorted(str(path) for path in INPUTS.glob("fusioninfer-story-*.yaml"))


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["render", *arguments]) == 0
    return capsys.readouterr().out


def objects_of(path: str) -> list[dict[str, Any]]:
    return [item for args in load(path) for item in render(plan_service(args))]


@pytest.mark.parametrize("path", STORIES, ids=lambda path: Path(path).stem)
def test_yaml_and_json_are_the_objects(capsys: pytest.CaptureFixture[str], path: str) -> None:
    text = output(capsys, path)
    assert list(yaml.safe_load_all(text)) == objects_of(path)
    actual = json.loads(output(capsys, path, "--output", "json"))
    assert actual == {"apiVersion": "v1", "kind": "List", "items": objects_of(path)}
    assert list(actual) == ["apiVersion", "kind", "items"]


@pytest.mark.parametrize("path", STORIES, ids=lambda path: Path(path).stem)
def test_yaml_reads_like_a_manifest(capsys: pytest.CaptureFixture[str], path: str) -> None:
    text = output(capsys, path)
    tokens = [type(token).__name__ for token in yaml.scan(text)]
    assert "AnchorToken" not in tokens
    assert "AliasToken" not in tokens
    for document in text.split("\n---\n"):
        lines = [line for line in document.splitlines() if line[:1] not in (" ", "-")]
        assert lines[0].startswith("apiVersion: ")
        assert lines[1].startswith("kind: ")
        assert lines[2] == "metadata:"


def test_output_is_the_same_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, STORIES[3]) == output(capsys, STORIES[3])


def test_documents_are_rendered_in_file_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = Path(STORIES[0]).read_text(encoding="utf-8")
    path = tmp_path / "both.yaml"
    path.write_text(f"{text}\n---\n{text.replace('name: qwen-inference', 'name: a')}")
    names = [item["metadata"]["name"] for item in yaml.safe_load_all(output(capsys, str(path)))]
    assert names == ["qwen-inference-inference-0", "qwen-inference", "a-inference-0", "a"]


TEXTS = [
    "one line",
    "two\nlines",
    "two\nlines\n",
    "a line that ends in spaces  \nand another",
    "tab\tand \"quotes\" and 'more'",
    "\n",
    "",
    " leading",
    "é中😀",
    "#no comment",
    "yes",
    "0x10",
    "1e3",
    "12:30",
    "2024-01-01",
    "~",
    "- item",
    "x" * 300,
    "word " * 60,
    "\x07 bell \x7f \u2028 \ufeff",
]


@each_row("text", TEXTS)
def test_any_text_survives_yaml(text: str) -> None:
    shared = {"text": text}
    item = {"apiVersion": "v1", "first": shared, "second": shared, text: [text, shared]}
    written = to_yaml([item, item])
    assert list(yaml.safe_load_all(written)) == [item, item]
    assert "&id" not in written


def test_scripts_are_written_as_blocks() -> None:
    assert to_yaml([{"args": ["set -e\nexec vllm\n"]}]) == "args:\n- |\n  set -e\n  exec vllm\n"


@pytest.mark.slow
def test_thousands_of_replicas_are_rendered_in_seconds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = Path(STORIES[0]).read_text(encoding="utf-8").replace("replicas: 1", "replicas: 3000")
    path = tmp_path / "many.yaml"
    path.write_text(text, encoding="utf-8")
    began = time.process_time()
    actual = output(capsys, str(path))
    assert time.process_time() - began < 6  # about half a second on an idle machine
    assert actual.count("\n---\n") == 3_000
    assert "name: qwen-inference-inference-2999\n" in actual


PROGRAM = """
import pulumi
import pulumi_kubernetes as k8s
from fusioninfer_pulumi import InferenceService

token = pulumi.Config().require_secret("token")
secret = k8s.core.v1.Secret("hf", metadata={"name": "hf"}, string_data={"token": token})
container = {
    "name": "vllm",
    "image": "vllm/vllm-openai:v0.11.0",
    "args": ["--model", "m"],
    "env": [{"name": "TOKEN", "value": token}, {"name": "UID", "value": secret.id}],
    "resources": {"limits": {"nvidia.com/gpu": "1"}},
}
role = {"name": "inference", "componentType": "worker",
        "template": {"spec": {"containers": [container]}}}
InferenceService("svc", {"roles": [role]})
"""


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
    (tmp_path / "Pulumi.prod.yaml").write_text("config:\n  app:token: t0ken\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    return str(tmp_path)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_secrets_and_unknowns_of_a_project_are_masked(
    capsys: pytest.CaptureFixture[str], project: str, form: str
) -> None:
    text = output(capsys, project, "--stack", "prod", "--output", form)
    actual = json.loads(text)["items"] if form == "json" else list(yaml.safe_load_all(text))
    assert [item["kind"] for item in actual] == ["Secret", "LeaderWorkerSet", "Service"]
    assert "t0ken" not in text
    assert actual[0]["stringData"] == {"token": "<secret>"}
    template = actual[1]["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    assert template["spec"]["containers"][0]["env"] == [
        {"name": "TOKEN", "value": "<secret>"},
        {"name": "UID", "value": "<unknown>"},
    ]


def test_secrets_are_shown_on_demand(capsys: pytest.CaptureFixture[str], project: str) -> None:
    text = output(capsys, project, "--stack", "prod", "--show-secrets")
    assert "t0ken" in text
    assert "<unknown>" in text


def test_plan_of_a_project_masks_secrets(capsys: pytest.CaptureFixture[str], project: str) -> None:
    assert main(["plan", project, "--stack", "prod", "--output", "json"]) == 0
    text = capsys.readouterr().out
    assert "t0ken" not in text
    (actual,) = json.loads(text)
    assert [item["kind"] for item in actual["objects"]] == ["LeaderWorkerSet", "Service"]


def test_invalid_project_is_rejected(capsys: pytest.CaptureFixture[str], project: str) -> None:
    assert main(["render", project, "--stack", "nowhere"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{project}: no stack nowhere: Pulumi.nowhere.yaml is missing")
    Path(project, "__main__.py").write_text("raise ValueError('my own words')\n")
    assert main(["render", project, "--stack", "prod"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{project}: ValueError: my own words [program-failed]",
        "  __main__.py:1",
    ]


def test_errors_of_a_program_name_its_file(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.write("__main__.py", 'raise ValueError("one\\ntwo")\n')
    assert main(["render", str(folder.root)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{folder.root}: ValueError: one [program-failed]",
        f"{folder.root}: two [program-failed]",
        "  __main__.py:1",
    ]


@pytest.mark.parametrize("command", ["render", "plan", "check", "convert", "diff"])
def test_stack_option_without_a_project_is_rejected(
    command: str, partial: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [partial, partial] if command == "diff" else [partial]
    assert main([command, *sources, "--stack", "prod"]) == 2
    shown = capsys.readouterr()
    printed = (
        f"{partial}: --stack has no effect, because no source is a Pulumi project "
        "[option-out-of-place]\n"
    )
    assert (shown.out, shown.err[-len(printed) :]) == ("", printed)
