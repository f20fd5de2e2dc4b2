"""The example of a platform: environments, the team's label, and a policy that stops a preview."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    told = capsys.readouterr()
    assert not told.err
    return list(yaml.safe_load_all(told.out))


def test_environments_differ_by_config_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def lws(stack: str) -> list[str]:
        found = rendered(capsys, EXAMPLE, stack)
        return [each["metadata"]["name"] for each in found if each["kind"] == "LeaderWorkerSet"]

    assert lws("dev") == ["chat-serve-0"]
    east = [
        *(f"chat-serve-{index}" for index in range(4)),
        "reasoning-serve-0",
        "reasoning-serve-1",
    ]
    assert lws("prod") == [*east, "chat-serve-0", "chat-serve-1"]


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_every_object_has_its_team_and_no_pod_does(
    capsys: pytest.CaptureFixture[str], stack: str
) -> None:
    objects = rendered(capsys, EXAMPLE, stack)
    assert {manifest["metadata"]["labels"].get(TEAM) for manifest in objects} == {"search"}
    assert yaml.safe_dump_all(objects).count(TEAM) == len(objects)


def test_another_team_restarts_nothing(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    configure(copy, "dev", team="ads")
    assert main(["diff", str(EXAMPLE), str(copy), "--stack", "dev"]) == 1
    told = capsys.readouterr().out
    assert "platform.example.com/team" in told
    assert told.startswith("objects: 9 changed; replicas: none restart\n")


def test_everything_that_is_not_allowed_stops_it_at_once(
    capsys: pytest.CaptureFixture[str], copy: Path
) -> None:
    configure(copy, "prod", gpuBudget=37, registries=["registry.k8s.io/"])
    assert main(["check", str(copy), "--stack", "prod"]) == 2
    told = capsys.readouterr().err
    wanted = [
        "the services need 38 GPUs, the budget is 37",
        "chat: image vllm/vllm-openai:v0.32.0 is not from registry.k8s.io/",
        "reasoning: image vllm/vllm-openai:v0.32.0 is not from registry.k8s.io/",
    ]
    for each in wanted:
        assert f"policy: {each}" in told


def test_the_pickers_image_is_checked_too(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    configure(copy, "dev", registries=["vllm/"])
    assert main(["check", str(copy), "--stack", "dev"]) == 2
    assert "chat: image registry.k8s.io/gateway-api-inference-ext" in capsys.readouterr().err


def test_the_budget_is_a_limit_that_may_be_reached(
    capsys: pytest.CaptureFixture[str], copy: Path
) -> None:
    configure(copy, "prod", gpuBudget=38)
    assert main(["check", str(copy), "--stack", "prod"]) == 0
