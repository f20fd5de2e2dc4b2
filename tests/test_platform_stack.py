"""The platform example: environments, the team label, and a policy that fails a preview."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from profiles import slow_unless

from fusioninfer_pulumi.cli.main import main

EXAMPLE = Path(__file__).parent.parent / "examples" / "platform-stack"
TEAM = "platform.example.com/team"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return shutil.copytree(EXAMPLE, tmp_path / "platform")


def configure(folder: Path, stack: str, **changed: Any) -> None:
    path = folder / f"Pulumi.{stack}.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key, value in changed.items():
        settings["config"][f"platform-stack:{key}"] = value
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")


def rendered(capsys: pytest.CaptureFixture[str], folder: Path, stack: str) -> list[Any]:
    assert main(["render", str(folder), "--stack", stack]) == 0
    printed = capsys.readouterr()
    assert not printed.err
    return list(yaml.safe_load_all(printed.out))


@pytest.mark.slow
def test_environments_differ_by_config_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def lws(stack: str) -> list[str]:
        result = rendered(capsys, EXAMPLE, stack)
        return [item["metadata"]["name"] for item in result if item["kind"] == "LeaderWorkerSet"]

    assert lws("dev") == ["chat-serve-0"]
    east = [
        *(f"chat-serve-{index}" for index in range(4)),
        "reasoning-serve-0",
        "reasoning-serve-1",
    ]
    assert lws("prod") == [*east, "chat-serve-0", "chat-serve-1"]


@pytest.mark.parametrize("stack", slow_unless("dev".__eq__, ["dev", "prod"]))
def test_team_label_is_on_objects_but_not_on_pods(
    capsys: pytest.CaptureFixture[str], stack: str
) -> None:
    objects = rendered(capsys, EXAMPLE, stack)
    assert {manifest["metadata"]["labels"].get(TEAM) for manifest in objects} == {"search"}
    assert yaml.safe_dump_all(objects).count(TEAM) == len(objects)


def test_changed_team_restarts_nothing(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    configure(copy, "dev", team="ads")
    assert main(["diff", str(EXAMPLE), str(copy), "--stack", "dev"]) == 1
    printed = capsys.readouterr().out
    assert "platform.example.com/team" in printed
    assert printed.startswith("objects: 9 changed; replicas: none restart\n")


def test_all_violations_are_reported_at_once(
    capsys: pytest.CaptureFixture[str], copy: Path
) -> None:
    configure(copy, "prod", gpuBudget=37, registries=["registry.k8s.io/"])
    assert main(["check", str(copy), "--stack", "prod"]) == 2
    printed = capsys.readouterr().err
    wanted = [
        "the services need 38 GPUs, the budget is 37",
        "chat: image vllm/vllm-openai:v0.32.0 is not from registry.k8s.io/",
        "reasoning: image vllm/vllm-openai:v0.32.0 is not from registry.k8s.io/",
    ]
    for item in wanted:
        assert f"policy: {item}" in printed


def test_picker_image_is_checked(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    configure(copy, "dev", registries=["vllm/"])
    assert main(["check", str(copy), "--stack", "dev"]) == 2
    assert "chat: image registry.k8s.io/gateway-api-inference-ext" in capsys.readouterr().err


def test_gpus_equal_to_budget_are_accepted(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    configure(copy, "prod", gpuBudget=38)
    assert main(["check", str(copy), "--stack", "prod"]) == 0
